"""The repository's own pipeline on its default target, real vLLM 0.6.3: every stage, and only the edited lines."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from orchestrator.engine.outcome import AlreadyApplied, Applied, Skipped
from tests.behaviour import trees

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.core.tree import Tree
    from orchestrator.engine.outcome import Run

OPS = "vllm/attention/ops"
SIX = (
    "baseline-patch-ops",
    "triton-tuning-deployed",
    "triton-enable",
    "v2-kernel-deploy",
    "decode-threshold",
    "run-config-render",
)
OFF = {
    "qwen3-5-registry",  # until the user's own model module is deployed
    "triton-tuning-edited",  # the other one of its group is on
    "muh-headers",  # no injection point: the kernels are precompiled
    "v2-kernel-compiled",  # the target names no compiler
}
# File → how many of its lines go. In `paged_attn.py`: three that chose V1, and the call of `forward_prefix`, which
# `triton-enable` brings back further in. In `arg_utils.py`: the block that chose chunked prefill.
LINES_GONE = {
    "transformers/models/auto/configuration_auto.py": 0,
    "vllm/_custom_ops.py": 3,
    "vllm/attention/backends/xformers.py": 0,
    f"{OPS}/paged_attn.py": 24,
    "vllm/core/scheduler.py": 0,
    "vllm/engine/arg_utils.py": 23,
    "vllm/entrypoints/openai/api_server.py": 0,
    "vllm/entrypoints/openai/cli_args.py": 0,
    "vllm/entrypoints/openai/protocol.py": 0,
    "vllm/entrypoints/openai/serving_chat.py": 10,
    "vllm/entrypoints/openai/serving_completion.py": 0,
    "vllm/entrypoints/openai/tool_parsers/__init__.py": 0,
    "vllm/entrypoints/openai/tool_parsers/abstract_tool_parser.py": 0,
    "vllm/lora/punica.py": 1,
    "vllm/model_executor/layers/logits_processor.py": 0,
    "vllm/outputs.py": 1,
    "vllm/sequence.py": 0,
    "vllm/triton_utils/importing.py": 1,
    "vllm/worker/model_runner.py": 1,
}


@pytest.fixture(scope="module")
def whole() -> trees.Patched:
    return trees.default()


def crlf(tree: Tree) -> Tree:
    """Return the tree as one public copy of the vendor's has it."""
    changed = {path: raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") for path, raw in tree.items()}
    return tree.with_files({path: raw for path, raw in changed.items() if path.endswith(".py")})


@pytest.fixture(scope="module", params=["LF", "CRLF"])
def made(request: pytest.FixtureRequest, whole: trees.Patched) -> trees.Patched:
    """The run on the base as it is, and on the base with other line ends."""
    if request.param == "LF":
        return whole
    base = replace(whole.base, tree=crlf(whole.base.tree))
    return trees.patched(trees.request_for(), base)


def errors(done: Run) -> list[str]:
    return [str(d) for d in done.diagnostics if d.severity == "error"]


def deployed(done: Run) -> set[str]:
    return {deploy.to for result in done.results if result.in_effect for deploy in result.planned.deploys}


def test_every_stage_applies_and_the_six_keep_their_order(made: trees.Patched) -> None:
    assert errors(made.run) == []
    outcomes = {result.id: type(result.outcome) for result in made.run.results}
    assert outcomes == {id_: Skipped if id_ in OFF else Applied for id_ in outcomes}
    assert tuple(id_ for id_ in outcomes if id_ in SIX) == SIX


def test_the_edited_tiles_take_the_place_of_the_deployed_kernel_where_they_are_chosen(tmp_path: Path) -> None:
    on, off = "triton-tuning-edited", "triton-tuning-deployed"
    workspace = trees.workspace_copy(tmp_path, disabled=(off,), enabled=(on,))
    made = trees.patched(trees.request_for(workspace), trees.default().base).run
    assert errors(made) == []
    assert {type(r.outcome) for r in made.results if r.id in {on, "triton-enable", "v2-kernel-triton"}} == {Applied}
    assert [type(r.outcome) for r in made.results if r.id == off] == [Skipped]
    path = f"{OPS}/prefix_prefill.py"
    before, after = (tree[path].splitlines() for tree in (made.installed, made.tree))
    assert len(set(before) - set(after)) == len(set(after) - set(before)) == len(["the tile", "the warps"])


def test_every_codemod_stage_has_an_effect_that_would_be_missed(whole: trees.Patched) -> None:
    assert [d.message for d in whole.run.diagnostics if d.code == "W520"] == []


def test_only_the_files_of_the_stages_change(made: trees.Patched) -> None:
    assert set(made.run.tree.changed_since(made.run.installed)) == deployed(made.run) | set(LINES_GONE)
    assert set(made.run.tree) == set(made.run.installed) | deployed(made.run)


@pytest.mark.parametrize("path", LINES_GONE)
def test_only_the_edited_lines_differ(path: str, made: trees.Patched) -> None:
    before, after = (tree[path].splitlines(keepends=True) for tree in (made.run.installed, made.run.tree))
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    assert len(before) - sum(block.size for block in blocks) == LINES_GONE[path]


@pytest.mark.parametrize("path", LINES_GONE)
def test_new_lines_end_as_the_old_ones_do(path: str, made: trees.Patched) -> None:
    before, after = (made.run.installed[path], made.run.tree[path])
    ends = {line[len(line.rstrip(b"\r\n")) :] for line in before.splitlines(keepends=True)}
    assert {line[len(line.rstrip(b"\r\n")) :] for line in after.splitlines(keepends=True)} == ends
    assert after.endswith(b"\n") == before.endswith(b"\n")


def test_other_line_ends_give_the_same_code(whole: trees.Patched, made: trees.Patched) -> None:
    for path in LINES_GONE:
        lines = [run.tree[path].replace(b"\r\n", b"\n") for run in (made.run, whole.run)]
        assert lines[0] == lines[1]


def test_a_run_on_the_patched_tree_changes_nothing(made: trees.Patched, tmp_path: Path) -> None:
    """The tree is written and handed over, as whoever patches an installed package again would do it."""
    trees.write(made.run.tree, tmp_path)
    roots = tuple(f"{root}={tmp_path / root}" for root in ("vllm", "transformers"))
    again = trees.patched(trees.request_for(trees=roots))
    assert errors(again.run) == []
    outcomes = {r.id: type(r.outcome) for r in again.run.results if r.id not in OFF and r.id != SIX[-1]}
    assert outcomes == dict.fromkeys(outcomes, AlreadyApplied)
    assert again.run.base.digest == made.run.tree.digest
    assert again.run.tree.digest == made.run.tree.digest
    assert again.run.artefacts == made.run.artefacts
