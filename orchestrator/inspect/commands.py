"""What a simple command does, from its words: copies, runs a script, edits, installs, downloads."""

from __future__ import annotations

import posixpath
import re
from itertools import pairwise

from orchestrator.inspect.deeds import (
    LOST,
    Act,
    Change,
    Copy,
    Download,
    EditFile,
    Other,
    PipInstall,
    RunScript,
)
from orchestrator.inspect.fetching import FETCHING, fetched
from orchestrator.inspect.paths import UNKNOWN
from orchestrator.inspect.wrappers import unwrapped

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh", "busybox"})
_PYTHON_NAME = re.compile(r"(?:python|pypy)[\d.]*t?|\$\{\w*PYTHON\w*\}", re.IGNORECASE)
_PIP_NAME = re.compile(r"pip[\d.]*|\$\{\w*PIP\w*\}", re.IGNORECASE)


def act_of(words: list[str]) -> Act:
    """Return what a command does; `words` have their values, `${name}` standing for what is unknown."""
    words = unwrapped(words)
    if not words:
        return Other("")
    name, arguments = posixpath.basename(words[0]), words[1:]
    if words[0] in {"source", "."} and arguments:
        return RunScript("shell", arguments[0], tuple(arguments[1:]), sourced=True)
    if name in SHELLS:
        return _shell(arguments[1:] if name == "busybox" else arguments, name)
    if _PYTHON_NAME.fullmatch(name):
        return _python(arguments)
    if _PIP_NAME.fullmatch(name) or name in {"uv", "conda", "mamba", "micromamba", "poetry", "pipenv"}:
        return _pip(name, arguments)
    if name in _READERS:
        return _READERS[name](name, arguments)
    if name.endswith((".sh", ".bash")):
        return RunScript("shell", words[0], tuple(arguments), direct=True)
    if name.endswith(".py"):
        return RunScript("python", words[0], tuple(arguments), direct=True)
    return Other(words[0] if "/" in words[0] else name, tuple(arguments))


