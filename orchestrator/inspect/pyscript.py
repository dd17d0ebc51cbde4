"""What a Python script would do to an image: what it writes, copies, installs and fetches, and what it hides."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place, Severity
from orchestrator.inspect.paths import joined
from orchestrator.inspect.pycalls import is_write_mode, positional, word_of, written
from orchestrator.inspect.pyflow import Flow, FunctionNode, walk_scope
from orchestrator.inspect.pyguards import Guards
from orchestrator.inspect.pyhidden import PROGRAMS, STARTERS, hidden_failures, typed_counts
from orchestrator.inspect.pymarkers import signs
from orchestrator.inspect.pynames import plainly_named
from orchestrator.inspect.pyvalues import Names, argument, called_name, names_of, text_of, value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orchestrator.inspect.text import Chunk

_ENTRY = re.compile(r"""["'](\w+)["']\s*:\s*\(\s*["']([\w.]+)["']\s*,\s*["'](\w+)["']\s*,?\s*\)""")
_NETWORK = re.compile(
    r"(?:urllib\.request\.|request\.)?(?:urlopen|urlretrieve)|(?:requests|httpx)\.(?:get|post|request|stream)"
    r"|(?:\w+\.)?(?:snapshot_download|hf_hub_download|load_dataset)"
)
_COPIES = frozenset({"copy", "copy2", "copyfile", "copytree", "move"})


@dataclass
class Facts:
    """What one script does. Paths may hold `${…}`; those that begin with `.` or a name are relative."""

    writes: list[tuple[str, Place]] = field(default_factory=list)
    copies: list[tuple[str, str, Place, bool]] = field(default_factory=list)
    commands: list[tuple[list[str], Place]] = field(default_factory=list)
    fetches: list[tuple[str, Place]] = field(default_factory=list)
    entries: list[tuple[str, str, str, Place]] = field(default_factory=list)
    markers: list[tuple[str, str, Place]] = field(default_factory=list)
    anchors: list[tuple[str, str, Place]] = field(default_factory=list)
    present: list[tuple[str, Place]] = field(default_factory=list)
    faults: list[Diagnostic] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)
    reads: list[tuple[str, Place]] = field(default_factory=list)
    verifies: bool = False
    writers: Mapping[str, int] = field(default_factory=dict)

    @property
    def acts(self) -> bool:
        """Whether the script changes anything."""
        return bool(self.writes or self.copies or self.commands or self.writers)


def parsed(text: str) -> ast.Module | None:
    """Return the tree of a Python text, or None where this Python cannot read it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def study(
    chunk: Chunk,
    start: Names,
    sibling: Callable[[str], Facts | None],
) -> Facts:
    """Return the facts of a script; `sibling` brings those of a module beside it."""
    tree = parsed(chunk.text)
    facts = Facts()
    if tree is None:
        return facts
    try:
        _Study(chunk, plainly_named(tree), start, sibling, facts).run()
    except RecursionError:
        place = Place(chunk.file)
        facts.faults.append(Diagnostic("E820", "the code is nested too deeply", place, help="Split the expression."))
    return facts


