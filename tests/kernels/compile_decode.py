# ruff: noqa: ANN401, PLR0913, PLR0917, SLF001 - it handles objects of two versions of a compiler that has no types
# mypy: disable-error-code="import-not-found, unused-ignore"
"""Compiles every decode row ahead of time, without a GPU, and prints what came out; `test_triton_decode.py` runs it.

A program of its own, since a compiler that does not suit a target can abort the whole process. It runs under Triton
2.3.1, which needs no PyTorch, and under 3.x. `compile_decode.py CAPABILITY…` prints one JSON object a row.
"""

import json
import re
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
POINTERS = ("out_ptr", "query_ptr", "key_ptr", "value_ptr")
TYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
DIVISIBLE = (
    "query_stride",
    "out_stride",
    "key_stride",
    "value_stride",
)  # by 16, as pointers are; a table's width is not


class _NoTorch(types.ModuleType):
    """Stands for PyTorch where there is none: the kernels' file only names its types."""

    version = types.SimpleNamespace(hip=None)

    def __getattr__(self, name: str) -> str:
        return name


def signature(names: list[str], dtype: str) -> dict[str, str]:
    found = {}
    for name in names:
        if name in POINTERS:
            found[name] = "*" + TYPES[dtype]
        elif name.endswith("_ptr"):
            found[name] = "*fp32" if name in {"parts_ptr", "slopes_ptr"} else "*i32"
        elif name.islower():
            found[name] = "fp32" if name == "scale" else "i32"
    return found


def compile_kernel(kernel: Any, constants: dict[str, Any], row: Any, capability: int) -> tuple[int, str, bytes]:
    """Return shared memory, PTX and machine code of a kernel."""
    import triton  # noqa: PLC0415 - after the stand-in for torch

    from kernels import muh_dispatch  # noqa: PLC0415 - after the path is set

    names = list(kernel.arg_names)
    kinds = signature(names, row.dtype)
    divisible = [name for name in kinds if name.endswith("_ptr") or name in DIVISIBLE]
    # A warp of the BI-V100 has 64 threads: twice the warps here are as many.
    warps = row.num_warps * muh_dispatch.DEVICES[row.device].warp // 32
    options = {"num_warps": warps, "num_stages": row.num_stages}
    if triton.__version__.startswith("2."):
        return _compile_2(kernel, names, kinds, constants, divisible, options, capability)
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415 - not in 2.x
    from triton.compiler import ASTSource  # noqa: PLC0415 - the same

    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in divisible}
    every = {**kinds, **dict.fromkeys(constants, "constexpr")}
    ordered = {name: every[name] for name in names}
    source = ASTSource(kernel, ordered, {(names.index(name),): value for name, value in constants.items()}, attributes)
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    return made.metadata.shared, made.asm["ptx"], made.asm["cubin"]


def _compile_2(
    kernel: Any,
    names: list[str],
    kinds: dict[str, str],
    constants: dict[str, Any],
    divisible: list[str],
    options: dict[str, int],
    capability: int,
) -> tuple[int, str, bytes]:
    """Run the stages of Triton 2.3.1 by hand: its own `compile` asks for a driver."""
    from triton.compiler.backends.cuda import CUDABackend  # noqa: PLC0415 - only in 2.x
    from triton.compiler.compiler import ASTSource, AttrsDescriptor  # noqa: PLC0415 - the same

    attributes = AttrsDescriptor(divisible_by_16=tuple(names.index(name) for name in divisible), equal_to_1=())
    source = ASTSource(
        kernel,
        {names.index(name): kind for name, kind in kinds.items()},
        {names.index(name): value for name, value in constants.items()},
        attributes,
    )
    backend = CUDABackend(("cuda", capability))
    chosen = backend.parse_options({**options, **source.parse_options()})
    metadata = {"target": ("cuda", capability), **chosen.__dict__, **source.metadata()}
    stages: dict[str, Any] = {}
    backend.add_stages(stages, chosen)
    made: dict[str, Any] = {}
    module = source.make_ir(chosen)
    order = list(stages)
    for name in order[order.index(source.ext) :]:
        module = stages[name](module, metadata)
        made[name] = module
    return metadata["shared"], str(made["ptx"]), made["cubin"]


