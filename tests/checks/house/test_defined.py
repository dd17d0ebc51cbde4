from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.checks.house import judge_house_rules
from orchestrator.checks.view import Facts, View
from orchestrator.core.tree import Tree

if TYPE_CHECKING:
    from tests.checks.house.conftest import Judged


def _unbound(judged: Judged, text: str, python: tuple[int, int] = (3, 10), **others: str) -> list[tuple[str, int]]:
    files = {"pkg/a.py": text, **{f"pkg/{name}.py": other for name, other in others.items()}}
    found = judged(files, "pkg/a.py", facts=Facts(python=python), code="E503")
    return [(d.message.split("`")[1], d.place.line) for d in found if d.place]


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ("def f():\n    return gone\n", "gone", 2),
        ("class K:\n    def f(self):\n        gone()\n", "gone", 3),
        ("class K:\n    x = 1\n    def f(self):\n        return x\n", "x", 4),
        ("class K:\n    x = 1\n    y = [x for _ in ()]\n", "x", 3),
        ("class K:\n    y = gone\n", "gone", 2),
        ("class K(gone): pass\n", "gone", 1),
        ("@gone\ndef f(): pass\n", "gone", 1),
        ("def f(x=gone): pass\n", "gone", 1),
        ("def f(x: gone): pass\n", "gone", 1),
        ("x: gone = 1\n", "gone", 1),
        ("f = lambda x: x + gone\n", "gone", 1),
        ("x = [y for y in gone]\n", "gone", 1),
        ("x = [y for y in ()]\nz = y\n", "y", 2),
        ("def f(x): pass\nx\n", "x", 2),
        ("def f():\n    x = 1\ndef g():\n    return x\n", "x", 4),
        ("def f():\n    return f'{gone}'\n", "gone", 2),
        ("match 1:\n    case gone.A: pass\n", "gone", 2),
        ("try:\n    pass\nexcept gone: pass\n", "gone", 3),
        ("import a.b\nb\n", "b", 2),
        ("def f():\n    del gone\n    return gone2\n", "gone2", 3),
        ("async def f():\n    async with gone as x:\n        await x\n", "gone", 2),
    ],
)
def test_a_name_bound_nowhere_is_found(judged: Judged, text: str, name: str, line: int) -> None:
    assert _unbound(judged, text) == [(name, line)]


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    return later\nlater = 1\n",
        "def f():\n    global g\n    g = 1\ndef h():\n    return g\n",
        "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = x + 1\n        return lambda y: x + y\n",
        "def f():\n    x: int\n    return x\n",
        "class K:\n    x = 1\n    y = x\n    z = [w for w in x]\n    def f(self):\n        return __class__\n",
        "def f(a, /, b, *c, d, **e):\n    return a, b, c, d, e\n",
        "x = [(a, b) for a in () for b in a if b]\ny = {k: v for k, v in ()}\n",
        "if (n := 1):\n    n\ndef f():\n    return [m := 1, m]\n",
        "def f(x):\n    match x:\n        case {'a': a, **r} | [a, *r]:\n            return a, r\n",
        "try:\n    pass\nexcept OSError as e:\n    e\n",
        "from __future__ import annotations\ndef f(x: gone) -> gone:\n    y: gone = 1\n",
        "def f():\n    y: gone = 1\n    return y\n",
        "def f(x: 'gone'): pass\n",
        "try:\n    unicode\nexcept NameError:\n    unicode = str\n",
        "try:\n    gone\nexcept NameError:\n    pass\n",
        "print(__file__, __name__, __doc__, __builtins__)\n",
        "exec('x = 1')\nx\n",
        "globals()['x'] = 1\nx\n",
        "names = globals()\nnames['x'] = 1\nx\n",
        "from json import *\nwhatever\n",
        "FLAG = False\ndef f():\n    if FLAG:\n        return gone\n",
    ],
)
def test_what_is_bound_or_may_be_is_silent(judged: Judged, text: str) -> None:
    assert _unbound(judged, text) == []


def test_star_imports_of_the_tree_are_expanded(judged: Judged) -> None:
    text = "from pkg.b import *\nhere, listed, deep\ngone\n_hidden\n"
    b = "from pkg.c import *\n__all__ = ['listed', 'deep', 'here']\nhere = listed = _hidden = 1\n"
    assert _unbound(judged, text, b=b, c="deep = 1\n") == [("gone", 3), ("_hidden", 4)]


def test_star_imports_in_a_ring_end(judged: Judged) -> None:
    assert _unbound(judged, "from pkg.b import *\nx, y\n", b="from pkg.a import *\nx = 1\n") == [("y", 2)]


def test_a_package_sees_its_own_modules_by_name(judged: Judged) -> None:
    files = {"pkg/__init__.py": "from .b import x\nb.x\nc.x\n", "pkg/b.py": "x = 1\n"}
    found = judged(files, "pkg/__init__.py", code="E503")
    assert [d.message for d in found] == ["`c` is bound nowhere"]


