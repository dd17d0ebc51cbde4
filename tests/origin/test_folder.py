"""Folders on this machine, with everything that a file system may hold."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from orchestrator.core.diagnostics import Diagnostic, Rejected, Severity
from orchestrator.origin.base import Limits
from orchestrator.origin.folder import read_folder

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives up root's rights, so it needs them")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "demo"
    (folder / "sub").mkdir(parents=True)
    (folder / "__init__.py").write_bytes(b"")
    (folder / "sub" / "a.py").write_bytes(b"\xef\xbb\xbfA = 1\r\n# no newline")
    (folder / "data.bin").write_bytes(bytes(range(256)))
    return folder


def refusal(path: Path) -> Diagnostic:
    with pytest.raises(Rejected) as caught:
        read_folder(path, "demo")
    (found,) = caught.value.diagnostics
    assert found.help
    return found


def test_every_byte_is_kept(package: Path) -> None:
    base, found = read_folder(package, "demo")
    want = {"__init__.py": b"", "sub/a.py": b"\xef\xbb\xbfA = 1\r\n# no newline", "data.bin": bytes(range(256))}
    assert (dict(base.tree), found) == ({f"demo/{name}": content for name, content in want.items()}, ())
    assert (base.sha256, base.left_out, base.compiled) == (None, (), frozenset())


def test_a_folder_reached_through_a_link_reads_the_same(package: Path) -> None:
    link = package.parent / "link"
    link.symlink_to(package)
    assert read_folder(link, "demo")[0].tree == read_folder(package, "demo")[0].tree


def test_links_are_followed_inside_and_refused_outside(package: Path) -> None:
    outside = package.parent / "demo-secret.py"  # its path begins like the package's
    outside.write_bytes(b"secret")
    (package / "in.py").symlink_to("sub/a.py")
    (package / "absolute.py").symlink_to(package / "sub" / "a.py")
    (package / "alias").symlink_to("sub")
    (package / "sub" / "up").symlink_to("..")
    (package / "out.py").symlink_to(outside)
    (package / "via.py").symlink_to("out.py")
    (package / "outdir").symlink_to("/etc")
    base, found = read_folder(package, "demo")
    for name in ("in.py", "absolute.py", "alias/a.py"):
        assert base.tree[f"demo/{name}"] == base.tree["demo/sub/a.py"]
    assert [(d.code, str(d.place)) for d in found] == [("E305", f"demo/{n}") for n in ("out.py", "outdir", "via.py")]
    assert b"secret" not in base.tree.values()
    assert base.left_out == ("demo/alias/up", "demo/sub/up")


def test_links_to_nothing_and_in_circles_do_not_stop_the_rest(package: Path) -> None:
    (package / ".#a.py").symlink_to("someone@host.1234")
    (package / "circle.py").symlink_to("circle.py")
    base, found = read_folder(package, "demo")
    assert [(d.code, d.severity) for d in found] == [("E306", Severity.WARNING), ("E306", Severity.ERROR)]
    assert len(base.tree) == 3


def test_what_is_no_source_is_named_and_left_out(package: Path) -> None:
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "a.pyc").write_bytes(b"x")
    (package / "old.pyc").write_bytes(b"x")
    (package / "_C.cpython-310-x86_64-linux-gnu.so").write_bytes(b"x")
    (package / "sub" / "_ops.abi3.so").write_bytes(b"x")
    (package / "big.json").write_bytes(bytes(1001))
    os.mkfifo(package / "pipe.py")
    with socket.socket(socket.AF_UNIX) as unix, tempfile.TemporaryDirectory() as short:
        unix.bind(f"{short}/s")
        Path(short, "s").rename(package / "socket.py")
        base, found = read_folder(package, "demo", Limits(file=1000))
    assert found == ()
    assert len(base.tree) == 3
    assert set(base.left_out) == {
        "demo/__pycache__", "demo/old.pyc", "demo/_C.cpython-310-x86_64-linux-gnu.so", "demo/sub/_ops.abi3.so",
        "demo/big.json", "demo/pipe.py", "demo/socket.py",
    }  # fmt: skip
    assert base.compiled == {"demo._C", "demo.sub._ops"}


def test_names_that_are_no_text_are_findings(package: Path) -> None:
    Path(os.fsdecode(bytes(package) + b"/\xff.py")).write_bytes(b"")
    (package / "a\nb.py").write_bytes(b"")
    base, found = read_folder(package, "demo")
    assert [d.code for d in found] == ["E306", "E306"]
    assert base.tree.digest
    assert "".join(d.message for d in found).encode()


def test_too_much_source_is_refused(package: Path) -> None:
    with pytest.raises(Rejected, match="E304"):
        read_folder(package, "demo", Limits(kept=100))


def test_folders_nested_without_end_are_refused(package: Path) -> None:
    folder = package
    for _ in range(100):
        folder /= "d"
        folder.mkdir()
    with pytest.raises(Rejected, match="E304"):
        read_folder(package, "demo")


@as_root
def test_files_and_folders_without_permission_are_findings(package: Path) -> None:
    (package / "locked").mkdir(mode=0)
    (package / "secret.py").write_bytes(b"x")
    (package / "secret.py").chmod(0)
    program = (
        "import sys, pathlib; sys.path[:0] = sys.argv[2:]; from orchestrator.origin.folder import read_folder\n"
        "base, found = read_folder(pathlib.Path(sys.argv[1]), 'demo')\n"
        "print(*(f'{d.code} {d.place} {d.severity}' for d in found), len(base.tree), sep='\\n')"
    )
    package.parent.chmod(0o755)
    with tempfile.TemporaryDirectory() as reachable:
        Path(reachable).chmod(0o755)
        moved = package.rename(Path(reachable, "demo"))
        root = Path(__file__).parents[2]
        command = [
            "setpriv",
            "--reuid=65534",
            "--clear-groups",
            sys.executable,
            "-B",
            "-c",
            program,
            str(moved),
            str(root),
        ]
        child = subprocess.run(command, capture_output=True, text=True, check=True)
    assert child.stdout.split("\n")[:3] == ["E306 demo/locked error", "E306 demo/secret.py error", "3"]


@as_root
def test_a_top_folder_without_permission_is_an_error_and_no_traceback(package: Path) -> None:
    package.chmod(0)
    program = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[2]); from orchestrator.origin.folder import *\n"
        "try: read_folder(pathlib.Path(sys.argv[1]), 'demo')\nexcept Rejected as e: print(e)"
    )
    root = Path(__file__).parents[2]
    command = [
        "setpriv",
        "--reuid=65534",
        "--clear-groups",
        sys.executable,
        "-B",
        "-c",
        program,
        str(package),
        str(root),
    ]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    assert child.stdout.startswith("E306")


def test_a_folder_that_is_not_there_or_no_folder_is_said_so(package: Path) -> None:
    assert refusal(package / "none").code == "E307"
    assert refusal(package / "__init__.py").code == "E307"


def test_the_folder_around_the_package_suggests_the_package(package: Path) -> None:
    found = refusal(package.parent)
    assert (found.code, found.help) == ("E307", f"did you mean '{package}'?")
    (package.parent / "setup.py").write_bytes(b"")
    assert refusal(package.parent).help == found.help


def test_a_folder_without_python_is_said_so(tmp_path: Path) -> None:
    assert refusal(tmp_path).code == "E307"


def test_a_package_without_init_is_a_package(package: Path) -> None:
    (package / "__init__.py").rename(package / "module.py")
    assert len(read_folder(package, "demo")[0].tree) == 3
