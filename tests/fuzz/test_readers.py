"""No input takes a reader down: a few of what the long run tries, what it found, and what no chance finds."""

from __future__ import annotations

import gzip
import io
import itertools
import tarfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.core.diagnostics import Rejected
from orchestrator.inspect.shell import parse_shell
from orchestrator.inspect.text import Chunk
from orchestrator.origin import archive as archives
from orchestrator.origin import layers
from orchestrator.origin.archive import read_package
from orchestrator.origin.image import read_image
from orchestrator.spec.document import MAX_BYTES, read_document
from tests.fuzz import corpus, drive, targets
from tests.fuzz.bounds import TooLong, TooMuchError, bounded
from tests.fuzz.damage import BYTES, Step, damaged, damaged_bytes, mended, steps
from tests.origin.images import docker_save, layer, oci

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROOTS = {"pkg": ["/opt/lib64/pkg", "/opt/lib/pkg"]}


@pytest.mark.parametrize("name", targets.TARGETS)
def test_what_is_nearly_valid_is_read_or_refused(name: str) -> None:
    target = targets.TARGETS[name]

    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(target.inputs)
    def one(value: object) -> None:
        with bounded():
            assert target.check(value) in {"read", "refused"}

    one()


def test_what_the_fuzzing_starts_from_is_valid() -> None:
    """Damage to what is refused anyway would try little."""
    some = corpus.pipelines()[::5]
    assert sum(targets.yaml(text) == "read" for text in some) > len(some) // 2
    assert all(targets.target_file(text) == "read" for text in corpus.targets())
    assert targets.verify((targets.CODE, targets.STAGES, [])) == "read"
    assert sum(targets.archive(content) == "read" for content in corpus.archives()) > len(corpus.archives()) // 2
    for script in (*corpus.SCRIPTS, *corpus.dockerfiles()[:4]):
        assert targets.inspect(targets.Folder("RUN true\n", script, "", "")) in {"read", "refused"}
    assert all(parse_shell(Chunk("x", text))[1] == () for text in corpus.SCRIPTS)


# --- what no chance finds ---

NOTHING = {
    "zeros": b"\0",
    "blanks": b" ",
    "lines": b"\n",
    "comments": b"#\n",
    "brackets": b"[",
    "keys": b"a: &a\n",
    "dashes": b"- ",
    "quotes": b"'",
    "tabs": b"\t",
    "marks": b"\xef\xbb\xbf",
}
MEGABYTES = 10 * 2**20


@pytest.mark.parametrize("filler", NOTHING.values(), ids=NOTHING)
def test_ten_megabytes_of_nothing_are_refused_by_every_reader(filler: bytes) -> None:
    content = filler * (MEGABYTES // len(filler))
    with bounded():
        with pytest.raises(Rejected):
            read_document("a.yaml", content)
        with pytest.raises(Rejected):
            read_package(io.BytesIO(content), "pkg", "pkg")
        with pytest.raises(Rejected):
            read_image(io.BytesIO(content), ROOTS)


ALIASES = {
    "a bomb": "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40)),
    "a bomb of keys": "a0: &a0 {x: 1}\n"
    + "".join(f"a{i}: &a{i} {{l: *a{i - 1}, r: *a{i - 1}}}\n" for i in range(1, 40)),
    "itself": "a: &a [*a]",
    "itself further down": "a: &a {b: [{c: *a}]}",
    "two that hold each other": "a: &a [&b [*a]]\nb: *b",
    "as a key": "&a {a: *a}: 1",
    "merged": "a: &a {b: 1}\nc: {<<: *a, <<: *a}",
    "many of one": "a: &a [1]\nb: [" + "*a, " * 150_000 + "]",
}


@pytest.mark.parametrize("text", ALIASES.values(), ids=ALIASES)
def test_aliases_that_grow_or_turn_in_a_circle_are_refused(text: str) -> None:
    with bounded(), pytest.raises(Rejected) as caught:
        read_document("a.yaml", text.encode()[:MAX_BYTES])
    assert {found.code for found in caught.value.diagnostics} <= {"E103", "E106", "E107", "E108"}


def members(number: int, name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> bytes:
    """Return a tar with many empty members."""
    made = io.BytesIO()
    for at in range(number):
        member = tarfile.TarInfo(name % at)
        member.type, member.linkname = kind, target
        made.write(member.tobuf())
    return made.getvalue() + bytes(10240)


def claiming(size: int, name: str = "opt/lib/pkg/big.bin") -> bytes:
    """Return a tar whose one member is said to be larger than all that follows."""
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT) + b"x" * 20_000


def below_zero(kind: bytes) -> bytes:
    """Return a tar with a header whose size is negative, which would send a reader back to where it was."""
    member = tarfile.TarInfo("opt/lib/pkg/x.py")
    member.type = kind
    block = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = b"\xff" * 10 + b"\xfc\x00"
    return mended(bytes(block)) + layer(corpus.MEMBERS)


def long_header(kind: str) -> bytes:
    """Return a packed tar with an extension header of 100 MB: small to send, large to hold."""
    member = tarfile.TarInfo("opt/lib/pkg/__init__.py")
    if kind == "pax":
        member.pax_headers = {"comment": "x" * (100 * 2**20)}
        return gzip.compress(member.tobuf(tarfile.PAX_FORMAT) + bytes(10240), 1)
    member.name = f"opt/lib/pkg/{'n' * (100 * 2**20)}.py"
    return gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(10240), 1)


def bomb(levels: int) -> bytes:
    """Return zeros packed again and again."""
    content = layer({"opt/lib/pkg/__init__.py": b"", "zeros": bytes(64 * 2**20)})
    for _ in range(levels):
        content = gzip.compress(content, 9)
    return content


