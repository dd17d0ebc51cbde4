"""The Dockerfile's reader, the shell's parser, the command line; and that no text takes the program down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.core.diagnostics import ExitCode
from orchestrator.inspect.dockerfile import read_dockerfile
from orchestrator.inspect.ignore import read_ignore
from orchestrator.inspect.shell import parse_shell
from orchestrator.inspect.text import Chunk
from tests.inspect.inspected import COPY, PINNED, codes, inspected
from tests.workspaces import Ended
from tests.workspaces import run_cli as run_in


def read(text: str) -> list[tuple[str, str]]:
    instructions, faults = read_dockerfile("Dockerfile", text)
    assert faults == ()
    return [(i.name, " ".join(i.body.text.split())) for i in instructions]


READ = {
    "continued lines": ("RUN a \\\n  && b\n", [("RUN", "a && b")]),
    "a comment between them": ("RUN a \\\n# no\n  && b\n", [("RUN", "a && b")]),
    "an empty line between them": ("RUN a \\\n\n  && b\n", [("RUN", "a && b")]),
    "blanks behind the backslash": ("RUN a \\  \n && b\n", [("RUN", "a && b")]),
    "another escape": ("# escape=`\nRUN a `\n && b \\\nRUN c\n", [("RUN", "a && b \\"), ("RUN", "c")]),
    "an escape too late": ("# x\n# escape=`\nRUN a \\\n b\n", [("RUN", "a b")]),
    "small letters": ("from x\nrun a\n", [("FROM", "x"), ("RUN", "a")]),
    "flags": ("COPY --chown=1:1 --link a b\n", [("COPY", "a b")]),
    "no newline at the end": ("RUN a", [("RUN", "a")]),
    "carriage returns": ("RUN a \\\r\n b\r\n".replace("\r\n", "\n"), [("RUN", "a b")]),
    "a here-document": ("RUN <<EOF\nFROM x\nEOF\nRUN b\n", [("RUN", "<<EOF"), ("RUN", "b")]),
    "two here-documents": ("COPY <<A <<B /x/\na\nA\nb\nB\nRUN c\n", [("COPY", "<<A <<B /x/"), ("RUN", "c")]),
    "a here-document with tabs": ("RUN <<-EOF\n\ta\n\tEOF\nRUN b\n", [("RUN", "<<-EOF"), ("RUN", "b")]),
    "shifted bits are none": ("RUN echo $((1<<2))\nRUN b\n", [("RUN", "echo $((1<<2))"), ("RUN", "b")]),
    "a here-string is none": ("RUN cat <<<x\nRUN b\n", [("RUN", "cat <<<x"), ("RUN", "b")]),
    "ONBUILD is for another build": ("ONBUILD COPY x y\nRUN b\n", [("RUN", "b")]),
}


@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
def test_a_dockerfile_is_read_as_the_builder_reads_it(text: str, expected: list[tuple[str, str]]) -> None:
    assert read(text) == expected


BROKEN = {
    "no instruction": ("RUNN a\n", "`RUNN` is no instruction"),
    "a lost continuation": ("RUN a\n  && b\n", "`&&` is no instruction"),
    "a here-document without end": ("RUN <<EOF\na\n", "the here-document <<EOF has no end"),
    "nothing said": ("RUN\n", "RUN says nothing"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_what_no_builder_takes_is_said(text: str, message: str) -> None:
    assert [(d.code, d.message) for d in inspected({"Dockerfile": PINNED + text})] == [("E822", message)]


def test_places_are_those_of_the_file_across_continued_lines() -> None:
    text = f"{PINNED}RUN true \\\n  # ä comment\n  && echo 'ä' \\\n  && cp a b || true\n"
    found = [d for d in inspected({"Dockerfile": text, "a": ""}) if d.code == "E801"]
    assert [(d.place.line, d.place.column) for d in found if d.place] == [(5, 6)]


def test_a_shell_text_that_does_not_parse_is_said_and_what_stands_before_is_read() -> None:
    files = {
        "s/x.sh": "cp /w/s/a /b\necho\nif x; then\n",
        "s/a": "",
        "Dockerfile": f"{PINNED}{COPY}RUN bash /w/s/x.sh\n",
    }
    assert codes(inspected(files)) == ["E801 x.sh", "E821 x.sh"]


def test_shell_in_all_its_forms_is_read() -> None:
    text = (
        "f() { [[ $1 == a* ]] && ((n++)); }\nfor i in {1..3}; do :; done\nfor ((i=0; i<3; i++)); do f; done\n"
        "select x in a; do break; done\ncase $x in a|b) ;; *) ;; esac\ncat <<'A' <<B | tr a b\n$x\nA\n$(y)\nB\n"
        "x=(a b [3]=c); x+=(d); echo ${x[@]:1:2} ${x//a/b} ${#x} $'a\\n' `z` $((1 + 2)) !(a) > >(tee l) 2>&1\n"
        "coproc P { :; }\ntime a | b\nlet n=1\ndeclare -A m=([a]=b)\nwhile read -r l; do :; done < <(a)\n"
    )
    statements, faults = parse_shell(Chunk("x", text))
    assert faults == ()
    assert len(statements) > 10


def test_a_run_of_two_hundred_steps_is_followed() -> None:
    steps = " \\\n && ".join(["true"] * 200)
    assert codes(inspected({"Dockerfile": f"{PINNED}RUN {steps} \\\n && cp /a /b\n"})) == []
    assert codes(inspected({"Dockerfile": f"{PINNED}RUN {steps} \\\n && cp /a /b; true\n"})) == ["E801 Dockerfile"]


def test_a_template_is_no_dockerfile() -> None:
    found = inspected({"Dockerfile": "{% if x %}\nFROM {{ image }}\n{% endif %}\n"})
    assert [(d.code, str(d.severity)) for d in found] == [("W890", "note")]


# --- the command line ---


def run_cli(*arguments: str) -> Ended:
    return run_in(*arguments, cwd=Path())


def folder(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_nothing_found_is_silent_and_fine(tmp_path: Path) -> None:
    ended = run_cli("inspect", str(folder(tmp_path, Dockerfile=f"{PINNED}RUN true\n")))
    assert (ended.code, ended.out, ended.err) == (ExitCode.OK, "", "")


def test_errors_are_shown_with_their_place_and_end_in_five(tmp_path: Path) -> None:
    folder(tmp_path, Dockerfile=f"{PINNED}COPY a.py /a.py\nRUN cp /a.py /b || true\n", a_dot_py="")
    ended = run_cli("inspect", str(tmp_path))
    assert ended.code == ExitCode.CHECK_FAILED
    assert "error[E801]" in ended.err
    assert "--> Dockerfile:3:5" in ended.err
    assert "cp /a.py /b || true" in ended.err
    ended = run_cli("inspect", str(tmp_path), "--json")
    assert [json.loads(line)["code"] for line in ended.out.splitlines()] == ["E801"]


def test_warnings_and_notes_alone_are_fine(tmp_path: Path) -> None:
    ended = run_cli("inspect", str(folder(tmp_path, Dockerfile="FROM x:1\nRUN bash /x.sh\n")))
    assert ended.code == ExitCode.OK
    assert "warning[W816]" in ended.err
    assert "note[W890]" in ended.err


def test_another_dockerfile_another_context_and_its_own_ignore_file(tmp_path: Path) -> None:
    folder(tmp_path, d__my_dot_docker=f"{PINNED}COPY a.py /\n", a_dot_py="", _dot_dockerignore="*.py\n")
    arguments = ("inspect", str(tmp_path / "d"), "--dockerfile", "my.docker", "--context", str(tmp_path), "--json")
    assert [json.loads(line)["code"] for line in run_cli(*arguments).out.splitlines()] == ["E811"]
    folder(tmp_path, d__my_dot_docker_dot_dockerignore="x\n")
    assert run_cli(*arguments).code == ExitCode.OK


def test_a_tree_is_read(tmp_path: Path) -> None:
    patch = (
        "from pathlib import Path\nimport p\nf = Path(p.__path__[0]) / 'a.py'\n"
        "s = f.read_text()\nassert 'x' in s\nf.write_text(s.replace('x', 'y'))\n"
    )
    folder(tmp_path, f__Dockerfile=f"{PINNED}COPY m.py /m.py\nRUN python3 /m.py\n", f__m_dot_py=patch)
    folder(tmp_path, p____init__dot_py="", p__a_dot_py="A = 1\n")
    (tmp_path / "p" / "__init__.py").write_text("")
    arguments = ("inspect", str(tmp_path / "f"), "--python", "3.10", "--json")
    assert run_cli(*arguments).out == ""
    found = run_cli(*arguments, "--tree", f"p={tmp_path / 'p'}").out.splitlines()
    assert [json.loads(line)["code"] for line in found] == ["E830"]


def test_a_folder_of_scripts_alone_is_read(tmp_path: Path) -> None:
    folder(tmp_path, run_dot_sh="#!/bin/sh\ncp a b\necho\n", a="")
    found = [json.loads(line)["code"] for line in run_cli("inspect", str(tmp_path), "--json").out.splitlines()]
    assert found == ["W890", "E801"]


USAGE = {
    "no folder": ("nowhere",),
    "no dockerfile": (".",),
    "a dockerfile that is not there": (".", "--dockerfile", "x"),
    "a context that is not there": (".", "--context", "nowhere"),
    "no version": (".", "--python", "ten"),
    "no tree": (".", "--tree", "x"),
    "a tree that is not there": (".", "--tree", "x=nowhere"),
    "no argument": (),
    "an unknown option": (".", "--frobnicate"),
}


@pytest.mark.parametrize("arguments", USAGE.values(), ids=USAGE)
def test_wrong_usage_is_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    ended = run_cli("inspect", *arguments)
    assert ended.code == ExitCode.USAGE
    assert "error[E700]" in ended.err


def test_a_tree_that_is_no_package_is_wrong_usage(tmp_path: Path) -> None:
    folder(tmp_path, Dockerfile=f"{PINNED}RUN true\n", x__readme_dot_txt="")
    ended = run_cli("inspect", str(tmp_path), "--tree", f"x={tmp_path / 'x'}")
    assert ended.code == ExitCode.USAGE
    assert "error[E307]" in ended.err


# --- any text ---

PIECES = st.sampled_from(
    [
        *"\\\n \t'\"`$(){}[]<>|&;#!*?=/~,:-+é\x00\r\f",
        *[
            "FROM",
            "RUN",
            "COPY",
            "ADD",
            "ENV",
            "ARG",
            "SHELL",
            "WORKDIR",
            "CMD",
            "<<EOF",
            "EOF",
            "cp",
            "sed",
            "-i",
            "python3",
            "pip",
            "install",
            "||",
            "&&",
            "if",
            "then",
            "fi",
            "for",
        ],
        *[
            "do",
            "done",
            "case",
            "esac",
            "set",
            "-e",
            "exit",
            "true",
            "a.py",
            "${x}",
            "$(y)",
            "x=1",
            ".",
            "/",
            "git",
            "apply",
            "patch",
            "-p1",
            "find",
            "-exec",
            "while",
            "def",
            "try:",
            "open(",
        ],
        *[
            "x.replace(",
            "except:",
            "import",
            "class",
            "p.write_text(",
            "s.read()",
            "lambda",
            "f'{x}'",
            '"""',
            "cd",
            "export",
            "trap",
            "local",
            "return",
        ],
    ]
)
TEXTS = st.one_of(
    st.text(max_size=200), st.lists(PIECES, max_size=60).map(" ".join), st.lists(PIECES, max_size=60).map("".join)
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(dockerfile=TEXTS, shell=TEXTS, python=TEXTS, ignore=TEXTS)
def test_no_text_takes_the_inspection_down(dockerfile: str, shell: str, python: str, ignore: str) -> None:
    start = f"{PINNED}WORKDIR /w\nCOPY . /w\nRUN bash run.sh; . ./run.sh\nRUN python3 run.py a\n"
    files = {"run.sh": shell, "run.py": python, ".dockerignore": ignore, "Dockerfile": start + dockerfile}
    for found in inspected(files):
        assert found.message
        assert found.place
    read_ignore("x", ignore).ignoring(shell)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(text=TEXTS)
def test_every_byte_of_a_shell_text_has_its_place(text: str) -> None:
    chunk = Chunk("x.sh", text.replace("\x00", ""))
    _, faults = parse_shell(chunk)
    lines = chunk.text.count("\n") + 1
    assert all(0 <= f.place.line <= lines for f in faults if f.place)


@pytest.mark.parametrize(
    "text",
    ["(" * 5000, "$(" * 3000 + ")" * 3000, "if x; then " * 400, "{ " * 3000, "a" * (1 << 21), "x && " * 3000 + "y"],
)
def test_deep_and_large_texts_end_in_findings(text: str) -> None:
    assert codes(inspected({"Dockerfile": f"{PINNED}RUN {text}\n"})) is not None
    inspected({"r.py": text, "r.sh": text, "Dockerfile": f"{PINNED}COPY r.py r.sh /\nRUN python3 /r.py && sh /r.sh\n"})


@pytest.mark.parametrize(
    "text",
    ["(" * 5000, "x = " + "[" * 1000 + "]" * 1000, "f(" * 500 + ")" * 500, "x" + ".y" * 20000, "1 + " * 20000 + "1"],
)
def test_deep_python_ends_in_findings(text: str) -> None:
    files = {
        "r.py": f"import shutil\nshutil.copy('/a', '/b')\n{text}\n",
        "Dockerfile": f"{PINNED}COPY r.py /\nRUN python3 /r.py\n",
    }
    assert codes(inspected(files)) is not None
