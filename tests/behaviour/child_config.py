"""The process that asks transformers for configurations: `child_config.py RESULT FOLDER…`, the tree on PYTHONPATH.

It writes one JSON object, folder's name → what the configuration says, or what it raised.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

KEYS = (
    "num_hidden_layers", "layer_types", "head_dim", "num_attention_heads", "num_key_value_heads", "hidden_size",
    "num_experts", "num_experts_per_tok", "vocab_size", "max_position_embeddings", "rope_theta",
    "linear_num_value_heads", "tie_word_embeddings", "intermediate_size", "added_later",
)  # fmt: skip


def said(folder: str) -> dict[str, Any]:
    """Return what AutoConfig makes of a folder: classes, keys of the text model, and whether it survives saving."""
    auto: Any = importlib.import_module("transformers").AutoConfig
    try:
        config = auto.from_pretrained(folder)
    except ValueError as error:
        return {"raised": str(error)}
    text = config.get_text_config()
    with tempfile.TemporaryDirectory() as other:
        config.save_pretrained(other)
        again = auto.from_pretrained(other)
    return {
        "class": type(config).__name__,
        "text_class": type(text).__name__,
        "vision": None if getattr(config, "vision_config", None) is None else config.vision_config.to_dict(),
        "dtype": str(text.torch_dtype),
        "saved": without_path(again) == without_path(config),
        "text": {key: getattr(text, key) for key in KEYS if hasattr(text, key)},
    }


def without_path(config: Any) -> dict[str, Any]:  # noqa: ANN401 - a class of the tree
    return {key: value for key, value in config.to_dict().items() if key != "_name_or_path"}


def main(result: Path, folders: list[str]) -> None:
    """Write what all folders give."""
    module: Any = importlib.import_module("transformers")
    found = {Path(folder).name: said(folder) for folder in folders}
    facts = {"file": module.__file__, "version": module.__version__}
    result.write_text(json.dumps({"facts": facts, **found}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
