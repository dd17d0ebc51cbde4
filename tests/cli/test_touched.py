"""`plan --touched-by`: what a difference in git reaches, on real repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.repositories import commit, git, repository
from tests.workspaces import HEAD, LIMIT_STAGE, TARGET, Workspace, replaced

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Change = Callable[[Workspace], object]

STAGES = (
    LIMIT_STAGE
    + """\
  - id: kernel
    kind: codemod
    summary: Bring the kernel.
    deploy:
      - {source: kernels/k.py, to: pkg/k.py}
    edits:
      - {op: import, file: pkg/a.py, code: from pkg import k}
      - {op: transform, file: pkg/a.py, use: shout, params: {}}
    provides: {flags: {--word: "${params.word}"}}
  - id: config
    kind: template
    summary: Write the figures.
    needs: [limit]
    render:
      - {template: templates/figures.txt.j2, to: figures.txt}
"""
)
FIGURES = "{% include 'templates/part.j2' %}\n{{ params.limit }} {{ provided.flags }}\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path, STAGES)
    made.write("kernels/k.py", "K = 1\n")
    made.write("stages/shout.py", "def transform(module, params):\n    return module\n")
    made.write("templates/figures.txt.j2", FIGURES)
    made.write("templates/part.j2", "{{ model.head_dim }}\n")
    made.write("notes.md", "device params model\n")
    repository(made.folder)
    return made


def touched(workspace: Workspace, *arguments: str, revision: str = "HEAD") -> dict[str, dict[str, Any]]:
    ended = workspace.run("plan", "--touched-by", revision, "--json", *arguments)
    assert ended.err == ""
    *reaches, whole = ended.records()
    assert whole["event"] == "touched-by"
    assert whole["none"] == (not reaches)
    return {reach["stage"]: reach for reach in reaches}


def shown(workspace: Workspace) -> dict[str, str]:
    """Return each stage's edits, files and artefacts as one text."""
    return {
        stage: " ".join([*map(str, reach["edits"]), *reach["files"], *reach["artefacts"]])
        for stage, reach in touched(workspace).items()
    }


def rewritten(old: str, new: str, stages: str = STAGES) -> Change:
    return lambda workspace: workspace.pipeline(replaced(stages, old, new))


def headed(old: str, new: str) -> Change:
    return lambda workspace: workspace.pipeline(STAGES, replaced(HEAD, old, new))


def written(path: str, text: str) -> Change:
    return lambda workspace: workspace.write(path, text)


