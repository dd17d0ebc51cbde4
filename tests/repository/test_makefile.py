"""The entry points: `make` alone lists them, and each does what its name says."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.repository.sources import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
TARGETS = ["render", "test", "test-engine", "lint", "bench", "fuzz", "docs", "clean"]


def made(*arguments: str) -> str:
    """Return what make says, without what a surrounding make would hand down."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, env={**environment, "LC_ALL": "C"}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_make_alone_lists_its_targets_and_does_nothing_else() -> None:
    listed = [line.split()[1] for line in made().splitlines()]
    assert listed == ["help", *TARGETS]


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_can_be_made_from_a_fresh_clone(target: str) -> None:
    steps = made("--dry-run", "--always-make", target)
    assert steps.strip()


def test_the_ci_script_is_a_program_and_its_shell_can_read_it() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)
