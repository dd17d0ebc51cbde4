"""A server that a shell starts is judged as one that an argument list starts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.checks.serving.started import started
from tests.checks.serving.conftest import FILE, FLAG, said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.checks.serving.conftest import Serve

STEPS = "python3 -m vllm.server --num-scheduler-steps 8"


def found(serve: Serve, command: Sequence[str]) -> list[str]:
    """Return the codes of what is found in a run configuration with this argument list."""
    serve.judge()  # the facts
    serve.scene.artefacts = {FILE: json.dumps({"concurrency": 8, "command": list(command), "env": []})}
    return [said(finding).split()[0] for finding in serve.scene.judge("run_config", file=FILE).findings]


SHELLS = {
    "sh": ["sh", "-c", STEPS],
    "a login shell": ["/bin/bash", "-lc", f"exec {STEPS}"],
    "options of the shell": ["bash", "-e", "-u", "-c", STEPS],
    "behind env": ["env", "A=b", "sh", "-c", STEPS],
    "after another command": ["sh", "-c", f"cd /w && {STEPS}"],
    "on a line of its own": ["sh", "-c", f"set -e\n# start\n{STEPS}\n"],
    "continued lines": ["sh", "-c", STEPS.replace(" --", " \\\n  --")],
    "into a pipe": ["sh", "-c", f"{STEPS} 2>&1 | tee log"],
    "in the background": ["sh", "-c", f"nohup {STEPS} & wait"],
    "quoted": ["sh", "-c", STEPS.replace("--num", "'--num").replace(" 8", "' '8'")],
    "one word": [STEPS],
}


@pytest.mark.parametrize("command", SHELLS.values(), ids=SHELLS)
def test_rules_hold_for_a_server_that_a_shell_starts(serve: Serve, command: list[str]) -> None:
    assert "E540" in found(serve, command)
    legal = [word.replace("8", "1") for word in command]
    assert "E540" not in found(serve, legal)


def test_what_only_the_shell_knows_is_not_judged(serve: Serve) -> None:
    for text in (
        "--num-scheduler-steps $STEPS",
        "--num-scheduler-steps=${STEPS:-8}",
        "$MORE",
        "--max-num-seqs $(nproc)",
    ):
        codes = found(serve, ["sh", "-c", f"python3 -m vllm.server {text} --max-num-seqs 8"])
        assert [code for code in codes if code in {"E540", "E541"}] == []


@pytest.mark.parametrize(
    ("command", "variables"),
    [
        (["sh", "-c", "A=1 python3 -m m"], {"A": "1"}),
        (["sh", "-c", "export A=1; exec env B='2 3' python3 -m m"], {"A": "1", "B": "2 3"}),
        (["sh", "-c", "A=$X python3 -m m"], {}),
        (["env", "A=1", "python3", "-m", "m", "C=3"], {"A": "1"}),
        (["python3", "-m", "m", "A=1"], {}),
    ],
)
def test_variables_that_are_set_on_the_way_count(command: list[str], variables: dict[str, str]) -> None:
    assert started(command, "m").variables == variables


def test_a_required_variable_that_the_shell_sets_is_not_lost(serve: Serve) -> None:
    serve.facts(required={"NEEDED": FLAG})
    assert "E544" in found(serve, ["sh", "-c", "python3 -m vllm.server"])
    assert "E544" not in found(serve, ["sh", "-c", "NEEDED=1 python3 -m vllm.server"])


@given(st.lists(st.text(max_size=12), min_size=1, max_size=5), st.sampled_from([None, "m"]))
def test_any_argument_list_can_be_read(command: list[str], module: str | None) -> None:
    how = started(command, module)
    assert all(0 <= how.place(index) < len(command) for index in range(len(how.words)))
