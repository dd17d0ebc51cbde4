"""Imports run one way: the contracts in pyproject.toml."""

from __future__ import annotations

import subprocess
import sysconfig
import tomllib
from pathlib import Path

from tests.repository.sources import ROOT

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def test_every_contract_is_kept() -> None:
    linter = Path(sysconfig.get_path("scripts")) / "lint-imports"
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    kept = [contract["name"] for contract in CONTRACTS if f"{contract['name']} KEPT" in " ".join(done.stdout.split())]
    assert kept == [contract["name"] for contract in CONTRACTS]


def test_every_layer_of_the_package_is_in_the_contract() -> None:
    layers = next(contract for contract in CONTRACTS if contract["type"] == "layers")
    folders = {path.parent.name for path in (ROOT / "orchestrator").glob("*/__init__.py")}
    assert {name for layer in layers["layers"] for name in layer.split(" | ")} == folders - set(
        layers["exhaustive_ignores"]
    )
