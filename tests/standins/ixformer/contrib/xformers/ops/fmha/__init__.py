"""The kernels of memory-efficient attention."""

from __future__ import annotations

from . import attn_bias, flash

__all__ = ["attn_bias", "flash"]
