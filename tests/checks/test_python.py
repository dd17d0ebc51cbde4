"""Checks on what a Python file says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.checks.verdict import Status
from orchestrator.checks.view import Facts
from orchestrator.core.diagnostics import Place

if TYPE_CHECKING:
    from tests.checks.conftest import Scene

FILE = "pkg/a.py"
CODE = '''"""Doc."""
import os.path
from .b import thing as other

LIMIT: int = 8192
A, (B, C) = 1, (2, 3)

if LIMIT:
    FLAG = False
    def guarded(a, /, b: int = 1, *rest, c=None, **more): pass

class K:
    attr = 1
    def m(self, x):
        local = 1
        self.limit = 5
        return f(x) + f(1)

def f(x):
    X = 1
    if x:
        X = 1
    def inner():
        X = 2
    return X
'''


def evidence(scene: Scene, status: Status, check: str, **fields: Any) -> str:  # noqa: ANN401 - what YAML may hold
    scene.files.setdefault(FILE, CODE)
    found = scene.judge(check, file=FILE, **fields)
    assert found.status is status, found.evidence
    assert found.place is not None
    assert found.place.file == FILE
    return found.evidence


# ------------------------------------------------------------------------------------------------- parses
def test_a_file_parses_for_the_target_and_syntax_that_is_too_new_does_not(scene: Scene) -> None:
    assert evidence(scene, Status.HOLDS, "parses") == f"{FILE} parses for Python 3.10"
    scene.files[FILE] = "x = 1\ntry:\n    pass\nexcept* OSError:\n    pass\n"
    said = evidence(scene, Status.FAILS, "parses")
    assert said.startswith(f"{FILE}:")
    assert ": not valid Python for Python 3.10: " in said
    scene.facts = Facts(python=(3, 11))
    assert evidence(scene, Status.HOLDS, "parses") == f"{FILE} parses for Python 3.11"


# ------------------------------------------------------------------------------------------------- symbols
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("os", 2),
        ("other", 3),
        ("LIMIT", 5),
        ("A", 6),
        ("C", 6),
        ("FLAG", 9),
        ("guarded", 10),
        ("K", 12),
        ("K.attr", 13),
        ("K.m", 14),
        ("f", 19),
        ("f.inner", 23),
    ],
)
def test_a_symbol_is_a_definition_an_assignment_an_import_or_a_class_attribute(
    scene: Scene, name: str, line: int
) -> None:
    said = evidence(scene, Status.HOLDS, "symbol_exists", name=name)
    assert said.startswith(f"{FILE}:{line}:")
    assert said.endswith(f"binds `{name}`")
    assert evidence(scene, Status.FAILS, "symbol_absent", name=name) == said


@pytest.mark.parametrize("name", ["thing", "local", "X", "f.X", "K.limit", "K.local", "inner", "Doc", "path"])
def test_locals_and_names_that_only_stand_in_text_are_no_symbols(scene: Scene, name: str) -> None:
    assert evidence(scene, Status.HOLDS, "symbol_absent", name=name) == f"{FILE} has no symbol `{name}`"
    assert evidence(scene, Status.FAILS, "symbol_exists", name=name).startswith(f"{FILE} has no symbol `{name}`")


def test_a_misspelt_symbol_names_the_nearest(scene: Scene) -> None:
    assert evidence(scene, Status.FAILS, "symbol_exists", name="LIMITS") == (
        f"{FILE} has no symbol `LIMITS`; did you mean 'LIMIT'?"
    )


# ----------------------------------------------------------------------------------------------- signatures
@pytest.mark.parametrize(
    "signature",
    ["(a, /, b=1, *rest, c=None, **more)", "(a,/,b: int=1,*rest,c=None,**more)"],
)
def test_a_signature_is_compared_by_names_kinds_and_defaults(scene: Scene, signature: str) -> None:
    assert evidence(scene, Status.HOLDS, "signature_equals", name="guarded", signature=signature) == (
        f"{FILE}:10:5: `guarded` takes (a, /, b: int = 1, *rest, c=None, **more)"
    )


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("(a, /, b=2, *rest, c=None, **more)", "the default of `b` is `1`, not `2`"),
        ("(a, /, b, *rest, c=None, **more)", "the default of `b` is `1`, not absent"),
        ("(a, b=1, *rest, c=None, **more)", "`a` is positional-only, not positional"),
        ("(a, /, b=1, c=None, *rest, **more)", "`c` is keyword-only, not positional"),
        ("(a, /, b: str = 1, *rest, c=None, **more)", "the annotation of `b` is `int`, not `str`"),
        ("(a, /, b=1, *rest, c=None)", "`more` is not wanted"),
        ("(z, /, b=1, *rest, c=None, **more)", "`z` is missing; `a` is not wanted"),
    ],
)
def test_each_difference_of_a_signature_is_named(scene: Scene, signature: str, said: str) -> None:
    assert evidence(scene, Status.FAILS, "signature_equals", name="guarded", signature=signature) == (
        f"{FILE}:10:5: `guarded(a, /, b: int = 1, *rest, c=None, **more)` differs: {said}"
    )


def test_the_order_of_parameters_counts(scene: Scene) -> None:
    scene.files[FILE] = "def f(a, b): pass\n"
    assert evidence(scene, Status.FAILS, "signature_equals", name="f", signature="(b, a)") == (
        f"{FILE}:1:1: `f(a, b)` differs: the order differs"
    )


def test_a_value_stands_for_a_default(scene: Scene) -> None:
    scene.files[FILE] = "def f(a=8192): pass\n"
    assert evidence(scene, Status.HOLDS, "signature_equals", name="f", signature="(a=${params.limit})")


def test_a_class_has_no_signature_and_a_signature_has_no_holes(scene: Scene) -> None:
    assert (
        evidence(scene, Status.FAILS, "signature_equals", name="K", signature="()")
        == f"`K` in {FILE} is not a function"
    )
    found = scene.judge("signature_equals", file=FILE, name="f", signature="(${a...})")
    assert found.evidence == "`signature: (${a...})` is not a list of parameters in parentheses"


# ---------------------------------------------------------------------------------------------- assignments
@pytest.mark.parametrize(
    ("within", "name", "value", "said"),
    [
        (None, "LIMIT", "8192", f"{FILE}:5:1: `LIMIT` is `8192`"),
        (None, "LIMIT", "${params.limit}", f"{FILE}:5:1: `LIMIT` is `8192`"),
        (None, "C", "3", f"{FILE}:6:1: `C` is `3`"),
        ("K", "attr", "${any}", f"{FILE}:13:5: `attr` is `1`"),
        ("K.m", "self.limit", "5", f"{FILE}:16:9: `self.limit` is `5`"),
        ("f", "X", "1", f"{FILE}:20:5: `X` is `1`, as in all 2 assignments"),
        ("f.inner", "X", "2", f"{FILE}:24:9: `X` is `2`"),
    ],
)
def test_every_assignment_in_the_scope_has_the_value(
    scene: Scene, within: str | None, name: str, value: str, said: str
) -> None:
    assert evidence(scene, Status.HOLDS, "assignment_equals", within=within, name=name, value=value) == said


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("X = 1\nif y:\n    X = 2\n", f"{FILE}:3:5: `X` is `2`, not `1`"),
        ("X = 1\nX += 1\n", f"{FILE}:2:1: `X += 1` binds `X`"),
        ("X = 1\nfor X in y:\n    pass\n", f"{FILE}:2:1: `for X in y:` binds `X`"),
        ("X, y = pair\n", f"{FILE}:1:1: `X, y = pair` binds `X`"),
        ("X = 1.0\n", f"{FILE}:1:1: `X` is `1.0`, not `1`"),
        ("X = True\n", f"{FILE}:1:1: `X` is `True`, not `1`"),
        ("from y import X\n", f"{FILE}:1:1: `from y import X` binds `X`"),
        ("if (X := 2):\n    pass\n", f"{FILE}:1:1: `X` is `2`, not `1`"),
        ("# X = 1\nY = 'X = 1'\n", f"nothing is assigned to `X` in {FILE}"),
        ("def f():\n    X = 1\n", f"nothing is assigned to `X` in {FILE}"),
        ("X: int\n", f"nothing is assigned to `X` in {FILE}"),
    ],
)
def test_another_assignment_anywhere_in_the_scope_fails(scene: Scene, code: str, said: str) -> None:
    scene.files[FILE] = code
    assert evidence(scene, Status.FAILS, "assignment_equals", name="X", value="1") == said


def test_the_wanted_value_is_one_expression(scene: Scene) -> None:
    scene.files[FILE] = "X = 1\n"
    found = scene.judge("assignment_equals", file=FILE, name="X", value="y = 1")
    assert found.evidence == "`value: y = 1` is not an expression"


# -------------------------------------------------------------------------------------------------- matches
def test_matches_are_counted_with_their_lines(scene: Scene) -> None:
    assert evidence(scene, Status.HOLDS, "match_count", pattern="f(${x})", equals=2) == (
        f"`f(${{x}})` matches 2 times in {FILE} (line 17, 17)"
    )
    assert evidence(scene, Status.FAILS, "match_count", within="K.m", pattern="f(1)", equals=2) == (
        f"`f(1)` matches once in `K.m` in {FILE} (line 17), not 2"
    )
    assert evidence(scene, Status.HOLDS, "match_count", within="f", pattern="f(1)", equals=0) == (
        f"`f(1)` matches 0 times in `f` in {FILE}"
    )


FACTS = Facts(packages=frozenset({"torch"}), vendor_modules={"vendor.ops": ("rope", "norm")})
TREE: dict[str, str | bytes] = {
    "pkg/__init__.py": "",
    "pkg/b.py": "thing = 1\n",
    "pkg/sub/__init__.py": "from ..b import thing\n",
    "pkg/sub/deep.py": "",
}


@pytest.mark.parametrize(
    "code",
    [
        "import os, torch.nn",
        "from . import b",
        "from .b import thing",
        "from pkg.sub import thing, deep",
        "import pkg.sub.deep",
        "from .b import *",
        "from vendor.ops import rope",
        "try:\n    import absent\nexcept ImportError:\n    pass",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import absent",
    ],
)
def test_imports_resolve_over_the_tree_the_inventory_and_the_library(scene: Scene, code: str) -> None:
    scene.files, scene.facts = {**TREE, FILE: code}, FACTS
    said = evidence(scene, Status.HOLDS, "import_resolves")
    assert said.startswith("all ")
    assert said.endswith(f" unguarded imports of {FILE} resolve")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import trch", ":1:1: `import trch`: there is no module `trch`; did you mean 'torch'?"),
        ("from .c import x", ":1:1: `from .c import x`: there is no module `pkg.c`"),
        ("from .b import thin", ":1:1: `from .b import thin`: module `pkg.b` has no `thin`"),
        ("from ... import x", ":1:1: `from ... import x`: the dots lead out of the package root"),
        ("x = 1\ndef f():\n    import absent", ":3:5: `import absent`: there is no module `absent`"),
        (
            "from vendor.ops import rop",
            ":1:1: `from vendor.ops import rop`: module `vendor.ops` has no `rop`; did you mean 'rope'?",
        ),
        ("try:\n    import absent\nexcept OSError:\n    pass", ":2:5: `import absent`: there is no module `absent`"),
        ("import tomllib", ":1:1: `import tomllib`: there is no module `tomllib`"),
    ],
)
def test_an_import_that_finds_nothing_is_named_with_its_place(scene: Scene, code: str, said: str) -> None:
    scene.files, scene.facts = {**TREE, FILE: code}, FACTS
    assert evidence(scene, Status.FAILS, "import_resolves") == FILE + said


def test_a_named_import_must_be_there_and_resolve_even_where_it_is_guarded(scene: Scene) -> None:
    code = "from .b import thing\ntry:\n    import absent\nexcept ImportError:\n    pass\n"
    scene.files, scene.facts = {**TREE, FILE: code}, FACTS
    assert evidence(scene, Status.HOLDS, "import_resolves", module="pkg.b") == (
        f"{FILE}:1:1: `from .b import thing` resolves"
    )
    assert evidence(scene, Status.FAILS, "import_resolves", module="absent") == (
        f"{FILE}:3:5: `import absent`: there is no module `absent`"
    )
    assert evidence(scene, Status.FAILS, "import_resolves", module="torch") == f"{FILE} does not import `torch`"


def test_the_place_of_a_verdict_is_that_of_the_code(scene: Scene) -> None:
    scene.files[FILE] = CODE
    assert scene.judge("match_count", file=FILE, pattern="f(1)", equals=1).place == Place(FILE, 17, 23)
