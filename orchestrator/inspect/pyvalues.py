"""Paths and texts that a Python script computes from literals, found without running it."""

from __future__ import annotations

import ast
import posixpath
import re
from dataclasses import dataclass, field

from orchestrator.inspect.paths import UNKNOWN, joined

_PATHS = frozenset({"Path", "PurePath", "PosixPath", "PurePosixPath"})
_SAME = frozenset(
    {"resolve", "absolute", "expanduser", "as_posix", "abspath", "realpath", "normpath", "str", "fspath", "strip"}
)
_DEPTH = 60


@dataclass
class Names:
    """Values of the names of one scope and of those around it; `file` is the script's own path in the image."""

    file: str = ""
    arguments: tuple[str, ...] = ()
    environment: dict[str, str | None] = field(default_factory=dict)
    bound: dict[str, ast.expr | None] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    outer: Names | None = None

    def lookup(self, name: str) -> tuple[ast.expr | None, Names]:
        """Return the expression that a name is bound to and the scope to judge it in."""
        if name in self.bound:
            return self.bound[name], self
        return self.outer.lookup(name) if self.outer else (None, self)

    def package(self, name: str) -> str:
        """Return the package that a name was imported from."""
        return self.imported.get(name) or (self.outer.package(name) if self.outer else "")


def names_of(body: list[ast.stmt], outer: Names) -> Names:
    """Return the names that a block binds; one that is bound twice to different things is unknown."""
    names = Names(outer.file, outer.arguments, outer.environment, outer=outer)
    stack: list[ast.stmt] = list(reversed(body))
    while stack:
        node = stack.pop()
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                same = name not in names.bound or ast.dump(names.bound[name] or value) == ast.dump(value)
                names.bound[name] = value if same else None
            case ast.AugAssign(target=ast.Name(id=name)) | ast.For(target=ast.Name(id=name)):
                names.bound[name] = None
            case ast.Import(names=found):
                names.imported |= {(a.asname or a.name).partition(".")[0]: a.name.partition(".")[0] for a in found}
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for inner in ("body", "orelse", "finalbody", "handlers"):
                stack.extend(reversed([c for c in getattr(node, inner, []) if isinstance(c, ast.stmt)]))
                for handler in getattr(node, inner, []):
                    if isinstance(handler, ast.ExceptHandler):
                        stack.extend(reversed(handler.body))
    return names


def text_of(node: ast.expr | None, names: Names, depth: int = 0) -> str | None:
    """Return the text of an expression where it is fixed."""
    value = value_of(node, names, depth) if node is not None else UNKNOWN
    return None if "${" in value else value


def value_of(node: ast.expr | None, names: Names, depth: int = 0) -> str:  # noqa: C901, PLR0911, PLR0912 - one case for each kind
    """Return what an expression stands for, as text with `${…}` for what is open."""
    if depth > _DEPTH:
        return UNKNOWN

    def inner(part: ast.expr | None) -> str:
        return value_of(part, names, depth + 1)

    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Constant(value=value):
            return str(value)
        case ast.Name(id="__file__"):
            return names.file or UNKNOWN
        case ast.Name(id=name):
            found, scope = names.lookup(name)
            if found is not None and found is not node:
                return value_of(found, scope, depth + 1)
            return UNKNOWN
        case ast.JoinedStr(values=parts):
            return "".join(inner(p.value) if isinstance(p, ast.FormattedValue) else inner(p) for p in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return inner(left) + inner(right)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return joined(inner(left), inner(right))
        case ast.Attribute(value=ast.Name(id=name), attr="__file__" | "__path__" as attr) if names.package(name):
            root = f"${{root:{names.package(name)}}}"
            return f"{root}/__init__.py" if attr == "__file__" else root
        case ast.Attribute(value=value, attr="parent"):
            return posixpath.dirname(inner(value)) or "."
        case ast.Attribute(value=value, attr="origin"):
            return f"{inner(value)}/__init__.py"
        case ast.Attribute(value=value, attr="submodule_search_locations"):
            return inner(value)
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id="sys"), attr="argv"), slice=ast.Constant(value=int(at))
        ):
            return names.arguments[at - 1] if 0 < at <= len(names.arguments) else UNKNOWN
        case ast.Subscript(value=ast.Attribute(attr="environ"), slice=ast.Constant(value=str(name))):
            return names.environment.get(name) or f"${{{name}}}"
        case ast.Subscript(value=ast.Attribute(attr="__path__" | "submodule_search_locations") as value):
            return inner(value)
        case ast.Subscript(value=ast.Attribute(value=value, attr="parents"), slice=ast.Constant(value=int(at))) if (
            0 <= at < _DEPTH
        ):
            path = inner(value)
            for _ in range(at + 1):
                path = posixpath.dirname(path)
            return path or "."
        case ast.Call():
            return _called(node, names, depth)
        case _:
            return UNKNOWN


def _called(node: ast.Call, names: Names, depth: int) -> str:  # noqa: PLR0911 - one case for each kind
    name = called_name(node)
    last = name.rpartition(".")[2]
    given = [value_of(a, names, depth + 1) for a in node.args]
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
    if last in _PATHS or name in {"os.path.join", "path.join", "osp.join", "join"}:
        return _join(given)
    if last == "joinpath" and receiver is not None:
        return _join([value_of(receiver, names, depth + 1), *given])
    if last in _SAME:
        return given[0] if given and last != "strip" else value_of(receiver, names, depth + 1)
    if last == "dirname" and given:
        return posixpath.dirname(given[0]) or "."
    if last == "with_name" and receiver is not None and given:
        return joined(posixpath.dirname(value_of(receiver, names, depth + 1)), given[0])
    if name in {"os.environ.get", "os.getenv", "environ.get", "getenv"} and given:
        return names.environment.get(given[0]) or (given[1] if len(given) > 1 else f"${{{given[0]}}}")
    if last in {"find_spec", "import_module", "files"} and given:
        return f"${{root:{given[0].partition('.')[0]}}}"
    if last in {"getsitepackages", "getusersitepackages", "get_path", "get_paths", "get_python_lib"}:
        return "${site}"
    if last in {"cwd", "getcwd"}:
        return "."
    if (
        len(given) == 1
        and re.fullmatch(r"[a-z_]\w*", given[0])
        and re.search(r"root|package|path|dir|locate|find", last)
    ):
        return f"${{root:{given[0]}}}"
    return UNKNOWN


def _join(parts: list[str]) -> str:
    path = parts[0] if parts else "."
    for part in parts[1:]:
        path = (
            joined(path, part) if path.startswith(("/", "${")) or part.startswith("/") else posixpath.join(path, part)
        )
    return path


def called_name(node: ast.Call) -> str:
    """Return the dotted name that a call is written with, as far as it is one."""
    parts: list[str] = []
    found: ast.expr = node.func
    while isinstance(found, ast.Attribute):
        parts.append(found.attr)
        found = found.value
    parts.append(found.id if isinstance(found, ast.Name) else "")
    return ".".join(reversed(parts))


def argument(node: ast.Call, at: int, *names: str) -> ast.expr | None:
    """Return the argument at a place, or by one of its names."""
    if at < len(node.args):
        return node.args[at]
    return next((keyword.value for keyword in node.keywords if keyword.arg in names), None)
