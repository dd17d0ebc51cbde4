"""Transforms and checks of installed distributions: found, loaded when used, locked; broken ones are told by name."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from orchestrator.core.diagnostics import ExitCode
from orchestrator.emit.schema import pipeline_schema
from tests.plugins import CHECK, TRANSFORM, Site
from tests.workspaces import LIMIT_STAGE, ROOT, Workspace, faults

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STAGE = """\
  - id: limit
    kind: codemod
    summary: Raise the limit.
    edits:
      - {op: transform, file: pkg/a.py, use: my-dist.raise_limit, params: {to: 12}}
    post:
      - {check: my-dist.says, file: pkg/a.py, text: LIMIT = 12, because: it is the point}
"""
FILES = {"my_dist/__init__.py": "", "my_dist/raising.py": TRANSFORM, "my_dist/says.py": CHECK}
TRANSFORMS, CHECKS = {"raise_limit": "my_dist.raising"}, {"says": "my_dist.says:Says"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with Site.at(tmp_path / "site", monkeypatch) as made:
        yield made


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.at(tmp_path, STAGE)


@pytest.fixture
def installed(site: Site) -> Site:
    site.install("My_Dist", FILES, transforms=TRANSFORMS, checks=CHECKS)
    return site


pytestmark = pytest.mark.usefixtures("site")


@pytest.mark.usefixtures("installed")
def test_a_stage_uses_what_a_distribution_brings(workspace: Workspace) -> None:
    ended = workspace.run("render", "--json")
    assert ended.code == ExitCode.OK
    (stage,) = [record for record in ended.records() if record["event"] == "stage"]
    assert stage["outcome"] == "applied (unlocked)"
    assert [(c["check"], c["role"], c["because"]) for c in stage["checks"] if c["role"] != "final"] == [
        ("my-dist.says", "effect", "it is the point")
    ]
    (patchset,) = [record for record in ended.records() if record["event"] == "patchset"]
    assert {name: used["version"] for name, used in patchset["plugins"].items()} == {
        "check my-dist.says": "1.0",
        "transform my-dist.raise_limit": "1.0",
    }


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("text", "outcome"), [("LIMIT = 4", "fixed upstream"), ("LIMIT = 5", "applied (unlocked)")])
def test_a_check_of_a_distribution_may_say_that_upstream_has_fixed_it(
    workspace: Workspace, text: str, outcome: str
) -> None:
    check = f"{{check: my-dist.says, file: pkg/a.py, text: {text}, code: 'f(${{a_hole}})'}}"
    workspace.pipeline(f"{LIMIT_STAGE}    upstream: {{pr: 'https://example.org/1', fixed_when: [{check}]}}\n")
    ended = workspace.run("render", "--json")
    assert [record["outcome"] for record in ended.records() if record["event"] == "stage"] == [outcome]
    (patchset,) = [record for record in ended.records() if record["event"] == "patchset"]
    assert list(patchset["plugins"]) == ["check my-dist.says"]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("where", ["post: [CHECK]", "upstream: {pr: 'https://example.org/1', fixed_when: [CHECK]}"])
def test_a_misspelt_key_of_such_a_check_is_told_with_its_own_keys_wherever_it_stands(
    workspace: Workspace, where: str
) -> None:
    entry = where.replace("CHECK", "{check: my-dist.says, file: pkg/a.py, txt: x}")
    workspace.pipeline(f"{LIMIT_STAGE.partition('    post:')[0]}    {entry}\n")
    told = faults(workspace.run("validate", "--json"))
    assert any("unknown key 'txt' | did you mean 'text'?" in fault for fault in told), told


@pytest.mark.usefixtures("installed")
def test_nothing_is_imported_that_no_stage_uses(workspace: Workspace) -> None:
    workspace.pipeline(STAGE.replace("my-dist.says", "text_count").replace("because", "equals: 1, because"))
    assert workspace.run("plan").code == ExitCode.OK
    assert "my_dist.raising" in sys.modules
    assert "my_dist.says" not in sys.modules


def test_the_lock_holds_version_and_source_and_says_what_changed(workspace: Workspace, installed: Site) -> None:
    assert workspace.run("lock").code == ExitCode.OK
    locked = json.loads((workspace.folder / "pipeline.lock").read_text())["plugins"]
    assert set(locked) == {"check my-dist.says", "transform my-dist.raise_limit"}
    assert all(entry["version"] == "1.0" and len(entry["sha256"]) == 64 for entry in locked.values())
    assert workspace.run("render", "--locked").code == ExitCode.OK
    (installed.folder / "my_dist/raising.py").write_text(f"{TRANSFORM}# changed\n")
    ended = workspace.spawn("render", "--locked", "--json", environment={"PYTHONPATH": _path(installed)})
    assert ended.code == ExitCode.MISMATCH
    assert [fault for fault in faults(ended) if "transform my-dist.raise_limit" in fault]
    ended = workspace.spawn("lock", environment={"PYTHONPATH": _path(installed)})
    assert "plugin transform my-dist.raise_limit: 1.0 " in ended.out
    workspace.pipeline(STAGE.replace("my-dist.says", "text_count").replace("because", "equals: 1, because"))
    ended = workspace.spawn("render", "--locked", "--json", environment={"PYTHONPATH": _path(installed)})
    assert any("check my-dist.says" in fault and "is used no more" in fault for fault in faults(ended))


def _path(site: Site) -> str:
    return f"{site.folder}:{ROOT}"


def test_a_workspace_that_uses_none_has_a_lock_without_them(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    assert workspace.run("lock").code == ExitCode.OK
    assert "plugins" not in json.loads((workspace.folder / "pipeline.lock").read_text())


def test_a_distribution_that_is_not_installed_is_named(workspace: Workspace) -> None:
    ended = workspace.run("validate", "--json")
    assert ended.code == ExitCode.INVALID
    help_ = "Install the distribution 'my-dist' beside orchestrator, or correct the name."
    assert faults(ended) == [f"E112 pipeline.yaml:12:17 unknown check 'my-dist.says' | {help_}"]
    workspace.pipeline(STAGE.replace("my-dist.says", "text_count").replace("because", "equals: 1, because"))
    (fault,) = faults(workspace.run("validate", "--json"))
    assert fault.startswith(
        "E221 pipeline.yaml:10:46 no installed distribution brings a transform 'my-dist.raise_limit'"
    )


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "my-dist.says",
            "my-dist.say",
            "E112 pipeline.yaml:12:17 unknown check 'my-dist.say' | did you mean 'my-dist.says'?",
        ),
        ("my-dist.says", "says", "E112 pipeline.yaml:12:17 unknown check 'says' | did you mean 'my-dist.says'?"),
        (
            "my-dist.says",
            "my_dist.says",
            "E112 pipeline.yaml:12:17 unknown check 'my_dist.says' | did you mean 'my-dist.says'?",
        ),
        (
            "my-dist.raise_limit",
            "my-dist.raise",
            "brings a transform 'my-dist.raise' | did you mean 'my-dist.raise_limit'?",
        ),
        ("my-dist.raise_limit", "raise_limit", "E221 pipeline.yaml:10:46 "),
        ("text:", "txt:", "E110 pipeline.yaml:12:47 unknown key 'txt' | did you mean 'text'?"),
        (
            "{to: 12}",
            "{too: 12}",
            "E222 pipeline.yaml:10:75 transform 'my-dist.raise_limit' of my-dist 1.0, parameter 'too'",
        ),
        ("text: LIMIT = 12", "text: 12", "E113 pipeline.yaml:12:53 'text' takes text"),
        ("because:", "code: 'f(', because:", "E206 pipeline.yaml:12:71 not valid Python"),
    ],
)
def test_what_is_misspelt_or_does_not_fit_has_its_place(workspace: Workspace, old: str, new: str, said: str) -> None:
    workspace.pipeline(STAGE.replace(old, new, 1))
    ended = workspace.run("validate", "--json")
    assert ended.code == ExitCode.INVALID
    assert any(said in fault for fault in faults(ended)), faults(ended)


@pytest.mark.usefixtures("installed")
def test_a_transform_that_the_workspace_lacks_may_be_an_installed_one(workspace: Workspace) -> None:
    workspace.pipeline(STAGE.replace("my-dist.raise_limit", "raise_limit", 1))
    (fault,) = faults(workspace.run("validate", "--json"))
    assert fault.endswith("| did you mean 'my-dist.raise_limit'?")


def test_two_entry_points_of_one_name_are_named_both(site: Site, tmp_path: Path, workspace: Workspace) -> None:
    site.install("my-dist", FILES, transforms=TRANSFORMS, checks=CHECKS)
    other = Site(tmp_path / "other")
    other.folder.mkdir()
    other.install("my.dist", {"elsewhere.py": TRANSFORM}, transforms={"raise_limit": "elsewhere"}, version="2.0")
    sys.path.append(str(other.folder))  # `syspath_prepend` puts the whole list back
    ended = workspace.run("validate", "--json")
    assert ended.code == ExitCode.INVALID
    (record,) = [r for r in ended.records() if r["event"] == "diagnostic"]
    assert record["code"] == "E281"
    assert record["notes"] == [
        f"my-dist 1.0, my_dist.raising (in {site.folder})",
        f"my-dist 2.0, elsewhere (in {other.folder})",
    ]
    workspace.pipeline(
        STAGE.replace(
            "{op: transform, file: pkg/a.py, use: my-dist.raise_limit, params: {to: 12}}",
            '{op: assign, file: pkg/a.py, name: LIMIT, value: "12"}',
        )
    )
    assert workspace.run("validate").code == ExitCode.OK  # what is not used is nobody's trouble


BROKEN = {
    "no module": ({}, "my_dist.absent", "loading it raised ModuleNotFoundError: No module named 'my_dist.absent'"),
    "no attribute": ({}, "my_dist:Absent", "loading it raised AttributeError"),
    "a syntax error": ({"my_dist/x.py": "def f(:\n"}, "my_dist.x", "loading it raised SyntaxError"),
    "an exception": ({"my_dist/x.py": "raise OSError('no\\nway')\n"}, "my_dist.x", "loading it raised OSError: no"),
    "an exit": ({"my_dist/x.py": "raise SystemExit(3)\n"}, "my_dist.x", "loading it raised SystemExit: 3"),
    "no name": ({}, "my dist x", "it names no `module` or `module:attribute`"),
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("group", ["transforms", "checks"])
def test_a_broken_entry_point_names_its_distribution(site: Site, workspace: Workspace, kind: str, group: str) -> None:
    files, target, said = BROKEN[kind]
    entries = {"transforms": TRANSFORMS, "checks": CHECKS}
    entries[group] = dict.fromkeys(entries[group], target)
    site.install("my-dist", {**FILES, **files}, transforms=entries["transforms"], checks=entries["checks"])
    ended = workspace.run("validate", "--json")
    assert ended.code == ExitCode.INVALID
    name = "raise_limit" if group == "transforms" else "says"
    (fault,) = faults(ended)
    assert fault.startswith("E280 pipeline.yaml:")
    assert f"{group.removesuffix('s')} 'my-dist.{name}' of my-dist 1.0 cannot be used: {said}" in fault


WRONG_TRANSFORMS = {
    "no Params": ("def transform(module, params): return module\n", "my_dist.x", "has no `Params`"),
    "Params that are no model": (
        "class Params: pass\ndef transform(m, p): return m\n",
        "my_dist.x",
        "is no subclass of",
    ),
    "no function": ("from pydantic import BaseModel\nclass Params(BaseModel): pass\n", "my_dist.x", "has no function"),
    "a bare function": ("def transform(module, params): return module\n", "my_dist.x:transform", "has no `Params`"),
}


@pytest.mark.parametrize("kind", WRONG_TRANSFORMS)
def test_a_transform_of_the_wrong_kind_is_refused(site: Site, workspace: Workspace, kind: str) -> None:
    text, target, said = WRONG_TRANSFORMS[kind]
    site.install("my-dist", {**FILES, "my_dist/x.py": text}, transforms={"raise_limit": target}, checks=CHECKS)
    (fault,) = faults(workspace.run("validate", "--json"))
    assert fault.startswith("E280 pipeline.yaml:10:46 transform 'my-dist.raise_limit' of my-dist 1.0 cannot be used")
    assert said in fault


WRONG_CHECKS = {
    "a function": ("def says(view): return True\n", "my_dist.x:says", "it is a function, not a subclass of"),
    "another class": ("class Says: pass\n", "my_dist.x:Says", "it is the class Says, not a subclass of"),
    "a module": ("", "my_dist.x", "it is a module, not a subclass of"),
    "a check that looks at nothing": (
        "from orchestrator.checks.base import Check\nclass Says(Check):\n    file: str\n    text: str\n",
        "my_dist.x:Says",
        "it defines no `look(self, view)`",
    ),
}


@pytest.mark.parametrize("kind", WRONG_CHECKS)
def test_a_check_of_the_wrong_kind_is_refused(site: Site, workspace: Workspace, kind: str) -> None:
    text, target, said = WRONG_CHECKS[kind]
    site.install("my-dist", {**FILES, "my_dist/x.py": text}, transforms=TRANSFORMS, checks={"says": target})
    (fault,) = faults(workspace.run("validate", "--json"))
    assert fault.startswith("E280 pipeline.yaml:12:17 check 'my-dist.says' of my-dist 1.0 cannot be used")
    assert said in fault


BAD_LOOKS = {
    "raises": ("raise ZeroDivisionError('by nothing')", "the check itself raised ZeroDivisionError: by nothing"),
    "exits": ("raise SystemExit(0)", "the check itself raised SystemExit: 0"),
    "returns true": ("return True", "the check returned a bool, not a Verdict"),
    "returns nothing": ("pass", "the check returned a NoneType, not a Verdict"),
}


@pytest.mark.parametrize("kind", BAD_LOOKS)
def test_a_check_that_misbehaves_fails_and_names_its_distribution(site: Site, workspace: Workspace, kind: str) -> None:
    body, said = BAD_LOOKS[kind]
    text = CHECK.replace(CHECK[CHECK.index("        return when") :], f"        {body}\n")
    site.install("my-dist", {**FILES, "my_dist/says.py": text}, transforms=TRANSFORMS, checks=CHECKS)
    ended = workspace.run("plan", "--json")
    assert ended.code == ExitCode.CHECK_FAILED
    (fault,) = faults(ended)
    assert f"{said} (my-dist 1.0, my_dist.says:Says)" in fault


def test_a_transform_that_raises_is_told_with_its_distribution_and_line(site: Site, workspace: Workspace) -> None:
    text = TRANSFORM.replace("    return module.visit(Raise())", "    raise KeyError('x')")
    site.install("my-dist", {**FILES, "my_dist/raising.py": text}, transforms=TRANSFORMS, checks=CHECKS)
    ended = workspace.run("plan", "--json")
    assert ended.code == ExitCode.NOT_APPLIED
    (found,) = [record for record in ended.records() if record["event"] == "diagnostic"]
    line = text.splitlines().index("    raise KeyError('x')") + 1
    assert (found["code"], found["message"]) == ("E415", "the transform raised KeyError: 'x'")
    assert found["notes"] == [f"at my-dist 1.0, my_dist.raising:{line}:1"]


def test_what_a_module_prints_while_it_is_imported_stays_off_stdout(site: Site, workspace: Workspace) -> None:
    site.install(
        "my-dist", {**FILES, "my_dist/says.py": f"print('hello')\n{CHECK}"}, transforms=TRANSFORMS, checks=CHECKS
    )
    ended = workspace.run("plan", "--json")
    assert ended.code == ExitCode.OK
    assert all(ended.records())


@pytest.mark.usefixtures("installed")
def test_a_check_sees_the_tree_of_its_own_moment(workspace: Workspace) -> None:
    """It may look at the tree in ways that nobody notes: its verdict is kept for no other tree."""
    text = CHECK.replace('(view.read(self.file) or b"")', "view.tree[self.file]")
    (workspace.folder.parent / "site/my_dist/says.py").write_text(text)
    (stage,) = [r for r in workspace.run("plan", "--json").records() if r["event"] == "stage"]
    assert [c["role"] for c in stage["checks"] if c["role"] != "final"] == ["effect"]


def test_damaged_metadata_of_others_is_no_trouble(installed: Site, workspace: Workspace) -> None:
    (installed.folder / "broken-1.0.dist-info").mkdir()
    (installed.folder / "odd-1.0.dist-info").mkdir()
    (installed.folder / "odd-1.0.dist-info/entry_points.txt").write_text("nonsense\n[x\n= y\n")
    assert workspace.run("validate").code == ExitCode.OK


# --- the schema ---


def test_the_schema_takes_any_plugin_check_and_with_models_only_those() -> None:
    from orchestrator.checks.catalogue import CHECKS as OWN  # noqa: PLC0415
    from orchestrator.checks.plugins import installed_models  # noqa: PLC0415

    assert "PluginCheck" in pipeline_schema()["definitions"]
    made = pipeline_schema(installed_models(OWN))
    assert "PluginCheck" not in made["definitions"]


@pytest.mark.usefixtures("installed")
def test_the_schema_of_the_command_knows_installed_checks(workspace: Workspace) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    made = json.loads(workspace.run("explain", "--schema").out)
    validator = jsonschema.Draft7Validator(made)
    good = {
        "version": 1,
        "name": "demo",
        "target": "t.yaml",
        "stages": [
            {
                "id": "a",
                "kind": "codemod",
                "summary": "s",
                "deploy": [{"source": "a", "to": "p/a"}],
                "post": [{"check": "my-dist.says", "file": "p/a", "text": "x"}],
            }
        ],
    }
    assert list(validator.iter_errors(good)) == []
    del good["stages"][0]["post"][0]["text"]  # type: ignore[index]  # a list of mappings
    assert list(validator.iter_errors(good))
