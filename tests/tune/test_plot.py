"""The picture of a search: the same trials give the same bytes, and the settings of other pictures stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import pytest

from orchestrator.tune.plot import draw
from orchestrator.tune.study import COMPILER, FAILED, FILTERED, RAN, Study

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.tune.space import Choice


@pytest.mark.parametrize("ending", ["svg", "png"])
@pytest.mark.parametrize("timed", [True, False])
def test_two_drawings_of_a_study_are_the_same_bytes(tmp_path: Path, ending: str, *, timed: bool) -> None:
    values = {"block_n": (16, 32), "num_warps": (2, 4, 8), "pages": (False, True)}
    study = Study.opened(f"sqlite:///{tmp_path / 'tune.sqlite'}", "study", values, {}, 0)
    for number, stage in enumerate((RAN, FILTERED, RAN, COMPILER, FAILED)):
        choice: Choice = {"block_n": 16, "num_warps": (2, 4, 8)[number % 3], "pages": bool(number % 2)}
        asked = study.ask(str, choice)
        assert asked is not None
        study.tell(asked, stage, 1.0 + number if stage == RAN else None)
    salt = mpl.rcParams["svg.hashsalt"]
    one, two = tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"
    draw(study, one, timed=timed)
    draw(study, two, timed=timed)
    assert one.read_bytes() == two.read_bytes()
    assert mpl.rcParams["svg.hashsalt"] == salt
