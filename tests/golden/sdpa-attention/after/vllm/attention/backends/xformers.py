"""The backend, as far as the stage meets it."""
import torch

from vllm.attention.backends.abstract import AttentionType
from vllm.attention.ops.sdpa_attention import sdpa_attention


class XFormersImpl:

    def forward(self, query, key, value, kv_cache, attn_metadata,
                attn_type=AttentionType.DECODER) -> torch.Tensor:
        """Attend.   

        Tokens are flat.
        """
        if kv_cache is None:
            kv_cache = query.new_empty(0)
        if attn_metadata is None:
            out = sdpa_attention(
                query.view(-1, self.num_heads, self.head_size),
                key.view(-1, self.num_kv_heads, self.head_size),
                value.view(-1, self.num_kv_heads, self.head_size),
                [query.shape[0]],
                scale=self.scale,
                sliding_window=self.sliding_window,
                alibi_slopes=self.alibi_slopes)
            return out.view(-1, self.num_heads * self.head_size)
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
        if self.head_size > 128:
            causal = attn_type == AttentionType.DECODER
            return sdpa_attention(
                query,
                key,
                value,
                (attn_metadata.encoder_seq_lens if attn_type
                 == AttentionType.ENCODER else attn_metadata.seq_lens),
                None if causal else attn_metadata.encoder_seq_lens,
                scale=self.scale,
                causal=causal,
                sliding_window=self.sliding_window,
                alibi_slopes=self.alibi_slopes)

        original_query = query
        return self.kernel(query, key, value).view_as(original_query)
