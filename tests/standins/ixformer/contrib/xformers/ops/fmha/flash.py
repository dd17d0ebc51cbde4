"""The flash kernel, as an argument that names it."""


class FwOp:
    """The forward kernel."""
