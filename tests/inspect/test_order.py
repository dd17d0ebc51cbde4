"""What later steps do to earlier ones, and what a folder holds that nothing uses."""

from __future__ import annotations

import pytest

from tests.inspect.inspected import PINNED, codes, inspected

SITE = "/usr/lib/python3/dist-packages"
EDIT = (
    f"from pathlib import Path\np = Path('{SITE}/pkg/x/a.py')\ns = p.read_text()\n"
    f"assert 'a' in s\np.write_text(s.replace('a', 'b'))\n"
)
FILES = {"a.py": "A = 1\n", "edit.py": EDIT, "two.py": "A = 2\n", "p.patch": "--- a/pkg/x/a.py\n+++ b/pkg/x/a.py\n"}
ROOT = 'V=$(python3 -c "import pkg; print(pkg.__path__[0])")'


def of_build(*lines: str, **more: str) -> list[str]:
    files = {**FILES, **{name.replace("__", "/"): text for name, text in more.items()}}
    files["Dockerfile"] = f"{PINNED}WORKDIR /w\nCOPY . /w\n" + "".join(f"{line}\n" for line in lines)
    return codes(inspected(files))


OVERWRITTEN = {
    "cp over a Python edit": ("RUN python3 edit.py", f"RUN cp a.py {SITE}/pkg/x/a.py"),
    "COPY over a Python edit": ("RUN python3 edit.py", f"COPY a.py {SITE}/pkg/x/a.py"),
    "cp into the folder": ("RUN python3 edit.py", f"RUN cp a.py {SITE}/pkg/x/"),
    "install": ("RUN python3 edit.py", f"RUN install -m 644 -t {SITE}/pkg/x a.py"),
    "by a variable": ("RUN python3 edit.py", f"RUN set -e; {ROOT}; cp a.py $V/x/a.py"),
    "over sed": (
        f"RUN sed -i s/a/b/ {SITE}/pkg/x/a.py && grep -q b {SITE}/pkg/x/a.py",
        f"RUN cp a.py {SITE}/pkg/x/a.py",
    ),
    "over a patch": (f"RUN cd {SITE} && patch -p1 --fuzz=0 < /w/p.patch", f"RUN cp a.py {SITE}/pkg/x/a.py"),
    "over another copy": (f"RUN cp two.py {SITE}/pkg/x/a.py", f"RUN cp a.py {SITE}/pkg/x/a.py"),
    "a folder": ("RUN python3 edit.py", f"COPY x {SITE}/pkg/x"),
    "shutil": ("RUN python3 edit.py", f"RUN python3 -c \"import shutil; shutil.copy('a.py', '{SITE}/pkg/x/a.py')\""),
}


@pytest.mark.parametrize("lines", OVERWRITTEN.values(), ids=OVERWRITTEN)
def test_a_copy_over_an_earlier_patch_is_found(lines: tuple[str, ...]) -> None:
    assert "E833 Dockerfile" in of_build(*lines, x__a_py="") or "E833 Dockerfile" in of_build(
        *lines, **{"x__a.py": "A = 1\n"}
    )


APART = {
    "edit after the copy": (f"RUN cp a.py {SITE}/pkg/x/a.py", "RUN python3 edit.py"),
    "another file": ("RUN python3 edit.py", f"RUN cp a.py {SITE}/pkg/y/a.py"),
    "another package": ("RUN python3 edit.py", f"RUN cp a.py {SITE}/other/x/a.py"),
    "the same file again": (f"RUN cp a.py {SITE}/pkg/x/a.py", f"RUN cp a.py {SITE}/pkg/x/a.py"),
    "a copy aside": ("RUN python3 edit.py", f"RUN cp {SITE}/pkg/x/a.py /tmp/a.py.bak"),
}


@pytest.mark.parametrize("lines", APART.values(), ids=APART)
def test_steps_that_do_not_meet_are_no_finding(lines: tuple[str, ...]) -> None:
    assert [code for code in of_build(*lines) if code.startswith("E833")] == []


