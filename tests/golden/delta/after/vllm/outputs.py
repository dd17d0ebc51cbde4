"""Results, as far as the stage meets them."""


class RequestOutput:

    @classmethod
    def from_seq_group(cls, seq_group, delta):
        outputs = []
        for seq in seq_group.get_seqs():
            output_token_ids = seq.get_output_token_ids_to_return(delta)
            num_output_tokens = 1 if isinstance(output_token_ids,
                                                int) else len(output_token_ids)
            output_logprobs = seq.output_logprobs
            if delta:
                if output_logprobs:
                    output_logprobs = output_logprobs[len(output_logprobs) - num_output_tokens:]   # the last ones
            outputs.append((output_token_ids, output_logprobs))
        return cls(outputs)
