"""A process that answers line by line, and how it ends."""

from __future__ import annotations

import os
import sys

from orchestrator.tune.child import Death, Worker

LATE = """
import os, sys, time
os.close(1)
time.sleep(0.3)
sys.stderr.write("the device is gone\\n")
sys.stderr.flush()
os._exit(3)
"""


def test_what_a_process_says_after_its_last_answer_is_kept_and_so_is_how_it_ends() -> None:
    worker = Worker([sys.executable, "-c", LATE], {}, dict(os.environ), 60.0)
    assert worker.start() == Death("exit status 3: the device is gone")
    assert worker.process is None
