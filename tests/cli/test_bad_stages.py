"""What goes wrong in code, transforms, templates and files of a stage is said with the exact words."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.workspaces import Workspace, faults

if TYPE_CHECKING:
    from pathlib import Path

STAGE = """\
  - id: change
    kind: codemod
    summary: Change something.
    edits:
      - {EDIT}
    post:
      - {check: file_exists, file: pkg/a.py}
"""
TRANSFORM = "{op: transform, file: pkg/a.py, use: mine}"
SKELETON = """\
import libcst as cst
from pydantic import BaseModel


class Params(BaseModel, extra="forbid"):
    times: int = 1


def transform(module, params):
    BODY
"""


def with_edit(tmp_path: Path, edit: str) -> Workspace:
    return Workspace.at(tmp_path, STAGE.replace("{EDIT}", edit))


# --- code ---


def test_inserted_code_that_reads_an_unbound_local_is_refused(tmp_path: Path) -> None:
    edit = '{op: insert, file: pkg/a.py, within: first, before: "y = ${value}", code: print(y)}'
    ended = with_edit(tmp_path, edit).run("plan", "--json")
    assert faults(ended) == [
        (
            "E407 pipeline.yaml:10:83 `y` may be unbound here: not every path to this line assigns it | "
            "Read something that is bound earlier, or move the code down."
        )
    ]
    assert ended.code == 4


def test_inserted_code_that_reads_a_name_that_nothing_binds_is_refused(tmp_path: Path) -> None:
    edit = "{op: insert, file: pkg/a.py, within: first, at: end, code: print(LIMT)}"
    ended = with_edit(tmp_path, edit).run("plan", "--json")
    assert [fault.partition(" | ") for fault in faults(ended)] == [
        (
            "E407 pipeline.yaml:10:68 nothing binds `LIMT`, which the inserted code reads",
            " | ",
            "did you mean 'LIMIT'?",
        )
    ]
    assert ended.code == 4


def test_a_pattern_that_would_match_what_it_wrote_only_there_is_refused(tmp_path: Path) -> None:
    edit = '{op: replace, file: pkg/a.py, within: first, match: "x + ${n}", with: "${n} + x + x"}'
    workspace = with_edit(tmp_path, edit)
    workspace.base({"a.py": "def first(x):\n    return x + x\n"})
    ended = workspace.run("plan", "--json")
    assert faults(ended) == [
        (
            "E406 pipeline.yaml:10:61 the pattern matches its own result: x + x | "
            "Make the pattern narrower than the replacement, so that it cannot match what it wrote."
        )
    ]
    assert ended.code == 4


# --- transforms ---

TRANSFORMS = {
    "it raises": (
        "raise KeyError('LIMIT')",
        "E415 pipeline.yaml:10:46 the transform raised KeyError: 'LIMIT' | Mend the transform.",
    ),
    "it ends the program": (
        "raise SystemExit('enough')",
        "E415 pipeline.yaml:10:46 the transform ended the program: exit('enough') | Raise an exception instead.",
    ),
    "it changes nothing": (
        "return module",
        (
            "E416 pipeline.yaml:10:46 transform 'mine' changes nothing in pkg/a.py | If it is applied already, "
            "`orchestrator lock` on the base makes that known; else its target is gone."
        ),
    ),
    "it returns nothing": (
        "return None",
        "E415 pipeline.yaml:10:46 transform `mine` returned NoneType, not a libcst Module | Return the changed module.",
    ),
    "it returns text": (
        "return module.code",
        "E415 pipeline.yaml:10:46 transform `mine` returned str, not a libcst Module | Return the changed module.",
    ),
    "it returns broken code": (
        "return module.with_changes(body=[cst.SimpleStatementLine([cst.Expr(cst.Name('class'))])])",
        (
            "E411 pipeline.yaml:10:46 the transform's result does not parse: not valid Python: invalid syntax | "
            "Mend `stages/mine.py`."
        ),
    ),
    "it changes its own result": (
        "return cst.parse_module(module.code + 'again = 1\\n')",
        (
            "E406 pipeline.yaml:10:46 the transform changes its own result again | "
            "Let it leave code alone that it has changed already."
        ),
    ),
}


@pytest.mark.parametrize("case", [pytest.param(name, id=name) for name in TRANSFORMS])
def test_a_transform_that_does_not_do_its_work_fails_its_stage(tmp_path: Path, case: str) -> None:
    body, expected = TRANSFORMS[case]
    workspace = with_edit(tmp_path, TRANSFORM)
    workspace.write("stages/mine.py", SKELETON.replace("BODY", body))
    ended = workspace.run("plan", "--json")
    assert faults(ended) == [expected]
    assert ended.code == 4


NO_TRANSFORMS = {
    "no Params": (
        "def transform(module, params): ...\n",
        (
            "E220 stages/mine.py a transform file defines `class Params(BaseModel)` and `transform(module, params)` | "
            "See `docs/guide.md`, transforms."
        ),
    ),
    "Params of another kind": (
        "class Params: ...\ndef transform(module, params): ...\n",
        (
            "E220 stages/mine.py a transform file defines `class Params(BaseModel)` and `transform(module, params)` | "
            "See `docs/guide.md`, transforms."
        ),
    ),
    "no transform": (
        "from pydantic import BaseModel\nclass Params(BaseModel): ...\n",
        (
            "E220 stages/mine.py a transform file defines `class Params(BaseModel)` and `transform(module, params)` | "
            "See `docs/guide.md`, transforms."
        ),
    ),
    "not Python": (
        "def transform(:\n",
        "E408 stages/mine.py:1:15 not valid Python: invalid syntax | Mend the code at this place.",
    ),
    "binary": (
        "\0",
        (
            "E408 stages/mine.py not valid Python: source code string cannot contain null bytes | "
            "Mend the code at this place."
        ),
    ),
    "it raises when imported": (
        "\nimport no_such_module\n",
        (
            "E415 stages/mine.py:2:1 importing it raised ModuleNotFoundError: No module named 'no_such_module' | "
            "Mend the transform."
        ),
    ),
    "it ends the program when imported": (
        "raise SystemExit(0)\n",
        "E415 stages/mine.py importing it ended the program: exit(0) | Raise an exception instead.",
    ),
}


@pytest.mark.parametrize("case", [pytest.param(name, id=name) for name in NO_TRANSFORMS])
def test_a_file_that_is_no_transform_is_refused_before_any_tree_is_read(tmp_path: Path, case: str) -> None:
    content, expected = NO_TRANSFORMS[case]
    workspace = with_edit(tmp_path, TRANSFORM)
    workspace.write("stages/mine.py", content)
    ended = workspace.run("validate", "--json")
    assert faults(ended) == [expected]
    assert ended.code == 3


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (
            "{time: 2}",
            (
                "E222 pipeline.yaml:10:60 transform 'mine', parameter 'time': Extra inputs are not permitted | "
                "did you mean 'times'?"
            ),
        ),
        (
            "{times: often}",
            (
                "E222 pipeline.yaml:10:60 transform 'mine', parameter 'times': Input should be a valid integer, "
                "unable to parse string as an integer | It takes: times."
            ),
        ),
    ],
)
def test_parameters_that_a_transform_does_not_take_are_refused(tmp_path: Path, params: str, expected: str) -> None:
    workspace = with_edit(tmp_path, TRANSFORM.replace("mine}", f"mine, params: {params}}}"))
    workspace.write("stages/mine.py", SKELETON.replace("BODY", "return module"))
    ended = workspace.run("validate", "--json")
    assert faults(ended) == [expected]
    assert ended.code == 3


# --- templates ---

RENDERING = """\
  - id: conf
    kind: template
    summary: Write it.
    render:
      - {template: templates/run.txt.j2, to: run.txt}
