"""What the commands of a shell do to the image, one method for each kind of act."""

from __future__ import annotations

import posixpath
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Severity
from orchestrator.inspect.commands import act_of
from orchestrator.inspect.copying import copy_files, need
from orchestrator.inspect.deeds import (
    STREAM_EDITORS,
    Act,
    Change,
    Copy,
    Download,
    EditFile,
    Other,
    PipInstall,
    RunScript,
)
from orchestrator.inspect.paths import is_known, joined, package_key
from orchestrator.inspect.scripts import run_python, run_shell
from orchestrator.inspect.session import SedEdit
from orchestrator.inspect.weights import is_python_path, weight_of
from orchestrator.inspect.world import Edit, Fetch, Install, Presence, Put, Verified

if TYPE_CHECKING:
    from orchestrator.core.diagnostics import Place
    from orchestrator.inspect.machine import Machine
    from orchestrator.inspect.syntax import Redirect, Statement
    from orchestrator.inspect.text import Chunk

_QUIET = frozenset([
    "echo", "printf", "true", "false", ":", "set", "export", "unset", "mkdir", "chmod", "chown", "rm", "rmdir",
    "ls", "cat", "grep", "egrep", "fgrep", "test", "[", "which", "command", "id", "exit", "return", "shift",
    "trap", "umask", "ulimit", "ldconfig", "useradd", "groupadd", "adduser", "addgroup", "usermod",
    "locale-gen", "update-alternatives", "head", "tail", "wc", "sort", "uniq", "cut", "tr", "awk", "find",
    "xargs", "date", "sleep", "env", "hash", "type", "read", "local", "declare", "eval", "kill", "wait", "ldd",
    "file", "stat", "du", "df", "uname", "whoami", "sha256sum", "sha512sum", "md5sum", "gpg", "dpkg", "rpm",
    "apt-mark", "strip", "touch", "popd", "exec", "strings", "tee", "gosu", "ln",
])  # fmt: skip
_WRITES = frozenset(["touch", "tee", "ln", "dd"])
_RANK = ("", "warning", "error")
_ADDRESS = re.compile(r"^\s*(?:\d+|\$)(?:,(?:\d+|\$))?\s*[aicdr]")
_PATCHED = re.compile(r"^\+\+\+ (?:[^\t\n]*?)([^\t\n]+?)(?:\t.*)?$", re.MULTILINE)


