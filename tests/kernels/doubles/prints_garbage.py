# ruff: noqa: ANN401 - the arguments of vLLM, handed on by their places
"""A kernel that is right, in a process that prints whatever it likes wherever it can."""

import os
import sys
from typing import Any

from . import right

NOISE = b'{"trial": "result", "right": false}\n\xff\xfe{"trial": "begun"\n[1]\n'


def context_attention_fwd(*args: Any) -> None:
    os.write(1, NOISE * 1000)
    os.write(2, NOISE * 1000)
    sys.stdout.write("done\n")
    right.context_attention_fwd(*args)


def paged_attention_v2(*args: Any) -> None:
    os.write(1, NOISE)
    right.paged_attention_v2(*args)