class _Study:
    def __init__(
        self, chunk: Chunk, tree: ast.Module, start: Names, sibling: Callable[[str], Facts | None], facts: Facts
    ) -> None:
        self.chunk, self.tree, self.facts, self.sibling = chunk, tree, facts, sibling
        self.flow = Flow(tree)
        self.lines = chunk.text.split("\n")
        self.top = names_of(tree.body, start)
        self.writers: dict[str, int] = {}
        self.borrowed: dict[str, int] = {}
        self.folder = ""

    def place(self, node: ast.AST) -> Place:
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        before = sum(len(text.encode()) + 1 for text in self.lines[: line - 1])
        end = getattr(node, "end_col_offset", column + 1) if getattr(node, "end_lineno", line) == line else column + 1
        return self.chunk.place(before + column, max(1, end - column))

    def run(self) -> None:
        self._imports()
        scopes: list[tuple[FunctionNode | None, list[ast.stmt], Names]] = [(None, self.tree.body, self.top)]
        functions = [n for n in ast.walk(self.tree) if isinstance(n, FunctionNode)]
        scopes += [(function, function.body, names_of(function.body, self.top)) for function in functions]
        lambdas = [n for n in ast.walk(self.tree) if isinstance(n, ast.Lambda)]
        scopes += [(None, [ast.copy_location(ast.Expr(found.body), found)], self.top) for found in lambdas]
        for found in functions:
            self._find_writers(found, found.body)
        for _, body, names in scopes:
            for node in walk_scope(body):
                if isinstance(node, ast.Call):
                    self._call(node, names)
        self.facts.writers = self.writers
        self.facts.verifies = "hashlib" in self.facts.imports and self.flow.raises(ast.walk(self.tree))
        self._entries()
        self._markers(scopes)
        self._faults()

    def _imports(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                self.facts.imports |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                self.facts.imports.add(node.module)
                other = self.sibling(node.module)
                if other is not None:
                    for alias in node.names:
                        if alias.name in other.writers:
                            self.borrowed[alias.asname or alias.name] = other.writers[alias.name]

    def _find_writers(self, function: FunctionNode, body: list[ast.stmt]) -> None:
        """Find the functions that write to a path they are given: calls of them are writes."""
        parameters = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        for node in walk_scope(body):
            target = written(node) if isinstance(node, ast.Call) else None
            while isinstance(target, ast.Call) and target.args:  # `Path(path)`
                target = target.args[0]
            if isinstance(target, ast.Name) and target.id in parameters:
                self.writers[function.name] = parameters.index(target.id)

    def _call(self, node: ast.Call, names: Names) -> None:
        name = called_name(node)
        last = name.rpartition(".")[2]
        place = self.place(node)
        if name in {"os.chdir", "contextlib.chdir"} and node.args:
            self.folder = joined(self.folder or ".", value_of(node.args[0], names))
        target = written(node)
        if target is not None:
            self.facts.writes.append((self.path(target, names), place))
        known = self.writers.get(name, self.borrowed.get(name))
        if known is not None and (given := positional(node, known, self.flow.functions.get(name))) is not None:
            self.facts.writes.append((self.path(given, names), place))
        if name.startswith("shutil.") and last in _COPIES and len(node.args) > 1:
            self.facts.copies.append(
                (self.path(node.args[0], names), self.path(node.args[1], names), place, last == "copytree")
            )
        elif name in {"os.replace", "os.rename"} and len(node.args) > 1:
            self.facts.writes.append((self.path(node.args[1], names), place))
        elif name.startswith(PROGRAMS) or name in STARTERS:
            self._command(node, names, place)
        elif name in {"runpy.run_path", "runpy.run_module"} and node.args:
            module = ["-m"] if last == "run_module" else []
            self.facts.commands.append((["python3", *module, value_of(node.args[0], names)], place))
        elif _NETWORK.fullmatch(name):
            self.facts.fetches.append((f"{name}()", place))
        elif last in {"read_text", "open"} and not is_write_mode(node):
            path = (
                node.func.value
                if isinstance(node.func, ast.Attribute) and last == "read_text"
                else argument(node, 0, "file")
            )
            if path is not None and text_of(path, names):
                self.facts.reads.append((self.path(path, names), place))

    def path(self, node: ast.expr, names: Names) -> str:
        """Return a path; one that is relative is so to the folder that the script has gone to."""
        value = value_of(node, names)
        return joined(self.folder, value) if self.folder and not value.startswith(("/", "$")) else value

    def _command(self, node: ast.Call, names: Names, place: Place) -> None:
        match argument(node, 0, "args"):
            case ast.List(elts=elts) | ast.Tuple(elts=elts):
                words = [word_of(e, names) for e in elts]
            case ast.Attribute(value=ast.Name(id="os")):  # `os.spawnlp(os.P_WAIT, "cp", "cp", …)`
                words = [word_of(e, names) for e in node.args[2:]]
            case _ if called_name(node).endswith("_exec"):
                words = [word_of(e, names) for e in node.args]
            case ast.expr() as given if text := text_of(given, names):
                words = text.split()
            case _:
                words = []
        if words:
            self.facts.commands.append((words, place))

    def _entries(self) -> None:
        """Find the entries of a table of classes that new text adds and no text that is looked for has."""
        replaced = self._texts_looked_for()
        old = {match[2] for text in replaced for match in _ENTRY.finditer(text)}
        docs = {id(n.value) for n in ast.walk(self.tree) if isinstance(n, ast.Expr)}
        for node in ast.walk(self.tree):
            match node:
                case ast.Constant(value=str(text)) if id(node) not in docs and text not in replaced:
                    for found in _ENTRY.finditer(text):
                        if found[2] not in old:
                            self.facts.entries.append((found[1], found[2], found[3], self.place(node)))
                case ast.Assign(
                    targets=[ast.Subscript(slice=ast.Constant(value=str(name)))],
                    value=ast.Tuple(elts=[ast.Constant(value=str(module)), ast.Constant(value=str(cls))]),
                ):
                    self.facts.entries.append((name, module, cls, self.place(node)))

    def _texts_looked_for(self) -> set[str]:
        found = set()
        for node in ast.walk(self.tree):
            match node:
                case ast.Call(func=ast.Attribute(attr="replace" | "count" | "find" | "index"), args=[first, *_]):
                    found.add(value_of(first, self.top))
                case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()]):
                    found.add(value_of(left, self.top))
                case ast.Call(args=[_, first, _, *_]):  # a helper: (file, old, new)
                    found.add(value_of(first, self.top))
        return found

    def _markers(self, scopes: list[tuple[FunctionNode | None, list[ast.stmt], Names]]) -> None:
        """Find texts whose presence is taken for "already applied", with the text that is replaced beside them."""
        for _, body, names in scopes:
            anchors = [
                (text, node)
                for node in walk_scope(body)
                if isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "replace"
                and len(node.args) > 1
                and (text := text_of(node.args[0], names))
            ]
            paths = [
                value_of(t, names)
                for n in walk_scope(body)
                if isinstance(n, ast.Call) and (t := written(n)) is not None
            ]
            path = paths[0] if len(set(paths)) == 1 else ""
            self.facts.anchors += [(text, path, self.place(found)) for text, found in anchors]
            for sign in signs(body, names, self.flow):
                if sign.is_path:
                    self.facts.present.append((sign.text, self.place(sign.node)))
                elif sign.text not in {a for a, _ in anchors}:
                    self.facts.markers.append((sign.text, path, self.place(sign.node)))
                    if any(sign.text in anchor for anchor, _ in anchors):
                        self._marker_in_anchor(sign.text, sign.node)

    def _marker_in_anchor(self, text: str, node: ast.expr) -> None:
        message = f"{text[:60]!r} is taken for a sign that the patch is in, but it is part of the text to be replaced"
        help_ = "The patch can never apply: ask for text that only the patched file has, or compare digests."
        self.facts.faults.append(Diagnostic("E832", message, self.place(node), help=help_))

    def _faults(self) -> None:
        if not (self.facts.acts or self.facts.entries):
            return
        for fault in Guards(self.tree, self.flow).found():
            if fault.only_talks:
                message = f"{fault.how}: where the text is not found, the script says so at most and goes on"
            else:
                message = f"{fault.how} leaves the file as it is where the text is not found, and nobody notices"
            help_ = "Count the matches before, and raise where the number is not the expected one."
            self.facts.faults.append(Diagnostic("E830", message, self.place(fault.node), help=help_))
        for node, message, help_ in hidden_failures(self.tree, self.flow):
            self.facts.faults.append(Diagnostic("E802", message, self.place(node), help=help_))
        for node, message in typed_counts(self.tree):
            self.facts.faults.append(typed_count(message, self.place(node)))


def typed_count(message: str, place: Place) -> Diagnostic:
    """Return the warning about a number of files that somebody typed."""
    help_ = "Compare names and digests with a list that a program wrote; a number says not which one is missing."
    return Diagnostic("W815", message, place, help=help_, severity=Severity.WARNING)
