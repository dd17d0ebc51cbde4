"""Requests, as far as the stage meets them."""
from dataclasses import dataclass
from typing import Optional


@dataclass
class RequestMetrics:
    """When things happened."""
    arrival_time: float
    finished_time: Optional[float] = None
    num_cached_tokens: Optional[int] = None


class Sequence:
    pass
