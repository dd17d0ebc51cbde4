"""The process that drives a vLLM tree's engine: `drive.py RESULT`, the tree and the stand-ins on PYTHONPATH.

It writes one JSON object, drive → what it gives, or what it raises. Nothing of the tree is replaced; the vendor's
library is the stand-in.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parents[2]))

from tests.behaviour import (
    drive_attention,
    drive_cached_tokens,
    drive_chunks,
    drive_delta,
    drive_engine_args,
    drive_vendor_ops,
)

if TYPE_CHECKING:
    from collections.abc import Callable

DRIVES: dict[str, Callable[[], Any]] = {
    **drive_chunks.DRIVES,
    **drive_delta.DRIVES,
    **drive_cached_tokens.DRIVES,
    **drive_attention.DRIVES,
    **drive_engine_args.DRIVES,
    **drive_vendor_ops.DRIVES,
}


def outcome(drive: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Return what a drive gives, or the exception in words: on the unpatched tree that is the expected result."""
    try:
        return drive()
    except Exception as error:  # noqa: BLE001 - whatever the tree raises is the finding
        return {"raised": type(error).__name__, "message": str(error)}


def main(result: Path) -> None:
    """Run every drive and write what they give."""
    vllm: Any = importlib.import_module("vllm")

    found = {name: outcome(drive) for name, drive in DRIVES.items()}
    result.write_text(json.dumps({"file": vllm.__file__, **found}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
