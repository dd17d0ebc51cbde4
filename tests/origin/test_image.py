"""Images as they are saved, exported and laid out, and images made to do harm."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.core.diagnostics import Diagnostic, Rejected
from orchestrator.origin import image as reader
from orchestrator.origin.base import Limits
from orchestrator.origin.image import InImage, read_image
from orchestrator.origin.packed import Blob
from tests.origin.images import FOLDER, Member, blob_name, docker_save, hard, layer, link, oci, several, written

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from orchestrator.origin.layers import Layer, Wanted

PACKERS = [
    pytest.param(gzip.compress, id="gzip"),
    pytest.param(bz2.compress, id="bzip2"),
    pytest.param(lzma.compress, id="xz"),
    pytest.param(zstd.compress, id="zstd"),
]
ROOTS = {"pkg": ["/opt/lib/pkg"]}
BASE: dict[str, Member] = {
    "opt": FOLDER,
    "opt/lib": FOLDER,
    "opt/lib/pkg": FOLDER,
    "opt/lib/pkg/__init__.py": b"",
    "opt/lib/pkg/a.py": b"A = 1\n",
    "opt/lib/pkg/sub/b.py": b"B = 1\n",
    "etc/passwd": b"root",
}


def files(found: InImage, root: str = "pkg") -> dict[str, bytes]:
    return {path.removeprefix(f"{root}/"): content for path, content in found.bases[root].tree.items()}


def read(*layers: Mapping[str, Member], roots: Mapping[str, Sequence[str]] | None = None) -> InImage:
    """Read an image of these layers, the oldest first."""
    archive = layer(oci([layer(members) for members in layers]))
    return read_image(io.BytesIO(archive), roots or ROOTS)


def refusal(archive: bytes, **more: object) -> Diagnostic:
    with pytest.raises(Rejected) as caught:
        read_image(io.BytesIO(archive), ROOTS, **more)  # type: ignore[arg-type] # options by name
    (found,) = caught.value.diagnostics
    assert found.code == "E304"
    assert found.help
    return found


def test_every_way_to_save_an_image_gives_the_same_tree(tmp_path: Path) -> None:
    layers = [layer(BASE), layer({"opt/lib/pkg/a.py": b"A = 2\n"}), layer(BASE)]
    want = {"__init__.py": b"", "a.py": b"A = 1\n", "sub/b.py": b"B = 1\n"}
    saved = {
        "layout.tar": layer(oci(layers)),
        "plain-layout.tar": layer(oci(layers, packed=False)),
        "saved.tar": docker_save(layers),
        "exported.tar": layer(BASE),
        "exported.tar.gz": gzip.compress(layer(BASE)),
    }
    for name, content in saved.items():
        assert files(read_image(io.BytesIO(content), ROOTS)) == want, name
        (tmp_path / name).write_bytes(content)
        assert files(read_image(tmp_path / name, ROOTS)) == want, name
    assert files(read_image(written(tmp_path / "layout", oci(layers)), ROOTS)) == want


def test_a_newer_layer_goes_before_an_older_one() -> None:
    found = read(BASE, {"opt/lib/pkg/a.py": b"A = 2\n"}, {"opt/lib/pkg/c.py": b"C = 3\n"})
    assert files(found) == {"__init__.py": b"", "a.py": b"A = 2\n", "sub/b.py": b"B = 1\n", "c.py": b"C = 3\n"}


def test_a_whiteout_hides_older_layers_and_not_its_own() -> None:
    found = read(BASE, {"opt/lib/pkg/.wh.a.py": b"", "opt/lib/pkg/.wh.sub": b"", "opt/lib/pkg/sub/n.py": b"N = 1\n"})
    assert files(found) == {"__init__.py": b"", "sub/n.py": b"N = 1\n"}


def test_what_comes_back_after_a_whiteout_is_there() -> None:
    found = read(BASE, {"opt/lib/.wh.pkg": b""}, {"opt/lib/pkg/__init__.py": b"new"})
    assert files(found) == {"__init__.py": b"new"}


def test_a_file_in_place_of_a_folder_hides_the_folder() -> None:
    found = read(BASE, {"opt/lib/pkg/sub": b"x"}, {"opt/lib/pkg/.wh.sub": b""}, {"opt/lib/pkg/sub/c.py": b"C\n"})
    assert files(found) == {"__init__.py": b"", "a.py": b"A = 1\n", "sub/c.py": b"C\n"}


def test_older_layers_are_not_read_once_an_opaque_folder_hides_them(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = reader._layer  # noqa: SLF001 - counted, where each layer is opened

    def noted(blob: Blob, wanted: Wanted) -> Layer:
        opened.append(blob.name)
        return real(blob, wanted)

    monkeypatch.setattr(reader, "_layer", noted)
    new: dict[str, Member] = {**BASE, "opt/lib/pkg/.wh..wh..opq": b"", "opt/lib/pkg/a.py": b"A = 9\n"}
    del new["opt/lib/pkg/sub/b.py"]
    found = read({"x": b"1"}, BASE, new, {"etc/new": b"2"})
    assert files(found) == {"__init__.py": b"", "a.py": b"A = 9\n"}
    assert (found.layers, len(opened)) == ((2, 4), 2)


def test_each_layer_is_unpacked_once() -> None:
    opened: list[int] = []
    packed = [layer(BASE), layer({"opt/lib/pkg/a.py": b"A = 2\n"})]

    def blob(number: int) -> Blob:
        def open_() -> io.BytesIO:
            opened.append(number)
            return io.BytesIO(packed[number])

        return Blob(str(number), None, None, open_)

    both = [blob(0), blob(1)]
    reader._from_layers(both, "image", {"pkg": ("opt/lib/pkg",)}, Limits())  # noqa: SLF001 - counted, as above
    assert opened == [1, 0]


@pytest.mark.parametrize("target", ["corex-3.2.3", "/usr/local/corex-3.2.3", "../local/./corex-3.2.3"])
def test_a_link_in_the_path_is_followed(target: str) -> None:
    old: dict[str, Member] = {"usr/local/corex-3.2.3/lib64/pkg/__init__.py": b"", "usr/local/corex": link(target)}
    new: dict[str, Member] = {"usr/local/corex-3.2.3/lib64/pkg/a.py": b"A\n"}
    found = read(old, new, roots={"pkg": ["/usr/local/corex/lib64/pkg"]})
    assert files(found) == {"__init__.py": b"", "a.py": b"A\n"}
    assert found.folders["pkg"] == {"/usr/local/corex/lib64/pkg": "/usr/local/corex-3.2.3/lib64/pkg"}


def test_what_a_layer_puts_behind_an_older_link_lies_where_the_link_leads() -> None:
    old: dict[str, Member] = {"real/pkg/__init__.py": b"", "real/pkg/a.py": b"A = 1\n", "opt/lib": link("/real")}
    found = read(old, {"opt/lib/pkg/a.py": b"A = 2\n"})
    assert files(found) == {"__init__.py": b"", "a.py": b"A = 2\n"}


def test_a_root_that_is_a_link_to_a_folder_of_another_name_is_read() -> None:
    found = read({"src/p-1/__init__.py": b"", "src/p-1/a.py": b"A\n"}, {"opt/lib/pkg": link("/src/p-1")})
    assert files(found) == {"__init__.py": b"", "a.py": b"A\n"}
    flat = layer({"opt/lib/pkg": link("/src/p-1"), "src/p-1/__init__.py": b""})
    assert "read only from a file" in refusal(flat).message


def test_links_inside_the_package_are_followed_wherever_they_lead() -> None:
    more: dict[str, Member] = {
        "store/c.py": b"C\n",
        "opt/lib/pkg/c.py": link("/store/c.py"),
        "opt/lib/pkg/d.py": link("a.py"),
        "opt/lib/pkg/e.py": hard("store/c.py"),
        "opt/lib/pkg/f.py": hard("opt/lib/pkg/d.py"),
        "opt/lib/pkg/g.py": hard("opt/lib/pkg/a.py"),
        "opt/lib/pkg/deep": link("sub"),
        "opt/lib/pkg/up": link(".."),
        "opt/lib/pkg/self.py": link("self.py"),
        "opt/lib/pkg/none.py": link("nowhere.py"),
    }
    found = read(BASE, more)
    same = {"c.py": b"C\n", "d.py": b"A = 1\n", "e.py": b"C\n", "f.py": b"A = 1\n", "g.py": b"A = 1\n"}
    here = files(found)
    assert {name: here[name] for name in same} == same
    assert here["deep/b.py"] == b"B = 1\n"
    assert {str(f.place) for f in found.findings} == {"pkg/self.py", "pkg/none.py"}


def test_two_spellings_of_one_folder_are_one() -> None:
    roots = {"pkg": ["/opt/lib64/pkg", "/opt/lib/pkg"]}
    found = read({**BASE, "opt/lib64": link("lib")}, roots=roots)
    assert found.folders["pkg"] == {"/opt/lib64/pkg": "/opt/lib/pkg", "/opt/lib/pkg": "/opt/lib/pkg"}
    assert found.differ["pkg"] == ()


def test_two_copies_that_differ_are_named() -> None:
    mirror = {name.replace("lib", "lib64"): content for name, content in BASE.items() if name.startswith("opt/lib/")}
    roots = {"pkg": ["/opt/lib/pkg", "/opt/lib64/pkg"]}
    assert read({**BASE, **mirror}, roots=roots).differ["pkg"] == ()
    found = read({**BASE, **mirror}, {"opt/lib/pkg/a.py": b"A = 2\n"}, roots=roots)
    assert found.differ["pkg"] == ("pkg/a.py",)


def test_the_patch_set_s_own_audit_is_read() -> None:
    found = read(BASE, {"opt/patchset/audit.jsonl": b"{}\n", "opt/patchset/overlay/pkg/a.py": b"x"})
    assert found.audit == b"{}\n"
    assert read(BASE).audit is None


def test_of_several_platforms_the_usual_one_is_taken_and_another_by_name() -> None:
    both = several(oci([layer(BASE)]), oci([layer({**BASE, "opt/lib/pkg/a.py": b"ARM\n"})], platform="arm64"))
    archive = layer(both)
    assert files(read_image(io.BytesIO(archive), ROOTS))["a.py"] == b"A = 1\n"
    assert files(read_image(io.BytesIO(archive), ROOTS, "linux/arm64"))["a.py"] == b"ARM\n"


def test_of_several_images_one_has_to_be_named() -> None:
    both = layer(several(oci([layer(BASE)], tag="one"), oci([layer({**BASE, "x": b""})], tag="two")))
    assert "holds 2 images" in refusal(both).message
    assert refusal(both, which="three").notes
    assert files(read_image(io.BytesIO(both), ROOTS, "two"))["a.py"] == b"A = 1\n"


def test_an_image_without_the_roots_says_where_it_looked() -> None:
    assert refusal(layer({"etc/x": b""})).notes == ("looked for:", "/opt/lib/pkg")


@pytest.mark.parametrize("pack", PACKERS)
def test_an_archive_that_is_packed_as_a_whole_is_read_from_a_file_and_from_a_pipe(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    for number, plain in enumerate((layer(oci([layer(BASE)])), docker_save([layer(BASE)]), layer(BASE))):
        packed = tmp_path / f"{number}"
        packed.write_bytes(pack(plain))
        assert files(read_image(packed, ROOTS))["a.py"] == b"A = 1\n"
        assert files(read_image(io.BytesIO(pack(plain)), ROOTS))["a.py"] == b"A = 1\n"
        packed.write_bytes(pack(plain)[:-9])
        with pytest.raises(Rejected) as caught:
            read_image(packed, ROOTS)
        assert caught.value.diagnostics[0].code == "E304"


def test_what_is_packed_as_a_whole_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reader, "GIB", 2**20)
    (tmp_path / "bomb").write_bytes(
        gzip.compress(layer(oci([layer({**BASE, "zeros": bytes(8 * 2**20)})], packed=False)))
    )
    with pytest.raises(Rejected) as caught:
        read_image(tmp_path / "bomb", ROOTS)
    assert "more than" in caught.value.diagnostics[0].message


def test_a_folder_without_a_layout_says_how_to_give_a_tree(tmp_path: Path) -> None:
    with pytest.raises(Rejected) as caught:
        read_image(tmp_path, ROOTS)
    assert "--tree" in caught.value.diagnostics[0].help


def test_headers_without_end_are_refused() -> None:
    """A chain of headers that each announce one more: read one inside the other, they would end the program."""
    long = tarfile.TarInfo("././@LongLink")
    long.type, long.size = tarfile.GNUTYPE_LONGNAME, 2
    block = long.tobuf(tarfile.GNU_FORMAT) + b"a\0".ljust(512, b"\0")
    assert refusal(block * 20_000 + layer(BASE))


@pytest.mark.parametrize("name", ["../evil.py", "opt/../../evil.py", "/opt/lib/pkg/x.py", "opt/lib/pkg/" + "n" * 5000])
def test_a_name_that_leaves_or_has_no_end_refuses_the_image(name: str) -> None:
    assert "names a place outside" in refusal(layer({**BASE, name: b"x"})).message


def test_a_layer_that_is_missing_changed_or_cut_off_is_said() -> None:
    whole = layer(BASE)
    good = oci([whole], packed=False)
    assert "lacks the layer" in refusal(layer({n: c for n, c in good.items() if n != blob_name(whole)})).message
    other = whole.replace(b"A = 1", b"A = 7")
    assert "digest" in refusal(layer({n: other if c == whole else c for n, c in good.items()})).message
    assert "cut off" in refusal(whole[:-9728]).message
    assert refusal(docker_save([whole[:2000]]))


@pytest.mark.parametrize("pack", PACKERS)
def test_layers_may_be_packed_in_any_of_the_usual_ways(pack: Callable[[bytes], bytes]) -> None:
    found = read_image(io.BytesIO(layer(oci([pack(layer(BASE))], packed=False))), ROOTS)
    assert files(found)["a.py"] == b"A = 1\n"
    broken = bytearray(pack(layer(BASE)))
    broken[len(broken) // 2] ^= 0xFF
    assert refusal(layer(oci([bytes(broken)], packed=False)))


def test_a_bomb_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "GIB", 2**20)
    bomb = layer({**BASE, "zeros": bytes(8 * 2**20)})
    assert "more than" in refusal(layer(oci([bomb]))).message
    big: dict[str, Member] = {"opt/lib/pkg/__init__.py": b"", **{f"opt/lib/pkg/{n}.py": bytes(900) for n in range(9)}}
    assert "bytes of source" in refusal(layer(big), limits=Limits(kept=5000)).message


def test_a_header_without_end_is_refused() -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("opt/lib/pkg/__init__.py")
        member.pax_headers = {"comment": "x" * (2 * 2**20)}
        archive.addfile(member)
    assert "too long" in refusal(packed.getvalue()).message


def outcome(archive: bytes) -> InImage | set[str]:
    """Return what is in an image, or the codes of the diagnostics."""
    try:
        return read_image(io.BytesIO(archive), ROOTS)
    except Rejected as error:
        return {found.code for found in error.diagnostics}


NAMES = st.from_regex(r"(opt|opt/lib|opt/lib/pkg)(/(\.wh\.)?(a|b|\.wh\.\.opq|\.\.|pkg|lib))?(\.py)?", fullmatch=True)
MEMBERS = st.dictionaries(
    NAMES,
    st.one_of(
        st.binary(max_size=20),
        st.just(FOLDER),
        st.from_regex(r"/?(\.\./)?(opt|lib|pkg|a)(/(lib|pkg|b))?", fullmatch=True).flatmap(
            lambda target: st.sampled_from([link(target), hard(target), (tarfile.FIFOTYPE, "")])
        ),
    ),
    max_size=8,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(MEMBERS, min_size=1, max_size=4))
def test_any_layers_give_a_tree_or_a_diagnostic(layers: list[dict[str, Member]]) -> None:
    found = outcome(layer(oci([layer(members) for members in layers])))
    if isinstance(found, InImage):
        assert not any(".wh." in path for path in found.bases["pkg"].tree)
    else:
        assert found == {"E304"}


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_damage_gives_a_tree_or_a_diagnostic(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([layer(oci([layer(BASE)])), docker_save([layer(BASE)]), layer(BASE)]))
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(max_size=40)) + whole[at + data.draw(st.integers(0, 600)) :]
    found = outcome(damaged)
    assert isinstance(found, InImage) or found == {"E304"}
