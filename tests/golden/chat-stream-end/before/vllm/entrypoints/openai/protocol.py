"""What travels, as far as the stage meets it."""


class DeltaMessage:
    content = None