CASES: dict[str, tuple[Change, dict[str, str]]] = {
    "nothing": (lambda _: None, {}),
    "a comment": (rewritten("    kind: template", "    kind: template  # for people"), {}),
    "quotes": (rewritten("summary: Raise the limit.", 'summary: "Raise the limit."'), {}),
    "a file that no stage names": (written("notes.md", "x\n"), {}),
    "two copies of a kernel": (lambda w: [w.write(f"{d}/k.py", "K = 2\n") for d in ("old", "older")], {}),
    "a kernel": (written("kernels/k.py", "K = 2\n"), {"kernel": "pkg/k.py"}),
    "a transform": (written("stages/shout.py", "x = 1\n"), {"kernel": "2 pkg/a.py"}),
    "a template": (written("templates/figures.txt.j2", "x\n"), {"config": "figures.txt"}),
    "an included template": (written("templates/part.j2", "x\n"), {"config": "figures.txt"}),
    "the Dockerfile's template": (written("templates/Dockerfile.j2", "FROM x\n"), {"(image)": "Dockerfile"}),
    "a removed source": (lambda w: (w.folder / "kernels" / "k.py").unlink(), {"kernel": "pkg/k.py"}),
    "an edit": (rewritten("code: from pkg import k", "code: import pkg.k"), {"kernel": "1 pkg/a.py"}),
    "a removed edit": (
        rewritten("      - {op: import, file: pkg/a.py, code: from pkg import k}\n", ""),
        {"kernel": "pkg/a.py"},
    ),
    "another place of a file": (rewritten("to: pkg/k.py", "to: pkg/kk.py"), {"kernel": "pkg/k.py pkg/kk.py"}),
    "another artefact": (rewritten("to: figures.txt", "to: facts.txt"), {"config": "facts.txt figures.txt"}),
    "a summary": (rewritten("summary: Bring the kernel.", "summary: Bring it."), {"kernel": ""}),
    "a new stage": (
        lambda w: w.pipeline(STAGES + replaced(replaced(LIMIT_STAGE, "id: limit", "id: more"), "a.py", "b.py")),
        {"more": "1 pkg/b.py"},
    ),
    "a stage that is gone": (
        rewritten(STAGES[STAGES.index("  - id: config") :], ""),
        {"config": "figures.txt"},
    ),
    "a need": (rewritten("    needs: [limit]\n", ""), {"config": "figures.txt"}),
    "a switch": (
        rewritten("    deploy:", "    enabled: false\n    deploy:"),
        {"kernel": "1 2 pkg/a.py pkg/k.py", "config": "figures.txt"},
    ),
    "a parameter of an edit and of a template": (
        headed("limit: 8", "limit: 9"),
        {"limit": "1 pkg/a.py", "config": "figures.txt"},
    ),
    "a parameter of a flag": (headed("word: text", "word: other"), {"kernel": "", "config": "figures.txt"}),
    "a parameter that nothing uses": (headed("params: {", "params: {unused: 1, "), {}),
    "a parameter in a variant": (
        headed("stages:", "variants: {wide: {limit: 32}}\nstages:"),
        {"limit": "1 pkg/a.py", "config": "figures.txt"},
    ),
    "a figure that a template uses": (
        written("target.yaml", replaced(TARGET, "head_dim: 256", "head_dim: 128")),
        {"config": "figures.txt"},
    ),
    "a figure that nothing uses": (written("target.yaml", replaced(TARGET, "warps: 64", "warps: 32")), {}),
    "a comment in the target": (written("target.yaml", f"{TARGET}# a box\n"), {}),
    "a package of the target": (
        written("target.yaml", replaced(TARGET, 'numpy: ""', 'numpy: "", torch: ""')),
        {"(every stage)": ""},
    ),
    "a root of the target": (
        written("target.yaml", replaced(TARGET, "/opt/lib/pkg", "/opt/lib64/pkg")),
        {
            "limit": "1 pkg/a.py",
            "kernel": "1 2 pkg/a.py pkg/k.py",
            "config": "figures.txt",
            "(image)": "Dockerfile",
        },
    ),
    "the name": (headed("name: demo", "name: other"), {"(image)": "Dockerfile"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_difference_reaches_what_it_is_about_and_no_more(workspace: Workspace, case: str) -> None:
    change, reached = CASES[case]
    change(workspace)
    assert shown(workspace) == reached


DEPLOYED = "      - {source: kernels/k.py, to: pkg/k.py}\n"


@pytest.mark.parametrize(
    ("change", "reached"),
    [
        (written("templates/k.py.j2", "K = 2\n"), True),
        (written("templates/part.j2", "x\n"), True),
        (headed("word: text", "word: other"), True),
        (headed("limit: 8", "limit: 9"), False),
        (written("target.yaml", replaced(TARGET, "name: box", "name: crate")), True),
        (written("templates/figures.txt.j2", "x\n"), False),
    ],
)
def test_a_deployed_template_is_reached_by_all_that_fills_it(
    workspace: Workspace, change: Change, *, reached: bool
) -> None:
    def templated(made: Workspace) -> None:
        text = (made.folder / "pipeline.yaml").read_text()
        made.write("pipeline.yaml", replaced(text, DEPLOYED, "      - {template: templates/k.py.j2, to: pkg/k.py}\n"))

    workspace.write("templates/k.py.j2", "K = '{{ params.word }}'\n{% include 'templates/part.j2' %}")
    templated(workspace)
    commit(workspace.folder)
    change(workspace)
    if "{source: kernels" in (workspace.folder / "pipeline.yaml").read_text():
        templated(workspace)
    assert ("pkg/k.py" in shown(workspace).get("kernel", "")) is reached


def test_stages_that_change_places_are_reached(workspace: Workspace) -> None:
    start, middle = STAGES.index("  - id: kernel"), STAGES.index("  - id: config")
    workspace.pipeline(STAGES[start:middle] + STAGES[:start] + STAGES[middle:])
    (stage,) = touched(workspace)
    assert stage in {"limit", "kernel"}


def test_two_commits_are_compared_without_the_working_tree(workspace: Workspace) -> None:
    first = git(workspace.folder, "rev-parse", "HEAD")
    workspace.write("kernels/k.py", "K = 2\n")
    second = commit(workspace.folder)
    workspace.write("templates/part.j2", "x\n")
    assert list(touched(workspace, revision=f"{first}..{second}")) == ["kernel"]
    assert list(touched(workspace, revision=f"{second}..{first}")) == ["kernel"]
    assert list(touched(workspace, revision=first)) == ["kernel", "config"]


def test_a_file_is_reached_whether_it_is_committed_or_not(workspace: Workspace) -> None:
    workspace.pipeline(replaced(STAGES, "kernels/k.py", "kernels/new.py"))
    workspace.write("kernels/new.py", "K = 1\n")
    assert "kernels/new.py has changed" in touched(workspace)["kernel"]["reasons"]


def test_a_source_behind_a_link_is_reached_by_what_it_leads_to(workspace: Workspace) -> None:
    workspace.write("shared/k.py", "K = 1\n")
    (workspace.folder / "kernels" / "k.py").unlink()
    (workspace.folder / "kernels").rmdir()
    (workspace.folder / "kernels").symlink_to("shared")
    commit(workspace.folder)
    workspace.write("shared/k.py", "K = 2\n")
    assert list(touched(workspace)) == ["kernel"]


@pytest.mark.parametrize("file", ["Some_Tool-1.0-py3-none-any.whl", "some.tool-1.0-1-py3-none-any.whl"])
def test_a_wheel_of_the_workspace_reaches_the_stage_that_requires_it(workspace: Workspace, file: str) -> None:
    stage = '  - {id: tool, kind: codemod, summary: Bring it., wheels: [{requirement: "some-tool==1.0"}]}\n'
    workspace.pipeline(STAGES + stage)
    commit(workspace.folder)
    workspace.write("wheels/some_tool-1.0.1-py3-none-any.whl", "x")
    assert touched(workspace) == {}
    workspace.write(f"wheels/{file}", "x")
    assert list(touched(workspace)) == ["tool"]


def test_the_lock_reaches_the_stages_whose_definitions_it_holds_otherwise(workspace: Workspace) -> None:
    workspace.pipeline(LIMIT_STAGE)
    for path in ("kernels/k.py", "stages/shout.py", "templates/figures.txt.j2", "templates/part.j2"):
        (workspace.folder / path).unlink()
    commit(workspace.folder)
    assert workspace.run("lock").code == 0
    reach = touched(workspace)["limit"]
    assert (reach["reasons"], reach["files"]) == (["the lock holds other definitions"], ["pkg/a.py"])


def test_none_is_said_loudly_and_ends_with_1_where_asked(workspace: Workspace) -> None:
    workspace.write("old/k.py", "K = 2\n")
    ended = workspace.run("plan", "--touched-by", "HEAD")
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "NONE: HEAD reaches no stage, no edit, no file of the tree and no artefact",
        "1 file changed: old/k.py",
    ]
    assert workspace.run("plan", "--touched-by", "HEAD", "--fail-if-none").code == 1
    assert workspace.run("plan", "--touched-by", "HEAD", "--fail-if-none", "--json").records()[-1]["none"]
    workspace.write("kernels/k.py", "K = 2\n")
    ended = workspace.run("plan", "--touched-by", "HEAD", "--fail-if-none")
    assert (ended.code, "kernels/k.py has changed" in ended.out) == (0, True)


def test_what_cannot_be_compared_is_a_diagnostic(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(*arguments: str) -> tuple[int, str]:
        ended = workspace.run("plan", *arguments)
        return ended.code, ended.err.partition(":")[0]

    assert refusal("--touched-by", "nope") == (2, "error[E133]")
    assert refusal("--fail-if-none") == (2, "error[E700]")
    assert refusal("--touched-by", "HEAD", "--file", "gone.yaml") == (3, "error[E120]")
    workspace.write("pipeline.yaml", "a: [\n")
    assert refusal("--touched-by", "HEAD") == (3, "error[E103]")
    (workspace.folder / ".git").rename(workspace.folder / "away")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(workspace.folder.parent))
    assert refusal("--touched-by", "HEAD") == (2, "error[E132]")


@pytest.mark.parametrize("text", ["a: [\n", "", "- a\n", "stages: 3\n", "stages: [3, {id: limit}]\nparams: []\n"])
def test_a_former_version_that_is_no_pipeline_makes_all_of_this_one_new(workspace: Workspace, text: str) -> None:
    workspace.write("pipeline.yaml", text)
    commit(workspace.folder)
    workspace.pipeline(STAGES)
    assert set(touched(workspace)) >= {"limit", "kernel", "config"}


def test_a_change_below_reaches_the_stages_that_write_the_same_file(tmp_path: Path) -> None:
    outer = Workspace.at(tmp_path, STAGES.partition("  - id: kernel")[0])
    inner = Workspace(outer.folder / "below", outer.package)
    inner.write("target.yaml", TARGET)
    inner.pipeline(LIMIT_STAGE + replaced(replaced(LIMIT_STAGE, "id: limit", "id: other"), "a.py", "b.py"))
    base = "base: {supplied: Copy it out of the image.}"
    outer.write("target.yaml", replaced(TARGET, base, "base: {workspace: below}"))
    repository(outer.folder)
    inner.write("pipeline.yaml", replaced((inner.folder / "pipeline.yaml").read_text(), "a.py", "c.py"))
    (reach,) = touched(outer).values()
    assert (reach["stage"], reach["files"]) == ("limit", ["pkg/a.py"])
    assert reach["reasons"] == ["base below: stage 'limit' is reached"]
