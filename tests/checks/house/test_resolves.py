from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.checks.view import Facts
from orchestrator.core.diagnostics import Severity

if TYPE_CHECKING:
    from tests.checks.house.conftest import Judged

FACTS = Facts(
    packages=frozenset({"torch", "triton.runtime"}),
    vendor_modules={"vendor.ops": ("copy_cache", "attention"), "vendor.free": ()},
)

SURROUNDINGS = {
    "pkg/__init__.py": "from .core import Engine\n",
    "pkg/core.py": """
        import os
        from pkg.sub.names import *
        class Engine: pass
        if os.name == "x":
            RARE = 1
        def start():
            global STARTED
            STARTED = True
    """,
    "pkg/sub/names.py": "__all__ = ['public', '_listed']\npublic = 1\n_listed = 2\n_private = 3\n",
    "pkg/lazy.py": "def __getattr__(name): ...\n",
    "pkg/made.py": "globals().update(a=1)\n",
    "pkg/broken.py": "def (\n",
    "pkg/data/table.json": "{}",
}


def _findings(judged: Judged, text: str, facts: Facts = FACTS) -> list[str]:
    files = {**SURROUNDINGS, "pkg/sub/new.py": text}
    found = judged(files, "pkg/sub/new.py", facts=facts)
    assert {d.code for d in found} <= {"E502"}
    return [d.message for d in found]


@pytest.mark.parametrize(
    "text",
    [
        "import os.path, sys, __future__",
        "import torch.nn.functional as F",
        "import triton, triton.runtime.cache",
        "from triton import anything",
        "import vendor, vendor.ops",
        "from vendor.ops import copy_cache",
        "from vendor.free import whatever\nimport vendor.free.deeper",
        "import pkg, pkg.core, pkg.sub, pkg.sub.names",
        "from pkg import core, Engine, sub, lazy",
        "from pkg.sub import names, new",
        "from ..core import Engine, RARE, STARTED, public, _listed, os",
        "from . import names\nfrom .names import _private\nfrom .. import core",
        "from pkg.lazy import anything\nfrom pkg.made import anything_else\nfrom pkg.broken import unknown",
        "from pkg.core import *",
        "from pkg.core import __name__ as n, __doc__",
        "import pkg.data",
    ],
)
def test_imports_that_resolve_are_silent(judged: Judged, text: str) -> None:
    assert _findings(judged, text) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import pkg.cor", "no module `pkg.cor` (`cor` is not there)"),
        ("from pkg.sub.nowhere.deep import x", "no module `pkg.sub.nowhere.deep` (`nowhere` is not there)"),
        ("from .nams import public", "no module `pkg.sub.nams` (`nams` is not there)"),
        ("from pkg.core import Engin", "`pkg.core` has no `Engin`"),
        ("from pkg.core import _private", "`pkg.core` has no `_private`"),
        ("from pkg.sub import nothing", "`pkg.sub` has no `nothing`"),
        ("import flash_attn", "no module `flash_attn`"),
        ("from triton.language import core", "no module `triton.language`"),
        ("import vendor.missing", "no module `vendor.missing`"),
        ("from vendor.ops import copy_blocks", "`vendor.ops` has no `copy_blocks`"),
        ("from .... import x", "the relative import leads out of the package `pkg`"),
        ("import pkg._C", "no module `pkg._C` (`_C` is not there)"),
        ("def f():\n    from pkg import gone", "`pkg` has no `gone`"),
        ("import tomllib", "no module `tomllib`"),
        ("import pkg.core.inner", "no module `pkg.core.inner` (`inner` is not there)"),
    ],
)
def test_imports_that_do_not_resolve_are_named(judged: Judged, text: str, message: str) -> None:
    assert _findings(judged, text) == [message]


def test_the_nearest_name_is_suggested_and_the_place_is_the_name(judged: Judged) -> None:
    (found,) = judged({**SURROUNDINGS, "pkg/new.py": "import os\nfrom pkg.core import os, Engin\n"}, "pkg/new.py")
    assert "did you mean 'Engine'?" in found.help
    assert str(found.place) == "pkg/new.py:2:26"


def test_one_statement_tells_of_a_missing_module_once(judged: Judged) -> None:
    assert len(_findings(judged, "from pkg.gone import a, b, c\n")) == 1


@pytest.mark.parametrize("caught", ["ImportError", "(OSError, ImportError)", "Exception", "BaseException", ""])
def test_an_import_whose_failure_is_caught_is_fine(judged: Judged, caught: str) -> None:
    text = f"try:\n    import flash_attn\n    from pkg.core import gone\nexcept {caught}:\n    flash_attn = None\n"
    assert _findings(judged, text) == []


