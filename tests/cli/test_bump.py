"""A pipeline on other bases: the verdict of every kind of edit, what is said of it, and what the shell gets."""

from __future__ import annotations

import itertools
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.engine.bump.proposal import entry
from orchestrator.spec.document import read_document
from tests.workspaces import LIMIT_STAGE, Ended, Workspace, replaced, run_cli

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BASE = '''\
"""A module."""

import os

LIMIT = 4


def first(x):
    y = x + LIMIT
    z = y * 2 + len(os.sep)
    return z


def second(x):
    for part in x.parts:
        x.use(part, deep=True)
        x.drop(part)
    raise NotImplementedError()


class Pool:
    def take(self, key):
        held = self.held[key]
        held.count += 1
        return held
'''
OPS = {
    "assign": '{op: assign, file: pkg/a.py, name: LIMIT, from: "4", value: "8"}',
    "replace": '{op: replace, file: pkg/a.py, within: first, match: "z = y * ${n} + ${rest}", with: "z = y + ${n}"}',
    "delete": "{op: delete, file: pkg/a.py, within: second, match: x.drop(part)}",
    "insert": '{op: insert, file: pkg/a.py, within: Pool.take, after: "held.count += 1", code: "held.seen = True"}',
    "import": "{op: import, file: pkg/a.py, code: import sys}",
    "transform": "{op: transform, file: pkg/a.py, use: double}",
}
WITHIN = {"replace": "first", "delete": "second", "insert": "Pool.take"}
TRANSFORM = '''\
"""Double every 4."""

import libcst as cst
from pydantic import BaseModel


class Params(BaseModel):
    """Nothing."""


class _Double(cst.CSTTransformer):
    def leave_Integer(self, original_node: cst.Integer, updated_node: cst.Integer) -> cst.Integer:
        return updated_node.with_changes(value="8") if updated_node.value == "4" else updated_node


def transform(module: cst.Module, params: Params) -> cst.Module:
    return module.visit(_Double())
'''

ASKING = '''\
"""Count by two, and raise where nothing counts."""

import libcst as cst
from pydantic import BaseModel


class Params(BaseModel):
    """Nothing."""


def transform(module: cst.Module, params: Params) -> cst.Module:
    if "by(2)" in module.code:
        return module
    head, found, tail = module.code.partition("class Pool:")
    if "held.count += 1" not in tail:
        raise LookupError("no pool counts")
    return cst.parse_module(head + found + tail.replace("held.count += 1", "held.count.by(2)"))
'''


def stage(op: str, id_: str = "", more: str = "") -> str:
    head = (
        f"  - id: {id_ or op}\n    kind: codemod\n    summary: Do it.\n    waive: [{{rule: E513, because: unused}}]\n"
    )
    return f"{head}{more}    edits:\n      - {OPS.get(op, op)}\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path)
    made.write("stages/double.py", TRANSFORM)
    made.base({"a.py": BASE, "b.py": "B = 1\n"})
    return made


@pytest.fixture
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTRATOR_CACHE", str(tmp_path / "cache"))


def bump(workspace: Workspace, files: Mapping[str, str | bytes], *arguments: str, base: bool = True) -> Ended:
    """Bump to a tree of these files, compared with the package of the workspace."""
    other = workspace.folder.parent / "other" / "pkg"
    shutil.rmtree(other, ignore_errors=True)
    for path, content in {"__init__.py": "", "b.py": "B = 1\n", **files}.items():
        (other / path).parent.mkdir(parents=True, exist_ok=True)
        (other / path).write_bytes(content.encode() if isinstance(content, str) else content)
    known = ["--base", f"pkg={workspace.package}"] if base else []
    return run_cli("bump", "--json", "-j1", "--tree", f"pkg={other}", *known, *arguments, cwd=workspace.folder)


def parts(ended: Ended) -> list[dict[str, Any]]:
    return [record for record in ended.records() if record["event"] == "bump"]


def verdicts(ended: Ended) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in parts(ended):
        found.setdefault(part["stage"], []).append(part["verdict"])
    return found


# --- one verdict after the other, for every kind of edit


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("form", ["as it is", "CRLF", "BOM", "comments and layout"])
def test_an_edit_of_unchanged_code_is_exact_in_any_form(workspace: Workspace, op: str, form: str) -> None:
    workspace.pipeline(stage(op))
    forms = {
        "as it is": BASE,
        "CRLF": BASE.replace("\n", "\r\n"),
        "BOM": "\ufeff" + BASE,
        "comments and layout": laid_out(BASE),
    }
    ended = bump(workspace, {"a.py": forms[form]})
    assert (ended.code, verdicts(ended)) == (0, {op: ["exact"]}), parts(ended)


