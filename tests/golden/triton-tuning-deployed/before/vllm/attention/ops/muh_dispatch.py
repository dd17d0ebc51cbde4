"""Has the names of the table, and no rows."""

DEVICES = {}
LEAST_TILE = 16


class DecodeConfig:
    """A row."""


class PrefillConfig:
    """A row."""


def padded(head_size):
    return head_size


def device_of(name, shared_bytes):
    return name


def decode_config(device, dtype, head_size, group):
    raise LookupError(device)


def prefill_config(device, dtype, head_size):
    raise LookupError(device)
