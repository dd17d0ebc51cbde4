"""Bytes in flight: what one multiprocessor must have under way to use its share of the memory's bandwidth.

Little's law: bytes in flight = bandwidth · latency. So a number of bytes in flight covers a latency of
`bytes / bandwidth`; where the device's latency is longer, the bandwidth is not reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.device.quantity import Quantity, derive, figure

if TYPE_CHECKING:
    from orchestrator.device.quantity import Figures

NANOSECONDS_PER_SECOND = 10**9


def bandwidth_per_sm_bytes_per_s(figures: Figures) -> Quantity:
    """Return one multiprocessor's share of the memory's specified bandwidth, bytes a second."""
    bandwidth = figure(figures, "device.memory_bandwidth_bytes_per_s")
    return derive(lambda bandwidth, sms: bandwidth / sms, bandwidth, figure(figures, "device.sm_count"))


def latency_covered_ns(figures: Figures, bytes_in_flight: int) -> Quantity:
    """Return the latency that this many bytes in flight on one multiprocessor cover, nanoseconds."""
    if bytes_in_flight < 0:
        raise ValueError("bytes in flight are at least 0")
    per_sm = bandwidth_per_sm_bytes_per_s(figures)
    return derive(lambda share: bytes_in_flight / share * NANOSECONDS_PER_SECOND, per_sm)


def bytes_in_flight_for(figures: Figures, latency_ns: float) -> Quantity:
    """Return the bytes that one multiprocessor must have in flight to cover a latency of `latency_ns`."""
    if latency_ns < 0:
        raise ValueError("a latency is at least 0")
    return derive(lambda share: share * latency_ns / NANOSECONDS_PER_SECOND, bandwidth_per_sm_bytes_per_s(figures))