def test_builtins_are_those_of_the_target(judged: Judged) -> None:
    text = "def f():\n    raise ExceptionGroup('', [])\n"
    assert _unbound(judged, text, python=(3, 10)) == [("ExceptionGroup", 2)]
    assert _unbound(judged, text, python=(3, 11)) == []


def test_a_name_is_told_once_with_the_nearest_known(judged: Judged) -> None:
    (found,) = judged({"pkg/a.py": "value = 1\ndef f():\n    return vlaue, vlaue\n"})
    assert "did you mean 'value'?" in found.help
    assert (str(found.place), found.place and found.place.length) == ("pkg/a.py:3:12", 5)


STANDARD = Path(next(p for p in sys.path if (Path(p) / "os.py").is_file()))
FILES = sorted(p for p in STANDARD.glob("[a-z]*/*.py") if not {"test", "tests", "site-packages"} & set(p.parts))


@settings(max_examples=40)
@given(st.sampled_from(FILES))
def test_real_files_have_no_unbound_names_and_no_rule_raises(path: Path) -> None:
    name = f"{path.parent.name}/{path.name}"
    others = {f"{path.parent.name}/{p.name}": p.read_bytes() for p in path.parent.glob("*.py")}
    facts = Facts(python=(sys.version_info[0], sys.version_info[1]), packages=frozenset({"other"}))
    found = judge_house_rules(View(Tree(others), Tree(), facts), frozenset({name}))
    found = tuple(d for d in found if "show_idlehelp" not in d.message)  # of some releases: idlelib's own fault
    assert [d for d in found if d.code in {"E501", "E503", "E504"}] == []


@settings(max_examples=150)
@given(st.sampled_from(FILES), st.data())
def test_no_rule_raises_on_a_damaged_file(path: Path, data: st.DataObject) -> None:
    raw = path.read_bytes()[:20_000]
    cut = data.draw(st.integers(0, len(raw)))
    damage = data.draw(st.binary(max_size=8))
    tree = Tree({"pkg/a.py": raw[:cut] + damage + raw[cut + data.draw(st.integers(0, 40)) :]})
    for found in judge_house_rules(View(tree, Tree()), frozenset(tree)):
        assert found.place is not None


MEMBERS = {
    "by the package": "from pkg import b\nX = b.gone\n",
    "by its full name": "import pkg.b\ndef f(): return pkg.b.gone(1)\n",
    "by another name": "import pkg.b as other\ndef f(): return other.gone\n",
    "by a relative import": "from . import b\nclass A:\n    x = b.gone\n",
    "by an alias": "from pkg import b\nops = b\ndef f(): return ops.gone\n",
    "in a decorator": "from pkg import b\n@b.gone\ndef f(): ...\n",
}


@pytest.mark.parametrize("text", MEMBERS.values(), ids=MEMBERS)
def test_what_a_module_of_the_tree_does_not_bind_cannot_be_taken_from_it(judged: Judged, text: str) -> None:
    files = {"pkg/__init__.py": "", "pkg/b.py": "going = 1\n"}
    (found,) = judged({**files, "pkg/a.py": text}, "pkg/a.py", code="E503")
    assert "the module `pkg.b` binds no `gone`" in found.message
    assert found.help == "did you mean 'going'?"
    assert judged({**files, "pkg/a.py": text.replace("gone", "going")}, "pkg/a.py", code="E503") == []


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("from pkg import b\nif hasattr(b, 'gone'):\n    X = b.gone\n", "Y = 1\n"),
        ("from pkg import b\ntry:\n    X = b.gone\nexcept AttributeError:\n    X = 1\n", "Y = 1\n"),
        ("from pkg import b\nb.gone = 1\nX = b.gone\n", "Y = 1\n"),
        ("from pkg import b\nX = b.gone\n", "def __getattr__(name): ...\n"),
        ("from pkg import b\nX = b.gone\n", "globals().update(gone=1)\n"),
        ("from pkg import b\nX = b.gone\n", "from torch import *\n"),
        ("from pkg import b\nX = b.__file__\n", "Y = 1\n"),
        ("from pkg import sub\nX = sub.gone\n", ""),
        ("import pkg.other.deep\nX = pkg.other\n", ""),  # the import itself is what fails
    ],
)
def test_what_may_be_there_can_be_taken(judged: Judged, text: str, module: str) -> None:
    files = {"pkg/__init__.py": "", "pkg/b.py": module, "pkg/sub/__init__.py": "", "pkg/sub/gone.py": ""}
    assert judged({**files, "pkg/a.py": text}, "pkg/a.py", code="E503") == []


def test_what_failed_in_the_base_tree_already_is_a_warning(judged: Judged) -> None:
    text = "from pkg import b\ndef f():\n    return b.gone, 1\n"
    base = {"pkg/__init__.py": "", "pkg/b.py": "Y = 1\n", "pkg/a.py": text}
    (found,) = judged({**base, "pkg/a.py": text.replace("1", "2")}, "pkg/a.py", base=base, code="E503")
    assert found.severity == "warning"
