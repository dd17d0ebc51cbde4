"""The readers of foreign input, each as a strategy and a function of one input.

A function says how far the input came: "read" to the end, or "refused" with diagnostics, each with a code and a
message. Every other exception is a failure.
"""

from __future__ import annotations

import ast
import gzip
import io
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from benchmarks.round_trip import transformed
from orchestrator.cli.steps import deeply
from orchestrator.code.locals import newly_unbound
from orchestrator.code.patterns import compile_pattern, find_matches
from orchestrator.code.rewrite import apply, examine
from orchestrator.code.sites import Pending
from orchestrator.code.source import Source
from orchestrator.code.template import compile_template
from orchestrator.core.diagnostics import ExitCode, Rejected
from orchestrator.engine.load import load
from orchestrator.engine.plan import make_plan
from orchestrator.engine.templates import compile_jinja, render_template
from orchestrator.inspect.dockerfile import read_dockerfile
from orchestrator.inspect.shell import parse_shell
from orchestrator.inspect.text import Chunk
from orchestrator.origin.archive import read_package
from orchestrator.origin.base import Limits
from orchestrator.origin.image import read_image
from orchestrator.origin.workspace import WorkspaceFiles
from orchestrator.spec.document import read_document
from orchestrator.spec.target import load_target
from tests.code.editing import assert_only_spliced, assigning, deleting, importing, inserting, replacing
from tests.fuzz import corpus
from tests.fuzz.damage import BYTES, Step, damaged, damaged_bytes, mended, steps
from tests.inspect.inspected import PINNED, inspected
from tests.origin.images import layer, oci
from tests.workspaces import HEAD, LIMIT_STAGE, ROOT, TARGET, Workspace, run_cli

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orchestrator.code.edits import Edit

LIMITS = Limits(file=2**20, kept=2**23, unpacked=2**26)


@dataclass(frozen=True)
class Target:
    """One reader: how its inputs are made, and what is done with one."""

    inputs: st.SearchStrategy[Any]
    check: Callable[[Any], str]


def tried(function: Callable[[], object]) -> str:
    """Return "read" where a function returns, "refused" where it ends in diagnostics that say something."""
    try:
        function()
    except Rejected as error:
        for found in error.diagnostics:
            assert found.code
            assert found.message
        return "refused"
    return "read"


def near(texts: Callable[[], Sequence[str]], *, most: int = 4) -> st.SearchStrategy[str]:
    """Return a strategy of texts that are nearly one of `texts`."""

    def changed(number: int, changes: list[Step]) -> str:
        every = texts()
        return damaged(every[number % len(every)], changes)

    return st.builds(changed, st.integers(0, 10_000), steps(most=most))


def yaml(text: str) -> str:
    """A pipeline: read, validated, planned, as `validate` does it."""
    raw = text.encode("utf-8", "surrogatepass")
    tried(lambda: read_document("pipeline.yaml", raw))
    return tried(lambda: deeply(lambda: make_plan(load("pipeline.yaml", raw, _read), _read)))


def _read(path: str) -> bytes:
    """Read a file of one of the workspaces that the pipelines are from; the nearest one has it."""
    if path == "target.yaml":
        return TARGET.encode()
    roots = (ROOT, ROOT / "examples/corex-replica", ROOT / "orchestrator/emit/starter")
    found = next((root for root in roots if path and (root / path).is_file()), ROOT)
    return WorkspaceFiles(found).read(path)


def target_file(text: str) -> str:
    """A target's facts."""
    raw = text.encode("utf-8", "surrogatepass")
    return tried(lambda: load_target("target.yaml", raw, WorkspaceFiles(ROOT / "targets").read))


def code(pieces: tuple[str, str]) -> str:
    """A pattern and a template: compiled, looked for, put in."""
    match, by = pieces
    known = {"params.x": 1, "params.text": "a'b", "params.list": [1, {"a": None}]}
    every = corpus.sources()
    tried(lambda: find_matches(compile_pattern(match, known), ast.parse(every[len(match) % len(every)])))
    tried(lambda: deeply(lambda: _edited(replacing(match, by, 1, known), by)))
    return tried(lambda: compile_template(by, known, compile_pattern(match, known).holes))


def _edited(edit: Edit, text: str) -> None:
    """Apply one edit to a text the way the engine does; whatever comes out differs only in its splices."""
    source = Source("a.py", text.encode("utf-8", "surrogatepass"))
    state = examine(edit, source, None)
    if not isinstance(state, Pending):
        return
    result = apply(edit, source, None, state)
    assert_only_spliced(source, result.source, state)
    ast.parse(result.source.raw)
    newly_unbound(source, result.old_lines, result.source, result.new_lines)


