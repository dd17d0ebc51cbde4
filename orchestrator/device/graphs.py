"""CUDA graphs of decode: which batches are captured, and which lengths they cover.

Source: `_BATCH_SIZES_TO_CAPTURE`, `_get_graph_batch_size` and `_use_captured_graph` of `vllm/worker/model_runner.py`
0.6.3. A captured graph keeps its intermediate tensors for good, and the engine takes that memory after it has sized the
KV cache: out of the reserve. How much it is depends on the model's kernels and has to be measured.
"""

from __future__ import annotations

from dataclasses import dataclass

ALIGNMENT = 8  # above 4, batches are padded to multiples of this
LARGEST_BATCH = 1024 * ALIGNMENT


@dataclass(frozen=True)
class Capture:
    """What is captured: batch sizes, and the longest sequence that a graph serves."""

    batches: tuple[int, ...]
    longest_tokens: int

    def covers(self, batch: int, tokens: int) -> bool:
        """Tell whether a decode step of this batch, its longest sequence of this length, runs from a graph."""
        return 0 < batch <= LARGEST_BATCH and padded_batch(batch) in self.batches and tokens <= self.longest_tokens


def padded_batch(batch: int) -> int:
    """Return the captured batch that serves a batch: 1, 2, 4, then multiples of 8."""
    small = next((size for size in (1, 2, 4) if batch <= size), None)
    return small or -(-batch // ALIGNMENT) * ALIGNMENT


def capture(max_num_seqs: int, max_seq_len_to_capture: int, max_model_len: int) -> Capture:
    """Return what the engine captures: batches up to `max_num_seqs` padded, lengths up to the smaller limit."""
    largest = min(padded_batch(max_num_seqs), LARGEST_BATCH)
    sizes = (1, 2, 4, *range(ALIGNMENT, largest + 1, ALIGNMENT))
    return Capture(tuple(size for size in sizes if size <= largest), min(max_seq_len_to_capture, max_model_len))
