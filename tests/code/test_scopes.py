"""Definitions by name, and their digests: tokens count, formatting does not, whichever Python runs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.code.scopes import MODULE, definition_digest, definitions, enclosing, outermost_function
from orchestrator.code.source import Source

TEXT = """\
import os
if os.name:
    def a(x, y=1):
        '''doc'''
        def inner(): return 1
        return inner() + x
try:
    class B:
        n = 1
        @property
        def c(self): return f"{self.n!r:>{8}} {'x'}"
        class D:
            async def e(self): pass
except E:
    def a(): return 2
else:
    with os:
        for i in z:
            while i:
                match i:
                    case 1:
                        def g(): pass
"""


def image(text: str, name: str = "f") -> str | None:
    return definition_digest(Source("a.py", text.encode()), name)


def test_definitions_are_found_wherever_they_stand() -> None:
    found = [name for name, _ in definitions(ast.parse(TEXT))]
    assert sorted(found) == ["B", "B.D", "B.D.e", "B.c", "a", "a", "a.inner", "g"]


@pytest.mark.parametrize(
    ("line", "name"), [(1, MODULE), (3, "a"), (5, "a"), (9, "B"), (10, "B.c"), (13, "B.D.e"), (22, "g")]
)
def test_a_line_belongs_to_the_definition_that_tracks_it(line: int, name: str) -> None:
    assert enclosing(ast.parse(TEXT), line) == name


def test_what_is_nested_in_a_function_is_tracked_by_the_function() -> None:
    assert outermost_function(ast.parse(TEXT), "a.inner") == "a"
    assert outermost_function(ast.parse(TEXT), "B.D.e") == "B.D.e"


FUNCTION = "@d\ndef f(a, b=1):\n    x = g(a,\n          b)\n    return x\n"
SAME = {
    "comments": "@d  # d\n# why\ndef f(a, b=1):  # f\n    x = g(a,  # a\n          b)\n    # now\n    return x\n",
    "blank lines": "\n@d\ndef f(a, b=1):\n\n    x = g(a,\n\n          b)\n\n    return x\n\n\n",
    "blanks between tokens": "@ d\ndef  f( a,b = 1 ) :\n    x=g(a,b)\n    return   x\n",
    "indentation": "@d\ndef f(a, b=1):\n\tx = g(a,\n  b)\n\treturn x\n",
    "line ends": FUNCTION.replace("\n", "\r\n"),
    "lone carriage returns": FUNCTION.replace("\n", "\r"),
    "no last line end": FUNCTION.rstrip("\n"),
    "a form feed above": "\f\n" + FUNCTION,
    "a backslash continuation": FUNCTION.replace("g(a,\n", "g(a, \\\n"),
    "code around it": "import os\n" + FUNCTION + "y = 2\n",
    "deeper in the file": "if 1:\n  " + FUNCTION.rstrip("\n").replace("\n", "\n  ") + "\n",
}
OTHER = {
    "another name": FUNCTION.replace("x", "z"),
    "another constant": FUNCTION.replace("b=1", "b=2"),
    "a constant in another spelling": FUNCTION.replace("b=1", "b=0x1"),
    "a trailing comma": FUNCTION.replace("b)\n", "b,)\n"),
    "parentheses": FUNCTION.replace("return x", "return (x)"),
    "another decorator": FUNCTION.replace("@d", "@e"),
    "a statement more": FUNCTION + "    pass\n",
    "statements in another block": "@d\ndef f(a, b=1):\n    if x: x = g(a, b)\n    return x\n",
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME)
def test_formatting_does_not_count(text: str) -> None:
    assert image(text) == image(FUNCTION)


@pytest.mark.parametrize("text", OTHER.values(), ids=OTHER)
def test_every_token_counts(text: str) -> None:
    assert image(text) not in {None, image(FUNCTION)}


def test_a_class_is_tracked_without_its_methods_and_the_module_without_both() -> None:
    text = "class A:\n    n = 1\n    def f(self): return 1\nx = 1\n"
    other = text.replace("return 1", "return 2")
    assert image(text, "A") == image(other, "A")
    assert image(text, MODULE) == image(other, MODULE)
    assert image(text, "A.f") != image(other, "A.f")
    assert image(text, MODULE) == image(text.replace("n = 1", "n = 2"), MODULE)
    assert image(text, "A") != image(text.replace("n = 1", "n = 2"), "A")
    assert image(text, MODULE) != image(text.replace("x = 1", "x = 2"), MODULE)


def test_definitions_of_one_name_are_one_image() -> None:
    text = "def f(): return 1\ndef f(): return 2\n"
    assert image(text) != image(text.replace("return 1", "return 3"))
    assert image(text) != image(text.replace("return 2", "return 3"))
    assert image(text, "g") is None


FSTRINGS = """\
def f(x, y):
    a = f"{x!r:>{y}} {{}} {'nested'}" f"{x:%Y-%m}" rf"\\d{x}"
    b = f\'\'\'{
        x
    } text
  {y:{x}}\'\'\'
    c = f"ä{x}€" + F"{x=}" + "plain" 'two'
    return a, b, lambda: f"{x if y else f'{y}'}"
"""
_PRINTS = (
    "import sys; from pathlib import Path; from orchestrator.code.scopes import definition_digest, definitions\n"
    "from orchestrator.code.source import Source\n"
    "for path in sys.argv[1:]:\n"
    "    source = Source('a.py', Path(path).read_bytes())\n"
    "    for name in ['<module>', *sorted({n for n, _ in definitions(source.tree)})]:\n"
    "        print(name, definition_digest(source, name))\n"
)
ROOT = Path(__file__).parents[2]


def interpreters() -> list[Path]:
    """Return the installed Pythons besides this one that this package runs on."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {path.name.rpartition(".")[0]: path / "bin" / "python" for path in sorted(versions.glob("3.1[1-9].*"))}
    return [path for version, path in found.items() if version != f"3.{sys.version_info.minor}" and path.exists()]


@pytest.mark.parametrize("python", interpreters() or [None], ids=str)
def test_digests_are_the_same_on_every_python(python: Path | None, tmp_path: Path) -> None:
    if python is None:
        pytest.skip("no other Python of 3.11 or later is installed")
    own = tmp_path / "fstrings.py"
    own.write_text(FSTRINGS, encoding="utf-8")
    files = [own, *sorted((ROOT / "orchestrator").rglob("*.py"))]
    printed = []
    for interpreter in (Path(sys.executable), python):
        command = [str(interpreter), "-c", _PRINTS, *map(str, files)]
        environment = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        printed.append(done.stdout.splitlines())
    assert len(printed[0]) > len(files)
    assert printed[0] == printed[1]
