"""Which commands matter: those without which the image is not the one that was meant."""

from __future__ import annotations

import posixpath

from orchestrator.inspect.deeds import STREAM_EDITORS, Act, Copy, Download, EditFile, Other, PipInstall, RunScript
from orchestrator.inspect.paths import package_key

_BUILDS = frozenset(
    [
        "make",
        "cmake",
        "ninja",
        "cargo",
        "go",
        "npm",
        "yarn",
        "pnpm",
        "gcc",
        "g++",
        "cc",
        "nvcc",
        "rustup",
        "meson",
        "docker",
    ]
)
_WRITES = frozenset(["tee", "dd", "ln"])
_CHECKS = frozenset(["sha256sum", "sha512sum", "sha1sum", "md5sum", "cmp"])
_IDLE_MODULES = frozenset(
    ["compileall", "ensurepip", "venv", "virtualenv", "site", "json.tool", "http.server", "timeit"]
)


def is_python_path(path: str) -> bool:
    """Tell whether a path is Python's business: a module, or a place in an installed package."""
    return (
        path.endswith((".py", ".pyi"))
        or ("${" not in path[:2] and bool(package_key(path)))
        or package_key(path).endswith(".py")
    )


def weight_of(act: Act, *, runtime: bool) -> str:  # noqa: PLR0911 - one case for each kind
    """Return `error` or `warning` for what is lost with a failure of this command, empty where it is little."""
    match act:
        case Copy(target=target, sources=sources):
            if runtime:
                return "error" if is_python_path(target) or any(is_python_path(s) for s in sources) else ""
            return "error"
        case EditFile(how=how, targets=targets):
            if how in STREAM_EDITORS:
                return "error" if any(is_python_path(t) for t in targets) else ""
            return "error"
        case PipInstall():
            return "error"
        case RunScript(module=module) if module:
            return "" if runtime or module in _IDLE_MODULES else "warning"
        case RunScript(language="python", text=str()):
            return "" if runtime else "warning"
        case RunScript(language="shell", text=str()):
            return ""  # what is in it is judged by itself
        case RunScript():
            return "" if runtime else "error"
        case Download():
            return "" if runtime else "warning"
        case Other(name=name, arguments=arguments):
            return _weight_of_other(name, arguments) if not runtime else ""
    return ""


def _weight_of_other(name: str, arguments: tuple[str, ...]) -> str:
    base = posixpath.basename(name)
    if base in _CHECKS and {"-c", "--check"} & set(arguments):
        return "error"
    if base in _WRITES and any(is_python_path(word.removeprefix("of=")) for word in arguments):
        return "error"
    if base == "unzip" or (base == "tar" and any("x" in word.partition("=")[0] for word in arguments[:1])):
        return "warning"
    if base in _BUILDS:
        harmless = {"clean", "--version", "version", "env", "cache"} & set(arguments)
        return "" if harmless else "warning"
    return ""


def is_question(act: Act) -> bool:
    """Tell whether a command in a condition only asks something."""
    return isinstance(act, RunScript) and act.language == "python" and not act.path
