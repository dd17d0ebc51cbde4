def prefix_attention(*arguments):
    """Attend in PyTorch."""


def long_decode_attention(*arguments):
    """Decode in PyTorch."""
