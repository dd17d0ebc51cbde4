"""The context fits the KV cache, or the configuration is refused before a server starts (worked examples 6 and 7)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.checks.verdict import Status
from tests.checks.serving.conftest import ARGUMENTS, FILE, TREE

if TYPE_CHECKING:
    from tests.checks.serving.conftest import Serve

RIGHT = "class Config:\n    @property\n    def layers_block_type(self): ...\n"


def arguments(length: int, tokens: int, share: float = 0.9, *more: str) -> list[str]:
    given = {"--max-model-len": length, "--max-num-batched-tokens": tokens, "--gpu-memory-utilization": share}
    return ["-tp", "4", *(str(word) for pair in given.items() for word in pair), *more]


def test_a_context_beyond_the_measured_blocks_is_refused_with_the_largest_legal_one(serve: Serve) -> None:
    found = serve.judge(*arguments(100_000, 100_000))
    assert found.status is Status.FAILS
    assert [f"{d.code} {d.message}" for d in found.findings] == [
        (
            "E542 capacity: --max-model-len 100000 is longer than the KV cache: 5,507 blocks (measured) hold "
            "88,112 tokens with --gpu-memory-utilization 0.9, 100,000 batched tokens and 40 layers counted; "
            "the largest legal --max-model-len is 88112"
        )
    ]
    assert "attention layers alone (derived) it would hold 352,4" in found.findings[0].help


def test_the_length_that_was_called_legal_is(serve: Serve) -> None:
    assert serve.found(*arguments(88_112, 100_000)) == []


def test_67512_blocks_hold_262144_tokens(serve: Serve) -> None:
    serve.file("transformers/model/config.py", RIGHT)
    found = serve.judge(*arguments(262_144, 8192, 0.9, "--enable-chunked-prefill"))
    assert found.status is Status.HOLDS
    assert found.evidence.endswith("KV cache of 1,080,192 tokens (measured) for a context of 262,144")


def test_the_accounting_follows_the_tree(serve: Serve) -> None:
    given = arguments(353_000, 8192, 0.9, "--enable-chunked-prefill")
    assert [said[:4] for said in serve.found(*given)] == ["E542"]
    serve.file("transformers/model/config.py", RIGHT)
    assert serve.found(*given) == []


@pytest.mark.parametrize(
    "text", ["# layers_block_type\n", "x = 'layers_block_type'\n", "x = config.layers_block_type\n"]
)
def test_only_code_that_defines_the_sign_is_one(serve: Serve, text: str) -> None:
    serve.file("transformers/model/config.py", text)
    assert serve.found(*arguments(353_000, 8192, 0.9, "--enable-chunked-prefill")) != []


@pytest.mark.parametrize(
    "text", ["class A:\n    layers_block_type = []\n", "def f(self):\n    self.layers_block_type = []\n"]
)
def test_an_attribute_is_a_sign_too(serve: Serve, text: str) -> None:
    serve.file("transformers/model/config.py", text)
    assert serve.found(*arguments(353_000, 8192, 0.9, "--enable-chunked-prefill")) == []


def test_what_the_fit_leaves_open_is_not_refused(serve: Serve) -> None:
    evidence = serve.judge(*arguments(1000, 32_768, 0.95, "--enable-chunked-prefill")).evidence
    fitted = int(evidence.partition("KV cache of ")[2].partition(" tokens")[0].replace(",", ""))
    assert serve.found(*arguments(fitted + 16, 32_768, 0.95, "--enable-chunked-prefill")) == []
    assert serve.found(*arguments(fitted + 16_000, 32_768, 0.95, "--enable-chunked-prefill")) != []


def test_a_number_of_blocks_on_the_command_line_counts_as_it_is(serve: Serve) -> None:
    given = arguments(88_113, 100_000, 0.95)
    assert serve.found(*given) == []
    found = serve.found(*given, "--num-gpu-blocks-override", "5507")
    assert len(found) == 1
    assert "5,507 blocks (--num-gpu-blocks-override) hold 88,112 tokens" in found[0]


@pytest.mark.parametrize("missing", ["device.memory_bytes", "model.layers", "model.head_dim"])
def test_without_a_figure_nothing_is_refused_and_the_figure_is_named(serve: Serve, missing: str) -> None:
    figures = {name: quantity for name, quantity in serve.serving.figures.items() if name != missing}
    serve.facts(figures=figures)
    found = serve.judge(*arguments(99_999, 99_999))
    assert found.status is Status.HOLDS
    assert f"KV capacity unknown: no {missing}" in found.evidence


def test_without_measured_runs_the_capacity_is_unknown(serve: Serve) -> None:
    serve.facts(memory_runs=())
    assert serve.judge(*arguments(100_000, 100_000)).evidence.endswith("KV capacity unknown: no memory_runs")


@pytest.mark.parametrize(
    "more", [["--quantization", "awq"], ["--kv-cache-dtype", "fp8"], ["--cpu-offload-gb", "4"], ["--enable-lora"]]
)
def test_options_that_no_measured_start_had_make_the_capacity_unknown(serve: Serve, more: list[str]) -> None:
    serve.facts(server=None)  # whose small parser does not know them
    found = serve.judge(*arguments(100_000, 100_000), *more)
    assert found.status is Status.HOLDS
    assert found.evidence.endswith(f"KV capacity unknown: no measured start with {more[0]}")


@pytest.mark.parametrize("more", [["--kv-cache-dtype", "auto"], ["--dtype", "half"], ["--cpu-offload-gb", "0"]])
def test_their_usual_values_change_nothing(serve: Serve, more: list[str]) -> None:
    serve.facts(server=None)
    assert [finding.code for finding in serve.judge(*arguments(100_000, 100_000), *more).findings] == ["E542"]


def test_the_context_alone_is_where_the_fault_stands(serve: Serve) -> None:
    place = serve.judge(*arguments(100_000, 100_000)).findings[0].place
    assert place is not None
    assert place.file == FILE
    assert "--max-model-len" in serve.scene.artefacts[FILE].splitlines()[place.line - 1]


# ------------------------------------------------------------------------------------------- rules 4, 5, 7, block
@pytest.mark.parametrize("more", [[], ["--enable-chunked-prefill"]])
def test_several_steps_on_this_backend_are_refused_with_the_rule(serve: Serve, more: list[str]) -> None:
    found = serve.found("--max-model-len", "8192", "--num-scheduler-steps", "8", *more)
    with_, able = (" with chunked prefill", "FLASH_ATTN") if more else ("", "FLASH_ATTN or FLASHINFER")
    assert found == [
        (
            f"E540 rule 4: --num-scheduler-steps 8{with_} needs the attention backend {able}, this image has XFORMERS; "
            "the largest legal --num-scheduler-steps is 1"
        )
    ]
    assert serve.found("--max-model-len", "8192", "--num-scheduler-steps", "1", *more) == []


def test_several_steps_are_fine_where_the_backend_takes_them(serve: Serve) -> None:
    serve.values["engine.attention_backend"] = "FLASHINFER"
    given = ["--max-model-len", "8192", "--num-scheduler-steps", "8"]
    assert serve.found(*given) == []
    assert len(serve.found(*given, "--enable-chunked-prefill")) == 1


def test_where_the_backend_is_not_known_several_steps_are_not_judged(serve: Serve) -> None:
    del serve.values["engine.attention_backend"]
    assert serve.found("--max-model-len", "8192", "--num-scheduler-steps", "8") == []


def test_limits_of_a_multimodal_model_are_refused_for_text_alone(serve: Serve) -> None:
    assert serve.found("--limit-mm-per-prompt", "image=2") == [
        "E540 rule 5: --limit-mm-per-prompt image=2 is refused for a model that takes text alone; leave it out"
    ]
    assert serve.found("--limit-mm-per-prompt", "image=2", multimodal=True) == []


def test_the_model_s_kind_is_the_target_s_figure(serve: Serve) -> None:
    serve.values["model.multimodal"] = True
    assert serve.found("--limit-mm-per-prompt", "image=2") == []


def test_parallel_answers_need_as_many_sequences(serve: Serve) -> None:
    assert serve.found("--max-num-seqs", "2", answers=4) == [
        (
            "E540 rule 7: 4 parallel answers need as many sequences, and --max-num-seqs 2 is fewer; "
            "the smallest legal --max-num-seqs is 4, the largest legal n is 2"
        )
    ]
    assert serve.found("--max-num-seqs", "4", answers=4) == []


def test_blocks_of_another_size_are_refused(serve: Serve) -> None:
    assert serve.found("--block-size", "32") == [
        "E540 --block-size 32: the cache of this image has blocks of 16, the only legal value"
    ]


@pytest.mark.parametrize("share", ["0", "1.1", "-1", "much", "nan"])
def test_a_share_of_the_memory_is_one(serve: Serve, share: str) -> None:
    assert serve.found("--gpu-memory-utilization", share) == [
        f"E540 --gpu-memory-utilization has '{share}', which is no share above 0 and up to 1"
    ]


def test_the_stage_that_edits_the_engine_s_own_choice_is_named_where_it_would_help(serve: Serve) -> None:
    serve.facts(editors={"vllm/engine/arg_utils.py": ("no-chunking",)})
    found = serve.found("--max-model-len", "65536", "--max-num-batched-tokens", "8192")
    assert found[0].endswith(
        "; rule 3: above 32768 the published engine chunks by itself, and here stage 'no-chunking' edits that choice"
    )
    found = serve.found("--max-model-len", "16384", "--max-num-batched-tokens", "8192")
    assert "rule 3" not in found[0]


# ------------------------------------------------------------------------------------------------- whatever is given
VALUES = st.sampled_from(["", "0", "-1", "1", "16", "100000", "262145", "1e3", "x", "true", "nan", "0.9", None])
OPTIONS = st.sampled_from(sorted(set(re.findall(r"'--([a-z-]+)'", str(TREE[ARGUMENTS])))))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.lists(st.tuples(OPTIONS, VALUES), max_size=6), st.booleans())
def test_whatever_the_options_are_the_answer_is_a_verdict(
    serve: Serve,
    drawn: list[tuple[str, str | None]],
    multimodal: bool,  # noqa: FBT001 - drawn
) -> None:
    words = [word for name, value in drawn for word in (f"--{name}", *([] if value is None else [value]))]
    found = serve.judge(*words, multimodal=multimodal)
    assert found.evidence
    assert (found.status is Status.FAILS) is any(finding.code.startswith("E") for finding in found.findings)
