from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.core.diagnostics import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.core.diagnostics import Diagnostic
    from tests.checks.house.conftest import Judged

OPS = "pkg/ops.py"


def found(judged: Judged, files: Mapping[str, str], *touched: str, base: Mapping[str, str] | None = None) -> list[str]:
    return [d.message for d in judged(files, *touched, base=base, code="E507")]


def changed(judged: Judged, before: str, after: str, **others: str) -> list[Diagnostic]:
    """Return the findings after `pkg/ops.py` alone was changed; other files are `pkg/NAME.py`."""
    rest = {f"pkg/{name}.py": text for name, text in others.items()}
    rest = {"pkg/__init__.py": "", **rest}
    return judged({OPS: after, **rest}, OPS, base={OPS: before, **rest}, code="E507")


SEVEN = "def attend(a, b, c, d, e, f, g): ...\n"
EIGHT = "def attend(a, b, c, d, e, f, g, h): ...\n"


def test_a_replacement_with_seven_parameters_and_a_call_with_eight_is_refused_with_both_places(judged: Judged) -> None:
    caller = "from pkg.ops import attend\n\ndef run(x):\n    return attend(1, 2, 3, 4, 5, 6, 7, 8)\n"
    (told,) = changed(judged, EIGHT, SEVEN, caller=caller)
    assert (told.code, told.severity, str(told.place)) == ("E507", Severity.ERROR, "pkg/ops.py:1:1")
    assert told.message == (
        "the call of `attend` at pkg/caller.py:4:12 does not fit: "
        "8 positional arguments, but attend(a, b, c, d, e, f, g) takes 7, defined here"
    )
    assert told.notes == ("called at pkg/caller.py:4:12: attend(1, 2, 3, 4, 5, 6, 7, 8)",)


@pytest.mark.parametrize(
    "after", ["def attend(*args): ...\n", "def attend(a, *rest, **more): ...\n", EIGHT + "x = 1\n"]
)
def test_a_replacement_that_takes_what_is_passed_is_accepted(judged: Judged, after: str) -> None:
    assert changed(judged, EIGHT, after, caller="from pkg.ops import attend\nattend(1, 2, 3, 4, 5, 6, 7, 8)\n") == []


@pytest.mark.parametrize("call", ["attend(*values)", "attend(1, *values)", "attend(**values)", "attend(1, 2, *v, **w)"])
def test_a_star_at_the_call_is_believed(judged: Judged, call: str) -> None:
    assert changed(judged, EIGHT, SEVEN, caller=f"from pkg.ops import attend\n\ndef f(v, w, values): {call}\n") == []


@pytest.mark.parametrize(
    "caller",
    [
        "from pkg.ops import f\nf(1, 2)",
        "from pkg.ops import f as g\ng(1, 2)",
        "from .ops import f\nf(1, 2)",
        "from . import ops\nops.f(1, 2)",
        "import pkg.ops\npkg.ops.f(1, 2)",
        "import pkg.ops as n\nn.f(1, 2)",
        "from pkg import ops as n\ng = n.f\ng(1, 2)",
        "from pkg.ops import *\nf(1, 2)",
        "def run():\n    from pkg.ops import f\n    return f(1, 2)",
        "from pkg import ops\nclass K:\n    def m(self):\n        return [ops.f(1, 2) for _ in range(3)]",
        "from pkg.shelf import shown\nshown(1, 2)",
        "from pkg.other import hidden\nhidden(1, 2)",
        "from pkg.sub import f\nf(1, 2)",
    ],
)
def test_every_way_to_reach_a_function_is_followed(judged: Judged, caller: str) -> None:
    shelf, other = "from pkg.ops import f as shown\n", "from pkg import ops\nhidden = ops.f\n"
    rest = {"pkg/sub/__init__.py": "from ..shelf import *\nfrom ..ops import f\n", "pkg/__init__.py": ""}
    rest |= {"pkg/caller.py": caller + "\n", "pkg/shelf.py": shelf, "pkg/other.py": other}
    files, base = {OPS: "def f(a): ...\n", **rest}, {OPS: "def f(a, b): ...\n", **rest}
    assert len(found(judged, files, OPS, base=base)) == 1
    assert found(judged, base, OPS, base=files) == []


