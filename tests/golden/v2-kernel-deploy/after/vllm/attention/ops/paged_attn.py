import torch

from vllm import _custom_ops as ops

PARTITION = 512


class PagedAttention:

    @staticmethod
    def forward_decode(query, max_seq_len, **more):
        output = torch.empty_like(query)
        num_seqs, num_heads, _ = query.shape
        partitions = -(-max_seq_len // PARTITION)
        # One partition needs no reduction.
        use_v1 = max_seq_len <= 8192
        if use_v1:
            ops.paged_attention_v1(output, query)
        else:
            sums = torch.empty(num_seqs, num_heads, partitions)
            ops.paged_attention_v2(output, sums, sums, output, query, **more)
        return output
