"""The check that the tile which the patched code chooses fits the device's shared memory."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from orchestrator.checks.base import Check
from orchestrator.checks.reading import owner, scope_of, source_of
from orchestrator.checks.values import constants_around
from orchestrator.checks.verdict import Status, Verdict, fails
from orchestrator.code.anatomy import anatomy, every
from orchestrator.code.constants import Unknown, Value, positive
from orchestrator.code.fold import Seen, observed
from orchestrator.code.scopes import FunctionNode
from orchestrator.code.symbols import parameters
from orchestrator.core.diagnostics import Diagnostic, Rejected
from orchestrator.device.shared_memory import LAUNCH_STAGES, flash_attention_tile_bytes, largest_tile, padded
from orchestrator.spec.model import Scalar, TargetPath

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from orchestrator.checks.view import View
    from orchestrator.code.source import Source
    from orchestrator.core.diagnostics import Place

_ORDER = (Status.HOLDS, Status.WARNS, Status.FAILS)
_LIMIT = "device.shared_memory_per_block_bytes"
_PREFERRED = "device.shared_memory_preferred_bytes"
_HEAD_DIM = "model.head_dim"

Name = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$", description="name of a variable in the function")]
Size = Annotated[int, Field(ge=1)]


class TileFits(Check):
    """Every tile that a function may launch its flash-attention kernels with fits one block's shared memory.

    The tile is folded from the code in the tree at each launch, `num_stages` is read from the launches. More
    bytes than `limit` fail, more than `preferred` warn. The bytes are those of
    `orchestrator.device.shared_memory.flash_attention_tile_bytes`.
    """

    check: Literal["tile_fits"]
    file: TargetPath
    within: Annotated[str, Field(min_length=1, description="qualified name of the function that launches")]
    name: Annotated[Name, Field(description="the variable that holds the tile")]
    given: Annotated[
        dict[str, Scalar], Field(description="expression of the code → its value, such as `k.shape[-1]`")
    ] = {}
    block_m: Annotated[Name | None, Field(description="variable of the query rows; `name` if absent")] = None
    block_n: Annotated[Name | None, Field(description="variable of the keys; `name` if absent")] = None
    head_dim: Annotated[Size | None, Field(description="head size; `model.head_dim` if absent")] = None
    element_bytes: Annotated[Size, Field(description="bytes of one element: 2 for half precision")] = 2
    num_stages: Annotated[Size | None, Field(description="for a function that launches nothing itself")] = None
    limit: Annotated[Size | None, Field(description=f"bytes; `{_LIMIT}` if absent")] = None
    preferred: Annotated[Size | None, Field(description=f"bytes; `{_PREFERRED}` if absent, else the limit")] = None

    def look(self, view: View) -> Verdict:
        """Return the verdict on the worst tile, with the formula in numbers."""
        source = source_of(view, self.file)
        scope = scope_of(source, self.within)
        if not isinstance(scope, FunctionNode):
            return fails(f"{owner(self.file, self.within)} is not a function", source.place(scope))
        at = self._asked(scope)
        if not at:
            message = f"{owner(self.file, self.within)} launches no kernel: `num_stages` is not known"
            return fails(message, source.place(scope))
        seen = observed(scope, at, self.given, constants_around(view, source.tree, scope))
        if not seen:
            return fails(f"no launch in {owner(self.file, self.within)} can be reached", source.place(scope))
        verdicts = [self._verdict(view, source, scope, tile) for each in seen for tile in _tiles(each)]
        worst, _ = max(verdicts, key=lambda pair: (_ORDER.index(pair[0].status), pair[1]))
        stale = _unmentioned(scope, self.given)
        if not stale:
            return worst
        shown = ", ".join(f"`{text}`" for text in stale)
        status = Status.WARNS if worst.status is Status.HOLDS else worst.status
        return Verdict(
            status, f"{worst.evidence}; `given` names {shown}, which the function does not have", worst.place
        )

    def _asked(self, scope: FunctionNode) -> dict[ast.stmt | None, list[ast.expr]]:
        """Return for each statement that launches what is asked there: rows, keys, and the stages of each launch."""
        rows, keys = (ast.Name(name or self.name, ast.Load()) for name in (self.block_m, self.block_n))
        if self.num_stages is not None:
            return {None: [rows, keys, ast.Constant(self.num_stages)]}
        at: dict[ast.stmt | None, list[ast.expr]] = {}
        for statement, launch in launches(scope):
            at.setdefault(statement, [rows, keys]).append(stages_of(launch))
        return at

    def _verdict(
        self, view: View, source: Source, scope: FunctionNode, tile: tuple[Seen, Value, Value, Value]
    ) -> tuple[Verdict, int]:
        """Return the verdict on one tile at one launch, and its bytes."""
        seen, *values = tile
        place = source.place(seen.statement or scope)
        where = f"{place} in `{self.within}`"
        under = f" where {' and '.join(f'`{c}`' for c in seen.conditions)}" if seen.conditions else ""
        names = (self.block_m or self.name, self.block_n or self.name, "num_stages")
        for name, value in zip(names, values, strict=True):
            if isinstance(value, Unknown):
                return fails(f"{where}: `{name}` cannot be folded{under}: {value.reason}", place), 0
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                return fails(f"{where}: `{name}` is {value!r}{under}, which is no size", place), 0
        rows, keys, stages = (value for value in values if isinstance(value, int))
        return self._measured(view, (rows, keys, stages), f"{where}: `{self.name}`", under, place)

    def _measured(
        self, view: View, tile: tuple[int, int, int], what: str, under: str, place: Place
    ) -> tuple[Verdict, int]:
        rows, keys, stages = tile
        head_dim = _figure(view, _HEAD_DIM, self.head_dim)
        limit, preferred = limits_of(view, self.limit, self.preferred)
        width, size = padded(head_dim), self.element_bytes
        needed = flash_attention_tile_bytes(rows, keys, width, size, stages)
        buffers = 1 if stages == 1 else 2 * (stages - 1)
        formula = f"{rows}·{width}·{size} + {rows}·{keys}·{size} + {buffers}·{keys}·{width}·{size} = {needed:,} B"
        evidence = f"{what} is {rows}x{keys}{under}; with num_stages={stages} at head size {head_dim}: {formula}"
        if needed > limit:
            best = largest_tile(head_dim, size, stages, limit)
            hint = f"the largest square tile that fits is {best}" if best else "no tile fits"
            return Verdict(Status.FAILS, f"{evidence}, above the limit of {limit:,} B; {hint}", place), needed
        if needed > preferred:
            message = f"{evidence}, within the limit of {limit:,} B but above the preferred {preferred:,} B"
            return Verdict(Status.WARNS, message, place), needed
        return Verdict(Status.HOLDS, f"{evidence}, within {preferred:,} B (limit {limit:,} B)", place), needed


def _tiles(seen: Seen) -> Iterator[tuple[Seen, Value, Value, Value]]:
    """Yield rows, keys and stages for each launch of one statement."""
    rows, keys, *stages = seen.values
    for count in stages:
        yield seen, rows, keys, count


def limits_of(view: View, limit: int | None, preferred: int | None) -> tuple[int, int]:
    """Return the bytes that a block may have, and the bytes that are preferred: those given, else the target's.

    Raises `Rejected` (E531) where neither says the first; the second is then the first.
    """
    most = _figure(view, _LIMIT, limit)
    return most, _figure(view, _PREFERRED, preferred, None if _PREFERRED in view.facts.values else most)


def _figure(view: View, key: str, *given: int | None) -> int:
    """Return the first number given, else the target's figure; raise `Rejected` (E531) if the target has none."""
    value: Any = next((number for number in given if number is not None), view.facts.values.get(key))
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        field = key.rpartition(".")[2]
        message = f"the target has no usable figure `{key}`" + (f": {value!r}" if value is not None else "")
        raise Rejected(Diagnostic("E531", message, help=f"Add `{field}` to the target, or give it in the check."))
    return value


