"""Put a patch set into installed packages, whole or not at all, and tell later what is in.

This one file is copied into the image as it is, beside `manifest.json`, `overlay/` and, where the patch set has some,
`wheels/`. It must run on whatever Python the image has, so: standard library only, Python 3.8 syntax, and it imports
nothing of this project.

    patchset.py install    install the wheels, check every original, write, compile, check again, renew the bytecode
    patchset.py verify     say per stage, wheel and file: applied, original, changed, missing; writes nothing
    patchset.py live       ask the modules that the patch set names for it which path each operation takes now

Wheels are installed by the running interpreter's own pip, without network and dependencies, once all that can be
known before is known to be right. pip undoes its own failures; what it has installed stays if something fails later.
What is compiled cannot be known before: its digest is written to `installed.json`, and compared with that from then on.

Exit codes: 0 fine; 1 refused, nothing changed, or for `live` a module does not answer; 2 usage; for `verify` and `live`
also 4 not or only partly applied and 6 the manifest is damaged.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import errno
import hashlib
import importlib
import importlib.metadata
import importlib.util
import io
import json
import os
import platform
import py_compile
import re
import stat
import subprocess
import sys
import types
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

OK, REFUSED, NOT_APPLIED, DAMAGED, INTERRUPTED = 0, 1, 4, 6, 130
VERSION = 1
SHA256 = re.compile(r"[0-9a-f]{64}\Z")
NEW, OLD = ".patchset-new", ".patchset-old"  # ends of names that exist only while an install runs


class Problem(NamedTuple):
    """One reason to refuse: a code, a place, what was found there and what to do about it."""

    code: str
    path: str
    what: str
    todo: str

    def __str__(self) -> str:
        return f"patchset: error: {self.code} {self.path}: {self.what}; {self.todo}"


class Refused(Exception):  # noqa: N818 - a verdict about the input, not a fault of this program
    """Carries every problem that a step found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


# ---------------------------------------------------------------------------------------------- the manifest


@dataclass(frozen=True)
class Image:
    """What a file's sha256 is after `stage`."""

    stage: str
    sha256: str


@dataclass(frozen=True)
class FileEntry:
    """One file of the patch set. `before` is None where the file must not exist; `images` is in stage order."""

    root: str
    path: str
    before: str | None
    images: tuple[Image, ...]

    @property
    def name(self) -> str:
        """The name that stages, overlay and reports use: the root's name, then the path below it."""
        return f"{self.root}/{self.path}"

    @property
    def after(self) -> str:
        """The sha256 of the file once all its stages are applied."""
        return self.images[-1].sha256

    def position(self, sha256: str) -> int | None:
        """Return the last stage whose image this is (counted from 0), -1 for the original, None for neither."""
        for index in reversed(range(len(self.images))):
            if self.images[index].sha256 == sha256:
                return index
        return -1 if sha256 == self.before else None


@dataclass(frozen=True)
class StageEntry:
    """One stage: its id, the outcome of its run, and the names of the files it stands in.

    `live` names the one of them that can be asked what is in use; stages without one have no such key in the manifest.
    """

    id: str
    outcome: str
    files: tuple[str, ...]
    live: str | None = None

    def record(self) -> dict[str, Any]:
        """Return the plain data of this entry."""
        named = {} if self.live is None else {"live": self.live}
        return {"id": self.id, "outcome": self.outcome, "files": list(self.files), **named}


@dataclass(frozen=True)
class WheelEntry:
    """One wheel: the stage that brings it, what it is, its file in `wheels/`, and the roots that it fills.

    `before` is the version that must be installed first, None for any other or none.
    """

    stage: str
    name: str
    version: str
    file: str
    sha256: str
    before: str | None
    roots: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return the plain data of this entry."""
        return {
            "stage": self.stage,
            "name": self.name,
            "version": self.version,
            "file": self.file,
            "sha256": self.sha256,
            "before": self.before,
            "roots": list(self.roots),
        }


@dataclass(frozen=True)
class BuildEntry:
    """One file that the image's compiler makes: the stage, its source, itself (root and path), and the command.

    The command lacks the source and `-o` with the output, which are added.
    """

    stage: str
    root: str
    source: str
    to: str
    command: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name that reports use: the root's name, then the path below it."""
        return f"{self.root}/{self.to}"

    def record(self) -> dict[str, Any]:
        """Return the plain data of this entry."""
        return {
            "stage": self.stage,
            "root": self.root,
            "source": self.source,
            "to": self.to,
            "command": list(self.command),
        }


