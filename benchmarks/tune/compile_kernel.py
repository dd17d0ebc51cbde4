"""Compiles the Triton kernels ahead of time, without a GPU, and reads off what came out.

A program of its own, since a compiler that does not suit a target can abort its whole process. It reads jobs as JSON
from standard input and prints one JSON object a job, under Triton 2.3.1, which needs no PyTorch, and under 3.x.
`compile_kernel.py FOLDER` takes the kernels from `FOLDER/kernels`. `tests/kernels/compile_gate.py` judges what it
finds for the rows of the table; `orchestrator tune` asks it about the rows that it tries.
"""

# ruff: noqa: PLC0415 - objects of two versions of a compiler without types, imported after PyTorch's stand-in
# mypy: disable-error-code="import-not-found,import-untyped,no-untyped-call,unused-ignore"

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any, NamedTuple

TYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
ELEMENT_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
OF_THE_INPUT = {"out_ptr", "query_ptr", "key_ptr", "value_ptr", "work_ptr"}
OF_THE_INPUT |= {"q_ptr", "k_ptr", "v_ptr", "o_ptr", "k_cache_ptr", "v_cache_ptr"}
FLOATS = {"parts_ptr", "slopes_ptr", "slope_ptr", "work_lse_ptr"}
STRIDES = {"query_stride", "out_stride", "key_stride", "value_stride", "k_page_head", "v_page_head"}
STRIDES |= {f"{tensor}_{axis}" for tensor in "qkvo" for axis in ("token", "head", "page")}
"""Multiples of 16 for contiguous tensors, as pointers are; a table's width is not."""

PRODUCT = re.compile(r"\bmma\.sync|\bwgmma\.mma_async|\bfma\.rn\.f32")
COPY = re.compile(r"cp\.async\.c[ag]\.shared\.global\S*\s[^;]*?,\s*(0x\w+|\d+)")
LOAD = re.compile(r"ld\.global\S*?\.(?:v(\d)\.)?[bfsu](\d+)\s")


@dataclasses.dataclass(frozen=True)
class Job:
    """A kernel as a launch with contiguous tensors would have it compiled.

    With a `merge` it is the second one, which joins what the splits left: decode's number of splits and of dimensions
    at a time, or prefill's number of rows.
    """

    operation: str
    capability: int
    dtype: str
    head_size: int
    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    key_dims: int = 0
    whole_pages: bool = False
    key_parts: int = 1
    group: int = 4
    page: int = 16
    window: bool = False
    slopes: bool = False
    splits: int = 1
    merge: tuple[int, ...] = ()


class Launch(NamedTuple):
    """What the compiler is given: the kernel, its constants, the types of the rest, and what 16 divides."""

    kernel: Any
    constants: dict[str, Any]
    types: dict[str, str]
    aligned: list[str]
    options: dict[str, int]


class _NoTorch(types.ModuleType):
    """Stands for PyTorch, of which the kernels' files only name types here; it takes seconds to import."""

    version = types.SimpleNamespace(hip=None)

    def __getattr__(self, name: str) -> str:
        return name


def launch(job: Job) -> Launch:
    """Return the parameters of a job."""
    kernel, values = (_decode if job.operation == "paged_decode_v2" else _prefill)(job)
    constants = {name: value for name, value in values.items() if kernel.arg_names.index(name) in kernel.constexprs}
    kinds = {}
    for name in kernel.arg_names:
        if name in OF_THE_INPUT:
            kinds[name] = "*" + TYPES[job.dtype]
        elif name.endswith("_ptr"):
            kinds[name] = "*fp32" if name in FLOATS else "*i32"
        elif name not in constants:
            kinds[name] = "fp32" if name == "scale" else "i32"
    aligned = [name for name in kinds if name.endswith("_ptr") or name in STRIDES]
    return Launch(kernel, constants, kinds, aligned, {"num_warps": job.num_warps, "num_stages": job.num_stages})


def _decode(job: Job) -> tuple[Any, dict[str, Any]]:
    from kernels import muh_dispatch, paged_attention_v2_triton

    if job.merge:
        splits, dims = job.merge
        constants = {"D": job.head_size, "BLOCK_N": job.block_n, "SPLITS": splits, "DIMS": dims}
        return paged_attention_v2_triton._join_splits, constants  # noqa: SLF001 - the kernel has no public name
    padded = muh_dispatch.padded(job.head_size)
    return paged_attention_v2_triton._attend_split, {  # noqa: SLF001 - the kernel has no public name
        "D": job.head_size,
        "D_TILE": padded,
        "PAGE": job.page,
        "X": 16 // ELEMENT_BYTES[job.dtype],
        "GROUP": job.group,
        "HEAD_BLOCKS": 1,
        "BLOCK_M": job.block_m,
        "BLOCK_N": job.block_n,
        "KEY_DIMS": padded if job.whole_pages else min(job.key_dims, padded),
        "WHOLE_PAGES": job.whole_pages,
        "ALIBI": job.slopes,
        "DIRECT": job.splits == 1,
    }


