"""The sibling, as far as the deployed file needs it."""
MAX_SCORES = 1 << 23
