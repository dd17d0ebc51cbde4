"""Running a plan over a tree in memory: outcomes, transactions, the chain, checks, switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.core.diagnostics import Diagnostic, Severity
from orchestrator.core.tree import Tree
from orchestrator.engine.lock import Chain, Lock, chain_of
from orchestrator.engine.outcome import AlreadyApplied, Applied, Failed, Run, Skipped, outcome_name
from orchestrator.engine.run import run
from tests.workspaces import HEAD, Workspace, replaced

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "pkg/__init__.py": b"",
    "pkg/a.py": b"LIMIT = 4\nOTHER = 1\nSPARE = 1\n\n\ndef first(x):\n    y = x + LIMIT\n    return y\n",
    "pkg/b.py": b"NAME = 'b'\n",
    "pkg/uses.py": b"from pkg import a, b, c, k\n\nprint(a.LIMIT, a.OTHER, a.LAST, a.first, b.NAME, c, k)\n",
}


def stage(id_: str, edits: str, post: str = "", **more: str) -> str:
    """Return a codemod stage in YAML; `edits` and `post` are flow entries, one a line."""
    lines = [f"  - id: {id_}", "    kind: codemod", f"    summary: {id_}."]
    lines += [f"    {key}: {value}" for key, value in more.items()]
    lines += ["    edits:", *(f"      - {edit}" for edit in edits.splitlines())]
    lines += ["    post:", *(f"      - {check}" for check in post.splitlines())] if post else []
    return "".join(f"{line}\n" for line in lines)


def assign(name: str, value: str, file: str = "a", more: str = "") -> str:
    return f'{{op: assign, file: pkg/{file}.py, name: {name}, value: "{value}"{more}}}'


def equals(name: str, value: str, file: str = "a", more: str = "") -> str:
    return f'{{check: assignment_equals, file: pkg/{file}.py, name: {name}, value: "{value}"{more}}}'


class Bench:
    """A workspace folder, to plan pipelines in and run them on trees."""

    def __init__(self, folder: Path) -> None:
        self.workspace = Workspace.at(folder)

    def run(
        self,
        stages: str,
        tree: Tree | None = None,
        lock: Lock | None = None,
        chain: Chain | None = None,
        **settings: str,
    ) -> Run:
        self.workspace.pipeline(stages)
        return run(self.workspace.plan(**settings), Tree(FILES) if tree is None else tree, lock, chain)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def outcomes(done: Run) -> list[str]:
    return [outcome_name(result.outcome) for result in done.results]


def only_fault(done: Run) -> Diagnostic:
    (found,) = [d for d in done.diagnostics if d.severity is Severity.ERROR]
    return found


LIMIT = stage("limit", assign("LIMIT", "${params.limit}"), equals("LIMIT", "${params.limit}"))
OTHER = stage("other", assign("OTHER", "2"), equals("OTHER", "2"), needs="[limit]")


# --- outcomes and the lock ---


def test_a_stage_is_applied_and_nothing_else_changes(bench: Bench) -> None:
    done = bench.run(LIMIT)
    assert outcomes(done) == ["applied (unlocked)"]
    assert dict(done.tree) == {**FILES, "pkg/a.py": FILES["pkg/a.py"].replace(b"LIMIT = 4", b"LIMIT = 8")}
    assert not done.failed
    assert done.results[0].before == {"pkg/a.py": FILES["pkg/a.py"]}


def locked(done: Run) -> Lock:
    return Lock().with_base(done.base.digest, "base", chain_of(done))


def test_a_stage_fits_exactly_while_its_definitions_are_those_of_the_lock(bench: Bench) -> None:
    lock = locked(bench.run(LIMIT + OTHER))
    assert outcomes(bench.run(LIMIT + OTHER, lock=lock)) == ["applied (exact)", "applied (exact)"]
    elsewhere = Tree({**FILES, "pkg/b.py": b"NAME = 'changed'\n"})
    assert outcomes(bench.run(LIMIT + OTHER, elsewhere, lock)) == ["applied (exact)", "applied (exact)"]


def test_comments_and_layout_do_not_make_a_definition_another_one(bench: Bench) -> None:
    lock = locked(bench.run(LIMIT))
    dressed = Tree({**FILES, "pkg/a.py": FILES["pkg/a.py"].replace(b"LIMIT = 4", b"LIMIT  =  4  # as ever")})
    assert outcomes(bench.run(LIMIT, dressed, lock)) == ["applied (exact)"]


def test_a_stage_is_adapted_where_its_definition_has_changed_since(bench: Bench) -> None:
    lock = locked(bench.run(LIMIT))
    moved = Tree({**FILES, "pkg/a.py": FILES["pkg/a.py"].replace(b"LIMIT = 4", b"LIMIT = 5")})
    done = bench.run(LIMIT, moved, lock)
    assert outcomes(done) == ["applied (adapted)"]
    assert not done.failed


def test_a_stage_that_the_lock_does_not_know_is_unlocked(bench: Bench) -> None:
    lock = locked(bench.run(LIMIT))
    extra = stage("extra", assign("NAME", "'c'", "b"), equals("NAME", "'c'", "b"))
    assert outcomes(bench.run(LIMIT + extra, lock=lock)) == ["applied (exact)", "applied (unlocked)"]


# --- a second run ---


EVERY = {
    "assign": stage("it", assign("LIMIT", "8"), equals("LIMIT", "8")),
    "replace": stage(
        "it",
        '{op: replace, file: pkg/a.py, within: first, match: "y = x + LIMIT", with: "y = x * LIMIT"}',
        '{check: match_count, file: pkg/a.py, pattern: "y = x * LIMIT", equals: 1}',
    ),
    "delete": stage(
        "it", '{op: delete, file: pkg/a.py, match: "SPARE = 1"}', "{check: symbol_absent, file: pkg/a.py, name: SPARE}"
    ),
    "insert": stage(
        "it",
        '{op: insert, file: pkg/a.py, within: first, before: "return y", code: "y += 1"}',
        '{check: match_count, file: pkg/a.py, pattern: "y += 1", equals: 1}',
    ),
    "insert at the end": stage(
        "it",
        '{op: insert, file: pkg/a.py, at: end, code: "LAST = 9"}',
        "{check: symbol_exists, file: pkg/a.py, name: LAST}",
    ),
    "import": stage(
        "it", '{op: import, file: pkg/a.py, code: "import os"}', "{check: symbol_exists, file: pkg/a.py, name: os}"
    ),
    "transform": stage(
        "it",
        "{op: transform, file: pkg/a.py, use: bump}",
        equals("LIMIT", "5"),
    ),
    "two definitions": stage(
        "it",
        assign("LIMIT", "8") + '\n{op: replace, file: pkg/a.py, within: first, match: "return y", with: "return -y"}',
        equals("LIMIT", "8"),
    ),
    "the result moves the next pattern": LIMIT + OTHER,
}
BUMP = """\
import libcst as cst
from pydantic import BaseModel


