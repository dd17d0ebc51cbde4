"""Stages that rest on one another: a declared edge, or an error that names the stage; nothing is written twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.core.diagnostics import Severity
from orchestrator.core.tree import Tree
from orchestrator.engine.run import run
from tests.workspaces import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.core.diagnostics import Diagnostic
    from orchestrator.engine.outcome import Run

FILES = {
    "pkg/__init__.py": b"",
    "pkg/a.py": b"def first(x):\n    y = x + 1\n    return y\n\n\nfirst(2)\n",
    "pkg/models/__init__.py": b"",
    "pkg/models/registry.py": b'MODELS = {\n    "A": ("one", "One"),\n    "B": ("two", "Two"),\n}\n',
    "pkg/models/one.py": b"class One: pass\n",
    "pkg/models/two.py": b"class Two: pass\n",
}

BRING = """\
  - id: bring
    kind: codemod
    summary: Bring it.
    {keys}
    edits:
      - {op: insert, file: pkg/a.py, within: first, before: return y, code: y = y * 2}
    post:
      - {check: match_count, file: pkg/a.py, pattern: y = y * 2, equals: 1, until: tune}
"""
TUNE = """\
  - id: tune
    kind: codemod
    summary: Tune it.
    {keys}
    edits:
      - {op: replace, file: pkg/a.py, within: first, match: y = y * 2, with: y = y * 3}
    post:
      - {check: match_count, file: pkg/a.py, pattern: y = y * 3, equals: 1}
"""


def tuned(change: str, pattern: str) -> str:
    """Return the second stage with another change and what it leaves."""
    return TUNE.replace("match: y = y * 2, with: y = y * 3", change).replace("pattern: y = y * 3", pattern)


def stages(*pairs: tuple[str, str]) -> str:
    return "".join(text.replace("    {keys}\n", f"    {keys}\n" if keys else "") for text, keys in pairs)


class Bench:
    def __init__(self, folder: Path) -> None:
        self.workspace = Workspace.at(folder)

    def run(self, text: str, files: dict[str, bytes] = FILES) -> Run:
        self.workspace.pipeline(text)
        return run(self.workspace.plan(), Tree(files))

    def faults(self, text: str) -> list[Diagnostic]:
        return [d for d in self.run(text).diagnostics if d.severity is Severity.ERROR]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# --- an anchor on what another stage writes ---


def test_an_anchor_on_the_output_of_another_stage_is_an_edge_to_declare(bench: Bench) -> None:
    (fault,) = bench.faults(stages((BRING, ""), (TUNE, "")))
    assert (fault.code, fault.stage) == ("E515", "tune")
    assert fault.message == "stage 'tune' anchors on code that stage 'bring' writes, and does not need it"
    assert bench.faults(stages((BRING, ""), (TUNE, "needs: [bring]"))) == []
    assert bench.faults(stages((BRING, ""), (TUNE, "after: [bring]"))) == []


@pytest.mark.parametrize(("rule", "change"), [("E515", "y = y * 2"), ("E510", "y = x + 1")])
def test_an_edge_that_is_missing_can_be_waived_with_the_reason(bench: Bench, rule: str, change: str) -> None:
    second = tuned(f"match: {change}, with: y = 7", "pattern: y = 7")
    first = BRING if rule == "E515" else BRING.replace(", until: tune", "")
    assert [fault.code for fault in bench.faults(stages((first, ""), (second, "")))] == [rule]
    done = bench.run(stages((first, ""), (second, f"waive: [{{rule: {rule}, because: the order is right as it is}}]")))
    assert [(d.code, d.severity, d.notes) for d in done.findings] == [
        (rule, Severity.NOTE, ("waived: the order is right as it is",))
    ]


def test_what_is_gone_because_a_stage_is_off_names_that_stage(bench: Bench) -> None:
    (fault,) = bench.faults(stages((BRING, "enabled: false"), (TUNE, "after: [bring]")))
    assert fault.code == "E403"
    assert fault.message.endswith("; stage 'bring' would have written it and is off (enabled: false)")
    assert bench.faults(stages((BRING, "enabled: false"), (TUNE, "needs: [bring]"))) == []


def test_what_only_a_chain_of_stages_that_are_off_would_write_names_the_last(bench: Bench) -> None:
    third = tuned("match: y = y * 3, with: y = y * 4", "pattern: y = y * 4").replace("tune", "third")
    (fault,) = bench.faults(stages((BRING, "enabled: false"), (TUNE, "needs: [bring]"), (third, "after: [tune]")))
    assert "stage 'tune' would have written it and is off (needs 'bring', which is skipped)" in fault.message


def test_what_a_later_stage_writes_names_that_stage(bench: Bench) -> None:
    (fault,) = bench.faults(stages((TUNE, ""), (BRING.replace(", until: tune", ""), "")))
    assert fault.message.endswith("; stage 'bring' writes it, but only after this stage")


def test_a_definition_that_another_stage_brings_is_rested_on(bench: Bench) -> None:
    brought = BRING.replace(
        "{op: insert, file: pkg/a.py, within: first, before: return y, code: y = y * 2}",
        '{op: insert, file: pkg/a.py, after: "def first(x): ${_...}", '
        'code: "def second(x):\\n    y = 5\\n    return y\\nsecond(1)"}',
    ).replace("pattern: y = y * 2, equals: 1, until: tune", "pattern: second(1), equals: 1")
    changing = tuned("match: y = 5, with: y = 6", "pattern: y = 6").replace("within: first", "within: second")
    (fault,) = bench.faults(stages((brought, ""), (changing, "")))
    assert (fault.code, fault.stage) == ("E515", "tune")
    (fault,) = bench.faults(stages((brought, "enabled: false"), (changing, "after: [bring]")))
    assert (fault.code, "'bring' would have written it" in fault.message) == ("E402", True)


def test_stages_that_only_meet_in_one_definition_are_ordered_and_rest_on_nobody(bench: Bench) -> None:
    other = tuned("match: y = x + 1, with: y = x + 7", "pattern: y = x + 7")
    (fault,) = bench.faults(stages((BRING.replace(", until: tune", ""), ""), (other, "")))
    assert fault.code == "E510"


def test_a_finding_belongs_to_the_stage_that_wrote_its_line(bench: Bench) -> None:
    unread = BRING.replace("{op: insert, file: pkg/a.py, within: first, before: return y, code: y = y * 2}", UNREAD)
    unread = unread.replace("pattern: y = y * 2, equals: 1, until: tune", "pattern: UNREAD = 1, equals: 1")
    other = tuned("match: y = x + 1, with: y = x + 7", "pattern: y = x + 7")
    (fault,) = bench.faults(stages((unread, ""), (other, "needs: [bring]")))
    assert (fault.code, fault.stage) == ("E513", "bring")


UNREAD = "{op: insert, file: pkg/a.py, at: end, code: UNREAD = 1}"

# --- files as a whole ---

DEPLOY = """\
  - id: {id}
    kind: codemod
    summary: Deploy it.
    {keys}
    deploy:
      - {source: SOURCE, to: pkg/models/qwen3_5.py}
    post:
      - {check: symbol_exists, file: pkg/models/qwen3_5.py, name: Qwen3_5MoeForCausalLM}