def wide_copies(ptx: str) -> dict[str, int]:
    """Return how many loads of each width stand in the PTX's innermost loop, in bytes: what a full tile costs."""
    labels = {match[1]: match.start() for match in re.finditer(r"^(\$\w+):", ptx, re.MULTILINE)}
    loops = [
        (labels[match[1]], match.start())
        for match in re.finditer(r"bra(?:\.uni)?\s+(\$\w+)", ptx)
        if match[1] in labels and labels[match[1]] < match.start()
    ]
    with_products = [ptx[a:b] for a, b in loops if "mma.sync" in ptx[a:b]]
    body = min(with_products, key=len) if with_products else ""
    found: dict[str, int] = {}
    for size in re.findall(r"cp\.async\.c[ag]\.shared\.global\S*\s[^;]*?,\s*(0x\w+|\d+)", body):
        key = str(int(size, 0))
        found[key] = found.get(key, 0) + 1
    for vector, bits in re.findall(r"ld\.global\S*?\.(?:v(\d)\.)?[bfsu](\d+)\s", body):
        key = str(int(vector or 1) * int(bits) // 8)
        found[key] = found.get(key, 0) + 1
    return found


def registers(cubin: bytes) -> dict[str, int]:
    """Return registers and bytes of local memory a thread, or nothing without `cuobjdump`."""
    import triton  # noqa: PLC0415 - after the stand-in for torch

    tools = sorted(Path(triton.__file__).parent.rglob("cuobjdump"))
    if not tools:
        return {}
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([tools[0], "-res-usage", file.name], capture_output=True, text=True, check=False).stdout
    return {name.lower(): int(number) for name, number in re.findall(r"(REG|STACK|LOCAL):(\d+)", text)}


def rows(capabilities: list[int]) -> Iterator[dict[str, Any]]:
    from kernels import muh_dispatch, paged_attention_v2_triton  # noqa: PLC0415 - after the stand-in for torch

    old = not paged_attention_v2_triton._HAS_PERMUTE
    for row in muh_dispatch.DECODE.values():
        element = muh_dispatch.ELEMENT_BYTES[row.dtype]
        if row.dtype == "float32" or row.head_size < 64 or (old and row.device != "bi100"):
            continue
        for capability in capabilities:
            if row.dtype == "bfloat16" and capability < 80:
                continue  # no matrix units for bfloat16: 2.3.1 knows no such product
            constants = {
                "D": row.head_size,
                "D_TILE": row.head_size,
                "PAGE": 16,
                "X": 16 // element,
                "GROUP": row.block_m // 2,
                "HEAD_BLOCKS": 1,
                "BLOCK_M": row.block_m,
                "BLOCK_N": row.block_n,
                "KEY_DIMS": row.head_size if row.whole_pages else min(row.key_dims, row.head_size),
                "WHOLE_PAGES": row.whole_pages,
                "ALIBI": False,
                "DIRECT": False,
            }
            shared, ptx, cubin = compile_kernel(paged_attention_v2_triton._attend_split, constants, row, capability)
            yield {
                "row": row.label,
                "device": row.device,
                "capability": capability,
                "shared": shared,
                "modelled": row.shared_bytes,
                "loads": wide_copies(ptx),
                "key_bytes": row.key_bytes,
                **registers(cubin),
            }


def main() -> int:
    sys.path.insert(0, str(ROOT))
    try:
        import torch  # noqa: F401, PLC0415 - whether it is there
    except ImportError:
        sys.modules["torch"] = _NoTorch("torch")
    for found in rows([int(word) for word in sys.argv[1:]]):
        print(json.dumps(found), flush=True)  # noqa: T201 - the program's answer
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
