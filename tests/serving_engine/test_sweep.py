"""`orchestrator sweep` with vLLM itself, on a CPU: interrupted, resumed, and with a configuration that it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.serving_engine.engine import ENVIRONMENT, LONGEST_S, serve_command
from tests.sweep.serving import processes
from tests.sweep.workspaces import LENGTH, SEQS, swept_workspace
from tests.workspaces import ROOT, Workspace, interruptible, run_cli

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engine

PROMPT, SHARED, OUTPUT = 300, 256, 16
LOAD = (
    *("--prompt-tokens", str(PROMPT), "--shared-tokens", str(SHARED), "--output-tokens", str(OUTPUT)),
    *("--rounds", "2", "--repeats", "2", "--health-limit", str(LONGEST_S)),
)
SERVER = ("--", "{command}", "--port", "{port}")


@pytest.fixture(scope="module")
def workspace(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    argv = serve_command(tiny_model, "--max-num-seqs", SEQS)
    argv[argv.index("--max-model-len") + 1] = LENGTH
    return swept_workspace(tmp_path_factory.mktemp("sweep"), argv, ENVIRONMENT)


def line(workspace: Workspace, *options: str) -> list[str]:
    return ["sweep", "-C", str(workspace.folder), "--tree", f"pkg={workspace.package}", *options, *LOAD, *SERVER]


@pytest.fixture(scope="module")
def interrupted(workspace: Workspace, tiny_model: Path) -> str:
    """A sweep over two values, interrupted once the engine is healthy for the second: what it said on stderr."""
    said = ""
    with subprocess.Popen(
        interruptible(*line(workspace, "--values", "1,2")),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as sweep:
        assert sweep.stderr is not None
        for told in sweep.stderr:
            said += told
            if told.startswith("max_num_seqs=2: healthy"):
                assert processes(str(tiny_model)), "the engine runs"
                sweep.send_signal(signal.SIGINT)
                break
        said += sweep.stderr.read()
    assert sweep.returncode == 130, said
    assert processes(str(tiny_model)) == []
    return said


def test_an_interrupted_sweep_keeps_what_it_measured(interrupted: str, workspace: Workspace) -> None:
    assert "the same command goes on from there" in interrupted
    lines = (workspace.folder / "sweep" / "records.jsonl").read_text().splitlines()
    assert [(r["value"], r["outcome"]) for r in map(json.loads, lines)] == [("1", "measured")]


@pytest.mark.usefixtures("interrupted")
def test_the_same_command_measures_the_rest_and_recommends(workspace: Workspace, tiny_model: Path) -> None:
    ended = run_cli(*line(workspace, "--values", "1,2", "--json"), cwd=workspace.folder)
    assert ended.code == 0, ended.err
    first, second, recommendation = ended.records()
    assert (first["resumed"], second["resumed"]) == (True, False)
    assert "max_num_seqs=1: started" not in ended.err
    for record, sequences in ((first, 1), (second, 2)):
        measured = record["measured"]
        assert measured["concurrency"] == sequences
        assert measured["prompt_tokens"] == [PROMPT, PROMPT], "the engine counts the tokens that were stated"
        for repeat in measured["repeats"]:
            assert repeat["requests"] == 2 * sequences
            assert repeat["output"] * repeat["seconds"] == pytest.approx(2 * sequences * OUTPUT)
            # After the warm-up the engine's prefix cache holds whole blocks of what all prompts share.
            assert 0 < repeat["cached"] * repeat["seconds"] <= 2 * sequences * SHARED
        assert record["score"] == pytest.approx(
            10 * record["output_tps"] + 2 * record["input_tps"] + 0.5 * record["cached_tps"]
        )
    assert recommendation["value"] in {"1", "2"}
    assert processes(str(tiny_model)) == []
    assert "--max-num-seqs" in (workspace.folder / "sweep" / "max_num_seqs-2" / "run.yaml").read_text()


def test_a_configuration_that_the_engine_refuses_is_recorded_with_its_own_words(
    workspace: Workspace, tiny_model: Path
) -> None:
    options = ("--param", "max_model_len", "--values", "1000000", "--json", "--output", str(workspace.folder / "long"))
    ended = run_cli(*line(workspace, *options), cwd=workspace.folder)
    assert ended.code == 5
    record, recommendation, diagnostic = ended.records()
    assert (record["fault"]["kind"], record["fault"]["phase"]) == ("died", "start")
    assert any("max_model_len" in said for said in record["fault"]["log"])
    assert recommendation["value"] is None
    assert diagnostic["code"] == "E913"
    assert processes(str(tiny_model)) == []