class Params(BaseModel):
    pass


def transform(module, params):
    class Bump(cst.CSTTransformer):
        def leave_Integer(self, original, updated):
            return cst.Integer("5") if updated.value == "4" else updated

    return module.visit(Bump())
"""


@pytest.mark.parametrize("kind", [pytest.param(name, id=name) for name in EVERY])
def test_on_a_patched_tree_the_chain_says_already_applied_and_no_byte_changes(bench: Bench, kind: str) -> None:
    bench.workspace.write("stages/bump.py", BUMP)
    first = bench.run(EVERY[kind])
    assert not first.failed
    second = bench.run(EVERY[kind], first.tree, chain=chain_of(first))
    assert {outcome_name(result.outcome) for result in second.results} == {"already applied"}
    assert second.tree == first.tree
    assert second.tree.digest == first.tree.digest
    assert not second.failed


@pytest.mark.parametrize("kind", [name for name in EVERY if name not in {"delete", "transform"}])
def test_even_without_a_chain_the_code_says_already_applied(bench: Bench, kind: str) -> None:
    first = bench.run(EVERY[kind])
    second = bench.run(EVERY[kind], first.tree)
    assert {outcome_name(result.outcome) for result in second.results} == {"already applied"}
    assert second.tree == first.tree


def test_a_patched_tree_is_known_for_the_parameters_it_was_patched_with(bench: Bench) -> None:
    first = bench.run(LIMIT, limit="16")
    again = bench.run(LIMIT, first.tree, chain=chain_of(first), limit="16")
    assert outcomes(again) == ["already applied"]
    assert again.tree == first.tree


def test_another_parameter_on_a_patched_tree_is_an_edit_of_its_own(bench: Bench) -> None:
    first = bench.run(LIMIT)
    reference = bench.run(LIMIT, limit="16")
    second = bench.run(LIMIT, first.tree, chain=chain_of(reference), limit="16")
    assert outcomes(second) == ["applied (unlocked)"]
    assert b"LIMIT = 16" in second.tree["pkg/a.py"]


def test_a_run_stopped_half_way_goes_on_from_there(bench: Bench) -> None:
    whole = bench.run(LIMIT + OTHER)
    half = bench.run(LIMIT)
    rest = bench.run(LIMIT + OTHER, half.tree, chain=chain_of(whole))
    assert outcomes(rest) == ["already applied", "applied (unlocked)"]
    assert rest.tree == whole.tree


# --- a stage is a transaction ---


def test_a_stage_of_which_some_is_applied_and_some_is_not_fails(bench: Bench) -> None:
    both = stage(
        "both", f"{assign('LIMIT', '8', more=', from: 4')}\n{assign('NAME', '9', 'b')}", equals("LIMIT", "8")
    ).replace("from: 4", 'from: "4"')
    half = Tree({**FILES, "pkg/a.py": FILES["pkg/a.py"].replace(b"LIMIT = 4", b"LIMIT = 8")})
    done = bench.run(both, half)
    fault = only_fault(done)
    assert (fault.code, fault.notes) == ("E413", ("applied:     edit 1 in pkg/a.py", "not applied: edit 2 in pkg/b.py"))
    assert fault.message == "the stage is in the tree in part: some of it is applied and some is not"
    assert done.tree == half


def test_of_a_stage_whose_second_edit_fails_nothing_is_in_the_tree(bench: Bench) -> None:
    broken = stage("broken", f"{assign('LIMIT', '8')}\n{assign('NAMES', '9', 'b')}", equals("LIMIT", "8"))
    done = bench.run(broken + OTHER.replace("[limit]", "[broken]"))
    assert isinstance(done.results[0].outcome, Failed)
    assert done.results[1].outcome == Skipped("needs 'broken', which is failed")
    assert dict(done.tree) == FILES
    assert only_fault(done).message == "nothing is assigned to `NAMES` here"


def test_of_a_stage_whose_post_check_fails_nothing_is_in_the_tree(bench: Bench) -> None:
    done = bench.run(stage("limit", assign("LIMIT", "8"), equals("LIMIT", "9")))
    fault = only_fault(done)
    assert fault.code == "E521"
    assert fault.message.startswith("post-check assignment_equals (file=pkg/a.py name=LIMIT value=9")
    assert dict(done.tree) == FILES


def test_a_pre_check_is_judged_on_the_tree_that_reaches_the_stage(bench: Bench) -> None:
    after = stage("after", assign("OTHER", "2"), equals("OTHER", "2"), needs="[limit]", pre=f"[{equals('LIMIT', '4')}]")
    done = bench.run(LIMIT + after)
    assert only_fault(done).code == "E520"
    assert outcomes(done) == ["applied (unlocked)", "failed"]


def test_too_many_sites_fail_and_all_are_shown(bench: Bench) -> None:
    done = bench.run(stage("it", '{op: delete, file: pkg/a.py, match: "${name} = ${value}"}'))
    fault = only_fault(done)
    assert (fault.code, fault.message) == ("E405", "pattern matched 4 sites, expected 1")
    assert fault.notes == (
        "sites:",
        "pkg/a.py:1:1   LIMIT = 4",
        "pkg/a.py:2:1   OTHER = 1",
        "pkg/a.py:3:1   SPARE = 1",
        "pkg/a.py:7:5   y = x + LIMIT",
    )


@pytest.mark.parametrize(("count", "code"), [(1, "E405"), (2, None), (3, "E405")])
def test_an_edit_applies_at_exactly_as_many_sites_as_it_says(bench: Bench, count: int, code: str | None) -> None:
    tree = Tree({**FILES, "pkg/b.py": b"A = f(1)\nB = f(1)\n\n\ndef f(x): return x\n"})
    edit = f'{{op: replace, file: pkg/b.py, match: "f(1)", with: "f(2)", count: {count}}}'
    done = bench.run(stage("it", edit, '{check: match_count, file: pkg/b.py, pattern: "f(2)", equals: 2}'), tree)
    if code is None:
        assert done.tree["pkg/b.py"] == b"A = f(2)\nB = f(2)\n\n\ndef f(x): return x\n"
    else:
        assert only_fault(done).code == code


# --- conflicts ---


def test_a_conflict_names_the_stage_that_last_wrote_the_definition(bench: Bench) -> None:
    tune = stage("tune", f"{assign('LIMIT', '8')}\n{assign('OTHER', '9')}", equals("LIMIT", "8"))
    text = "{op: replace, file: pkg/a.py, match: LIMIT = 4, with: LIMIT = 7}"
    head = stage("head256", text, equals("LIMIT", "7"), needs="[tune]")
    fault = only_fault(bench.run(tune + head))
    assert fault.code == "E404"
    assert fault.stage == "head256"
    assert fault.message.endswith("it was there in the base, stage 'tune' rewrote it")
    assert fault.notes == ("nearest:", "pkg/a.py:1:1   LIMIT = 8", "last written by stage 'tune'")


def test_an_anchor_in_code_applies_whatever_the_comments_say(bench: Bench) -> None:
    tree = Tree({**FILES, "pkg/a.py": FILES["pkg/a.py"].replace(b"LIMIT = 4", b"LIMIT = 4  # the old words")})
    tune = stage("tune", assign("LIMIT", "8"), equals("LIMIT", "8"))
    head = stage("head256", assign("OTHER", "7"), equals("OTHER", "7"), needs="[tune]")
    done = bench.run(tune + head, tree)
    assert not done.failed
    assert b"LIMIT = 8  # the old words\nOTHER = 7\n" in done.tree["pkg/a.py"]


THIRTY = "".join(f"def f{i}(x):\n    raise NotImplementedError()\n\n\n" for i in range(30)).encode()
SEVENTH = stage(
    "seventh",
    '{op: replace, file: pkg/c.py, within: f7, match: raise NotImplementedError(), with: "return x"}',
    '{check: match_count, file: pkg/c.py, within: f7, pattern: "return x", equals: 1}',
)


def test_one_of_thirty_functions_alike_is_replaced_and_a_second_run_knows_it(bench: Bench) -> None:
    base = Tree({**FILES, "pkg/c.py": THIRTY})
    first = bench.run(SEVENTH, base)
    wanted = THIRTY.replace(b"def f7(x):\n    raise NotImplementedError()", b"def f7(x):\n    return x")
    assert first.tree["pkg/c.py"] == wanted
    for chain in (None, chain_of(first)):
        second = bench.run(SEVENTH, first.tree, chain=chain)
        assert outcomes(second) == ["already applied"]
        assert second.tree == first.tree
    elsewhere = wanted.replace(b"def f9(x):\n    raise NotImplementedError()", b"def f9(x):\n    return -x")
    changed = bench.run(SEVENTH, first.tree.with_files({"pkg/c.py": elsewhere}), chain=chain_of(first))
    assert outcomes(changed) == ["already applied"]
    lock = locked(first)
    moved = Tree({**FILES, "pkg/c.py": THIRTY.replace(b"def f9(x):\n    raise", b"def f9(y):\n    raise")})
    assert outcomes(bench.run(SEVENTH, moved, lock)) == ["applied (exact)"]


def test_two_stages_that_write_one_definition_are_ordered(bench: Bench) -> None:
    one = stage("one", assign("LIMIT", "8"), equals("LIMIT", "8", more=", until: two"))
    two = stage("two", assign("LIMIT", "9"), equals("LIMIT", "9"))
    fault = only_fault(bench.run(one + two))
    assert (fault.code, fault.stage) == ("E510", "two")
    assert fault.message == "stages 'one' and 'two' both write pkg/a.py, and neither needs the other"
    assert fault.help == "Add 'one' to the needs of 'two' or, for the order alone, to its `after`."
    assert not bench.run(one + two.replace("    edits", "    needs: [one]\n    edits")).failed
    between = stage("between", assign("NAME", "'c'", "b"), equals("NAME", "'c'", "b"), needs="[one]")
    assert not bench.run(one + between + two.replace("    edits", "    needs: [between]\n    edits")).failed


def test_stages_that_write_different_definitions_of_a_file_need_no_order(bench: Bench) -> None:
    first = stage(
        "first",
        '{op: replace, file: pkg/a.py, within: first, match: "return y", with: "return -y"}',
        '{check: match_count, file: pkg/a.py, pattern: "return -y", equals: 1}',
    )
    assert not bench.run(LIMIT + first).failed


# --- effects, invariants, and checks that last ---


def test_a_check_that_the_stage_turned_true_is_an_effect_the_others_are_invariants(bench: Bench) -> None:
    done = bench.run(stage("limit", assign("LIMIT", "8"), f"{equals('LIMIT', '8')}\n{equals('OTHER', '1')}"))
    assert [judged.role for judged in done.results[0].judged] == ["effect", "invariant"]
    assert done.diagnostics == ()


def test_a_codemod_without_an_effect_is_warned_about(bench: Bench) -> None:
    done = bench.run(stage("limit", assign("LIMIT", "8"), equals("OTHER", "1")))
    (warning,) = done.diagnostics
    assert (warning.code, warning.severity) == ("W520", Severity.WARNING)
    assert not done.failed


def test_a_fix_that_a_later_stage_undoes_is_named_with_that_stage(bench: Bench) -> None:
    undo = stage("undo", assign("LIMIT", "4"), equals("LIMIT", "4"), needs="[limit]")
    fault = only_fault(bench.run(LIMIT + undo))
    assert (fault.code, fault.stage) == ("E522", "limit")
    assert fault.message.endswith("at the end of the run; stage 'undo' wrote the file after it")


@pytest.mark.parametrize(("enabled", "failed"), [("true", False), ("false", False)])
def test_a_check_may_hold_until_a_stage_that_is_in_effect(bench: Bench, enabled: str, *, failed: bool) -> None:
    until = stage("limit", assign("LIMIT", "8"), equals("LIMIT", "8", more=", until: undo"))
    undo = stage("undo", assign("LIMIT", "4"), equals("LIMIT", "4"), needs="[limit]", enabled=enabled)
    done = bench.run(until + undo)
    assert done.failed is failed
    assert len(done.final["limit"]) == (0 if enabled == "true" else 1)


# --- switches ---


@pytest.mark.parametrize("value", ["false", '"${params.on}"'])
def test_a_stage_that_is_switched_off_is_skipped_and_so_are_those_that_need_it(bench: Bench, value: str) -> None:
    off = LIMIT.replace("    edits", f"    enabled: {value}\n    edits")
    third = stage("third", assign("NAME", "'c'", "b"), equals("NAME", "'c'", "b"), needs="[other]")
    bench.workspace.pipeline(off + OTHER + third, replaced(HEAD, "limit: 8", "limit: 8, on: false"))
    done = run(bench.workspace.plan(), Tree(FILES))
    assert [result.outcome for result in done.results] == [
        Skipped("enabled: false"),
        Skipped("needs 'limit', which is skipped"),
        Skipped("needs 'other', which is skipped"),
    ]
    assert dict(done.tree) == FILES
    assert not done.failed
    if "on" in value:
        assert outcomes(run(bench.workspace.plan(on="true"), Tree(FILES)))[0] == "applied (unlocked)"


@pytest.mark.parametrize(("limit", "applied"), [("4", True), ("5", False)])
def test_when_decides_on_the_tree_that_reaches_the_stage(bench: Bench, limit: str, *, applied: bool) -> None:
    gated = stage("gated", assign("OTHER", "2"), equals("OTHER", "2"), when=f"[{equals('LIMIT', limit)}]")
    done = bench.run(gated)
    assert isinstance(done.results[0].outcome, Applied if applied else Skipped)
    assert not done.failed
    if not applied:
        assert isinstance(done.results[0].outcome, Skipped)
        assert done.results[0].outcome.reason.startswith("when: assignment_equals file=pkg/a.py name=LIMIT value=5")


def test_when_sees_what_the_stages_before_have_done(bench: Bench) -> None:
    gated = stage(
        "gated", assign("OTHER", "2"), equals("OTHER", "2"), needs="[limit]", when=f"[{equals('LIMIT', '8')}]"
    )
    assert outcomes(bench.run(LIMIT + gated)) == ["applied (unlocked)", "applied (unlocked)"]


# --- deploying files ---


def deploying(id_: str, to: str, more: str = "", **keys: str) -> str:
    lines = [f"  - id: {id_}", "    kind: codemod", f"    summary: {id_}."]
    lines += [f"    {key}: {value}" for key, value in keys.items()]
    lines += ["    deploy:", f"      - {{source: k.py, to: {to}{more}}}"]
    lines += ["    post:", f"      - {{check: match_count, file: {to}, pattern: K = 1, equals: 1}}"]
    return "".join(f"{line}\n" for line in lines)


def test_a_file_is_deployed_and_a_second_run_knows_it(bench: Bench) -> None:
    bench.workspace.write("k.py", "K = 1\n")
    done = bench.run(deploying("bring", "pkg/k.py"))
    assert done.tree["pkg/k.py"] == b"K = 1\n"
    assert outcomes(bench.run(deploying("bring", "pkg/k.py"), done.tree)) == ["already applied"]
    assert outcomes(bench.run(deploying("bring", "pkg/k.py"), done.tree, chain=chain_of(done))) == ["already applied"]


def test_an_existing_file_is_replaced_only_where_the_stage_says_why(bench: Bench) -> None:
    bench.workspace.write("k.py", "K = 1\nNAME = 'k'\n")
    fault = only_fault(bench.run(deploying("bring", "pkg/b.py")))
    assert (fault.code, fault.message) == ("E417", "pkg/b.py exists already")
    done = bench.run(deploying("bring", "pkg/b.py", ", replaces: it is ours"))
    assert done.tree["pkg/b.py"] == b"K = 1\nNAME = 'k'\n"
    assert not done.failed


def test_a_file_that_an_earlier_stage_edited_is_not_overwritten_in_silence(bench: Bench) -> None:
    bench.workspace.write("k.py", FILES["pkg/a.py"].decode() + "\n\nK = 1\n")
    fault = only_fault(bench.run(LIMIT + deploying("bring", "pkg/a.py", needs="[limit]")))
    assert (fault.code, fault.message) == ("E417", "pkg/a.py exists already; stage 'limit' wrote it")
    lost = only_fault(bench.run(LIMIT + deploying("bring", "pkg/a.py", ", replaces: all of it", needs="[limit]")))
    assert (lost.code, lost.stage) == ("E522", "limit")


# --- house rules and waivers ---


def test_a_house_rule_fails_the_run_and_a_waiver_makes_a_note_of_it(bench: Bench) -> None:
    importing = stage(
        "it",
        '{op: import, file: pkg/a.py, code: "import nowhere"}',
        "{check: symbol_exists, file: pkg/a.py, name: nowhere}",
    )
    fault = only_fault(bench.run(importing))
    assert (fault.code, fault.stage) == ("E502", "it")
    waived = importing + "    waive:\n      - {rule: E502, because: it comes with the image, about: nowhere}\n"
    done = bench.run(waived)
    assert not done.failed
    assert [(d.code, d.severity, d.notes[-1]) for d in done.findings] == [
        ("E502", Severity.NOTE, "waived: it comes with the image")
    ]
    elsewhere = importing + "    waive:\n      - {rule: E502, because: it comes with the image, about: numpy}\n"
    assert bench.run(elsewhere).failed


# --- what stages provide ---

RENDER = """\
  - id: conf
    kind: template
    summary: Write what there is.
    render:
      - {template: t.j2, to: run.txt}
