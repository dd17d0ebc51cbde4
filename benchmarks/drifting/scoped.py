"""Our form: a pipeline of one stage with one edit, read, planned and run as the program does it."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from typing import TYPE_CHECKING, Any

from benchmarks.drifting.forms import Refused, Result, Written
from benchmarks.drifting.judge import expected, said
from benchmarks.drifting.parts import SIMPLE, calls_of
from orchestrator.core.diagnostics import Diagnostic, Rejected
from orchestrator.core.tree import Tree
from orchestrator.engine.load import load
from orchestrator.engine.outcome import AlreadyApplied, Applied, Failed, StageResult
from orchestrator.engine.plan import Plan, make_plan
from orchestrator.engine.run import events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.drifting.parts import Part
    from benchmarks.drifting.sample import Drawn

Edit = dict[str, Any]
TARGET = b"""\
version: 1
name: drift
image: {reference: example.org/drift:1, python: "3.12", interpreter: /usr/bin/python3}
base: {supplied: a release}
roots: {vllm: [/opt/vllm]}
"""
LONGEST = 200  # characters of a neighbouring statement that somebody would still write into a pattern


def written(drawn: Drawn) -> Written | None:
    """Return the first way to write the change, from short to long, that is right on the file it is drawn from."""
    for edit in ways(drawn):
        plan = planned(drawn.change.file, drawn.change.definition, edit)
        if isinstance(plan, Refused):
            continue

        def apply(raw: bytes, plan: Plan = plan) -> Result:
            return applied(plan, drawn.change.file, raw)

        made = apply(drawn.raw)
        if isinstance(made, bytes) and said(made) in expected(drawn.change, drawn.raw):
            return apply
    return None


def planned(file: str, definition: str, edit: Edit) -> Plan | Refused:
    """Return the plan of a pipeline with this one edit."""
    scoped = {"file": file, **edit, **({"within": definition} if definition else {})}
    stage = {"id": "edit", "kind": "codemod", "summary": "A sampled edit.", "edits": [scoped]}
    document = {"version": 1, "name": "drift", "target": "target.yaml", "stages": [stage]}

    def read(path: str) -> bytes:
        if path != "target.yaml":
            raise Rejected(Diagnostic("E120", f"there is no {path}"))
        return TARGET

    try:
        return make_plan(load("pipeline.yaml", json.dumps(document).encode(), read), read)
    except Rejected as error:
        return Refused(error.diagnostics[0].code)


def applied(plan: Plan, file: str, raw: bytes) -> Result:
    """Return the file after the stage, or why there is none. Checks and house rules, which refuse more, are left out.

    A stage that is in already leaves the file as it is and says so.
    """
    first = next(iter(events(plan, Tree({file: raw}))))
    assert isinstance(first, StageResult)
    match first.outcome:
        case Applied():
            return first.after[file] or b""
        case AlreadyApplied():
            return Refused("already")
        case Failed(diagnostics=found):
            return Refused(found[0].code)
        case outcome:
            raise AssertionError(outcome)


def code(node: ast.AST) -> str:
    """Return a node's code as a pattern writes it: what looks like a reference there is a literal."""
    return ast.unparse(node).replace("${", "$${")


def ways(drawn: Drawn) -> Iterator[Edit]:
    """Yield the ways to write a change, from the shortest to the one with most around it."""
    change, part = drawn.change, drawn.part
    assert part is not None
    if change.kind == "import":
        yield {"op": "import", "code": change.new}
        return
    index = part.index
    before, after = _neighbour(part.body, index - 1), _neighbour(part.body, index + 1)
    old = code(part.statement)
    yield from _alone(drawn, old)
    new = _statement(drawn)
    for first, last in (("", ""), (before, ""), ("", after), (before, after)):
        if first or last or change.kind == "argument":
            yield from _among(drawn, old, new, first, last)
    if change.kind == "condition":
        written = _condition(drawn, "", "")
        old, new = written["match"], written["with"]
    if change.kind != "insertion":
        yield from _inside(drawn, old, new)


def _neighbour(body: list[ast.stmt], index: int) -> str:
    """Return a statement's code where it may stand in a pattern, else nothing."""
    if not 0 <= index < len(body) or not isinstance(body[index], SIMPLE):
        return ""
    text = code(body[index])
    return text if len(text) <= LONGEST else ""


