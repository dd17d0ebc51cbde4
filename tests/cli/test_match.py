"""`match`: sites, captures, what is nearest, what an edit would do; whatever is handed over as pattern and file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from orchestrator.core.diagnostics import ExitCode
from tests.workspaces import Workspace, faults, run_cli

if TYPE_CHECKING:
    from pathlib import Path

CODE = '''\
"""A module."""


def first(x, *rest):
    y = call(x, 1, key=x)  # größer
    return call(y, *rest)


class Box:
    def put(self, x):
        if x:
            call(x)
        return x
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text(CODE)
    return tmp_path


def test_every_site_is_shown_with_what_the_holes_took(folder: Path) -> None:
    ended = run_cli("match", "call(${first}, ${rest...})", "a.py", cwd=folder)
    assert ended.code == ExitCode.OK
    assert ended.out.splitlines() == [
        "a.py:5:9   in first",
        "   5 |     y = call(x, 1, key=x)  # größer",
        "     |         ^^^^^^^^^^^^^^^^^",
        "     : ${first} = x",
        "     : ${rest...} = 1, key=x",
        "a.py:6:12   in first",
        "   6 |     return call(y, *rest)",
        "     |            ^^^^^^^^^^^^^^",
        "     : ${first} = y",
        "     : ${rest...} = *rest",
        "a.py:12:13   in Box.put",
        "  12 |             call(x)",
        "     |             ^^^^^^^",
        "     : ${first} = x",
        "     : ${rest...} = nothing",
    ]
    assert ended.err == "3 sites in a.py\n"


def test_records_have_whole_captures_and_the_count(folder: Path) -> None:
    ended = run_cli("match", "call(${first}, ${rest...})", "a.py", "--within", "Box.put", "--json", cwd=folder)
    assert ended.records() == [
        {
            "event": "site",
            "file": "a.py",
            "line": 12,
            "column": 13,
            "lines": 1,
            "scope": "Box.put",
            "code": "call(x)",
            "captures": {"first": ["x"], "rest": []},
        },
        {"event": "matched", "file": "a.py", "count": 1},
    ]


def test_statements_over_several_lines_say_how_many(folder: Path) -> None:
    ended = run_cli("match", "if ${x}: ${body...}", "a.py", cwd=folder)
    assert "^^^^^   and 1 more line" in ended.out
    assert "${body...} = call(x)" in ended.out


@pytest.mark.parametrize(
    "pattern", ["def ${f}(${args...}): ${body...}", "class ${c}: ${body...}", "import ${m}", "${x}"]
)
def test_holes_in_every_place_can_be_shown(folder: Path, pattern: str) -> None:
    (folder / "b.py").write_text("import os\n\ndef f(a, /, b=1, *, c: int = 2, **k):\n    pass\n\nclass C:\n    pass\n")
    ended = run_cli("match", pattern, "b.py", cwd=folder)
    assert ended.code == ExitCode.OK
    assert run_cli("match", pattern, "b.py", "--json", cwd=folder).records()


def test_code_comes_from_stdin_too(folder: Path) -> None:
    ended = run_cli("match", "call(${x})", "-", cwd=folder, stdin=CODE.encode())
    assert ended.code == ExitCode.OK
    assert ended.out.startswith("stdin:12:13   in Box.put")


def test_no_site_shows_the_nearest_code_and_ends_with_1(folder: Path) -> None:
    ended = run_cli("match", "y = call(x, 2, key=x)", "a.py", cwd=folder)
    assert ended.code == ExitCode.NO
    assert ended.out == ""
    assert "a.py:5:5   y = call(x, 1, key=x)" in ended.err
    ended = run_cli("match", "y = call(x, 2, key=x)", "a.py", "--json", cwd=folder)
    assert ended.records()[0] == {"event": "matched", "file": "a.py", "count": 0}
    assert ended.records()[1]["code"] == "E403"


def test_a_scope_that_is_not_there_is_a_usage_error(folder: Path) -> None:
    ended = run_cli("match", "x", "a.py", "--within", "Box.pt", "--json", cwd=folder)
    assert ended.code == ExitCode.USAGE
    assert "E402" in faults(ended)[0]
    assert "did you mean 'Box.put'?" in faults(ended)[0]


@pytest.mark.parametrize(
    ("pattern", "code", "column"),
    [
        ("f(", "E206", 2),
        ("y = ${a} if ${b} els ${c}", "E206", 5),
        ("f(${a}, ${b c})", "E205", 9),
        ("${a} + (", "E206", 8),
        ("${a} ${b}", "E206", 6),
        ("", "E206", 1),
        ("# nothing", "E206", 1),
        ("${rest...}", "E206", 1),
        ("'${a}'", "E205", 1),
        ("f(\x00)", "E206", 1),
        ("(" * 3000, "E206", 1),
    ],
)
def test_a_pattern_that_cannot_be_has_its_column(folder: Path, pattern: str, code: str, column: int) -> None:
    ended = run_cli("match", pattern, "a.py", "--json", cwd=folder)
    assert ended.code == ExitCode.INVALID
    (record,) = ended.records()
    assert (record["code"], record["place"]["file"]) == (code, "PATTERN")
    if len(pattern) < 1000 and "\x00" not in pattern:
        assert (record["place"]["line"], record["place"]["column"]) == (1, column)


def test_the_mark_stands_under_the_fault_in_the_pattern(folder: Path) -> None:
    ended = run_cli("match", "x = ${a} if ${b} els ${c}", "a.py", cwd=folder)
    assert "   1 | x = ${a} if ${b} els ${c}\n     |     ^" in ended.err


@pytest.mark.parametrize("pattern", ["x = $a", "x = ${a", "f($x)", "$", "${a} = $b"])
def test_a_hole_that_is_none_is_told_how_holes_are_written(folder: Path, pattern: str) -> None:
    (record,) = run_cli("match", pattern, "a.py", "--json", cwd=folder).records()
    assert record["code"] == "E206"
    assert "A hole is written `${name}`" in record["help"]


# --- files of every kind ---


@pytest.mark.parametrize("lead", [b"", b"\xef\xbb\xbf", b"# \xc3\xa9\r\n\r\n"])
def test_code_that_does_not_parse_is_shown(folder: Path, lead: bytes) -> None:
    (folder / "broken.py").write_bytes(lead + b"def f(:\n    pass\n")
    ended = run_cli("match", "x", "broken.py", cwd=folder)
    line = lead.count(b"\n") + 1
    assert f"broken.py:{line}:7\n   {line} | def f(:\n     |       ^\n" in ended.err


def test_files_that_are_no_python_are_refused(folder: Path) -> None:
    (folder / "binary").write_bytes(b"\x7fELF\x00\x01")
    (folder / "text.md").write_text("# A title\n\nSome words.\n")
    (folder / "latin.py").write_bytes(b"x = '\xe9'\n")
    (folder / "huge.py").write_bytes(b"x = 1\n" * 800_000)
    os.mkfifo(folder / "pipe")
    said = {
        "binary": "E129 binary is binary, not Python",
        "text.md": "E408 text.md:3:6 not valid Python",
        "latin.py": "E409 latin.py cannot be decoded",
        "huge.py": "E129 huge.py has 4,194,305 bytes; at most 4,194,304 are read",
        "pipe": "E129 pipe is no ordinary file",
        ".": "E129 . is no ordinary file",
        "absent.py": "E129 there is no file absent.py, and no pipeline.yaml whose base tree could have it",
        "a\x00b": "E129 there is no file a\x00b",
    }
    for file, text in said.items():
        ended = run_cli("match", "x", file, "--json", cwd=folder)
        assert ended.code == ExitCode.USAGE, file
        assert faults(ended)[0].startswith(text), file


def test_an_empty_file_and_one_with_a_byte_order_mark_and_crlf_can_be_looked_at(folder: Path) -> None:
    (folder / "empty.py").touch()
    assert run_cli("match", "x", "empty.py", cwd=folder).code == ExitCode.NO
    (folder / "b.py").write_bytes(b"\xef\xbb\xbf" + CODE.replace("\n", "\r\n").encode())
    assert run_cli("match", "call(${x})", "b.py", cwd=folder).out.startswith("b.py:12:13   in Box.put\n")


def test_deeply_nested_code_is_no_fault_of_ours(folder: Path) -> None:
    (folder / "deep.py").write_text(f"x = {'-' * 5000}1\n")
    ended = run_cli("match", "x = ${a}", "deep.py", cwd=folder)
    assert ended.code in {ExitCode.OK, ExitCode.USAGE}


# --- the base tree ---


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.at(tmp_path)


def test_a_file_of_the_base_tree_is_found_by_its_package_path(workspace: Workspace) -> None:
    tree = ("--tree", f"pkg={workspace.package}")
    ended = workspace.run("match", "x + ${y}", "pkg/a.py", *tree)
    assert ended.code == ExitCode.OK
    assert ended.out.startswith("pkg/a.py:7:9   in first\n")
    (fault,) = faults(workspace.run("match", "x", "pkg/b/a.py", "--json", *tree))
    assert "A file of that name is at pkg/a.py." in fault


def test_values_of_the_pipeline_can_stand_in_a_pattern_and_its_stages_may_be_wrong(workspace: Workspace) -> None:
    tree = ("--tree", f"pkg={workspace.package}")
    workspace.pipeline("  - id: unfinished\n")
    assert workspace.run("match", "LIMIT = ${params.limit}", "pkg/a.py", *tree).code == ExitCode.NO
    assert workspace.run("match", "LIMIT = ${params.limit}", "pkg/a.py", "--set", "limit=4", *tree).code == ExitCode.OK
    ended = workspace.run("match", "LIMIT = ${params.limt}", "pkg/a.py", "--json", *tree)
    assert ended.code == ExitCode.INVALID
    assert faults(ended) == ["E204 PATTERN:1:9 `${params.limt}` is not known | did you mean 'params.limit'?"]


def test_a_pattern_that_is_not_found_is_shown_with_its_values_and_that_it_goes_on(workspace: Workspace) -> None:
    tree = ("--tree", f"pkg={workspace.package}", "--json")
    (fault,) = faults(workspace.run("match", "LIMIT = ${params.limit} + ${x}", "pkg/a.py", *tree))
    assert "pattern not found in pkg/a.py: LIMIT = 8 + ${x} |" in fault
    (fault,) = faults(workspace.run("match", "\nLIMIT = ${params.word}\ny = 1\n", "pkg/a.py", *tree))
    assert "pattern not found in pkg/a.py: LIMIT = 'text' … |" in fault
    edit = '{op: assign, file: pkg/a.py, name: LIMIT, from: "${params.limit}", value: "9"}'
    workspace.pipeline(f"  - {{id: a, kind: codemod, summary: Set it., edits: [{edit}]}}\n")
    (fault,) = faults(workspace.run("plan", *tree))
    assert "`LIMIT` is not assigned `8` here" in fault


def test_another_target_s_tree_can_be_meant(workspace: Workspace) -> None:
    ended = workspace.run("match", "x", "pkg/a.py", "--target", "absent.yaml", "--json")
    assert ended.code == ExitCode.USAGE
    assert faults(ended)[0].startswith("E120")


# --- a replacement ---


def test_what_an_edit_would_change_is_shown(folder: Path) -> None:
    ended = run_cli("match", "call(${x})", "a.py", "--with", "other(${x}, 2)", cwd=folder)
    assert ended.code == ExitCode.OK
    assert "-            call(x)\n+            other(x, 2)\n" in ended.out
    assert (folder / "a.py").read_text() == CODE
    record = run_cli("match", "call(${x})", "a.py", "--with", "other(${x}, 2)", "--json", cwd=folder).records()[-1]
    assert record["closed"] is True
    assert record["patch"].startswith("diff --git a/a.py b/a.py\n")


@pytest.mark.parametrize(
    ("pattern", "with_", "file"),
    [
        ("call(${x}, ${r...})", "call(${x}, 0, ${r...})", "a.py"),
        ("call(${x}, ${r...})", "call(${x}, 0, ${r...})", "empty.py"),  # known without a site
        ("call(${x})", "wrap(call(${x}))", "a.py"),
    ],
)
def test_a_pattern_that_is_not_closed_is_told(folder: Path, pattern: str, with_: str, file: str) -> None:
    (folder / "empty.py").touch()
    ended = run_cli("match", pattern, file, "--with", with_, "--json", cwd=folder)
    assert ended.code == ExitCode.NOT_APPLIED
    assert [record["code"] for record in ended.records() if record["event"] == "diagnostic"] == ["E406"]
    assert ended.records()[-2]["closed"] is False


@pytest.mark.parametrize(("with_", "code"), [("other(${z})", "E207"), ("other(", "E206"), ("", "E206")])
def test_a_replacement_that_cannot_be_has_its_place(folder: Path, with_: str, code: str) -> None:
    ended = run_cli("match", "call(${x})", "a.py", "--with", with_, "--json", cwd=folder)
    assert ended.code == ExitCode.INVALID
    (record,) = ended.records()
    assert (record["code"], record["place"]["file"]) == (code, "--with")
