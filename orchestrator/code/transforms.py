"""Transforms of the user's: one small file each, `Params` and `transform(module, params)`.

libcst gives a transform the whole module. libcst drops some bytes in silence (a form feed, blanks before a
colon), so a file that does not print back as it was is refused, never damaged.
"""

from __future__ import annotations

import difflib
import inspect
import sys
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import libcst as cst
from pydantic import BaseModel

from orchestrator.code.rewrite import Rewritten
from orchestrator.code.sites import Site
from orchestrator.code.source import Source, not_too_deep
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected
from orchestrator.core.digest import digest
from orchestrator.origin.plugins import broken, load_plugin

if TYPE_CHECKING:
    from orchestrator.code.edits import Transform
    from orchestrator.origin.plugins import Plugin


@dataclass(frozen=True)
class LoadedTransform:
    """A transform file that was read: its parameters' model and its function."""

    name: str
    path: str
    params: type[BaseModel]
    function: Any
    applied: Any = None
    origin: str = ""
    """The distribution that it comes from, in words; empty for a file of the workspace."""
    about: str = ""
    """The docstring of what holds the function: a module, or what an entry point names."""


def load_transform(name: str, path: str, content: bytes) -> LoadedTransform:
    """Return the transform in `content`; raise `Rejected` (E220, E408) where it is not one."""
    source = Source(path, content)
    _ = source.tree  # what does not parse is reported with its place
    module = types.ModuleType(f"_stages_{name}_{digest(content)[:12]}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # pydantic looks annotations up there
    namespace = module.__dict__
    try:
        exec(compile(source.text, path, "exec", dont_inherit=True), namespace)  # noqa: S102 - the user's own code
    except Exception as error:  # noqa: BLE001 - whatever the user's module does at import
        raise Rejected(_raised(path, error, "importing it")) from None
    params, function = namespace.get("Params"), namespace.get("transform")
    if not (isinstance(params, type) and issubclass(params, BaseModel)) or not callable(function):
        message = "a transform file defines `class Params(BaseModel)` and `transform(module, params)`"
        raise Rejected(Diagnostic("E220", message, Place(path), help="See `docs/guide.md`, transforms."))
    return LoadedTransform(name, path, params, function, namespace.get("applied"), about=inspect.getdoc(module) or "")


def installed_transform(plugin: Plugin) -> LoadedTransform:
    """Return the transform that an entry point names: a module or an object with `Params` and `transform`.

    Raises `Rejected` (E280) where it cannot be loaded, or is none.
    """
    found = load_plugin(plugin)
    params, function = getattr(found, "Params", None), getattr(found, "transform", None)
    if not (isinstance(params, type) and issubclass(params, BaseModel)):
        what = "has no `Params`" if params is None else "has a `Params` that is no subclass of `pydantic.BaseModel`"
        raise Rejected(broken(plugin, f"what its entry point names {what}"))
    if not callable(function):
        raise Rejected(broken(plugin, "what its entry point names has no function `transform(module, params)`"))
    origin = f"{plugin.distribution} {plugin.version}, {plugin.target}"
    applied, about = getattr(found, "applied", None), inspect.getdoc(found) or ""
    return LoadedTransform(plugin.name, "", params, function, applied, origin, about)


def run_transform(edit: Transform, source: Source, path: str) -> Rewritten | None:
    """Return the source after the transform, None if it changes nothing.

    Raises `Rejected`: E414 the file does not survive libcst, E415 the transform raises or returns something
    else than a module, E406 it changes its own result again, E411 the result does not parse.

    What a transform does with a source is found once and kept with it: a transform is a function of these two.
    """
    with not_too_deep(source.path):
        # The edit is kept as well, so that no other one gets its identity.
        _, found = source.once(f"transformed {id(edit)} {path}", lambda: (edit, _tried(edit, source, path)))
    if isinstance(found, _Refused):
        raise Rejected(found.diagnostics)
    return found


def says_applied(edit: Transform, source: Source, path: str) -> bool:
    """Tell whether the transform says that a source has it already; raise `Rejected` (E414, E415) as it goes wrong."""
    if edit.applied is None:
        return False
    try:
        return bool(edit.applied(_module(source), edit.params))
    except Exception as error:
        if isinstance(error, Rejected):
            raise
        raise Rejected(_raised(path, error, "the transform's `applied`", edit.applied)) from None


class _Refused(NamedTuple):
    diagnostics: tuple[Diagnostic, ...]


def _tried(edit: Transform, source: Source, path: str) -> Rewritten | _Refused | None:
    try:
        return _run(edit, source, path)
    except Rejected as error:
        return _Refused(error.diagnostics)


def _run(edit: Transform, source: Source, path: str) -> Rewritten | None:
    body = _called(edit, _module(source), path).bytes
    if body == source.raw:  # what libcst prints of the source as it is
        return None
    raw = body if source.raw.startswith(b"\xef\xbb\xbf") == body.startswith(b"\xef\xbb\xbf") else source.raw[:3] + body
    result = Source(source.path, raw)
    try:
        _ = result.tree
    except Rejected as error:
        found = error.diagnostics[0]
        message = f"the transform's result does not parse: {found.message}"
        raise Rejected(Diagnostic("E411", message, found.place, help=f"Mend `{path}`.")) from None
    again = _called(edit, _module(result), path)
    if again.bytes != body:
        help_ = "Let it leave code alone that it has changed already."
        raise Rejected(Diagnostic("E406", "the transform changes its own result again", Place(path), help=help_))
    changed_lines = _changed_lines(source, result)
    sites = tuple(Site(Place(source.path, old.start, 1), "", _line(source, old.start)) for old, _ in changed_lines)
    return Rewritten(
        result, sites, tuple(old for old, _ in changed_lines), tuple(new for _, new in changed_lines if new)
    )


def _module(source: Source) -> cst.Module:
    _ = source.tree  # what Python cannot read is E408: libcst has no limit on nesting, and would take all memory
    try:
        module = cst.parse_module(source.raw)
    except (cst.ParserSyntaxError, SyntaxError, ValueError, LookupError, RecursionError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]  # a coding line that is wrong is a SyntaxError
        message = f"libcst cannot read {source.path}: {reason}"
        raise Rejected(Diagnostic("E414", message, Place(source.path), help="Write the change as an edit.")) from None
    if module.bytes != source.raw:
        message = f"libcst would not write {source.path} back as it is"
        help_ = "Write the change as an edit: edits splice the text and keep every other byte."
        raise Rejected(Diagnostic("E414", message, Place(source.path), help=help_))
    return module


def _called(edit: Transform, module: cst.Module, path: str) -> cst.Module:
    try:
        changed = edit.function(module, edit.params)
    except Rejected:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the user's transform does
        raise Rejected(_raised(path, error, "the transform", edit.function)) from None
    if not isinstance(changed, cst.Module):
        message = f"transform `{edit.name}` returned {type(changed).__name__}, not a libcst Module"
        raise Rejected(Diagnostic("E415", message, Place(path), help="Return the changed module."))
    return changed


def _raised(path: str, error: Exception, what: str, function: Any = None) -> Diagnostic:  # noqa: ANN401 - any callable
    """Return E415 with the last line of the transform's own file that the exception came through."""
    own = {path, getattr(getattr(function, "__code__", None), "co_filename", path)}
    trace = error.__traceback__
    line = 0
    while trace:
        if trace.tb_frame.f_code.co_filename in own:
            line = trace.tb_lineno
        trace = trace.tb_next
    message = f"{what} raised {type(error).__name__}: {error}"
    return Diagnostic("E415", message, Place(path, line, 1) if line else Place(path), help="Mend the transform.")


def _changed_lines(before: Source, after: Source) -> list[tuple[range, range]]:
    """Return the lines that differ, as ranges in `before` and in `after`; an insertion stands at the line above it."""
    matcher = difflib.SequenceMatcher(None, before.lines, after.lines, autojunk=False)
    return [
        (range(max(1, i1 + (i1 < i2)), max(i1, i2) + 1), range(j1 + 1, j2 + 1))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def _line(source: Source, number: int) -> str:
    return source.lines[number - 1].strip() if number <= len(source.lines) else ""