"""
TEMPLATES = {
    "undefined variable": (
        "a\n{{ parms.limit }}\n",
        "E231 templates/run.txt.j2:2:1 template: 'parms' is undefined | did you mean 'params'?",
    ),
    "undefined parameter": (
        "a\n{{ params.limti }}\n",
        "E231 templates/run.txt.j2:2:1 template: there is no 'limti' | did you mean 'limit'?",
    ),
    "undefined in an included file": (
        "{% include 'templates/part.j2' %}\n",
        "E231 templates/part.j2:2:1 template: 'parms' is undefined | did you mean 'params'?",
    ),
    "includes what leaves the workspace": (
        "{% include '../secret' %}\n",
        (
            "E232 templates/run.txt.j2:1:1 template: '../secret' leaves the workspace | "
            "Name a file of the workspace, relative to `pipeline.yaml`."
        ),
    ),
    "includes an absolute path": (
        "{% include '/etc/passwd' %}\n",
        (
            "E232 templates/run.txt.j2:1:1 template: '/etc/passwd' leaves the workspace | "
            "Name a file of the workspace, relative to `pipeline.yaml`."
        ),
    ),
    "includes through a link": (
        "{% include 'templates/link' %}\n",
        (
            "E232 templates/run.txt.j2:1:1 template: 'templates/link' is a link that leaves the workspace, to "
            "/etc/passwd | "
            "Name a file of the workspace, relative to `pipeline.yaml`."
        ),
    ),
    "includes what is not there": (
        "{% include 'templates/prt.j2' %}\n",
        (
            "E232 templates/run.txt.j2:1:1 template: 'templates/prt.j2' does not exist in the workspace | "
            "Name a file of the workspace, relative to `pipeline.yaml`."
        ),
    ),
    "reaches for Python's internals": (
        "{{ ''.__class__.__mro__ }}\n",
        (
            "E232 templates/run.txt.j2:1:1 template: SecurityError: access to attribute '__class__' of 'str' object is "
            "unsafe. | Mend the template."
        ),
    ),
    "changes what it is given": (
        "{% if params.clear() %}{% endif %}\n",
        (
            "E232 templates/run.txt.j2:1:1 template: SecurityError: access to attribute 'clear' of 'dict' object is "
            "unsafe. | Mend the template."
        ),
    ),
    "computes nonsense": (
        "\n\n{{ 1 / 0 }}\n",
        "E232 templates/run.txt.j2:3:1 template: ZeroDivisionError: division by zero | Mend the template.",
    ),
    "never ends": (
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}\n",
        "E232 templates/run.txt.j2:1:1 template: RecursionError: maximum recursion depth exceeded",
    ),
}


@pytest.mark.parametrize("case", [pytest.param(name, id=name) for name in TEMPLATES])
def test_a_template_that_does_not_render_fails_its_stage(tmp_path: Path, case: str) -> None:
    text, expected = TEMPLATES[case]
    workspace = Workspace.at(tmp_path, RENDERING)
    workspace.write("templates/run.txt.j2", text)
    workspace.write("templates/part.j2", "\n{{ parms }}\n")
    (workspace.folder / "templates" / "link").symlink_to("/etc/passwd")
    ended = workspace.run("plan", "--json")
    (found,) = faults(ended)
    assert found == expected if " | " in expected else found.startswith(expected)
    assert ended.code == 3


def test_a_template_may_include_a_file_of_the_workspace(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path, RENDERING)
    workspace.write("templates/run.txt.j2", "limit {% include 'templates/part.j2' %}.\n")
    workspace.write("templates/part.j2", "{{ params.limit }} of {{ device.warps }}")
    assert workspace.run("render").code == 0
    assert workspace.built()["run.txt"] == b"limit 8 of 64.\n"


@pytest.mark.parametrize("name", ["templates/run.txt.j2", "templates/Dockerfile.j2"])
def test_a_template_with_a_syntax_fault_is_refused_before_any_tree_is_read(tmp_path: Path, name: str) -> None:
    workspace = Workspace.at(tmp_path, RENDERING)
    workspace.write("templates/run.txt.j2", "")
    workspace.write(name, "one\n{{ params.limit }\n")
    ended = workspace.run("validate", "--json")
    assert faults(ended) == [f"E230 {name}:2:1 template: unexpected '}}' | Mend the template."]
    assert ended.code == 3


def test_a_template_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path, RENDERING)
    workspace.write("templates/run.txt.j2", b"caf\xe9\n")
    ended = workspace.run("validate", "--json")
    assert faults(ended) == [
        "E125 pipeline.yaml:10:20 template 'templates/run.txt.j2' is not UTF-8 | Save it as UTF-8."
    ]
    assert ended.code == 3


def test_render_wants_the_image_s_templates_and_says_so_before_it_runs(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    (workspace.folder / "templates" / "Dockerfile.j2").unlink()
    ended = workspace.run("render", "--json")
    assert faults(ended) == [
        "E120 'templates/Dockerfile.j2' does not exist in the workspace | did you mean 'templates/dockerignore.j2'?"
    ]
    assert ended.code == 3
    assert not (workspace.folder / "build").exists()


# --- target paths ---


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        *(
            (
                path,
                (
                    f"E130 target path {path!r} is not a plain path below a package root | "
                    "Write it as pkg/…, without `..`, `//` and a leading `/`."
                ),
            )
            for path in ("../a.py", "pkg/../../a.py", "/etc/passwd", "pkg//a.py", "./pkg/a.py", "pkg/a.py\n", "pkg/")
        ),
        (
            "/model/config.py",
            (
                "E505 '/model/config.py' lies under the runtime mount /model: it does not exist "
                "while the image is built | "
                "Do this when the container starts, not in the image."
            ),
        ),
        ("pkg", "E130 'pkg' is a package root, not a file in it | Name a file."),
        ("pgk/a.py", "E131 'pgk' is not a package root of target 'box' | did you mean 'pkg'?"),
    ],
)
@pytest.mark.parametrize("kind", ["edit", "deploy"])
def test_a_target_path_that_leaves_the_package_is_refused(tmp_path: Path, path: str, expected: str, kind: str) -> None:
    shown = path.replace("\n", "\\n")
    if kind == "edit":
        workspace = with_edit(tmp_path, f'{{op: delete, file: "{shown}", match: LIMIT = 4}}')
    else:
        workspace = Workspace.at(
            tmp_path, DEPLOY.replace("{source: kernels/k.py, to: pkg/k.py}", f'{{source: kernels/k.py, to: "{shown}"}}')
        )
        workspace.write("kernels/k.py", "X = 1\n")
    ended = workspace.run("validate", "--json")
    code, _, rest = expected.partition(" ")
    column = {"edit": 28, "deploy": 36}[kind]
    assert faults(ended) == [f"{code} pipeline.yaml:10:{column} {rest}"]
    assert ended.code == 3


def test_a_link_in_the_package_that_leaves_it_is_refused(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    (workspace.package / "b.py").symlink_to("/etc/passwd")
    ended = workspace.run("plan", "--json")
    assert faults(ended) == [
        (
            f"E305 pkg/b.py this link leaves {workspace.package}, to /etc/passwd | "
            "Put a copy of the file in its place: a tree holds only what lies in the package."
        )
    ]
    assert ended.code == 2


# --- sources ---

DEPLOY = """\
  - id: deploy
    kind: codemod
    summary: Bring a file.
    deploy:
      - {source: kernels/k.py, to: pkg/k.py}
    post:
      - {check: file_exists, file: pkg/k.py}