INSTALLED_AFTER = {
    "by its name": "RUN pip install --no-index pkg==1.0",
    "by its wheel": "RUN pip install --no-index --no-deps ./pkg-1.0-py3-none-any.whl",
    "with an extra": "RUN python3 -m pip install --no-index 'pkg[x]>=1'",
    "by uv": "RUN uv pip install --no-index pkg",
    "by a list": "RUN pip install --no-index -r list.txt",
    "from git": "RUN pip install git+https://x.example/o/pkg.git",
}


@pytest.mark.parametrize("line", INSTALLED_AFTER.values(), ids=INSTALLED_AFTER)
def test_an_install_of_the_patched_package_afterwards_is_found(line: str) -> None:
    more = {"list.txt": "# all\nother==1\nPkg==1.0  # it\n", "pkg-1.0-py3-none-any.whl": ""}
    assert "E834 Dockerfile" in of_build("RUN python3 edit.py", line, **more)
    assert "E834 Dockerfile" not in of_build(line, "RUN python3 edit.py", **more)


def test_an_install_of_something_else_is_no_finding() -> None:
    assert (
        of_build("RUN python3 edit.py", "RUN pip install --no-index --no-deps ./other.whl", **{"other.whl": ""}) == []
    )


SED = {
    "by its full path": (f"RUN sed -i s/a/b/ {SITE}/pkg/a.py", True),
    "with an option that ends in e": (f"RUN sed -i -e s/a/b/ {SITE}/pkg/a.py", True),
    "with a copy kept": (f"RUN sed -i.bak '/a/d' {SITE}/pkg/a.py", True),
    "perl": (f"RUN perl -pi -e s/a/b/ {SITE}/pkg/a.py", True),
    "looked at afterwards": (f"RUN sed -i s/a/b/ {SITE}/pkg/a.py && grep -q b {SITE}/pkg/a.py", False),
    "by line": (f"RUN sed -i '1i import os' {SITE}/pkg/a.py", False),
    "of something else": ("RUN sed -i s/a/b/ /etc/apt/sources.list", False),
    "not in place": (f"RUN sed s/a/b/ {SITE}/pkg/a.py > /tmp/x", False),
}


@pytest.mark.parametrize(("line", "expected"), SED.values(), ids=SED)
def test_sed_in_place_must_be_looked_at(line: str, expected: bool) -> None:  # noqa: FBT001 - an expected value
    assert ("E830 Dockerfile" in of_build(line)) is expected


def test_patch_with_fuzz_and_git_apply_in_a_subfolder() -> None:
    assert of_build(f"RUN cd {SITE} && patch -p1 < /w/p.patch") == ["E831 Dockerfile"]
    assert of_build(f"RUN cd {SITE} && patch -p1 -F0 < /w/p.patch") == []
    clone = "RUN git clone https://x.example/o/r /r"
    assert "E831 Dockerfile" in of_build(clone, "RUN cd /r/sub && git apply /w/p.patch")
    assert "E831 Dockerfile" not in of_build(clone, "RUN cd /r && git apply /w/p.patch")


INITS = {
    "an echo": (f"RUN echo 'import x' >> {SITE}/pkg/__init__.py", True),
    "tee": (f"RUN echo x | tee -a {SITE}/pkg/__init__.py", True),
    "Python": ("RUN python3 -c \"import pkg; open(pkg.__file__, 'a').write('x')\"", True),
    "sed by what Python prints": ("RUN sed -i 1d \"$(python3 -c 'import pkg; print(pkg.__file__)')\"", True),
    "a new one of a new package": (f"RUN cp -r new {SITE}/pkg/", False),
    "another file": (f"RUN echo x >> {SITE}/pkg/a.py", False),
    "one that is no package's": ("RUN echo x >> /w/__init__.py", False),
}


@pytest.mark.parametrize(("line", "expected"), INITS.values(), ids=INITS)
def test_an_edit_of_a_package_init_is_a_warning(line: str, expected: bool) -> None:  # noqa: FBT001 - an expected value
    assert ("W813 Dockerfile" in of_build(line, **{"new/__init__.py": "", "new/x.py": "X = 1\n"})) is expected