@dataclass(frozen=True)
class Edited:
    """A file that is nearly a real one, which of its statements an edit is about, and what the edit is."""

    text: str
    statement: int
    kind: str


NEW = (
    "_marker_(1)",
    "if _marker_:\n    a = '''x\n  y'''\nelse: b",
    "x: int = (yield)",
    "# nothing",
    "@d\ndef f(): pass",
)


def rewriter(given: Edited) -> str:
    """A file and an edit made from one of its own statements."""
    return tried(lambda: _rewritten(given))


def _rewritten(given: Edited) -> None:
    source = Source("a.py", given.text.encode("utf-8", "surrogatepass"))
    every = [node for node in ast.walk(source.tree) if isinstance(node, ast.stmt)]
    if every:
        node = every[given.statement % len(every)]
        segment = source.segment(node).replace("${", "$${")
        new = NEW[given.statement % len(NEW)]
        deeply(lambda: _edited(_edit_of(given.kind, node, segment, new), given.text))


def _edit_of(kind: str, node: ast.stmt, segment: str, new: str) -> Edit:
    match kind:
        case "delete":
            return deleting(segment)
        case "before" | "after":
            return inserting(kind, segment, new)
        case "start" | "end":
            return inserting(kind, None, new)
        case "import":
            return importing("from os import path as _path_")
        case "assign" if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            return assigning(node.targets[0].id, "_marker_(3)")
        case _:
            return replacing(segment, new)


KINDS = ("replace", "delete", "before", "after", "start", "end", "import", "assign")


def transform(text: str) -> str:
    """A file through libcst, with a statement put at its end."""
    outcome = deeply(lambda: transformed("a.py", text.encode("utf-8", "surrogatepass")))
    assert outcome != "damaged"
    return "read" if outcome == "edited" else "refused"


def verify(given: tuple[str, str, list[Step]]) -> str:
    """A tree whose code, pipeline and log are nearly right: judged by the command line."""
    text, pipeline, changes = given
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace.at(Path(folder))
        workspace.base({"a.py": text.encode("utf-8", "surrogatepass")})
        workspace.write("pipeline.yaml", pipeline.encode("utf-8", "surrogatepass"))
        base = workspace.package.parent.parent / "base" / "pkg"
        base.mkdir(parents=True)
        (base / "__init__.py").write_text("")
        (base / "a.py").write_text(CODE)
        workspace.write("build/audit.jsonl", damaged_bytes(_log(), changes))
        arguments = ["verify", "--tree", f"pkg={workspace.package}", "--base", f"pkg={base}", "--offline"]
        first = ended = run_cli(*arguments, cwd=workspace.folder)
        assert ended.code in set(ExitCode) - {ExitCode.BUG}, ended.err
        assert "Traceback" not in ended.err
        image = layer({"opt/lib/pkg/__init__.py": b"", "opt/lib/pkg/a.py": text.encode("utf-8", "surrogatepass")})
        ended = run_cli(
            "verify", "--image", "-", "--json", "--offline", cwd=workspace.folder, stdin=gzip.compress(image)
        )
        assert ended.code in set(ExitCode) - {ExitCode.BUG}, ended.err
        for line in ended.out.splitlines():
            json.loads(line)
    return "refused" if first.code in {ExitCode.USAGE, ExitCode.INVALID} else "read"


CODE = '''\
"""A module."""

LIMIT = 4


def first(x):
    y = x + LIMIT
    return y


class A:
    def f(self, *, k=1):
        return k
'''
STAGES = f"""{HEAD}{LIMIT_STAGE}  - id: body
    kind: codemod
    needs: [limit]
    summary: Return twice as much.
    edits:
      - {{op: replace, file: pkg/a.py, within: first, match: "y = ${{a}} + LIMIT", with: "y = (${{a}} + LIMIT) * 2"}}
      - {{op: insert, file: pkg/a.py, within: A.f, at: start, code: "k = k or 2"}}
      - {{op: import, file: pkg/a.py, code: import os}}
    waive: [{{rule: E501, because: nobody reads it}}]
"""
_LOGS: list[bytes] = []


def _log() -> bytes:
    """Return the log of a render of the pipeline above, made once."""
    if not _LOGS:
        with tempfile.TemporaryDirectory() as folder:
            workspace = Workspace.at(Path(folder))
            workspace.base({"a.py": CODE})
            ended = workspace.run("render", "--offline")
            assert ended.code == ExitCode.OK, ended.err
            _LOGS.append(workspace.built()["audit.jsonl"])
    return _LOGS[0]


@dataclass(frozen=True)
class Folder:
    """A folder as a user brings it."""

    dockerfile: str
    shell: str
    python: str
    ignore: str


