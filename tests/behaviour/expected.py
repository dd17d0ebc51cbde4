"""What a case's result must be."""

from __future__ import annotations

from typing import Any

from tests.behaviour.cases import DECODE_THRESHOLD, V1_LIMIT, V1_MAX_LEN, Decode, Prefix

TOLERANCE = {"float16": 1e-3, "bfloat16": 4e-3, "float32": 1e-5}
"""Of a row's relative error: about twice the rounding of its elements."""


def assert_right(case: Decode | Prefix, result: dict[str, Any]) -> None:
    """Check that the answer is the dense one."""
    assert "raised" not in result, result
    assert result["error"] < TOLERANCE[case.dtype]


def assert_refused(result: dict[str, Any], kind: str, message: str) -> None:
    """Check that the case ended in this exception."""
    assert result.get("raised") == kind, result
    assert message in result["message"]


def patched_path(case: Decode) -> str:
    """Return the path of the patched tree: the bound alone decides."""
    if case.limit <= V1_MAX_LEN:
        return "v1"
    return "v2" if case.limit <= DECODE_THRESHOLD else "long"


def baseline_path(case: Decode) -> str:
    """Return the path of the tree with the first stage alone."""
    return "v1" if case.limit <= V1_LIMIT else "long"
