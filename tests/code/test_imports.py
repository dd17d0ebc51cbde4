from __future__ import annotations

import ast

import pytest

from orchestrator.code.imports import (
    Guard,
    absolute,
    declared_global,
    guarded,
    imports,
    module_name,
    module_names,
    package_of,
)
from orchestrator.code.source import Source


def _source(text: str, path: str = "pkg/a/b.py") -> Source:
    return Source(path, text.encode())


def _guard_of(text: str, call: str = "here()") -> Guard:
    found = [guard for statement, guard in guarded(ast.parse(text).body) if ast.unparse(statement) == call]
    assert len(found) == 1
    return found[0]


def _tests(text: str) -> list[tuple[str, bool]]:
    return [(ast.unparse(test.expression), test.wanted) for test in _guard_of(text).tests]


@pytest.mark.parametrize(
    ("path", "module", "package"),
    [
        ("pkg/a/b.py", "pkg.a.b", "pkg.a"),
        ("pkg/a/__init__.py", "pkg.a", "pkg.a"),
        ("pkg/__init__.py", "pkg", "pkg"),
        ("single.py", "single", ""),
    ],
)
def test_a_path_has_a_module_name_and_a_package(path: str, module: str, package: str) -> None:
    assert module_name(path) == module
    assert package_of(path) == package


@pytest.mark.parametrize(
    ("module", "level", "package", "expected"),
    [
        ("x.y", 0, "pkg.a", "x.y"),
        ("c", 1, "pkg.a", "pkg.a.c"),
        (None, 1, "pkg.a", "pkg.a"),
        ("c", 2, "pkg.a", "pkg.c"),
        ("c", 3, "pkg.a", None),
        ("c", 1, "", None),
    ],
)
def test_dots_lead_up_from_the_package(module: str | None, level: int, package: str, expected: str | None) -> None:
    assert absolute(module, level, package) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("here()", []),
        ("if A:\n    here()", [("A", True)]),
        ("if A:\n    pass\nelse:\n    here()", [("A", False)]),
        ("if A:\n    pass\nelif B:\n    here()", [("A", False), ("B", True)]),
        ("while A:\n    here()", [("A", True)]),
        ("def f():\n    if A:\n        return\n    here()", [("A", False)]),
        ("def f():\n    if A:\n        pass\n    else:\n        raise E\n    here()", [("A", True)]),
        ("for x in y:\n    if A:\n        continue\n    here()", [("A", False)]),
        ("assert A\nhere()", [("A", True)]),
        ("if A:\n    def f():\n        if B:\n            here()", [("A", True), ("B", True)]),
        ("if A:\n    x = 1\nhere()", []),
        ("try:\n    pass\nfinally:\n    here()", []),
        ("match A:\n    case 1:\n        here()", []),
    ],
)
def test_a_statement_carries_the_conditions_on_the_way_to_it(text: str, expected: list[tuple[str, bool]]) -> None:
    assert _tests(text) == expected


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("try:\n    here()\nexcept ImportError:\n    pass", {"ImportError"}),
        ("try:\n    here()\nexcept (a.B, C):\n    pass", {"B", "C"}),
        ("try:\n    here()\nexcept:\n    pass", {"BaseException"}),
        ("try:\n    pass\nexcept ImportError:\n    here()", set()),
        ("try:\n    pass\nexcept ImportError:\n    pass\nelse:\n    here()", set()),
        ("with contextlib.suppress(A, B):\n    here()", {"A", "B"}),
        ("with open(A):\n    here()", set()),
        ("try:\n    class K:\n        here()\nexcept A:\n    pass", {"A"}),
        ("try:\n    def f():\n        here()\nexcept A:\n    pass", set()),
    ],
)
def test_a_statement_carries_the_exceptions_that_are_caught_around_it(text: str, caught: set[str]) -> None:
    assert _guard_of(text).caught == caught


def test_imports_are_found_wherever_they_stand_and_made_absolute() -> None:
    text = "import x.y as z, w\nfrom .c import d as e\nclass K:\n    def f(self):\n        from ... import far\n"
    found = [(entry.module, entry.name, entry.binds) for entry in imports(ast.parse(text), "pkg/a/b.py")]
    assert sorted(found, key=str) == sorted(
        [("x.y", None, "z"), ("w", None, "w"), ("pkg.a.c", "d", "e"), (None, "far", "far")], key=str
    )


def test_every_kind_of_top_level_binding_is_seen() -> None:
    text = """
import a.b
from c import d
from e import *
f = 1
g: int = 2
unbound: int
h, (i, *j) = k = 0, (1, 2)
for m in ():
    n = 1
with open(f) as o:
    pass
try:
    pass
except E as p:
    pass
if (q := 1):
    class R: s = 1
match f:
    case [t, *u] | {"v": t, **u}:
        pass
def w(x): y = [z for z in x]
[z for z in ()]
A = (B := 1) if f else 2
C: int = (D := 1)
def F(x=(G := 1)): pass
"""
    names = module_names(_source(text))
    assert set(names.bindings) == set("adfghijkmnopqtuwRABCDFG")
    assert [star.module for star in names.stars] == ["e"]


def test_bindings_keep_the_order_of_the_file_and_their_conditions() -> None:
    names = module_names(_source("if A:\n    if B:\n        x = 1\nelse:\n    x = 2\nx = 3\n"))
    found = [(b.statement.lineno, [t.wanted for t in b.guard.tests]) for b in names.bindings["x"]]
    assert found == [(3, [True, True]), (5, [False]), (6, [])]


def test_a_plain_assignment_gives_its_value_and_an_import_its_entry() -> None:
    names = module_names(_source("x = y = 1\nz = 2\nfrom q import r\n"))
    assert names.bindings["x"][0].value is None  # two targets: not plain
    value = names.bindings["z"][0].value
    assert isinstance(value, ast.Constant)
    assert value.value == 2
    imported = names.bindings["r"][0].imported
    assert imported is not None
    assert (imported.module, imported.name) == ("q", "r")


def test_names_that_functions_declare_global_are_found_at_any_depth() -> None:
    tree = ast.parse("def f():\n    def g():\n        global a, b\n        a = b = 1\nclass K:\n    x = 1\n")
    assert declared_global(tree) == {"a", "b"}


def test_what_is_bound_in_a_loop_or_a_try_is_not_certain() -> None:
    text = "a = 1\ntry:\n    b = 1\nexcept E:\n    c = 1\nfor x in y:\n    d = 1\n"
    names = module_names(_source(text))
    certain = {name for name, several in names.bindings.items() if all(b.guard.certain for b in several)}
    assert certain == {"a", "x"}
