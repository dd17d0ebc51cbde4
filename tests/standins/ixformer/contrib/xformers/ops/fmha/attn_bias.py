"""Masks: those of xformers, under the vendor's path."""

from xformers.ops.fmha.attn_bias import (  # type: ignore[import-not-found]  # only where behaviour is tested
    BlockDiagonalCausalMask,
    LowerTriangularMaskWithTensorBias,
)

__all__ = ["BlockDiagonalCausalMask", "LowerTriangularMaskWithTensorBias"]
