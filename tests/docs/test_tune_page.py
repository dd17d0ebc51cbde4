"""The page about tuning says what its records say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
RECORDS = json.loads((DOCS / "kernels/tune_h200.json").read_text(encoding="utf-8"))
NAMES = {
    "decode256": "decode 16q/2kv d256",
    "decode128": "decode 32q/8kv d128",
    "prefill256": "prefill 16q/2kv d256",
    "prefill128": "prefill 32q/8kv d128",
}


def line_of(name: str) -> str:
    space = RECORDS[name][0]
    last = next(record for record in RECORDS[name] if record["event"] == "result")
    rejected = ", ".join(f"{count} {bound}" for bound, count in space["rejected"].items())
    confirmed = next(word for word in last["outcome"].split() if word[0].isdigit())
    kept = "the table keeps its row" if not last["diff"] else "a row is proposed"
    cells = [NAMES[name], str(space["tiles"]), rejected, str(space["trials"]["ran"]), confirmed, kept]
    return f"| {' | '.join(cells)} |"


@pytest.mark.parametrize("name", NAMES)
def test_a_study_is_shown_as_it_was_recorded(name: str) -> None:
    assert line_of(name) in (DOCS / "tune.md").read_text(encoding="utf-8")


def test_every_record_is_shown_and_says_on_what_it_was_timed() -> None:
    assert set(RECORDS) == set(NAMES)
    assert {records[0]["timed_on"] for records in RECORDS.values()} == {"NVIDIA H200"}
