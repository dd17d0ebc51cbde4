"""Which configuration class belongs to which `model_type`."""

import importlib
from collections import OrderedDict

CONFIG_MAPPING_NAMES = OrderedDict[str, str](
    [
        ("bert", "BertConfig"),
        ("gpt", "GptConfig"),  # the last one
    ]
)
CONFIG_MAPPING_NAMES["qwen3_5"] = "Qwen3_5Config"
CONFIG_MAPPING_NAMES["qwen3_5_moe"] = "Qwen3_5MoeConfig"
CONFIG_MAPPING_NAMES["qwen3_5_moe_text"] = "Qwen3_5MoeTextConfig"
CONFIG_MAPPING_NAMES["qwen3_5_text"] = "Qwen3_5TextConfig"


MODEL_NAMES_MAPPING = OrderedDict[str, str](
    [
        ("bert", "BERT"),
        ("gpt", "GPT"),
    ]
)
MODEL_NAMES_MAPPING["qwen3_5"] = "Qwen3.5"
MODEL_NAMES_MAPPING["qwen3_5_moe"] = "Qwen3.5 MoE"
MODEL_NAMES_MAPPING["qwen3_5_moe_text"] = "Qwen3.5 MoE text"
MODEL_NAMES_MAPPING["qwen3_5_text"] = "Qwen3.5 text"

SPECIAL_MODEL_TYPE_TO_MODULE_NAME = OrderedDict[str, str]([("gpt-one", "gpt")])
SPECIAL_MODEL_TYPE_TO_MODULE_NAME["qwen3_5_moe"] = "qwen3_5"
SPECIAL_MODEL_TYPE_TO_MODULE_NAME["qwen3_5_moe_text"] = "qwen3_5"
SPECIAL_MODEL_TYPE_TO_MODULE_NAME["qwen3_5_text"] = "qwen3_5"


def config_class(key):
    """Return the class of a type."""
    module = importlib.import_module(f".{SPECIAL_MODEL_TYPE_TO_MODULE_NAME.get(key, key)}", "transformers.models")
    return getattr(module, CONFIG_MAPPING_NAMES[key])