CLASS = """\
class K(object):
    def plain(self, a): ...
    @staticmethod
    def static(a): ...
    @classmethod
    def made(cls, a): ...
    def __init__(self, a, *, b=1): ...
    def __call__(self, a): ...
"""


@pytest.mark.parametrize(
    ("call", "fits"),
    [
        ("K(1).plain(1)", True),
        ("K(1).plain()", False),
        ("K(1).plain(1, 2)", False),
        ("K.plain(x, 1)", True),
        ("K.plain(1)", False),
        ("K.static(1)", True),
        ("K(1).static(1)", True),
        ("K.static(1, 2)", False),
        ("K.made(1)", True),
        ("K(1).made(x, 1)", False),
        ("K(1, 2)", False),
        ("K()", False),
        ("K(1, b=2)", True),
        ("K(1, c=2)", False),
        ("K(1)(2)", True),
        ("K(1)(2, 3)", False),
        ("K.__init__(x, 1)", True),
        ("K.__init__(1)", False),
    ],
)
def test_methods_constructors_and_calls_of_instances_bind(judged: Judged, call: str, *, fits: bool) -> None:
    assert (found(judged, {OPS: CLASS, "pkg/c.py": f"from pkg.ops import K\nx = 1\n{call}\n"}) == []) is fits
    local = f"from pkg.ops import K\ndef f(x):\n    k = K(1)\n    return {call.replace('K(1).', 'k.')}\n"
    assert (found(judged, {OPS: CLASS, "pkg/c.py": local}) == []) is fits


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("class L(K):\n    def go(self): self.plain(1)\n", True),
        ("class L(K):\n    def go(self): self.plain()\n", False),
        ("class L(K):\n    def go(self): super().plain(1, 2)\n", False),
        ("class L(K):\n    def go(self): super(L, self).plain(1)\n", True),
        ("class L(K):\n    def __init__(self): super().__init__()\n", False),
        ("class L(K):\n    def __init__(self): K.__init__(self, 1)\n", True),
        ("class L(K):\n    @classmethod\n    def go(cls): return cls.made()\n", False),
        ("class L(K):\n    @classmethod\n    def go(cls): return cls(1)\n", True),
        ("class L(K):\n    @classmethod\n    def go(cls): return cls(1, 2)\n", False),
        ("class L(K):\n    def go(self):\n        def inner(): self.plain(1, 2)\n", False),
        ("class L:\n    def __init__(self): self.k = K(1)\n    def go(self): self.k.plain(1, 2)\n", False),
        ("class L:\n    def __init__(self): self.k = K(1)\n    def go(self): self.k.plain(1)\n", True),
        # It cannot be known:
        ("class L(K):\n    def go(self, self2): self2.plain()\n", True),
        ("class L(K):\n    def go(self):\n        self = other()\n        self.plain()\n", True),
        ("class L(K):\n    def __init__(self): self.plain = print\n    def go(self): self.plain()\n", True),
        ("class L(K):\n    def go(self): self.plain()\nclass M(L):\n    def plain(self): ...\n", True),
        (
            "class L(K):\n    def go(self): super().plain()\nclass X(K):\n    def plain(s): ...\nclass M(L, X): ...\n",
            True,
        ),
        ("class L:\n    def __init__(self): self.k = K(1)\n    def go(self): self.k.plain()\nL().k = 2\n", True),
        ("class L(K):\n    @property\n    def plain(self): return print\n    def go(self): self.plain()\n", True),
        ("class L(K):\n    @staticmethod\n    def go(self): self.plain()\n", True),
        ("from outside import Base\nclass L(Base, K):\n    def go(self): self.plain()\n", True),
    ],
)
def test_self_cls_and_super_are_followed_as_far_as_they_can_be_known(judged: Judged, text: str, *, fits: bool) -> None:
    assert (found(judged, {OPS: f"{CLASS}\n{text}"}) == []) is fits


