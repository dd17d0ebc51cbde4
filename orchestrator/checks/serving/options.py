"""What the command line of the server in the tree knows: read from the calls that build its parser."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.checks.reading import parsing
from orchestrator.code.nodes import parts_of
from orchestrator.code.spotting import lines_with, spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from orchestrator.checks.view import View
    from orchestrator.code.source import Source
    from orchestrator.core.diagnostics import Place
    from orchestrator.spec.serving import Registry

_BARE = frozenset({"store_true", "store_false", "store_const", "append_const", "count", "help", "version"})


@dataclass(frozen=True)
class Option:
    """One option of the parser: `takes` is none, one, maybe (it may be bare), or many (any number of values)."""

    name: str
    spellings: tuple[str, ...]
    takes: str
    choices: tuple[str, ...] | None
    place: Place


@dataclass(frozen=True)
class Parser:
    """What is known of a command line. `whole` says that it has no option whose name code makes."""

    options: Mapping[str, Option]
    """Spelling with dashes → option."""
    whole: bool
    positional: bool = False
    """Whether it takes words that belong to no option."""


def parser_of(view: View, files: tuple[str, ...]) -> Parser | None:
    """Return the command line that these files build; None where the tree lacks one of them: nothing is known then."""
    sources = [view.source(file) for file in files]
    present = [parsing(source) for source in sources if source is not None]
    if not files or len(present) < len(files):
        return None
    found: dict[str, Option] = {}
    whole, positional = True, False
    for source in present:
        for call in _calls(source):
            option = _option(source, call)
            found.update(dict.fromkeys(option.spellings, option) if option else {})
            constant = all(isinstance(argument, ast.Constant) for argument in call.args)
            whole, positional = whole and constant, positional or (constant and option is None)
    return Parser(found, whole, positional)


def _calls(source: Source) -> Iterator[ast.Call]:
    """Yield every call of `add_argument`, in the order of `ast.walk`; only statements that name it are entered."""
    lines = lines_with(source, ("add_argument",))
    pending: list[ast.AST] = [source.tree]
    for node in pending:  # grows as it is walked
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            yield node
        if not isinstance(node, ast.stmt) or spans(node, lines):
            pending += parts_of(node)


def _option(source: Source, call: ast.Call) -> Option | None:
    """Return the option that a call adds; None for a positional argument, or where code makes its name."""
    names = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    spellings = [_dashed(name) for name in names if name.startswith("-")]
    if not spellings:
        return None
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    long = next((name for name in spellings if name.startswith("--")), spellings[0])
    if _called_as(keywords.get("action")) == "BooleanOptionalAction":
        spellings += [f"--no-{name[2:]}" for name in spellings if name.startswith("--")]
    return Option(long.lstrip("-"), tuple(spellings), _takes(keywords), _choices(keywords), source.place(call))


def _dashed(spelling: str) -> str:
    return f"--{spelling[2:].replace('_', '-')}" if spelling.startswith("--") else spelling


def _takes(keywords: dict[str, ast.expr]) -> str:
    if _called_as(keywords.get("action")) == "BooleanOptionalAction":
        return "none"
    match keywords.get("action"), keywords.get("nargs"):
        case ast.Constant(value=str(action)), None if action in _BARE:
            return "none"
        case ((None | ast.Constant(value="store" | "append")), None):
            return "one"
        case _, ast.Constant(value="?"):
            return "maybe"
    return "many"


def _choices(keywords: dict[str, ast.expr]) -> tuple[str, ...] | None:
    """Return the values that are written down as choices; None where there are none, or code makes them."""
    match keywords.get("choices"):
        case ast.List(elts=items) | ast.Tuple(elts=items) if all(isinstance(item, ast.Constant) for item in items):
            return tuple(str(item.value) for item in items if isinstance(item, ast.Constant))
    return None


def registered(view: View, registry: Registry, naming: str = "") -> dict[str, Place] | None:
    """Return the names that code under a folder registers, with their places; None where the tree has no such folder.

    With `naming`, only files that have this text are read, which is enough to know whether it is registered. Only what
    the package imports counts: what stands in a file that nothing imports is not registered when the server starts.
    """
    files = [path for path in view.paths() if path.startswith(f"{registry.under}/") and path.endswith(".py")]
    if not files:
        return None
    package = view.source(f"{registry.under}/__init__.py")
    imported = _imported(package) if package is not None else set()
    found: dict[str, Place] = {}
    for file in files:
        source = view.source(file)
        if source is None or not all(text.encode() in source.raw for text in (registry.call, naming)):
            continue
        stem = file.rpartition("/")[2].removesuffix(".py")
        if stem not in imported and stem != "__init__":
            continue
        for call in ast.walk(parsing(source).tree):
            if isinstance(call, ast.Call) and _called_as(call.func) == registry.call and call.args:
                first = call.args[0]
                items = first.elts if isinstance(first, ast.List | ast.Tuple) else [first]
                texts = [item.value for item in items if isinstance(item, ast.Constant)]
                found.update((text, source.place(call)) for text in texts if isinstance(text, str))
    return found


def _called_as(expression: ast.expr | None) -> str:
    """Return the last part of a name, an empty string for what is none."""
    match expression:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _imported(package: Source) -> set[str]:
    """Return the last part of every module that a package's `__init__` imports."""
    found = set()
    for node in ast.walk(parsing(package).tree):
        if isinstance(node, ast.ImportFrom):
            found.add((node.module or "").rpartition(".")[2])
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update(alias.name.rpartition(".")[2] for alias in node.names)
    return found


def defines(view: View, under: str, name: str) -> bool:
    """Tell whether code in a file or folder of the tree defines a name: a function, a class, a name or an attribute."""
    files = [under] if under.endswith(".py") else [p for p in view.paths() if p.startswith(f"{under}/")]
    for file in files:
        source = view.source(file) if file.endswith(".py") else None
        if source is not None and name.encode() in source.raw and _binds(parsing(source).tree, name):
            return True
    return False


def _binds(tree: ast.Module, name: str) -> bool:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound) | ast.ClassDef(name=bound):
                pass
            case ast.Name(id=bound, ctx=ast.Store()) | ast.Attribute(attr=bound, ctx=ast.Store()):
                pass
            case _:
                continue
        if bound == name:
            return True
    return False
