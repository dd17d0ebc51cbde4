"""Configuration classes for `model_type` qwen3_5 and qwen3_5_moe, as the public `config.json` files nest their keys.

Deployed to `transformers/models/qwen3_5/`; runs unchanged on Python 3.9 and newer. A `config.json` holds a
`text_config` and, for the models that see, a `vision_config`. The defaults of the text models are the published figures
of Qwen3.6-35B-A3B (experts) and of its dense 27B sibling; a key that has none must stand in the file. All keys become
attributes, those that are not named here as well.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ...configuration_utils import PretrainedConfig  # type: ignore[import-not-found]  # noqa: TID252 - deployed there

FULL, LINEAR = "full_attention", "linear_attention"
COMMON = {
    "vocab_size": 248320,
    "head_dim": 256,
    "max_position_embeddings": 262144,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_output_gate": True,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "use_cache": True,
    "tie_word_embeddings": False,
}
ROPE = {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25}


class _TextConfig(PretrainedConfig):  # type: ignore[misc]  # transformers is there only where this is deployed
    """What both text models have: every `full_attention_interval`-th layer attends, the others are recurrent.

    `layer_types` names the kind of each layer and goes before the interval. `rope_parameters` is the public form of
    the rotary keys; code that reads `rope_theta` and `partial_rotary_factor` finds these taken from it.
    """

    base_config_key = "text_config"
    published: ClassVar[dict[str, Any]] = {}

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - whatever a config.json holds
        keys = {**COMMON, **self.published, **given}
        layers = keys["num_hidden_layers"]
        keys["layer_types"] = layer_types(keys.get("layer_types"), layers, keys["full_attention_interval"])
        keys["rope_parameters"] = rope = dict(keys.get("rope_parameters") or ROPE)
        for key in ("rope_theta", "partial_rotary_factor"):
            keys.setdefault(key, rope.get(key, ROPE[key]))
        if keys.get("dtype") is not None:  # what this release calls torch_dtype
            keys.setdefault("torch_dtype", keys.pop("dtype"))
        super().__init__(**keys)


class Qwen3_5TextConfig(_TextConfig):  # noqa: N801 - the name that the public configuration goes by
    """The dense text model: its feed-forward layer has `intermediate_size` channels."""

    model_type = "qwen3_5_text"
    published: ClassVar[dict[str, Any]] = {
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "num_hidden_layers": 64,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
    }


class Qwen3_5MoeTextConfig(_TextConfig):  # noqa: N801 - the name that the public configuration goes by
    """The text model with experts: `num_experts_per_tok` of `num_experts` for each token, and one that all share."""

    model_type = "qwen3_5_moe_text"
    published: ClassVar[dict[str, Any]] = {
        "hidden_size": 2048,
        "num_hidden_layers": 40,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "linear_num_value_heads": 32,
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
    }


class Qwen3_5VisionConfig(PretrainedConfig):  # type: ignore[misc]  # noqa: N801 - the public name; see above
    """The vision tower: its keys are kept as they are, since nothing here reads them."""

    model_type = "qwen3_5"
    base_config_key = "vision_config"


class Qwen3_5Config(PretrainedConfig):  # type: ignore[misc]  # noqa: N801 - the public name; see above
    """A whole dense model. It has no `vision_config` where the file has none."""

    model_type = "qwen3_5"
    sub_configs: ClassVar[dict[str, type]] = {
        "text_config": Qwen3_5TextConfig,
        "vision_config": Qwen3_5VisionConfig,
    }

    def __init__(self, text_config: Any = None, vision_config: Any = None, **more: Any) -> None:  # noqa: ANN401 - the same
        self.text_config = _made(self.sub_configs["text_config"], text_config or {})
        if vision_config is not None:  # the base class cannot write a part that is None
            self.vision_config = _made(self.sub_configs["vision_config"], vision_config)
        super().__init__(**{"tie_word_embeddings": False, **more})


class Qwen3_5MoeConfig(Qwen3_5Config):  # noqa: N801 - the name that the public configuration goes by
    """A whole model with experts."""

    model_type = "qwen3_5_moe"
    sub_configs: ClassVar[dict[str, type]] = {
        "text_config": Qwen3_5MoeTextConfig,
        "vision_config": Qwen3_5VisionConfig,
    }


def _made(kind: type, given: Any) -> Any:  # noqa: ANN401 - keys, or the configuration made of them
    return kind(**given) if isinstance(given, dict) else given


def layer_types(given: list[str] | None, layers: int, interval: int) -> list[str]:
    """Return the kind of each layer; every `interval`-th attends: of 40 by fours, the ten at 3, 7, … 39.

    Raises ValueError for what is `given` with another number of layers, or with a kind that is not known.
    """
    if not given:
        return [FULL if (layer + 1) % interval == 0 else LINEAR for layer in range(layers)]
    if len(given) != layers:
        raise ValueError(f"`layer_types` names {len(given)} layers, `num_hidden_layers` is {layers}")
    unknown = sorted(set(given) - {FULL, LINEAR})
    if unknown:
        raise ValueError(f"`layer_types` names {unknown[0]!r}; a layer is {FULL!r} or {LINEAR!r}")
    return list(given)


__all__ = [
    "Qwen3_5Config",
    "Qwen3_5MoeConfig",
    "Qwen3_5MoeTextConfig",
    "Qwen3_5TextConfig",
    "Qwen3_5VisionConfig",
]