@dataclass(frozen=True)
class Manifest:
    """All that the installer knows. `roots` gives for each package the spellings of its folder in the image."""

    name: str
    python: str
    roots: Mapping[str, tuple[str, ...]]
    files: tuple[FileEntry, ...]
    stages: tuple[StageEntry, ...]
    wheels: tuple[WheelEntry, ...] = ()
    builds: tuple[BuildEntry, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the plain data that the digest of the patch set is taken of."""
        return {
            "version": VERSION,
            "name": self.name,
            "python": self.python,
            "roots": {name: list(spellings) for name, spellings in self.roots.items()},
            "files": [
                {
                    "root": entry.root,
                    "path": entry.path,
                    "before": entry.before,
                    "after": entry.after,
                    "stages": [image.stage for image in entry.images],
                    "images": [{"stage": image.stage, "sha256": image.sha256} for image in entry.images],
                }
                for entry in self.files
            ],
            "stages": [stage.record() for stage in self.stages],
            "wheels": [wheel.record() for wheel in self.wheels],
            "builds": [build.record() for build in self.builds],
        }

    @property
    def patchset(self) -> str:
        """The digest of the patch set: sha256 of the record in its one compact spelling."""
        text = json.dumps(self.record(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def faults(self) -> Iterator[str]:
        """Yield what makes this manifest one that cannot be followed."""
        yield from _root_faults(self)
        yield from _file_faults(self)
        yield from _stage_faults(self)
        yield from _wheel_faults(self)
        yield from _build_faults(self)


def _root_faults(manifest: Manifest) -> Iterator[str]:
    for name, spellings in manifest.roots.items():
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", name) or name in {".", ".."}:
            yield f"root {name!r} is not a plain name"
        if not spellings or not all(spelling.startswith("/") for spelling in spellings):
            yield f"root {name} needs absolute paths"


def _file_faults(manifest: Manifest) -> Iterator[str]:
    seen = set()
    for entry in manifest.files:
        if entry.root not in manifest.roots:
            yield f"{entry.name} stands in a root that is not listed"
        if any(part in {"", ".", ".."} for part in entry.path.split("/")) or "\0" in entry.path:
            yield f"{entry.name} is not a plain path below its root"
        if entry.name in seen:
            yield f"{entry.name} is listed twice"
        seen.add(entry.name)
        digests = [image.sha256 for image in entry.images] + [entry.before or "0" * 64]
        if not all(SHA256.match(digest) for digest in digests):
            yield f"{entry.name} has a digest that is not a sha256"


def _stage_faults(manifest: Manifest) -> Iterator[str]:
    by_stage = [(stage.id, name) for stage in manifest.stages for name in stage.files]
    by_file = [(image.stage, entry.name) for entry in manifest.files for image in entry.images]
    if len({stage.id for stage in manifest.stages}) < len(manifest.stages):
        yield "a stage is listed twice"
    for stage in manifest.stages:
        if stage.live is not None and stage.live not in stage.files:
            yield f"stage {stage.id} would have {stage.live} asked, which is none of its files"
    if sorted(by_stage) != sorted(by_file):
        strays = sorted(f"{name} ({stage})" for stage, name in set(by_stage) ^ set(by_file))
        yield f"stages and files disagree about {', '.join(strays) or 'a name that is listed twice'}"


def _wheel_faults(manifest: Manifest) -> Iterator[str]:
    stages = {stage.id for stage in manifest.stages}
    for wheel in manifest.wheels:
        if not re.fullmatch(r"[A-Za-z0-9_.!+-]+\.whl", wheel.file):
            yield f"wheel {wheel.file!r} is not a plain name"
        if wheel.stage not in stages:
            yield f"wheel {wheel.file} belongs to a stage that is not listed"
        if not SHA256.match(wheel.sha256):
            yield f"wheel {wheel.file} has a digest that is not a sha256"
    if len({wheel.name for wheel in manifest.wheels}) < len(manifest.wheels):
        yield "a wheel is listed twice"


def _build_faults(manifest: Manifest) -> Iterator[str]:
    sources = {(image.stage, entry.name) for entry in manifest.files for image in entry.images}
    taken = [entry.name for entry in manifest.files] + [build.name for build in manifest.builds]
    for build in manifest.builds:
        if any(part in {"", ".", ".."} for part in build.to.split("/")) or "\0" in build.to:
            yield f"{build.name} is not a plain path below its root"
        if (build.stage, f"{build.root}/{build.source}") not in sources:
            yield f"{build.name} is made of a file that its stage does not write"
        if taken.count(build.name) > 1:
            yield f"{build.name} is written twice"
        if not build.command or not build.command[0].startswith("/"):
            yield f"{build.name} needs the absolute path of a compiler"


def _text(value: Any) -> str:  # noqa: ANN401 - checks what JSON gave
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def parse_manifest(content: bytes, where: str) -> Manifest:
    """Return the manifest that `content` holds; raise Refused where it is damaged, altered or of another version."""

    def damaged(what: str) -> Refused:
        return Refused([Problem("MANIFEST", where, what, "render the patch set again and copy it whole")])

    try:
        data = json.loads(content.decode("utf-8"))
        if data["version"] != VERSION:
            raise damaged(f"is of version {data['version']!r}, this program reads {VERSION}")
        manifest = Manifest(
            name=_text(data["name"]),
            python=_text(data["python"]),
            roots={name: tuple(map(_text, spellings)) for name, spellings in data["roots"].items()},
            files=tuple(
                FileEntry(
                    root=_text(item["root"]),
                    path=_text(item["path"]),
                    before=None if item["before"] is None else _text(item["before"]),
                    images=tuple(Image(_text(image["stage"]), _text(image["sha256"])) for image in item["images"]),
                )
                for item in data["files"]
            ),
            stages=tuple(
                StageEntry(
                    id=_text(item["id"]),
                    outcome=_text(item["outcome"]),
                    files=tuple(map(_text, item["files"])),
                    live=_text(item["live"]) if "live" in item else None,
                )
                for item in data["stages"]
            ),
            wheels=tuple(
                WheelEntry(
                    stage=_text(item["stage"]),
                    name=_text(item["name"]),
                    version=_text(item["version"]),
                    file=_text(item["file"]),
                    sha256=_text(item["sha256"]),
                    before=None if item["before"] is None else _text(item["before"]),
                    roots=tuple(map(_text, item["roots"])),
                )
                for item in data["wheels"]
            ),
            builds=tuple(
                BuildEntry(
                    stage=_text(item["stage"]),
                    root=_text(item["root"]),
                    source=_text(item["source"]),
                    to=_text(item["to"]),
                    command=tuple(map(_text, item["command"])),
                )
                for item in data["builds"]
            ),
        )
        digest = manifest.patchset
        faults = list(manifest.faults())
        unlike = {**manifest.record(), "patchset": digest} != data
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(f"is not a manifest ({type(error).__name__}: {error})") from error
    if faults:
        raise damaged("; ".join(faults))
    if unlike:
        raise damaged("has been altered: its content is not what its patch-set digest was taken of")
    return manifest


def read_manifest(path: Path) -> Manifest:
    """Read the manifest at `path`; raise Refused where it cannot be read or followed."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Refused([Problem("MANIFEST", str(path), _reason(error), "give its place with --manifest")]) from error
    return parse_manifest(content, str(path))


# ---------------------------------------------------------------------------------------------- what is there


@dataclass(frozen=True)
class Root:
    """One real folder of a package, and the spellings that lead to it. A mirrored layout has several Roots."""

    name: str
    real: Path
    spellings: tuple[Path, ...]


@dataclass(frozen=True)
class Finding:
    """One file of the patch set as it is in one root. `real` is where its bytes are, or would be written."""

    entry: FileEntry
    root: Root
    real: Path
    state: str  # applied, partly, original, changed, missing, unreadable or unsafe
    position: int | None = None
    why: str = ""


def find_roots(manifest: Manifest, prefix: str) -> tuple[list[Root], list[Problem]]:
    """Resolve every spelling by its real path; a package of which no spelling exists is a problem."""
    roots = []
    problems = []
    for name, spellings in sorted(manifest.roots.items()):
        real: dict[Path, list[Path]] = {}
        tried = []
        for path in [Path(prefix + spelling) for spelling in spellings]:
            try:
                found = stat.S_ISDIR(path.stat().st_mode)
                reason = "not a folder"
            except OSError as error:
                found, reason = False, _reason(error)
            if found:
                real.setdefault(Path(os.path.realpath(str(path))), []).append(path)
            else:
                tried.append(f"{path} ({reason})")
        roots += [Root(name, folder, tuple(paths)) for folder, paths in real.items()]
        if not real:
            what = f"is in none of its places: {', '.join(tried)}"
            problems.append(Problem("ROOT", name, what, "correct the target's package roots"))
    return roots, problems


def judge(entry: FileEntry, root: Root) -> Finding:
    """Look at one file and place it in its chain."""
    named = root.real / entry.path
    real = Path(os.path.realpath(str(named)))
    if root.real not in real.parents:
        return Finding(entry, root, named, "unsafe", why=f"leads out of the root, to {real}")
    try:
        sha256 = sha256_of(real)
    except FileNotFoundError:
        return _absent(entry, root, named, real)
    except OSError as error:
        return Finding(entry, root, real, "unreadable", why=_reason(error))
    position = entry.position(sha256)
    if position is None:
        expected = (
            f"the original has {entry.before}" if entry.before else "the patch set brings it, so it must not exist"
        )
        return Finding(entry, root, real, "changed", why=f"has sha256 {sha256}, {expected}")
    state = "applied" if sha256 == entry.after else "original" if sha256 == entry.before else "partly"
    return Finding(entry, root, real, state, position)


def _absent(entry: FileEntry, root: Root, named: Path, real: Path) -> Finding:
    if os.path.lexists(str(named)):
        return Finding(entry, root, named, "unsafe", why="is a link to nothing")
    if entry.before is None:
        return Finding(entry, root, real, "original", -1)
    return Finding(entry, root, real, "missing", why="does not exist")


def sha256_of(path: Path) -> str:
    """Return the sha256 of a regular file's bytes; anything else is an OSError, so that no pipe can block us."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    total = hashlib.sha256()
    with path.open("rb") as stream:
        for chunk in iter(lambda: stream.read(1 << 20), b""):
            total.update(chunk)
    return total.hexdigest()


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


# ---------------------------------------------------------------------------------------------- reasons to refuse


def refusals(findings: Sequence[Finding]) -> Iterator[Problem]:
    """Yield every reason why these files must not be written."""
    again = "this is not the tree that the patch set was made for: render again from this image's tree"
    codes = {
        "unsafe": ("UNSAFE", "make it a regular file inside the root"),
        "unreadable": ("UNREADABLE", "make it a regular file that this user may read"),
        "missing": ("MISSING", again),
        "changed": ("CHANGED", again),
    }
    for finding in findings:
        if finding.state in codes:
            code, todo = codes[finding.state]
            yield Problem(code, str(finding.real), finding.why, todo)
    yield from _mixed(findings)
    yield from _conflicts(findings)


def _mixed(findings: Sequence[Finding]) -> Iterator[Problem]:
    """A tree is either the original or the patched one; half of each is nobody's known state."""
    telling = [f for f in findings if f.position is not None and f.entry.before != f.entry.after]
    if {finding.state for finding in telling} in ({"original"}, {"applied"}, set()):
        return
    for finding in telling:
        yield Problem("MIXED", str(finding.real), f"is {finding.state} while others are not", "start from a whole base")


def _conflicts(findings: Sequence[Finding]) -> Iterator[Problem]:
    first: dict[Path, FileEntry] = {}
    for finding in findings:
        entry = first.setdefault(finding.real, finding.entry)
        if (entry.before, entry.after) != (finding.entry.before, finding.entry.after):
            both = f"is both {entry.name} and {finding.entry.name}, with different contents"
            yield Problem("CONFLICT", str(finding.real), both, "list the real file only")


def _read_overlay(manifest: Manifest, overlay: Path) -> tuple[dict[str, bytes], list[Problem]]:
    contents = {}
    problems = []
    todo = "render the patch set again and copy it whole"
    for entry in manifest.files:
        if entry.before == entry.after:
            continue
        path = overlay / entry.name
        try:
            contents[entry.name] = path.read_bytes()
        except OSError as error:
            problems.append(Problem("OVERLAY", str(path), _reason(error), todo))
            continue
        found = hashlib.sha256(contents[entry.name]).hexdigest()
        if found != entry.after:
            problems.append(Problem("OVERLAY", str(path), f"has sha256 {found}, expected {entry.after}", todo))
    return contents, problems


# ---------------------------------------------------------------------------------------------- wheels


@dataclass(frozen=True)
class WheelFinding:
    """One wheel of the patch set and the distribution that this interpreter has now.

    `members` are the sha256 of the wheel's files by the name they get beside each other in site-packages.
    """

    entry: WheelEntry
    state: str  # applied, original (it may be installed), changed, missing or unreadable
    installed: str | None
    why: str = ""
    members: tuple[tuple[str, str], ...] = ()


def judge_wheels(manifest: Manifest, folder: Path, prefix: str) -> tuple[list[WheelFinding], list[Problem]]:
    """Look at every wheel in `folder` and at what is installed in its place."""
    problems = list(_strays(manifest, folder))
    if manifest.wheels and prefix:
        what = "wheels go into the running interpreter's own packages, not below a prefix"
        problems.append(Problem("WHEEL", prefix, what, "run without --prefix"))
    covered = {entry.name for entry in manifest.files}
    findings = []
    for entry in manifest.wheels:
        path = folder / entry.file
        try:
            content = path.read_bytes()
            found = hashlib.sha256(content).hexdigest()
            what = "" if found == entry.sha256 else f"has sha256 {found}, expected {entry.sha256}"
        except OSError as error:
            what = _reason(error)
        if what:
            problems.append(Problem("WHEEL", str(path), what, "render the patch set again and copy it whole"))
            findings.append(WheelFinding(entry, "unreadable", _version_of(entry.name), what))
        else:
            findings.append(_judge_wheel(entry, content, covered))
    return findings, problems


def _strays(manifest: Manifest, folder: Path) -> Iterator[Problem]:
    listed = {wheel.file for wheel in manifest.wheels}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name not in listed:
            yield Problem("WHEEL", str(path), "is no wheel of this patch set", "remove it, or render it in a stage")


def _judge_wheel(entry: WheelEntry, content: bytes, covered: set[str]) -> WheelFinding:
    members = _members(content)
    found = _distribution(entry.name)
    installed = found.version if found else None
    why = ""
    if found and installed == entry.version:
        differ = [name for name, sha256 in members if name not in covered and not _is_installed(found, name, sha256)]
        if not differ:
            return WheelFinding(entry, "applied", installed, members=members)
        why = f"is {installed}, but not from this wheel: {', '.join(differ[:3])}{' …' if differ[3:] else ''}"
    if installed == entry.before or (entry.before is None and installed != entry.version):
        return WheelFinding(entry, "original", installed, why, members)
    if not why:
        why = f"is {installed or 'not installed'}, the patch set replaces {entry.before}"
    return WheelFinding(entry, "missing" if installed is None else "changed", installed, why, members)


def _members(content: bytes) -> tuple[tuple[str, str], ...]:
    """Return (name, sha256) of the files that a wheel puts into site-packages, as its own RECORD lists them.

    What goes elsewhere (`NAME.data/`, such as programs) is left out, and so is what pip writes itself.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        record = next(n for n in archive.namelist() if n.count("/") == 1 and n.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(io.StringIO(archive.read(record).decode("utf-8"))))
        return tuple(
            (row[0], hashlib.sha256(archive.read(row[0])).hexdigest())
            for row in rows
            if row and row[0] != record and not row[0].split("/")[0].endswith(".data") and row[1:] and row[1]
        )


def _distribution(name: str) -> importlib.metadata.Distribution | None:
    importlib.invalidate_caches()
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _version_of(name: str) -> str | None:
    found = _distribution(name)
    return found.version if found else None


def _is_installed(found: importlib.metadata.Distribution, name: str, sha256: str) -> bool:
    try:
        return sha256_of(Path(str(found.locate_file(name)))) == sha256
    except OSError:
        return False


def _wheel_refusals(findings: Iterable[WheelFinding]) -> Iterator[Problem]:
    """Yield why these wheels must not be installed, over what is there now and by what is there to do it."""
    again = "start from the image that the patch set was made for, or correct `replaces:` of its stage"
    for finding in findings:
        if finding.state in ("changed", "missing"):
            yield Problem("WHEEL", finding.entry.name, finding.why, again)
    if any(finding.state == "original" for finding in findings):
        told = _pip("--version")
        if told.returncode != 0:
            what = f"has no pip that runs: {_last_line(told.stderr)}"
            todo = "install pip into this interpreter in an earlier image (`python3 -m ensurepip`, or its package)"
            yield Problem("NOPIP", sys.executable, what, todo)


def _pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this interpreter's pip so that nothing but the arguments decides: no configuration, no network, no user."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "PYTHON"))}
    own = {  # by environment, since an older pip takes an option that it does not know for an error
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "PIP_BREAK_SYSTEM_PACKAGES": "1",  # the image is one program's; the patch set names what it replaces
    }
    return subprocess.run(  # noqa: S603 - our own interpreter, and files whose digests were checked
        [sys.executable, "-I", "-m", "pip", *arguments],
        env={**kept, **own},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it says nothing"])[-1]


def install_wheels(pending: Iterable[WheelFinding], folder: Path) -> list[str]:
    """Install wheels one by one and look at each; raise Refused at the first that is not in afterwards."""
    done: list[str] = []
    for finding in pending:
        entry = finding.entry
        options = ["--no-index", "--no-deps", "--no-cache-dir", "--force-reinstall"]
        told = _pip("install", *options, str(folder / entry.file))
        now = _judge_wheel(entry, (folder / entry.file).read_bytes(), set())
        if told.returncode != 0 or now.state != "applied":
            what = f"pip says: {_last_line(told.stderr)}" if told.returncode else now.why or f"is still {now.installed}"
            raise Refused([Problem("WHEEL", entry.name, what, f"look at this image's pip{_stays(done)}")])
        done.append(f"installed {entry.name} {entry.version}, replacing {finding.installed or 'nothing'}")
    return done


def _stays(done: Sequence[str]) -> str:
    return f"; start anew, since this stays: {', '.join(done)}" if done else ""


def _to_come(manifest: Manifest, pending: Sequence[WheelFinding], prefix: str) -> tuple[list[Finding], list[Problem]]:
    """Return the files of the roots that wheels are about to fill as they will be; a problem where they do not fit."""
    findings = []
    problems = []
    for wheel in pending:
        members = dict(wheel.members)
        for entry in manifest.files:
            if entry.root not in wheel.entry.roots:
                continue
            folder = Path(prefix + manifest.roots[entry.root][0])
            if members.get(entry.name) != entry.before:
                what = f"is not the original of {entry.name} that the patch set was made for"
                problems.append(Problem("WHEEL", wheel.entry.file, what, "render again from this image's tree"))
            findings.append(Finding(entry, Root(entry.root, folder, (folder,)), folder / entry.path, "original", -1))
    return findings, problems


# ---------------------------------------------------------------------------------------------- compiling


@dataclass(frozen=True)
class BuildFinding:
    """One file that is compiled here, in one root: what it is now, and its digest if it is there."""

    entry: BuildEntry
    root: Root
    real: Path
    state: str  # applied, original (it may be compiled), changed, unsafe or unreadable
    sha256: str = ""
    why: str = ""


def judge_builds(manifest: Manifest, roots: Sequence[Root], known: Mapping[str, str]) -> list[BuildFinding]:
    """Look at every file that is compiled here; `known` is real path → the digest that an install wrote down."""
    return [_judge_build(b, root, known) for root in roots for b in manifest.builds if b.root == root.name]


def _judge_build(entry: BuildEntry, root: Root, known: Mapping[str, str]) -> BuildFinding:
    named = root.real / entry.to
    real = Path(os.path.realpath(str(named)))
    if root.real not in real.parents:
        return BuildFinding(entry, root, named, "unsafe", why=f"leads out of the root, to {real}")
    try:
        sha256 = sha256_of(real)
    except FileNotFoundError:
        if os.path.lexists(str(named)):
            return BuildFinding(entry, root, named, "unsafe", why="is a link to nothing")
        gone = str(real) in known
        return BuildFinding(entry, root, real, "original", why="was compiled and is gone" if gone else "")
    except OSError as error:
        return BuildFinding(entry, root, real, "unreadable", why=_reason(error))
    if known.get(str(real)) == sha256:
        return BuildFinding(entry, root, real, "applied", sha256)
    was = f"what was compiled here has {known[str(real)]}" if str(real) in known else "nothing was compiled here"
    return BuildFinding(entry, root, real, "changed", sha256, f"has sha256 {sha256}, {was}")


def _known_builds(manifest: Manifest, manifest_path: Path) -> dict[str, str]:
    """Return real path → digest of what an install of this very patch set compiled."""
    try:
        data = json.loads(manifest_path.with_name("installed.json").read_text("utf-8"))
        if data["patchset"] != manifest.patchset:
            return {}
        return {_text(item["real"]): _text(item["sha256"]) for item in data["builds"]}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _build_refusals(findings: Iterable[BuildFinding]) -> Iterator[Problem]:
    todo = "start from the image that the patch set was made for"
    for finding in findings:
        if finding.state not in {"applied", "original"}:
            yield Problem("BUILD", str(finding.real), finding.why, todo)
        elif finding.state == "original" and not Path(finding.entry.command[0]).is_file():
            what = "is not in this image"
            yield Problem("BUILD", finding.entry.command[0], what, "correct `compiler:` of the target")


def _compiler(finding: BuildFinding) -> Callable[[Path], None]:
    """Return what has a source compiled, which is in place by then; raises Refused with what the compiler says."""
    entry = finding.entry
    source = finding.root.real / entry.source
    like = _like(finding.real)

    def write(new: Path) -> None:
        todo = f"correct `compiler:` of the target, or switch stage {entry.stage} off"
        try:
            told = subprocess.run(  # noqa: S603 - the target's compiler, and a source whose digest was checked
                [*entry.command, str(source), "-o", str(new)],
                cwd=str(source.parent),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise Refused([Problem("BUILD", entry.command[0], _reason(error), todo)]) from error
        if told.returncode != 0 or not new.is_file():
            sys.stderr.write(told.stdout)
            ended = f"ended with status {told.returncode}" if told.returncode else f"made no {finding.real.name}"
            what = f"{entry.command[0]} {ended}: {_last_line(told.stdout)}"
            raise Refused([Problem("BUILD", str(source), what, todo)])
        _own(new, *like)

    return write


def _build(change: Change, findings: Sequence[BuildFinding]) -> tuple[list[str], dict[str, str]]:
    """Compile what is not there yet; return what was done, and real path → digest of all that was compiled."""
    done = []
    digests = {}
    for finding in findings:
        digests[str(finding.real)] = finding.sha256
        if finding.state == "original":
            change.make_folders(finding.real.parent)
            new = change.prepare(finding.real, _compiler(finding))
            digests[str(finding.real)] = sha256_of(new)
            change.swap(new, finding.real)
            done.append(f"compiled {finding.real}, sha256 {digests[str(finding.real)]}")
    return done, digests


# ---------------------------------------------------------------------------------------------- writing


class Change:
    """Everything that one install does to the file system, undone as a whole unless `keep` is reached.

    New content is prepared beside its target first, so that a full disk or a syntax error is met while nothing has
    been replaced. The replaced files wait under another name, so undoing is renaming and needs no space.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._olds: list[Path] = []

    def make_folders(self, folder: Path) -> None:
        """Make `folder` and what it needs above it, with the mode and owner of the nearest folder there is."""
        if folder.is_dir():
            return
        self.make_folders(folder.parent)
        like = folder.parent.stat()
        folder.mkdir()
        self._undo.append(folder.rmdir)
        _own(folder, like.st_uid, like.st_gid, stat.S_IMODE(like.st_mode))

    def prepare(self, target: Path, write: Callable[[Path], None]) -> Path:
        """Let `write` make the new content beside `target`; return where it is."""
        new = target.with_name(f".{target.name}{NEW}")
        _unlink(new)  # left by an install that was killed
        self._undo.append(lambda: _unlink(new))
        try:
            write(new)
        except OSError as error:
            error.filename = error.filename or str(target)  # write() itself does not know where it writes
            raise
        return new

    def swap(self, new: Path, target: Path) -> None:
        """Put `new` in the place of `target`, which is never absent in between."""
        if os.path.lexists(str(target)):
            old = self._old_name(target)
            try:
                os.link(str(target), str(old), follow_symlinks=False)
            except OSError:  # no hard links here, or not allowed to this user
                target.rename(old)
            self._undo.append(lambda: _move(old, target))
        else:
            self._undo.append(lambda: _unlink(target))
        new.replace(target)

    def remove(self, target: Path) -> None:
        """Take `target` away."""
        old = self._old_name(target)
        target.rename(old)
        self._undo.append(lambda: _move(old, target))

    def _old_name(self, target: Path) -> Path:
        old = target.with_name(f".{target.name}{OLD}")
        _unlink(old)
        self._olds.append(old)
        return old

    def undo(self) -> list[Problem]:
        """Restore what was there, newest change first; return what could not be restored."""
        problems = []
        while self._undo:
            try:
                self._undo.pop()()
            except OSError as error:
                problems.append(Problem("UNDO", str(error.filename), _reason(error), "do not use this image"))
        return problems

    def keep(self) -> list[Problem]:
        """Make the change final; return what is left over of it."""
        self._undo.clear()
        problems = []
        for old in self._olds:
            try:
                _unlink(old)
            except OSError as error:
                problems.append(Problem("LEFTOVER", str(old), _reason(error), "remove it; the patch set is in"))
        return problems


def _move(old: Path, target: Path) -> None:
    # rename() does nothing between two names of one file, which is how an undo before the swap finds them.
    old.replace(target)
    _unlink(old)


def _unlink(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def _own(path: Path, uid: int, gid: int, mode: int) -> None:
    """Give owner and mode outright: what the umask left is of no interest."""
    now = path.stat()
    if (now.st_uid, now.st_gid) != (uid, gid):
        os.chown(str(path), uid, gid)
    path.chmod(mode)


def _writer(content: bytes, target: Path) -> Callable[[Path], None]:
    """Return what writes `content` with the mode, owner and attributes that `target` has, or should have."""
    like = _like(target)

    def write(new: Path) -> None:
        descriptor = os.open(str(new), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        _own(new, *like)
        if target.exists():
            _copy_attributes(target, new)

    return write


def _like(target: Path) -> tuple[int, int, int]:
    """Return uid, gid and mode for `target`: its own, else a sibling module's, else the folder's owner and 0644."""
    if target.exists():
        found = target.stat()
        return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)
    siblings = sorted(target.parent.glob("*.py"), key=lambda path: (path.name != "__init__.py", path.name))
    for sibling in siblings:
        found = sibling.lstat()
        if stat.S_ISREG(found.st_mode):
            return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)
    folder = target.parent.stat()
    return folder.st_uid, folder.st_gid, 0o644


def _copy_attributes(source: Path, target: Path) -> None:
    if not hasattr(os, "listxattr"):
        return
    ignored = (errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.ENODATA, errno.EINVAL)
    try:
        for name in os.listxattr(str(source)):
            os.setxattr(str(target), name, os.getxattr(str(source), name))
    except OSError as error:
        if error.errno not in ignored:
            raise


# ---------------------------------------------------------------------------------------------- bytecode


def _bytecode_of(real: Path) -> list[Path]:
    """Return every compiled form of `real` that any interpreter might load."""
    pattern = re.compile(re.escape(real.stem) + r"\.[^.]+(\.opt-[^.]+)?\.pyc\Z")
    cache = real.parent / "__pycache__"
    cached = [path for path in cache.iterdir() if pattern.match(path.name)] if cache.is_dir() else []
    beside = [real.with_suffix(suffix) for suffix in (".pyc", ".pyo")]
    return sorted(cached + [path for path in beside if os.path.lexists(str(path))])


def _is_checked(bytecode: Path, source: bytes) -> bool:
    """Whether `bytecode` was made from `source` by this Python and will be compared with it at every import."""
    with bytecode.open("rb") as stream:
        head = stream.read(16)
    return head == importlib.util.MAGIC_NUMBER + b"\3\0\0\0" + importlib.util.source_hash(source)


def _compile(source: Path, real: Path) -> Callable[[Path], None]:
    def write(new: Path) -> None:
        mode = py_compile.PycInvalidationMode.CHECKED_HASH
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an odd escape in the vendor's text must not fail the build
                py_compile.compile(
                    str(source), str(new), dfile=str(real), doraise=True, optimize=0, invalidation_mode=mode
                )
        except py_compile.PyCompileError as error:
            what = f"does not compile on Python {platform.python_version()}: {error.exc_value}"
            raise Refused([Problem("COMPILE", str(real), what, "correct the stage that writes it")]) from error
        found = source.stat()
        _own(new, found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))

    return write


