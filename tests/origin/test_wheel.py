"""Wheels: from the workspace, from an index on the loopback device, from the cache; what is refused, and why."""

from __future__ import annotations

import functools
import io
import stat
import zipfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.diagnostics import Rejected
from orchestrator.core.digest import digest
from orchestrator.origin.wheel import (
    find_in_workspace,
    read_wheel,
    unclaimed,
    wheel_of_index,
    wheel_of_workspace,
)
from orchestrator.origin.workspace import WorkspaceFiles
from tests.origin.test_sdist import QUIET, only, refused, sdist, serving, unreachable
from tests.wheels import unzipped, wheel, wheel_file, zipped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = {"demo/__init__.py": b"VALUE = 1\n", "demo/deep/data.txt": b"1\r\n", "other/__init__.py": b""}
TREE = {path: content for path, content in FILES.items() if path.startswith("demo/")}
FILE = wheel_file("demo", "1.0")
GOOD = wheel("demo", "1.0", FILES)
OTHER = wheel("demo", "1.0", {**FILES, "demo/__init__.py": b"VALUE = 2\n"})
SHA = digest(GOOD)


def site(folder: Path, *names: str) -> Path:
    """Lay an index that has files of these names."""
    page = folder / "simple" / "demo"
    page.mkdir(parents=True)
    (folder / "files").mkdir()
    for name in names:
        (folder / "files" / name).write_bytes(GOOD if name.endswith(".whl") else sdist())
    page.joinpath("index.html").write_text("".join(f'<a href="/files/{n}">{n}</a>' for n in names), encoding="utf-8")
    return folder


def of_index(cache: Path, url: str, expected: str | None = None) -> Callable[[], object]:
    return functools.partial(wheel_of_index, "demo==1.0", cache, expected, ["demo"], environment=only(f"{url}/simple"))


@pytest.fixture
def files(tmp_path: Path) -> WorkspaceFiles:
    (tmp_path / "workspace" / "wheels").mkdir(parents=True)
    return WorkspaceFiles((tmp_path / "workspace").resolve())


def put(files: WorkspaceFiles, content: bytes = GOOD, name: str = FILE) -> str:
    (files.root / "wheels" / name).write_bytes(content)
    return f"wheels/{name}"


@pytest.mark.parametrize("tags", ["py3-none-any", "py2.py3-none-any"])
def test_an_index_is_asked_once_and_then_never_again(tmp_path: Path, tags: str) -> None:
    with serving(site(tmp_path / "site", wheel_file("demo", "1.0", tags), "demo-1.0.tar.gz")) as (url, asked):
        got = wheel_of_index("demo==1.0", tmp_path, None, ["demo", "vllm"], environment=only(f"{url}/simple"))
        before = list(asked)
        again = wheel_of_index("demo==1.0", tmp_path, SHA, ["demo"], environment=only(f"{url}/simple"))
        assert asked == before
    offline = wheel_of_index("demo==1.0", tmp_path, SHA, ["demo"], offline=True, environment=QUIET)
    for found in (got, again, offline):
        assert (found.name, found.version, found.file, found.sha256) == ("demo", "1.0", FILE, SHA)
        assert {root: dict(held) for root, held in found.packages.items()} == {"demo": TREE}
        assert found.content == GOOD
    assert (tmp_path / "wheel" / FILE).read_bytes() == GOOD


def test_offline_and_nothing_cached_says_where_to_put_it(tmp_path: Path) -> None:
    call = functools.partial(wheel_of_index, "demo==1.0", tmp_path, None, ["demo"], offline=True, environment=QUIET)
    (found,) = refused(call)
    assert found.code == "E301"
    assert "pure-Python wheel demo==1.0" in found.message
    assert str(tmp_path / "wheel" / FILE) in found.help


def test_an_index_that_does_not_answer_is_not_one_that_says_no(tmp_path: Path) -> None:
    call = functools.partial(wheel_of_index, "demo==1.0", tmp_path, None, ["demo"], environment=only(unreachable()))
    assert [d.code for d in refused(call)] == ["E301"]


@pytest.mark.parametrize("name", ["demo-1.0.tar.gz", "demo-1.0-cp310-cp310-manylinux_2_28_x86_64.whl"])
def test_what_would_have_to_be_built_or_fits_one_platform_only_is_refused_by_name(tmp_path: Path, name: str) -> None:
    with serving(site(tmp_path / "site", name)) as (url, asked):
        (found,) = refused(of_index(tmp_path / "cache", url))
    assert found.code == "E303"
    assert f"it has {name}" in found.notes
    assert "Nothing is built here" in found.help
    assert not any(path.endswith(name) for path in asked), "it was not even fetched"


def test_another_wheel_than_the_locked_one_is_refused_and_not_kept(tmp_path: Path) -> None:
    with serving(site(tmp_path / "site", FILE)) as (url, _):
        (found,) = refused(of_index(tmp_path / "cache", url, digest(OTHER)))
    assert found.code == "E302"
    assert not list(tmp_path.glob("cache/wheel/*.whl"))


def test_a_tampered_cache_is_refilled_once_and_said_so(tmp_path: Path) -> None:
    with serving(site(tmp_path / "site", FILE)) as (url, _):
        environment = only(f"{url}/simple")
        wheel_of_index("demo==1.0", tmp_path / "cache", None, ["demo"], environment=environment)
        (tmp_path / "cache/wheel" / FILE).write_bytes(OTHER)
        found = wheel_of_index("demo==1.0", tmp_path / "cache", None, ["demo"], environment=environment)
    assert found.sha256 == SHA
    assert [d.code for d in found.notices] == ["E302"]


