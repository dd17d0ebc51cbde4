"""The rule that stops a sweep and chooses a value."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orchestrator.sweep.plateau import Point, Rule, best_of, margin, plateau_at, recommended

RULE = Rule()
SAMPLES = st.lists(st.floats(1, 1e6), min_size=1, max_size=5)


@st.composite
def curves(draw: st.DrawFn) -> list[Point]:
    """Values in ascending order, whatever they gave."""
    values = sorted(draw(st.sets(st.integers(1, 512), min_size=1, max_size=8)))
    return [Point(float(value), tuple(draw(SAMPLES))) for value in values]


rules = st.builds(Rule, errors=st.floats(0, 5), share=st.floats(0, 0.5), flat=st.integers(1, 3))


@given(curves(), rules)
def test_the_recommended_value_is_the_smallest_within_the_margin_of_the_best(curve: list[Point], rule: Rule) -> None:
    chosen, best = recommended(curve, rule), best_of(curve)
    assert chosen in curve
    assert chosen.value <= best.value
    assert best.mean - chosen.mean <= margin(best, chosen, rule)
    smaller = [p for p in curve if p.value < chosen.value]
    assert all(best.mean - p.mean > margin(best, p, rule) for p in smaller)


@given(curves(), rules, st.randoms())
def test_the_order_in_which_values_are_told_does_not_matter(curve: list[Point], rule: Rule, random: object) -> None:
    shuffled = list(curve)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis' Random
    assert recommended(shuffled, rule) == recommended(curve, rule)
    assert plateau_at(shuffled, rule) == plateau_at(curve, rule)


@given(curves(), rules, st.sampled_from([0.25, 0.5, 2.0, 1024.0]))
def test_the_unit_does_not_matter(curve: list[Point], rule: Rule, factor: float) -> None:
    scaled = [Point(p.value, tuple(x * factor for x in p.samples)) for p in curve]
    assert plateau_at(scaled, rule) == plateau_at(curve, rule)
    chosen, other = recommended(curve, rule), recommended(scaled, rule)
    assert chosen is not None
    assert other is not None
    assert other.value == chosen.value


@given(curves(), rules)
def test_what_comes_later_does_not_move_a_plateau(curve: list[Point], rule: Rule) -> None:
    found = plateau_at(curve, rule)
    for end in range(1, len(curve) + 1):
        assert plateau_at(curve[:end], rule) == (found if found is not None and end > found else None)


@given(curves(), rules)
def test_a_plateau_needs_as_many_flat_values_as_the_rule_says(curve: list[Point], rule: Rule) -> None:
    found = plateau_at(curve, rule)
    assume(found is not None)
    assert found is not None
    for index in range(found - rule.flat + 1, found + 1):
        best = best_of(curve[:index])
        assert curve[index].mean - best.mean <= margin(best, curve[index], rule)


@given(st.integers(2, 8), st.floats(1.5, 4))
def test_steady_growth_beyond_the_noise_is_no_plateau(steps: int, factor: float) -> None:
    curve = [Point(2.0**i, (100 * factor**i, 101 * factor**i, 99 * factor**i)) for i in range(steps)]
    assert plateau_at(curve, RULE) is None
    assert recommended(curve, RULE) == curve[-1]


@given(SAMPLES, st.integers(3, 8))
def test_equal_values_are_a_plateau_at_the_third_and_the_first_is_recommended(samples: list[float], count: int) -> None:
    curve = [Point(2.0**i, tuple(samples)) for i in range(count)]
    assert plateau_at(curve, RULE) == 2
    assert recommended(curve, RULE) == curve[0]


@given(curves(), rules)
def test_a_larger_margin_never_recommends_a_larger_value(curve: list[Point], rule: Rule) -> None:
    wider = Rule(rule.errors * 2, rule.share * 2, rule.flat)
    near, wide = recommended(curve, rule), recommended(curve, wider)
    assert near is not None
    assert wide is not None
    assert wide.value <= near.value


def test_the_margin_is_the_pooled_standard_error_of_the_difference() -> None:
    best, other = Point(8, (10.0, 12.0, 14.0)), Point(4, (9.0, 11.0))
    # Sums of squares 8 and 2 over 3 degrees of freedom, times 1/3 + 1/2.
    assert margin(best, other, Rule(errors=1, share=0)) == pytest.approx((10 / 3 * 5 / 6) ** 0.5)
    assert margin(best, other, Rule(errors=0, share=0.5)) == 6


def test_without_repeats_the_share_alone_decides() -> None:
    curve = [Point(4, (100.0,)), Point(8, (101.0,)), Point(16, (104.0,))]
    assert plateau_at(curve, RULE) is None, "16 is more than 2 % above 8"
    assert plateau_at(curve, Rule(share=0.03)) == 2


def test_noise_hides_a_gain_that_the_same_means_without_noise_show() -> None:
    quiet = [Point(4, (99.0, 100.0, 101.0)), Point(8, (109.0, 110.0, 111.0))]
    loud = [Point(4, (70.0, 100.0, 130.0)), Point(8, (80.0, 110.0, 140.0))]
    assert recommended(quiet, RULE) == quiet[1]
    assert recommended(loud, RULE) == loud[0]


def test_no_value_is_recommended_where_none_was_measured() -> None:
    assert recommended([], RULE) is None
    assert plateau_at([], RULE) is None