def _bytecode_problems(findings: Iterable[Finding]) -> Iterator[Problem]:
    for finding in findings:
        cache = finding.real.parent / "__pycache__"
        real = Path(os.path.realpath(str(cache)))
        if finding.real.suffix != ".py":
            continue
        if finding.root.real not in real.parents:
            what = f"leads out of the root, to {real}"
        elif os.path.lexists(str(cache)) and not real.is_dir():
            what = "is not a folder"
        else:
            continue
        yield Problem("UNSAFE", str(cache), what, "remove it; Python makes it anew")


# ---------------------------------------------------------------------------------------------- install


def install(manifest_path: Path, prefix: str) -> list[str]:
    """Apply the patch set, or raise Refused with nothing changed. Returns the lines that tell what was done.

    Wheels come first, and only once nothing that can be known speaks against the rest.
    """
    manifest = read_manifest(manifest_path)
    folder = manifest_path.parent / "wheels"
    wheels, problems = judge_wheels(manifest, folder, prefix)
    running = "{}.{}".format(*sys.version_info)
    if running != manifest.python:
        what = f"is Python {running}, the patch set is for {manifest.python}"
        problems.append(Problem("PYTHON", sys.executable, what, "run install with the target's interpreter"))
    contents, damaged = _read_overlay(manifest, manifest_path.parent / "overlay")
    problems += [*damaged, *_wheel_refusals(wheels)]
    pending = [wheel for wheel in wheels if wheel.state == "original"]
    later = {root for wheel in pending for root in wheel.entry.roots}
    roots, findings, refused = _looked_at(manifest, prefix, later)
    to_come, unlike = _to_come(manifest, pending, prefix)
    known = _known_builds(manifest, manifest_path)
    builds = judge_builds(manifest, roots, known)
    problems += [*refused, *unlike, *refusals([*findings, *to_come]), *_build_refusals(builds)]
    if problems:
        raise Refused(dict.fromkeys(problems))
    done = install_wheels(pending, folder)
    if done:
        roots, findings, refused = _looked_at(manifest, prefix, set())
        builds = judge_builds(manifest, roots, known)
        problems = [*refused, *refusals(findings), *_build_refusals(builds)]
        if problems:
            stays = Problem("WHEEL", str(folder), _stays(done)[2:], "correct the target's package roots")
            raise Refused([*dict.fromkeys(problems), stays])
    once = {finding.real: finding for finding in findings if finding.entry.before != finding.entry.after}
    made = {build.real: build for build in builds}
    done += _carry_out(manifest, roots, contents, list(once.values()), manifest_path, list(made.values()))
    state = "applied" if done else "already applied, nothing written"
    return [*done, f"patch set {manifest.patchset} ({manifest.name}): {state}"]


