"""`examples/vllm-current` on an installation: patched by `patchset.py`, served by vLLM itself, wiped by pip."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.serving_engine.engine import CONTEXT_TOKENS
from tests.serving_engine.patched import Installation, Told, patchset, refused, served, told
from tests.workspaces import ROOT, Ended, run_cli

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = pytest.mark.engine

WORKSPACE = ROOT / "examples" / "vllm-current"
CHOICE = ("-C", str(WORKSPACE), "--target", "cpu.yaml", "--json")
PARSER = ("--reasoning-parser", "marked")


@dataclass(frozen=True)
class Seen:
    """What was seen of one installation, in the order in which it was looked at."""

    model: Path
    refusal: str
    before: Told
    installed: subprocess.CompletedProcess[str]
    after: Told
    running: Ended
    running_told: subprocess.CompletedProcess[str]
    wiped: Ended
    wiped_told: subprocess.CompletedProcess[str]


def verified(installation: Installation, base: Path, build: Path) -> Ended:
    """Return what `orchestrator verify` says of an installation."""
    trees = ("--tree", f"vllm={installation.package}", "--base", f"vllm={base}")
    return run_cli("verify", *CHOICE, *trees, "--audit", str(build / "audit.jsonl"), cwd=WORKSPACE)


@pytest.fixture(scope="module")
def seen(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """An installation served, patched, served again, looked at while it serves, and installed again."""
    folder = tmp_path_factory.mktemp("patched")
    installation, build, base = Installation(folder / "image"), folder / "build", folder / "base"
    installation.make()
    shutil.copytree(installation.package, base, ignore=lambda _, names: [name for name in names if not _python(name)])
    rendered = run_cli(
        "render", *CHOICE, "--tree", f"vllm={installation.package}", "--locked", "-o", str(build), cwd=WORKSPACE
    )
    assert rendered.code == 0, rendered.out + rendered.err
    refusal = refused(installation, tiny_model, *PARSER)
    log = folder / "before.log"
    with served(installation, tiny_model, log) as client:
        before = told(client, log)
    installed = patchset(build, installation, "install")
    log = folder / "after.log"
    with served(installation, tiny_model, log, *PARSER) as client:
        after = told(client, log)
        running, running_told = verified(installation, base, build), patchset(build, installation, "verify", "--json")
    installation.install()
    wiped, wiped_told = verified(installation, base, build), patchset(build, installation, "verify", "--json")
    return Seen(tiny_model, refusal, before, installed, after, running, running_told, wiped, wiped_told)


def _python(name: str) -> bool:
    return name != "__pycache__" and ("." not in name or name.endswith(".py"))


def test_the_rendered_program_patches_the_installation(seen: Seen) -> None:
    assert seen.installed.returncode == 0, seen.installed.stderr


STAGES = {
    "reply-length": (16, 64),
    "spelled-tokens": ((False, False), (True, False)),
    "marked-reasoning": ((False, True), (True, False)),
    "build-name": ("0.32.0", "0.32.0+patched"),
    "model-not-found": (
        (404, "The model `large` does not exist. Valid aliases: tiny."),
        (404, "The model `large` is not served here; GET /v1/models lists: tiny."),
    ),
    "error-type": ((400, "BadRequestError"), (400, "invalid_request_error")),
}
"""Stage → what a client learns before and after it."""


@pytest.mark.parametrize("stage", STAGES)
def test_a_client_sees_that_each_patch_is_live(seen: Seen, stage: str) -> None:
    assert (seen.before[stage], seen.after[stage]) == STAGES[stage]


def test_the_registry_lets_the_server_start_with_the_parser_that_it_did_not_know(seen: Seen) -> None:
    assert "Reasoning parser 'marked' not found" in seen.refusal, seen.refusal[-2000:]


def test_the_log_has_the_line_that_was_put_in(seen: Seen) -> None:
    assert seen.before["served-line"] == []
    assert seen.after["served-line"] == [f"{seen.model} with {CONTEXT_TOKENS} tokens of context"]


def states(ended: Ended) -> dict[str, str]:
    return {record["stage"]: record["state"] for record in ended.records() if record["event"] == "verify"}


def test_verify_agrees_with_the_installation_that_serves(seen: Seen) -> None:
    assert seen.running.code == 0, seen.running.out + seen.running.err
    assert set(states(seen.running).values()) == {"applied"}
    assert len(states(seen.running)) == 8
    report = json.loads(seen.running_told.stdout)
    assert seen.running_told.returncode == 0
    assert {stage["state"] for stage in report["stages"]} == {"applied"}


def test_a_reinstall_that_wipes_the_patches_is_seen(seen: Seen) -> None:
    assert seen.wiped.code == 6, "the log says that they are in"
    # pip takes away what it has put there. The two new files are not on its list, so they stay.
    left = {"marked-reasoning": "applied", "build-name": "partly applied"}
    assert states(seen.wiped) == dict.fromkeys(states(seen.running), "not applied") | left
    assert seen.wiped_told.returncode == 4
    report = json.loads(seen.wiped_told.stdout)
    files = {file["name"]: file["state"] for stage in report["stages"] for file in stage["files"]}
    new = {"vllm/reasoning/marked_reasoning_parser.py", "vllm/build_name.py"}
    assert {name for name, state in files.items() if state == "applied"} == new
    assert {state for name, state in files.items() if name not in new} == {"original"}
