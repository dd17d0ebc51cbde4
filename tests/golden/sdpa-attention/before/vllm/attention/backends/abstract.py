"""Kinds of attention."""


class AttentionType:
    DECODER = 1
    ENCODER = 2
