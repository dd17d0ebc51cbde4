"""Drives the model runner's input builder: the chunks of a prompt whose first blocks are in the prefix cache."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 16
LENGTH = 120
TABLE = [31 + 7 * column % 11 for column in range(-(-LENGTH // BLOCK))]
CHUNKS = {"aligned": (32, 32, 56), "unaligned": (40, 40, 40)}


def runner() -> Any:  # noqa: ANN401 - what the builder reads of a model runner
    """Return the little of a model runner that the input builder reads."""
    model_runner: Any = importlib.import_module("vllm.worker.model_runner")
    xformers: Any = importlib.import_module("vllm.attention.backends.xformers")
    return SimpleNamespace(
        _model_input_cls=model_runner.ModelInputForGPUWithSamplingMetadata,
        attn_backend=xformers.XFormersBackend,
        scheduler_config=SimpleNamespace(chunked_prefill_enabled=True, is_multi_step=False, use_v2_block_manager=True),
        model_config=SimpleNamespace(is_encoder_decoder_model=False),
        sliding_window=None,
        block_size=BLOCK,
        lora_config=None,
        prompt_adapter_config=None,
        multi_modal_input_mapper=None,
        inter_data_cache={},
        device="cpu",
        pin_memory=False,
    )


def chunk(start: int, size: int, cached_blocks: int) -> dict[str, Any]:
    """Return what the model gets for one chunk: tokens, lengths, block table and slots."""
    sequence: Any = importlib.import_module("vllm.sequence")
    sampling: Any = importlib.import_module("vllm.sampling_params")
    model_runner: Any = importlib.import_module("vllm.worker.model_runner")
    data = sequence.SequenceData.from_seqs(list(range(1000, 1000 + LENGTH)))
    data.update_num_computed_tokens(start)
    group = sequence.SequenceGroupMetadata(
        request_id="0",
        is_prompt=True,
        seq_data={0: data},
        sampling_params=sampling.SamplingParams(),
        block_tables={0: TABLE},
        token_chunk_size=size,
        computed_block_nums=TABLE[:cached_blocks],
    )
    builder = model_runner.ModelInputForGPUBuilder(runner(), None)
    builder.add_seq_group(group)
    data_of_group = builder.inter_data_list[0]
    metadata = builder.attn_metadata_builder.build(data_of_group.seq_lens, data_of_group.query_lens, -1, 1)
    return {
        "tokens": [int(token) for token in data_of_group.input_tokens[0]],
        "positions": list(data_of_group.input_positions[0]),
        "context": int(metadata.context_lens_tensor[0]),
        "length": int(metadata.seq_lens_tensor[0]),
        "table": metadata.block_tables[0].tolist(),
        "slots": metadata.slot_mapping.tolist(),
    }


def three_chunks(sizes: tuple[int, ...], cached_blocks: int) -> list[dict[str, Any]]:
    """Return what the model gets for each chunk of the prompt."""
    return [chunk(sum(sizes[:n]), size, cached_blocks) for n, size in enumerate(sizes)]


DRIVES: dict[str, Callable[[], Any]] = {
    f"{name} chunks, {blocks} cached blocks": lambda sizes=sizes, blocks=blocks: three_chunks(sizes, blocks)  # type: ignore[misc]  # bound early
    for name, sizes in CHUNKS.items()
    for blocks in range(len(TABLE))
}
