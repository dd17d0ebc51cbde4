"""The vendor's flash attention: importable here, not computed."""

from __future__ import annotations

from typing import NoReturn


def flash_attn_varlen_func(*_: object, **__: object) -> NoReturn:
    """Attention of prompts of several lengths."""
    raise RuntimeError("the stand-in computes no flash attention")


def flash_attn_with_kvcache(*_: object, **__: object) -> NoReturn:
    """Attention over a paged cache."""
    raise RuntimeError("the stand-in computes no flash attention")