def inspect(given: Folder) -> str:
    """A Dockerfile, a shell script, a Python script and an ignore file; none is run."""
    start = f"{PINNED}WORKDIR /w\nCOPY . /w\nRUN bash run.sh; . ./run.sh\nRUN python3 run.py a\n"
    files = {"run.sh": given.shell, "run.py": given.python, ".dockerignore": given.ignore, "a.py": "A = 1\n"}
    tree = {"pkg/__init__.py": "", "pkg/a.py": "x = 1\n"}
    for found in deeply(lambda: inspected({**files, "Dockerfile": start + given.dockerfile}, tree=tree)):
        assert found.message
        assert found.place
    _, faults = read_dockerfile("Dockerfile", given.dockerfile)
    _, more = parse_shell(Chunk("run.sh", given.shell))
    return "refused" if faults or more else "read"


def archive(content: bytes) -> str:
    """An archive of a package, and an image, from a pipe and from a file."""
    roots = {"pkg": ["/opt/lib64/pkg", "/opt/lib/pkg"]}
    tried(lambda: _package(content))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "image.tar"
        path.write_bytes(content)
        tried(lambda: read_image(io.BytesIO(content), roots, None, LIMITS))
        return tried(lambda: read_image(path, roots, None, LIMITS))


def _package(content: bytes) -> None:
    base, _ = read_package(io.BytesIO(content), "pkg", "pkg", LIMITS)
    assert all(path.startswith("pkg/") for path in base.tree)


def _archive(number: int, changes: list[Step], how: str) -> bytes:
    every = corpus.archives()
    content = damaged_bytes(every[number % len(every)], changes)
    content = mended(content) if how.startswith("mended") else content
    match how.removeprefix("mended "):
        case "packed":
            return gzip.compress(content)
        case "layer":  # the damage lies behind a digest that is right
            return layer(oci([content, layer(corpus.MEMBERS)]))
        case "newest layer":
            return layer(oci([layer(corpus.MEMBERS), content], packed=False))
        case _:
            return content


def template(text: str) -> str:
    """A template of the workspace, compiled and filled."""
    read = WorkspaceFiles(ROOT).read
    values = {"params": {"x": 1, "name": "a"}, "image": "b", "items": [1, {"a": 2}], "labels": {"k": "v"}}
    return tried(lambda: render_template("t.j2", compile_jinja("t.j2", text), values, read))


_TEMPLATES = (
    "{% for k, v in labels.items() %}\n{{ k | upper }}={{ v | default('x') }}\n{% endfor %}\n",
    "{% macro m(a, b=1) -%}{{ a ~ b }}{%- endmacro %}{{ m(params.x) }}{{ caller is defined }}",
    "{% set n = namespace(x=0) %}{% for i in items %}{% set n.x = n.x + loop.index %}{% endfor %}{{ n.x }}",
    "{% if image is string and params.x in [1] %}{{ '%s' % image }}{% else %}{{ '{}'.format(1) }}{% endif %}",
    "{% filter indent(2) %}{{ items | tojson }}{% endfilter %}{% raw %}{{ x }}{% endraw %}{{ cycler('a').next() }}",
    "{% block b scoped %}{{ self.b | length }}{% endblock %}{{ items | map(attribute='a') | list | join(',') }}",
)

TARGETS: dict[str, Target] = {
    "yaml": Target(near(corpus.pipelines), yaml),
    "target file": Target(near(corpus.targets), target_file),
    "pattern": Target(st.tuples(near(corpus.codes, most=3), near(corpus.codes, most=3)), code),
    "rewriter": Target(
        st.builds(Edited, near(corpus.sources, most=2), st.integers(0, 5000), st.sampled_from(KINDS)), rewriter
    ),
    "transform": Target(near(corpus.sources, most=1), transform),
    "verify": Target(
        st.tuples(
            near(lambda: (CODE,)),
            st.one_of(*[st.just(STAGES)] * 4, near(lambda: (STAGES,), most=1)),
            steps(BYTES, most=1),
        ),
        verify,
    ),
    "inspect": Target(
        st.builds(
            Folder,
            near(corpus.dockerfiles),
            near(lambda: corpus.SCRIPTS),
            near(corpus.scripts),
            near(lambda: ("*.py\n!a.py\n**/x\n",)),
        ),
        inspect,
    ),
    "archive": Target(
        st.builds(
            _archive,
            st.integers(0, 100),
            steps(BYTES),
            st.sampled_from(["plain", "mended plain", "packed", "mended layer", "layer", "mended newest layer"]),
        ),
        archive,
    ),
    "template": Target(near(lambda: _TEMPLATES), template),
}
"""Every reader by its name."""
