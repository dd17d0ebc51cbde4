"""What edits do to real files: each file of some folders through a pipeline that leaves it alone, and an edit.

    python benchmarks/round_trip.py [DIR…] [--edits 4] [--every 20] [--seed 1]

Without a folder it takes this Python's standard library, its tests included and `site-packages` not. For each file it
tells

- identical: it comes out of a run whose only stage works elsewhere byte for byte as it went in;
- edits of statements chosen by chance: replaced, deleted, one inserted before or after. Edited: the lines around the
  statement are byte for byte those of before, and the syntax tree differs in that statement alone. Refused: by a
  diagnostic. Damaged: anything else, which is a fault of the program;
- for one file in `--every`, a transform through libcst that appends a statement: edited, refused or damaged.

Exit code 1 where something is damaged or not identical.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import sys
import sysconfig
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from orchestrator.cli.steps import deeply
from orchestrator.code.edits import Delete, Edit, Insert, Replace, Transform
from orchestrator.code.patterns import compile_pattern
from orchestrator.code.rewrite import apply, examine
from orchestrator.code.sites import Pending
from orchestrator.code.source import Source
from orchestrator.code.template import compile_template
from orchestrator.code.transforms import run_transform
from orchestrator.core.diagnostics import Rejected
from orchestrator.core.tree import Tree
from orchestrator.engine.load import load
from orchestrator.engine.plan import make_plan
from orchestrator.engine.run import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import libcst

KINDS: tuple[Literal["replace", "delete", "before", "after"], ...] = ("replace", "delete", "before", "after")
MARKER = "_marker_(1)"
PIPELINE = b"""\
version: 1
name: elsewhere
target: target.yaml
stages:
  - id: elsewhere
    kind: codemod
    summary: Put one file beside all others.
    deploy: [{source: new.py, to: root/_elsewhere_.py}]
    waive: [{rule: E506, because: nothing is to import it}]
