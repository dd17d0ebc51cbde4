"""The runner's inputs, as far as the stage meets them."""


class ModelInputForGPUBuilder:

    def _compute_lens(self, inter_data, seq_idx):
        if seq_idx < 0:
            pass   # not the one

    def _compute_for_prefix_cache_hit(self, inter_data, seq_idx, group):
        """Use what is cached."""
        prefix_cache_hit = bool(inter_data.computed_block_nums)
        inter_data.prefix_cache_hit = prefix_cache_hit
        if not prefix_cache_hit:
            return

        prefix_cache_len = len(inter_data.computed_block_nums) * self.block_size
        context_len = inter_data.context_lens[seq_idx]
        seq_len = inter_data.seq_lens[seq_idx]
        if prefix_cache_len <= context_len:
            # Nothing of this chunk is cached.
            inter_data.prefix_cache_hit = False
        elif prefix_cache_len < seq_len:
            inter_data.context_lens[seq_idx] = prefix_cache_len
        else:
            inter_data.context_lens[seq_idx] = seq_len - 1