def _looked_at(manifest: Manifest, prefix: str, later: set[str]) -> tuple[list[Root], list[Finding], list[Problem]]:
    """Return roots, files and what is wrong with their folders, without the roots that are still to come."""
    found, missing = find_roots(manifest, prefix)
    roots = [root for root in found if root.name not in later]
    findings = [judge(entry, root) for root in roots for entry in manifest.files if entry.root == root.name]
    absent = [problem for problem in missing if problem.path not in later]
    return roots, findings, [*absent, *_bytecode_problems(findings)]


def _carry_out(  # noqa: PLR0913, PLR0917 - all that an install has found out
    manifest: Manifest,
    roots: Sequence[Root],
    contents: Mapping[str, bytes],
    findings: Sequence[Finding],
    manifest_path: Path,
    builds: Sequence[BuildFinding],
) -> list[str]:
    change = Change()
    try:
        done = _apply(change, findings, contents)
        compiled, digests = _build(change, builds)
        done += compiled
        done += _leave_record(change, _installed(manifest, roots, findings, digests), manifest_path)
        _check_again(manifest, roots)
    except OSError as error:
        raise Refused([_write_problem(error), *change.undo()]) from error
    except Refused as refused:
        raise Refused([*refused.problems, *change.undo()]) from refused
    except BaseException:
        change.undo()
        raise
    left = change.keep()
    if left:
        raise Refused(left)
    return done


