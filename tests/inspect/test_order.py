"""What later steps do to earlier ones, and what a folder holds that nothing uses."""

from __future__ import annotations

import pytest

from orchestrator.inspect.paths import is_same
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
    "a redirection": ("RUN python3 edit.py", f"RUN cat a.py > {SITE}/pkg/x/a.py"),
    "tee": ("RUN python3 edit.py", f"RUN cat a.py | tee {SITE}/pkg/x/a.py"),
    "dd": ("RUN python3 edit.py", f"RUN dd if=a.py of={SITE}/pkg/x/a.py"),
    "a link": ("RUN python3 edit.py", f"RUN ln -sf /w/a.py {SITE}/pkg/x/a.py"),
    "a here-document": ("RUN python3 edit.py", f"COPY <<EOF {SITE}/pkg/x/a.py", "A = 1", "EOF"),
    "another image": ("RUN python3 edit.py", f"COPY --from=x /a.py {SITE}/pkg/x/a.py"),
    "shutil": ("RUN python3 edit.py", f"RUN python3 -c \"import shutil; shutil.copy('a.py', '{SITE}/pkg/x/a.py')\""),
}


@pytest.mark.parametrize("lines", OVERWRITTEN.values(), ids=OVERWRITTEN)
def test_a_copy_over_an_earlier_patch_is_found(lines: tuple[str, ...]) -> None:
    assert "E833 Dockerfile" in of_build(*lines, x__a_py="") or "E833 Dockerfile" in of_build(
        *lines, **{"x__a.py": "A = 1\n"}
    )


@pytest.mark.parametrize(
    "line", [f"tar -xf /w/x.tar -C {SITE}", f"unzip -o /w/x.zip -d {SITE}/pkg", f"cd {SITE} && tar xf /w/x.tar"]
)
def test_an_archive_over_a_patch_is_said_to_be_unknown(line: str) -> None:
    files = {**FILES, "x.tar": "", "x.zip": ""}
    for lines, notes in ((("RUN python3 edit.py", f"RUN {line}"), 1), ((f"RUN {line}", "RUN python3 edit.py"), 0)):
        files["Dockerfile"] = f"{PINNED}WORKDIR /w\nCOPY . /w\n" + "".join(f"{each}\n" for each in lines)
        found = [d for d in inspected(files) if d.code == "W890" and "archive" in d.message]
        assert len(found) == notes


APART = {
    "edit after the copy": (f"RUN cp a.py {SITE}/pkg/x/a.py", "RUN python3 edit.py"),
    "another file": ("RUN python3 edit.py", f"RUN cp a.py {SITE}/pkg/y/a.py"),
    "another package": ("RUN python3 edit.py", f"RUN cp a.py {SITE}/other/x/a.py"),
    "the same file again": (f"RUN cp a.py {SITE}/pkg/x/a.py", f"RUN cp a.py {SITE}/pkg/x/a.py"),
    "added to": ("RUN python3 edit.py", f"RUN cat a.py >> {SITE}/pkg/x/a.py"),
    "added to by tee": ("RUN python3 edit.py", f"RUN cat a.py | tee -a {SITE}/pkg/x/a.py"),
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
    "what runs at every start": (f"RUN echo 'import x' > {SITE}/sitecustomize.py", True),
    "a path file": (f"RUN echo 'import x' > {SITE}/zz.pth", True),
    "a copy of what runs at every start": (f"COPY a.py {SITE}/usercustomize.py", True),
    "one that is no package's": ("RUN echo x >> /w/__init__.py", False),
}


@pytest.mark.parametrize(("line", "expected"), INITS.values(), ids=INITS)
def test_an_edit_of_a_package_init_is_a_warning(line: str, expected: bool) -> None:  # noqa: FBT001 - an expected value
    assert ("W813 Dockerfile" in of_build(line, **{"new/__init__.py": "", "new/x.py": "X = 1\n"})) is expected


