"""A tiny Qwen2 with random weights and a tokenizer of its own, made on the spot: `python tiny_model.py FOLDER`.

It runs in the engine's environment, which has torch, transformers and tokenizers; nothing comes from a hub.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

VOCABULARY = 2048
POSITIONS = 2048
END = "<|end|>"
WORDS = ("count", "read", "write", "first", "second", "third", "river", "stone", "paper", "light")
CHAT = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"


def write(folder: Path) -> None:
    """Write the model's configuration, weights and tokenizer into `folder`."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=POSITIONS,
        eos_token_id=0,
    )
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    # As many made-up words as it takes to fill the vocabulary: every id that a prompt may have is then a token.
    text = (f"{a} {b}{c} {number}" for number, (a, b, c) in enumerate(_triples()))
    tokenizer.train_from_iterator(text, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=END)
    fast.chat_template = CHAT
    fast.save_pretrained(folder)


def _triples() -> list[tuple[str, str, str]]:
    return [(a, b, c) for a in WORDS for b in WORDS for c in WORDS]


if __name__ == "__main__":
    write(Path(sys.argv[1]))
