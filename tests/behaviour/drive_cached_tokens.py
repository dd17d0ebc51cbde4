"""Drives the scheduler with its prefix cache, and the OpenAI answers that report what it found there."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

os.environ["VLLM_ALLOW_DEPRECATED_BLOCK_MANAGER_V1"] = "1"  # the old block manager counts in another way

BLOCK = 16
PROMPT = 100
SHARED = 80


class Engine:
    """A scheduler and as much of an engine as it needs: every scheduled chunk counts as computed."""

    def __init__(self, *, v2: bool, chunk: int = 0, caching: bool = True) -> None:
        self.sequence: Any = importlib.import_module("vllm.sequence")
        self.sampling: Any = importlib.import_module("vllm.sampling_params")
        config: Any = importlib.import_module("vllm.config")
        scheduler: Any = importlib.import_module("vllm.core.scheduler")
        cache = config.CacheConfig(BLOCK, 0.9, 0, "auto", enable_prefix_caching=caching)
        cache.num_gpu_blocks, cache.num_cpu_blocks = 64, 0
        settings = config.SchedulerConfig(
            chunk or 512, 8, 256, use_v2_block_manager=v2, enable_chunked_prefill=bool(chunk)
        )
        self.scheduler = scheduler.Scheduler(settings, cache, None)
        self.requests = 0

    def add(self, tokens: list[int]) -> Any:  # noqa: ANN401 - a sequence group of the tree
        """Queue a request."""
        only = self.sequence.Sequence(self.requests, {"prompt_token_ids": tokens}, BLOCK)
        group = self.sequence.SequenceGroup(
            str(self.requests), [only], arrival_time=0.0, sampling_params=self.sampling.SamplingParams()
        )
        self.requests += 1
        self.scheduler.add_seq_group(group)
        return group

    def step(self) -> None:
        """Schedule once, and let every chunk be computed and every complete prompt or decode sample a token."""
        groups, found, _ = self.scheduler.schedule()
        for about, scheduled in zip(groups, found.scheduled_seq_groups, strict=True):
            sequence = scheduled.seq_group.seqs[0]
            sequence.data.update_num_computed_tokens(about.token_chunk_size)
            if about.do_sample:
                sequence.append_token_id(3, {3: self.sequence.Logprob(-0.5)})

    def serve(self, tokens: list[int], steps: int = 8) -> Any:  # noqa: ANN401 - the tree's
        """Return the group of a request that has gone through some steps."""
        group = self.add(tokens)
        for _ in range(steps):
            self.step()
        return group


def prompt(first: int, shared: int = SHARED) -> list[int]:
    """Return a prompt whose first `shared` tokens are those of every other."""
    return [*range(100, 100 + shared), *range(first, first + PROMPT - shared)]


def noted(engine: Engine) -> list[int | None]:
    """Return the numbers noted for four requests: new, half shared, repeated, and all different."""
    prompts = (prompt(1000), prompt(2000), prompt(1000), [*range(5000, 5000 + PROMPT)])
    return [engine.serve(tokens).metrics.num_cached_tokens for tokens in prompts]


def together(*, v2: bool) -> list[int | None]:
    """Return the numbers of two requests with one prefix that are scheduled in the same step."""
    engine = Engine(v2=v2)
    groups = [engine.add(prompt(1000)), engine.add(prompt(2000))]
    engine.step()
    return [group.metrics.num_cached_tokens for group in groups]


def preempted() -> list[int | None]:
    """Return the number of a request before and after it is computed for a second time."""
    engine = Engine(v2=True)
    engine.serve(prompt(1000))
    group = engine.serve(prompt(2000), steps=2)
    before = group.metrics.num_cached_tokens
    engine.scheduler.running.remove(group)
    engine.scheduler._preempt(group, [])  # noqa: SLF001 - what the scheduler does when blocks run out
    engine.scheduler.waiting.appendleft(group)
    engine.step()
    return [before, group.metrics.num_cached_tokens]


# --- the answers --------------------------------------------------------------------------------------------------


def result(request_id: str, cached: int | None, *, done: bool, text: str = "a", tokens: int = 50) -> Any:  # noqa: ANN401 - the tree's
    """Return one result of a request as an engine gives it."""
    outputs: Any = importlib.import_module("vllm.outputs")
    metrics: Any = importlib.import_module("vllm.sequence").RequestMetrics(0.0, 0.0, 0.0, 0.0, 0.0)
    if cached is not None:
        metrics.num_cached_tokens = cached
    output = outputs.CompletionOutput(0, text, [7], None, None, finish_reason="stop" if done else None)
    return outputs.RequestOutput(request_id, "p", [5] * tokens, None, [output], done, metrics)


def serving(module: str, name: str, **more: Any) -> Any:  # noqa: ANN401 - the tree's
    """Return a serving class of the tree, over no engine."""
    path = "vllm.entrypoints.openai"
    model = importlib.import_module(f"{path}.serving_engine").BaseModelPath("m", "m")
    made = getattr(importlib.import_module(f"{path}.{module}"), name)
    nothing = {"lora_modules": None, "prompt_adapters": None, "request_logger": None}
    return made(SimpleNamespace(), SimpleNamespace(max_model_len=512), [model], **nothing, **more)


def chat(*, stream: bool, cached: int | None) -> Any:  # noqa: ANN401 - JSON
    """Return the usage of a chat answer."""
    protocol: Any = importlib.import_module("vllm.entrypoints.openai.protocol")
    server = serving("serving_chat", "OpenAIServingChat", response_role="assistant", chat_template=None)
    options = {"stream_options": {"include_usage": True}} if stream else {}
    request = protocol.ChatCompletionRequest(
        model="m", messages=[{"role": "user", "content": "?"}], stream=stream, **options
    )
    metadata = protocol.RequestResponseMetadata(request_id="0")

    async def results() -> AsyncIterator[Any]:
        yield result("0", cached, done=False)
        yield result("0", cached, done=True)

    arguments: Any = (request, results(), "0", [], None, metadata)
    if stream:
        return asyncio.run(last_usage(server.chat_completion_stream_generator(*arguments)))
    return asyncio.run(server.chat_completion_full_generator(*arguments)).model_dump()["usage"]


def completion(*, stream: bool, cached: tuple[int | None, ...]) -> Any:  # noqa: ANN401 - JSON
    """Return the usage of a completion of one or more prompts."""
    protocol: Any = importlib.import_module("vllm.entrypoints.openai.protocol")
    server = serving("serving_completion", "OpenAIServingCompletion")
    options = {"stream_options": {"include_usage": True}} if stream else {}
    request = protocol.CompletionRequest(model="m", prompt="?", stream=stream, max_tokens=5, **options)
    metadata = protocol.RequestResponseMetadata(request_id="0")
    if not stream:
        every = [result(str(n), count, done=True) for n, count in enumerate(cached)]
        made = server.request_output_to_completion_response(every, request, "0", 0, "m", None, metadata)
        return made.model_dump()["usage"]

    async def results() -> AsyncIterator[Any]:
        for n, count in enumerate(cached):
            yield n, result(str(n), count, done=True)

    answer = server.completion_stream_generator(request, results(), "0", 0, "m", len(cached), None, metadata)
    return asyncio.run(last_usage(answer))


async def last_usage(chunks: AsyncIterator[str]) -> Any:  # noqa: ANN401 - JSON
    """Return the usage in the last chunk of a streamed answer."""
    found = [json.loads(chunk.removeprefix("data: ")) async for chunk in chunks if "[DONE]" not in chunk]
    return found[-1]["usage"]


DRIVES: dict[str, Callable[[], Any]] = {
    "cached, v1": lambda: noted(Engine(v2=False)),
    "cached, v2": lambda: noted(Engine(v2=True)),
    "cached, v1, chunks": lambda: noted(Engine(v2=False, chunk=32)),
    "cached, v2, chunks": lambda: noted(Engine(v2=True, chunk=32)),
    "cached, off": lambda: noted(Engine(v2=True, caching=False)),
    "cached together, v1": lambda: together(v2=False),
    "cached together, v2": lambda: together(v2=True),
    "cached, preempted": preempted,
    "chat": lambda: chat(stream=False, cached=32),
    "chat, streamed": lambda: chat(stream=True, cached=32),
    "chat, no cache": lambda: chat(stream=False, cached=None),
    "chat, streamed, no cache": lambda: chat(stream=True, cached=None),
    "completion": lambda: completion(stream=False, cached=(32,)),
    "completion of two": lambda: completion(stream=False, cached=(32, 16)),
    "completion, nothing cached": lambda: completion(stream=False, cached=(0,)),
    "completion, streamed": lambda: completion(stream=True, cached=(32,)),
    "completion, no cache": lambda: completion(stream=False, cached=(None,)),
}
