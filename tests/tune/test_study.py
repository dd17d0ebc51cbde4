"""The study itself: what becomes of a trial whose process ended at one moment or another."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from orchestrator.tune.study import LOST, OWNER, RAN, STAGE, Study, owner

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.tune.space import Choice

VALUES = {"block_n": (16, 32), "num_warps": (2, 4)}


@pytest.mark.parametrize("said", [False, True])
def test_a_trial_that_its_process_did_not_end_is_tried_again_and_counted_once(tmp_path: Path, *, said: bool) -> None:
    study = Study.opened(f"sqlite:///{tmp_path / 'tune.sqlite'}", "study", VALUES, {}, 0)
    choice: Choice = {"block_n": 16, "num_warps": 4}
    asked = study.ask(str, choice)
    assert asked is not None
    if said:  # how it went was written down, and the process ended before the trial did
        asked.trial.set_user_attr(STAGE, RAN)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    asked.trial.set_user_attr(OWNER, {**owner(), "pid": ended.pid})
    study.mine.clear()
    assert study.tried() == 1
    assert study.take_back() == 1
    again = study.ask(str)
    assert again is not None
    assert again.choice == choice
    study.tell(again, RAN, 1.0)
    assert [(trial.stage, trial.value) for trial in study.trials()] == [(LOST, None), (RAN, 1.0)]
    assert study.tried() == 1