def split_options(arguments: list[str], valued: str = "") -> tuple[list[str], list[str], dict[str, str]]:
    """Return (options, operands, values): `valued` names the options that take the next word."""
    takes = set(valued.split())
    options, operands, values = [], [], {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            operands += rest
            break
        if not word.startswith("-") or word == "-":
            operands.append(word)
            continue
        options.append(word)
        key, equals, value = word.partition("=")
        if equals and key in takes:
            values[key] = value
        elif word in takes and rest:
            values[word] = rest.pop(0)
        elif word[:2] in takes and len(word) > 2 and not word.startswith("--"):  # noqa: PLR2004 - `-tDIR`
            values[word[:2]] = word[2:]
    return options, operands, values


def _copy(name: str, arguments: list[str]) -> Act:
    if name == "rsync" and any(re.match(r"rsync://|[\w.@-]+:", word) for word in arguments[:-1]):
        return Download("rsync", " ".join(arguments))
    valued = "-t --target-directory -S --suffix -m --mode -o --owner -g --group"
    valued += " --exclude --include --files-from -e" if name == "rsync" else ""
    options, operands, values = split_options(arguments, valued)
    into = values.get("-t") or values.get("--target-directory")
    flags = "".join(o[1:] for o in options if not o.startswith("--"))
    if name == "install" and ("d" in flags or "--directory" in options):
        return Other("mkdir", tuple(operands))
    if into is not None:
        return Copy(name, tuple(operands), into, into=True, moves=name == "mv")
    if len(operands) < 2:  # noqa: PLR2004 - a source and a target
        return Other(name, tuple(operands))
    target = operands[-1]
    many = len(operands) > 2 or target.endswith("/")  # noqa: PLR2004 - the same
    return Copy(name, tuple(operands[:-1]), target, into=many, moves=name == "mv")


def _shell(arguments: list[str], name: str) -> Act:
    flags: list[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith(("-", "+")) and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        if not word.startswith("--") and word.endswith("o") and rest:
            flags += [word, rest.pop(0)]
        elif word in {"--rcfile", "--init-file"} and rest:
            rest.pop(0)
        else:
            flags.append(word)
    language = "bash" if name in {"bash", "zsh", "ksh"} else "sh"
    flags.append(language)
    if any("c" in flag[1:] for flag in flags[:-1] if flag.startswith("-") and not flag.startswith("--")):
        return RunScript("shell", "", tuple(rest[1:]), tuple(flags), text=rest[0] if rest else "")
    path = "" if not rest or rest[0] == "-" else rest[0]
    return RunScript("shell", path, tuple(rest[1:]), tuple(flags))


def _python(arguments: list[str]) -> Act:
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word.startswith("-W") or word == "-X":
            rest = rest[0 if len(word) > 2 else 1 :]  # noqa: PLR2004 - `-Wignore`
        elif not word.startswith("--") and word.endswith("c"):
            return RunScript("python", "", tuple(rest[1:]), text=rest[0] if rest else "")
        elif not word.startswith("--") and "m" in word[1:]:
            module = word.partition("m")[2] or (rest.pop(0) if rest else "")
            if module in {"pip", "uv"}:
                return _pip(module, rest)
            return RunScript("python", "", tuple(rest), module=module)
    path = "" if not rest or rest[0] == "-" else rest[0]
    if posixpath.basename(path) == "setup.py" and rest[1:2] in (["install"], ["develop"]):
        return PipInstall("setup.py", (".",), options=("--no-index",))
    return RunScript("python", path, tuple(rest[1:]))


_PIP_VALUED = (
    "-r --requirement -c --constraint -t --target -i --index-url --extra-index-url -f --find-links -e --editable"
    " --python -p --prefix --root --trusted-host --timeout --retries --cache-dir --build-constraint --platform"
    " --proxy --config-settings -C --global-option --no-binary --only-binary --progress-bar --upgrade-strategy"
    " --torch-backend --index-strategy -n --name --log --src --index --default-index --link-mode --dest -d"
)


def _pip(name: str, arguments: list[str]) -> Act:
    rest = list(arguments)
    if name == "uv" and rest[:1] == ["pip"]:
        rest = rest[1:]
    while rest and rest[0].startswith("-"):
        rest = rest[2 if rest[0] in {"--proxy", "--python", "--cache-dir", "--log"} else 1 :]
    verb = rest[0] if rest else ""
    if verb not in {"install", "sync", "add", "wheel", "download"}:
        return Other(f"{name} {verb}", tuple(rest[1:]))
    if verb in {"wheel", "download"}:
        return Download(f"{name} {verb}", " ".join(rest[1:]))
    requirements, constraints, names = [], [], []
    options, operands, _ = split_options(rest[1:], _PIP_VALUED)
    words = rest[1:]
    for at, word in enumerate(words):
        key, equals, value = word.partition("=")
        following = value if equals else (words[at + 1] if at + 1 < len(words) else "")
        if key in {"-r", "--requirement"}:
            requirements.append(following)
        elif key in {"-c", "--constraint"}:
            constraints.append(following)
        elif key in {"-e", "--editable"}:
            names.append(following)
        elif word.startswith("-r") and not word.startswith("--") and len(word) > 2:  # noqa: PLR2004 - `-rfile`
            requirements.append(word[2:])
    return PipInstall(f"{name} {verb}", (*operands, *names), tuple(requirements), tuple(constraints), tuple(options))


def _sed(name: str, arguments: list[str]) -> Act:
    in_place = [a for a in arguments if a.startswith("--in-place") or re.match(r"-[a-zA-Z]*i", a)]
    if not in_place:
        return Other(name, tuple(arguments))
    valued = "-e -f --expression --file -l"
    scripts = [b for a, b in zip(arguments, [*arguments[1:], ""], strict=True) if a in {"-e", "--expression"}]
    scripts += [a.partition("=")[2] for a in arguments if a.startswith("--expression=")]
    spelled = []
    for word in arguments:  # `-ie s/a/b/` and `-ne …` end in an option that takes a value
        if (
            re.fullmatch(r"-[a-zA-Z]+e", word)
            and word not in valued.split()
            and not (name == "sed" and "i" in word[:-1])
        ):
            spelled += [word[:-1], "-e"]
        else:
            spelled.append(word)
    if spelled != arguments:
        return _sed(name, spelled)
    _, operands, _ = split_options(arguments, valued)
    if not scripts and not any(a in {"-f", "--file"} for a in arguments):
        scripts, operands = operands[:1], operands[1:]
    return EditFile(name, tuple(operands), "\n".join(scripts))


def _patch(name: str, arguments: list[str]) -> Act:
    valued = "-p -d -i -F -o -r -D -B -z --strip --directory --input --fuzz"
    options, operands, values = split_options(arguments, valued)
    given = values.get("-i") or values.get("--input") or (operands[1] if len(operands) > 1 else "")
    options += [f"{key}={value}" for key, value in values.items()]
    return EditFile(name, tuple(operands[:1]), given, tuple(options))


def _git(name: str, arguments: list[str]) -> Act:
    options, rest = [], list(arguments)
    while rest and rest[0].startswith("-"):
        taken = 2 if rest[0] in {"-C", "-c", "--git-dir", "--work-tree"} else 1
        options += rest[:taken]
        rest = rest[taken:]
    verb, arguments = (rest[0], rest[1:]) if rest else ("", [])
    flags, operands, _ = split_options(
        arguments, "-b --branch --depth -o -j --directory -C -p --exclude --include --jobs"
    )
    if verb in {"apply", "am"}:
        return EditFile(f"git {verb}", (), operands[0] if operands else "", (*options, *flags))
    if verb == "clone":
        default = posixpath.basename(operands[0].rstrip("/")).removesuffix(".git") if operands else ""
        return Download("git clone", operands[0] if operands else "", (operands[1] if len(operands) > 1 else default,))
    if verb in {"pull", "fetch", "submodule", "lfs"}:
        return Download(f"git {verb}")
    return Other(f"{name} {verb}", tuple(arguments))


def _curl(name: str, arguments: list[str]) -> Act:
    outputs = "-o --output" if name == "curl" else "-O --output-document -P --directory-prefix"
    valued = f"{outputs} -H --header -d --data -u --user -A -e -m --retry --connect-timeout --max-time -T -X -w -t -U"
    _, operands, values = split_options(arguments, valued)
    address = next((word for word in operands if "://" in word), operands[0] if operands else "")
    if re.search(r"://(?:localhost|127\.0\.0\.1|\[::1\])", address):  # a health check
        return Other(name, tuple(arguments))
    made = [value for key, value in values.items() if key in outputs.split()]
    return Download(name, address, tuple(made))


def _change(name: str, arguments: list[str]) -> Act:  # noqa: ARG001 - as all of them
    _, operands, _ = split_options(arguments)
    return Change(operands[0] if operands else UNKNOWN)


def _other_user(name: str, arguments: list[str]) -> Act:
    """Read `su -c TEXT` and `script -c TEXT`: a text for a shell. `script` succeeds whatever it returns."""
    options, _, values = split_options(arguments, "-c --command -g -G -s --shell")
    text = values.get("-c") or values.get("--command")
    if text and name == "script" and not any(re.match(r"-[a-z]*e|--return", option) for option in options):
        text += LOST
    return RunScript("shell", "", (), ("sh",), text=text) if text else Other(name, tuple(arguments))


def _awk(name: str, arguments: list[str]) -> Act:
    if not any(pair == ("-i", "inplace") for pair in pairwise(arguments)):
        return Other(name, tuple(arguments))
    _, operands, values = split_options(arguments, "-i -f -v -F")
    return EditFile("awk", tuple(operands[0 if "-f" in values else 1 :]))


def _line_editor(name: str, arguments: list[str]) -> Act:  # noqa: ARG001 - as all of them
    _, operands, _ = split_options(arguments, "-c -p -S -u")
    return EditFile("ed", tuple(operands))


def _perl(name: str, arguments: list[str]) -> Act:
    if not any(re.match(r"-[a-zA-Z0]*i", a) for a in arguments):
        return Other(name, tuple(arguments))
    spelled = [w for a in arguments for w in ([a[:-1], "-e"] if re.fullmatch(r"-\w+e", a) else [a])]
    _, operands, values = split_options(spelled, "-e")
    return EditFile(name, tuple(operands), values.get("-e", ""))


def _package(name: str, arguments: list[str]) -> Act:
    verbs = {"install", "add", "update", "upgrade", "dist-upgrade", "build-dep", "groupinstall", "localinstall"}
    verb = next((word for word in arguments if not word.startswith("-")), "")
    return Download(f"{name} {verb}") if verb in verbs else Other(f"{name} {verb}", tuple(arguments))


_READERS = {
    **dict.fromkeys(("cp", "mv", "install", "rsync"), _copy),
    **dict.fromkeys(("cd", "pushd"), _change),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("curl", "wget"), _curl),
    **dict.fromkeys(("apt-get", "apt", "apk", "yum", "dnf", "microdnf", "tdnf", "zypper"), _package),
    **dict.fromkeys(("awk", "gawk"), _awk),
    **dict.fromkeys(("su", "runuser", "script"), _other_user),
    **dict.fromkeys(("ed", "ex", "vi", "vim"), _line_editor),
    **dict.fromkeys(FETCHING, fetched),
    "perl": _perl,
    "patch": _patch,
    "git": _git,
}