def _apply(change: Change, findings: Sequence[Finding], contents: Mapping[str, bytes]) -> list[str]:
    """Prepare everything, then swap; return what was done, line by line."""
    swaps = []
    stale = []
    for finding in findings:
        real = finding.real
        content = contents[finding.entry.name]
        source = real
        if finding.state == "original":
            change.make_folders(real.parent)
            source = change.prepare(real, _writer(content, real))
            swaps.append((source, real))
        if real.suffix != ".py":
            continue
        compiled = _bytecode_of(real)
        own = real.parent / "__pycache__" / f"{real.stem}.{sys.implementation.cache_tag}.pyc"
        checked = [path for path in compiled if _is_checked(path, content)]
        stale += [path for path in compiled if path not in checked and path != own]
        if own not in checked:
            change.make_folders(own.parent)
            swaps.append((change.prepare(own, _compile(source, real)), own))
    for path in stale:
        change.remove(path)
    for new, target in swaps:
        change.swap(new, target)
    return [f"removed {path}" for path in stale] + [f"wrote {target}" for _, target in swaps]


def _leave_record(change: Change, content: bytes, manifest_path: Path) -> list[str]:
    """Write `installed.json` beside the manifest, unless it says this already."""
    target = manifest_path.with_name("installed.json")
    if target.exists() and target.read_bytes() == content:
        return []
    new = change.prepare(target, _writer(content, target))
    like = manifest_path.stat()
    _own(new, like.st_uid, like.st_gid, stat.S_IMODE(like.st_mode))
    change.swap(new, target)
    return [f"wrote {target}"]


