from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.checks.house.inventory import nearest
from orchestrator.checks.view import Facts
from orchestrator.code.signature import read_signature
from orchestrator.core.diagnostics import Severity
from orchestrator.engine.plan import facts_of
from orchestrator.spec.target import load_target
from tests.device.targets import target

if TYPE_CHECKING:
    from orchestrator.core.diagnostics import Diagnostic
    from tests.checks.house.conftest import Judged

MODULE = "ixformer.functions"
NAMES = ("vllm_copy_cache", "vllm_swap_blocks", "rms_norm", "w8a16", "silu_and_mul")
SIGNATURES = {MODULE: {"rms_norm": "(input, weight, out=None, *, eps=1e-6)"}}
FACTS = Facts(
    packages=frozenset({"torch", "ixformer"}),
    vendor_modules={MODULE: NAMES, "ixformer.functions.deep": (), "ixformer.free": ()},
    vendor_signatures=SIGNATURES,
)


def told(judged: Judged, text: str, base: str | None = None) -> list[Diagnostic]:
    files = {"pkg/ops.py": text}
    found = judged(files, base=None if base is None else {"pkg/ops.py": base}, facts=FACTS)
    return [d for d in found if d.code in {"E502", "E507", "E508"}]


def test_an_unknown_symbol_is_refused_with_the_name_that_was_meant(judged: Judged) -> None:
    text = "import ixformer.functions as ixf_F\n\ndef copy(a, b):\n    ixf_F.vllm_copy_blocks(a, b)\n"
    (found,) = told(judged, text)
    assert (found.code, str(found.place)) == ("E508", "pkg/ops.py:4:5")
    assert found.message == "`ixf_F.vllm_copy_blocks`: `ixformer.functions` has no `vllm_copy_blocks`"
    assert found.help.startswith("did you mean 'vllm_copy_cache'?")


def test_the_signature_of_what_was_meant_is_shown(judged: Judged) -> None:
    (found,) = told(judged, "import ixformer.functions as F\nF.rms_nrm\n")
    assert "It is rms_norm(input, weight, out=None, *, eps=1e-6)." in found.help


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("from ixformer import functions as F\nF.gone()", "E508"),
        ("import ixformer\nixformer.functions.gone", "E508"),
        ("import ixformer.functions\nx = [ixformer.functions.gone]", "E508"),
        ("import ixformer.functions as F\ngetattr(F, 'gone')", "E508"),
        ("import ixformer.functions as F\nG = F\nG.gone", "E508"),
        ("def f():\n    import ixformer.functions as F\n    return F.gone", "E508"),
        ("try:\n    import ixformer.functions as F\nexcept ImportError:\n    F = None\nF.gone", "E508"),
        ("import ixformer.functions as F\nif not hasattr(F, 'gone'): F.gone", "E508"),
        ("import ixformer.functions as F\nif hasattr(F, 'rms_norm'): F.gone", "E508"),
        ("import ixformer.functions as F\nif hasattr(F, 'gone') or x: F.gone\nx = 1", "E508"),
        ("import ixformer.functions as F\ntry: F.gone\nexcept KeyError: ...", "E508"),
        ("import torch\nimport ixformer.functions as F\n@torch.no_grad()\ndef f(a=F.gone): ...", "E508"),
        ("import importlib\nF = importlib.import_module('ixformer.functions')\nF.gone", "E508"),
        ("import ixformer.functions as F\nclass A:\n    ops = F\n    def f(self): return self.ops.gone", "E508"),
        ("import ixformer.functions as F\nG, H = F, 1\nG.gone", "E508"),
        ("from ixformer.functions import gone", "E502"),
    ],
)
def test_every_way_to_a_symbol_that_is_not_there_is_found(judged: Judged, text: str, code: str) -> None:
    assert [d.code for d in told(judged, text + "\n")] == [code]


@pytest.mark.parametrize(
    "text",
    [
        "import ixformer.functions as F\nF.rms_norm\nF.__name__\nF.w8a16()",
        "import ixformer.functions as F\nif hasattr(F, 'gone'): F.gone()",
        "import ixformer.functions as F\nif hasattr(F, 'gone') and F.gone(): ...",
        "import ixformer.functions as F\nx = F.gone if hasattr(F, 'gone') else None",
        "import ixformer.functions as F\ndef f():\n    if not hasattr(F, 'gone'): return\n    F.gone()",
        "import ixformer.functions as F\nHAS = hasattr(F, 'gone')\ndef f():\n    if HAS: F.gone()",
        "import ixformer.functions as F\ndef f():\n    has = hasattr(F, 'gone')\n    if has: F.gone()",
        "import ixformer.functions as F\nif getattr(F, 'gone', None) is not None: F.gone()",
        "import ixformer.functions as F\ngetattr(F, 'gone', None)\ngetattr(F, name)\nname = 'x'",
        "import ixformer.functions as F\ntry: F.gone\nexcept AttributeError: ...",
        "import contextlib\nimport ixformer.functions as F\nwith contextlib.suppress(AttributeError): F.gone",
        "import ixformer.functions as F\nF.gone = print\nF.gone()",
        "import ixformer.functions as F\nF.deep.anything",
        "import ixformer.free as F\nF.anything",
        "from ixformer import free\nfree.anything",
        "import ixformer\nixformer.anything",
        "import ixformer.functions as F\ndef f(F): F.gone",
        "import ixformer.functions as F\nclass K:\n    def f(self): return self.F.gone",
        "import sys, ixformer.functions as F\nif sys.version_info < (3, 8): F.gone",
        "try:\n    import ixformer.functions as F\nexcept ImportError:\n    import other as F\nF.gone",
    ],
)
def test_guarded_unlisted_and_other_accesses_are_silent(judged: Judged, text: str) -> None:
    assert [d for d in told(judged, text + "\n") if d.code == "E508"] == []