def _prefill(job: Job) -> tuple[Any, dict[str, Any]]:
    from kernels import muh_dispatch, prefix_prefill

    if job.merge:
        sizes = {"HEADS": 2 * job.group, "HEAD": job.head_size, "HEAD_PADDED": muh_dispatch.padded(job.head_size)}
        constants = {**sizes, "SPLITS": job.splits, "BLOCK": job.merge[0]}
        return prefix_prefill._merge, constants  # noqa: SLF001 - the kernel has no public name
    part_0, part_1 = prefix_prefill.parts_of(job.head_size, job.key_parts)
    return prefix_prefill._prefill, {  # noqa: SLF001 - the kernel has no public name
        "KV_HEADS": 2,
        "GROUP": job.group,
        "HEAD": job.head_size,
        "HEAD_PADDED": muh_dispatch.padded(job.head_size),
        "PART_0": part_0,
        "PART_1": part_1,
        "PAGE": job.page,
        "X": 16 // ELEMENT_BYTES[job.dtype],
        "HAS_WINDOW": job.window,
        "HAS_SLOPES": job.slopes,
        "BLOCK_M": job.block_m,
        "BLOCK_N": job.block_n,
        "SPLITS": job.splits,
    }


def compiled_by_3(job: Job) -> tuple[int, str, bytes]:
    """Return shared memory, PTX and machine code, by Triton 3.x."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    wanted = launch(job)
    place = wanted.kernel.arg_names.index
    attributes = {(place(name),): [["tt.divisibility", 16]] for name in wanted.aligned}
    signature = {name: wanted.types.get(name, "constexpr") for name in wanted.kernel.arg_names}
    constants = {(place(name),): value for name, value in wanted.constants.items()}
    source = ASTSource(wanted.kernel, signature, constants, attributes)
    made = triton.compile(source, target=GPUTarget("cuda", job.capability, 32), options=wanted.options)
    return int(made.metadata.shared), made.asm["ptx"], made.asm["cubin"]


def compiled_by_2(job: Job) -> tuple[int, str, bytes]:
    """Return the same by Triton 2.3.1: stage by stage, since its own `compile` asks for a driver."""
    from triton.compiler.backends.cuda import CUDABackend
    from triton.compiler.compiler import ASTSource, AttrsDescriptor

    wanted = launch(job)
    place = wanted.kernel.arg_names.index
    attributes = AttrsDescriptor(divisible_by_16=tuple(place(name) for name in wanted.aligned), equal_to_1=())
    source = ASTSource(
        wanted.kernel,
        {place(name): kind for name, kind in wanted.types.items()},
        {place(name): value for name, value in wanted.constants.items()},
        attributes,
    )
    backend = CUDABackend(("cuda", job.capability))
    options = backend.parse_options({**wanted.options, **source.parse_options()})
    metadata = {"target": ("cuda", job.capability), **options.__dict__, **source.metadata()}
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options)
    module: Any = source.make_ir(options)
    made: dict[str, Any] = {}
    for name in list(stages)[list(stages).index(source.ext) :]:
        module = made[name] = stages[name](module, metadata)
    return int(metadata["shared"]), str(made["ptx"]), made["cubin"]


def loops(ptx: str) -> list[dict[int, int]]:
    """Return, for each innermost loop with products in the order of the text, how many loads it has of each width."""
    labels = {match[1]: match.start() for match in re.finditer(r"^(\$\w+):", ptx, re.MULTILINE)}
    spans = {
        (labels[match[1]], match.end())
        for match in re.finditer(r"bra(?:\.uni)?\s+(\$\w+)", ptx)
        if labels.get(match[1], match.start()) < match.start() and PRODUCT.search(ptx, labels[match[1]], match.end())
    }
    inner = [a for a in spans if not any(a != b and a[0] <= b[0] and b[1] <= a[1] for b in spans)]
    return [widths(ptx[begin:end]) for begin, end in sorted(inner)]


def widths(ptx: str) -> dict[int, int]:
    """Return how many loads from global memory there are of each width in bytes."""
    found: dict[int, int] = {}
    sizes = [int(size, 0) for size in COPY.findall(ptx)]
    sizes += [int(vector or 1) * int(bits) // 8 for vector, bits in LOAD.findall(ptx)]
    for size in sizes:
        found[size] = found.get(size, 0) + 1
    return found


def registers(cubin: bytes) -> dict[str, int]:
    """Return registers and spilled bytes of a thread, which the `cuobjdump` of Triton's wheel reads off the code."""
    import triton

    tool = next(Path(triton.__file__).parent.rglob("cuobjdump"))
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True)  # noqa: S603 - a program of Triton's wheel
    found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", done.stdout)
    if found is None:
        raise ValueError(f"cuobjdump says: {done.stdout[-300:]}")
    return {"registers": int(found[1]), "spilled": int(found[2]) + int(found[3])}


def main(folder: str) -> None:
    """Compile what standard input asks for."""
    sys.path.insert(0, folder)
    sys.modules["torch"] = _NoTorch("torch")
    import triton

    compiled = compiled_by_2 if triton.__version__.startswith("2.") else compiled_by_3
    for line in json.load(sys.stdin):
        shared, ptx, cubin = compiled(Job(**line))
        found = {"triton": triton.__version__, "shared": shared, **registers(cubin), "loops": loops(ptx)}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
