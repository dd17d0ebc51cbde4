"""Prefill over pages, as far as the stage meets it."""
import torch
import triton
import triton.language as tl

from vllm.platforms import current_platform

if triton.__version__ >= "2.1.0":

    @triton.jit
    def _fwd_kernel(Q, K, Out, BLOCK_M: tl.constexpr, BLOCK_DMODEL: tl.constexpr,
                    BLOCK_N: tl.constexpr):
        return

    def other(q):
        BLOCK = 128 if current_platform.has_device_capability(80) else 64
        NUM_WARPS = 8
        return BLOCK, NUM_WARPS

    @torch.inference_mode()
    def context_attention_fwd(q,
                              k,
                              o):

        BLOCK = 128 if current_platform.has_device_capability(80) else 64
        NUM_WARPS = 8  # as many as the wide tile wants

        # half of it for wide elements
        if q.dtype is torch.float32:
            BLOCK = BLOCK // 2

        Lk = k.shape[-1]
        grid = (q.shape[0], triton.cdiv(q.shape[1], BLOCK))
        _fwd_kernel[grid](
            q,
            k,
            o,
            BLOCK_M=BLOCK,
            BLOCK_DMODEL=Lk,
            BLOCK_N=BLOCK,
            num_warps=NUM_WARPS,
            num_stages=1,
        )
        return
