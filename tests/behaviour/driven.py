"""What the engine of a tree does: one process a tree, which runs every drive of `drive.py`."""

from __future__ import annotations

import json
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.behaviour import trees

CHILD = Path(__file__).parent / "drive.py"
LONGEST_S = 600  # a machine under load; an idle one takes a tenth


@cache
def driven(tree: Path) -> dict[str, Any]:
    """Return drive → what it gives, or `{"raised": …, "message": …}`, for the tree in this folder."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        done = subprocess.run(
            [trees.interpreter(), CHILD, result],
            env=trees.environment(tree),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    assert found.pop("file").startswith(str(tree)), "another vLLM than the tree was imported"
    return found
