"""Each stage of the repository's pipeline makes of its small tree what its golden folder says, byte for byte."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.cli.steps import make_plan_for
from orchestrator.code.indent import with_unit
from orchestrator.engine.outcome import AlreadyApplied, Applied
from orchestrator.testing import GoldenCase, golden_cases
from orchestrator.testing import golden as golden_stages
from orchestrator.testing.golden import Golden, apply, apply_again, deployed_files, made, read_golden
from tests.behaviour import trees

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.engine.outcome import Run
    from orchestrator.engine.plan import Plan

GOLDEN = Path(__file__).parent / "golden"
STAGES = sorted(folder.name for folder in GOLDEN.iterdir() if folder.is_dir())
EDITING = [name for name in STAGES if name not in {"run-config-render", "muh-headers"}]
TARGETS = {"v2-kernel-compiled": "targets/bi100.yaml"}
"""Stages that the default target skips, and the target that does not."""

each = pytest.mark.parametrize("stage", STAGES)


def edited(stage: str) -> list[str]:
    """Return the files that a stage edits: those that its folder shows before and after."""
    golden = read_golden(GOLDEN / stage)
    return [path for path in golden.after if path in golden.before]


@cache
def plan(stage: str = "") -> Plan:
    return make_plan_for(replace(trees.request_for(trees=()), target=TARGETS.get(stage)))


def errors(done: Run) -> list[str]:
    # Who reaches what a stage brings (E513) may stand in a file that the folder does not have.
    return [str(d) for d in done.diagnostics if d.severity == "error" and d.code != "E513"]


def assert_golden(golden: Golden) -> Run:
    """Check that the stage makes exactly what the folder says, and return its run."""
    done = apply(plan(golden.stage), golden)
    assert errors(done) == []
    assert {type(result.outcome) for result in done.results} == {Applied}
    assert made(done) == dict(golden.after)
    return done


def test_every_stage_has_its_golden_folder() -> None:
    # What a wheel brings is no change that a folder could show: tests/engine/test_wheels.py.
    assert {planned.id for planned in plan().stages if not planned.wheels} == set(STAGES)


@pytest.mark.parametrize("case", golden_cases(GOLDEN.parents[1], "tests/golden", targets=TARGETS), ids=str)
def test_a_stage_makes_what_its_folder_says_whatever_the_shape_of_the_file(case: GoldenCase) -> None:
    case.check()


@each
def test_deployed_files_are_their_sources(stage: str) -> None:
    done = apply(plan(stage), read_golden(GOLDEN / stage))
    assert deployed_files(done) == {deploy.to for deploy in done.results[0].planned.stage.deploy if deploy.source}


@each
def test_nothing_else_is_written(stage: str) -> None:
    golden = read_golden(GOLDEN / stage)
    done = apply(plan(golden.stage), golden)
    written = set(done.tree.changed_since(done.base)) | set(done.artefacts)
    assert written == set(golden.after) | deployed_files(done)
    assert set(golden.before) <= set(done.tree)


@pytest.mark.parametrize("stage", [*EDITING, "muh-headers"])
def test_a_second_run_knows_its_own_work(stage: str) -> None:
    golden = read_golden(GOLDEN / stage)
    first = apply(plan(golden.stage), golden)
    again = apply_again(plan(golden.stage), golden, first)
    assert errors(again) == []
    assert [type(result.outcome) for result in again.results] == [AlreadyApplied]
    assert again.tree.digest == first.tree.digest


@pytest.mark.parametrize("stage", EDITING)
def test_without_a_chain_too_nothing_is_done_twice(stage: str) -> None:
    golden = read_golden(GOLDEN / stage)
    first = apply(plan(golden.stage), golden)
    again = golden_stages.apply(plan(stage), Golden(stage, first.tree, golden.after))
    assert again.tree.digest == first.tree.digest


@pytest.mark.parametrize("stage", [name for name in EDITING if edited(name)])
def test_a_tree_with_half_of_a_stage_is_refused(stage: str) -> None:
    """One edited file is put back: what is left of the stage makes it a mix, unless nothing is left."""
    golden = read_golden(GOLDEN / stage)
    first = apply(plan(golden.stage), golden)
    for path in edited(stage):
        mixed = first.tree.with_files({path: golden.before[path]})
        done = golden_stages.apply_again(plan(golden.stage), golden, first, mixed)
        alone = first.tree.changed_since(first.base) == (path,)
        expected = first.tree if alone else mixed
        assert done.tree.digest == expected.digest
        assert done.failed is not alone
        assert {d.code for d in done.diagnostics if d.severity == "error"} == (set() if alone else {"E413"})


# --- the shapes of a file that an edit must not change ------------------------------------------------------------


def unended(raw: bytes) -> bytes:
    return raw.removesuffix(b"\n")


def latin(raw: bytes) -> bytes:
    return "# -*- coding: latin-1 -*-\n# größer\n".encode("latin-1") + raw


SHAPES: dict[str, Callable[[bytes], bytes]] = {
    "no last line end": unended,
    "CRLF and no last line end": lambda raw: unended(raw).replace(b"\n", b"\r\n"),
    "a latin-1 cookie": latin,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stage", EDITING)
def test_the_same_edit_is_made_to_a_file_with(shape: str, stage: str) -> None:
    golden = read_golden(GOLDEN / stage).varied(SHAPES[shape])
    done = assert_golden(golden)
    again = apply_again(plan(golden.stage), golden, done)
    assert [type(result.outcome) for result in again.results] == [AlreadyApplied]
    assert again.tree.digest == done.tree.digest


def statement_indents(text: str) -> set[str]:
    """Return what stands in front of the statements."""
    lines = text.splitlines()
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt))
    return {lines[node.lineno - 1][: node.col_offset] for node in nodes}


@pytest.mark.parametrize("stage", EDITING)
def test_the_same_edit_is_made_to_a_file_indented_by_tabs(stage: str) -> None:
    """Statements are indented by tabs; a line that goes on may keep its blanks behind them."""
    golden = read_golden(GOLDEN / stage).varied(lambda raw: with_unit(raw.decode(), "\t").encode())
    done = apply(plan(golden.stage), golden)
    assert errors(done) == []
    found = made(done)
    assert set(found) == set(golden.after)
    for path, expected in ((path, raw) for path, raw in golden.after.items() if path in golden.before):
        text, wanted = found[path].decode(), expected.decode()
        assert [line.lstrip() for line in text.splitlines()] == [line.lstrip() for line in wanted.splitlines()]
        assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(wanted))
        assert {indent.strip("\t") for indent in statement_indents(text)} == {""}
        kept = Counter(golden.before[path].splitlines()) & Counter(expected.splitlines())
        assert kept <= Counter(found[path].splitlines())  # what no edit touched is as it was