OLD = "import ixformer.functions as F\n\ndef f(): F.gone()\n\ndef g(): ...\n"


def test_what_other_definitions_of_the_file_do_is_not_judged(judged: Judged) -> None:
    assert told(judged, OLD + "x = 1\n", base=OLD) == []
    (found,) = told(judged, OLD.replace("def g(): ...", "def g(): F.gone_too()"), base=OLD)
    assert (found.severity, found.message.split("`")[1]) == (Severity.ERROR, "F.gone_too")


def test_an_access_that_the_changed_definition_had_before_is_a_warning(judged: Judged) -> None:
    (found,) = told(judged, OLD.replace("F.gone()", "return F.gone()"), base=OLD)
    assert (found.code, found.severity) == ("E508", Severity.WARNING)


@pytest.mark.parametrize(
    ("call", "fits"),
    [("(a, b)", True), ("(a, b, None, eps=1)", True), ("(a)", False), ("(a, b, c, d)", False), ("(a, b, k=1)", False)],
)
def test_calls_bind_to_the_signature_that_the_inventory_has(judged: Judged, call: str, *, fits: bool) -> None:
    found = told(judged, f"import ixformer.functions as F\ndef f(a, b, c, d): F.rms_norm{call}\n")
    assert [d.code for d in found] == ([] if fits else ["E507"])
    assert all("listed in the target's `vendor_modules`" in d.message for d in found)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("vllm_copy_blocks", "vllm_copy_cache"), ("swap_blocks", "vllm_swap_blocks"), ("w8a8", "w8a16"), ("zzz", None)],
)
def test_the_nearest_name_has_the_same_first_words(name: str, meant: str | None) -> None:
    assert nearest(name, NAMES) == meant


def test_the_facts_have_names_and_signatures_of_both_forms_of_the_inventory() -> None:
    text = """\
version: 1
name: t
image: {reference: "img:1", python: "3.10", interpreter: /usr/bin/python3}
base: {supplied: bring it}
roots: {pkg: [/opt/pkg]}
vendor_modules: {v.ops: {norm: '(a, b=None)', rope: null}, v.other: [x], v.free: []}
"""
    facts = facts_of(load_target("t.yaml", text.encode(), lambda _: b""), {})
    assert facts.vendor_modules == {"v.ops": ("norm", "rope"), "v.other": ("x",), "v.free": ()}
    assert facts.vendor_signatures == {"v.ops": {"norm": "(a, b=None)"}}


# --- the signatures that the vendor's target states ---


def of_the_target() -> Facts:
    """Return the facts of the vendor's image."""
    return facts_of(target("bi100"), {})


def test_what_the_stand_in_takes_binds_to_the_signatures_of_the_target() -> None:
    library = Path(__file__).parents[2] / "standins" / "ixformer" / "functions.py"
    own = {n.name: n for n in ast.parse(library.read_bytes()).body if isinstance(n, ast.FunctionDef)}
    stated = of_the_target().vendor_signatures[MODULE]
    assert len(stated) > 5
    for name, text in stated.items():
        parameters = read_signature(text) or ()
        needed = [p for p in parameters if p.kind == "positional" and p.default is None]
        if own[name].args.args:
            assert len(needed) == len(own[name].args.args) - len(own[name].args.defaults), name


@pytest.mark.parametrize(
    ("call", "fits"),
    [
        ("F.rms_norm(x, w, o, 1e-6)", True),
        ("F.rms_norm(x, w, o, 1e-6, True)", True),
        ("F.rms_norm(x, w, epsilon=1e-6)", False),
        ("F.silu_and_mul(x)", False),
        ("F.vllm_copy_cache()", True),
    ],
)
def test_a_call_that_passes_less_than_the_vendor_s_own_is_refused(judged: Judged, call: str, *, fits: bool) -> None:
    text = f"import ixformer.functions as F\nx = w = o = 1\n{call}\n"
    found = judged({"pkg/ops.py": text}, facts=of_the_target(), code="E507")
    assert [d.code for d in found] == ([] if fits else ["E507"])