"""
TARGET = b"""\
version: 1
name: box
image: {reference: example.org/box:1, python: "3.11", interpreter: /usr/bin/python3}
base: {supplied: Give it.}
roots: {root: [/opt/root]}
"""


def passed_through(files: dict[str, bytes]) -> Tree:
    """Return the tree that a run makes of these files (`root/...`) whose only stage works on none of them."""
    inputs = {"target.yaml": TARGET, "new.py": b"X = 1\n"}
    plan = make_plan(load("pipeline.yaml", PIPELINE, inputs.__getitem__), inputs.__getitem__)
    return deeply(lambda: run(plan, Tree(files))).tree


def edited(path: str, raw: bytes, chance: random.Random, edits: int) -> Iterator[tuple[str, str]]:
    """Yield kind and outcome of edits of statements of a file: `edited`, a code, or `damaged`."""
    source = Source(path, raw)
    try:
        every = [node for node in ast.walk(source.tree) if isinstance(node, ast.stmt)]
    except Rejected as error:
        yield "read", error.diagnostics[0].code
        return
    for node in chance.sample(every, min(edits, len(every))):
        kind = chance.choice(KINDS)
        try:
            yield kind, _outcome(kind, node, source)
        except Rejected as error:
            yield kind, error.diagnostics[0].code


def _outcome(kind: Literal["replace", "delete", "before", "after"], node: ast.stmt, source: Source) -> str:
    pattern = compile_pattern(ast.unparse(node).replace("${", "$${"), {})
    new = compile_template(MARKER, {})
    edit: Edit
    match kind:
        case "replace":
            edit = Replace(pattern, new, 1)
        case "delete":
            edit = Delete(pattern, 1)
        case _:
            edit = Insert(kind, pattern, new)
    state = examine(edit, source, None)
    if not isinstance(state, Pending):
        return "damaged"
    after = apply(edit, source, None, state).source.raw
    return "edited" if is_sound(kind, node, source.raw, after) else "damaged"


def is_sound(kind: str, node: ast.stmt, before: bytes, after: bytes) -> bool:
    """Tell whether `after` is `before` with one statement replaced, deleted or put beside `node`, and nothing else.

    It is judged from the bytes and the syntax tree alone, by nothing that the edit used.
    """
    mark, raw = b"\xef\xbb\xbf", (before, after)
    if before.startswith(mark) != after.startswith(mark):
        return False
    before, after = before.removeprefix(mark), after.removeprefix(mark)
    if kind in {"before", "after"} and not _one_line_more(before, after):
        return False
    lines = _lines(before)
    decorators = getattr(node, "decorator_list", [])
    start = min([node.lineno, *(each.lineno for each in decorators)])
    head, tail = b"".join(lines[: start - 1]), b"".join(lines[node.end_lineno or start :])
    around = after.startswith(head) and after.endswith(tail) and len(after) >= len(head) + len(tail)
    middle = after[len(head) : len(after) - len(tail)]
    around &= not middle or not tail or middle.endswith((b"\n", b"\r"))  # else it took a blank line of the tail with it
    if kind in {"replace", "delete"} and not around:
        return False
    old, new = _parsed(raw[0]), _parsed(raw[1])
    marker = ast.dump(ast.parse(MARKER).body[0])
    found = [(body, at) for body in _bodies(new) for at, statement in enumerate(body) if ast.dump(statement) == marker]
    if kind == "delete":
        return not found and _without(old, node, new)
    if len(found) != 1:
        return False
    body, at = found[0]
    if kind == "replace":
        body[at] = node
    else:
        del body[at]
    return ast.dump(old) == ast.dump(new)


def _one_line_more(before: bytes, after: bytes) -> bool:
    """Tell whether `after` is `before` with one line for the marker; a last line without end may have got one."""
    kept = [line for line in _lines(after) if line.strip() != MARKER.encode()]
    return b"".join(kept).rstrip(b"\r\n") == before.rstrip(b"\r\n") and len(_lines(after)) == len(_lines(before)) + 1


def _without(old: ast.Module, node: ast.stmt, new: ast.Module) -> bool:
    """Tell whether a tree is another one without the statement that stands where `node` does."""
    for body in _bodies(old):
        for at, statement in enumerate(body):
            if (statement.lineno, statement.col_offset) == (node.lineno, node.col_offset):
                del body[at]
                if ast.dump(old) == ast.dump(new):
                    return True
                body.insert(at, ast.Pass())  # the only statement of a block leaves `pass`
                return ast.dump(old) == ast.dump(new)
    return False


def _bodies(tree: ast.Module) -> list[list[ast.stmt]]:
    found = []
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                found.append(value)
    return found


def _lines(raw: bytes) -> list[bytes]:
    """Return lines as Python counts them: a lone carriage return ends one, a form feed does not."""
    text = io.StringIO(raw.decode("latin-1"), newline="")
    return [line.encode("latin-1") for line in text]


def _parsed(raw: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(raw)


class _Nothing(BaseModel):
    """No parameters."""


def _appended(module: libcst.Module, _params: _Nothing) -> libcst.Module:
    import libcst  # noqa: PLC0415 - slow to import, and only one file in many needs it

    if module.code.rstrip().endswith(MARKER):
        return module
    return module.with_changes(body=[*module.body, libcst.parse_statement(MARKER)])


def transformed(path: str, raw: bytes) -> str:
    """Return how a transform that appends a statement ends: `edited`, a code, or `damaged`."""
    source = Source(path, raw)
    try:
        result = run_transform(Transform("append", _appended, _Nothing()), source, "append.py")
    except Rejected as error:
        return error.diagnostics[0].code
    if result is None:
        return "damaged"
    after = result.source.raw
    rest = after[len(raw) :].strip()
    return "edited" if after.startswith(raw.rstrip()) and rest.endswith(MARKER.encode()) else "damaged"


class Table:
    """What came of the files of one folder."""

    def __init__(self) -> None:
        self.files = self.identical = 0
        self.edits: Counter[str] = Counter()
        self.transforms: Counter[str] = Counter()
        self.bad: list[str] = []

    def add(self, path: str, outcomes: Iterable[tuple[str, str]]) -> None:
        """Count the edits of one file."""
        for kind, outcome in outcomes:
            self.edits[outcome] += 1
            if outcome == "damaged":
                self.bad.append(f"{path}: {kind}")


def looked_at(folder: Path, edits: int, every: int, seed: int) -> Table:
    """Return what comes of all Python files below a folder."""
    table = Table()
    found = sorted(path for path in folder.rglob("*.py") if path.is_file())
    paths = [path for path in found if "site-packages" not in path.relative_to(folder).parts]
    files = {f"root/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in paths}
    table.files = len(files)
    tree = passed_through(files)
    table.identical = sum(tree.get(path) == raw for path, raw in files.items())
    table.bad += [f"{path}: not identical" for path, raw in files.items() if tree.get(path) != raw]
    for number, (path, raw) in enumerate(files.items()):
        chance = random.Random(f"{seed} {path}")  # noqa: S311 - a choice of samples
        table.add(path, deeply(lambda: list(edited(path, raw, chance, edits))))  # noqa: B023 - called at once
        if number % every == seed % every:
            outcome = deeply(lambda: transformed(path, raw))  # noqa: B023 - called at once
            table.transforms[outcome] += 1
            table.bad += [f"{path}: transform"] if outcome == "damaged" else []
    return table


def main() -> int:
    """Print a table for each folder; 1 where something is damaged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[Path(sysconfig.get_path("stdlib"))], metavar="DIR")
    parser.add_argument("--edits", type=int, default=4, help="edits of each file")
    parser.add_argument("--every", type=int, default=20, help="one file in so many goes through libcst, too")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bad: list[str] = []
    for folder in options.folders:
        start = time.process_time()
        table = looked_at(folder, options.edits, options.every, options.seed)
        print(f"{folder}: {table.files} files, {table.identical} identical, {time.process_time() - start:.0f} s")
        for name, counted in (("edits", table.edits), ("transforms", table.transforms)):
            shown = ", ".join(f"{outcome} {number}" for outcome, number in sorted(counted.items(), key=str))
            print(f"  {name}: {sum(counted.values())}: {shown}; damaged {counted['damaged']}")
        print("".join(f"  {line}\n" for line in table.bad), end="", flush=True)
        bad += table.bad
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