def test_a_missing_name_is_no_module_not_found_error(judged: Judged) -> None:
    text = "try:\n    import flash_attn\n    from pkg.core import gone\nexcept ModuleNotFoundError:\n    pass\n"
    assert _findings(judged, text) == ["`pkg.core` has no `gone`"]


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import flash_attn\nexcept ValueError:\n    pass\n",
        "try:\n    pass\nexcept ImportError:\n    import flash_attn\n",
        "try:\n    def f():\n        import flash_attn\nexcept ImportError:\n    pass\n",
        "try:\n    pass\nexcept ImportError:\n    pass\nelse:\n    import flash_attn\n",
    ],
)
def test_a_try_that_does_not_catch_it_excuses_nothing(judged: Judged, text: str) -> None:
    assert _findings(judged, text) == ["no module `flash_attn`"]


def test_an_import_is_not_followed_where_the_facts_close_the_way(judged: Judged) -> None:
    text = """
        import sys
        FAST = False
        if FAST:
            import flash_attn
        if sys.version_info < (3, 8):
            import backport
        def f(x):
            if not FAST:
                return
            import flash_attn
    """
    assert _findings(judged, text) == []


def test_a_parameter_is_not_the_flag_of_the_same_name(judged: Judged) -> None:
    text = "FAST = False\ndef f(FAST):\n    if FAST:\n        import flash_attn\n"
    assert _findings(judged, text) == ["no module `flash_attn`"]


def test_an_import_for_type_checkers_must_find_its_module_only(judged: Judged) -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pkg.core import Gone\n    import pkg.gone\n"
    assert _findings(judged, text) == ["no module `pkg.gone` (`gone` is not there)"]


def test_compiled_siblings_are_there_where_the_target_says_so(judged: Judged) -> None:
    facts = Facts(packages=frozenset({"torch", "pkg._C"}))
    assert _findings(judged, "import pkg._C\nfrom pkg import _C\nimport pkg._C.ops\n", facts) == []


def test_without_an_inventory_nothing_is_said_about_packages(judged: Judged) -> None:
    assert _findings(judged, "import flash_attn\nimport pkg.gone\n", Facts()) == [
        "no module `pkg.gone` (`gone` is not there)"
    ]


def test_an_import_that_failed_in_the_base_tree_already_is_a_warning(judged: Judged) -> None:
    before = {"pkg/a.py": "def f():\n    import bitsandbytes\n"}
    after = {"pkg/a.py": "import pkg.gone\ndef f(x=1):\n    import bitsandbytes\n"}
    found = judged(after, base=before)
    assert [(d.message.split()[2], d.severity) for d in found] == [
        ("`pkg.gone`", Severity.ERROR),
        ("`bitsandbytes`", Severity.WARNING),
    ]


def test_taking_the_guard_from_an_import_is_the_run_s_own_fault(judged: Judged) -> None:
    before = {"pkg/a.py": "try:\n    import bitsandbytes\nexcept ImportError:\n    pass\n"}
    (found,) = judged({"pkg/a.py": "import bitsandbytes\n"}, base=before)
    assert found.severity is Severity.ERROR


def test_deploying_the_module_makes_its_import_resolve(judged: Judged) -> None:
    registry = {"pkg/registry.py": "from pkg.models import qwen\n", "pkg/models/__init__.py": ""}
    assert [d.code for d in judged(registry, "pkg/registry.py")] == ["E502"]
    assert judged({**registry, "pkg/models/qwen.py": ""}, "pkg/registry.py") == []


@pytest.mark.parametrize(
    ("other", "bound"),
    [
        ("from os import (\n    path as x,  # why\n)\n", True),
        ("import os.path as x\n", True),
        ("from os import path as y, x\n", True),
        ("from os import x as y\n", False),
        ("import os.x\n", False),
        ("\nasync def x(): pass\n", True),
        ("\nx: int = 1\n", True),
        ("\nx: int\n", False),
        ("\nxx = 1\n", False),
        ("y, x = 1, 2\n", True),
        ("def f():\n    from os import x\n", False),
        ("try:\n    from os import x\nexcept ImportError:\n    pass\n", True),
        ("class x(object): pass\n", True),
    ],
)
def test_every_way_of_binding_a_name_makes_it_importable(judged: Judged, other: str, *, bound: bool) -> None:
    files = {"pkg/a.py": "from pkg.b import x\n", "pkg/b.py": "# first line\n" + other}
    assert [d.code for d in judged(files, "pkg/a.py")] == ([] if bound else ["E502"])


