"""What a large pipeline costs: `plan` over a package with 250, 500 and 1,000 generated stages, a process for each.

    python benchmarks/many_stages.py vllm=DIR [--stages 250 500 1000] [--limit-mib 500] [--limit-ratio 1.25]

The stages are of every kind: constants assigned, returns replaced, statements inserted, modules deployed and imported;
several in one file, and chains of them on one definition, each with its own post-check. Printed are processor seconds,
seconds a stage, and the peak of resident memory. Exit code 1 where the memory is above its limit, or a stage costs more
in the largest pipeline than in the smallest by more than the ratio.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.code.source import Source
from orchestrator.core.diagnostics import ExitCode, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[1]
CHAIN = 4
"""Stages on one definition, each on the result of the one before."""
COMMAND = [sys.executable, "-c", "from orchestrator.cli.app import main; main()"]
TARGET = """\
version: 1
name: many
image: {reference: example.org/box:1, python: "3.11", interpreter: /usr/bin/python3}
base: {supplied: Give a tree.}
roots: {%s: [/opt/lib/%s]}
packages: {%s}
"""


@dataclass(frozen=True)
class Stage:
    """One generated stage: its kind, its YAML, what it deploys."""

    name: str
    text: str
    deploys: str = ""


def stage(name: str, lines: Sequence[str], deploys: str = "") -> Stage:
    """Return a stage with these lines of YAML."""
    head = [f"  - id: {name}", "    kind: codemod", "    summary: One of many."]
    return Stage(name, "\n".join([*head, *lines, ""]), deploys)


def quoted(text: str) -> str:
    """Return a text as a scalar of YAML."""
    return json.dumps(text.replace("${", "$${"))


def assigned(path: str, tree: ast.Module) -> Iterator[Stage]:
    """Yield a stage for each number or text that a module binds once."""
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int() | str() as value)) if (
                names.count(name) == 1 and not isinstance(value, bool) and name != "__version__"
            ):
                new = repr(value + 1 if isinstance(value, int) else f"{value} ")
                where = f"file: {path}, name: {name}, value: {quoted(new)}"
                lines = ["    edits:", f"      - {{op: assign, {where}}}"]
                lines += ["    post:", f"      - {{check: assignment_equals, {where}}}"]
                yield stage("assign", lines)


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield functions and methods of a module under names that stand once."""
    found = [(node.name, node) for node in tree.body if isinstance(node, ast.FunctionDef)]
    for outer in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        found += [(f"{outer.name}.{node.name}", node) for node in outer.body if isinstance(node, ast.FunctionDef)]
    names = [name for name, _ in found]
    yield from ((name, node) for name, node in found if names.count(name) == 1)


def replaced(path: str, within: str, node: ast.FunctionDef) -> Iterator[Stage]:
    """Yield a stage that puts a call around what a function returns, if it returns once."""
    returns = [each for each in ast.walk(node) if isinstance(each, ast.Return) and each.value]
    simple = (ast.Name, ast.Attribute, ast.BinOp, ast.Compare, ast.Call)
    if len(returns) == 1 and isinstance(returns[0].value, simple) and not node.decorator_list:
        old = ast.unparse(returns[0])
        if len(old) < 100 and "'" not in old:  # noqa: PLR2004 - a line
            new = f"return (lambda: {ast.unparse(returns[0].value)})()"
            where = f"file: {path}, within: {within}"
            edit = f"      - {{op: replace, {where}, match: {quoted(old)}, with: {quoted(new)}}}"
            check = f"      - {{check: match_count, {where}, pattern: {quoted(new)}, equals: 1}}"
            yield stage("replace", ["    edits:", edit, "    post:", check])


def inserted(path: str, within: str, number: int) -> Stage:
    """Return a stage that puts a statement at the start of a function."""
    code = quoted(f'assert __name__ != "many-{number}"')
    where = f"file: {path}, within: {within}"
    edit = f"      - {{op: insert, {where}, at: start, code: {code}}}"
    check = f"      - {{check: match_count, {where}, pattern: {code}, equals: 1}}"
    return stage("insert", ["    edits:", edit, "    post:", check])


def deployed(package: str, path: str, within: str, number: int) -> Stage:
    """Return a stage that deploys a module and lets a function call it."""
    name = f"many_{number}"
    edit = f"      - {{op: import, file: {path}, code: from {package} import {name} as _{name}}}"
    code = quoted(f"_{name}.ready()")
    where = f"file: {path}, within: {within}"
    lines = ["    deploy:", f"      - {{source: modules/{name}.py, to: {package}/{name}.py}}", "    edits:", edit]
    lines += [f"      - {{op: insert, {where}, at: start, code: {code}}}", "    post:"]
    lines += [f"      - {{check: match_count, {where}, pattern: {code}, equals: 1}}"]
    return stage("deploy", lines, deploys=f"modules/{name}.py")


def candidates(package: str, folder: Path) -> Iterator[list[Stage]]:
    """Yield groups of stages that belong together, file by file, of every kind."""
    numbers = itertools.count()
    for file in sorted(folder.rglob("*.py")):
        path = f"{package}/{file.relative_to(folder).as_posix()}"
        try:
            tree = Source(path, file.read_bytes()).tree
        except Rejected:
            continue
        if file.name == "__init__.py":
            continue
        yield from ([one] for one in assigned(path, tree))
        for at, (name, node) in enumerate(functions(tree)):
            number = next(numbers)
            match number % 5:
                case 0:
                    yield [inserted(path, name, number)]
                case 1 if at == 1:
                    yield [inserted(path, name, number * 10 + link) for link in range(CHAIN)]
                case 2 if at == 2:  # noqa: PLR2004 - the third function of a file
                    yield [deployed(package, path, name, number)]
                case _:
                    yield list(replaced(path, name, node))