HEIR = """\
from dataclasses import dataclass, field
from typing import ClassVar
@dataclass
class B:
    a: int
    c: ClassVar[int] = 3
@dataclass
class D(B):
    b: int = field(default=1)
    d: int = field(init=False)
"""


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("from dataclasses import dataclass\n@dataclass\nclass D:\n    a: int\n    b: int = 1\n", "D(1, b=2)", "D()"),
        ("import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass D:\n    a: int\n", "D(a=1)", "D(1, 2)"),
        (
            HEIR,
            "D(1, 2)",
            "D(1, 2, 3)",
        ),
        (
            "from dataclasses import dataclass, KW_ONLY\n@dataclass\nclass D:\n    _: KW_ONLY\n    a: int\n",
            "D(a=1)",
            "D(1)",
        ),
        ("from dataclasses import dataclass\n@dataclass(kw_only=True)\nclass D:\n    a: int\n", "D(a=1)", "D(1)"),
        ("from typing import NamedTuple\nclass D(NamedTuple):\n    a: int\n    b: int = 1\n", "D(1)", "D(1, 2, 3)"),
        ("class D: ...\n", "D()", "D(1)"),
        ("class D(ValueError):\n    def __init__(self, a): ...\n", "D(1)", "D()"),
        ("from abc import ABC\nclass D(ABC):\n    def __init__(self, a): ...\n", "D(1)", "D()"),
    ],
)
def test_constructors_take_the_fields(judged: Judged, text: str, good: str, bad: str) -> None:
    assert found(judged, {OPS: f"{text}{good}\n"}) == []
    assert len(found(judged, {OPS: f"{text}{bad}\n"})) == 1


@pytest.mark.parametrize(
    "text",
    [
        "from enum import Enum\nclass D(Enum):\n    A = 1\n    def __init__(self, a, b): ...\nD(1)\n",
        "class M(type):\n    def __call__(cls): ...\nclass D(metaclass=M):\n    def __init__(self, a): ...\nD()\n",
        "class D:\n    def __new__(cls): ...\n    def __init__(self, a): ...\nD()\n",
        "from pydantic import BaseModel\nclass D(BaseModel):\n    def __init__(self, a): ...\nD()\n",
        "from pydantic.dataclasses import dataclass\n@dataclass\nclass D:\n    a: int\nD()\n",
        "from x import deco\n@deco\nclass D:\n    def __init__(self, a): ...\nD()\n",
        "from dataclasses import dataclass as d\nfrom x import a_field\n@d\nclass D:\n    a: int = a_field()\nD()\n",
        "from dataclasses import dataclass\n@dataclass\nclass D:\n    a: int\n    def __init__(self): ...\nD()\n",
        "from x import deco\n@deco\ndef f(a): ...\nf()\n",
        "from functools import partial\ndef f(a): ...\nf = partial(f, 1)\nf()\n",
        "from typing import overload\n@overload\ndef f(a): ...\ndef f(*a): ...\nf(1, 2)\n",
        "try:\n    from fast import f\nexcept ImportError:\n    def f(a): ...\nf()\n",
        "if flag():\n    def f(a): ...\nelse:\n    def f(): ...\nf()\n",
        "def f(a): ...\ndef g(f): f()\n",
        "def f(a): ...\ndef g():\n    f = print\n    f()\n",
        "def f(a): ...\nfor f in (print,): f()\n",
        "def f(a): ...\n[f() for f in (print,)]\n",
        "def f(a): ...\nh = lambda f: f()\n",
        "def f(a): ...\ndef g():\n    global f\n    f = print\nf()\n",
        "def f(a): ...\nglobals()['f'] = print\nf()\n",
        "def f(a): ...\ntry:\n    f()\nexcept TypeError: ...\n",
        "import pytest\ndef f(a): ...\nwith pytest.raises(TypeError):\n    f()\n",
        "import sys\ndef f(a): ...\nif sys.version_info < (3, 0):\n    f()\n",
        "def f(a): ...\ndef g(x):\n    with x as f:\n        f()\n",
        "class K:\n    def f(self, a): ...\nfor k in (K(),): k.f()\n",
        "class K:\n    f = print\n    def g(self): self.f()\n",
        "def f(a): ...\nif (f := print): f()\n",
        "def f(a): ...\ndef __getattr__(name): ...\nimport pkg.ops\npkg.ops.g()\n",
    ],
)
def test_where_it_cannot_be_known_nothing_is_said(judged: Judged, text: str) -> None:
    assert found(judged, {OPS: text, "pkg/__init__.py": ""}) == []


