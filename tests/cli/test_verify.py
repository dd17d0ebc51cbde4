"""`verify` on trees and images that anybody made: what is in, changed since or foreign, and what logs say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.origin.images import FOLDER, Member, docker_save, layer, link, oci, written
from tests.workspaces import CODE, TARGET, Ended, Workspace, faults, replaced, run_cli

if TYPE_CHECKING:
    from pathlib import Path

MORE = f"""{CODE}

def third(x):
    block = 128 if x.wide else 64
    for part in x.parts:
        block = block // 2
    return block
"""
STAGES = """\
  - id: limit
    kind: codemod
    summary: Raise the limit.
    edits:
      - {op: assign, file: pkg/a.py, name: LIMIT, value: "${params.limit}"}
  - id: sign
    kind: codemod
    summary: Turn the sign, and leave a helper.
    waive: [{rule: E513, because: it is called from outside}]
    edits:
      - {op: replace, file: pkg/a.py, within: first, match: return y, with: return -y}
      - {op: insert, file: pkg/a.py, after: "LIMIT = ${any}", code: "def helper(x):\\n    return x * ${params.limit}"}
  - id: drop
    kind: codemod
    summary: Remove what leaves no trace.
    edits:
      - {op: delete, file: pkg/a.py, within: second, match: raise NotImplementedError()}
  - id: block
    kind: codemod
    summary: Take a block for this device.
    edits:
      - op: replace
        file: pkg/a.py
        within: third
        match: "block = ${a} if x.wide else ${b}"
        with: "block = ${params.limit} if x.wide and x.deep else 4"
  - id: again
    kind: codemod
    needs: [block]
    summary: Change what the stage before wrote.
    edits:
      - op: replace
        file: pkg/a.py
        within: third
        match: "block = ${a} if x.wide and x.deep else 4"
        with: "block = ${a} if x.deep else 2"
  - id: bring
    kind: codemod
    summary: Bring a file.
    waive: [{rule: E513, because: it is imported from outside}]
    deploy:
      - {source: new.py, to: pkg/new.py}
