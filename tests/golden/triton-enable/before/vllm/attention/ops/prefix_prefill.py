def context_attention_fwd(*arguments):
    """Launch the kernel."""
