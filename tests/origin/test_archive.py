"""Archives as they come, and archives made to do harm."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.diagnostics import Diagnostic, Rejected, Severity
from orchestrator.origin.archive import read_package
from orchestrator.origin.base import Base, Limits
from tests.origin.images import layer as tar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PLAIN: dict[str, bytes] = {"p-1/demo/__init__.py": b"", "p-1/demo/a.py": b"A = 1\r\n", "p-1/setup.py": b"x"}


def zipped(files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        for name, target in (links or {}).items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, target)
    return packed.getvalue()


def read(data: bytes, limits: Limits | None = None) -> tuple[Base, tuple[Diagnostic, ...]]:
    return read_package(io.BytesIO(data), "demo", "demo", limits or Limits())


def refusal(data: bytes, limits: Limits | None = None) -> Diagnostic:
    with pytest.raises(Rejected) as caught:
        read(data, limits)
    (found,) = caught.value.diagnostics
    assert found.code == "E304"
    assert found.help
    return found


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_every_usual_tar_is_read_byte_for_byte(mode: str, tmp_path: Path) -> None:
    data = tar(PLAIN, mode)
    base, found = read(data)
    assert (dict(base.tree), found) == ({"demo/__init__.py": b"", "demo/a.py": b"A = 1\r\n"}, ())
    (tmp_path / "x").write_bytes(data)
    assert read_package(tmp_path / "x", "demo", "demo")[0].tree == base.tree


def test_a_zip_is_read_byte_for_byte() -> None:
    assert dict(read(zipped(PLAIN))[0].tree) == {"demo/__init__.py": b"", "demo/a.py": b"A = 1\r\n"}


def test_what_the_tar_command_writes_into_a_pipe_is_read(tmp_path: Path) -> None:
    (tmp_path / "demo" / "sub").mkdir(parents=True)
    (tmp_path / "demo" / "__init__.py").write_bytes(b"")
    (tmp_path / "demo" / "sub" / ("n" * 90 + ".py")).write_bytes(b"B = 2\n")
    for form in ("gnu", "posix", "ustar"):
        command = ["tar", "-C", str(tmp_path), f"--format={form}", "-c", "demo"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            base, found = read_package(child.stdout, "demo", "demo")
        assert child.returncode == 0
        assert set(base.tree) == {"demo/__init__.py", f"demo/sub/{'n' * 90}.py"}
        assert found == ()


@given(st.dictionaries(st.from_regex(r"[a-z]{1,4}(/[a-z]{1,4}){0,2}\.py", fullmatch=True), st.binary(max_size=2000)))
def test_any_package_comes_back_as_it_was_packed(files: dict[str, bytes]) -> None:
    files = {**files, "__init__.py": b""}
    want = {f"demo/{name}": content for name, content in files.items()}
    packed = {f"top/{name}": content for name, content in want.items()}
    for data in (tar(packed, "w:gz"), tar(packed), zipped(packed)):
        assert dict(read(data)[0].tree) == want


@pytest.mark.parametrize("name", ["../evil.py", "p-1/demo/../../evil.py", "/etc/evil.py", "/p-1/demo/a.py"])
def test_a_name_that_leaves_refuses_the_whole_archive(name: str) -> None:
    assert name in refusal(tar({**PLAIN, name: b"x"})).message
    assert name in refusal(zipped({**PLAIN, name: b"x"})).message
    assert "evil" in refusal(tar({**PLAIN, "p-1/demo/h.py": (tarfile.LNKTYPE, "../evil")})).message


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../etc/passwd", "../setup.py", "../demo/../../x", "self.py"])
def test_a_link_that_leaves_the_package_is_a_finding_and_not_read(target: str) -> None:
    link = {"p-1/demo/self.py": (tarfile.SYMTYPE, target)}
    for data in (tar({**PLAIN, **link}), zipped(PLAIN, {"p-1/demo/self.py": target})):
        base, (found,) = read(data)
        assert (found.code, str(found.place)) == ("E305", "demo/self.py")
        assert "demo/self.py" not in base.tree


def test_links_inside_the_package_are_followed() -> None:
    links: dict[str, bytes | tuple[bytes, str]] = {
        "p-1/demo/one.py": (tarfile.SYMTYPE, "a.py"),
        "p-1/demo/two.py": (tarfile.SYMTYPE, "../demo/one.py"),
        "p-1/demo/hard.py": (tarfile.LNKTYPE, "p-1/demo/a.py"),
        "p-1/demo/sub/b.py": b"B",
        "p-1/demo/alias": (tarfile.SYMTYPE, "sub"),
        "p-1/demo/sub/up": (tarfile.SYMTYPE, ".."),
    }
    base, found = read(tar({**PLAIN, **links}))
    assert found == ()
    assert {base.tree[f"demo/{n}.py"] for n in ("a", "one", "two", "hard")} == {b"A = 1\r\n"}
    assert base.tree["demo/alias/b.py"] == b"B"
    assert base.left_out == ("demo/alias/up", "demo/sub/up")


def test_a_link_to_nothing_is_a_warning() -> None:
    _, (found,) = read(tar({**PLAIN, "p-1/demo/.#a.py": (tarfile.SYMTYPE, "someone@host")}))
    assert (found.code, found.severity) == ("E306", Severity.WARNING)


def test_a_hard_link_to_what_is_not_in_the_package_is_a_finding() -> None:
    base, (found,) = read(tar({**PLAIN, "p-1/demo/h.py": (tarfile.LNKTYPE, "p-1/setup.py")}))
    assert found.code == "E305"
    assert "demo/h.py" not in base.tree


def test_a_member_under_a_link_refuses_the_archive() -> None:
    refusal(tar({**PLAIN, "p-1/demo/out": (tarfile.SYMTYPE, "/etc"), "p-1/demo/out/cron.py": b"x"}))


def test_devices_and_pipes_are_named_and_left_out() -> None:
    kinds = {"chr.py": tarfile.CHRTYPE, "blk.py": tarfile.BLKTYPE, "fifo.py": tarfile.FIFOTYPE}
    base, found = read(tar({**PLAIN, **{f"p-1/demo/{name}": (kind, "") for name, kind in kinds.items()}}))
    assert found == ()
    assert base.left_out == ("demo/blk.py", "demo/chr.py", "demo/fifo.py")


def test_bytecode_compiled_and_large_files_are_named_and_left_out() -> None:
    more = {"__pycache__/a.cpython-310.pyc": b"c", "b.pyc": b"c", "_C.abi3.so": b"e", "big.json": b"x" * 101}
    base, _ = read(tar({**PLAIN, **{f"p-1/demo/{n}": c for n, c in more.items()}}), Limits(file=100))
    assert set(base.tree) == {"demo/__init__.py", "demo/a.py"}
    assert base.left_out == ("demo/_C.abi3.so", "demo/__pycache__", "demo/b.pyc", "demo/big.json")
    assert base.compiled == {"demo._C"}


def test_a_bomb_is_stopped_by_what_comes_out_of_it() -> None:
    zeros = {**PLAIN, "p-1/elsewhere": bytes(3_000_000)}
    for mode in ("w:gz", "w:bz2", "w:xz"):
        assert "1,000,000" in refusal(tar(zeros, mode), Limits(unpacked=1_000_000)).message
    assert read(tar(zeros), Limits(unpacked=1_000_000))[0].tree, "a plain tar is as large as it looks"


def test_too_much_source_in_all_is_refused() -> None:
    many = {**PLAIN, **{f"p-1/demo/m{i}.py": bytes(90) for i in range(20)}}
    for data in (tar(many, "w:gz"), zipped(many)):
        assert "1,000" in refusal(data, Limits(file=100, kept=1000)).message


def test_a_zip_that_lies_about_a_size_is_refused() -> None:
    data = bytearray(zipped({**PLAIN, "p-1/demo/z.py": bytes(5000)}))
    for at in range(len(data) - 4):
        if data[at : at + 4] == (5000).to_bytes(4, "little"):
            data[at : at + 4] = (50).to_bytes(4, "little")
    refusal(bytes(data))


def test_folders_linked_into_each_other_end() -> None:
    names = "abcdefghi"
    links = {f"p-1/demo/{x}/to_{y}": (tarfile.SYMTYPE, f"../{y}") for x in names for y in names}
    refusal(tar({**PLAIN, **links}))


def test_very_deep_folders_are_refused() -> None:
    refusal(tar({**PLAIN, f"p-1/demo/{'d/' * 1500}x.py": b""}))


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@given(part=st.floats(0, 0.999))
def test_a_truncated_archive_never_passes_for_a_whole_one(mode: str, part: float) -> None:
    data = tar({f"p-1/demo/{n}.py": os.urandom(700) for n in ("__init__", "a", "b", "c")}, mode)
    end = len(data.rstrip(b"\0")) if mode == "w" else len(data) - 1  # the end of a plain tar is padded with zeros
    refusal(data[: int(end * part)])


def test_a_header_broken_in_the_middle_is_not_the_end() -> None:
    data = bytearray(tar(PLAIN))
    data[512 + 148 : 512 + 156] = b"\xff" * 8
    refusal(bytes(data))


@pytest.mark.parametrize("data", [b"", b"PK", b"hello" * 300, bytes(10240), b"\x1f\x8b"])
def test_what_is_no_archive_is_said_so(data: bytes) -> None:
    refusal(data)


def test_an_archive_that_does_not_exist_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="E304"):
        read_package(tmp_path / "none.tar", "demo", "demo")
    with pytest.raises(Rejected, match="E304"):
        read_package(tmp_path, "demo", "demo")


def test_the_shallowest_package_counts_and_a_checkout_around_it_does_not() -> None:
    shallow = {"x/demo/__init__.py": b"1", "x/docs/demo/__init__.py": b"2"}
    assert dict(read(tar(shallow))[0].tree) == {"demo/__init__.py": b"1"}
    checkout = {"demo/setup.py": b"", "demo/demo/__init__.py": b"1", "demo/demo/demo/__init__.py": b"2"}
    assert read(tar(checkout))[0].tree == {"demo/__init__.py": b"1", "demo/demo/__init__.py": b"2"}


def test_two_packages_at_one_depth_are_ambiguous() -> None:
    assert refusal(tar({"a/demo/__init__.py": b"", "b/demo/__init__.py": b""})).notes == ("a/demo", "b/demo")


def test_a_missing_package_suggests_one_that_is_there() -> None:
    assert refusal(tar({"x/demos/__init__.py": b""})).help == "did you mean 'demos'?"


def test_a_file_name_that_is_no_text_is_a_finding() -> None:
    base, found = read(tar({**PLAIN, "p-1/demo/\udcff.py": b"", "p-1/demo/a\nb.py": b""}))
    assert [d.code for d in found] == ["E306", "E306"]
    assert base.tree.digest
    assert repr(found).encode()
