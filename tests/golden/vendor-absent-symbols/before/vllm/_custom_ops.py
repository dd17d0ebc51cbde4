"""Operators, as far as the stage meets them."""
import ixformer.functions as ixf_F
import torch


def silu_and_mul(out: torch.Tensor, x: torch.Tensor) -> None:
    ixf_F.silu_and_mul(x, out)


def gelu_tanh_and_mul(out: torch.Tensor, x: torch.Tensor) -> None:
    ixf_F.gelu_tanh_and_mul(x, out)


def batched_rotary_embedding(positions, query, key, offsets) -> None:
    ixf_F.vllm_batched_rotary_embedding(positions, query, key,
                                        offsets)


def advance_step_flashattn(num_seqs: int, block_tables: torch.Tensor) -> None:
    """One step."""
    return ixf_F.advance_step_flashattn(num_seqs, block_tables)


def cutlass_scaled_mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty((a.shape[0], b.shape[1]))
    ixf_F.w8a8(a, b.transpose(0,1), output=out)

    return out


def scaled_int8_quant(input: torch.Tensor, scale=None):
    output = torch.empty_like(input, dtype=torch.int8)
    if scale is not None:
        # The same for all.
        ixf_F.static_scaled_int8_quant(output, input, scale)
        return output, scale

    # One a token.
    input_scales = torch.empty((input.numel() // input.shape[-1], 1))
    ixf_F.dynamic_scaled_int8_quant(output, input, input_scales)
    return output, input_scales


def moe_align_block_size(topk_ids: torch.Tensor, num_experts: int) -> None:
    ixf_F.vllm_moe_align_block_size(topk_ids, num_experts)


def invoke_fused_moe_kernel(a, b, c, config) -> None:
    ixf_F.vllm_invoke_fused_moe_kernel(
        a,
        b,
        c,
        config['BLOCK_SIZE_M']   # rows
    )


def topk_softmax(topk_weights, topk_ids) -> None:
    ixf_F.vllm_moe_topk_softmax(topk_weights, topk_ids)


def reshape_and_cache_flash(key, value, key_cache, value_cache) -> None:
    ixf_F.reshape_and_cache_flash(key, value, key_cache, value_cache)

def reshape_and_cache_flashinfer(key, value, key_cache, value_cache) -> None:
    ixf_F.paged_attention_cache_appended(key, value, key_cache, value_cache)
