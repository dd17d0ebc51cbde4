"""Job 4 with the real transformers: a folder with a `config.json` of the family is understood, once patched."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.behaviour import trees

if TYPE_CHECKING:
    from collections.abc import Mapping

CHILD = Path(__file__).parent / "child_config.py"
LAYERS = ["full_attention" if layer % 4 == 3 else "linear_attention" for layer in range(40)]
ROPE = {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10]}
EXPERTS = {
    "model_type": "qwen3_5_moe_text",
    "dtype": "bfloat16",
    "num_hidden_layers": 40,
    "layer_types": LAYERS,
    "head_dim": 256,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "vocab_size": 248320,
    "max_position_embeddings": 262144,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "rope_parameters": ROPE,
}
DENSE = {
    "model_type": "qwen3_5_text",
    "num_hidden_layers": 8,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "linear_num_value_heads": 6,
    "tie_word_embeddings": True,
    "added_later": "kept",
}
CONFIGS: dict[str, dict[str, Any]] = {
    "experts": {
        "model_type": "qwen3_5_moe",
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "text_config": EXPERTS,
        "vision_config": {"model_type": "qwen3_5_moe", "depth": 27},
        "image_token_id": 248056,
    },
    "dense": {"model_type": "qwen3_5", "text_config": DENSE},
    "experts, text alone": EXPERTS,
    "dense, text alone": DENSE,
    "experts, nothing said": {"model_type": "qwen3_5_moe"},
    "layers that do not add up": {
        "model_type": "qwen3_5_moe",
        "text_config": {"layer_types": ["full_attention"], "num_hidden_layers": 2},
    },
    "a layer of no known kind": {
        "model_type": "qwen3_5_moe",
        "text_config": {"layer_types": ["windowed"], "num_hidden_layers": 1},
    },
}
FIGURES = {
    "model.layers": "num_hidden_layers",
    "model.head_dim": "head_dim",
    "model.query_heads": "num_attention_heads",
    "model.kv_heads": "num_key_value_heads",
    "model.hidden": "hidden_size",
    "model.experts": "num_experts",
    "model.experts_per_token": "num_experts_per_tok",
    "model.vocabulary": "vocab_size",
    "model.max_positions": "max_position_embeddings",
}
KNOWN = [name for name in CONFIGS if "layer" not in name]


@cache
def folders(top: Path) -> tuple[Path, ...]:
    for name, content in CONFIGS.items():
        (top / name).mkdir(parents=True)
        (top / name / "config.json").write_text(json.dumps(content), encoding="utf-8")
    return tuple(top / name for name in CONFIGS)


def asked(tree: Path, scratch: Path) -> dict[str, Any]:
    """Ask the transformers that a process finds with `tree` on its path."""
    result = scratch / "result.json"
    done = subprocess.run(
        [trees.interpreter(), CHILD, result, *folders(scratch / "configs")],
        env=trees.environment(tree, HF_HUB_OFFLINE="1"),
        cwd=scratch,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    assert found["facts"]["version"] == "4.55.3"
    return found


@pytest.fixture(scope="session")
def on_patched_package(patched: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """The package that the wheel brings, with the stage's edits."""
    found = asked(patched, tmp_path_factory.mktemp("config-patched"))
    assert found["facts"]["file"].startswith(str(patched)), "another transformers than the tree's was imported"
    return found


@pytest.fixture(scope="session")
def on_the_wheel(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """The package exactly as the wheel has it."""
    made = trees.default().run
    original = {path: raw for path, raw in made.installed.items() if path.startswith("transformers/")}
    tree = trees.write(original, tmp_path_factory.mktemp("wheel"))
    found = asked(tree, tmp_path_factory.mktemp("config-wheel"))
    assert found["facts"]["file"].startswith(str(tree))
    return found


@pytest.mark.parametrize("name", CONFIGS)
def test_as_the_wheel_has_it_no_such_type_is_known(name: str, on_the_wheel: Mapping[str, Any]) -> None:
    assert "does not recognize this architecture" in on_the_wheel[name]["raised"]


@pytest.mark.parametrize("name", KNOWN)
def test_a_folder_of_each_type_is_understood_and_survives_saving(
    name: str, on_patched_package: Mapping[str, Any]
) -> None:
    found = on_patched_package[name]
    kind = "Moe" if "experts" in name else ""
    assert found["text_class"] == f"Qwen3_5{kind}TextConfig"
    assert found["class"] == (found["text_class"] if "alone" in name else f"Qwen3_5{kind}Config")
    assert found["saved"]


@pytest.mark.parametrize("name", ["experts", "experts, text alone", "experts, nothing said"])
def test_the_model_of_the_image_has_its_published_figures(name: str, on_patched_package: Mapping[str, Any]) -> None:
    text = on_patched_package[name]["text"]
    assert text["layer_types"] == LAYERS
    assert [i for i, kind in enumerate(text["layer_types"]) if kind == "full_attention"] == list(range(3, 40, 4))
    figures = {key: text[key] for key in EXPERTS if key in text}
    assert figures == {key: value for key, value in EXPERTS.items() if key in text}
    assert text["rope_theta"] == ROPE["rope_theta"]


def test_the_defaults_are_the_figures_of_the_target(on_patched_package: Mapping[str, Any]) -> None:
    text = on_patched_package["experts, nothing said"]["text"]
    values = trees.default().plan.values
    assert {figure: text[key] for figure, key in FIGURES.items()} == {key: values[key] for key in FIGURES}
    assert text["layer_types"].count("full_attention") == values["model.attention_layers"]


def test_what_the_file_says_goes_before_every_default(on_patched_package: Mapping[str, Any]) -> None:
    text = on_patched_package["dense"]["text"]
    assert {key: text[key] for key in DENSE if key in text} == {k: v for k, v in DENSE.items() if k != "model_type"}
    assert text["layer_types"] == ["linear_attention"] * 3 + ["full_attention"] + ["linear_attention"] * 3 + [
        "full_attention"
    ]


def test_the_type_of_the_weights_is_read_in_both_spellings(on_patched_package: Mapping[str, Any]) -> None:
    assert on_patched_package["experts"]["dtype"] == "torch.bfloat16"


def test_the_vision_part_is_kept_and_may_be_absent(on_patched_package: Mapping[str, Any]) -> None:
    assert on_patched_package["experts"]["vision"]["depth"] == 27
    assert on_patched_package["dense"]["vision"] is None


def test_layers_that_contradict_each_other_are_refused(on_patched_package: Mapping[str, Any]) -> None:
    assert "names 1 layers" in on_patched_package["layers that do not add up"]["raised"]
    assert "'windowed'" in on_patched_package["a layer of no known kind"]["raised"]
