class Qwen3_5ForCausalLM:
    """The user's model."""


class Qwen3_5MoeForCausalLM:
    """The same, with experts."""
