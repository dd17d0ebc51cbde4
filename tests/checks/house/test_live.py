"""What a run brings is reached by somebody, or a framework reaches it."""

from __future__ import annotations

import pytest

from orchestrator.checks.view import Facts
from tests.checks.house.conftest import _judged

CODE = """\
import torch
from functools import lru_cache
from pydantic import BaseModel
from torch import nn
from pkg.base import Plain, Visitor, register

USED = 1
UNREAD = 1

class Thing(Plain):
    LIMIT = 1
    def go(self):
        return self.LIMIT + USED

class Message(BaseModel):
    content: str = ""

class Layer(nn.Module):
    def forward(self, x):
        return x

def entry(thing):
    return thing.go()
"""
SURROUNDINGS = {
    "pkg/__init__.py": "",
    "pkg/base.py": "class Plain:\n    def hook(self): pass\nclass Visitor:\n    pass\ndef register(f): return f\n",
    "pkg/main.py": "from pkg.code import entry, Message, Layer, Thing\nentry(Thing())\nMessage(); Layer()\n",
}
FACTS = Facts(packages=frozenset({"torch", "pydantic"}))


def found(old: str, new: str, more: dict[str, str] | None = None) -> list[str]:
    assert old in CODE
    base = {**SURROUNDINGS, "pkg/code.py": CODE}
    files = {**base, "pkg/code.py": CODE.replace(old, new), **(more or {})}
    touched = {path for path, text in files.items() if base.get(path) != text}
    return [d.message for d in _judged(files, *touched, base=base, facts=FACTS, code="E513")]


CLASS = "    LIMIT = 1\n"
MODULE = "USED = 1\n"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (MODULE, f"{MODULE}NEW = 1\n", "nothing reads `NEW`"),
        (MODULE, f"{MODULE}NEW: int = 1\n", "nothing reads `NEW`"),
        ("UNREAD = 1", "UNREAD = 2", "nothing reads `UNREAD`"),
        (CLASS, f"{CLASS}    NEW = 1\n", "nothing reads `Thing.NEW`"),
        (MODULE, f"{MODULE}def new(): pass\n", "nothing calls `new`"),
        (MODULE, f"{MODULE}def new(n): return new(n - 1)\n", "nothing calls `new`"),
        (MODULE, f"{MODULE}@lru_cache\ndef new(): pass\n", "nothing calls `new`"),
        (MODULE, f"{MODULE}class New: pass\n", "nothing calls `New`"),
        (CLASS, f"{CLASS}    def new(self): pass\n", "nothing calls `Thing.new`"),
        (CLASS, f"{CLASS}    @property\n    def new(self): pass\n", "nothing calls `Thing.new`"),
        ("    def forward", "    def fast(self): pass\n    def forward", "nothing calls `Layer.fast`"),
    ],
)
def test_what_nobody_reaches_is_refused(old: str, new: str, says: str) -> None:
    (message,) = found(old, new)
    assert message == f"{says}, which the run puts into pkg/code.py"