class Acts:
    """The effects of commands on the image of one machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.session = machine.session

    def path(self, spelled: str) -> str:
        """Return a path as the shell means it."""
        return joined(self.machine.state.cwd, spelled)

    def weight(self, act: Act, runtime: bool) -> str:  # noqa: FBT001 - one meaning
        """Return how much a failure of a command matters."""
        return weight_of(act, runtime=runtime)

    def perform(self, act: Act, place: Place, chunk: Chunk, statement: Statement, words: list[str]) -> None:
        """Do on paper what a command does, and keep how much its failure matters."""
        self.weigh(chunk.place(statement.start), self.effect(act, place, chunk, statement, words))

    def weigh(self, at: Place, weight: str) -> None:
        """Keep how much a failure of what stands at a place matters."""
        if _RANK.index(weight) > _RANK.index(
            self.session.weights.get(at, "")
        ):  # a loop does several things in one place
            self.session.weights[at] = weight

    def effect(self, act: Act, place: Place, chunk: Chunk, statement: Statement, words: list[str]) -> str:
        """Do on paper what a command does; return how much its failure matters."""
        machine = self.machine
        weight = self.weight(act, machine.runtime)
        match act:
            case Change(path=path):
                machine.state.cwd = self.path(path) if not path.startswith("-") else "${cwd}"
            case Copy():
                copy_files(machine, act, place)
            case RunScript(language="python"):
                weight = run_python(machine, act, place, chunk, statement, weight)
            case RunScript():
                weight = run_shell(machine, act, place, chunk, statement, weight)
            case EditFile():
                self._edit(act, place, statement)
            case PipInstall():
                self._install(act, place)
            case Download():
                self._download(act, place)
            case Other(name="eval" | "bash", arguments=arguments) if arguments:
                return self.effect(act_of(["bash", "-c", " ".join(arguments)]), place, chunk, statement, words)
            case Other(name=name, arguments=arguments):
                self._other(name, arguments, place, words)
        return weight

    def redirects(self, chunk: Chunk, statement: Statement) -> None:
        """Follow `> file`: it makes a file, `>> file` changes one."""
        for redirect in statement.redirects:
            if redirect.op not in {">", ">>", "&>", "&>>", ">|"} or redirect.word is None:
                continue
            path = self.path(self.machine.value(redirect.word))
            if path.startswith("/dev/"):
                continue
            place = chunk.place(redirect.word.start, redirect.word.end - redirect.word.start)
            if package_key(path) and is_python_path(path):
                how = f"`{redirect.op}`"
                self.machine.image.events.append(Edit(path, place, how, whole=">>" not in redirect.op))
                if not self.machine.runtime:  # `cat a.py > …/a.py` is a copy
                    self.weigh(chunk.place(statement.start), "error")
            if is_known(path):
                self.machine.image.put(path, "")

    def _edit(self, act: EditFile, place: Place, statement: Statement) -> None:
        image = self.machine.image
        paths = [self.path(target) for target in act.targets]
        if act.how in STREAM_EDITORS:
            for spelled, path in zip(act.targets, paths, strict=True):
                need(self.machine, spelled, place, quiet=True)
                if is_python_path(path):
                    image.events.append(Edit(path, place, f"{act.how} -i"))
                    by_line = [_ADDRESS.match(s) for s in re.split(r"[;\n]", act.script) if s.strip()]
                    if act.how not in {"sed", "gsed", "ed"} or not all(by_line):
                        self.session.seds.append(SedEdit(path, place))
            return
        patch = act.script or self._stdin(statement.redirects)
        files = need(self.machine, patch, place) if patch else []
        folder = next((o.partition("=")[2] for o in act.options if o.startswith(("-d=", "--directory="))), "")
        for path in paths + self._patched(files, act, self.path(folder) if folder else self.machine.state.cwd):
            image.events.append(Edit(path, place, act.how))
        self._judge_patch(act, place, [*paths, *self._patched(files, act, self.path(folder or "."))])

    def _judge_patch(self, act: EditFile, place: Place, paths: list[str]) -> None:
        python = not paths or any(is_python_path(path) for path in paths)
        if act.how == "patch" and python and not {"-F=0", "--fuzz=0", "--dry-run"} & set(act.options):
            message = "`patch` tolerates fuzz: where the surroundings changed it edits another place, and succeeds"
            help_ = "Give `--fuzz=0`; and check the digest of the file that is patched."
            self.session.report("E831", message, place, help_, severity=Severity.WARNING)
        above = [root for root in self.machine.image.copied if root.startswith("git:")]
        inside = any(self.machine.state.cwd.startswith(f"{root.removeprefix('git:').rstrip('/')}/") for root in above)
        if act.how == "git apply" and inside and not any(o.startswith(("--directory", "-C")) for o in act.options):
            message = "`git apply` in a subfolder of a repository skips what lies outside of it, and succeeds"
            self.session.report("E831", message, place, "Run it at the top of the repository.")

    def _stdin(self, redirects: tuple[Redirect, ...]) -> str:
        return next((self.machine.value(r.word) for r in redirects if r.op == "<" and r.word is not None), "")

    def _patched(self, files: list[str], act: EditFile, folder: str) -> list[str]:
        """Return the files that a patch names."""
        strip = next((o for o in act.options if re.fullmatch(r"-p=?\d+", o)), "-p1" if act.how != "patch" else "")
        count = int(strip.removeprefix("-p").removeprefix("=")) if strip else 0
        found = []
        for file in files:
            text = self.session.folder.text(self.machine.image.files.get(file, "")) or ""
            names = [name for name in _PATCHED.findall(text) if name != "/dev/null"]
            found += [joined(folder, "/".join(name.split("/")[count:]) or name) for name in names]
        return found

    def _install(self, act: PipInstall, place: Place) -> None:
        names = list(act.names)
        for spelled in act.requirements:
            if "://" in spelled:
                continue
            for file in need(self.machine, spelled, place):
                text = self.session.folder.text(self.machine.image.files.get(file, "")) or ""
                names += [line.split("#")[0].strip() for line in text.split("\n") if re.match(r"\s*[A-Za-z]", line)]
        for spelled in act.names:
            if spelled.endswith((".whl", ".tar.gz")) and "://" not in spelled:
                need(self.machine, spelled, place)
        self.machine.image.events.append(Install(tuple(names), place, act.how, act.options))
        local = names and all(name.startswith((".", "/")) or name.endswith(".whl") for name in names)
        if "--no-index" not in act.options and not (local and "--no-deps" in act.options):
            pinned = "--require-hashes" in act.options or (bool(names) and all(map(_is_pinned, names)))
            self.machine.image.events.append(Fetch(act.how, place, pinned))

    def _download(self, act: Download, place: Place) -> None:
        image = self.machine.image
        image.events.append(Fetch(act.how, place))
        for spelled in act.outputs:
            path = self.path(spelled)
            if act.how == "git clone":
                image.opaque.add(path)
                image.copied[f"git:{path}"] = ""
            elif is_known(path) and not spelled.endswith("/"):
                image.put(path, "")
        if not act.outputs and not act.how.startswith(("apt", "apk", "yum", "dnf")):
            image.opaque.add(self.machine.state.cwd)

    def _other(self, name: str, arguments: tuple[str, ...], place: Place, words: list[str]) -> None:
        image = self.machine.image
        base = posixpath.basename(name)
        operands = [word for word in arguments if not word.startswith("-")]
        if base in {"grep", "egrep", "fgrep", "test", "[", "cmp", "diff", "sha256sum", "md5sum"}:
            self.session.looked_at |= {self.path(word) for word in operands}
        if base in {"sha256sum", "sha512sum"} and {"-c", "--check"} & set(arguments):
            self._verify(operands, place)
        if base in _WRITES:
            self._write(base, arguments, operands, place)
        elif base == "rm":
            self._remove(operands)
        elif base == "cat":
            for spelled in operands:
                need(self.machine, spelled, place, quiet=True)
        elif base == "tar" or base not in _QUIET:
            if base == "tar" and (archive := _archive(arguments)):
                need(self.machine, archive, place, quiet=True)
            at = next((words[i + 1] for i, word in enumerate(words[:-1]) if word in {"-C", "--directory", "-d"}), "")
            folder = self.path(at) if at else self.machine.state.cwd
            image.opaque.add(folder)
            patched = any(isinstance(e, Edit | Put) and e.path.startswith(f"{folder}/") for e in image.events)
            if patched and base in {"unzip", "tar"} and package_key(f"{folder}/x"):
                what = "an archive is unpacked over a package that was patched, and what it holds is not known here"
                self.session.note(what, place, "Unpack it first and patch afterwards.")

    def _write(self, base: str, arguments: tuple[str, ...], operands: list[str], place: Place) -> None:
        """Follow what makes a file, or a whole one out of an old one."""
        image = self.machine.image
        if base == "dd":
            operands = [word.removeprefix("of=") for word in operands if word.startswith("of=")]
        for spelled in operands[-1:] if base == "ln" else operands:
            path = self.path(spelled)
            if base != "touch" and package_key(path) and is_python_path(path):
                added = {"-a", "--append"} & set(arguments)
                image.events.append(Edit(path, place, base, whole=not added))
            elif is_known(path):
                image.put(path, "")

    def _remove(self, operands: list[str]) -> None:
        image = self.machine.image
        for spelled in operands:
            presence, files = image.find(self.path(spelled))
            if presence is Presence.HERE and is_known(spelled):
                for file in files:
                    image.files.pop(file, None)
            image.copied.pop(self.path(spelled), None)

    def _verify(self, operands: list[str], place: Place) -> None:
        """Digests of files of an installed package are what the base is held against."""
        for spelled in operands:
            _, files = self.machine.image.find(self.path(spelled))
            texts = [self.session.folder.text(self.machine.image.files.get(file, "")) or "" for file in files]
            if any("-packages/" in text or re.search(r"[0-9a-f]{64}\s+\*?/", text) for text in texts):
                self.machine.image.events.append(Verified(place))
        if package_key(self.machine.state.cwd):
            self.machine.image.events.append(Verified(place))


def _archive(arguments: tuple[str, ...]) -> str:
    """Return the archive that `tar` unpacks, empty where it makes one or reads a pipe."""
    flags = [a for at, a in enumerate(arguments) if (at == 0 and "=" not in a) or a.startswith("-")]
    if not any("x" in flag for flag in flags if not flag.startswith("--")) and "--extract" not in flags:
        return ""
    for flag, after in pairwise(arguments):
        if flag in {"--file", *flags} and (flag == "--file" or (not flag.startswith("--") and flag.endswith("f"))):
            return after
    return next((a.partition("=")[2] for a in arguments if a.startswith("--file=")), "")


def _is_pinned(requirement: str) -> bool:
    """Tell whether a requirement names one version for good, or a file that is here."""
    local = requirement.startswith((".", "/")) or (requirement.endswith(".whl") and "://" not in requirement)
    return "==" in requirement or "sha256" in requirement or local
