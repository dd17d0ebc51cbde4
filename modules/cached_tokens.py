"""How many prompt tokens came from the prefix cache, as `usage.prompt_tokens_details` of an OpenAI answer says it.

Deployed to `vllm/entrypoints/openai/`. The scheduler writes the number into each request's metrics; here it is only
added up and shown. The file runs unchanged on Python 3.8 and newer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

if TYPE_CHECKING:
    from vllm.outputs import RequestOutput  # type: ignore[import-not-found]  # only where it is deployed


class PromptTokensDetails(BaseModel):
    """What is known about the tokens of the prompt."""

    cached_tokens: int


class CachedTokens:
    """Collects the results of one answer, which may have several prompts, each of them in many results."""

    def __init__(self, *results: RequestOutput) -> None:
        self._of_request: dict[str, int] = {}
        for result in results:
            self.note(result)

    def note(self, result: RequestOutput) -> None:
        """Remember what a result says; a later one of the same request replaces it."""
        count = None if result.metrics is None else result.metrics.num_cached_tokens
        if count is not None:
            self._of_request[result.request_id] = count

    def details(self) -> PromptTokensDetails | None:
        """Return the tokens of all prompts together, None where no result tells: the prefix cache is off."""
        if not self._of_request:
            return None
        return PromptTokensDetails(cached_tokens=sum(self._of_request.values()))
