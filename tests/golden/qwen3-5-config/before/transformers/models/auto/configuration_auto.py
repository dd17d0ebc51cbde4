"""Which configuration class belongs to which `model_type`."""

import importlib
from collections import OrderedDict

CONFIG_MAPPING_NAMES = OrderedDict[str, str](
    [
        ("bert", "BertConfig"),
        ("gpt", "GptConfig"),  # the last one
    ]
)


MODEL_NAMES_MAPPING = OrderedDict[str, str](
    [
        ("bert", "BERT"),
        ("gpt", "GPT"),
    ]
)

SPECIAL_MODEL_TYPE_TO_MODULE_NAME = OrderedDict[str, str]([("gpt-one", "gpt")])


def config_class(key):
    """Return the class of a type."""
    module = importlib.import_module(f".{SPECIAL_MODEL_TYPE_TO_MODULE_NAME.get(key, key)}", "transformers.models")
    return getattr(module, CONFIG_MAPPING_NAMES[key])
