"""What was measured on: versions and the device, read only."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Any

import torch

PACKAGES = {
    "triton": "triton",
    "FlashInfer": "flashinfer-python",
    "xformers": "xformers",
    "conch": "conch-triton-kernels",
    "cuDNN front end": "nvidia-cudnn-frontend",
}


def l2_bytes() -> int:
    """Return the size of the L2 of the CUDA device."""
    return int(torch.cuda.get_device_properties(0).L2_cache_size)


def machine(device: str) -> dict[str, Any]:
    """Return the versions and, of a CUDA device, what it says of itself."""
    found: dict[str, Any] = {"device": device, "python": platform.python_version(), "torch": torch.__version__}
    for name, package in PACKAGES.items():
        try:
            found[name] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    if device == "cpu":
        return found | {"name": platform.machine(), "threads": torch.get_num_threads()}
    said: Any = torch.cuda.get_device_properties(0)
    return found | {
        "name": said.name,
        "multiprocessors": said.multi_processor_count,
        "l2_bytes": l2_bytes(),
        "shared_bytes": said.shared_memory_per_block_optin,
        "registers": said.regs_per_multiprocessor,
    }