"""
PROVIDED = "{{ provided.flags | dictsort }} {{ provided.environment | dictsort }}\n"


def test_a_template_gets_what_the_stages_in_effect_provide(bench: Bench) -> None:
    bench.workspace.write("t.j2", PROVIDED)
    on = LIMIT + "    provides: {flags: {--fast: true}, environment: {A: '1'}}\n"
    off = LIMIT.replace("id: limit", "id: off").replace("    edits", "    enabled: false\n    edits")
    off += "    provides: {flags: {--slow: true}}\n"
    done = bench.run(on + off + RENDER.replace("    render", "    needs: [limit]\n    render"))
    assert done.artefacts == {"run.txt": b"[('--fast', True)] [('A', '1')]\n"}


def test_two_stages_that_provide_different_values_fail(bench: Bench) -> None:
    bench.workspace.write("t.j2", PROVIDED)
    one = LIMIT + "    provides: {flags: {--size: 1}}\n"
    two = OTHER + "    provides: {flags: {--size: 2}}\n"
    done = bench.run(one + two + RENDER.replace("    render", "    needs: [other]\n    render"))
    fault = only_fault(done)
    assert fault.code == "E523"
    assert fault.message == "stage 'other' provides flag --size=2, another stage provides --size=1"


def test_already_applied_stages_provide_too(bench: Bench) -> None:
    bench.workspace.write("t.j2", PROVIDED)
    stages = (
        LIMIT
        + "    provides: {flags: {--fast: true}}\n"
        + RENDER.replace("    render", "    needs: [limit]\n    render")
    )
    first = bench.run(stages)
    second = bench.run(stages, first.tree)
    assert isinstance(second.results[0].outcome, AlreadyApplied)
    assert second.artefacts == first.artefacts
