"""The generated pipelines are sound, and a long chain of edits leaves no syntax trees behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import many_stages
from orchestrator.checks.view import Sources
from orchestrator.engine.run import run
from tests.workspaces import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

MODULE = """\
LIMIT_{n} = {n}


def first(x):
    return x + LIMIT_{n}


def second(x):
    return x * 2


def third(x):
    return first(x)


class A:
    def method(self):
        return self.value
"""


def test_stages_of_every_kind_are_generated_and_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for number in range(10):
        (package / f"m{number}.py").write_text(MODULE.format(n=number))
    sizes = ["--stages", "5", "25", "--limit-ratio", "1000", "--limit-mib", "100000", "--keep", str(tmp_path / "kept")]
    monkeypatch.setattr("sys.argv", ["many_stages.py", f"pkg={package}", *sizes])
    assert many_stages.main() == 0
    assert "{'applied (unlocked)': 25}" in capsys.readouterr().out
    written = (tmp_path / "kept" / "pipeline.yaml").read_text()
    for kind in ("op: assign", "op: replace", "op: insert", "op: import", "deploy:", "needs:"):
        assert kind in written


CHAIN = "".join(
    f"  - id: s{number}\n    kind: codemod\n    summary: One of a chain.\n"
    f"    needs: [{f's{number - 1}' if number else ''}]\n"
    f"    edits: [{{op: assign, file: pkg/a.py, name: LIMIT, value: '{100 + number}'}}]\n"
    for number in range(12)
)


def test_of_a_file_that_many_stages_change_only_the_first_and_the_last_version_stay_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace.at(tmp_path, CHAIN)
    kept: list[Sources] = []
    made = Sources.__init__

    def noted(self: Sources) -> None:
        made(self)
        kept.append(self)

    monkeypatch.setattr(Sources, "__init__", noted)
    finished = run(workspace.plan(), workspace.tree())
    assert not finished.failed, finished.diagnostics
    (sources,) = kept
    versions = [raw for path, raw in sources._known if path == "pkg/a.py"]  # noqa: SLF001 - what takes the memory
    assert sorted(versions) == sorted([workspace.tree()["pkg/a.py"], finished.tree["pkg/a.py"]])
