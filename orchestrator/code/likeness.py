"""How alike two files are: equal but for blank space, or by the share of their lines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from orchestrator.core.digest import digest

_SPEAKING = 3
"""A line of at most so many characters, a bracket or `else`, says nothing about where it comes from."""


@dataclass(frozen=True)
class Body:
    """The content of a file, to compare it with others."""

    content: bytes

    @cached_property
    def digest(self) -> str:
        """The digest of the content without its blank space, so that line ends and indentation do not count."""
        return digest(b" ".join(self.content.split()))

    @cached_property
    def lines(self) -> frozenset[bytes]:
        """The lines that say something, without the space around them."""
        return frozenset(line for line in map(bytes.strip, self.content.split(b"\n")) if len(line) > _SPEAKING)

    def likeness(self, other: Body) -> float:
        """Return the share of lines that two files have in common, of all that either has: 0 to 1."""
        fewer, more = sorted((len(self.lines), len(other.lines)))
        if not fewer:
            return 0.0
        common = len(self.lines & other.lines)
        return common / (fewer + more - common)
