"""Which module and class belong to which architecture."""

import importlib

# yapf: disable
_TEXT_GENERATION_MODELS = {
    # [Decoder-only]
    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),  # also its kin
}

_EMBEDDING_MODELS = {"MistralModel": ("llama_embedding", "LlamaEmbeddingModel")}
# yapf: enable

_VLLM_MODELS = {**_TEXT_GENERATION_MODELS, **_EMBEDDING_MODELS}


def load(arch):
    """Return the class of an architecture."""
    module, name = _VLLM_MODELS[arch]
    return getattr(importlib.import_module(f"vllm.model_executor.models.{module}"), name)
