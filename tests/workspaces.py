"""Throw-away workspaces and the command line on them, in this process or in one of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.cli.app import run_app
from orchestrator.core.tree import Tree
from orchestrator.engine.load import Choice, load
from orchestrator.engine.plan import Plan, make_plan
from orchestrator.origin.workspace import WorkspaceFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[1]

HEAD = """\
version: 1
name: demo
target: target.yaml
params: {limit: 8, word: text}
stages:
"""
"""Five lines: the stages of `Workspace.stages` start in line 6."""

TARGET = """\
version: 1
name: box
image: {reference: example.org/box:1, python: "3.11", interpreter: /usr/bin/python3}
base: {supplied: Copy it out of the image.}
roots: {pkg: [/opt/lib/pkg]}
packages: {numpy: ""}
mounts: [/model]
device: {warps: 64, cores: {status: unknown, source: nobody has looked}}
model: {head_dim: 256}
"""

CODE = '''\
"""A module."""

LIMIT = 4


def first(x):
    y = x + LIMIT
    return y


def second(x):
    raise NotImplementedError()
'''

LIMIT_STAGE = """\
  - id: limit
    kind: codemod
    summary: Raise the limit.
    edits:
      - {op: assign, file: pkg/a.py, name: LIMIT, value: "${params.limit}"}
    post:
      - {check: assignment_equals, file: pkg/a.py, name: LIMIT, value: "${params.limit}"}
"""

TEMPLATES = {
    name: (ROOT / "templates" / name).read_text(encoding="utf-8") for name in ("Dockerfile.j2", "dockerignore.j2")
}


class Ended(NamedTuple):
    """How a command line ended."""

    code: int
    out: str
    err: str

    def records(self) -> list[dict[str, Any]]:
        """Return the JSON lines on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]


def run_cli(*arguments: str, cwd: Path, stdin: bytes = b"") -> Ended:
    """Run a command line in this process, its streams caught, in the folder `cwd`."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    given = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    before = sys.stdin
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            sys.stdin = given
            code = run_app(list(arguments))
        finally:
            sys.stdin = before
    shown = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return Ended(code, *shown)


def command(*arguments: str) -> list[str]:
    """Return the command line for a process of its own."""
    return [sys.executable, "-c", "from orchestrator.cli.app import main; main()", *arguments]


def interruptible(*arguments: str) -> list[str]:
    """Return the same for a process that hears an interrupt and a hang-up.

    What a shell starts in the background is deaf to the first, and what `nohup` starts to the second.
    """
    python, option, program, *rest = command(*arguments)
    deaf_no_more = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    deaf_no_more += "; signal.signal(signal.SIGHUP, signal.SIG_DFL)"
    return [python, option, f"{deaf_no_more}; {program}", *rest]


def spawn_cli(*arguments: str, cwd: Path, environment: Mapping[str, str] | None = None) -> Ended:
    """Run a command line in a process of its own."""
    child = subprocess.run(
        command(*arguments),
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        capture_output=True,
        timeout=120,
        check=False,
    )
    return Ended(child.returncode, child.stdout.decode(), child.stderr.decode())


@dataclass
class Workspace:
    """A folder with a pipeline, and a package folder beside it to run it on."""

    folder: Path
    package: Path
    files: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def at(cls, folder: Path, stages: str = LIMIT_STAGE, head: str = HEAD) -> Workspace:
        """Make a workspace below `folder` that validates and renders, with these stages."""
        made = cls(folder / "workspace", folder / "tree" / "pkg")
        made.write("target.yaml", TARGET)
        for name, text in TEMPLATES.items():
            made.write(f"templates/{name}", text)
        made.pipeline(stages, head)
        made.base({"__init__.py": "", "a.py": CODE})
        return made

    def write(self, path: str, content: str | bytes) -> Path:
        """Write a file of the workspace."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def pipeline(self, stages: str, head: str = HEAD) -> None:
        """Write the pipeline: the head, then the stages."""
        self.write("pipeline.yaml", f"{head}{stages}")

    def base(self, files: Mapping[str, str | bytes]) -> None:
        """Write files of the package."""
        for path, content in files.items():
            target = self.package / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)

    def tree(self) -> Tree:
        """Return the package as a tree."""
        files = sorted(path for path in self.package.rglob("*") if path.is_file())
        return Tree({f"pkg/{path.relative_to(self.package).as_posix()}": path.read_bytes() for path in files})

    def plan(self, **settings: str) -> Plan:
        """Return the plan of the pipeline."""
        reader = WorkspaceFiles(self.folder.resolve())
        loaded = load("pipeline.yaml", reader.read("pipeline.yaml"), reader.read, Choice(settings=settings))
        return make_plan(loaded, reader.read)

    def run(self, name: str, *arguments: str) -> Ended:
        """Run a command on the workspace in this process; all but `validate` on the package folder."""
        return run_cli(*self._arguments(name, arguments), cwd=self.folder)

    def spawn(self, name: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Ended:
        """Run a command on the workspace in a process of its own."""
        return spawn_cli(*self._arguments(name, arguments), cwd=self.folder, environment=environment)

    def _arguments(self, name: str, arguments: tuple[str, ...]) -> list[str]:
        needs_tree = name in {"plan", "diff", "render", "verify", "lock"} and "--tree" not in arguments
        tree = ["--tree", f"pkg={self.package}"] if needs_tree else []
        return [name, *tree, *arguments]

    def built(self, folder: str = "build") -> dict[str, bytes]:
        """Return what `render` wrote: path → bytes."""
        top = self.folder / folder
        return {p.relative_to(top).as_posix(): p.read_bytes() for p in sorted(top.rglob("*")) if p.is_file()}


def faults(ended: Ended) -> list[str]:
    """Return the errors of a command that ran with `--json`: `CODE FILE:LINE:COLUMN MESSAGE | HELP` each."""
    found = []
    for record in ended.records():
        if record["event"] != "diagnostic" or record["severity"] != "error":
            continue
        place = record.get("place")
        where = f" {place['file']}" if place else ""
        where += f":{place['line']}:{place['column']}" if place and place["line"] else ""
        found.append(f"{record['code']}{where} {record['message']} | {record.get('help', '')}")
    return found


def replaced(text: str, old: str, new: str) -> str:
    """Return `text` with the first `old` replaced; it must be there."""
    assert old in text, old
    return text.replace(old, new, 1)