def laid_out(text: str) -> str:
    """Return the same code with other blanks, and comments more, in all that is edited."""
    text = replaced(text, "LIMIT = 4", "LIMIT   =  4  # four")
    text = replaced(text, "z = y * 2 + len(", "z  =  y*2  +  len(")
    text = replaced(text, "x.drop(part)", "x.drop( part )  # why")
    return replaced(text, "held.count += 1", "held.count  +=  1")


def test_parentheses_around_what_a_pattern_captures_are_a_change(workspace: Workspace) -> None:
    workspace.pipeline(stage("replace"))
    ended = bump(workspace, {"a.py": replaced(BASE, "z = y * 2", "z = (y) * 2")})
    assert (ended.code, verdicts(ended)) == (4, {"replace": ["adapted"]}), parts(ended)


CHANGED = BASE.replace("import os\n", "import os\n\nDEBUG = False\n")
CHANGED = CHANGED.replace("y = x + LIMIT", "y = x - LIMIT").replace("for part in x.parts:", "for part in x.all_parts:")
CHANGED = CHANGED.replace("held = self.held[key]", "held = self.held.get(key)")


@pytest.mark.parametrize("op", OPS)
def test_an_edit_of_code_that_changed_around_it_is_adapted_and_shows_how(workspace: Workspace, op: str) -> None:
    workspace.pipeline(stage(op))
    ended = bump(workspace, {"a.py": CHANGED})
    assert (ended.code, verdicts(ended)) == (4, {op: ["adapted"]})
    shown = parts(ended)[0]["diff"]
    added = [line for line in shown.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert added, parts(ended)
    assert all(line[1:].strip() in CHANGED for line in added)


@pytest.mark.parametrize("op", OPS)
def test_an_edit_whose_work_is_there_is_already_present(workspace: Workspace, op: str) -> None:
    workspace.pipeline(stage(op))
    assert run_cli("render", "--tree", f"pkg={workspace.package}", cwd=workspace.folder).code == 0
    made = workspace.built()["patchset/overlay/pkg/a.py"]
    ended = bump(workspace, {"a.py": made})
    assert (ended.code, verdicts(ended)) == (4, {op: ["already present"]})


@pytest.mark.parametrize("op", sorted(WITHIN))
@pytest.mark.parametrize("how", ["other file", "package", "other class"])
def test_an_edit_whose_definition_went_elsewhere_has_moved_and_the_yaml_applies(
    workspace: Workspace, op: str, how: str
) -> None:
    workspace.pipeline(stage(op))
    within = WITHIN[op]
    if how == "other class":
        if "." not in within:
            files: dict[str, str | bytes] = {"a.py": as_method(BASE, within)}
            to = f"pkg/a.py:Home.{within}"
        else:
            files, to = {"a.py": BASE.replace("class Pool", "class Store")}, "pkg/a.py:Store.take"
    elif how == "package":
        files, to = {"a/__init__.py": "from pkg.a.c import *\n", "a/c.py": BASE}, f"pkg/a/c.py:{within}"
    else:
        files, to = {"a.py": "LIMIT = 4\n", "c.py": BASE}, f"pkg/c.py:{within}"
    ended = bump(workspace, files)
    assert (ended.code, verdicts(ended)) == (4, {op: ["moved"]}), parts(ended)
    part = parts(ended)[0]
    assert part["found"] == to
    # What it says to write is an edit that applies.
    written = read_document("x.yaml", part["yaml"].encode()).data
    assert len(written) == 1
    workspace.pipeline(f"{stage(op).partition('    edits:')[0]}    edits:\n" + indented(part["yaml"]))
    again = bump(workspace, files, base=False)
    assert verdicts(again)[op] == ["adapted"], parts(again)
    other = workspace.folder.parent / "other" / "pkg"
    assert run_cli("plan", "--tree", f"pkg={other}", cwd=workspace.folder).code == 0


def indented(yaml: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in yaml.splitlines())


def as_method(text: str, name: str) -> str:
    """Return a module in which a function is a method of a new class."""
    found = re.search(rf"def {name}\(x\):\n(?:    .*\n|\n(?=    ))+", text)
    assert found
    body = "".join(f"    {line}\n" for line in found[0].replace("(x)", "(self, x)").splitlines())
    return text.replace(found[0], "") + f"\n\nclass Home:\n{body}"


@pytest.mark.parametrize(
    ("op", "old", "new", "fate"),
    [
        ("assign", "LIMIT = 4", "LIMIT = 5", "gone"),
        ("assign", "LIMIT = 4", "CAP = 4", "gone"),
        ("replace", "z = y * 2 + len(os.sep)", "z = y", "gone"),
        ("delete", "x.drop(part)", "x.drop(part, 1)", "gone"),
        ("insert", "held.count += 1", "held.count = held.count + 1", "gone"),
        ("transform", "LIMIT = 4", "LIMIT = 5", "gone"),
        ("assign", "LIMIT = 4", "LIMIT = 4\nLIMIT = 4", "ambiguous"),
        ("replace", "    return z", "    z = y * 3 + 1\n    return z", "ambiguous"),
        ("delete", "        x.drop(part)", "        x.drop(part)\n        x.drop(part)", "ambiguous"),
        ("insert", "held.count += 1", "held.count += 1\n        held.count += 1", "ambiguous"),
        ("replace", "def second", "def first(x):\n    return x\n\n\ndef second", "ambiguous"),
        ("insert", '"""A module."""', "def broken(:", "check failed"),
    ],
)
def test_an_edit_that_finds_no_place_or_several_says_which(
    workspace: Workspace, op: str, old: str, new: str, fate: str
) -> None:
    workspace.pipeline(stage(op))
    ended = bump(workspace, {"a.py": replaced(BASE, old, new)})
    assert verdicts(ended) == {op: [fate]}, parts(ended)
    assert ended.code == (5 if fate == "check failed" else 4)
    assert parts(ended)[0]["code"].startswith("E4")
    assert parts(ended)[0]["yaml"] == ""


@pytest.mark.parametrize(
    ("old", "new", "fate"),
    [
        ("class Pool:", "class Store:", "gone"),
        ("held.count += 1", "held.count = held.count + 1", "check failed"),
    ],
)
def test_a_transform_that_raises_is_gone_only_where_what_it_changes_is(
    workspace: Workspace, old: str, new: str, fate: str
) -> None:
    workspace.write("stages/double.py", ASKING)
    workspace.pipeline(stage("transform"))
    assert verdicts(bump(workspace, {"a.py": BASE})) == {"transform": ["exact"]}
    ended = bump(workspace, {"a.py": replaced(BASE, old, new)})
    assert verdicts(ended) == {"transform": [fate]}, parts(ended)
    (part,) = parts(ended)
    assert (part["code"], "LookupError" in str(part)) == ("E415", True)
    assert ("`Pool.take`" in part["detail"]) is (fate == "gone")


@pytest.mark.parametrize("op", sorted(WITHIN))
def test_decorated_and_conditional_definitions_are_found(workspace: Workspace, op: str) -> None:
    workspace.pipeline(stage(op))
    inside = "".join(f"    {line}\n" if line else "\n" for line in BASE.split("\n")[2:]).rstrip(" ")
    ended = bump(workspace, {"a.py": f'"""A module."""\nimport os\n\nif os.sep:\n{inside}'})
    assert verdicts(ended) == {op: ["exact"]}, parts(ended)
    name = WITHIN[op].rpartition(".")[2]
    deep = "    " if "." in WITHIN[op] else ""
    ended = bump(workspace, {"a.py": replaced(BASE, f"{deep}def {name}", f"{deep}@os.fspath\n{deep}def {name}")})
    assert verdicts(ended) == {op: ["adapted"]}, parts(ended)


def test_code_that_moved_within_its_file_is_found_by_what_stood_there(workspace: Workspace) -> None:
    workspace.pipeline(stage("replace"))
    other = BASE.replace("    z = y * 2 + len(os.sep)\n    return z\n", "    return rest(y)\n")
    other += "\n\ndef rest(y):\n    z = y * 2 + len(os.sep)\n    return z\n"
    ended = bump(workspace, {"a.py": other})
    assert parts(ended)[0]["verdict"] == "moved", parts(ended)
    assert parts(ended)[0]["found"] == "pkg/a.py:rest"


def test_a_common_line_is_no_trace(workspace: Workspace) -> None:
    stage_ = "{op: replace, file: pkg/a.py, within: second, match: raise NotImplementedError(), with: return 1}"
    workspace.pipeline(stage(stage_, "x"))
    workspace.base({"b.py": "def f():\n    raise NotImplementedError()\n"})
    other = BASE.replace("    raise NotImplementedError()\n", "")
    ended = bump(workspace, {"a.py": other, "c.py": "def g():\n    raise NotImplementedError()\n"})
    assert verdicts(ended) == {"x": ["gone"]}


def test_a_constant_that_moved_to_another_module_is_found(workspace: Workspace) -> None:
    workspace.pipeline(stage("assign"))
    ended = bump(
        workspace, {"a.py": BASE.replace("LIMIT = 4", "from pkg.limits import LIMIT"), "limits.py": "LIMIT = 4\n"}
    )
    assert parts(ended)[0]["verdict"] == "moved", parts(ended)
    assert parts(ended)[0]["found"] == "pkg/limits.py"
    assert "file: pkg/limits.py" in parts(ended)[0]["yaml"]


@pytest.mark.parametrize(
    ("op", "then", "copy"),
    [
        ("assign", ("LIMIT = 4", "LIMIT = 5"), "LIMIT = 4\n"),
        (
            "replace",
            ("z = y * 2 + len(os.sep)", "z = y * 2 - len(os.sep)"),
            "import os\n\ndef rest(y):\n    z = y * 2 + len(os.sep)\n    return z\n",
        ),
        ("delete", ("x.drop(part)", "x.drop(part, 0)"), "def swept(x, part):\n    x.drop(part)\n"),
        ("insert", ("held.count += 1", "held.count += 2"), "def noted(held):\n    held.count += 1\n"),
    ],
)
def test_a_copy_of_the_old_code_is_no_place_that_it_moved_to(
    workspace: Workspace, op: str, then: tuple[str, str], copy: str
) -> None:
    workspace.pipeline(replaced(stage(op), "after:", "before:") if op == "insert" else stage(op))
    (changed,) = parts(bump(workspace, {"a.py": replaced(BASE, *then), "copy.py": copy}))
    assert (changed["verdict"], changed["yaml"], len(changed["near"])) == ("gone", "", 1)
    (without,) = parts(bump(workspace, {"a.py": replaced(BASE, then[0], "os.getcwd()"), "copy.py": copy}))
    assert (without["verdict"], without["found"][:11]) == ("moved", "pkg/copy.py")


@pytest.mark.parametrize("beside", [True, False])
def test_what_was_there_before_the_edit_is_no_sign_of_its_work(workspace: Workspace, *, beside: bool) -> None:
    code = "def f(key):\n    held = None\n    if key:\n        held = load(key)\n    return held\n"
    code = code if beside else code.replace("    held = None\n", "")
    made = "held = None"
    workspace.pipeline(
        stage(f'{{op: replace, file: pkg/a.py, within: f, match: "held = load(key)", with: {made}}}', "x")
    )
    workspace.base({"a.py": code})
    other = replaced(code, "load(key)", "fetch(key)" if beside else "None")
    (part,) = parts(bump(workspace, {"a.py": other}))
    assert (part["verdict"], part["code"]) == (("gone", "E403") if beside else ("already present", ""))
    # Both on the tree that the edit makes of its own base: there the digest of the definition tells.
    (part,) = parts(bump(workspace, {"a.py": replaced(code, "load(key)", "None")}))
    assert part["verdict"] == "already present"


def test_a_constant_that_is_taken_from_its_new_place_has_moved(workspace: Workspace) -> None:
    workspace.pipeline(stage("assign"))
    files = {"a.py": BASE.replace("LIMIT = 4", "LIMIT = limits.LIMIT"), "limits.py": "LIMIT = 4\n"}
    (part,) = parts(bump(workspace, files))
    assert (part["verdict"], part["found"]) == ("moved", "pkg/limits.py")


@pytest.mark.parametrize("head", ["write instead", "the whole stage applies"])
def test_what_the_text_proposes_applies_pasted_as_it_is_shown(workspace: Workspace, head: str) -> None:
    asked = "    post:\n      - {check: match_count, file: pkg/a.py, within: first, pattern: z = y + 2, equals: 1}\n"
    workspace.pipeline(replaced(stage("replace", "moves"), "    edits:", f"{asked}    edits:"))
    files = {"a.py": "import os\n", "new.py": BASE}
    assert parts(bump(workspace, files))[0]["verdict"] == "moved"
    known = ("--base", f"pkg={workspace.package}", "--tree", f"pkg={workspace.folder.parent / 'other' / 'pkg'}")
    shown = run_cli("bump", *known, cwd=workspace.folder).out.splitlines()
    start = next(i for i, line in enumerate(shown) if line.strip().startswith(head)) + 1
    pasted = list(itertools.takewhile(lambda line: re.match(r" {4}(edits|pre|post):| {6}", line), shown[start:]))
    lead = stage("replace", "moves").partition("    edits:")[0]
    workspace.pipeline(lead + ("    edits:\n" if head == "write instead" else "") + "\n".join(pasted) + "\n")
    assert parts(bump(workspace, files, base=False))[0]["verdict"] == "adapted"


def test_of_two_edits_in_one_place_only_the_one_that_moved_gets_another(workspace: Workspace) -> None:
    head, _, first = stage("assign", "both").partition("    edits:\n")
    second = "{op: replace, file: pkg/a.py, match: import os, with: import os as os}"
    check = '      - {check: assignment_equals, file: pkg/a.py, name: LIMIT, value: "8"}\n'
    workspace.pipeline(f"{head}    edits:\n{first}      - {second}\n    post:\n{check}")
    moved = {"a.py": BASE.replace("LIMIT = 4", "from pkg.limits import LIMIT"), "limits.py": "LIMIT = 4\n"}
    ended = bump(workspace, moved)
    assert verdicts(ended) == {"both": ["moved", "adapted"]}, parts(ended)
    # Where its check went, nobody can tell: the edits of its file are in two places now.
    assert "pkg/limits.py" in parts(ended)[0]["yaml"]
    assert parts(ended)[1]["yaml"] == ""
    workspace.pipeline(f"{head}    edits:\n{first}      - {second}\n")
    (whole,) = [record for record in bump(workspace, moved).records() if record["event"] == "bump-stage"]
    (edit,) = read_document("x.yaml", whole["yaml"].encode()).data["edits"]
    assert (edit["file"], edit["name"]) == ("pkg/limits.py", "LIMIT")


# --- deployed files and wheels


def deployed(workspace: Workspace, more: str = "") -> None:
    workspace.write("new.py", "def made():\n    return 1\n")
    text = "  - id: d\n    kind: codemod\n    summary: Bring it.\n    waive: [{rule: E513, because: unused}]\n"
    workspace.pipeline(f"{text}    deploy: [{{source: new.py, to: pkg/b.py{more}}}]\n")


@pytest.mark.parametrize(
    ("replaces", "content", "fate"),
    [
        (", replaces: better", "B = 1\n", "exact"),
        (", replaces: better", "B = 2\n", "adapted"),
        (", replaces: better", "def made():\n    return 1\n", "already present"),
    ],
)
def test_a_file_that_replaces_another_is_held_against_what_it_replaces(
    workspace: Workspace, replaces: str, content: str, fate: str
) -> None:
    deployed(workspace, replaces)
    ended = bump(workspace, {"a.py": BASE, "b.py": content})
    assert verdicts(ended) == {"d": [fate]}
    assert (parts(ended)[0]["diff"] != "") is (fate == "adapted")


def test_a_new_file_that_upstream_has_by_now_is_a_conflict(workspace: Workspace) -> None:
    deployed(workspace)
    (workspace.package / "b.py").unlink()
    assert verdicts(bump(workspace, {"a.py": BASE})) == {"d": ["conflict"]}


# --- stages


def test_one_failure_hides_no_other(workspace: Workspace) -> None:
    many = "  - id: many\n    kind: codemod\n    summary: Do it.\n    edits:\n"
    many += "".join(f"      - {OPS[op]}\n" for op in ("assign", "replace", "delete", "insert"))
    workspace.pipeline(many + stage("import", more="    needs: [many]\n"))
    other = (
        BASE.replace("LIMIT = 4", "CAP = 4").replace("x + LIMIT", "x + CAP").replace("x.drop(part)", "x.drop(part, 1)")
    )
    ended = bump(workspace, {"a.py": other})
    assert verdicts(ended) == {"many": ["gone", "adapted", "gone", "exact"], "import": ["adapted", "not reached"]}
    assert ended.code == 4


def test_what_rests_on_a_stage_that_failed_or_was_retired_is_not_reached(workspace: Workspace) -> None:
    rests = '{op: replace, file: pkg/a.py, within: first, match: "z = y + ${n}", with: "z = y - ${n}"}'
    later = stage(rests, "later", "    needs: [replace]\n")
    more = stage('{op: replace, file: pkg/a.py, within: first, match: "z = y - ${n}", with: z = y}', "last",
                 "    needs: [later]\n")  # fmt: skip
    workspace.pipeline(stage("replace") + later + more)
    other = BASE.replace("z = y * 2 + len(os.sep)", "z = y**2")
    found = verdicts(bump(workspace, {"a.py": other}))
    assert found["replace"] == ["gone"]
    assert found["later"] == found["last"] == ["not reached", "not reached"]
    # Retiring the first one breaks the second, which anchors on its code, and not the one beside it.
    upstream = "    upstream: {pr: 'https://example.org/1', fixed_when: [{check: match_count, file: pkg/a.py, "
    upstream += "within: first, pattern: z = y**2, equals: 1}]}\n"
    beside = stage("insert", more="    needs: [replace]\n")
    workspace.pipeline(stage("replace", more=upstream) + later + beside)
    ended = bump(workspace, {"a.py": other})
    assert verdicts(ended) == {"replace": ["fixed upstream"], "later": ["not reached"], "insert": ["exact"]}
    assert "stage 'replace' writes, which is fixed upstream" in parts(ended)[1]["detail"]
    assert parts(ended)[0]["declared"] == "https://example.org/1"
    workspace.pipeline(stage("replace", more=upstream) + beside)
    assert bump(workspace, {"a.py": other}).code == 0


@pytest.mark.parametrize("because", ["", ", because: only pools are counted"])
def test_a_stage_whose_condition_no_longer_holds_is_not_lost_in_silence(workspace: Workspace, because: str) -> None:
    when = f"    when: [{{check: symbol_exists, file: pkg/a.py, name: Pool{because}}}]\n"
    workspace.pipeline(stage("assign", more=when))
    ended = bump(workspace, {"a.py": BASE.replace("class Pool", "class Store")})
    assert (ended.code, verdicts(ended)) == (4, {"assign": ["not reached"]})
    workspace.base({"a.py": BASE.replace("class Pool", "class Store")})
    ended = bump(workspace, {"a.py": BASE.replace("class Pool", "class Store")})
    assert (ended.code, verdicts(ended)) == (0, {"assign": ["off"]})


def test_a_check_or_a_house_rule_that_fails_is_its_stage_s(workspace: Workspace) -> None:
    post = "    post: [{check: match_count, file: pkg/a.py, pattern: import os, equals: 1}]\n"
    workspace.pipeline(stage("insert", more=post))
    ended = bump(workspace, {"a.py": BASE.replace("import os\n", "import os as os\n")})
    assert (ended.code, verdicts(ended)) == (5, {"insert": ["exact", "check failed"]})
    bad = "{op: import, file: pkg/a.py, code: import pkg.b}"
    workspace.pipeline(stage(bad, "rule"))
    other = workspace.folder.parent / "other" / "pkg"
    ended = bump(workspace, {"a.py": BASE})
    assert ended.code == 0
    (other / "b.py").unlink()
    ended = run_cli(
        "bump", "--json", "--tree", f"pkg={other}", "--base", f"pkg={workspace.package}", cwd=workspace.folder
    )
    assert (ended.code, verdicts(ended)) == (5, {"rule": ["exact", "check failed"]})


def test_an_expired_stage_fails_also_where_another_does(workspace: Workspace) -> None:
    workspace.pipeline(stage("assign", more='    expires: "1.0"\n') + stage("delete"))
    ended = bump(
        workspace, {"a.py": BASE.replace("x.drop(part)", "x.drop(part, 1)"), "version.py": "__version__ = '1.1'\n"}
    )
    assert verdicts(ended) == {"assign": ["exact", "check failed"], "delete": ["gone"]}


@pytest.mark.parametrize(
    ("expect", "version", "code"),
    [
        ('{verdict: adapted, because: seen, until: "2.0"}', "1.5", 0),
        ('{verdict: adapted, because: seen, until: "2.0"}', "2.0.1", 4),
        ('{verdict: adapted, on: ">=1.6", because: seen, until: "2.0"}', "1.5", 4),
        ('{verdict: gone, because: seen, until: "2.0"}', "1.5", 4),
        ('{verdict: adapted, because: seen, until: "2.0"}', "", 4),
    ],
)
def test_a_verdict_is_declared_with_a_reason_until_a_release(
    workspace: Workspace, expect: str, version: str, code: int
) -> None:
    workspace.pipeline(stage("insert", more=f"    expect: [{expect}]\n"))
    ended = bump(workspace, {"a.py": CHANGED, "version.py": f"__version__ = '{version}'\n"})
    assert (ended.code, verdicts(ended)) == (code, {"insert": ["adapted"]})
    assert parts(ended)[0]["declared"] == ("seen" if code == 0 else "")
    untrue = [r for r in ended.records() if r["event"] == "diagnostic" and r["code"] == "W518"]
    assert bool(untrue) is expect.startswith("{verdict: gone")


def test_without_a_base_the_lock_decides_and_nothing_is_compared(workspace: Workspace) -> None:
    workspace.pipeline(stage("replace"))
    assert run_cli("lock", "--tree", f"pkg={workspace.package}", cwd=workspace.folder).code == 0
    ended = bump(workspace, {"a.py": BASE}, base=False)
    assert (ended.code, verdicts(ended)) == (0, {"replace": ["exact"]})
    assert any(r["event"] == "diagnostic" and "own base is not known" in r["message"] for r in ended.records())
    ended = bump(workspace, {"a.py": CHANGED}, base=False)
    assert (ended.code, verdicts(ended), parts(ended)[0]["diff"]) == (4, {"replace": ["adapted"]}, "")


# --- what is shown


def test_a_fingerprint_depends_on_the_edit_and_its_fate_and_on_no_line(workspace: Workspace) -> None:
    workspace.pipeline(stage("assign") + stage("delete"))
    other = {"a.py": BASE.replace("LIMIT = 4", "CAP = 4")}
    before = {p["stage"]: p["fingerprint"] for p in parts(bump(workspace, other))}
    workspace.pipeline("# one line more\n\n" + stage("assign") + "\n" + stage("delete"))
    again = bump(workspace, other)
    assert {p["stage"]: p["fingerprint"] for p in parts(again)} == before
    assert len(set(before.values())) == len(before)
    workspace.pipeline(stage("assign").replace("8", "9") + stage("delete"))
    changed = {p["stage"]: p["fingerprint"] for p in parts(bump(workspace, other))}
    assert (changed["assign"] != before["assign"], changed["delete"] == before["delete"]) == (True, True)


def test_annotations_are_workflow_commands_of_one_line_each(workspace: Workspace) -> None:
    workspace.pipeline(stage("assign") + stage("delete"))
    other = {"a.py": BASE.replace("LIMIT = 4", "CAP = 4").replace("x.drop(part)", "x.drop(part, 1)")}
    bump(workspace, other)
    folder = workspace.folder.parent
    shown = run_cli("bump", "-C", "workspace", "--format", "github", "--tree", "pkg=other/pkg",
                    "--base", f"pkg={workspace.package}", cwd=folder)  # fmt: skip
    lines = shown.out.splitlines()
    assert shown.code == 4
    assert len(lines) == 2
    for line in lines:
        found = re.fullmatch(r"::error file=workspace/pipeline\.yaml,line=\d+,col=\d+,title=([^,:]+)::(.*)", line)
        assert found, line
        assert re.search(r"%0Afingerprint [0-9a-f]{16}$", found[2])


def test_markdown_is_a_table_and_what_to_look_at(workspace: Workspace) -> None:
    workspace.pipeline(stage("assign") + stage("replace"))
    ended = bump(workspace, {"a.py": "LIMIT = 5\n", "c.py": BASE.replace("LIMIT = 4\n", "LIMIT = 5\n")})
    assert ended.code == 4
    other = workspace.folder.parent / "other" / "pkg"
    known = ["--tree", f"pkg={other}", "--base", f"pkg={workspace.package}"]
    text = run_cli("bump", "--format", "markdown", *known, cwd=workspace.folder).out
    assert "| `assign` | **gone** |" in text
    assert text.count("<details>") == text.count("</details>") == 2
    assert "```yaml" in text
    plain = run_cli("bump", *known, cwd=workspace.folder).out
    assert "replace: moved" in plain
    assert "write instead" in plain
    assert "write instead" not in run_cli("bump", "--brief", *known, cwd=workspace.folder).out


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ((), 2, "E135"),
        (("--to", "pkg=1"), 2, "E135"),
        (("--to", "other==1"), 2, "E135"),
        (("--to", "pkg[x]==1"), 2, "E135"),
        (("--to", "pkg @ https://example.org/x.tar.gz"), 2, "E135"),
        (("--which", "x"), 2, "E135"),
        (("--tree", "pkg=nowhere"), 3, "E304"),
        (("--tree", "nothing=."), 2, "E131"),
        (("--tree", "nowhere"), 2, "E131"),
        (("--tree", "pkg=nowhere", "--tree", "pgk=nowhere"), 2, "did you mean 'pkg'?"),
        (("--image", "nowhere.tar"), 3, "E304"),
        (("--to", "pkg==1", "--offline"), 3, "E301"),
        (("--to", "pkg>=1", "--offline"), 3, "E301"),
        (("--jobs", "0", "--to", "pkg==1"), 2, "E700"),
    ],
)
@pytest.mark.usefixtures("no_cache")
def test_what_cannot_be_had_is_a_diagnostic(
    workspace: Workspace, arguments: tuple[str, ...], code: int, told: str
) -> None:
    ended = run_cli("bump", "--base", f"pkg={workspace.package}", *arguments, cwd=workspace.folder)
    assert (ended.code, told in ended.out + ended.err) == (code, True), ended


