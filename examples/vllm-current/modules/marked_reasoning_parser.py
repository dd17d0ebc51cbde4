"""Reasoning ends where the model says so in plain text, for models that have no token of their own for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm.entrypoints.generate.base.protocol import DeltaMessage
from vllm.reasoning import ReasoningParser

if TYPE_CHECKING:
    from collections.abc import Sequence

MARK = "\n\nAnswer:"


class MarkedReasoningParser(ReasoningParser):
    """All before the first `MARK` is reasoning, all behind it is the answer; without one, all is reasoning."""

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Tell whether the tokens so far have the mark in them."""
        return MARK in self.model_tokenizer.decode(list(input_ids))

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """Return the tokens behind the mark."""
        for end in range(1, len(input_ids) + 1):
            if self.is_reasoning_end(input_ids[:end]):
                return input_ids[end:]
        return []

    def extract_reasoning(self, model_output: str, request: object) -> tuple[str | None, str | None]:
        """Return (reasoning, answer) of a whole output."""
        reasoning, mark, answer = model_output.partition(MARK)
        return reasoning, (answer if mark else None)

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
    ) -> DeltaMessage | None:
        """Return what a piece of the output adds to the reasoning or to the answer.

        A mark that comes in pieces is kept back until it is clear that it is one.
        """
        before, after = self.certain(previous_text), self.certain(current_text)
        reasoning, answer = after[0][len(before[0]) :], after[1][len(before[1]) :]
        if not reasoning and not answer:
            return None
        return DeltaMessage(reasoning=reasoning or None, content=answer or None)

    @staticmethod
    def certain(text: str) -> tuple[str, str]:
        """Return the reasoning and the answer that are certain in a text that is still being written."""
        reasoning, mark, answer = text.partition(MARK)
        if mark:
            return reasoning, answer
        kept = next((n for n in range(len(MARK) - 1, 0, -1) if text.endswith(MARK[:n])), 0)
        return text[: len(text) - kept], ""