"""
MODEL = "class Qwen3_5MoeForCausalLM: pass\n"
REGISTER = """\
  - id: register
    kind: codemod
    summary: Register it.
    edits:
      - {op: insert, file: pkg/models/registry.py, at: end, code: 'MODELS["Q"] = ("qwen3_5", "Qwen3_5MoeForCausalLM")'}
    post:
      - {check: text_count, file: pkg/models/registry.py, text: qwen3_5, equals: 1}
"""
REACHED = "waive: [{rule: E513, because: the registry is read by the server}]"


def deploy(id_: str = "deploy", source: str = "m.py") -> str:
    return DEPLOY.replace("{id}", id_).replace("SOURCE", source)


def test_a_registry_entry_needs_the_stage_that_deploys_its_module(bench: Bench) -> None:
    bench.workspace.write("m.py", MODEL)
    (fault,) = bench.faults(REGISTER)
    assert (fault.code, fault.stage) == ("E514", "register")
    assert bench.faults(stages((deploy(), REACHED), (REGISTER, ""))) == []
    (fault,) = bench.faults(stages((deploy(), "enabled: false"), (REGISTER, "")))
    assert fault.code == "E514"
    assert "stage 'deploy', which is off (enabled: false), deploys it" in fault.notes


def test_two_stages_do_not_deploy_to_one_place_in_silence(bench: Bench) -> None:
    bench.workspace.write("m.py", MODEL)
    bench.workspace.write("same.py", MODEL)
    bench.workspace.write("n.py", f"{MODEL}X = 1\n")
    for source in ("n.py", "same.py"):
        twice = stages((deploy(), REACHED), (deploy("again", source), "after: [deploy]"), (REGISTER, ""))
        (fault,) = bench.faults(twice)
        assert (fault.code, fault.message) == ("E417", "pkg/models/qwen3_5.py exists already; stage 'deploy' wrote it")
        said = twice.replace(f"{source}, to:", f"{source}, replaces: newer, to:")
        said = said.replace("after: [deploy]", f"after: [deploy]\n    {REACHED}")
        assert bench.faults(said) == []


def test_one_stage_writes_a_file_once(bench: Bench) -> None:
    bench.workspace.write("m.py", MODEL)
    one = "      - {source: m.py, to: pkg/models/qwen3_5.py}\n"
    twice = deploy().replace(one, one + one)
    (fault, *_) = bench.faults(stages((twice, "")))
    assert fault.code == "E417"
    assert fault.message == "the stage writes pkg/models/qwen3_5.py twice, so one of the two is lost"
    edited = BRING.replace("    post:", "    deploy:\n      - {source: m.py, to: pkg/a.py, replaces: ours}\n    post:")
    (fault, *_) = bench.faults(stages((edited.replace(", until: tune", ""), "")))
    assert "the stage writes pkg/a.py twice" in fault.message


def test_an_edit_of_a_deployed_file_without_an_edge_is_refused(bench: Bench) -> None:
    bench.workspace.write("m.py", MODEL.replace("pass", "size = 1") + "Qwen3_5MoeForCausalLM.size\n")
    edit = tuned("match: size = 1, with: size = 2", "pattern: size = 2").replace("within: first, ", "")
    edit = edit.replace("pkg/a.py", "pkg/models/qwen3_5.py")
    both = stages((deploy(), REACHED), (edit, ""), (REGISTER, ""))
    (fault,) = bench.faults(both)
    assert (fault.code, fault.stage) == ("E515", "tune")
    assert bench.faults(stages((deploy(), REACHED), (edit, "needs: [deploy]"), (REGISTER, ""))) == []
    (fault, *_) = bench.faults(stages((deploy(), "enabled: false"), (edit, "after: [deploy]")))
    assert (fault.code, "'deploy' would have written it" in fault.message) == ("E401", True)


# --- a transform that works on what another stage writes ---

TRANSFORM = """\
import libcst as cst
from pydantic import BaseModel


