"""Paths in an image, as far as a text tells them: what is unknown stays in them as `${name}`."""

from __future__ import annotations

import posixpath
import re

UNKNOWN = "${?}"
_SITE = re.compile(r".*/(?:site|dist)-packages/|\$\{site\}/")
_ROOT = re.compile(r"\$\{root:(\w+)\}(?=/|$)")
_NAMED = re.compile(
    r"\$\{(\w+?)_?(?:ROOT|DIR|PATH|HOME|PKG|PACKAGE|PKG_DIR|PACKAGE_DIR|LIB|INSTALL|INSTALL_DIR|LOCATION|BASE|TARGET)\}(?=/|$)",
    re.IGNORECASE,
)
_NO_PACKAGE = frozenset(
    [
        "site",
        "python",
        "py",
        "target",
        "dst",
        "dest",
        "install",
        "base",
        "package",
        "pkg",
        "lib",
        "src",
        "root",
        "workspace",
        "work",
        "script",
        "app",
    ]
)
_IMPORTED = re.compile(r"(?:^|[\s;'\"])(?:import|from)\s+([A-Za-z_]\w*)")
_SPEC = re.compile(r"find_spec\(\s*['\"]([A-Za-z_]\w*)")
_TOOLS = frozenset(
    [
        "os",
        "sys",
        "site",
        "sysconfig",
        "importlib",
        "pathlib",
        "distutils",
        "inspect",
        "re",
        "json",
        "subprocess",
        "platform",
        "glob",
    ]
)
MIN_TAIL = 2


def joined(folder: str, path: str) -> str:
    """Return a path as it is meant from a folder; `${…}` at the front is taken for the beginning of a full path."""
    if path.startswith("~/"):
        path = f"/root/{path[2:]}"
    if path.startswith(("/", "${")):
        return _plain(path) if path.startswith("/") else path.rstrip("/") or path
    return _plain(f"{folder or '${cwd}'}/{path}") if path else folder


def _plain(path: str) -> str:
    found = posixpath.normpath(path)
    return found[1:] if found.startswith("//") else found  # two slashes at the front are kept by POSIX


def is_known(path: str) -> bool:
    """Tell whether nothing in a path is open."""
    return "${" not in path


def root_in_code(code: str) -> str:
    """Return what stands for the place that a line of Python prints: a package's root, or the folder of packages."""
    named = [name for name in (*_SPEC.findall(code), *_IMPORTED.findall(code)) if name not in _TOOLS]
    if named:
        is_file = "__file__" in code and not re.search(r"dirname|parent|split", code)
        return f"${{root:{named[0]}}}{'/__init__.py' if is_file else ''}"
    return "${site}" if re.search(r"site|purelib|platlib", code) else UNKNOWN


def package_key(path: str) -> str:
    """Return `package/inner/file.py` for a file of an installed package, however its root is spelled, else empty."""
    if match := _SITE.match(path):
        return path[match.end() :]
    if match := _ROOT.match(path):
        return f"{match[1]}{path[match.end() :]}"
    if match := _NAMED.match(path):
        name = match[1].lower().strip("_")
        return f"{'?' if name in _NO_PACKAGE or len(name) < MIN_TAIL else name}{path[match.end() :]}"
    if path.startswith("${") and not path.startswith("${cwd}"):
        return f"?{path[path.find('}') + 1 :]}"
    return ""


def package_name(path: str) -> str:
    """Return the package that a path lies in, where that is known."""
    name = package_key(path).partition("/")[0]
    return "" if name in {"?", ""} or name.endswith((".py", ".pth")) else name


def is_same(one: str, other: str) -> bool:
    """Tell whether two paths name one file: equal, or alike below roots of which one is unknown."""
    if one == other:
        return one != UNKNOWN
    a, b = package_key(one), package_key(other)
    if not a or not b:
        return False
    if a == b:
        return "?" not in a[:1] or _is_long(a)
    head_a, _, tail_a = a.partition("/")
    head_b, _, tail_b = b.partition("/")
    if "?" not in (head_a, head_b):
        return False
    if tail_a == tail_b:
        return _is_long(a)
    shorter, longer = sorted((tail_a if head_a == "?" else a, tail_b if head_b == "?" else b), key=len)
    return _is_long(shorter) and longer.endswith(f"/{shorter}")


def _is_long(path: str) -> bool:
    return len(path.strip("/").split("/")) >= MIN_TAIL


def tail(path: str, count: int = 2) -> str:
    """Return the last components of a path."""
    return "/".join(path.split("/")[-count:])
