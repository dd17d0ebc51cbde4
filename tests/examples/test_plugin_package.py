"""The example package, installed by pip into an environment of its own, and used from there by a workspace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from typing import TYPE_CHECKING

import pytest

from tests.workspaces import ROOT, Ended, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PACKAGE = ROOT / "examples" / "plugin-package"
STAGE = """\
  - id: quiet
    kind: codemod
    summary: Log less.
    edits:
      - {op: transform, file: pkg/log.py, use: acme-patches.log_to_debug, params: {logger: log}}
    post:
      - {check: acme-patches.no_call, file: pkg/log.py, function: log.info}
"""
LOG = 'import logging\n\nlog = logging.getLogger()\n\n\ndef work():\n    log.info("done")  # every time\n'


@pytest.fixture(scope="module")
def orchestrator(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ended]:
    """Return the command line of a fresh environment that has the example package, and sees this one's packages."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "outer.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    # What builds a package writes into its folder, and the repository's is not to be written to.
    package = tmp_path_factory.mktemp("package") / PACKAGE.name
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    done = subprocess.run(
        [python, "-m", "pip", "install", "--no-deps", "--disable-pip-version-check", package],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    def run(*arguments: str, cwd: Path) -> Ended:
        program = "from orchestrator.cli.app import main; main()"
        child = subprocess.run(
            [python, "-c", program, *arguments],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Ended(child.returncode, child.stdout, child.stderr)

    return run


def test_a_workspace_uses_the_installed_package(orchestrator: Callable[..., Ended], tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path, STAGE)
    workspace.base({"log.py": LOG})
    tree = ("--tree", f"pkg={workspace.package}")
    ended = orchestrator("render", *tree, cwd=workspace.folder)
    assert ended.code == 0, ended.err
    assert workspace.built()["patchset/overlay/pkg/log.py"].decode() == LOG.replace("log.info", "log.debug")
    assert orchestrator("lock", *tree, cwd=workspace.folder).code == 0
    assert "acme-patches.no_call" in (workspace.folder / "pipeline.lock").read_text()
    assert orchestrator("render", "--locked", *tree, cwd=workspace.folder).code == 0
    assert workspace.spawn("validate").code != 0  # where the package is not installed


def test_the_command_line_explains_what_it_brings(orchestrator: Callable[..., Ended], tmp_path: Path) -> None:
    ended = orchestrator("explain", "acme-patches.no_call", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert "| `function` | text | required | how the call is written" in ended.out
    assert "| `logger` | text | `logger` |" in orchestrator("explain", "acme-patches.log_to_debug", cwd=tmp_path).out
    assert "did you mean 'acme-patches.no_call'?" in orchestrator("explain", "no_call", cwd=tmp_path).err
