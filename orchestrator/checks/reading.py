"""How judges read a view: a file, a definition in it, a place in words. What is missing is said, never guessed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from orchestrator.code.patterns import Pattern, compile_pattern
from orchestrator.code.scopes import definitions_in, named
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, did_you_mean
from orchestrator.spec.document import Document, read_document

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Mapping
    from typing import Any

    from orchestrator.checks.view import View
    from orchestrator.code.scopes import ScopeNode
    from orchestrator.code.source import Source


def content_of(view: View, file: str) -> bytes:
    """Return the bytes of a file of the tree or of an artefact; raise `Rejected` (E401) if there is neither."""
    content = view.read(file)
    if content is None:
        raise Rejected(_absent(file, [*view.tree, *view.artefacts]))
    return content


def source_of(view: View, file: str) -> Source:
    """Return a Python file of the tree that parses; raise `Rejected` (E401, E408, E409)."""
    source = view.source(file)
    if source is None:
        raise Rejected(_absent(file, view.tree))
    return parsing(source)


def parsing(source: Source) -> Source:
    """Return the source if it can be read; its fault names the file in words too (E408, E409)."""
    try:
        source.tree  # noqa: B018 - parsing is what may be refused
    except Rejected as error:
        raise Rejected(standing_alone(error, source.path)) from None
    return source


def document_of(view: View, file: str) -> Document:
    """Return a YAML or JSON file of the tree or an artefact; raise `Rejected` (E10x, E401)."""
    content = content_of(view, file)
    try:
        return view.sources.once(file, content, _json if file.endswith(".json") else read_document)
    except Rejected as error:
        raise Rejected(standing_alone(error, file)) from None


def _json(file: str, content: bytes) -> Document:
    try:
        return Document(file, "", json.loads(content))
    except (ValueError, RecursionError) as error:
        raise Rejected(Diagnostic("E103", f"not JSON: {error}", Place(file), help="See json.org.")) from None


def standing_alone(error: Rejected, file: str) -> Diagnostic:
    """Return all that was rejected as one diagnostic whose message names every place."""
    found = error.diagnostics
    message = "; ".join(f"{d.place or file}: {d.message}" for d in found)
    return Diagnostic(found[0].code, message, found[0].place or Place(file), found[0].help)


def _absent(file: str, known: Iterable[str]) -> Diagnostic:
    folder, _, name = file.rpartition("/")
    beside = [path for path in known if path.endswith(f"/{name}") or path.rpartition("/")[0] == folder]
    near = did_you_mean(file, beside)
    hint = f"; {near}" if near.startswith("did you") else ""
    return Diagnostic("E401", f"{file} is not there{hint}", Place(file), help="Correct the path, or deploy the file.")


def scopes_of(source: Source, within: str | None) -> list[ScopeNode]:
    """Return every definition of this qualified name, the module for None; raise `Rejected` (E402) for none."""
    found = named(source, within)
    if not found:
        near = did_you_mean(str(within), (name for name, _ in definitions_in(source)))
        hint = f"; {near}" if near.startswith("did you") else ""
        message = f"{source.path} has no definition `{within}`{hint}"
        raise Rejected(Diagnostic("E402", message, Place(source.path), help="Correct `within:`."))
    return found


def scope_of(source: Source, within: str | None) -> ScopeNode:
    """Return the one definition of this qualified name; raise `Rejected` (E402, E405) for none or several."""
    found = scopes_of(source, within)
    if len(found) > 1:
        places = ", ".join(str(source.place(node)) for node in found)
        message = f"{source.path} defines `{within}` {len(found)} times ({places})"
        raise Rejected(Diagnostic("E405", message, source.place(found[0]), help="Name a definition that is unique."))
    return found[0]


def owner(file: str, within: str | None) -> str:
    """Return a scope in words: `vllm/a.py`, or `f in vllm/a.py`."""
    return f"`{within}` in {file}" if within else file


def times(count: int) -> str:
    """Return a count in words."""
    return "once" if count == 1 else f"{count} times"


def compiled(text: str, values: Mapping[str, Any], field: str) -> Pattern:
    """Return a compiled pattern; the fault of one that cannot be compiled names the check's field (E206)."""
    try:
        return compile_pattern(text, values)
    except Rejected as error:
        found = error.diagnostics[0]
        hint = f" ({found.help})" if found.help else ""
        raise Rejected(Diagnostic(found.code, f"`{field}: {text}`: {found.message}{hint}", help=found.help)) from None


def expression(text: str, values: Mapping[str, Any], field: str) -> ast.AST:
    """Return the one expression that a field of a check writes; raise `Rejected` (E206) if it is none."""
    pattern = compiled(text, values, field)
    if not pattern.is_expression:
        raise Rejected(Diagnostic("E206", f"`{field}: {text}` is not an expression", help="Write one expression."))
    return pattern.nodes[0]