HOSTILE: dict[str, Callable[[], bytes]] = {
    "a member of an exabyte": lambda: claiming(2**60),
    "a source of an exabyte": lambda: claiming(2**60, "opt/lib/pkg/a.py"),
    "a member of an exabyte, packed": lambda: gzip.compress(claiming(2**60)),
    "a member of an exabyte in a layer": lambda: layer(oci([claiming(2**60)])),
    "a negative size": lambda: below_zero(tarfile.REGTYPE),
    "a long name of negative size": lambda: below_zero(tarfile.GNUTYPE_LONGNAME),
    "an extended header of negative size": lambda: below_zero(tarfile.XHDTYPE),
    "a negative size in a layer": lambda: layer(oci([below_zero(tarfile.XHDTYPE)])),
    "a negative size around the layers": lambda: below_zero(tarfile.XHDTYPE) + layer(oci([layer(corpus.MEMBERS)])),
    "a header of 100 MB": lambda: long_header("pax"),
    "a name of 100 MB": lambda: long_header("gnu"),
    "packed twice": lambda: gzip.compress(gzip.compress(layer(corpus.MEMBERS))),
    "a bomb": lambda: bomb(1),
    "a bomb in a bomb": lambda: bomb(3),
    "a hole of a gigabyte": corpus.sparse_old,
    "a hole of a gigabyte, as POSIX has it": corpus.sparse_new,
    "a layer that holds itself": lambda: docker_save([b""]),
    "links in a ring": lambda: layer(
        {f"opt/lib/pkg/l{at}": (tarfile.SYMTYPE, f"l{(at + 1) % 500}") for at in range(500)}
    ),
    "hard links in a ring": lambda: layer(
        {f"opt/lib/pkg/l{at}.py": (tarfile.LNKTYPE, f"opt/lib/pkg/l{(at + 1) % 500}.py") for at in range(500)}
    ),
    "a link to the root": lambda: layer({"opt/lib/pkg": (tarfile.SYMTYPE, "/"), "x.py": b""}),
    "a root below itself": lambda: layer({"opt/lib/pkg/__init__.py": b"", "opt/lib/pkg/pkg": (tarfile.SYMTYPE, ".")}),
    "an absolute link": lambda: layer(
        {"opt/lib/pkg/__init__.py": b"", "opt/lib/pkg/a.py": (tarfile.SYMTYPE, "/dev/zero")}
    ),
    "an absolute hard link": lambda: layer({"opt/lib/pkg/a.py": (tarfile.LNKTYPE, "/etc/passwd")}),
    "a name that leaves": lambda: layer({"opt/lib/pkg/../../../etc/a.py": b""}),
    "folders without end": lambda: layer({f"opt/lib/pkg/{'d/' * 1800}a.py": b""}),
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_an_archive_made_to_do_harm_ends_soon_and_small(make: Callable[[], bytes], tmp_path: Path) -> None:
    content = make()
    with bounded():
        assert targets.archive(content) in {"read", "refused"}
    (tmp_path / "x.tar").write_bytes(content)
    with bounded():
        assert targets.tried(lambda: read_package(tmp_path / "x.tar", "pkg", "pkg")) in {"read", "refused"}


@pytest.mark.parametrize(
    ("name", "kind"), [("opt/lib/pkg/f%d.py", tarfile.REGTYPE), ("x/l%d", tarfile.SYMTYPE), (".wh.%d", tarfile.REGTYPE)]
)
def test_members_without_end_are_counted_and_refused(name: str, kind: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_MEMBERS", 1000)
    monkeypatch.setattr(layers, "MAX_NAMES", 1000)
    packed = gzip.compress(members(5000, name, kind, "y"), 1)
    for read in (lambda: read_package(io.BytesIO(packed), "pkg", "pkg"), lambda: read_image(io.BytesIO(packed), ROOTS)):
        with pytest.raises(Rejected, match="more than 1,000"):
            read()


# --- the tools of the long run ---


@given(st.text(max_size=200), steps())
def test_damage_is_the_same_each_time(text: str, changes: list[Step]) -> None:
    assert damaged(text, changes) == damaged(text, changes)


@given(st.binary(max_size=200), steps(BYTES))
def test_damage_to_bytes_never_fails(content: bytes, changes: list[Step]) -> None:
    mended(damaged_bytes(content, changes))


def test_a_header_that_was_changed_is_believed_once_it_is_mended() -> None:
    whole = bytearray(layer({"a": b"x"}))
    whole[0:1] = b"b"
    with pytest.raises(tarfile.ReadError):
        tarfile.TarFile(fileobj=io.BytesIO(bytes(whole)))
    with tarfile.open(fileobj=io.BytesIO(mended(bytes(whole)))) as archive:
        assert archive.getnames() == ["b"]


def test_a_hang_and_a_flood_are_failures() -> None:
    with pytest.raises(TooLong), bounded(seconds=1):
        for _ in itertools.repeat(0):  # a signal is heard between two steps of Python, not inside of one
            pass
    with pytest.raises(TooMuchError), bounded(memory=2**24):
        assert len(b"x" * 2**27) == 2**27


def test_a_failure_is_written_down_and_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(value: object) -> str:
        assert value != "b"
        return "read"

    monkeypatch.setitem(targets.TARGETS, "demo", targets.Target(st.sampled_from("ab"), fails))
    monkeypatch.setattr(drive, "TURN", 0.01)
    log = tmp_path / "fuzz.jsonl"
    assert drive.turn("demo", 1, log) == 1
    assert drive.turn("template", 1, log) == 0
    records = [line.split('"')[1] for line in log.read_text().splitlines()]
    assert records == ["failure", "target", "target"]