@pytest.mark.parametrize(
    "decorator",
    [
        "functools.lru_cache(None)",
        "functools.cache",
        "torch.no_grad()",
        "torch.inference_mode()",
        "functools.wraps(print)",
    ],
)
def test_known_decorators_leave_the_signature(judged: Judged, decorator: str) -> None:
    text = f"import functools, torch\n@{decorator}\ndef f(a): ...\n"
    assert found(judged, {OPS: f"{text}f(1)\n"}) == []
    assert len(found(judged, {OPS: f"{text}f()\n"})) == 1


def test_a_definition_that_another_file_replaces_is_not_known(judged: Judged) -> None:
    files = {OPS: "def f(a): ...\n", "pkg/c.py": "from pkg import ops\nops.f()\n", "pkg/__init__.py": ""}
    assert len(found(judged, files)) == 1
    assert found(judged, {**files, "pkg/d.py": "from pkg import ops\nops.f = print\n"}) == []
    assert found(judged, {**files, "pkg/d.py": "import pkg.ops as o\nsetattr(o, 'f', print)\n"}) == []


def test_changed_code_may_not_call_an_unchanged_definition_wrongly(judged: Judged) -> None:
    before = {OPS: "def f(a): ...\n", "pkg/c.py": "from pkg.ops import f\ndef g(): f(1)\n", "pkg/__init__.py": ""}
    after = {**before, "pkg/c.py": "from pkg.ops import f\ndef g(): f(1, b=2)\n"}
    (told,) = judged(after, "pkg/c.py", base=before, code="E507")
    assert str(told.place) == "pkg/c.py:2:10"
    assert (
        told.message == "the call of `f` does not fit: keyword `b`, which f(a) does not take, defined at pkg/ops.py:1:1"
    )


def test_what_did_not_fit_before_is_not_the_runs_doing(judged: Judged) -> None:
    before = {OPS: "def f(a): ...\n", "pkg/c.py": "from pkg.ops import f\ndef g(): f()\ndef h(): ...\n"}
    assert judged({**before, "pkg/c.py": before["pkg/c.py"] + "x = 1\n"}, "pkg/c.py", base=before, code="E507") == []
    after = {**before, "pkg/c.py": "from pkg.ops import f\ndef g():\n    x = 1\n    f()\n"}
    assert [d.severity for d in judged(after, "pkg/c.py", base=before, code="E507")] == [Severity.WARNING]


def test_a_changed_import_makes_old_calls_meet_another_definition(judged: Judged) -> None:
    shared = {OPS: "def f(a): ...\n", "pkg/new.py": "def f(a, b): ...\n", "pkg/__init__.py": ""}
    before = {**shared, "pkg/c.py": "from pkg.ops import f\ndef g(): f(1)\n"}
    after = {**shared, "pkg/c.py": "from pkg.new import f\ndef g(): f(1)\n"}
    assert len(found(judged, after, "pkg/c.py", base=before)) == 1