def test_compiled_modules_in_the_tree_are_there_with_all_they_hold(judged: Judged) -> None:
    files = {"pkg/a.py": "import pkg._C\nfrom pkg._C.inner import x\nimport pkg._D\n", "pkg/_C.cpython-310.so": ""}
    assert [d.message.split("`")[1] for d in judged(files, "pkg/a.py")] == ["pkg._D"]


def test_a_module_that_enters_others_by_hand_is_believed(judged: Judged) -> None:
    files = {"pkg/a.py": "import pkg.b.path\n", "pkg/b.py": "import sys, os\nsys.modules['pkg.b.path'] = os\n"}
    assert judged(files, "pkg/a.py") == []


CALLED = {
    "import_module": "import importlib\nimportlib.import_module({name})\n",
    "by another name": "from importlib import import_module as load\nload({name})\n",
    "in a function": "import importlib\ndef f():\n    return importlib.import_module(name={name})\n",
    "__import__": "__import__({name})\n",
    "run_module": "import runpy\nrunpy.run_module({name})\n",
}


@pytest.mark.parametrize("text", CALLED.values(), ids=CALLED)
def test_an_import_that_is_a_call_is_one_too(judged: Judged, text: str) -> None:
    files = {"pkg/__init__.py": "", "pkg/there.py": ""}
    assert judged({**files, "pkg/a.py": text.format(name="'pkg.there'")}, "pkg/a.py", code="E502") == []
    (found,) = judged({**files, "pkg/a.py": text.format(name="'pkg.gone'")}, "pkg/a.py", code="E502")
    assert found.message == "no module `pkg.gone` (`gone` is not there)"


@pytest.mark.parametrize("package", ["'pkg'", "__package__"])
def test_a_relative_name_in_a_call_counts_from_its_package(judged: Judged, package: str) -> None:
    text = f"import importlib\nimportlib.import_module('.gone', {package})\n"
    (found,) = judged({"pkg/__init__.py": "", "pkg/a.py": text}, "pkg/a.py", code="E502")
    assert "`pkg.gone`" in found.message


@pytest.mark.parametrize(
    "text",
    [
        "import importlib\nfor n in ('pkg.gone',):\n    importlib.import_module(n)\n",
        "import importlib\ntry:\n    importlib.import_module('pkg.gone')\nexcept ImportError:\n    pass\n",
        "import importlib\nimportlib.import_module('.gone', unknown())\ndef unknown(): ...\n",
        "def import_module(name): ...\nimport_module('pkg.gone')\n",
    ],
)
def test_a_call_whose_module_is_not_known_or_may_be_gone_is_silent(judged: Judged, text: str) -> None:
    assert judged({"pkg/__init__.py": "", "pkg/a.py": text}, "pkg/a.py", code="E502") == []


USES = {
    "an import": "from pkg.ops import op\n",
    "a relative import": "from .ops import op\n",
    "an import in a function": "def f():\n    from pkg.ops import op\n    return op\n",
    "an attribute": "import pkg.ops as ops\ndef f(): return ops.op(1)\n",
    "an attribute by the package": "from pkg import ops\nclass A:\n    run = ops.op\n",
}


@pytest.mark.parametrize("text", USES.values(), ids=USES)
def test_a_name_that_others_still_use_cannot_be_taken_away(judged: Judged, text: str) -> None:
    base = {"pkg/__init__.py": "", "pkg/ops.py": "def op(a): ...\nKEPT = 1\n", "pkg/user.py": text}
    assert judged({**base, "pkg/ops.py": "def op(a, b=0): ...\nKEPT = 1\n"}, "pkg/ops.py", base=base, code="E502") == []
    assert judged({**base, "pkg/ops.py": "op = KEPT = 1\n"}, "pkg/ops.py", base=base, code="E502") == []
    (found,) = judged({**base, "pkg/ops.py": "KEPT = 1\n"}, "pkg/ops.py", base=base, code="E502")
    assert "takes `op` out of pkg/ops.py, and pkg/user.py:" in found.message


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    from pkg.ops import op\nexcept ImportError:\n    op = None\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pkg.ops import op\n",
        "class Other:\n    op = 1\ndef f(): return Other.op\n",
        "from pkg.ops import KEPT as op\n",
    ],
)
def test_a_use_that_cannot_fail_or_is_another_s_is_silent(judged: Judged, text: str) -> None:
    base = {"pkg/__init__.py": "", "pkg/ops.py": "def op(a): ...\nKEPT = 1\n", "pkg/user.py": text}
    assert judged({**base, "pkg/ops.py": "KEPT = 1\n"}, "pkg/ops.py", base=base, code="E502") == []