NETWORK = {
    "pip after the patch": ("RUN python3 edit.py", "RUN pip install other"),
    "curl after the patch": ("RUN python3 edit.py", "RUN curl -fsSLO https://x.example/y"),
    "git after the patch": ("RUN python3 edit.py", "RUN git clone https://x.example/y /y"),
    "ADD after the patch": ("RUN python3 edit.py", "ADD https://x.example/y /y"),
}


@pytest.mark.parametrize("lines", NETWORK.values(), ids=NETWORK)
def test_the_network_in_the_midst_of_patches_is_a_warning(lines: tuple[str, ...]) -> None:
    assert "W814 Dockerfile" in of_build(*lines)
    assert "W814 Dockerfile" not in of_build(*reversed(lines))


def test_what_is_pinned_is_no_finding() -> None:
    for line in (
        "RUN pip install other==1",
        "RUN pip install --require-hashes -r list.txt",
        "RUN pip install -r list.txt",
    ):
        assert of_build("RUN python3 edit.py", line, **{"list.txt": "one==1\ntwo==2\n"}) == []
    assert of_build("RUN python3 edit.py", "ADD --checksum=sha256:0 https://x.example/y /y") == []


def test_the_network_in_a_build_without_patches_is_no_finding() -> None:
    assert of_build("RUN pip install other", "RUN curl -fsSLO https://x.example/y") == []


COUNTS = {
    "ls and wc": ("[ $(ls *.py | wc -l) -eq 13 ] || exit 1", True),
    "a variable": ("set -e; n=$(find . | wc -l); test $n -eq 13", True),
    "an array": ('set -e; a=(*.py); [[ "${#a[@]}" -eq 13 ]]', True),
    "arithmetic": ("set -e; n=$(ls | wc -l); (( n == 13 ))", True),
    "arguments": ("[ $# -eq 13 ] || true", False),
    "a status": ("[ $X -eq 13 ] || true", False),
    "one": ("[ $(ls | wc -l) -eq 1 ] || exit 1", False),
}


@pytest.mark.parametrize(("shell", "expected"), COUNTS.values(), ids=COUNTS)
def test_a_number_of_files_that_was_typed_is_a_warning(shell: str, expected: bool) -> None:  # noqa: FBT001 - an expected value
    assert ("W815 Dockerfile" in of_build(f"RUN {shell}")) is expected


def test_a_number_of_files_in_python() -> None:
    text = "import glob, shutil\nassert len(glob.glob('*.py')) == 13\nshutil.copy('/w/a.py', '/b')\n"
    assert "W815 x.py" in of_build("RUN python3 x.py", **{"x.py": text})
    assert "W815 x.py" not in of_build("RUN python3 x.py", **{"x.py": text.replace("glob.glob('*.py')", "'abc'")})


# --- a folder's pile ---

BODY = "".join(f"value_{n} = compute({n})\n" for n in range(30))


def test_the_twelfth_worked_example_names_the_copies_that_nothing_deploys() -> None:
    pile = {"ops/paged_attn.py": BODY, "old/ops/paged_attn.py": "X = 1\n", "backup/paged_attn.py": BODY + "x = 1\n"}
    line = f"RUN cp ops/paged_attn.py {SITE}/pkg/attention/ops/paged_attn.py"
    files = {**pile, "other/sequence.py": "Y = 1\n", "Dockerfile": f"{PINNED}WORKDIR /w\nCOPY . /w\n{line}\n"}
    assert codes(inspected(files)) == ["W812 paged_attn.py", "W812 paged_attn.py"]
    assert {d.place.file for d in inspected(files) if d.place} == {"old/ops/paged_attn.py", "backup/paged_attn.py"}


def test_modules_of_one_name_that_are_not_alike_are_no_copies() -> None:
    pile = {"one/run.py": BODY, "two/run.py": BODY.replace("value", "other"), "tests/one/run.py": BODY}
    files = {**pile, "Dockerfile": f"{PINNED}WORKDIR /w\nCOPY . /w\nRUN cp one/run.py {SITE}/pkg/run.py\n"}
    assert codes(inspected(files)) == []


