"""The repository's run configurations, judged by the arithmetic and by the patched server's own code."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.checks.run_config import RunConfigFits
from orchestrator.checks.serving.effective import forcings
from orchestrator.checks.serving.options import parser_of, registered
from orchestrator.checks.view import View
from orchestrator.device.quantity import Known
from orchestrator.emit.memory import memory_records
from tests.behaviour import trees

if TYPE_CHECKING:
    from orchestrator.engine.outcome import Run

FILE = "computility-run.yaml"


@pytest.fixture(scope="module")
def whole() -> trees.Patched:
    return trees.default()


@cache
def variant(name: str | None, *settings: str) -> Run:
    """Return the run of a variant."""
    if name is None and not settings:
        return trees.default().run
    request = replace(trees.request_for(), variant=name, settings=settings)
    return trees.patched(request, trees.default().base).run


def view_of(done: Run) -> View:
    return View(done.tree, done.installed, done.plan.facts, done.artefacts)


def codes(done: Run) -> list[str]:
    """Return the codes about the run configuration."""
    result = next(result for result in done.results if result.id == "run-config-render")
    return [found.code for found in result.diagnostics]


# ------------------------------------------------------------------------------------------ the server's own code
def test_the_patched_server_s_options_are_read_off_its_parser(whole: trees.Patched) -> None:
    server = whole.plan.facts.serving.server
    assert server is not None
    parser = parser_of(view_of(whole.run), tuple(server.argument_files))
    assert parser is not None
    assert parser.whole
    known = parser.options
    assert {"-tp", "--max-model-len", "--reasoning-parser", "--disable-log-requests", "--tool-call-parser"} <= set(
        known
    )
    assert known["-tp"].name == "tensor-parallel-size"
    assert (known["--enforce-eager"].takes, known["--enable-chunked-prefill"].takes, known["--seed"].takes) == (
        *("none", "maybe"),
        "one",
    )
    assert known["--block-size"].choices == ("8", "16", "32")
    base = View(whole.run.installed, whole.run.installed, whole.plan.facts)
    before = parser_of(base, tuple(server.argument_files))
    assert before is not None
    assert set(known) - set(before.options) == {"--reasoning-parser"}


def test_a_tool_parser_is_known_from_the_stage_that_brings_it(whole: trees.Patched) -> None:
    server = whole.plan.facts.serving.server
    assert server is not None
    [registry] = server.registries
    after = registered(view_of(whole.run), registry)
    before = registered(View(whole.run.installed, whole.run.installed, whole.plan.facts), registry)
    assert before is not None
    assert after is not None
    assert set(before) == {"hermes", "internlm", "llama3_json", "mistral"}
    assert set(after) - set(before) == {"qwen3_coder"}


def test_what_the_fork_forces_is_read_off_its_code(whole: trees.Patched) -> None:
    found = forcings(view_of(whole.run), whole.plan.facts.serving.server)
    assert {(forcing.option, forcing.value, forcing.place.file) for forcing in found} == {
        ("enforce-eager", True, "vllm/engine/arg_utils.py"),
        ("disable-custom-all-reduce", True, "vllm/engine/arg_utils.py"),
    }


# ----------------------------------------------------------------------------------------- the seeds' variants
@pytest.mark.parametrize("name", [None, "first", "aggressive"])
def test_the_seeds_configurations_start_by_the_measured_runs(name: str | None) -> None:
    done = variant(name)
    assert codes(done) == ["W540"]  # the capture length, under forced eager
    [record] = memory_records(done)
    assert record["rows"][0]["refused"] == []
    assert record["accounting"] == "every layer"
    held = {cache["accounting"]: cache["tokens"]["value"] for cache in record["rows"][0]["caches"]}
    assert held["every layer"] >= record["context_tokens"]
    assert held["attention layers"] >= 3.9 * held["every layer"]


def whole_contexts(record: dict[str, Any], accounting: str, tokens: int) -> int:
    """Return how many sequences of this many tokens the chosen setting's cache holds."""
    cache = next(cache for cache in record["rows"][0]["caches"] if cache["accounting"] == accounting)
    return int(cache["blocks"]["value"] // -(-tokens // 16))


def test_256_sequences_of_2048_tokens_fit_by_the_right_accounting_alone() -> None:
    [record] = memory_records(variant("aggressive"))
    assert whole_contexts(record, "every layer", 2048) < 256 <= whole_contexts(record, "attention layers", 2048)


def test_with_the_seeds_own_activation_the_aggressive_one_would_have_no_cache_at_all() -> None:
    [record] = memory_records(variant("aggressive"))
    row = record["rows"][0]
    stated = trees.default().plan.facts.serving.figures["engine.activation_bytes_at_32768_tokens"]
    assert isinstance(stated, Known)
    seeds = max(stated.values)
    assert row["given"]["value"] - min(row["weights"]["values"]) - seeds < 0
    assert max(row["activation"]["values"]) < seeds / 3


def test_one_pass_over_100000_tokens_is_refused_as_it_was_on_the_device() -> None:
    done = variant(None, "max_num_batched_tokens=100000")
    assert "E542" in codes(done)
    [fault] = [d for d in done.diagnostics if d.code == "E542"]
    assert "5,507 blocks (measured) hold 88,112 tokens" in fault.message
    assert memory_records(done) == []  # nothing was rendered


def test_262144_tokens_fit_where_attention_layers_alone_are_counted(whole: trees.Patched) -> None:
    facts = whole.plan.facts
    sign = "transformers/models/qwen3_5/configuration_qwen3_5.py"
    tree = whole.run.tree.with_files({sign: whole.run.tree[sign] + b"\n\ndef layers_block_type(): ...\n"})
    text = whole.run.artefacts[FILE].replace(b"'100000'", b"'262144'")
    done = RunConfigFits(check="run_config", file=FILE).judge(View(tree, tree, facts, {FILE: text}))
    assert done.holds
    assert "KV cache of 1,080,192 tokens (measured) for a context of 262,144" in done.evidence


# --------------------------------------------------------------------------------------- the stages that matter
def test_a_flag_without_its_stage_is_refused_and_the_stage_is_named(whole: trees.Patched) -> None:
    base = View(whole.run.installed, whole.run.installed, whole.plan.facts, whole.run.artefacts)
    found = RunConfigFits(check="run_config", file=FILE).judge(base).findings
    said = [finding.message for finding in found if finding.code == "E541"]
    assert len(said) == 2
    assert "knows no --reasoning-parser; stage 'reasoning-parser' provides it" in said[0]
    assert "registers --tool-call-parser qwen3_coder; stage 'qwen3-coder-tools' provides the option" in said[1]


def test_without_chunked_prefill_the_stage_that_took_the_engine_s_choice_away_is_named(whole: trees.Patched) -> None:
    artefacts = {FILE: whole.run.artefacts[FILE].replace(b"  - --enable-chunked-prefill\n", b"")}
    check = RunConfigFits(check="run_config", file=FILE)
    patched = check.judge(replace(view_of(whole.run), artefacts=artefacts))
    [fault] = [finding for finding in patched.findings if finding.code == "E540"]
    assert fault.message.startswith("rule 1: without chunked prefill, --max-num-batched-tokens 8192")
    assert "stage 'no-chunking-by-itself' edits that choice" in fault.message
    base = View(whole.run.installed, whole.run.installed, whole.plan.facts, artefacts)
    assert [finding.code for finding in check.judge(base).findings if finding.code == "E540"] == []


def test_a_lost_custom_ipc_is_an_error_and_one_in_the_dockerfile_is_not(whole: trees.Patched) -> None:
    lost = whole.run.artefacts[FILE].replace(b"ENABLE_CUSTOM_IPC", b"VLLM_NO_USAGE_STATS")
    check = RunConfigFits(check="run_config", file=FILE)
    view = replace(view_of(whole.run), artefacts={FILE: lost})
    assert [finding.code for finding in check.judge(view).findings] == ["W540", "E544"]
    serving = replace(view.facts.serving, dockerfile_environment={"ENABLE_CUSTOM_IPC": "1"})
    moved = replace(view, facts=replace(view.facts, serving=serving))
    assert [finding.code for finding in check.judge(moved).findings] == ["W540"]


def test_several_scheduler_steps_are_refused_on_this_backend(whole: trees.Patched) -> None:
    text = whole.run.artefacts[FILE].replace(b"  - -tp\n", b"  - --num-scheduler-steps\n  - '8'\n  - -tp\n")
    view = replace(view_of(whole.run), artefacts={FILE: text})
    found = RunConfigFits(check="run_config", file=FILE).judge(view).findings
    assert [finding.message for finding in found if finding.code == "E540"] == [
        (
            "rule 4: --num-scheduler-steps 8 with chunked prefill needs the attention backend FLASH_ATTN, "
            "this image has XFORMERS; the largest legal --num-scheduler-steps is 1"
        )
    ]
