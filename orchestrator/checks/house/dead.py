"""E512: no edit stands in a branch that can never run in this target."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

from orchestrator.checks.house.deadness import Gate, decided, gates
from orchestrator.checks.house.edited_lines import edited, meet, own_lines, statements
from orchestrator.checks.house.truth import Truth
from orchestrator.code.anatomy import nodes_of
from orchestrator.code.symbols import own_expressions
from orchestrator.core.diagnostics import Diagnostic, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orchestrator.checks.house.edited_lines import Chunk
    from orchestrator.checks.house.world import World
    from orchestrator.code.source import Source

_DECLARING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass)
_ASSIGNING = (ast.Assign, ast.AnnAssign)
_HELP = "Edit the branch that this target takes, or mend the flag or the fact that decides it."


def judge(world: World, touched: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield one finding for each run of edited lines whose effect lies in dead code alone, and each gate over it."""
    truth = Truth.of(world)
    for path in sorted(touched):
        found = edited(world, path)
        if found is None:
            continue
        try:
            yield from _of_file(*found, truth)
        except (Rejected, RecursionError):
            continue  # rule E501 has said so


def _of_file(before: Source, after: Source, chunks: Sequence[Chunk], truth: Truth) -> Iterator[Diagnostic]:
    new, old = [chunk.new for chunk in chunks], [chunk.old for chunk in chunks]
    dead = gates(after, truth, new)
    brought = [(s, guard.scopes) for s, guard in statements(after, new)]
    removed = [s for s, _ in statements(before, old)]
    for chunk in chunks:
        here = [(s, scopes) for s, scopes in brought if meet(own_lines(s), chunk.new)]
        there = [s for s in removed if meet(own_lines(s), chunk.old)]
        if here:
            same = {_text(s) for s in there}
            yield from _brought([each for each in here if _text(each[0]) not in same], dead, chunk, after)
            yield from _in_dead_arms(here, there, after, truth)
        elif there and all(s in (gone := gates(before, truth, old)) for s in there):
            yield _finding(there[0], gone[there[0]], before, "what is removed here could never run")


def _brought(
    here: Sequence[tuple[ast.stmt, tuple[ast.AST, ...]]], dead: Mapping[ast.stmt, Gate], chunk: Chunk, after: Source
) -> Iterator[Diagnostic]:
    """Yield a finding for each gate outside the edited lines; for one in them only where all they bring is dead."""
    pure = not chunk.old
    killed = [s for s, _ in here if s in dead and not _is_meant(s, dead[s], inserted=pure)]
    own = {s for s in killed if meet(own_lines(dead[s].statement), chunk.new)}
    deciding = {dead[s].statement for s in own}
    alive = [s for s, _ in here if s not in dead and s not in deciding]
    told: set[ast.stmt] = set()
    for statement in killed:
        gate = dead[statement]
        if gate.statement not in told and (statement not in own or (not alive and pure)):
            told.add(gate.statement)
            yield _finding(statement, gate, after, "this code can never run")


def _text(statement: ast.stmt) -> str:
    """Return what a statement itself says, without its layout and without the statements in it."""
    name = getattr(statement, "name", "")
    return f"{type(statement).__name__} {name} {' '.join(ast.unparse(part) for part in own_expressions(statement))}"


def _is_meant(statement: ast.stmt, gate: Gate, *, inserted: bool) -> bool:
    """Tell whether dead code is there for tools alone, or makes a generator of a function that yields nothing."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Yield | ast.YieldFrom):
        return True
    if not gate.for_checkers:
        return False
    return isinstance(statement, _DECLARING) or (inserted and isinstance(statement, _ASSIGNING))


def _in_dead_arms(
    here: Sequence[tuple[ast.stmt, tuple[ast.AST, ...]]], there: Sequence[ast.stmt], after: Source, truth: Truth
) -> Iterator[Diagnostic]:
    """Yield a finding for each statement that was changed in a dead arm of an expression and nowhere else."""
    if not there:
        return
    for statement, scopes in here:
        folding = _Folding(after, truth, scopes)
        parts = list(own_expressions(statement))
        if not any(isinstance(node, ast.IfExp | ast.BoolOp) for part in parts for node in nodes_of(part)):
            continue
        plain = [ast.unparse(part) for part in parts]
        live = [ast.unparse(folding.visit(copy.deepcopy(part))) for part in parts]
        if folding.gate is None:
            continue
        for old in there:
            old_parts = list(own_expressions(old))
            if type(old) is not type(statement) or [ast.unparse(part) for part in old_parts] == plain:
                continue
            if [ast.unparse(folding.visit(copy.deepcopy(part))) for part in old_parts] == live:
                gate = Gate(statement, *folding.gate)
                yield _finding(
                    statement, gate, after, "only an arm of an expression that is never evaluated is changed"
                )
                break


class _Folding(ast.NodeTransformer):
    """Blanks the arms of expressions that are never evaluated, and keeps what the first gate over one says."""

    def __init__(self, source: Source, truth: Truth, scopes: Sequence[ast.AST]) -> None:
        self.source = source
        self.truth = truth
        self.scopes = scopes
        self.gate: tuple[str, tuple[str, ...]] | None = None

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        known = decided(node.test, self.source, self.truth, self.scopes)
        if known is not None:
            self.note(node.test, bool(known.value), known.because)
            if known.value:
                node.orelse = ast.Constant(...)
            else:
                node.body = ast.Constant(...)
        return self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        for number, part in enumerate(node.values[:-1], 1):
            known = decided(part, self.source, self.truth, self.scopes)
            if known is not None and bool(known.value) is isinstance(node.op, ast.Or):
                self.note(part, bool(known.value), known.because)
                node.values = [*node.values[:number], ast.Constant(...)]
                break
        return self.generic_visit(node)

    def note(self, test: ast.expr, value: bool, because: tuple[str, ...]) -> None:  # noqa: FBT001 - a condition's value
        if self.gate is None:
            self.gate = f"`{ast.unparse(test)}` is {'true' if value else 'false'} in this target", because


def _finding(statement: ast.stmt, gate: Gate, source: Source, what: str) -> Diagnostic:
    notes = (f"the gate stands at {source.place(gate.statement)}", *(f"because {line}" for line in gate.because))
    return Diagnostic("E512", f"{what}: {gate.says}", source.place(statement), help=_HELP, notes=notes)
