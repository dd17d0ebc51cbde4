"""What a module is asked for: the reading of the tree says what Python's own symbol table says of the text."""

from __future__ import annotations

import ast
import symtable
import sys
from pathlib import Path

import pytest

from orchestrator.checks.house.lookups import module_lookups

ROOT = Path(__file__).parents[3]
FILES = sorted([*ROOT.glob("orchestrator/**/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("modules/**/*.py")])
INLINE = sys.version_info >= (3, 12)  # comprehensions have no table of their own there (PEP 709)

SNIPPETS = [
    "print(x)\nx = 1\n",
    "def f(a, b=d, *c, k=e, **g) -> r:\n    return a + b + c + k + g + h\n",
    "def f():\n    x = 1\n    def g():\n        return x + y\n",
    "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = y\n",
    "def f():\n    global x\n    x = 1\n    def g():\n        return x\n",
    "def f():\n    x = 1\n    class K:\n        y = x\n        def g(self):\n            return y\n",
    "class K:\n    x = 1\n    y = x\n    z = [x for _ in y]\n    def f(self):\n        return x\n",
    "class K(B, metaclass=M):\n    def f(self):\n        return super().f()\n",
    "class K:\n    def f(self):\n        return __x + self.__y\n",
    "f = lambda a, b=c: a + b + d\n",
    "def f(xs):\n    return [x + y for x in xs if z for w in x]\n",
    "def f(xs):\n    return {(last := k): v for k, v in xs}, last\n",
    "def f():\n    try:\n        pass\n    except E as e:\n        print(e)\n",
    "def f(x):\n    match x:\n        case [a, *b] | {'k': a, **b}:\n            return a, b, c\n",
    "def f():\n    import a.b\n    from c import d as e\n    return a, b, c, d, e\n",
    "def f():\n    x: T = 1\n    del x\n    y += 1\n    with o as p:\n        return x, y, p\n",
    "def f():\n    return f'{a!r:>{width}}'\n",
    "async def f():\n    async for x in y:\n        async with z as w:\n            await w(x)\n",
]


def of_symtable(text: str) -> set[str]:
    found: set[str] = set()
    pending = [symtable.symtable(text, "<text>", "exec")]
    while pending:
        table = pending.pop()
        pending.extend(table.get_children())
        if isinstance(table, symtable.Function):
            found.update(table.get_globals())
        else:
            found.update(s.get_name() for s in table.get_symbols() if s.is_referenced() and s.is_global())
    return found - {"__class__"}  # `super()` brings it along


@pytest.mark.skipif(INLINE, reason="tables of Python 3.12 and later hide what comprehensions in classes read")
@pytest.mark.parametrize("text", SNIPPETS)
def test_the_names_of_a_snippet_are_those_of_the_symbol_table(text: str) -> None:
    mangled = {name for name in of_symtable(text) if name.startswith("_K__")}
    assert module_lookups(ast.parse(text)) == of_symtable(text) - mangled


@pytest.mark.skipif(INLINE, reason="tables of Python 3.12 and later hide what comprehensions in classes read")
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_names_of_a_real_file_are_those_of_the_symbol_table(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = module_lookups(ast.parse(text), annotations="from __future__ import annotations" not in text)
    assert found == of_symtable(text)


def test_a_comprehension_in_a_class_does_not_see_the_class() -> None:
    assert "x" in module_lookups(ast.parse("class K:\n    x = 1\n    y = [x for _ in ()]\n"))


@pytest.mark.skipif(not INLINE, reason="this Python has no type parameters")
def test_type_parameters_are_known_in_their_definition() -> None:
    text = "def f[T: B](a: T) -> T: return T\nclass K[T](P[T]):\n    def g(self, a: T): pass\n"
    assert module_lookups(ast.parse(text)) == {"B", "P"}
