"""Registry-like tables: entries that a run brings resolve by the convention of the entries that were there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from orchestrator.core.diagnostics import Diagnostic
    from tests.checks.house.conftest import Judged

REGISTRY = """\
import importlib
_MODELS = {
    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
    "GemmaForCausalLM": ("gemma", "GemmaForCausalLM"),
    "OptForCausalLM": ("opt", "OPTForCausalLM"),
}
"""
BASE = {
    "pkg/__init__.py": "",
    "pkg/models/__init__.py": "",
    "pkg/models/registry.py": REGISTRY,
    "pkg/models/llama.py": "class LlamaForCausalLM: pass\n",
    "pkg/models/gemma.py": "class GemmaForCausalLM(object):\n    pass\n",
    "pkg/models/opt.py": "class OPTForCausalLM: pass\n",
}


def _found(judged: Judged, old: str, new: str, more: dict[str, str] | None = None) -> list[Diagnostic]:
    base = {**BASE, "pkg/models/registry.py": old}
    return judged(
        {**base, "pkg/models/registry.py": new, **(more or {})}, "pkg/models/registry.py", base=base, code="E514"
    )


ENTRY = '("qwen3_5", "Qwen3_5MoeForCausalLM")'
SPELLINGS = [
    REGISTRY.replace("}", f'    "Qwen": {ENTRY},\n}}'),
    f'{REGISTRY}_MODELS["Qwen"] = {ENTRY}\n',
    f'{REGISTRY}_MODELS.update({{"Qwen": {ENTRY}}})\n',
    f'{REGISTRY}_MODELS |= {{"Qwen": {ENTRY}}}\n',
    f'{REGISTRY}if True:\n    _MODELS["Qwen"] = ["qwen3_5", "Qwen3_5MoeForCausalLM"]\n',
    REGISTRY.replace('("opt", "OPTForCausalLM")', ENTRY),
]


@pytest.mark.parametrize("text", SPELLINGS)
def test_an_entry_without_its_module_is_refused_however_it_is_written(judged: Judged, text: str) -> None:
    (found,) = _found(judged, REGISTRY, text)
    assert "names the module `pkg.models.qwen3_5`, and there is no pkg/models/qwen3_5.py" in found.message
    module = {"pkg/models/qwen3_5.py": "class Qwen3_5MoeForCausalLM: pass\n"}
    assert _found(judged, REGISTRY, text, module) == []
    (found,) = _found(judged, REGISTRY, text, {"pkg/models/qwen3_5.py": "class Other: pass\n"})
    assert "names `Qwen3_5MoeForCausalLM`, which `pkg.models.qwen3_5` does not define" in found.message


def test_what_was_in_the_table_before_is_not_judged(judged: Judged) -> None:
    broken = REGISTRY.replace('"opt", ', '"gone", ').replace("}", '    "X": ("llama", "LlamaForCausalLM"),\n}')
    many = broken.replace("}", '    "Y": ("gemma", "GemmaForCausalLM"),\n    "Z": ("llama", "LlamaForCausalLM"),\n}')
    assert _found(judged, many, many + "# a comment\n") == []
    assert len(_found(judged, many, f'{many}_MODELS["Q"] = {ENTRY}\n')) == 1


@pytest.mark.parametrize(
    "table",
    [
        '_T = {"a": ("red", "Apple"), "b": ("green", "Pear"), "c": ("blue", "Plum")}\n',
        '_T = {"a": ("llama", "LlamaForCausalLM"), "b": ("green", "Pear"), "c": ("blue", "Plum")}\n',
        "_T = {}\n",
    ],
)
def test_a_table_without_a_convention_is_no_registry(judged: Judged, table: str) -> None:
    assert _found(judged, table, f'{table}_T["d"] = ("black", "Berry")\n') == []


@pytest.mark.parametrize(
    ("old", "good", "bad"),
    [
        ('"pkg.models.llama:LlamaForCausalLM"', '"pkg.models.opt:OPTForCausalLM"', '"pkg.models.opt:Opt"'),
        ('".llama:LlamaForCausalLM"', '".opt:OPTForCausalLM"', '".opts:OPTForCausalLM"'),
        ('"pkg.models.llama.LlamaForCausalLM"', '"pkg.models.opt.OPTForCausalLM"', '"pkg.models.opt.Opt"'),
        (
            '("pkg.models.llama", "LlamaForCausalLM")',
            '("pkg.models.opt", "OPTForCausalLM")',
            '("opt", "OPTForCausalLM")',
        ),
    ],
)
def test_the_convention_is_that_of_the_entries(judged: Judged, old: str, good: str, bad: str) -> None:
    table = f'TABLE = {{"a": {old}, "b": {old.replace("llama", "gemma").replace("Llama", "Gemma")}}}\n'
    assert _found(judged, table, f'{table}TABLE["c"] = {good}\n') == []
    assert len(_found(judged, table, f'{table}TABLE["c"] = {bad}\n')) == 1


AUTO = """\
from collections import OrderedDict
CONFIGS = OrderedDict([("llama", "LlamaConfig"), ("gemma-two", "GemmaConfig"), ("opt", "OptConfig")])
WHERE = OrderedDict([("opt-text", "opt")])
"""
LAZY = "import sys\nfrom x import Lazy\nsys.modules[__name__] = Lazy(__name__)\n"


def test_a_key_may_be_the_name_of_the_package_that_defines_the_class(judged: Judged) -> None:
    base = {"pkg/__init__.py": "", "pkg/models/__init__.py": "", "pkg/models/auto/__init__.py": ""}
    for name, title in (("llama", "Llama"), ("gemma_two", "Gemma"), ("opt", "Opt")):
        base[f"pkg/models/{name}/__init__.py"] = LAZY
        base[f"pkg/models/{name}/configuration_{name}.py"] = f"class {title}Config: pass\n"
    base["pkg/models/auto/configuration_auto.py"] = AUTO

    def found(more: str) -> list[str]:
        files = {**base, "pkg/models/auto/configuration_auto.py": AUTO + more}
        here = judged(files, "pkg/models/auto/configuration_auto.py", base=base, code="E514")
        return [d.message for d in here]

    assert found('CONFIGS["opt-text"] = "OptConfig"\n') == []
    (message,) = found('CONFIGS["qwen3_5"] = "Qwen3_5Config"\n')
    assert "names the module `pkg.models.qwen3_5`" in message
    (message,) = found('CONFIGS["opt"] = "OptTextConfig"\n')
    assert "names `OptTextConfig`, which `pkg.models.opt` does not define" in message


WRITTEN = {
    "a spread": 'MODELS = {{"Old": ("old", "Old"), "Two": ("two", "Two"), **{{"New": {0}}}}}\n',
    "keywords": 'MODELS = dict(Old=("old", "Old"), Two=("two", "Two"), New={0})\n',
    "a union": 'MODELS = {{"Old": ("old", "Old"), "Two": ("two", "Two")}} | {{"New": {0}}}\n',
    "setdefault": 'MODELS = {{"Old": ("old", "Old"), "Two": ("two", "Two")}}\nMODELS.setdefault("New", {0})\n',
    "update by keywords": 'MODELS = {{"Old": ("old", "Old"), "Two": ("two", "Two")}}\nMODELS.update(New={0})\n',
    "in a function": 'MODELS = {{"Old": ("old", "Old"), "Two": ("two", "Two")}}\ndef add():\n    MODELS["New"] = {0}\n',
}
TABLE = 'MODELS = {"Old": ("old", "Old"), "Two": ("two", "Two")}\n'
THERE = {
    "pkg/__init__.py": "",
    "pkg/models/__init__.py": "",
    "pkg/models/old.py": "class Old: ...\n",
    "pkg/models/two.py": "class Two: ...\n",
    "pkg/models/registry.py": TABLE,
}


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_every_way_to_write_an_entry_is_read(judged: Judged, text: str) -> None:
    where = "pkg/models/registry.py"
    assert judged({**THERE, where: text.format('("two", "Two")')}, where, base=THERE, code="E514") == []
    (found,) = judged({**THERE, where: text.format('("new", "New")')}, where, base=THERE, code="E514")
    assert "pkg.models.new" in found.message


ADDED = {
    "by its name": 'from pkg.models.registry import MODELS\nMODELS["New"] = {0}\n',
    "by another name": "from pkg.models.registry import MODELS as table\ntable.update(New={0})\n",
    "by its module": 'from pkg.models import registry\nregistry.MODELS["New"] = {0}\n',
    "by its module's full name": 'import pkg.models.registry\npkg.models.registry.MODELS |= {{"New": {0}}}\n',
    "in a function": 'from .models import registry\ndef add():\n    registry.MODELS.setdefault("New", {0})\n',
}


@pytest.mark.parametrize("text", ADDED.values(), ids=ADDED)
def test_an_entry_that_another_file_adds_is_one_of_the_table(judged: Judged, text: str) -> None:
    base = {**THERE, "pkg/plugins.py": ""}
    good, bad = ({**base, "pkg/plugins.py": text.format(value)} for value in ('("two", "Two")', '("new", "New")'))
    assert judged(good, "pkg/plugins.py", base=base, code="E514") == []
    (found,) = judged(bad, "pkg/plugins.py", base=base, code="E514")
    assert "pkg.models.new" in found.message
