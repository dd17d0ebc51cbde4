"""What the model of a device rejects, and by which bound; what is not known rejects nothing."""

from __future__ import annotations

import json
import os

import pytest

from orchestrator.device.quantity import Known
from orchestrator.tune import judge
from orchestrator.tune.space import Refused, Row, Space, space_of
from tests.device.targets import figures
from tests.workspaces import ROOT


def space(operation: str, device: str, head_size: int = 128) -> Space:
    question = {"operation": operation, "device": device, "dtype": "float16", "head_size": head_size, "group": 4}
    return space_of(ROOT, question, dict(os.environ))


@pytest.fixture(scope="module", params=["paged_decode_v2", "prefix_prefill"])
def on_h200(request: pytest.FixtureRequest) -> Space:
    return space(request.param, "h200")


def test_every_combination_has_its_place_and_its_key(on_h200: Space) -> None:
    seen: dict[str, int] = {}
    for number, entry in enumerate(on_h200.rows):
        own = entry if isinstance(entry, int) else number
        if isinstance(entry, Row | Refused):
            assert on_h200.at(entry.choice) == number
            assert seen.setdefault(on_h200.key(entry.choice), own) == own
    assert on_h200.rows[on_h200.at(on_h200.base.choice)] == Row(
        {name: on_h200.base.choice[name] for name in on_h200.tiles},
        on_h200.base.fields,
        on_h200.base.shared,
        on_h200.base.threads,
        on_h200.base.registers,
        on_h200.base.in_flight,
    )


@pytest.mark.parametrize("device", ["bi100", "h200"])
@pytest.mark.parametrize("operation", ["paged_decode_v2", "prefix_prefill"])
@pytest.mark.parametrize("head_size", [64, 128, 256])
def test_the_table_s_own_row_passes(operation: str, device: str, head_size: int) -> None:
    found = space(operation, device, head_size)
    known = figures(device)
    assert judge.misfit(found.base, known) is None
    assert judge.held_too_many(found, found.base, int(found.base.choice["resident"]), known) is None


def test_what_passes_fits_every_bound_that_is_known(on_h200: Space) -> None:
    known = figures("h200")
    passing, rejected = judge.counted(on_h200, known)
    rows = [row for number in passing if isinstance(row := on_h200.rows[number], Row)]
    assert len(rows) == len(passing)
    assert len(passing) + sum(rejected.values()) == sum(not isinstance(entry, int) for entry in on_h200.rows)
    for row in rows:
        assert row.shared <= 232_448
        assert row.registers <= 255 * row.threads
        assert row.registers <= 65_536


def test_a_smaller_bound_rejects_more_and_says_so_by_its_name(on_h200: Space) -> None:
    known = dict(figures("h200"))
    before, _ = judge.counted(on_h200, known)
    for name, bound in (
        (judge.LIMIT, "shared memory"),
        (judge.PER_THREAD, "registers"),
        (judge.PER_BLOCK, "threads"),
        ("device.registers_per_sm", "occupancy"),
        ("device.threads_per_sm", "occupancy"),
    ):
        now, rejected = judge.counted(on_h200, {**known, name: Known(16)})
        assert set(now) < set(before)
        assert rejected[bound] > 0


def test_the_preferred_share_is_a_bound_only_where_it_is_asked_for() -> None:
    found, known = space("prefix_prefill", "h200", 256), figures("h200")
    assert judge.misfit(found.base, known) is None
    wrong = judge.misfit(found.base, known, preferred=True)
    assert wrong == judge.Misfit("preferred share", "163840 B, at most 116736")


def test_figures_that_nobody_knows_reject_nothing_and_are_named() -> None:
    found, known = space("paged_decode_v2", "bi100"), figures("bi100")
    assert "device.registers_per_sm" in judge.missing(known)
    assert judge.misfit(found.base, {}) is None
    assert judge.blocks(found.base, {}) is None
    assert judge.missing(figures("h200")) == []


def test_more_resident_blocks_than_there_can_be_are_rejected_where_they_count_blocks(on_h200: Space) -> None:
    wrong = judge.held_too_many(on_h200, on_h200.base, 1000, figures("h200"))
    assert (wrong is not None) is (on_h200.operation == "paged_decode_v2")


def test_what_has_more_under_way_ranks_first() -> None:
    found, known = space("paged_decode_v2", "h200"), figures("h200")
    rows = [row for row in found.rows if isinstance(row, Row)]
    ranked = sorted(rows, key=lambda row: judge.derived(found, row, known))
    flight = [(judge.blocks(row, known) or 1) * row.in_flight for row in ranked]
    assert flight == sorted(flight, reverse=True)
    assert json.dumps(ranked[0].choice) != json.dumps(ranked[-1].choice)
