"""Figures of device, model and engine in text and code: the numbers by which a target's facts would be repeated."""

from __future__ import annotations

import ast
import operator
import re
from typing import TYPE_CHECKING

from orchestrator.spec.target import Figure, load_target
from tests.repository.sources import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from orchestrator.spec.target import Target

# Below this a number is everyone's: a number of heads, a head size. So are the powers of two up to the second.
DISTINCTIVE = 4096
COMMON_POWER = 8192
# Figures that are everyone's number too: registers of a multiprocessor, a disputed number of bytes in flight.
EVERYONES = frozenset({65536, 16384})
# Measured or derived, and in no target: blocks of KV cache, tokens that fit, bandwidth of one SM.
FURTHER = (5507, 16878, 19259, 67512, 88112, 56 * 10**9)

UNITS = {"K": 10, "M": 20, "G": 30}
NUMBER = r"\d{1,3}(?:[,_]\d{3})+|\d+"
WITH_UNIT = re.compile(rf"(?<![\w.,])({NUMBER})(?:\s*([KMG])i?B)?(?![\w]|[.,]\d)")
PRODUCT = re.compile(rf"(?<![\w.,])({NUMBER})\s*\*\s*({NUMBER})(?![\w.,])")
OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}
LARGEST_EXPONENT = 64


def target_figures() -> frozenset[int]:
    """Return the distinctive numbers of all targets, and those of `FURTHER`."""
    found = set(FURTHER)
    for path in sorted((ROOT / "targets").glob("*.yaml")):
        target = load_target(f"targets/{path.name}", path.read_bytes(), lambda file: (ROOT / file).read_bytes())
        found |= set(_numbers(target))
    return frozenset(found)


def _numbers(target: Target) -> Iterator[int]:
    for section in (target.device, target.model, target.engine):
        for figure in section.values():
            for value in (figure.value, *figure.values) if isinstance(figure, Figure) else (figure,):
                if isinstance(value, int) and value >= DISTINCTIVE and not _common(value):
                    yield value


def _common(value: int) -> bool:
    return value in EVERYONES or (value <= COMMON_POWER and value & (value - 1) == 0)


def in_text(text: str, figures: frozenset[int]) -> Iterator[tuple[int, str]]:
    """Yield (line, what is written) for each figure in `text`: 49152, 49,152, 48 KB, 584 GB, 48 * 1024."""
    for number, line in enumerate(text.splitlines(), 1):
        for match in WITH_UNIT.finditer(line):
            if figures & _meanings(_integer(match[1]), match[2]):
                yield number, match[0]
        for match in PRODUCT.finditer(line):
            if _integer(match[1]) * _integer(match[2]) in figures:
                yield number, match[0]


def _integer(text: str) -> int:
    return int(text.replace(",", "").replace("_", ""))


def _meanings(value: int, unit: str | None) -> set[int]:
    if unit is None:
        return {value}
    return {value << UNITS[unit], value * 10 ** (3 * UNITS[unit] // 10)}


def in_code(source: str, figures: frozenset[int]) -> Iterator[tuple[int, str]]:
    """Yield (line, code) for each constant expression of Python whose value is a figure: 1 << 15, 0xC000."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant | ast.BinOp) and _folded(node) in figures:
            yield node.lineno, ast.unparse(node)


def _folded(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            a, b = _folded(left), _folded(right)
            if a is None or b is None or (isinstance(op, ast.FloorDiv) and b == 0):
                return None
            if isinstance(op, ast.Pow | ast.LShift) and not 0 <= b <= LARGEST_EXPONENT:
                return None
            return OPERATORS[type(op)](a, b)
    return None