class Params(BaseModel):
    pass


class Change(cst.CSTTransformer):
    def leave_Integer(self, original_node, updated_node):
        return updated_node.with_changes(value="9") if updated_node.value == "OLD" else updated_node


def transform(module, params):
    CONDITION
    return module.visit(Change())
"""
BY_TRANSFORM = """\
  - id: tune
    kind: codemod
    summary: Tune it.
    {keys}
    edits:
      - {op: transform, file: pkg/a.py, use: change}
    post:
      - {check: match_count, file: pkg/a.py, pattern: "9", equals: 1}
"""


@pytest.mark.parametrize(
    ("old", "condition", "rests"),
    [
        ("2", "pass", False),  # of the base: first(2)
        ("3", "pass", True),  # of the earlier stage: y = y * 3
        ("1", 'if "* 3" not in module.code: raise ValueError("no")', True),  # asks for what it leaves alone
    ],
    ids=["of the base", "of a stage", "on the condition of a stage"],
)
def test_a_transform_rests_on_the_stage_without_which_it_does_nothing(
    bench: Bench, old: str, condition: str, *, rests: bool
) -> None:
    bring = BRING.replace("y * 2", "y * 3").replace(", until: tune", "" if old != "3" else ", until: tune")
    bench.workspace.write("stages/change.py", TRANSFORM.replace("OLD", old).replace("CONDITION", condition))
    found = [(f.code, f.stage) for f in bench.faults(stages((bring, ""), (BY_TRANSFORM, "")))]
    assert [each for each in found if each[0] == "E515"] == ([("E515", "tune")] if rests else [])
    assert bench.faults(stages((bring, ""), (BY_TRANSFORM, "needs: [bring]"))) == []


def test_a_transform_of_a_file_that_another_stage_brings_rests_on_it(bench: Bench) -> None:
    bench.workspace.write("k.py", "K = 3\nprint(K)\n")
    bring = "  - id: bring\n    kind: template\n    summary: Bring it.\n    deploy:\n"
    bring += "      - {source: k.py, to: pkg/a2.py}\n    waive: [{rule: E513, because: a test}]\n"
    bench.workspace.write("stages/change.py", TRANSFORM.replace("OLD", "3").replace("CONDITION", "pass"))
    tune = BY_TRANSFORM.replace("pkg/a.py", "pkg/a2.py")
    assert "E515" in [f.code for f in bench.faults(stages((bring, ""), (tune, "")))]
    assert bench.faults(stages((bring, ""), (tune, "needs: [bring]"))) == []


def test_a_transform_that_does_nothing_because_a_stage_is_off_names_it(bench: Bench) -> None:
    bench.workspace.write("stages/change.py", TRANSFORM.replace("OLD", "3").replace("CONDITION", "pass"))
    bring = BRING.replace("y * 2", "y * 3")
    (fault,) = bench.faults(stages((bring, "enabled: false"), (BY_TRANSFORM, "after: [bring]")))
    assert fault.code == "E416"
    assert "stage 'bring' would have written it and is off (enabled: false)" in fault.message