def test_a_wheel_of_the_workspace_is_found_by_name_and_version(files: WorkspaceFiles) -> None:
    assert find_in_workspace(files, "demo", "1.0") is None
    path = put(files)
    put(files, name=wheel_file("demo", "2.0"))
    assert find_in_workspace(files, "Demo", "1.0.0") == path
    found = wheel_of_workspace(files, path, SHA, ["demo"])
    assert dict(found.packages["demo"]) == TREE


def test_two_wheels_that_fit_one_name_are_refused(files: WorkspaceFiles) -> None:
    put(files)
    put(files, name=wheel_file("demo", "1.0", "cp310-cp310-linux_x86_64"))
    (found,) = refused(lambda: find_in_workspace(files, "demo", "1.0"))
    assert found.code == "E311"


def test_a_wheel_of_the_workspace_that_was_changed_is_refused(files: WorkspaceFiles) -> None:
    path = put(files, OTHER)
    (found,) = refused(lambda: wheel_of_workspace(files, path, SHA, ["demo"]))
    assert found.code == "E302"
    assert SHA in repr(found.notes)


def test_a_wheel_that_nobody_names_is_reported_by_name(files: WorkspaceFiles) -> None:
    path = put(files)
    stray = put(files, name="no wheel's name.whl")
    assert [(d.code, d.place.file if d.place else "") for d in unclaimed(files, {path})] == [("E311", stray)]
    assert unclaimed(files, {path, stray}) == ()


def test_a_workspace_without_the_folder_has_no_wheels(tmp_path: Path) -> None:
    files = WorkspaceFiles(tmp_path.resolve())
    assert unclaimed(files, ()) == ()
    assert find_in_workspace(files, "demo", "1.0") is None


def altered(change: Callable[[dict[str, bytes]], object]) -> bytes:
    members = unzipped(GOOD)
    change(members)
    return zipped(members)


RECORD, METADATA = "demo-1.0.dist-info/RECORD", "demo-1.0.dist-info/METADATA"
UNUSABLE = {
    "a changed file": (altered(lambda m: m.update({"demo/__init__.py": b"import os\n"})), "E310", "another digest"),
    "an added file": (altered(lambda m: m.update({"demo/more.py": b""})), "E310", "demo/more.py has no digest"),
    "a file that went": (altered(lambda m: m.pop("demo/deep/data.txt")), "E310", "in the RECORD, but not there"),
    "no RECORD": (altered(lambda m: m.pop(RECORD)), "E304", "0 files RECORD"),
    "no METADATA": (altered(lambda m: m.pop(METADATA)), "E304", "0 files METADATA"),
    "another name inside": (wheel("omed", "1.0", FILES), "E310", "says inside that it is omed==1.0"),
    "another version inside": (wheel("demo", "1.1", FILES), "E310", "says inside that it is demo==1.1"),
    "a file outside": (altered(lambda m: m.update({"../evil.py": b""})), "E304", "'../evil.py'"),
    "no version inside": (altered(lambda m: m.update({METADATA: b"Name: demo\nVersion: new\n"})), "E304", "Invalid"),
    "no zip": (b"PK, or so", "E304", "damaged"),
    "cut off": (GOOD[:-100], "E304", "damaged"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_wheel_that_is_not_what_it_says_is_refused(case: str) -> None:
    content, code, said = UNUSABLE[case]
    (found,) = refused(lambda: read_wheel(FILE, content, ["demo"]))
    assert found.code == code
    assert said in f"{found.message} {found.notes}"


@given(st.data())
def test_no_single_changed_byte_goes_unnoticed_or_ends_in_a_traceback(data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(GOOD) - 1))
    changed = bytearray(GOOD)
    changed[position] ^= data.draw(st.integers(1, 255))
    found = outcome(bytes(changed))
    assert found in ({"E304"}, {"E310"}, {"demo": TREE})


def outcome(content: bytes) -> object:
    try:
        found = read_wheel(FILE, content, ["demo"])
    except Rejected as error:
        return {d.code for d in error.diagnostics}
    return {root: dict(held) for root, held in found.packages.items()}


def test_a_size_that_the_archive_only_states_is_noticed() -> None:
    """A file that is listed as huge would be left out for its size, though it is small."""
    listed = GOOD.rindex(b"PK\x01\x02", 0, GOOD.rindex(b"demo/deep/data.txt"))
    changed = bytearray(GOOD)
    changed[listed + 24 + 3] ^= 1  # the highest byte of the size in the list of files
    assert outcome(bytes(changed)) == {"E310"}


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFDIR, stat.S_IFCHR])
def test_a_member_of_a_special_kind_is_refused(kind: int) -> None:
    """A bit in the archive's list of files makes a file a pipe, which readers of archives pass over."""
    with zipfile.ZipFile(io.BytesIO(GOOD)) as archive:
        entries = [(info, archive.read(info)) for info in archive.infolist()]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for info, content in entries:
            if info.filename == "demo/deep/data.txt":
                info.external_attr = (kind | 0o644) << 16
            archive.writestr(info, content)
    assert outcome(made.getvalue()) == {"E304"}
