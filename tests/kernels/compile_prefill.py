"""Compiles the prefill kernel ahead of time, without a GPU, in a process of its own: a compiler may abort it.

`python compile_prefill.py` reads jobs as JSON from standard input, a list of objects with the keys of `Job`, and
prints one JSON object a job: shared memory in bytes, registers and stack bytes (spills) of a thread, and how many
loads are of 16 and of 2 bytes. It runs under Triton 2.3.1 and 3.x.
"""

# mypy: disable-error-code="import-not-found,import-untyped,no-untyped-call"

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import triton

sys.path.insert(0, str(Path(__file__).parents[2]))

from kernels import prefix_prefill

POINTERS = ("q_ptr", "k_ptr", "v_ptr", "o_ptr", "k_cache_ptr", "v_cache_ptr")
INTEGERS = ("table_ptr", "start_ptr", "seq_len_ptr", "ctx_len_ptr")
ELEMENT = {"fp16": 2, "bf16": 2, "fp32": 4}


@dataclass(frozen=True)
class Job:
    """One kernel to compile."""

    capability: int
    dtype: str
    head_size: int
    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    group: int = 4
    page: int = 16
    window: bool = False
    slopes: bool = False
    splits: int = 1


class Specialised(NamedTuple):
    """The kernel's parameters as a launch with contiguous tensors specialises them; by name."""

    constants: dict[str, Any]
    types: dict[str, str]
    aligned: list[str]


def specialised(job: Job) -> Specialised:
    """Return the parameters of a job."""
    part_0, part_1 = prefix_prefill.parts_of(job.head_size, job.num_stages)
    constants: dict[str, Any] = {
        "KV_HEADS": 2,
        "GROUP": job.group,
        "HEAD": job.head_size,
        "HEAD_PADDED": triton.next_power_of_2(job.head_size),
        "PART_0": part_0,
        "PART_1": part_1,
        "PAGE": job.page,
        "X": 16 // ELEMENT[job.dtype],
        "HAS_WINDOW": job.window,
        "HAS_SLOPES": job.slopes,
        "BLOCK_M": job.block_m,
        "BLOCK_N": job.block_n,
        "SPLITS": job.splits,
    }
    types = {}
    for name in prefix_prefill._prefill.arg_names:  # noqa: SLF001 - the kernel has no public name
        if name in POINTERS or name == "work_ptr":
            types[name] = f"*{job.dtype}"
        elif name in INTEGERS:
            types[name] = "*i32"
        elif name.endswith("_ptr"):
            types[name] = "*fp32"
        elif name not in constants:
            types[name] = "fp32" if name == "scale" else "i32"
    strides = [name for name in types if name.split("_")[0] in {"q", "k", "v", "o"}]
    return Specialised(constants, types, [name for name in types if name.endswith("_ptr") or name in strides])


def compiled_by_3(job: Job) -> tuple[int, str, bytes]:
    """Return shared memory, PTX and machine code, by Triton 3.x."""
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415 - not in 2.3.1
    from triton.compiler import ASTSource  # noqa: PLC0415 - takes other arguments in 2.3.1

    kernel, given = prefix_prefill._prefill, specialised(job)  # noqa: SLF001 - the kernel has no public name
    signature = {name: given.types.get(name, "constexpr") for name in kernel.arg_names}
    attributes = {(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in given.aligned}
    options = {"num_warps": job.num_warps, "num_stages": job.num_stages}
    source = ASTSource(kernel, signature, given.constants, attributes)
    compiled = triton.compile(source, target=GPUTarget("cuda", job.capability, 32), options=options)
    return int(compiled.metadata.shared), compiled.asm["ptx"], compiled.asm["cubin"]


def compiled_by_2(job: Job) -> tuple[int, str, bytes]:
    """Return the same by Triton 2.3.1, whose own `compile` asks for a driver."""
    from triton.compiler import ASTSource  # noqa: PLC0415 - takes other arguments in 3.x
    from triton.compiler.backends.cuda import CUDABackend  # noqa: PLC0415 - not in 3.x
    from triton.compiler.compiler import AttrsDescriptor  # noqa: PLC0415 - not in 3.x

    kernel, given = prefix_prefill._prefill, specialised(job)  # noqa: SLF001 - the kernel has no public name
    place = kernel.arg_names.index
    aligned = tuple(place(name) for name in given.aligned)
    attributes = AttrsDescriptor(
        aligned, set(), set(), tuple(n for n in aligned if not kernel.arg_names[n].endswith("_ptr"))
    )
    signature = {place(name): kind for name, kind in given.types.items()}
    source = ASTSource(kernel, signature, {place(name): value for name, value in given.constants.items()}, attributes)
    backend = CUDABackend(("cuda", job.capability))
    options = backend.parse_options({"num_warps": job.num_warps, "num_stages": job.num_stages})
    metadata = {"target": ("cuda", job.capability), **options.__dict__, **source.metadata()}
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options)
    made = {"ttir": source.make_ir(options)}
    previous = made["ttir"]
    for name, stage in stages.items():
        previous = made[name] = stage(previous, metadata)
    return int(metadata["shared"]), str(made["ptx"]), made["cubin"]


def measured(job: Job) -> dict[str, int]:
    """Compile, and return what the kernel takes."""
    compiled = compiled_by_2 if triton.__version__.startswith("2.") else compiled_by_3
    shared, ptx, cubin = compiled(job)
    copies = r"cp\.async\.c[ag]\.shared\.global \[[^\]]*\], \[[^\]]*\], 0x10"
    wide = len(re.findall(rf"{copies}|ld\.global\S*\.v4\.b32", ptx))
    narrow = len(re.findall(r"ld\.global(?:\.\w+)*\.[bu]16", ptx))
    return {"shared": shared, **registers(cubin), "loads_16": wide, "loads_2": narrow}


def registers(cubin: bytes) -> dict[str, int]:
    """Return registers and spilled bytes, read off the machine code by the `cuobjdump` that Triton brings."""
    tool = next(Path(triton.__file__).parent.rglob("cuobjdump"))
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True)
    found = re.search(r"REG:(\d+) STACK:(\d+)", done.stdout)
    if found is None:
        raise ValueError(f"cuobjdump says: {done.stdout[-300:]}")
    return {"registers": int(found[1]), "stack": int(found[2])}


if __name__ == "__main__":
    for line in json.load(sys.stdin):
        sys.stdout.write(json.dumps(measured(Job(**line))) + "\n")
        sys.stdout.flush()
