# ruff: noqa: ANN401 - the arguments of vLLM, handed on by their places
"""A kernel that never comes back, cannot be asked to, and has a process of its own beside it, as a compiler may."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from . import right  # noqa: F401 - it notes the run

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)


def context_attention_fwd(*_: Any) -> None:
    child = subprocess.Popen(["sleep", "3600"])
    Path(os.environ["DOUBLE_RUNS"]).with_name("child").write_text(str(child.pid), encoding="utf-8")
    while True:
        time.sleep(60)


paged_attention_v2 = context_attention_fwd