def _unmentioned(scope: FunctionNode, given: Iterable[str]) -> list[str]:
    """Return the given facts that are neither about an expression of the function nor about one of its parameters."""
    facts = {text: _expression(text) for text in given}
    own = parameters(scope)
    missing = [text for text, fact in facts.items() if not (isinstance(fact, ast.Name) and fact.id in own)]
    wanted = {text: (fact, _spelling(fact)) for text in missing if (fact := facts[text]) is not None}
    pending: list[ast.AST] = [scope]
    for node in pending:  # grows as it is walked
        if not wanted:
            break
        for text, (fact, spelling) in list(wanted.items()):
            if _alike(fact, node) and _spelling(node) == spelling:
                del wanted[text]
                missing.remove(text)
        pending.extend(ast.iter_child_nodes(node))
    return missing


def _expression(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _spelling(node: ast.AST) -> str:
    return positive(node)[0] if isinstance(node, ast.Compare) else ast.unparse(node)


def _alike(fact: ast.AST, node: ast.AST) -> bool:
    """Tell by a quick look whether two expressions may be spelt alike."""
    if type(fact) is not type(node):
        return False
    match fact, node:
        case (ast.Attribute(attr=one), ast.Attribute(attr=other)) | (ast.Name(id=one), ast.Name(id=other)):
            return one == other
        case ast.Subscript(value=one), ast.Subscript(value=other):
            return _alike(one, other)
        case ast.Compare(left=one), ast.Compare(left=other):
            return _alike(one, other)
        case ast.Call(func=one), ast.Call(func=other):
            return _alike(one, other)
        case _:
            return True


def launches(scope: FunctionNode) -> Iterator[tuple[ast.stmt, ast.Call]]:
    """Yield every kernel launch, `kernel[grid](...)`, of a function's own statements, with its statement."""
    for statement in every(scope.body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        nodes = anatomy(statement).nodes
        calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)]
        if calls:
            later = {part for node in nodes if isinstance(node, ast.Lambda) for part in ast.walk(node)}
            yield from ((statement, call) for call in sorted(calls, key=_start) if call not in later)


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def stages_of(launch: ast.Call) -> ast.expr:
    """Return the expression of a launch's `num_stages`: Triton's own default where it passes none."""
    for keyword in launch.keywords:
        if keyword.arg == "num_stages":
            return keyword.value
    unpacked = next((keyword.value for keyword in launch.keywords if keyword.arg is None), None)
    return ast.Constant(LAUNCH_STAGES) if unpacked is None else unpacked