@pytest.mark.usefixtures("no_cache")
def test_a_base_without_a_source_does_not_keep_others_from_being_judged(
    workspace: Workspace,
) -> None:
    workspace.pipeline(LIMIT_STAGE)
    workspace.base({"a.py": BASE})
    ended = bump(workspace, {"a.py": BASE}, "--to", "pkg==9", "--offline")
    bases = [r for r in ended.records() if r["event"] == "bump-base"]
    assert [(base["source"], [d["code"] for d in base["diagnostics"]]) for base in bases] == [
        (False, ["E301"]),
        (True, []),
    ]
    assert (ended.code, verdicts(ended)) == (3, {"limit": ["exact"]})


# --- generated modules

_name = st.from_regex(r"v[a-z]{3,8}_", fullmatch=True)
_line = st.builds("{} = x + {}".format, _name, st.integers(0, 9_999))


@st.composite
def modules(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    """Return names of functions, and the lines of each."""
    names = draw(st.lists(_name.map("f_{}".format), min_size=2, max_size=5, unique=True))
    lines = draw(st.lists(_line, min_size=6 * len(names), max_size=6 * len(names), unique=True))
    return names, [lines[6 * i : 6 * i + 6] for i in range(len(names))]


def source(names: list[str], bodies: list[list[str]]) -> str:
    return "\n\n".join(
        f"def {name}(x):\n" + "".join(f"    {line}\n" for line in body)
        for name, body in zip(names, bodies, strict=True)
    )


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(module=modules(), how=st.sampled_from(["renamed", "moved", "both", "twice", "two files", "gone", "same"]))
def test_what_was_done_to_a_definition_gives_its_verdict(
    workspace: Workspace, module: tuple[list[str], list[list[str]]], how: str
) -> None:
    names, bodies = module
    (workspace.package / "a.py").write_text(source(names, bodies))
    edit = f"{{op: insert, file: pkg/a.py, within: {names[0]}, after: '{bodies[0][2]}', code: x = 1}}"
    workspace.pipeline(stage(edit, "x"))
    rest, mine = source(names[1:], bodies[1:]), source(names[:1], bodies[:1])
    renamed = source(["other_name"], bodies[:1])
    files = {
        "renamed": {"a.py": f"{rest}\n\n{renamed}"},
        "moved": {"a.py": rest, "c.py": mine},
        "both": {"a.py": rest, "c.py": renamed},
        "twice": {"a.py": f"{mine}\n\n{rest}\n\n{mine}"},
        "two files": {"a.py": rest, "c.py": mine, "d.py": mine},
        "gone": {"a.py": rest},
        "same": {"a.py": f"{rest}\n\n{mine}"},
    }[how]
    ended = bump(workspace, dict(files))
    fate, found = {
        "renamed": ("moved", "pkg/a.py:other_name"),
        "moved": ("moved", f"pkg/c.py:{names[0]}"),
        "both": ("moved", "pkg/c.py:other_name"),
        "twice": ("ambiguous", ""),
        "two files": ("ambiguous", ""),
        "gone": ("gone", ""),
        "same": ("exact", ""),
    }[how]
    assert [(part["verdict"], part["found"]) for part in parts(ended)] == [(fate, found)], parts(ended)


_text = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\n  '\"#:|-{}[]&*!%@`"),
    min_size=1,
    max_size=40,
)


@given(
    st.dictionaries(st.sampled_from(["op", "file", "within", "match", "code"]), _text | st.integers(0, 9), min_size=1)
)
def test_what_is_proposed_reads_back_as_it_was_meant(data: dict[str, Any]) -> None:
    assert read_document("x.yaml", entry(data).encode()).data == [data]
