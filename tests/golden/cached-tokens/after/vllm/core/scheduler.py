"""The scheduler, as far as the stage meets it."""


class Scheduler:

    def schedule(self):
        if not self.cache_config.enable_prefix_caching:
            common_computed_block_nums = []

        found = []
        for seq_group in self.running:
            if self.cache_config.enable_prefix_caching:
                common_computed_block_nums = (
                    self.block_manager.get_common_computed_block_ids(
                        seq_group.get_seqs(status="running")))
                if seq_group.metrics.num_cached_tokens is None:
                    seq_group.metrics.num_cached_tokens = (
                        len(common_computed_block_nums) *
                        self.cache_config.block_size)

            # What the workers get.
            found.append((seq_group, common_computed_block_nums))
        return found
