"""What the tests of edits share: edits made from text, run the way the engine runs them, every byte accounted for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from orchestrator.code.edits import Assign, Delete, Import, Insert, Replace
from orchestrator.code.locals import newly_unbound
from orchestrator.code.patterns import compile_pattern
from orchestrator.code.rewrite import apply, examine
from orchestrator.code.sites import Pending, Present
from orchestrator.code.source import Source
from orchestrator.code.template import compile_template
from orchestrator.core.diagnostics import Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.code.edits import Edit
    from orchestrator.core.diagnostics import Diagnostic

NOTHING: dict[str, Any] = {}


def replacing(match: str, by: str, count: int = 1, known: Mapping[str, Any] = NOTHING) -> Replace:
    pattern = compile_pattern(match, known)
    return Replace(pattern, compile_template(by, known, pattern.holes), count)


def deleting(match: str, count: int = 1) -> Delete:
    return Delete(compile_pattern(match, NOTHING), count)


def inserting(where: Literal["before", "after", "start", "end"], anchor: str | None, code: str) -> Insert:
    return Insert(where, compile_pattern(anchor, NOTHING) if anchor else None, compile_template(code, NOTHING))


def importing(code: str) -> Import:
    return Import(compile_template(code, NOTHING))


def assigning(name: str, value: str, old: str | None = None, known: Mapping[str, Any] = NOTHING) -> Assign:
    pattern = compile_pattern(old, known) if old else None
    holes = pattern.holes if pattern else frozenset[str]()
    return Assign(compile_pattern(name, known), pattern, compile_template(value, known, holes))


def edited(edit: Edit, before: str | bytes, within: str | None = None) -> str:
    """Return the text after an edit that must be pending; assert that no byte outside its splices changed."""
    return edited_bytes(edit, before, within).decode()


def edited_bytes(edit: Edit, before: str | bytes, within: str | None = None) -> bytes:
    source = Source("a.py", before.encode() if isinstance(before, str) else before)
    state = examine(edit, source, within)
    assert isinstance(state, Pending), "the edit is there already"
    result = apply(edit, source, within, state).source
    assert_only_spliced(source, result, state)
    return result.raw


def assert_only_spliced(before: Source, after: Source, state: Pending) -> None:
    """Assert that the text between an edit's splices is the same before and after, and so is the last of it."""
    position, moved = 0, 0
    for splice in sorted((change.splice for change in state.changes), key=lambda s: s.span):
        start = splice.span.start
        assert before.text[position:start] == after.text[position + moved : start + moved]
        assert after.text[start + moved :].startswith(splice.text)
        moved += len(splice.text) - (splice.span.end - start)
        position = splice.span.end
    assert before.text[position:] == after.text[position + moved :]
    assert before.raw.startswith(b"\xef\xbb\xbf") == after.raw.startswith(b"\xef\xbb\xbf")
    assert before.encoding == after.encoding


def is_present(edit: Edit, text: str | bytes, within: str | None = None) -> bool:
    raw = text.encode() if isinstance(text, str) else text
    return isinstance(examine(edit, Source("a.py", raw), within), Present)


def refusal(edit: Edit, before: str | bytes, within: str | None = None) -> Diagnostic:
    """Return the first diagnostic with which an edit is refused, by whichever step refuses it."""
    source = Source("a.py", before.encode() if isinstance(before, str) else before)
    try:
        state = examine(edit, source, within)
        assert isinstance(state, Pending), "the edit is there already"
        result = apply(edit, source, within, state)
    except Rejected as error:
        return error.diagnostics[0]
    unbound = newly_unbound(source, result.old_lines, result.source, result.new_lines)
    assert unbound, f"the edit was not refused:\n{result.source.text}"
    return unbound[0]


def unbound(edit: Edit, before: str, within: str | None = None) -> list[str]:
    """Return the messages about names that an edit's new code reads and that may be unbound."""
    source = Source("a.py", before.encode())
    state = examine(edit, source, within)
    assert isinstance(state, Pending)
    result = apply(edit, source, within, state)
    return [d.message for d in newly_unbound(source, result.old_lines, result.source, result.new_lines)]