def _installed(
    manifest: Manifest, roots: Sequence[Root], findings: Iterable[Finding], compiled: Mapping[str, str]
) -> bytes:
    record = {
        "version": VERSION,
        "name": manifest.name,
        "patchset": manifest.patchset,
        "python": platform.python_version(),
        "roots": [
            {"root": root.name, "real": str(root.real), "spellings": [str(path) for path in root.spellings]}
            for root in roots
        ],
        "files": sorted(str(finding.real) for finding in findings),
        "wheels": [{"name": w.name, "version": w.version, "sha256": w.sha256} for w in manifest.wheels],
        "builds": [{"real": real, "sha256": sha256} for real, sha256 in sorted(compiled.items())],
    }
    return (json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _check_again(manifest: Manifest, roots: Sequence[Root]) -> None:
    """Look at every file through every spelling of its root, which is how programs will find it."""
    problems = []
    for root in roots:
        for spelling in root.spellings:
            for entry in manifest.files:
                if entry.root == root.name and sha256_of(spelling / entry.path) != entry.after:
                    path = str(spelling / entry.path)
                    problems.append(Problem("WRITE", path, "is not what was written", "look for another writer"))
    if problems:
        raise Refused(problems)


def _write_problem(error: OSError) -> Problem:
    advice = {
        errno.EROFS: "make the file system writable",
        errno.ENOSPC: "free some space",
        errno.EDQUOT: "free some space",
        errno.EACCES: "run as a user who may write there, in a Dockerfile `USER root`",
        errno.EPERM: "run as a user who may write there, in a Dockerfile `USER root`",
    }
    todo = advice.get(error.errno or 0, "look at the file system")
    return Problem("WRITE", str(error.filename or "the disk"), _reason(error), f"{todo}; nothing was changed")


# ---------------------------------------------------------------------------------------------- verify


def verify(manifest_path: Path, prefix: str) -> dict[str, Any]:
    """Return what is in now, as plain data; reads only. Raises Refused where the manifest is damaged."""
    manifest = read_manifest(manifest_path)
    roots, missing = find_roots(manifest, prefix)
    findings = [judge(entry, root) for root in roots for entry in manifest.files if entry.root == root.name]
    absent = {problem.path for problem in missing}
    wheels, damaged = judge_wheels(manifest, manifest_path.parent / "wheels", prefix)
    missing += damaged
    builds = judge_builds(manifest, roots, _known_builds(manifest, manifest_path))
    states = {f.state for f in findings} | {w.state for w in wheels} | {b.state for b in builds}
    return {
        "version": VERSION,
        "name": manifest.name,
        "patchset": manifest.patchset,
        "ok": not missing and states <= {"applied"},
        "roots": [{"root": r.name, "real": str(r.real), "spellings": [str(p) for p in r.spellings]} for r in roots],
        "problems": [str(problem) for problem in missing],
        "stages": [_stage_report(stage, findings, [*wheels, *builds], absent) for stage in manifest.stages],
        "wheels": [
            {
                "name": w.entry.name,
                "version": w.entry.version,
                "installed": w.installed,
                "state": w.state,
                "why": w.why,
            }
            for w in wheels
        ],
        "builds": [
            {"name": b.entry.name, "real": str(b.real), "state": b.state, "sha256": b.sha256, "why": b.why}
            for b in builds
        ],
        "files": [
            {"name": f.entry.name, "real": str(f.real), "state": f.state, "why": f.why, "through": _through(f)}
            for f in findings
        ],
    }


def _through(finding: Finding) -> str | None:
    """Return the last stage that this file has in it, or None."""
    known = finding.position is not None and finding.position >= 0
    return finding.entry.images[finding.position or 0].stage if known else None


def _stage_report(
    stage: StageEntry,
    findings: Sequence[Finding],
    others: Sequence[WheelFinding | BuildFinding],
    absent: set[str],
) -> dict[str, Any]:
    files = [
        {"name": finding.entry.name, "real": str(finding.real), "state": _stage_state(stage.id, finding)}
        for finding in findings
        if finding.entry.name in stage.files
    ]
    states = {item["state"] for item in files}
    states |= {other.state for other in others if other.entry.stage == stage.id}
    if any(name.split("/")[0] in absent for name in stage.files):
        states.add("missing")
    return {"id": stage.id, "outcome": stage.outcome, "state": _together(states), "files": files}


def _stage_state(stage: str, finding: Finding) -> str:
    if finding.position is None:
        return finding.state
    index = [image.stage for image in finding.entry.images].index(stage)
    return "applied" if finding.position >= index else "original"


def _together(states: set[str]) -> str:
    """Return one word for a stage: the worst of its files', or `partly` where some are in and some are not."""
    for word in ("unsafe", "unreadable", "missing", "changed"):
        if word in states:
            return word
    if len(states) > 1:
        return "partly"
    return next(iter(states), "no files")


def table(report: Mapping[str, Any]) -> list[str]:
    """Return the report of `verify` as lines for people."""
    lines = [f"patch set {report['patchset']} ({report['name']}): {'applied' if report['ok'] else 'NOT applied'}"]
    lines += [f"root {root['root']}: {root['real']} ({', '.join(root['spellings'])})" for root in report["roots"]]
    lines += report["problems"]
    width = max([len(stage["id"]) for stage in report["stages"]] or [0])
    for stage in report["stages"]:
        count = len(stage["files"])
        lines.append(f"{stage['state']:<10} {stage['id']:<{width}}  {stage['outcome']}, files: {count}")
    for item in report["wheels"]:
        what = item["why"] or f"is {item['installed'] or 'not installed'}, to become {item['version']}"
        done = f"is {item['version']}, as the wheel has it" if item["state"] == "applied" else what
        lines.append(f"{item['state']:<10} wheel {item['name']}: {done}")
    for item in report["builds"]:
        what = f"compiled here, sha256 {item['sha256']}" if item["state"] == "applied" else item["why"]
        lines.append(f"{item['state']:<10} {item['real']}: {what or 'is not compiled yet'}")
    for item in report["files"]:
        if item["state"] != "applied":
            why = item["why"] or f"has the stages up to {item['through'] or 'none'}"
            lines.append(f"{item['state']:<10} {item['real']}: {why}")
    return lines


# ---------------------------------------------------------------------------------------------- live


def live(manifest_path: Path, prefix: str) -> dict[str, Any]:
    """Return what the modules say that the patch set names for it; raises Refused where the manifest is damaged.

    Each is loaded by its path, apart from its package, and only if it is the file that the patch set has: its function
    `live()` returns mappings of `operation`, `path` and `reason` to texts.
    """
    manifest = read_manifest(manifest_path)
    roots, missing = find_roots(manifest, prefix)
    asked = {stage.live for stage in manifest.stages if stage.live is not None}
    entries = [entry for entry in manifest.files if entry.name in asked]
    findings = [judge(entry, root) for root in roots for entry in entries if entry.root == root.name]
    wanted = {name.split("/")[0] for name in asked}
    absent = [problem for problem in missing if problem.path in wanted]
    problems = []
    rows: list[dict[str, str]] = []
    for finding in {finding.real: finding for finding in findings}.values():
        if finding.state != "applied":
            why = finding.why or f"is {finding.state}"
            absent.append(Problem("LIVE", str(finding.real), f"{why}, so it is not asked", "install the patch set"))
            continue
        try:
            rows += [row for row in _answers(finding.real) if row not in rows]
        except Exception as error:  # noqa: BLE001 - whatever code of the image may raise
            what = f"does not answer ({type(error).__name__}: {error})"
            problems.append(Problem("LIVE", str(finding.real), what, "correct the stage that deploys it"))
    return {
        "version": VERSION,
        "name": manifest.name,
        "patchset": manifest.patchset,
        "applied": not absent,
        "answered": not problems,
        "asked": sorted(asked),
        "problems": [str(problem) for problem in absent + problems],
        "operations": rows,
    }


def _answers(path: Path) -> list[dict[str, str]]:
    """Run the module at `path` by itself and return what its `live()` says; raises what it raises, or TypeError.

    Its bytecode is passed over: nothing says that it was made from this source.
    """
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    module = types.ModuleType(f"_patchset_live_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what it prints is not the report
            exec(code, module.__dict__)  # noqa: S102 - the file is the one that the patch set brought
            found = module.live()
    except SystemExit as error:
        raise RuntimeError(f"it ended the program: exit({error.code!r})") from error
    finally:
        sys.dont_write_bytecode = written
        del sys.modules[module.__name__]
    return [{key: _text(row[key]) for key in ("operation", "path", "reason")} for row in found]


def live_table(report: Mapping[str, Any]) -> list[str]:
    """Return the report of `live` as lines for people."""
    rows = [("operation", "path", "reason")]
    rows += [(row["operation"], row["path"], row["reason"]) for row in report["operations"]]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}" for row in rows] if len(rows) > 1 else []
    if not report["asked"]:
        lines.append("no stage of this patch set brings a module that can be asked")
    return [*report["problems"], *lines]


# ---------------------------------------------------------------------------------------------- command line


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    common = argparse.ArgumentParser(add_help=False)
    beside = Path(os.path.realpath(__file__)).with_name("manifest.json")
    common.add_argument("--manifest", type=Path, default=beside, help="default: beside this program")
    common.add_argument("--prefix", default="", metavar="DIR", help="look for the roots below DIR instead of /")
    parser = argparse.ArgumentParser(prog="patchset.py", description="Install a patch set, or say what is in.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install", parents=[common], help="check every original, write, check again")
    inspect = commands.add_parser("verify", parents=[common], help="say what is in; writes nothing")
    ask = commands.add_parser("live", parents=[common], help="say which path each operation takes now")
    for command in (inspect, ask):
        command.add_argument("--json", action="store_true", help="print the report as JSON")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Run one command and return the exit code."""
    arguments = _arguments(argv)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # an image may have no locale
    prefix = arguments.prefix.rstrip("/")
    try:
        if arguments.command == "install":
            lines = install(arguments.manifest, prefix)
            code = OK
        elif arguments.command == "live":
            report = live(arguments.manifest, prefix)
            lines = [json.dumps(report, indent=2, sort_keys=True)] if arguments.json else live_table(report)
            code = NOT_APPLIED if not report["applied"] else OK if report["answered"] else REFUSED
        else:
            report = verify(arguments.manifest, prefix)
            lines = [json.dumps(report, indent=2, sort_keys=True)] if arguments.json else table(report)
            code = OK if report["ok"] else NOT_APPLIED
    except Refused as refused:
        sys.stderr.write(f"{refused}\n")
        return REFUSED if arguments.command == "install" else DAMAGED
    except KeyboardInterrupt:
        return INTERRUPTED
    sys.stdout.write("\n".join(lines) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