"""
SOURCES: dict[str, tuple[bytes | str | None, str]] = {
    "missing": (
        None,
        "E120 pipeline.yaml:10:18 'kernels/k.py' does not exist in the workspace | did you mean 'kernels/k2.py'?",
    ),
    "binary": (b"\0\1", "E125 pipeline.yaml:10:18 'kernels/k.py' is binary, not Python | Deploy the source file."),
    "of 5 MB": (
        b"#" * 5_000_000,
        (
            "E123 pipeline.yaml:10:18 'kernels/k.py' has 5,000,000 bytes; at most 4,194,304 are read | "
            "A patch is small; is this the right file?"
        ),
    ),
    "not Python": (
        "x = 'a\n",
        (
            "E408 kernels/k.py:1:5 not valid Python for Python 3.11: unterminated string literal "
            "(detected at line 1) | "
            "Mend the code at this place."
        ),
    ),
    "of another encoding than it says": (
        b"x = '\xe9'\n",
        "E409 kernels/k.py cannot be decoded: invalid or missing encoding declaration | Correct the coding line.",
    ),
}


@pytest.mark.parametrize("case", [pytest.param(name, id=name) for name in SOURCES])
def test_a_source_that_cannot_be_deployed_is_refused(tmp_path: Path, case: str) -> None:
    content, expected = SOURCES[case]
    workspace = Workspace.at(tmp_path, DEPLOY)
    workspace.write("kernels/k2.py", "")
    if content is not None:
        workspace.write("kernels/k.py", content)
    ended = workspace.run("validate", "--json")
    assert faults(ended) == [expected]
    assert ended.code == 3


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            "folder",
            (
                "E124 pipeline.yaml:10:18 'kernels/k.py' is not an ordinary file | "
                "Name a file; folders are not deployed as a whole."
            ),
        ),
        (
            "pipe",
            (
                "E124 pipeline.yaml:10:18 'kernels/k.py' is not an ordinary file | "
                "Name a file; folders are not deployed as a whole."
            ),
        ),
        (
            "link outside",
            (
                "E122 pipeline.yaml:10:18 'kernels/k.py' is a link that leaves the workspace, to /etc/passwd | "
                "Copy the file into the workspace."
            ),
        ),
        (
            "link to itself",
            (
                "E121 pipeline.yaml:10:18 'kernels/k.py' cannot be read: the link points to itself | "
                "Check its permissions."
            ),
        ),
    ],
)
def test_a_source_that_is_no_file_of_the_workspace_is_refused(tmp_path: Path, kind: str, expected: str) -> None:
    workspace = Workspace.at(tmp_path, DEPLOY)
    path = workspace.folder / "kernels" / "k.py"
    path.parent.mkdir()
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "link outside":
            path.symlink_to("/etc/passwd")
        case _:
            path.symlink_to(path.name)
    ended = workspace.run("validate", "--json")
    assert faults(ended) == [expected]
    assert ended.code == 3


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("try:\n    pass\nexcept* ValueError:\n    pass\n", "3.10"),
        ("def first[T](x: T) -> T:\n    return x\n", "3.11"),
        ("type Number = int\n", "3.11"),
        ("match 1:\n    case 1:\n        pass\n", "3.9"),
        ("with (open('a') as a, open('b') as b):\n    pass\n", "3.8"),
    ],
)
def test_code_with_syntax_newer_than_the_target_s_python_is_refused(tmp_path: Path, code: str, said: str) -> None:
    workspace = Workspace.at(tmp_path, DEPLOY)
    workspace.write("kernels/k.py", code)
    target = (workspace.folder / "target.yaml").read_text()
    workspace.write("target.yaml", target.replace('python: "3.11"', f'python: "{said}"'))
    ended = workspace.run("validate", "--json")
    (found,) = faults(ended)
    assert found.startswith("E408 kernels/k.py:")
    assert f"not valid Python for Python {said}: " in found
    assert ended.code == 3


def test_two_broken_files_are_both_reported(tmp_path: Path) -> None:
    second = DEPLOY.replace("id: deploy", "id: other").replace("kernels/k.py", "kernels/l.py").replace("pkg/k", "pkg/l")
    workspace = Workspace.at(tmp_path, DEPLOY + second)
    workspace.write("kernels/k.py", 'import os\nTEXT = "one\ntwo"\n')
    workspace.write("kernels/l.py", "def f(:\n    pass\n")
    ended = workspace.run("validate", "--json")
    assert faults(ended) == [
        (
            "E408 kernels/k.py:2:8 not valid Python for Python 3.11: unterminated string literal "
            "(detected at line 2) | "
            "Mend the code at this place."
        ),
        "E408 kernels/l.py:1:7 not valid Python for Python 3.11: invalid syntax | Mend the code at this place.",
    ]
    assert ended.code == 3