"""
IDS = ["limit", "sign", "drop", "block", "again", "bring"]
NEW = '"""New."""\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 2\n'


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path, STAGES)
    made.write("new.py", NEW)
    made.base({"a.py": MORE, "other.py": "A = 1\n", "text.txt": "x"})
    return made


def render(workspace: Workspace, *arguments: str) -> dict[str, bytes]:
    """Return the files of the package as the pipeline makes them."""
    assert workspace.run("render", *arguments).code == 0
    built = workspace.built()
    made = {path.removeprefix("pkg/"): content for path, content in workspace.tree().items()}
    head = "patchset/overlay/pkg/"
    made |= {path.removeprefix(head): content for path, content in built.items() if path.startswith(head)}
    for path in sorted((workspace.folder / "build").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (workspace.folder / "build").rmdir()
    return made


def verify(workspace: Workspace, files: dict[str, Any], *arguments: str, base: bool = True) -> Ended:
    """Verify a tree of these files against the workspace's package as the base."""
    top = workspace.folder.parent / "looked" / "pkg"
    for path in sorted(top.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    written(top, {name: text.encode() if isinstance(text, str) else text for name, text in files.items()})
    known = ["--base", f"pkg={workspace.package}"] if base else []
    return run_cli("verify", "--json", "--tree", f"pkg={top}", *known, *arguments, cwd=workspace.folder)


def states(ended: Ended) -> dict[str, str]:
    return {r["stage"]: r["state"] for r in ended.records() if r["event"] == "verify"}


def stage(ended: Ended, name: str) -> dict[str, Any]:
    return next(r for r in ended.records() if r["event"] == "verify" and r["stage"] == name)


def events(ended: Ended, event: str) -> list[dict[str, Any]]:
    return [r for r in ended.records() if r["event"] == event]


def edited(files: dict[str, bytes], old: str, new: str, name: str = "a.py") -> dict[str, bytes]:
    return {**files, name: replaced(files[name].decode(), old, new).encode()}


# --- states


def test_the_base_has_nothing_and_the_result_everything(workspace: Workspace) -> None:
    base = {path.removeprefix("pkg/"): content for path, content in workspace.tree().items()}
    ended = verify(workspace, base)
    assert (ended.code, set(states(ended).values())) == (4, {"not applied"})
    ended = verify(workspace, render(workspace))
    assert (ended.code, set(states(ended).values())) == (0, {"applied"})
    assert events(ended, "foreign") == []


def test_a_tree_that_was_patched_by_hand_with_other_layout_and_comments_counts(workspace: Workspace) -> None:
    made = render(workspace)
    made = edited(made, "    return -y\n", "    # by hand\n    return ( - y )   # so\n")
    made = edited(made, "LIMIT = 8", "LIMIT=8  # raised")
    made = {**made, "new.py": replaced(NEW, "return 1", "return 1  # one").encode()}
    ended = verify(workspace, made)
    want = dict.fromkeys(IDS, "applied")
    assert states(ended)["bring"] == "applied"
    assert {**states(ended), "sign": "applied"} == want


def test_other_parameters_than_now_are_told_with_the_diff(workspace: Workspace) -> None:
    ended = verify(workspace, render(workspace, "--set", "limit=16"))
    got = states(ended)
    assert ended.code == 4
    changed = "applied, changed since"
    assert got == {"limit": changed, "sign": changed, "drop": "applied", "block": changed, "again": changed,
                   "bring": "applied"}  # fmt: skip
    (part,) = stage(ended, "limit")["parts"]
    assert "-LIMIT = 8\n+LIMIT = 16\n" in part["diff"]
    assert "LIMIT = 16" in part["detail"]


def test_a_change_by_hand_behind_a_stage_is_told_with_the_diff(workspace: Workspace) -> None:
    made = edited(render(workspace), "y = x + LIMIT", "y = x + LIMIT + 1")
    ended = verify(workspace, made)
    assert (ended.code, states(ended)["sign"]) == (4, "applied, changed since")
    diff = stage(ended, "sign")["parts"][0]["diff"]
    assert "-    y = x + LIMIT\n+    y = x + LIMIT + 1\n" in diff
    assert "block" not in diff
    made = edited(render(workspace), "block = 8 if x.deep else 2", "block = 8 if x.deep else 3")
    ended = verify(workspace, made)
    assert states(ended) == {**dict.fromkeys(IDS, "applied"), "block": "applied, changed since",
                             "again": "applied, changed since"}  # fmt: skip
    made = edited(render(workspace), "def second(x):\n", "def second(x):\n    print(x)\n")
    assert states(verify(workspace, made))["drop"] == "applied, changed since"


def test_a_stage_that_is_in_by_half_names_its_edits(workspace: Workspace) -> None:
    made = edited(render(workspace), "return -y", "return y")
    ended = verify(workspace, made)
    assert (ended.code, states(ended)["sign"]) == (4, "partly applied")
    parts = stage(ended, "sign")["parts"]
    assert [part["state"] for part in parts] == ["not applied", "applied"]


def test_code_that_is_neither_is_said_with_the_reason(workspace: Workspace) -> None:
    made = edited(render(workspace), "    return -y\n", "    raise SystemError\n")
    ended = verify(workspace, made)
    assert stage(ended, "sign")["parts"][0]["state"] == "cannot be applied here"
    base = {path.removeprefix("pkg/"): content for path, content in workspace.tree().items()}
    ended = verify(workspace, {**edited(base, "def third", "def fourth")})
    assert (states(ended)["block"], states(ended)["limit"]) == ("cannot be applied here", "not applied")
    assert "third" in stage(ended, "block")["detail"]


def test_a_stage_that_a_later_one_wrote_over_is_in_where_that_one_is(workspace: Workspace) -> None:
    made = edited(render(workspace), "    return block\n", "    return block + 0\n")
    ended = verify(workspace, made)
    assert states(ended)["block"] == states(ended)["again"] == "applied, changed since"


def test_deployed_files_are_the_same_changed_or_absent(workspace: Workspace) -> None:
    made = render(workspace)
    ended = verify(workspace, edited(made, "return 2", "return 3", "new.py"))
    (part,) = stage(ended, "bring")["parts"]
    assert (part["state"], ended.code) == ("applied, changed since", 4)
    assert "-    return 2\n+    return 3\n" in part["diff"]
    ended = verify(workspace, {name: content for name, content in made.items() if name != "new.py"})
    assert (states(ended)["bring"], stage(ended, "bring")["detail"]) == ("not applied", "pkg/new.py is absent")
    ended = verify(workspace, {**made, "new.py": b"import os\n"})
    assert states(ended)["bring"] == "cannot be applied here"


def test_without_a_base_the_lock_tells_and_without_a_lock_the_edits_do(workspace: Workspace) -> None:
    made = render(workspace)
    ended = verify(workspace, made, base=False)
    assert {k: v for k, v in states(ended).items() if v != "applied"} == {
        "drop": "cannot be applied here",
        "block": "applied, changed since",
    }
    assert workspace.run("lock").code == 0
    ended = verify(workspace, made, base=False)
    assert (ended.code, set(states(ended).values())) == (0, {"applied"})
    assert events(ended, "base")[0]["known"] is False


def test_a_stage_that_is_off_takes_those_that_need_it_along(workspace: Workspace) -> None:
    workspace.pipeline(
        replaced(
            STAGES, "    kind: codemod\n    summary: Take", "    enabled: false\n    kind: codemod\n    summary: Take"
        )
    )
    ended = verify(workspace, render(workspace))
    assert ended.code == 0
    assert [states(ended)[name] for name in ("block", "again")] == ["skipped", "skipped"]


@pytest.mark.parametrize("base", [True, False])
def test_a_stage_that_a_condition_keeps_off_takes_those_along_whatever_the_reason_says(
    workspace: Workspace, *, base: bool
) -> None:
    when = "    when: [{check: file_exists, file: pkg/none.py, because: 'fixed upstream: so they say'}]\n"
    workspace.pipeline(
        replaced(STAGES, "    kind: codemod\n    summary: Take", f"{when}    kind: codemod\n    summary: Take")
    )
    ended = verify(workspace, render(workspace), base=base)
    assert [states(ended)[name] for name in ("block", "again")] == ["skipped", "skipped"]


# --- foreign changes


def test_foreign_changes_are_listed_and_what_stages_make_is_not(workspace: Workspace) -> None:
    made = {**render(workspace), "other.py": b"A = 2\n", "extra.py": b"B = 1\n"}
    del made["text.txt"]
    made = edited(made, '"""A module."""', '"""A module."""\nFOREIGN = 1')
    ended = verify(workspace, made)
    found = {r["path"]: r["change"] for r in events(ended, "foreign")}
    files = {"pkg/other.py": "changed", "pkg/extra.py": "added", "pkg/text.txt": "removed"}
    assert found == {**files, "pkg/a.py": "changed"}
    assert [r["definitions"] for r in events(ended, "foreign") if r["path"] == "pkg/a.py"] == [["<module>"]]
    ended = verify(workspace, {**made, "other.py": b"A = 1  # so\n"})
    assert [r["layout"] for r in events(ended, "foreign") if r["path"] == "pkg/other.py"] == [True]


def test_a_foreign_definition_in_a_file_of_a_stage_is_named(workspace: Workspace) -> None:
    workspace.pipeline(STAGES.partition("  - id: block")[0])
    made = edited(render(workspace), "block // 2", "block // 4")
    ended = verify(workspace, made)
    assert set(states(ended).values()) == {"applied"}
    assert [(r["path"], r["definitions"]) for r in events(ended, "foreign")] == [("pkg/a.py", ["third"])]


# --- logs


def test_a_log_that_agrees_is_said_and_one_that_does_not_is_a_fault(workspace: Workspace) -> None:
    made = render(workspace)
    assert workspace.run("render").code == 0
    ended = verify(workspace, made)
    assert (ended.code, events(ended, "log")[0]["said"]) == (0, "agrees")
    ended = verify(workspace, edited(made, "return -y", "return y"))
    assert ended.code == 6
    (found,) = faults(ended)
    assert found.startswith("E615 ")
    (record,) = events(ended, "log")
    assert [(d["about"], d["stages"]) for d in record["disagreements"]] == [("pkg/a.py:first", ["sign"])]


def test_a_log_of_a_run_on_this_very_tree_is_no_lie(workspace: Workspace) -> None:
    assert workspace.run("render").code == 0
    ended = workspace.run("verify", "--json")
    assert (ended.code, events(ended, "log")[0]["said"]) == (4, "the tree is its base")
    ended = workspace.run("verify", "--json", "--audit", "build")
    assert (ended.code, events(ended, "log")[0]["said"]) == (6, "disagrees")


def test_an_older_log_in_build_warns_and_one_that_is_named_is_a_fault(workspace: Workspace) -> None:
    made = edited(render(workspace), "return -y", "return y")
    assert workspace.run("render", "--set", "limit=16").code == 0
    ended = verify(workspace, made)
    assert (ended.code, events(ended, "log")[0]["said"], faults(ended)) == (4, "disagrees", [])
    assert verify(workspace, made, "--audit", "build").code == 6


def test_a_damaged_log_and_one_that_is_not_there(workspace: Workspace) -> None:
    made = render(workspace)
    assert workspace.run("render").code == 0
    log = workspace.folder / "build" / "audit.jsonl"
    log.write_bytes(log.read_bytes().replace(b"applied (unlocked)", b"applied (invented)", 1))
    assert verify(workspace, made).code == 6
    assert verify(workspace, made, "--audit", "nowhere").code == 2


# --- images


def image_of(files: dict[str, bytes], *, root: str = "opt/lib/pkg") -> dict[str, Member]:
    return {"opt": FOLDER, "opt/lib": FOLDER, **{f"{root}/{name}": content for name, content in files.items()}}


def test_an_image_is_judged_as_a_tree_is(workspace: Workspace) -> None:
    base = {path.removeprefix("pkg/"): content for path, content in workspace.tree().items()}
    made = render(workspace)
    patch = {name: content for name, content in made.items() if base.get(name) != content}
    layers = [layer(image_of(base)), layer(image_of(patch))]
    archive = workspace.write("image.tar", layer(oci(layers)))
    exported = layer(image_of(made))
    known = ("--base", f"pkg={workspace.package}")
    for name, stdin in ((str(archive), b""), ("-", exported), ("-", docker_save(layers))):
        ended = run_cli("verify", "--json", "--image", name, *known, cwd=workspace.folder, stdin=stdin)
        assert (ended.code, set(states(ended).values())) == (0, {"applied"})
        assert events(ended, "root")[0]["folders"] == {"/opt/lib/pkg": "/opt/lib/pkg"}
    ended = run_cli("verify", "--json", "--image", "-", *known, cwd=workspace.folder, stdin=layer(image_of(base)))
    assert (ended.code, set(states(ended).values())) == (4, {"not applied"})


def test_the_log_in_the_image_is_held_against_the_image(workspace: Workspace) -> None:
    made = render(workspace)
    assert workspace.run("render").code == 0
    log: dict[str, Member] = {"opt/patchset/audit.jsonl": workspace.built()["patchset/audit.jsonl"]}
    known = ("--base", f"pkg={workspace.package}")
    whole = layer({**image_of(made), **log})
    ended = run_cli("verify", "--json", "--image", "-", *known, cwd=workspace.folder, stdin=whole)
    assert (ended.code, events(ended, "log")[0]["said"]) == (0, "agrees")
    base = {path.removeprefix("pkg/"): content for path, content in workspace.tree().items()}
    lying = layer({**image_of(base), **log})
    ended = run_cli("verify", "--json", "--image", "-", *known, cwd=workspace.folder, stdin=lying)
    assert (ended.code, events(ended, "log")[0]["said"]) == (6, "disagrees")


def test_two_spellings_are_one_folder_or_hold_the_same(workspace: Workspace) -> None:
    workspace.write("target.yaml", replaced(TARGET, "[/opt/lib/pkg]", "[/opt/lib64/pkg, /opt/lib/pkg]"))
    made = render(workspace)
    known = ("--base", f"pkg={workspace.package}")
    linked = layer({**image_of(made), "opt/lib64": link("lib")})
    assert run_cli("verify", "--image", "-", *known, cwd=workspace.folder, stdin=linked).code == 0
    stale = {**image_of(made, root="opt/lib64/pkg"), **image_of({**made, "a.py": MORE.encode()})}
    ended = run_cli("verify", "--json", "--image", "-", *known, cwd=workspace.folder, stdin=layer(stale))
    assert ended.code == 4
    assert faults(ended)[0].startswith("E312 ")


def test_what_is_no_image_and_what_is_unclear_is_a_usage_error(workspace: Workspace) -> None:
    for arguments in (("--image", "nowhere.tar"), ("--image", "target.yaml"), ("--which", "a"), ("--image", "-")):
        assert run_cli("verify", *arguments, cwd=workspace.folder).code == 2
    assert workspace.run("verify", "--tree", f"pkg={workspace.package}", "--image", "-").code == 2


def test_people_see_states_diffs_foreign_changes_and_the_log(workspace: Workspace) -> None:
    made = {**render(workspace, "--set", "limit=16"), "extra.py": b""}
    assert workspace.run("render", "--set", "limit=16").code == 0
    top = written(workspace.folder.parent / "seen" / "pkg", made)
    ended = run_cli("verify", "--tree", f"pkg={top}", "--base", f"pkg={workspace.package}", cwd=workspace.folder)
    assert ended.code == 4
    for text in ("applied, changed since", "+LIMIT = 16", "foreign changes", "pkg/extra.py", "agrees with the tree"):
        assert text in ended.out
