from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from orchestrator.checks.view import Facts

if TYPE_CHECKING:
    from orchestrator.core.diagnostics import Diagnostic
    from tests.checks.house.conftest import Judged

OPS = """
    import torch
    from pkg.flags import HAS_FAST
    if HAS_FAST:
        from pkg.fast import attention

    class Ops:
        def forward(self, x):
            y = attention(x)
            return attention(y)
"""
SURROUNDINGS = {
    "pkg/flags/__init__.py": "from pkg.flags.importing import HAS_FAST\n",
    "pkg/flags/importing.py": "import os\n\nHAS_FAST = False\n",
    "pkg/fast.py": "def attention(x): return x\n",
}
PACKAGES = frozenset({"torch"})


def _found(judged: Judged, text: str, flag: str = "HAS_FAST = False", facts: Facts | None = None) -> list[Diagnostic]:
    files = {**SURROUNDINGS, "pkg/flags/importing.py": f"import os\n\n{flag}\n", "pkg/ops.py": text}
    return judged(files, "pkg/ops.py", facts=facts or Facts(packages=PACKAGES), code="E504")


def _names(found: list[Diagnostic]) -> list[str]:
    return [d.message.split("`")[1] for d in found]


def test_one_finding_names_condition_reason_and_all_reads(judged: Judged) -> None:
    (found,) = _found(judged, OPS)
    assert str(found.place) == "pkg/ops.py:9:13"
    assert "`attention` is read here, but it is bound only where `HAS_FAST` is true" in found.message
    assert found.notes == (
        "bound at pkg/ops.py:5:5, under `HAS_FAST`, which is false in this target",
        "because HAS_FAST = False at pkg/flags/importing.py:3:1",
        "also read at 10:16",
    )


FIND_SPEC = "from importlib.util import find_spec\nHAS_FAST = find_spec('triton') is not None"


def test_a_flag_that_looks_for_a_package_follows_the_inventory(judged: Judged) -> None:
    with_triton = Facts(packages=PACKAGES | {"triton"})
    assert _found(judged, OPS, FIND_SPEC, with_triton) == []
    (found,) = _found(judged, OPS, FIND_SPEC)
    assert "because `triton` is not in the target" in found.notes


def test_without_an_inventory_no_package_is_said_to_be_absent(judged: Judged) -> None:
    assert _found(judged, OPS, FIND_SPEC, Facts()) == []


@pytest.mark.parametrize(
    "flag",
    [
        "HAS_FAST = not True",
        "OTHER = 0\nHAS_FAST = OTHER",
        "HAS_FAST = True and False",
        "HAS_FAST = os.name and False",
        "HAS_FAST = 1 > 2",
        "HAS_FAST = 'a' in ('b', 'c')",
        "HAS_FAST = None is not None",
        "HAS_FAST = bool(0)",
        "HAS_FAST = False if True else True",
        "HAS_FAST: bool = False",
        "HAS_FAST = True\nHAS_FAST = False",
        "if 1:\n    HAS_FAST = False\nelse:\n    HAS_FAST = True",
        "import sys\nHAS_FAST = sys.version_info >= (3, 11)",
        "import sys\nHAS_FAST = sys.version_info[0] < 3",
        "import sys\nHAS_FAST = sys.version_info[:2] == (3, 9)",
        "import sys\nHAS_FAST = sys.version_info.minor > 10",
        "from typing import TYPE_CHECKING\nHAS_FAST = TYPE_CHECKING",
        "import typing\nHAS_FAST = typing.TYPE_CHECKING",
        "import importlib.util\nHAS_FAST = importlib.util.find_spec('triton') is not None",
        "import pkg.settings\nHAS_FAST = pkg.settings.ON",
        "from pkg import settings as s\nHAS_FAST = s.ON",
        "HAS_FAST = platform.has_capability( 80 )",
    ],
)
def test_what_the_facts_make_false_is_seen_as_false(judged: Judged, flag: str) -> None:
    facts = Facts(python=(3, 10), packages=PACKAGES, constants={"platform.has_capability(80)": False})
    files = {**SURROUNDINGS, "pkg/settings.py": "ON = False\n", "pkg/ops.py": OPS, "pkg/flags/importing.py": flag}
    found = judged({**files, "pkg/__init__.py": ""}, "pkg/ops.py", facts=facts, code="E504")
    assert _names(found) == ["attention"]


@pytest.mark.parametrize(
    "flag",
    [
        "HAS_FAST = True",
        "HAS_FAST = os.environ.get('FAST')",
        "HAS_FAST = False or os.name",
        "try:\n    import fast\n    HAS_FAST = True\nexcept ImportError:\n    HAS_FAST = False",
        "HAS_FAST = False\ndef enable():\n    global HAS_FAST\n    HAS_FAST = True",
        "HAS_FAST = False\nif os.name == 'x':\n    HAS_FAST = True",
        "for HAS_FAST in (False,):\n    pass",
        "HAS_FAST = HAS_FAST",
        "from pkg.flags import HAS_FAST",
        "import sys\nHAS_FAST = sys.version_info >= (3, 10, 5)",
        "import sys\nHAS_FAST = sys.version_info > (3, 10)",
        "HAS_FAST = 1 < 'a'",
        "HAS_FAST = unknown[0]",
        "from json import HAS_FAST",
    ],
)
def test_what_is_true_or_not_known_is_silent(judged: Judged, flag: str) -> None:
    assert _found(judged, OPS, flag) == []


