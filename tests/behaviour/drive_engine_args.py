"""Drives the engine's arguments: whether a long context turns chunked prefill on; and a step that samples nothing."""

from __future__ import annotations

import importlib
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 65536,
    "torch_dtype": "float16",
}


def batch(**flags: Any) -> dict[str, Any]:  # noqa: ANN401 - arguments of the engine
    """Return what a context of 65,536 tokens makes of the scheduler's configuration."""
    arguments: Any = importlib.import_module("vllm.engine.arg_utils")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        given = arguments.EngineArgs(model=folder, skip_tokenizer_init=True, device="cuda", **flags)
        scheduler = given.create_engine_config().scheduler_config
    return {"chunked": scheduler.chunked_prefill_enabled, "batched": scheduler.max_num_batched_tokens}


def logits_of_other_ranks(tokens: int) -> list[int]:
    """Return the shape of the logits where the sequence groups are unknown, as on every rank but the first."""
    logits: Any = importlib.import_module("vllm.model_executor.layers.logits_processor")
    head = SimpleNamespace(weight=torch.ones(8, 4), linear_method=SimpleNamespace(apply=lambda head, x, bias: x))  # noqa: ARG005 - vLLM's signature
    metadata = SimpleNamespace(seq_groups=None, selected_token_indices=torch.arange(tokens))
    processor = logits.LogitsProcessor(8, logits_as_input=tokens > 0)
    return list(processor(head, torch.ones(max(tokens, 1), 8), metadata).shape)


def logits_of_the_first_rank() -> list[float]:
    """Return logits that a request's own processor has seen."""
    logits: Any = importlib.import_module("vllm.model_executor.layers.logits_processor")
    request = SimpleNamespace(
        seq_ids=[0],
        sampling_params=SimpleNamespace(logits_processors=[lambda past, row: row + len(past)]),
        sample_indices=[0],
        prompt_logprob_indices=[],
        seq_data={0: SimpleNamespace(output_token_ids=(1, 2, 3), prompt_token_ids=())},
    )
    metadata = SimpleNamespace(seq_groups=[request], selected_token_indices=torch.arange(1))
    found: list[float] = logits.LogitsProcessor(4, logits_as_input=True)(None, torch.zeros(1, 4), metadata)[0].tolist()
    return found


DRIVES: dict[str, Callable[[], Any]] = {
    "long context, no flag": batch,
    "long context, chunked": lambda: batch(enable_chunked_prefill=True, max_num_batched_tokens=4096),
    "long context, not chunked": lambda: batch(enable_chunked_prefill=False),
    "logits of other ranks, none sampled": lambda: logits_of_other_ranks(0),
    "logits of other ranks": lambda: logits_of_other_ranks(3),
    "logits of the first rank": logits_of_the_first_rank,
}
