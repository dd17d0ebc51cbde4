"""Ask `trusted` in a process of its own: `ask_trust.py FOLDER PACKAGE OPERATION…`, one line of JSON with what it said.

On a GPU it uses the device first, as a worker has when it asks.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import sys
from typing import Any


def main(folder: str, package: str, operations: list[str]) -> None:
    """Print the answers, the log and what `live` says afterwards."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background is started without it
    sys.path[0] = folder
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger = logging.getLogger("vllm.attention.ops.trust")
    logger.setLevel(logging.INFO)
    logger.addHandler(Kept())
    if not os.environ.get("TRITON_INTERPRET"):
        import torch  # noqa: PLC0415 - takes seconds that the interpreter's tests need not wait for

        torch.zeros(1, device="cuda")
    trust: Any = importlib.import_module(f"{package}.trust")
    answers = {operation: trust.trusted(operation) for operation in operations}
    sys.stdout.write(json.dumps({"trusted": answers, "log": lines, "live": trust.live()}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
