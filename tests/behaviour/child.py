"""The process that imports a vLLM tree and attends with it: `child.py RESULT GROUP…`, the tree on PYTHONPATH.

It writes one JSON object, case → what happened: the relative error against dense attention, the exception, and the
paths that ran with the bound they were given. The vendor's library is a stand-in; nothing else is replaced, only
counted. With `--hide-triton` the tree looks for Triton in vain, as where it is not installed; `--device cuda` gives it
tensors on that device.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).parents[2]))

from tests.behaviour import cases
from tests.behaviour.decoding import decode, known_reads, reads, v2_directly
from tests.behaviour.observed import ImportedTree, Result
from tests.behaviour.prefilling import in_chunks, prefix, small_prefix


def facts(tree: ImportedTree) -> Result:
    """Return what the tree's modules say about themselves."""
    lora: Any = importlib.import_module("vllm.lora.punica")
    return {
        "threshold": getattr(tree.attention, "_PYTORCH_DECODE_THRESHOLD", None),
        "has_triton": tree.module.HAS_TRITON,
        "lora_has_triton": lora.HAS_TRITON,
        "lora_kernels": [name for name in dir(lora) if name.startswith(("bgmv", "sgmv"))],
        "context_attention_fwd": hasattr(tree.module, "context_attention_fwd"),
        "file": str(tree.module.__file__),
    }


def outcome(tree: ImportedTree, work: Callable[[], Result]) -> Result:
    """Return what a case gives, or what it raises, and the paths that it took."""
    tree.seen.calls.clear()
    try:
        result = work()
    except Exception as fault:  # noqa: BLE001 - the kind of the exception is the result
        result = {"raised": type(fault).__name__, "message": str(fault)}
    return {**result, "paths": {path: list(bounds) for path, bounds in tree.seen.calls.items()}}


Work = dict[str, Callable[[ImportedTree], Result]]


def works() -> dict[str, Work]:
    """Return group → case → work."""
    every: Work = {case.name: lambda tree, case=case: decode(tree, case) for case in cases.DECODES}  # type: ignore[misc]  # bound early
    every |= {case.name: lambda tree, case=case: prefix(tree, case) for case in cases.PREFIXES}  # type: ignore[misc]  # bound early
    every[cases.V2_DIRECTLY] = v2_directly
    every[cases.IN_CHUNKS] = in_chunks
    every |= {f"reads of {path}": lambda tree, n=n: reads(tree, n) for path, n in cases.READS.items()}  # type: ignore[misc]  # bound early
    every["known reads"] = known_reads
    small: Work = {case.name: lambda tree, case=case: small_prefix(tree, case) for case in cases.SMALL_PREFIXES}  # type: ignore[misc]  # bound early
    small |= {case.name: every[case.name] for case in cases.SMALL_DECODES}
    above_v1: Work = {case.name: every[case.name] for case in cases.ABOVE_V1}
    triton = above_v1 | {case.name: every[case.name] for case in cases.PREFIXES}
    return {"every": every, "small": small, "triton": triton}


def hide_triton() -> None:
    """Answer that there is no Triton to whoever looks for it."""
    find = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:  # noqa: ANN401 - a spec or None
        return None if name == "triton" else find(name, package)

    importlib.util.find_spec = without


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("group")
    parser.add_argument("--hide-triton", action="store_true")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the machine is shared: idle threads that wait for a core cost more than they bring
    # What nobody writes reads as NaN, instead of whatever lay there: `torch.utils.deterministic` says how.
    torch.use_deterministic_algorithms(True, warn_only=True)
    if arguments.hide_triton:
        hide_triton()
    tree = ImportedTree(arguments.device)
    results = {"facts": facts(tree)}
    for name, work in works()[arguments.group].items():
        results[name] = outcome(tree, lambda work=work: work(tree))  # type: ignore[misc]  # bound early
    arguments.result.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
