"""Drives `RequestOutput.from_seq_group`: what a client is told after each step of a request."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any

from tests.behaviour.drive_cached_tokens import last_usage, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

PROMPT = 10_000
CHUNKS = 3
NEW = (7, 8, 9)  # tokens sampled one after the other


def group(n: int, kind: str, logprobs: int | None = None) -> Any:  # noqa: ANN401 - a sequence group of the tree
    """Return a sequence group with the long prompt, whose results are of a `RequestOutputKind`."""
    sequence: Any = importlib.import_module("vllm.sequence")
    sampling: Any = importlib.import_module("vllm.sampling_params")
    parameters = sampling.SamplingParams(
        n=n, output_kind=sampling.RequestOutputKind[kind], detokenize=False, logprobs=logprobs
    )
    only = sequence.Sequence(0, {"prompt_token_ids": [5] * PROMPT}, 16)
    return sequence.SequenceGroup("0", [only], arrival_time=0.0, sampling_params=parameters)


def results(of: Any, *, use_cache: bool) -> list[Any]:  # noqa: ANN401 - a sequence group of the tree
    """Return the counts of tokens and log probabilities in the group's present result, one pair an output."""
    outputs: Any = importlib.import_module("vllm.outputs")
    found = outputs.RequestOutput.from_seq_group(of, use_cache)
    return [[list(o.token_ids), None if o.logprobs is None else len(o.logprobs)] for o in found.outputs]


def append(sequence: Any, token: int) -> None:  # noqa: ANN401 - a sequence of the tree
    """Let a sequence have sampled one token."""
    logprob: Any = importlib.import_module("vllm.sequence").Logprob
    sequence.append_token_id(token, {token: logprob(-0.5)})


def request(n: int, kind: str, *, use_cache: bool = False, logprobs: int | None = None) -> list[Any]:
    """Return the results of every step: the chunks of the prompt, then each sampled token of `n` sequences."""
    of = group(n, kind, logprobs)
    steps = []
    for _ in range(CHUNKS - 1):
        of.seqs[0].data.update_num_computed_tokens(PROMPT // CHUNKS)
        steps.append(results(of, use_cache=use_cache))
    for token in NEW:
        if token == NEW[0]:
            for child in range(1, n):
                of.add(of.seqs[0].fork(child))
        for sequence in of.seqs:
            append(sequence, token)
        steps.append(results(of, use_cache=use_cache))
    return steps


def recomputed() -> list[Any]:
    """Return the results of a request that is preempted after two tokens and computed again in chunks."""
    of = group(1, "DELTA", logprobs=1)
    steps = []
    for token in NEW[:2]:
        append(of.seqs[0], token)
        steps.append(results(of, use_cache=False))
    of.seqs[0].reset_state_for_recompute()
    steps.append(results(of, use_cache=False))
    append(of.seqs[0], NEW[2])
    steps.append(results(of, use_cache=False))
    return steps


def usage() -> Any:  # noqa: ANN401 - JSON
    """Return the usage at the end of a streamed chat answer to the long prompt, as the server counts it."""
    protocol: Any = importlib.import_module("vllm.entrypoints.openai.protocol")
    outputs: Any = importlib.import_module("vllm.outputs")
    of = group(1, "DELTA")

    async def steps() -> AsyncIterator[Any]:
        for _ in range(CHUNKS - 1):
            yield outputs.RequestOutput.from_seq_group(of, use_cache=False)
        for token in NEW:
            append(of.seqs[0], token)
            yield outputs.RequestOutput.from_seq_group(of, use_cache=False)

    server = serving("serving_chat", "OpenAIServingChat", response_role="assistant", chat_template=None)
    question = [{"role": "user", "content": "?"}]
    request = protocol.ChatCompletionRequest(
        model="m", messages=question, stream=True, stream_options={"include_usage": True}
    )
    metadata = protocol.RequestResponseMetadata(request_id="0")
    answer = server.chat_completion_stream_generator(request, steps(), "0", [], None, metadata)
    return asyncio.run(last_usage(answer))


DRIVES: dict[str, Callable[[], Any]] = {
    "delta": lambda: request(1, "DELTA"),
    "delta, one result object": lambda: request(1, "DELTA", use_cache=True),
    "delta of two": lambda: request(2, "DELTA"),
    "whole": lambda: request(1, "CUMULATIVE"),
    "whole of two": lambda: request(2, "CUMULATIVE"),
    "recomputed": recomputed,
    "delta, counted by the server": usage,
}
