from vllm.triton_utils import HAS_TRITON

if HAS_TRITON:
    from vllm.attention.ops.prefix_prefill import context_attention_fwd


def forward_prefix(*arguments):
    context_attention_fwd(*arguments)
