"""The XFormers backend with heads that the vendor's flash kernel cannot serve; and what it does without a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour.drive_attention import STEPS
from tests.behaviour.driven import driven

if TYPE_CHECKING:
    from pathlib import Path

TOLERANCE = 1e-3  # relative, twice the rounding of float16
PROMPTS = [name for name in STEPS if name.startswith(("wide prompts", "wide heads"))]
PROFILES = [f"profile, {how}" for how in ("cache empty", "no cache", "no metadata", "neither")]
REFUSED = {
    **dict.fromkeys([*PROMPTS, "profile, cache empty", "wide encoder"], "the kernel takes at most 128"),
    "wide prefix": "context_attention_fwd",
    "wide chunks and decodes": "context_attention_fwd",
    "profile, no cache": "'NoneType' object has no attribute 'numel'",
    "profile, no metadata": "'NoneType' object has no attribute 'num_prefill_tokens'",
    "profile, neither": "'NoneType' object has no attribute",
}
"""Where the tree fails before the stage, and in which words."""


@pytest.mark.parametrize("name", [*STEPS, *PROFILES, "wide encoder"])
def test_attention_is_right(name: str, patched: Path) -> None:
    assert driven(patched)[name]["error"] < TOLERANCE


@pytest.mark.parametrize("name", [name for name in STEPS if name.startswith("wide")])
def test_wide_heads_never_reach_the_vendors_kernel(name: str, patched: Path) -> None:
    assert driven(patched)[name]["kernel"] == 0


def test_narrow_heads_keep_the_vendors_kernel(patched: Path, unpatched: Path) -> None:
    assert driven(patched)["narrow prompts"] == driven(unpatched)["narrow prompts"]
    assert driven(patched)["narrow prompts"]["kernel"] == 1


@pytest.mark.parametrize("name", STEPS)
def test_new_keys_and_values_are_in_the_cache(name: str, patched: Path) -> None:
    assert driven(patched)[name]["filled"]


@pytest.mark.parametrize(("name", "words"), REFUSED.items())
def test_before_the_stages_it_fails(name: str, words: str, unpatched: Path) -> None:
    assert words in driven(unpatched)[name]["message"]