NETWORK = {
    "pip after the patch": ("RUN python3 edit.py", "RUN pip install other"),
    "curl after the patch": ("RUN python3 edit.py", "RUN curl -fsSLO https://x.example/y"),
    "git after the patch": ("RUN python3 edit.py", "RUN git clone https://x.example/y /y"),
    "a model hub": ("RUN python3 edit.py", "RUN huggingface-cli download x/y"),
    "rsync from another machine": ("RUN python3 edit.py", "RUN rsync -a mirror.example:/y /y"),
    "aria2c": ("RUN python3 edit.py", "RUN aria2c https://x.example/y"),
    "requests under another name": (
        "RUN python3 edit.py",
        "RUN python3 -c \"from requests import get as g; open('/y', 'wb').write(g('https://x.example').content)\"",
    ),
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
    "a name for the number": ("set -e; WANTED=13; n=$(ls | wc -l); [ $n -eq $WANTED ]", True),
    "a number that is computed": ("set -e; WANTED=$(cat n); n=$(ls | wc -l); [ $n -eq $WANTED ]", False),
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
    for other in (
        "sum(1 for _ in glob.glob('*.py')) == 13",
        "13 == len(list(glob.iglob('*.py')))",
        "len(glob.glob('*.py')) >= 13",
        "len(glob.glob('*.py')) == WANTED",
    ):
        spelled = f"WANTED = 13\n{text}".replace("len(glob.glob('*.py')) == 13", other)
        assert "W815 x.py" in of_build("RUN python3 x.py", **{"x.py": spelled})
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


MARKERS = {
    "not in": "if 'new = ' not in s:\n    p.write_text(s.replace('old = 1', 'new = 1'))\n",
    "find": "if s.find('new = ') >= 0:\n    sys.exit(0)\n",
    "not found": "if s.find('new = ') == -1:\n    p.write_text(s.replace('old = 1', 'new = 1'))\n",
    "count": "if s.count('new = ') > 0:\n    sys.exit(0)\n",
    "a truth value": "if s.count('new = '):\n    sys.exit(0)\n",
    "re": "import re\nif re.search('new = ', s):\n    sys.exit(0)\n",
    "a name": "MARK = 'new = '\nif MARK in s:\n    raise SystemExit(0)\n",
    "a flag": "done = 'new = ' in s\nif done:\n    sys.exit(0)\n",
    "any": "if any(m in s for m in ['zz', 'new = ']):\n    sys.exit(0)\n",
    "lines": "if [x for x in s.splitlines() if 'new = ' in x]:\n    sys.exit(0)\n",
    "or": "if 'zz' in s or 'new = ' in s:\n    sys.exit(0)\n",
    "a file that is there": "import os\nif os.path.exists(p):\n    sys.exit(0)\n",
    "a path that is there": "if p.exists():\n    sys.exit(0)\n",
}


@pytest.mark.parametrize("text", MARKERS.values(), ids=MARKERS)
def test_a_sign_is_known_in_every_spelling(text: str) -> None:
    assert "E832 m.py" in marker(text, {"pkg/a.py": "old = 1\n# new = 2 one day\n"})


NO_MARKERS = {
    "the patched file has it": "if 'new = 1' in s:\n    sys.exit(0)\n",
    "a failure": "if 'new = ' in s:\n    raise SystemExit('who was here?')\n",
    "all of several": "if 'new = ' in s and 'newer = ' in s:\n    sys.exit(0)\n",
    "a file that has to be there": "if not p.exists():\n    sys.exit(1)\n",
}


@pytest.mark.parametrize("text", NO_MARKERS.values(), ids=NO_MARKERS)
def test_what_tells_the_patched_file_from_the_original_is_no_finding(text: str) -> None:
    assert marker(text, {"pkg/a.py": "old = 1\n# new = 2 one day\n"}) == []


SHELL_MARKERS = {
    "grep or the patch": (f"grep -q 'new = ' {SITE}/pkg/a.py || python3 fix.py", True),
    "if not grep": (f"if ! grep -q 'new = ' {SITE}/pkg/a.py; then python3 fix.py; fi", True),
    "if grep, else": (f"if grep -qF 'new = ' {SITE}/pkg/a.py; then echo in; else python3 fix.py; fi", True),
    "grep and exit 0": (f"grep -q 'new = ' {SITE}/pkg/a.py && exit 0; python3 fix.py", True),
    "a file that is there": (f"[ -f {SITE}/pkg/a.py ] || cp a.py {SITE}/pkg/a.py", True),
    "a look afterwards": (f"python3 fix.py && grep -q 'new = 1' {SITE}/pkg/a.py || exit 1", False),
    "a text that only the patched file has": (f"grep -q 'new = 1' {SITE}/pkg/a.py || python3 fix.py", False),
    "the text that has to be there": (f"grep -q 'old = 1' {SITE}/pkg/a.py || exit 1; python3 fix.py", False),
}


@pytest.mark.parametrize(("shell", "expected"), SHELL_MARKERS.values(), ids=SHELL_MARKERS)
def test_a_sign_that_the_shell_asks_for_is_one_too(shell: str, expected: bool) -> None:  # noqa: FBT001 - an expected value
    files = {"fix.py": "print(1)\n", "a.py": "A = 1\n", "Dockerfile": f"{PINNED}WORKDIR /w\nCOPY . /w\nRUN {shell}\n"}
    found = codes(inspected(files, tree={"pkg/a.py": "old = 1\n# new = 2 one day\n"}))
    assert ("E832 Dockerfile" in found) is expected


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


def test_two_unknown_places_are_not_taken_for_one() -> None:
    assert not is_same("${?}", "${?}")
    assert is_same("${TARGET}", "${TARGET}")
