"""Sequences, as far as the stage meets them."""


class Sequence:

    def get_output_token_ids_to_return(self, delta):
        """New tokens alone, if `delta`."""
        if not delta:
            return self.get_output_token_ids()

        output_len = self.get_output_len()
        num_new_tokens = output_len - self._last_output_token_ids_offset
        self._last_output_token_ids_offset = output_len

        # The usual case.
        if num_new_tokens == 1:
            return self.data._cached_all_token_ids[-1]

        if num_new_tokens == 0:
            return []
        return self.data._cached_all_token_ids[-num_new_tokens:]
