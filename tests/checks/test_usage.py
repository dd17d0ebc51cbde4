"""Checks that something is in use: through scopes, imports, re-exports and module attributes, never through text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.checks.verdict import Status

if TYPE_CHECKING:
    from tests.checks.conftest import Scene

A = "pkg/a.py"
B = "pkg/b.py"
BASE: dict[str, str | bytes] = {"pkg/__init__.py": "", "pkg/sub/__init__.py": ""}


def said(scene: Scene, check: str, status: Status, files: dict[str, str], /, **fields: str) -> str:
    scene.files = {**BASE, **files}
    found = scene.judge(check, **fields)
    assert found.status is status, found.evidence
    assert found.place is not None
    return found.evidence


# ------------------------------------------------------------------------------------------------- read by
@pytest.mark.parametrize(
    ("files", "where"),
    [
        ({A: "N = 1\nprint(N)\n"}, f"{A}:2:7"),
        ({A: "N = 1\ndef f():\n    return N\n"}, f"{A}:3:12 in `f`"),
        ({A: "N = 1\nclass K:\n    def f(self):\n        return N\n"}, f"{A}:4:16 in `K.f`"),
        ({A: "N = 1\ndef f(x=N): pass\n"}, f"{A}:2:9"),
        ({A: "N = 1\nx = [N for _ in y]\n"}, f"{A}:2:6"),
        ({A: "N = 1\ndef f():\n    global N\n    N = N + 1\n    return N\n"}, f"{A}:5:12 in `f`"),
        ({A: "N = 1\n", B: "from pkg.a import N\nprint(N)\n"}, f"{B}:2:7"),
        ({A: "N = 1\n", B: "from .a import N as M\nprint(M)\n"}, f"{B}:2:7"),
        ({A: "N = 1\n", B: "def f():\n    from .a import N\n    return N\n"}, f"{B}:3:12 in `f`"),
        ({A: "N = 1\n", B: "import pkg.a\nprint(pkg.a.N)\n"}, f"{B}:2:7"),
        ({A: "N = 1\n", B: "import pkg\nprint(pkg.a.N)\n"}, f"{B}:2:7"),
        ({A: "N = 1\n", B: "import pkg.a as m\nprint(m.N)\n"}, f"{B}:2:7"),
        ({A: "N = 1\n", B: "from pkg import a as m\nprint(m.N)\n"}, f"{B}:2:7"),
        ({A: "N = 1\n", B: "from .a import *\nprint(N)\n"}, f"{B}:2:7"),
        ({A: "N = 1\n", B: "from pkg.a import N\n", "pkg/c.py": "from pkg.b import N\nprint(N)\n"}, "pkg/c.py:2:7"),
    ],
)
def test_a_module_level_name_is_read_wherever_it_is_in_reach(scene: Scene, files: dict[str, str], where: str) -> None:
    assert said(scene, "read_by", Status.HOLDS, files, file=A, name="N") == f"{where} reads `N` of {A}"


@pytest.mark.parametrize(
    "files",
    [
        {A: "N = 1\n"},
        {A: "N = 1  # N\nx = 'N'\n"},
        {A: "N = 1\nN = N + 1\nN += 1\n"},
        {A: "N = 1\ndef f(N):\n    return N\n"},
        {A: "N = 1\ndef f():\n    N = 2\n    return N\n"},
        {A: "N = 1\nf = lambda N: N\n"},
        {A: "N = 1\nx = [N for N in y]\n"},
        {A: "N = 1\n__all__ = ['N']\n"},
        {A: "N = 1\n", B: "from pkg.a import N\n"},
        {A: "N = 1\n", B: "N = 2\nprint(N)\n"},
        {A: "N = 1\n", B: "from other import N\nprint(N)\n"},
        {A: "N = 1\n", B: "import other as m\nprint(m.N)\n"},
        {A: "N = 1\n", B: "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pkg.a import N\nx: N\n"},
        {A: "N = 1\n", B: "from pkg.a import N\nprint(N\n"},
    ],
)
def test_definitions_text_and_other_names_of_the_same_spelling_are_no_reads(
    scene: Scene, files: dict[str, str]
) -> None:
    assert said(scene, "read_by", Status.FAILS, files, file=A, name="N") == f"nothing reads `N` of {A}"


def test_a_class_attribute_is_read_through_anything_that_may_hold_it(scene: Scene) -> None:
    code = "class K:\n    N = 1\n    def f(self):\n        return {}\n"
    for read in ("self.N", "K.N", "type(self).N"):
        found = said(scene, "read_by", Status.HOLDS, {A: code.format(read)}, file=A, within="K", name="N")
        assert found == f"{A}:4:16 in `K.f` reads `N` of `K` in {A}"
    found = said(
        scene, "read_by", Status.HOLDS, {A: "class K:\n    N = 1\n    M = N * 2\n"}, file=A, within="K", name="N"
    )
    assert found == f"{A}:3:9 in `K` reads `N` of `K` in {A}"
    for unread in ("N", "os.N", "'K.N'"):
        files = {A: "import os\n" + code.format(unread)}
        found = said(scene, "read_by", Status.FAILS, files, file=A, within="K", name="N")
        assert found == f"nothing reads `N` of `K` in {A}"


def test_a_local_is_read_in_its_function(scene: Scene) -> None:
    code = "def f():\n    x = 1\n    x = x + 1\n    {}\n\ndef g(x):\n    return x\n"
    found = said(scene, "read_by", Status.HOLDS, {A: code.format("return x")}, file=A, within="f", name="x")
    assert found == f"{A}:4:12 in `f` reads `x` of `f` in {A}"
    found = said(scene, "read_by", Status.FAILS, {A: code.format("return 1")}, file=A, within="f", name="x")
    assert found == f"nothing reads `x` of `f` in {A}"


def test_a_name_that_is_not_bound_cannot_be_read(scene: Scene) -> None:
    assert said(scene, "read_by", Status.FAILS, {A: "print(N)\n"}, file=A, name="N") == f"{A} does not bind `N`"


@pytest.mark.parametrize("by", [B, f"{B}:f", f"{B}:K.g", f"{B}:K"])
def test_the_reader_may_be_named(scene: Scene, by: str) -> None:
    reader = "from pkg.a import N\ndef f():\n    return N\nclass K:\n    def g(self):\n        return N\n"
    files = {A: "N = 1\nprint(N)\n", B: reader}
    assert said(scene, "read_by", Status.HOLDS, files, file=A, name="N", by=by).startswith(f"{B}:")
    other = said(scene, "read_by", Status.FAILS, files, file=A, name="N", by=f"{B}:h")
    assert other == (f"{B}:h does not read `N` of {A}; it is read at {A}:2:7, {B}:3:12 in `f`, {B}:6:16 in `K.g`")


def test_a_named_reader_that_reads_nothing_is_told_so(scene: Scene) -> None:
    found = said(scene, "read_by", Status.FAILS, {A: "N = 1\n", B: ""}, file=A, name="N", by=B)
    assert found == f"{B} does not read `N` of {A}; nothing reads it"


# ----------------------------------------------------------------------------------------------- called by
@pytest.mark.parametrize(
    ("files", "name", "where"),
    [
        ({A: "def f(): pass\nf()\n"}, "f", f"{A}:2:1"),
        ({A: "def f(): pass\nf[grid](1)\n"}, "f", f"{A}:2:1"),
        ({A: "def f(g): pass\n@f\ndef h(): pass\n"}, "f", f"{A}:2:2"),
        ({A: "class K: pass\nK()\n"}, "K", f"{A}:2:1"),
        ({A: "class K:\n    def __init__(self): pass\nK()\n"}, "K.__init__", f"{A}:3:1"),
        ({A: "class K:\n    def m(self): pass\n", B: "def g(k):\n    k.m()\n"}, "K.m", f"{B}:2:5 in `g`"),
        ({A: "class K:\n    @property\n    def m(self): pass\n", B: "x = k.m\n"}, "K.m", f"{B}:1:5"),
        ({A: "def f():\n    def g(): pass\n    return g()\n"}, "f.g", f"{A}:3:12 in `f`"),
        ({A: "def f(): pass\n", B: "def g():\n    from pkg.a import f as h\n    h()\n"}, "f", f"{B}:3:5 in `g`"),
    ],
)
def test_a_call_a_launch_and_a_decorator_are_calls(scene: Scene, files: dict[str, str], name: str, where: str) -> None:
    assert said(scene, "called_by", Status.HOLDS, files, file=A, name=name) == f"{where} calls `{name}` of {A}"


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({A: "def f(): pass\n"}, "f"),
        ({A: "def f():\n    f()\n"}, "f"),
        ({A: "def f(): pass\nx = f\n"}, "f"),
        ({A: "def f(): pass\ng(f)\n"}, "f"),
        ({A: "def f(): pass\n", B: "def f(): pass\nf()\n"}, "f"),
        ({A: "class K:\n    def m(self): self.m()\n"}, "K.m"),
        ({A: "class K:\n    def m(self): pass\n", B: "import os\nos.m()\n"}, "K.m"),
        ({A: "class K:\n    def m(self): pass\n", B: "x = k.m\n"}, "K.m"),
    ],
)
def test_recursion_references_and_other_functions_are_no_calls(scene: Scene, files: dict[str, str], name: str) -> None:
    assert said(scene, "called_by", Status.FAILS, files, file=A, name=name) == f"nothing calls `{name}` of {A}"


def test_the_caller_may_be_named(scene: Scene) -> None:
    files = {A: "def f(): pass\n", B: "from pkg.a import f\ndef g():\n    f()\n"}
    assert said(scene, "called_by", Status.HOLDS, files, file=A, name="f", by=f"{B}:g")
    found = said(scene, "called_by", Status.FAILS, files, file=A, name="f", by=A)
    assert found == f"{A} does not call `f` of {A}; it is called at {B}:3:5 in `g`"
    found = said(scene, "called_by", Status.FAILS, files, file=A, name="g")
    assert found == f"{A} has no symbol `g`"


# --------------------------------------------------------------------------------------------- imported by
@pytest.mark.parametrize(
    ("path", "code"),
    [
        (B, "import pkg.a"),
        (B, "from pkg.a import x"),
        (B, "from pkg import a"),
        (B, "from . import a"),
        (B, "from .a import x"),
        ("pkg/sub/c.py", "from ..a import x"),
        ("pkg/sub/__init__.py", "from .. import a"),
        (B, "try:\n    from .a import x\nexcept ImportError:\n    pass"),
        (B, "def f():\n    import pkg.a"),
    ],
)
def test_a_module_is_imported_in_every_spelling(scene: Scene, path: str, code: str) -> None:
    found = said(scene, "imported_by", Status.HOLDS, {A: "", path: code}, file=A, by=path)
    assert found.startswith(f"{path}:")
    assert found.endswith(f" imports {A}")


@pytest.mark.parametrize(
    "code",
    [
        "import a",
        "from pkg.b import a",
        "# import pkg.a",
        "x = 'import pkg.a'",
        "from ..a import x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pkg.a",
    ],
)
def test_another_module_a_comment_and_a_type_checkers_import_do_not_count(scene: Scene, code: str) -> None:
    assert said(scene, "imported_by", Status.FAILS, {A: "import pkg.a", B: code}, file=A) == f"nothing imports {A}"


def test_a_package_is_imported_with_what_is_in_it(scene: Scene) -> None:
    files = {"pkg/sub/c.py": "", B: "import pkg.sub.c"}
    found = said(scene, "imported_by", Status.HOLDS, files, file="pkg/sub/__init__.py")
    assert found == f"{B}:1:1 imports pkg/sub/__init__.py"


def test_the_importer_may_be_named(scene: Scene) -> None:
    files = {A: "", B: "import pkg.a", "pkg/c.py": ""}
    found = said(scene, "imported_by", Status.FAILS, files, file=A, by="pkg/c.py")
    assert found == f"pkg/c.py does not import {A}; it is imported at {B}:1:1"
    found = scene.judge("imported_by", file=A, by="pkg/d.py").evidence
    assert found.startswith("pkg/d.py is not there")
