"""Logits, as far as the stage meets them."""


class LogitsProcessor:

    def forward(self, logits, sampling_metadata):
        # Whatever requests ask for.
        logits = _apply_logits_processors(logits, sampling_metadata)
        return logits


def _apply_logits_processors(logits, sampling_metadata):
    found_logits_processors = False
    for seq_group in sampling_metadata.seq_groups:
        if seq_group.logits_processors:
            found_logits_processors = True   # at least one
    if found_logits_processors:
        logits = logits.clone()
    return logits
