"""What a form is: a way to write a change down once, so that it can be applied to a file later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Refused:
    """The form did not apply and said so; `why` in a word."""

    why: str


Result = bytes | Refused
"""The file afterwards, or that it was refused. A form that ends well with the file unchanged is silent."""
Written = Callable[[bytes], Result]