ENTRY = (
    f"from pathlib import Path\np = Path('{SITE}/pkg/models/registry.py')\ns = p.read_text()\n"
    'old = \'"Old": ("old", "Old"),\'\nassert old in s\n'
    'p.write_text(s.replace(old, old + \'"New": ("new_model", "New"),\'))\n'
)


def registry(*lines: str, tree: dict[str, str] | None = None, more: dict[str, str] | None = None) -> list[str]:
    files = {"reg.py": ENTRY, **(more or {})}
    files["Dockerfile"] = f"{PINNED}WORKDIR /w\nCOPY . /w\nRUN python3 reg.py\n" + "".join(
        f"{line}\n" for line in lines
    )
    return [f"{d.code} {d.severity}" for d in inspected(files, tree=tree) if d.code == "E835"]


def test_a_registry_entry_needs_its_module() -> None:
    here = {"new_model.py": "class New: pass\n"}
    assert registry() == ["E835 warning"]
    assert registry(more=here) == ["E835 error"]
    assert registry(f"RUN cp new_model.py {SITE}/pkg/models/new_model.py", more=here) == []
    assert registry(f"COPY new_model.py {SITE}/pkg/models/", more=here) == []
    tree = {"pkg/models/registry.py": 'X = {"Old": ("old", "Old"),}\n'}
    assert registry(tree=tree) == ["E835 error"]
    assert registry(tree={**tree, "pkg/models/new_model.py": ""}) == []


def marker(text: str, tree: dict[str, str] | None = None) -> list[str]:
    head = f"import sys\nfrom pathlib import Path\np = Path('{SITE}/pkg/a.py')\ns = p.read_text()\n"
    tail = "assert 'old = 1' in s\np.write_text(s.replace('old = 1', 'new = 1'))\n"
    files = {"m.py": f"{head}{text}{tail}", "Dockerfile": f"{PINNED}WORKDIR /w\nCOPY . /w\nRUN python3 m.py\n"}
    return codes(inspected(files, tree=tree))


def test_a_marker_that_stands_in_the_original_proves_nothing() -> None:
    text = "if 'new = ' in s:\n    print('already')\n    sys.exit(0)\n"
    assert marker(text) == []
    assert marker(text, {"pkg/a.py": "old = 1\n"}) == []
    assert marker(text, {"pkg/a.py": "old = 1\n# new = 2 one day\n"}) == ["E832 m.py"]
    assert marker("if 'old' in s:\n    sys.exit(0)\n") == ["E832 m.py"]


def test_an_anchor_that_the_given_tree_does_not_have_is_found() -> None:
    assert marker("", {"pkg/a.py": "older = 2\n"}) == ["E830 m.py"]


# --- FROM ---

BASES = {
    "a tag": ("FROM vendor/image:1.2", ["W816 warning"]),
    "a digest": (PINNED.strip(), []),
    "a digest behind a tag": (PINNED.strip().replace("@", ":1@"), []),
    "nothing": ("FROM scratch", []),
    "by an argument": ("ARG TAG=1\nFROM vendor/image:${TAG}", ["W816 warning"]),
    "by an argument that nobody set": ("ARG TAG\nFROM vendor/image:${TAG}", ["W890 note"]),
    "a stage": (f"{PINNED.strip()} AS one\nFROM one", []),
}


@pytest.mark.parametrize(("text", "expected"), BASES.values(), ids=BASES)
def test_a_base_without_a_digest_is_a_warning(text: str, expected: list[str]) -> None:
    assert [f"{d.code} {d.severity}" for d in inspected({"Dockerfile": f"{text}\nRUN true\n"})] == expected


def test_a_base_whose_originals_are_checked_is_a_note() -> None:
    check = (
        f"import hashlib\n"
        f"if hashlib.sha256(open('{SITE}/pkg/a.py', 'rb').read()).hexdigest() != 'x':\n"
        f"    raise SystemExit('no')\n"
    )
    files = {"c.py": check, "Dockerfile": "FROM vendor/image:1.2\nWORKDIR /w\nCOPY . /w\nRUN python3 c.py\n"}
    assert [f"{d.code} {d.severity}" for d in inspected(files)] == ["W816 note"]