def test_what_only_the_unreached_reach_is_unreached() -> None:
    messages = found(MODULE, f"{MODULE}NEW = 1\ndef one(): return two()\ndef two(): return NEW and one()\n")
    assert [message.split("`")[1] for message in messages] == ["NEW", "one", "two"]
    assert (
        found("    return thing.go()", "    return one(thing)\ndef one(x): return two(x)\ndef two(x): return x") == []
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (MODULE, f"{MODULE}__version__ = '1'\n"),
        (MODULE, f"{MODULE}NEW = 1\n__all__ = ['NEW']\n"),
        (MODULE, f"{MODULE}@register\ndef new(): pass\n"),
        (MODULE, f"{MODULE}@register.get('/x')\nasync def new(): pass\n"),
        (CLASS, f"{CLASS}    def __call__(self): pass\n"),
        (CLASS, f"{CLASS}    def hook(self): pass\n"),
        (CLASS, f"{CLASS}    @torch.no_grad()\n    def new(self): pass\n    def __del__(self): self.new()\n"),
        (CLASS, f"{CLASS}    note: int\n"),
        ('    content: str = ""', '    content: str = ""\n    extra: str = ""\n    def check(self): pass'),
        ("    def forward", "    def extra_repr(self): pass\n    def _load(self): pass\n    def forward"),
        (
            "    return thing.go()",
            "    return getattr(thing, 'new')()\nclass New(Plain):\n    def new(self): pass\nx = New()\nx",
        ),
        ("class Message(", "class Kind(BaseModel.Inner):\n    A = 1\nKind\nclass Message("),
        (MODULE, "USED = 1  # as ever\n"),
        (MODULE, f"{MODULE}if False:\n    NEW = 1\n"),
    ],
)
def test_what_a_framework_or_a_name_as_text_reaches_is_let_pass(old: str, new: str) -> None:
    assert found(old, new) == []


def test_a_use_in_another_file_is_one_however_it_is_imported() -> None:
    for use in ("from pkg.code import NEW\nNEW", "import pkg.code\npkg.code.NEW", "from pkg import code as c\nc.NEW",
                "from pkg.code import *\nprint(NEW)"):  # fmt: skip
        assert (
            found(MODULE, f"{MODULE}NEW = 1\n", {"pkg/other.py": f"{use}\n", "pkg/main.py": "import pkg.other\n"}) == []
        )
    assert found(MODULE, f"{MODULE}NEW = 1\n", {"pkg/main.py": "from pkg.code import entry  # NEW\n"}) != []


NEW = "pkg/deep/new.py"


def modules(importer: str, text: str, more: dict[str, str] | None = None) -> list[str]:
    files = {NEW: "X = 1\n", "pkg/deep/__init__.py": "", importer: text, **(more or {})}
    return found("USED", "USED", files)


@pytest.mark.parametrize(
    "text",
    [
        "from pkg.deep import new\n",
        "from pkg.deep.new import X\n",
        "from .deep.new import X\n",
        "def f():\n    import pkg.deep.new\nf()\n",
        "import importlib\nimportlib.import_module('pkg.deep.new')\n",
        "import importlib\nimportlib.import_module('.new', 'pkg.deep')\n",
        "import sys, subprocess\nsubprocess.run([sys.executable, '-m', 'pkg.deep.new'])\n",
        "import importlib\nTABLE = {'new': ('new', 'X')}\nimportlib.import_module(TABLE['new'][0])\n",
    ],
)
def test_a_module_that_a_file_which_stays_imports_is_reached(text: str) -> None:
    assert modules("pkg/main.py", text) == []


@pytest.mark.parametrize(
    "text",
    [
        "# from pkg.deep import new\n",
        "X = 'from pkg.deep import new'\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pkg.deep import new\n",
        "FAST = False\nif FAST:\n    from pkg.deep import new\n",
    ],
)
def test_a_module_that_nothing_really_imports_is_refused(text: str) -> None:
    messages = modules("pkg/main.py", text)
    assert f"nothing imports {NEW}, which the run adds" in messages


def test_modules_that_import_each_other_alone_are_unreached() -> None:
    ring = {"pkg/ring.py": "import pkg.deep.new\n", NEW: "import pkg.ring\n"}
    assert len(modules("pkg/main.py", "", ring)) == len([*ring, "pkg/deep/__init__.py"])
    assert modules("pkg/main.py", "import pkg.ring\n", ring) == []


def test_a_program_and_a_package_that_takes_whatever_lies_in_it_need_no_import() -> None:
    program = {NEW: "if __name__ == '__main__':\n    print()\n"}
    assert modules("pkg/main.py", "", program) == []
    scanning = {"pkg/deep/__init__.py": "import pkgutil\npkgutil.iter_modules('x')\n"}
    assert modules("pkg/main.py", "import pkg.deep\n", scanning) == []
