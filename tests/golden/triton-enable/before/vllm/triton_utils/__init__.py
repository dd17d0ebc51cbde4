from vllm.triton_utils.importing import HAS_TRITON

__all__ = ["HAS_TRITON"]