def _alone(drawn: Drawn, old: str) -> Iterator[Edit]:
    change, part = drawn.change, drawn.part
    assert part is not None
    match change.kind:
        case "assignment":
            statement = part.statement
            assert isinstance(statement, ast.Assign | ast.AnnAssign)
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            value = code(statement.value) if statement.value else ""
            yield {"op": "assign", "name": code(target), "from": value, "value": change.new}
        case "argument":
            yield from _argument(drawn)
        case "condition":
            yield _condition(drawn, "", "")
        case "deletion":
            yield {"op": "delete", "match": old}
        case "insertion":
            yield {"op": "insert", "before" if change.before else "after": old, "code": change.new}
        case _:
            yield {"op": "replace", "match": old, "with": change.new}


def _argument(drawn: Drawn) -> Iterator[Edit]:
    """Yield the call with holes for all arguments but the one."""
    part = drawn.part
    assert part is not None
    keyword = part.node
    assert isinstance(keyword, ast.keyword)
    for call in calls_of(part.statement):
        if any(each is keyword for each in call.keywords):
            name = code(call.func)
            old, new = (
                f"{name}(${{before...}}, {keyword.arg}={value}, **${{after...}})"
                for value in (code(keyword.value), drawn.change.new)
            )
            yield {"op": "replace", "match": old, "with": new}


def _condition(drawn: Drawn, first: str, last: str) -> Edit:
    part = drawn.part
    assert part is not None
    statement = part.statement
    assert isinstance(statement, ast.If | ast.While)
    word = "if" if isinstance(statement, ast.If) else "while"
    rest = "\nelse:\n    ${rest...}" if statement.orelse else ""
    old, new = (
        "\n".join(filter(None, (first, f"{word} {test}:\n    ${{body...}}{rest}", last)))
        for test in (code(statement.test), f"not ({code(statement.test)})")
    )
    return {"op": "replace", "match": old, "with": new}


def _statement(drawn: Drawn) -> str:
    """Return the statement as it is after the change."""
    change, part = drawn.change, drawn.part
    assert part is not None
    old = code(part.statement)
    match change.kind:
        case "deletion":
            return ""
        case "insertion":
            return f"{change.new}\n{old}" if change.before else f"{old}\n{change.new}"
        case "argument":
            assert isinstance(part.node, ast.keyword)
            value, part.node.value = part.node.value, ast.parse(change.new, mode="eval").body
            made = code(part.statement)
            part.node.value = value
            return made
        case "assignment":
            statement = ast.parse(ast.unparse(part.statement)).body[0]
            statement.value = ast.parse(change.new, mode="eval").body  # type: ignore[attr-defined]  # both kinds have one
            return code(statement)
        case _:
            return change.new


def _among(drawn: Drawn, old: str, new: str, first: str, last: str) -> Iterator[Edit]:
    """Yield the change with the statements around it in its pattern."""
    change = drawn.change
    if change.kind == "condition":
        yield _condition(drawn, first, last)
    elif change.kind == "insertion":
        anchor = "\n".join(filter(None, (first, old) if not change.before else (old, last)))
        if last if change.before else first:
            yield {"op": "insert", "before" if change.before else "after": anchor, "code": change.new}
    else:
        match = "\n".join(filter(None, (first, old, last)))
        yield {"op": "replace", "match": match, "with": "\n".join(filter(None, (first, new, last)))}


def _inside(drawn: Drawn, old: str, new: str) -> Iterator[Edit]:
    """Yield the change with the head of the statement around it in its pattern, and holes for what else is in there."""
    part = drawn.part
    assert part is not None
    around = next((n for n in ast.walk(ast.parse(drawn.raw)) if _holds(n, part)), None)
    if not isinstance(around, ast.If | ast.For | ast.While | ast.With):
        return
    names = "drift_above", "drift_here", "drift_below"
    around.body = [ast.Expr(ast.Name(name)) for name in names]
    if not isinstance(around, ast.With) and around.orelse:
        around.orelse = [ast.Expr(ast.Name("drift_rest"))]
    shape = re.sub(r"\bdrift_(above|below|rest)\b", r"${\1...}", code(around))
    here = re.compile(r"^( *)drift_here\n", re.MULTILINE)
    match, made = (
        here.sub(lambda found: textwrap.indent(f"{text}\n", found[1]) if text else "", shape)  # noqa: B023 - used at once
        for text in (old, new)
    )
    yield {"op": "replace", "match": match, "with": made}


def _holds(node: ast.AST, part: Part) -> bool:
    """Tell whether a node, of another parse of the file, is the statement around the part."""
    body = getattr(node, "body", None)
    place = (part.statement.lineno, part.statement.col_offset)
    return isinstance(body, list) and any((s.lineno, s.col_offset) == place for s in body if isinstance(s, ast.stmt))
