"""The backend, as far as the stage meets it."""
import torch

from vllm.attention.backends.abstract import AttentionType


class XFormersImpl:

    def forward(self, query, key, value, kv_cache, attn_metadata,
                attn_type=AttentionType.DECODER) -> torch.Tensor:
        """Attend.   

        Tokens are flat.
        """
        # Heads apart.
        query = query.view(-1, self.num_heads, self.head_size)
        key = key.view(-1, self.num_kv_heads, self.head_size)
        value = value.view(-1, self.num_kv_heads, self.head_size)
        if kv_cache.numel() > 0:
            self.write(key, value, kv_cache)
        output = torch.empty_like(query)
        prefill_meta = attn_metadata.prefill_metadata
        out = self._run_memory_efficient_xformers_forward(
            query, key, value, prefill_meta, attn_type=attn_type)
        output[:len(out)] = out
        return output.view(-1, self.num_heads * self.head_size)

    def _run_memory_efficient_xformers_forward(
            self,
            query: torch.Tensor,
            key: torch.Tensor,
            value: torch.Tensor,
            attn_metadata,
            attn_type=AttentionType.DECODER) -> torch.Tensor:
        """Attend without a cache."""

        original_query = query
        return self.kernel(query, key, value).view_as(original_query)
