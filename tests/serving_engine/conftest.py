"""The tiny model, made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.serving_engine.engine import write_model

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny Qwen2 with random weights, and its tokenizer."""
    return write_model(tmp_path_factory.mktemp("engine") / "tiny-qwen2")