@pytest.mark.parametrize(
    "text",
    [
        "if F:\n    import json as x\nelse:\n    x = None\ndef f(): return x\n",
        "if F:\n    x = 1\nx = 2\ndef f(): return x\n",
        "if F:\n    x = 1\ndef f():\n    if F:\n        return x\n",
        "if F:\n    x = 1\ndef f():\n    if not F:\n        raise ValueError\n    return x\n",
        "if F:\n    x = 1\ndef f(): return x if F else None\n",
        "if F:\n    x = 1\ndef f(): return F and x\n",
        "if F:\n    x = 1\ndef f(): return [x for y in () if F]\n",
        "if F:\n    x = 1\ndef f():\n    assert F\n    return x\n",
        "if F:\n    x = 1\n    def f(): return x\n",
        "if F:\n    x = 1\ndef f(x): return x\n",
        "if F:\n    x = 1\ndef f():\n    x = 1\n    return x\n",
        "if F:\n    x = 1\ndef f():\n    global x\n    x = 1\n",
        "if F:\n    x = 1\ndef f():\n    try:\n        return x\n    except NameError:\n        return None\n",
        "if F:\n    x = 1\n",
        "from json import *\nif F:\n    x = 1\ndef f(): return x\n",
        "if F:\n    list = 1\ndef f(): return list\n",
        "try:\n    import json as x\nexcept ImportError:\n    x = None\ndef f(): return x\n",
        "if not F:\n    x = 1\ndef f(): return x\n",
        "if F:\n    x = 1\nelse:\n    g = None\ndef _f(): return x\ndef h():\n    if F:\n        _f()\n",
        "from __future__ import annotations\nif F:\n    x = 1\ndef f(a: x): pass\n",
    ],
)
def test_a_read_that_cannot_fail_is_silent(judged: Judged, text: str) -> None:
    lines = text.split("\n")
    at = 1 if lines[0].startswith("from __future__") else 0
    assert _found(judged, "\n".join([*lines[:at], "F = False", *lines[at:]])) == []


@pytest.mark.parametrize(
    "text",
    [
        "if F:\n    x = 1\ndef f(): return x\n",
        "if F:\n    x = 1\nelif G:\n    x = 2\ndef f(): return x\n",
        "if F:\n    x = 1\nx\n",
        "if F:\n    x = 1\ndef f(a: x): pass\n",
        "if F:\n    def x(): pass\nclass K:\n    y = x\n",
        "if not F:\n    pass\nelse:\n    x = 1\ndef f(): return lambda: x\n",
        "while F:\n    x = 1\ndef f(): return x\n",
        "if F:\n    if unknown():\n        x = 1\ndef f(): return x\ndef unknown(): pass\n",
        "if F:\n    x = 1\ndef f(F):\n    if F:\n        return x\n",
        "if F:\n    x = 1\ndef _f(): return x\ndef h():\n    return _f()\n",
    ],
)
def test_a_read_that_fails_in_this_target_is_found(judged: Judged, text: str) -> None:
    assert _names(_found(judged, f"F = False\nG = 0\n{text}")) == ["x"]


def test_a_name_for_type_checkers_that_running_code_reads_is_found(judged: Judged) -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from json import loads\ndef f(): return loads\n"
    (found,) = _found(judged, text)
    assert found.notes[1] == "because TYPE_CHECKING is False when the code runs"


def test_a_constant_of_the_target_decides_and_is_named(judged: Judged) -> None:
    text = "if not gate.is_new( 80 ):\n    x = 1\ndef f(): return x\n"
    (found,) = _found(judged, text, facts=Facts(packages=PACKAGES, constants={"gate.is_new(80)": True}))
    assert "because `gate.is_new(80)` is True by the target's constants" in found.notes
    assert _found(judged, text, facts=dataclasses.replace(Facts(packages=PACKAGES), constants={})) == []


GATES = {
    "another name": "from pkg.platforms import current_platform as here\n{if_}here.is_rocm():\n",
    "by the module": "import pkg.platforms as p\n{if_}p.current_platform.is_rocm():\n",
    "by the module's full name": "import pkg.platforms\n{if_}pkg.platforms.current_platform.is_rocm():\n",
    "by the package": "from pkg import platforms\n{if_}platforms.current_platform.is_rocm():\n",
    "an alias": "from pkg.platforms import current_platform\nhere = current_platform\n{if_}here.is_rocm():\n",
}


@pytest.mark.parametrize("text", GATES.values(), ids=GATES)
def test_a_gate_is_known_under_every_name(judged: Judged, text: str) -> None:
    facts = Facts(packages=frozenset({"torch"}), constants={"current_platform.is_rocm()": False})
    files = {
        "pkg/__init__.py": "",
        "pkg/platforms.py": "class P:\n    def is_rocm(self): ...\ncurrent_platform = P()\n",
    }
    for if_, expected in (("if ", ["E504"]), ("if not ", [])):
        whole = text.format(if_=if_) + "    g = 1\ndef f():\n    return g\n"
        found = judged({**files, "pkg/a.py": whole}, "pkg/a.py", facts=facts)
        assert [d.code for d in found] == expected


def test_a_flag_of_an_import_that_the_tree_does_not_have_is_known(judged: Judged) -> None:
    text = "try:\n    import pkg.gone\n    HAS = True\nexcept ImportError:\n    HAS = False\nif HAS:\n    g = 1\n"
    text += "def f():\n    return g\n"
    (found,) = judged({"pkg/__init__.py": "", "pkg/a.py": text}, "pkg/a.py")
    assert (found.code, "because `pkg.gone` is not in the tree" in found.notes) == ("E504", True)
    assert judged({"pkg/__init__.py": "", "pkg/gone.py": "", "pkg/a.py": text}, "pkg/a.py") == []