WRAP = """\
import functools
def hint(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        try:
            return fn(*args, **kwargs)
        except ValueError:
            raise
    return wrapper
"""
OTHER = WRAP.replace("return fn(*args, **kwargs)", "return fn(1, *args, **kwargs)")
TAKING = WRAP.replace("        try:", "        kwargs.pop('own', None)\n        try:")
ALL = """\
names = globals()
new = {}
for k, v in names.items():
    if isinstance(v, type(hint)):
        new[k] = hint(v)
names.update(new)
del names, new
"""


def test_a_wrapper_that_passes_everything_on_leaves_the_signature(judged: Judged) -> None:
    call = "from pkg.ops import f\nf()\n"
    for wrapper, count in ((WRAP, 1), (OTHER, 0), (TAKING, 0)):
        files = {OPS: f"{wrapper}@hint\ndef f(a): ...\n", "pkg/c.py": call}
        assert len(found(judged, files)) == count
        assert len(found(judged, {**files, OPS: f"{wrapper}def f(a): ...\n{ALL}"})) == count
    files = {OPS: f"{WRAP}def f(a): ...\nglobals()['f'] = print\n", "pkg/c.py": call}
    assert found(judged, files) == []


FAMILY = "class A:\n    def f(self, x): ...\nclass B(A):\n"


@pytest.mark.parametrize(
    ("member", "fits"),
    [("pass", False), ("def f(self, x): ...", False), ("f = 1", True), ("f: int = 1", True), ("f = g = [1]", True)],
)
def test_a_member_that_becomes_a_value_hides_what_it_came_from_and_one_that_goes_does_not(
    judged: Judged, member: str, *, fits: bool
) -> None:
    before, after = f"{FAMILY}    def f(self): ...\n", f"{FAMILY}    {member}\n"
    found = changed(judged, before, after, caller="from pkg.ops import B\nB().f()\n")
    assert [finding.code for finding in found] == ([] if fits else ["E507"])


INDIRECT = {
    "partial": "import functools\nfrom pkg.ops import op\nf = functools.partial(op, {0}, {1}, {2})\n",
    "partial by name": "from functools import partial\nfrom pkg.ops import op\nf = partial(op, c={2})\n",
    "a thread": "import threading\nfrom pkg.ops import op\nthreading.Thread(target=op, args=({0}, {1}, {2}))\n",
    "a literal star": "from pkg.ops import op\ndef f(): return op(*({0}, {1}, {2}))\n",
    "literal keywords": "from pkg.ops import op\ndef f(): return op(**{{'a': {0}, 'b': {1}, 'c': {2}}})\n",
    "getattr": "import pkg.ops as ops\ndef f(): return getattr(ops, 'op')({0}, {1}, {2})\n",
}


@pytest.mark.parametrize("text", INDIRECT.values(), ids=INDIRECT)
def test_a_call_that_is_written_as_something_else_is_one(judged: Judged, text: str) -> None:
    base = {"pkg/__init__.py": "", "pkg/ops.py": "def op(a, b, c): ...\n", "pkg/user.py": text.format(1, 2, 3)}
    assert judged({**base, "pkg/ops.py": "def op(a, b, c, d=0): ...\n"}, "pkg/ops.py", base=base) == []
    (found,) = judged({**base, "pkg/ops.py": "def op(a, b): ...\n"}, "pkg/ops.py", base=base)
    assert found.code == "E507"


def test_a_partial_need_not_give_all(judged: Judged) -> None:
    files = {"pkg/__init__.py": "", "pkg/ops.py": "def op(a, b, c): ...\n"}
    files["pkg/user.py"] = "from functools import partial\nfrom pkg.ops import op\nf = partial(op, 1)\n"
    assert judged(files, "pkg/user.py") == []
