"""Sources: there, sent to the builder, in git, no links to elsewhere; and relative paths in the directory in force."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from orchestrator.inspect.folder import read_folder
from orchestrator.inspect.ignore import read_ignore
from orchestrator.inspect.look import look
from tests.inspect.inspected import PINNED, codes, inspected

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.core.diagnostics import Diagnostic

BASE = {"a.py": "A = 1\n", "s/patch.sh": "#!/bin/bash\nset -e\ncp ./a.py /opt/a.py\n", "s/a.py": "A = 1\n"}


def found_in(dockerfile: str, **more: str) -> list[str]:
    files = {**BASE, **{name.replace("__", "/").replace("_dot_", "."): text for name, text in more.items()}}
    return codes(inspected({**files, "Dockerfile": PINNED + dockerfile}))


# --- .dockerignore ---

IGNORED = {
    "a name": ("a.py", "a.py", True),
    "a name with a slash in front": ("/a.py", "a.py", True),
    "a name is meant from the top": ("a.py", "s/a.py", False),
    "a star": ("*.py", "a.py", True),
    "a star stays in its folder": ("*.py", "s/a.py", False),
    "two stars": ("**/*.py", "s/t/a.py", True),
    "two stars at the top": ("**/*.py", "a.py", True),
    "a folder": ("s", "s/a.py", True),
    "a folder with a slash": ("s/", "s/a.py", True),
    "a question mark": ("?.py", "a.py", True),
    "a class of characters": ("[a-c].py", "b.py", True),
    "taken back": ("*.py\n!a.py", "a.py", False),
    "the last one wins": ("!a.py\n*.py", "a.py", True),
    "a folder taken back": ("*\n!s", "s/a.py", False),
    "a file of a folder taken back": ("s\n!s/a.py", "s/a.py", False),
    "a comment": ("# a.py", "a.py", False),
    "an escape": ("\\#a.py", "#a.py", True),
    "a dot is no wildcard": ("a.py", "axpy", False),
    "blanks around": ("  a.py  ", "a.py", True),
    "dots in a path": ("./s/../a.py", "a.py", True),
}


@pytest.mark.parametrize(("text", "path", "left_out"), IGNORED.values(), ids=IGNORED)
def test_dockerignore_means_what_the_builder_takes_it_for(text: str, path: str, left_out: bool) -> None:  # noqa: FBT001 - an expected value
    assert (read_ignore(".dockerignore", text).ignoring(path) is not None) is left_out


# --- COPY ---

COPIES = {
    "a file that is there": ("COPY a.py /w/\n", []),
    "a folder that is there": ("COPY s /w/\n", []),
    "the folder itself": ("COPY . /w/\n", []),
    "a file that is not there": ("COPY b.py /w/\n", ["E810 Dockerfile"]),
    "in the JSON form": ('COPY ["b.py", "/w/"]\n', ["E810 Dockerfile"]),
    "with ADD": ("ADD b.py /w/\n", ["E810 Dockerfile"]),
    "two of which one is not there": ("COPY a.py b.py /w/\n", ["E810 Dockerfile"]),
    "a pattern that matches": ("COPY *.py /w/\n", []),
    "a pattern that matches nothing": ("COPY *.txt /w/\n", ["E810 Dockerfile"]),
    "a pattern that may match nothing": ("COPY a.py b.p* /w/\n", []),
    "outside of the context": ("COPY ../x.py /w/\n", ["E810 Dockerfile"]),
    "by a build argument": ("ARG D=s\nCOPY ${D}/a.py /w/\n", []),
    "by a wrong build argument": ("ARG D=t\nCOPY $D/a.py /w/\n", ["E810 Dockerfile"]),
    "from a stage": ("FROM scratch\nCOPY --from=0 /x /y\n", []),
    "with flags": ("COPY --chown=1:1 --link a.py /w/\n", []),
    "over several lines": ("COPY a.py \\\n  # why\n  s/a.py \\\n  /w/\n", []),
    "a here-document": ("COPY <<EOF /w/x.txt\nb.py\nEOF\n", []),
    "an address": ("ADD --checksum=sha256:0 https://x.example/b.py /w/\n", []),
    "a bind mount": ("RUN --mount=type=bind,source=b.py,target=/b.py true\n", ["E810 Dockerfile"]),
    "a bind mount that is there": ("RUN --mount=type=bind,source=s,target=/s bash /s/ok.sh\n", []),
}


@pytest.mark.parametrize(("dockerfile", "expected"), COPIES.values(), ids=COPIES)
def test_a_source_is_looked_for_in_the_build_context(dockerfile: str, expected: list[str]) -> None:
    assert found_in(dockerfile, s__ok_dot_sh="true\n") == expected


def test_a_source_that_dockerignore_leaves_out_is_named_with_the_line_that_does_it() -> None:
    found = inspected({**BASE, ".dockerignore": "x\n*.py\n", "Dockerfile": f"{PINNED}COPY a.py /w/\n"})
    assert [d.code for d in found] == ["E811"]
    assert found[0].notes == (".dockerignore:2:1: *.py",)


def test_a_script_that_dockerignore_leaves_out_of_its_folder_is_found_where_it_is_run() -> None:
    files = {**BASE, ".dockerignore": "**/*.sh\n", "Dockerfile": f"{PINNED}COPY s /w\nRUN bash /w/patch.sh\n"}
    assert codes(inspected(files)) == ["E811 Dockerfile"]


LINKS = {
    "inside": ("s/a.py", []),
    "out of the folder": ("../../x.py", ["E812 Dockerfile"]),
    "a full path": ("/etc/x.py", ["E812 Dockerfile"]),
    "to nothing": ("nothing.py", ["E812 Dockerfile"]),
    "to itself": ("l.py", ["E812 Dockerfile"]),
}


@pytest.mark.parametrize(("target", "expected"), LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("source", ["l.py", "."], ids=["the link itself", "its folder"])
def test_a_link_must_stay_in_the_context(target: str, expected: list[str], source: str) -> None:
    found = inspected({**BASE, "Dockerfile": f"{PINNED}COPY {source} /w/\n"}, links={"l.py": target})
    assert codes(found) == expected


# --- relative paths ---

RELATIVE = {
    "in another working directory": ("WORKDIR /w\nCOPY s /w/s\nRUN bash /w/s/patch.sh\n", ["E813 patch.sh"]),
    "in the script's own folder by WORKDIR": ("WORKDIR /w/s\nCOPY s /w/s\nRUN bash /w/s/patch.sh\n", []),
    "in the script's own folder by cd": ("WORKDIR /w\nCOPY s /w/s\nRUN cd s && bash patch.sh\n", []),
    "after a cd to elsewhere": ("WORKDIR /w/s\nCOPY s /w/s\nRUN cd / && bash /w/s/patch.sh\n", ["E813 patch.sh"]),
    "a relative WORKDIR": ("WORKDIR /w\nWORKDIR s\nCOPY s .\nRUN ./patch.sh\n", []),
    "a WORKDIR by a variable": ("ENV D=/w\nWORKDIR ${D}/s\nCOPY s .\nRUN ./patch.sh\n", []),
    "a cd in a subshell does not last": (
        "WORKDIR /w\nCOPY s /w/s\nRUN (cd s && ls) && bash s/patch.sh\n",
        ["E813 patch.sh"],
    ),
    "a cd ends with its RUN": ("WORKDIR /w\nCOPY s /w/s\nRUN cd s\nRUN bash s/patch.sh\n", ["E813 patch.sh"]),
    "a redirection": (
        "WORKDIR /w\nCOPY s /w/s\nRUN cat a.py > /usr/lib/python3/dist-packages/a.py\n",
        ["E813 Dockerfile"],
    ),
    "an archive": ("WORKDIR /w\nCOPY s /w/s\nRUN tar -xf s/none.tar -C /opt\n", ["E813 Dockerfile"]),
    "a Python script that goes to its folder": (
        (
            "WORKDIR /w\nCOPY s /w/s\n"
            "RUN python3 -c \"import os, shutil; os.chdir('/w/s'); shutil.copy('a.py', '/opt/a.py')\"\n"
        ),
        [],
    ),
    "a Python script that does not": (
        "WORKDIR /w\nCOPY s /w/s\nRUN python3 -c \"import shutil; shutil.copy('a.py', '/opt/a.py')\"\n",
        ["E813 Dockerfile"],
    ),
    "through a stage": (
        f"WORKDIR /w\nCOPY s /w/s\n{PINNED}AS two\nCOPY --from=0 /w/s /v/s\nWORKDIR /v\nRUN bash s/patch.sh\n".replace(
            "\nAS", " AS"
        ),
        ["E813 patch.sh"],
    ),
    "a stage that goes on": (
        "WORKDIR /w\nCOPY s /w/s\nFROM 0\nRUN bash s/patch.sh\n".replace("FROM 0", "FROM one"),
        ["E813 patch.sh"],
    ),
    "a script that is not there": ("WORKDIR /w\nCOPY s /w/s\nRUN bash /w/s/other.sh\n", ["E810 Dockerfile"]),
    "a relative script that is not there": ("WORKDIR /w\nCOPY s /w/s\nRUN bash patch.sh\n", ["E813 Dockerfile"]),
}


@pytest.mark.parametrize(("dockerfile", "expected"), RELATIVE.values(), ids=RELATIVE)
def test_a_relative_copy_is_looked_for_in_the_directory_in_force(dockerfile: str, expected: list[str]) -> None:
    files = {**BASE, "Dockerfile": PINNED.replace("\n", " AS one\n") + dockerfile}
    assert codes(inspected(files)) == expected


OWN_FOLDER = {
    "dirname of $0": 'cp "$(dirname "$0")/a.py" /opt/a.py',
    "a variable with cd and pwd": 'D="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\ncp "$D/a.py" /opt/a.py',
    "cd to it first": 'cd "$(dirname "$0")"\ncp ./a.py /opt/a.py',
    "readlink": 'D=$(dirname "$(readlink -f "$0")")\ncp "$D"/a.py /opt/',
    "cut off by a pattern": 'cp "${0%/*}/a.py" /opt/',
    "pushd": 'pushd "$(dirname "$0")"\ncp a.py /opt/',
    "only where it is there": "if [ -f a.py ]; then cp a.py /opt/; fi",
    "made before": "echo x > a.py\ncp a.py /opt/",
    "from a variable that nobody knows": 'cp "$SRC/a.py" /opt/',
}


@pytest.mark.parametrize("text", OWN_FOLDER.values(), ids=OWN_FOLDER)
def test_a_path_by_the_script_s_own_folder_is_found(text: str) -> None:
    files = {**BASE, "s/patch.sh": f"set -e\n{text}\n"}
    files["Dockerfile"] = f"{PINNED}WORKDIR /w\nCOPY s /w/s\nRUN bash /w/s/patch.sh\n"
    assert codes(inspected(files)) == []


def test_the_fourth_worked_example() -> None:
    files = {
        "s/patch.sh": "V=/opt/vllm\ncp ./a.py $V/a.py\n",
        "s/a.py": "A = 1\n",
        "Dockerfile": f"{PINNED}WORKDIR /workspace\nCOPY s s\n"
        'RUN bash /workspace/s/patch.sh 2>&1 | tee log ; echo "rc $?"\n',
    }
    found = inspected(files)
    assert codes(found) == ["E801 Dockerfile", "E813 patch.sh"]
    assert [(d.place.line, d.place.column) for d in found if d.place] == [(4, 5), (2, 1)]
    assert found[1].notes == ("it lies at /workspace/s/a.py",)


def test_a_script_of_the_base_image_is_said_to_be_unknown() -> None:
    found = inspected({"Dockerfile": f"{PINNED}RUN bash /opt/vendor/setup.sh\n"})
    assert [(d.code, str(d.severity)) for d in found] == [("W890", "note")]


def test_a_path_by_a_variable_that_nobody_sets_is_said_to_be_unknown() -> None:
    found = inspected({"Dockerfile": f"{PINNED}RUN cp $SRC/a.py /opt/ && bash $SRC/x.sh\n"})
    assert {(d.code, str(d.severity)) for d in found} == {("W890", "note")}
    assert len(found) == 2


# --- git ---


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@x", *arguments], cwd=folder, check=True, capture_output=True
    )


def of_folder(folder: Path) -> tuple[Diagnostic, ...]:
    raw = (folder / "Dockerfile").read_bytes()
    return look(read_folder(folder), read_ignore("", ""), ("Dockerfile", raw), {}, (3, 10))


def test_a_source_that_git_does_not_have_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"{PINNED}COPY a.py b.py c.py /w/\n")
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text("A = 1\n")
    (tmp_path / ".gitignore").write_text("b.py\n")
    assert codes(of_folder(tmp_path)) == []
    git(tmp_path, "init")
    git(tmp_path, "add", "Dockerfile", "a.py", ".gitignore")
    found = of_folder(tmp_path)
    assert codes(found) == ["W811 Dockerfile", "W811 Dockerfile"]
    assert ["ignores" in d.message for d in found] == [True, False]
    git(tmp_path, "add", "-f", "b.py", "c.py")
    assert codes(of_folder(tmp_path)) == []