def interleaved(groups: Sequence[list[Stage]], most: int) -> list[list[Stage]]:
    """Return groups of all kinds in turn, as many as hold `most` stages."""
    kinds: dict[str, list[list[Stage]]] = {}
    for group in groups:
        if group:
            kinds.setdefault(f"{group[0].name}{len(group)}", []).append(group)
    chosen: list[list[Stage]] = []
    for row in itertools.zip_longest(*kinds.values()):
        for group in row:
            if group is not None and sum(map(len, chosen)) < most:
                chosen.append(group)
    return chosen


def pipeline(groups: Sequence[list[Stage]], most: int) -> tuple[str, list[str]]:
    """Return the YAML of `most` stages, each under a name of its own, and the modules that they deploy."""
    lines = ["version: 1", "name: many", "target: target.yaml", "stages:"]
    modules: list[str] = []
    count = 0
    for number, group in enumerate(groups):
        before = ""
        for link, each in enumerate(group):
            if count == most:
                return "\n".join(lines), modules
            name = f"s{number}-{link}-{each.name}"
            text = each.text.replace(f"id: {each.name}", f"id: {name}", 1)
            lines.append(text.replace("    edits:", f"    needs: [{before}]\n    edits:", 1) if before else text)
            modules += [each.deploys] if each.deploys else []
            before = name
            count += 1
    return "\n".join(lines), modules


def written(folder: Path, package: str, text: str, modules: Sequence[str], outside: Sequence[str]) -> Path:
    """Write a workspace and return its folder."""
    (folder / "modules").mkdir(parents=True, exist_ok=True)
    for module in modules:
        (folder / module).write_text('"""One of many."""\n\n\ndef ready():\n    return None\n')
    packages = ", ".join(f'{name}: ""' for name in outside)
    (folder / "target.yaml").write_text(TARGET % (package, package, packages))
    (folder / "pipeline.yaml").write_text(text)
    return folder


def planned(folder: Path, tree: str) -> tuple[list[dict[str, object]], float, float]:
    """Return the records of `plan`, its processor seconds and the peak of its resident memory in MiB."""
    command = [*COMMAND, "plan", "-C", str(folder), "--tree", tree, "--json"]
    with subprocess.Popen(  # noqa: S603 - this program on a workspace made here
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as child:
        assert child.stdout is not None
        lines = child.stdout.read().splitlines()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode in {ExitCode.OK, ExitCode.NOT_APPLIED, ExitCode.CHECK_FAILED}, (
        f"plan ended with {child.returncode}"
    )
    return [json.loads(line) for line in lines], usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def imported(folder: Path, package: str) -> list[str]:
    """Return the packages that the tree imports from elsewhere: the target says that the image has them."""
    found: set[str] = set()
    for file in folder.rglob("*.py"):
        try:
            tree = Source(str(file), file.read_bytes()).tree
        except Rejected:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module.partition(".")[0])
    return sorted(found - {package} - sys.stdlib_module_names)


def sound(groups: Sequence[list[Stage]], tree: str, package: str, outside: Sequence[str]) -> list[list[Stage]]:
    """Return the groups of which no stage is refused: whatever the house rules say of generated code is right."""
    kept = list(groups)
    for _ in range(6):
        text, modules = pipeline(kept, sum(map(len, kept)))
        with tempfile.TemporaryDirectory() as folder:
            records, _, _ = planned(written(Path(folder), package, text, modules, outside), tree)
        bad = {
            int(str(record["stage"]).partition("-")[0][1:])
            for record in records
            if record["event"] == "diagnostic" and record["severity"] == "error" and record.get("stage")
        }
        if not bad:
            break
        kept = [group for number, group in enumerate(kept) if number not in bad]
    return kept


def main() -> int:
    """Print the table; 1 where a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", metavar="ROOT=DIR")
    parser.add_argument("--stages", type=int, nargs="+", default=[250, 500, 1000])
    parser.add_argument("--limit-mib", type=float, default=500)
    parser.add_argument("--limit-ratio", type=float, default=1.25)
    parser.add_argument("--keep", type=Path, help="write the largest workspace there, too")
    options = parser.parse_args()
    package, _, place = options.tree.partition("=")
    folder = Path(place)
    outside = imported(folder, package)
    most = max(options.stages)
    groups = sound(interleaved(list(candidates(package, folder)), most + most // 5), options.tree, package, outside)
    print("stages   files   seconds   ms a stage   peak MiB   outcomes")
    costs, peaks = [], []
    for number in sorted(options.stages):
        text, modules = pipeline(groups, number)
        with tempfile.TemporaryDirectory() as scratch:
            where = written(
                options.keep if options.keep and number == most else Path(scratch), package, text, modules, outside
            )
            records, seconds, peak = planned(where, options.tree)
        stages = [record for record in records if record["event"] == "stage"]
        outcomes = {str(record["outcome"]): 0 for record in stages}
        for record in stages:
            outcomes[str(record["outcome"])] += 1
        files = len({line.split("file: ")[1].split(",")[0] for line in text.splitlines() if "{op:" in line})
        print(
            f"{len(stages):6}   {files:5}   {seconds:7.1f}   {seconds / number * 1e3:10.1f}   {peak:8.0f}   {outcomes}"
        )
        costs.append(seconds / number)
        peaks.append(peak)
        assert len(stages) == number, f"only {len(stages)} stages could be generated"
    ratio = costs[-1] / costs[0]
    print(f"a stage costs {ratio:.2f} times as much in the largest pipeline as in the smallest")
    return int(max(peaks) > options.limit_mib or ratio > options.limit_ratio)


if __name__ == "__main__":
    raise SystemExit(main())
