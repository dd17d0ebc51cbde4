"""Configuration of the Qwen3.5 family, whose models are Qwen3.5 and Qwen3.6. Deployed to `transformers/models/`."""

from .configuration_qwen3_5 import (
    Qwen3_5Config,
    Qwen3_5MoeConfig,
    Qwen3_5MoeTextConfig,
    Qwen3_5TextConfig,
    Qwen3_5VisionConfig,
)

__all__ = [
    "Qwen3_5Config",
    "Qwen3_5MoeConfig",
    "Qwen3_5MoeTextConfig",
    "Qwen3_5TextConfig",
    "Qwen3_5VisionConfig",
]
