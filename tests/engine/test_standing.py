"""The states of stages, for every way in which some of them may be in a tree."""

from __future__ import annotations

import ast
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.core.tree import Tree
from orchestrator.engine.foreign import foreign_changes
from orchestrator.engine.lock import chain_of
from orchestrator.engine.run import run
from orchestrator.engine.standing import judge
from orchestrator.engine.states import State
from tests.workspaces import CODE, Workspace

if TYPE_CHECKING:
    from orchestrator.engine.outcome import Run
    from orchestrator.engine.plan import Plan

PARTS = {
    "limit": """\
  - id: limit
    kind: codemod
    summary: Raise the limit.
    edits: [{op: assign, file: pkg/a.py, name: LIMIT, value: "${params.limit}"}]
""",
    "sign": """\
  - id: sign
    kind: codemod
    summary: Turn the sign.
    edits:
      - {op: replace, file: pkg/a.py, within: first, match: return y, with: return -y}
      - {op: replace, file: pkg/a.py, within: first, match: x + LIMIT, with: x * LIMIT}
""",
    "drop": """\
  - id: drop
    kind: codemod
    summary: Remove what leaves no trace.
    edits: [{op: delete, file: pkg/a.py, within: second, match: raise NotImplementedError()}]
""",
    "import": """\
  - id: import
    kind: codemod
    summary: Bring a name.
    edits: [{op: import, file: pkg/a.py, code: import math}]
""",
    "more": """\
  - id: more
    kind: codemod
    needs: [sign]
    summary: Change what the stage before wrote.
    edits: [{op: replace, file: pkg/a.py, within: first, match: return -y, with: return -abs(y)}]
""",
    "bring": """\
  - id: bring
    kind: codemod
    summary: Bring a file.
    deploy: [{source: new.py, to: pkg/new.py}]
""",
}
ALL = "".join(PARTS.values())


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    made = Workspace.at(tmp_path_factory.mktemp("standing"), ALL)
    made.write("new.py", "ONE = 1\n")
    return made


@pytest.fixture(scope="module")
def plan(workspace: Workspace) -> Plan:
    workspace.pipeline(ALL)
    return workspace.plan()


@pytest.fixture(scope="module")
def made(workspace: Workspace, plan: Plan) -> Run:
    return run(plan, workspace.tree())


def subsets() -> list[tuple[str, ...]]:
    every = [names for size in range(len(PARTS) + 1) for names in combinations(PARTS, size)]
    return [names for names in every if "more" not in names or "sign" in names]


def with_stages(workspace: Workspace, names: tuple[str, ...]) -> Tree:
    """Return the tree in which exactly these stages are."""
    if not names:
        return workspace.tree()
    workspace.pipeline("".join(PARTS[name] for name in names))
    return run(workspace.plan(), workspace.tree()).tree


def states(plan: Plan, tree: Tree, made: Run | None) -> dict[str, State]:
    chains = (chain_of(made),) if made else ()
    return {standing.stage: standing.state for standing in judge(plan, tree, made, chains).stages}


def reformatted(tree: Tree) -> Tree:
    """Return the tree as somebody else would have written it: no comments, other quotes and blank lines."""
    return Tree({path: f"# by hand\n{ast.unparse(ast.parse(content))}".encode() for path, content in tree.items()})


@pytest.mark.parametrize("names", subsets(), ids="+".join)
def test_exactly_the_stages_that_are_in_are_said_to_be(
    workspace: Workspace, plan: Plan, made: Run, names: tuple[str, ...]
) -> None:
    tree = with_stages(workspace, names)
    want = {name: State.APPLIED if name in names else State.NOT for name in PARTS}
    assert states(plan, tree, made) == want
    assert states(plan, reformatted(tree), made) == want
    assert foreign_changes(tree, made, judge(plan, tree, made, (chain_of(made),))) == ()
    without = states(plan, tree, None)
    claimed = {name for name, state in without.items() if state in {State.APPLIED, State.CHANGED}}
    assert claimed <= set(names)
    assert claimed >= set(names) - {"drop"}


LINES = CODE.splitlines(keepends=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_becomes_of_a_file_each_stage_has_a_state(plan: Plan, made: Run, data: st.DataObject) -> None:
    lines = made.tree["pkg/a.py"].decode().splitlines(keepends=True) + LINES
    mixed = data.draw(st.lists(st.sampled_from([*lines, "}\n", "\t\n", "\0", "def first(x):\n"]), max_size=20))
    raw = data.draw(st.one_of(st.just("".join(mixed).encode()), st.binary(max_size=40)))
    tree = Tree({**made.tree, "pkg/a.py": raw})
    for reference in (made, None):
        judged = judge(plan, tree, reference, (chain_of(made),))
        found = judged.stages
        assert [standing.stage for standing in found] == list(PARTS)
        assert all(part.detail or part.state in {State.APPLIED, State.NOT} for s in found for part in s.parts)
        assert {foreign.path for foreign in foreign_changes(tree, made, judged)} <= {"pkg/a.py"}


def test_a_change_of_one_edit_does_not_touch_the_state_of_other_stages(plan: Plan, made: Run) -> None:
    raw = made.tree["pkg/a.py"].replace(b"LIMIT = 8", b"LIMIT = 9")
    found = states(plan, Tree({**made.tree, "pkg/a.py": raw}), made)
    assert found == {**dict.fromkeys(PARTS, State.APPLIED), "limit": State.CHANGED}


def test_a_foreign_statement_beside_a_stage_s_own_is_foreign_and_not_the_stage_s(plan: Plan, made: Run) -> None:
    raw = made.tree["pkg/a.py"] + b"\nEXTRA = 1\n"
    tree = Tree({**made.tree, "pkg/a.py": raw})
    judged = judge(plan, tree, made, (chain_of(made),))
    assert {standing.state for standing in judged.stages} == {State.APPLIED}
    (foreign,) = foreign_changes(tree, made, judged)
    assert (foreign.path, foreign.definitions) == ("pkg/a.py", ("<module>",))
