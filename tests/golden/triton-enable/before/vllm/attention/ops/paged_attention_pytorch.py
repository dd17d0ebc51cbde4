def prefix_attention(*arguments):
    """Attend in PyTorch."""
