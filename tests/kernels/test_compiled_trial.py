"""Trials of the compiled kernel and of libraries with faults: for the host, in processes that find no Triton."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.kernels.test_compiled_decode import SOURCE, VARIABLE, host_library
from tests.kernels.trial_scene import KERNELS, PACKAGE, Scene
from tests.muh import headers

if TYPE_CHECKING:
    from pathlib import Path

OPERATION = "compiled_decode_v2"
HEAD = f"Compiled kernel {OPERATION}: "
DEPLOYED = ("trust", "trial", "paged_attention_pytorch", "paged_attention_v2_pytorch", "paged_attention_v2_compiled")

NO_TRITON = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "triton" else find(name, package)
"""

ASKS = f"""
import json, logging, sys, types
import torch
lines = []
handler = logging.Handler()
handler.emit = lambda record: lines.append(record.getMessage())
logging.getLogger("vllm.attention.ops.trust").setLevel(logging.INFO)
logging.getLogger("vllm.attention.ops.trust").addHandler(handler)
from {PACKAGE} import paged_attention_v2_compiled as compiled, trial, trust
trial.TOLERANCE[torch.float32] = 1e-5  # a type that the compiled kernel refuses
called = types.SimpleNamespace(paged_attention_v2=compiled.paged_attention_v2_or_pytorch)
kinds = [getattr(torch, name) for name in sys.argv[1:]]
device = torch.device("cpu")
faults = [trial.judge(trial.decode(128, kind, device), called, device).get("fault") for kind in kinds]
loaded = compiled.library.cache_info().currsize
print(json.dumps({{"faults": faults, "loaded": loaded, "log": lines, "live": trust.live()}}))
"""

SIGNATURE = """void* out, float* parts, const void* query, const void* key, const void* value, const int* tables,
    const int* lengths, const float* slopes, long long out_stride, long long query_stride, long long table_stride,
    long long key_stride, long long value_stride, float scale, int bfloat16, int heads, int kv_heads, int head_size,
    int page, int limit, int part, int splits, int seqs, void* stream"""
WRONG = f"""
#define muh_paged_attention_v2 right
#include "{SOURCE}"
#undef muh_paged_attention_v2
extern "C" int muh_paged_attention_v2({SIGNATURE}) {{
  return right(out, parts, query, key, value, tables, lengths, slopes, out_stride, query_stride, table_stride,
               key_stride, value_stride, scale * 0.9f, bfloat16, heads, kv_heads, head_size, page, limit, part, splits,
               seqs, stream);
}}
"""
DOUBLE = """
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
BEFORE
extern "C" int muh_paged_attention_v2_version() { return 1; }
extern "C" int muh_paged_attention_v2_on_host() { return ON_HOST; }
extern "C" int muh_paged_attention_v2(...) { DOES }
"""


@dataclass(frozen=True)
class Fault:
    """What a library does when it is called, or before that, and what its trial says of it."""

    does: str
    said: str
    before: str = ""
    on_host: int = 1


FAULTS = {
    "aborts": Fault('std::fputs("no such layout\\n", stderr); std::abort();', "the process ended with SIGABRT"),
    "aborts when it is loaded": Fault(
        "return 0;",
        "the process ended with SIGABRT and no result",
        before='__attribute__((constructor)) static void begin() { std::fputs("", stderr); std::abort(); }',
    ),
    "reads what is not there": Fault("return *static_cast<volatile int*>(nullptr);", "the process ended with SIGSEGV"),
    "ends its process with a good code": Fault("_exit(0);", "the process ended with exit code 0 and no result"),
    "writes nothing": Fault("return 0;", "float16 with heads of 128: not all values are finite"),
    "cannot launch": Fault("return 98;", "LaunchError: CUDA error 98 when the compiled PagedAttention V2 was launched"),
    "refuses": Fault("return -1;", "it refuses every case: the compiled PagedAttention V2 does not take"),
    "is for a device": Fault(
        "return 0;", "it refuses every case: tensors on cpu are not for a library compiled for another", on_host=0
    ),
}


@pytest.fixture(scope="session")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernel itself, by the host's compiler."""
    return host_library(tmp_path_factory.mktemp("right"), "bi100")


def double(folder: Path, fault: Fault) -> Path:
    """Make the library that has a fault."""
    text = DOUBLE.replace("BEFORE", fault.before).replace("ON_HOST", str(fault.on_host)).replace("DOES", fault.does)
    (folder / "double.cpp").write_text(text, encoding="utf-8")
    headers.compiled(["g++", "-shared", "-fPIC", folder / "double.cpp", "-o", folder / "double.so"])
    return folder / "double.so"


@dataclass(frozen=True)
class Served:
    """What a process saw that decoded: wrong results, libraries that it loaded, its log and what `live` says."""

    faults: list[str | None]
    loaded: int
    log: list[str]
    live: list[dict[str, str]]

    @property
    def line(self) -> str:
        [line] = self.log
        assert line.startswith(HEAD)
        return line.removeprefix(HEAD)

    @property
    def path(self) -> str:
        [row] = self.live
        assert row["operation"] == OPERATION
        return row["path"]


@dataclass(frozen=True)
class Image(Scene):
    """A scene with what the compiled stage deploys, its library beside it, and nothing of Triton."""

    def put(self, library: Path) -> None:
        shutil.copyfile(library, self.package / "paged_attention_v2.so")

    def environment(self, **more: str) -> dict[str, str]:
        return {**super().environment(), "CUDA_VISIBLE_DEVICES": "", **more}

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            env=self.environment(**environment),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def serve(self, *kinds: str, **environment: str) -> Served:
        """Decode in a process of its own, in each type."""
        done = self.run("-c", ASKS, *(kinds or ("float16",)), **environment)
        assert done.returncode == 0, done.stderr
        return Served(**json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture
def image(tmp_path: Path, right: Path) -> Image:
    image = Image(tmp_path, on_gpu=True)  # no interpreter, which is Triton's
    image.package.mkdir(parents=True)
    for name in DEPLOYED:
        shutil.copy(KERNELS / f"{name}.py", image.package)
    (image.package.parent / "sitecustomize.py").write_text(NO_TRITON, encoding="utf-8")
    image.put(right)
    return image


def test_the_kernel_itself_passes_its_trial_and_serves_without_triton(image: Image) -> None:
    first = image.serve("float16", "bfloat16")
    assert first.line.startswith("trusted (trial passed: 4 of 4 cases right, largest error ")
    assert (first.faults, first.loaded, first.path) == ([None, None], 1, "compiled")
    [verdict] = image.kept(".json")
    content = json.loads(verdict.read_text(encoding="utf-8"))
    assert (content["operation"], content["device"], content["triton"]) == (OPERATION, "host", "none")
    assert all(0 < case["error"] < 1e-3 for case in content["figures"])
    written = verdict.stat().st_mtime_ns
    assert image.serve().log == first.log
    assert verdict.stat().st_mtime_ns == written, "it was tried a second time"


def test_a_refusal_is_the_fallback_of_that_call_alone(image: Image) -> None:
    served = image.serve("float32", "float16")
    assert (served.faults, served.loaded, served.path) == ([None, None], 1, "compiled")
    assert served.log[0].startswith(f"{HEAD}trusted (trial passed")
    assert served.log[1].startswith(f"{HEAD}its fallback runs for this call, the kernel refuses it (NotImpl")
    assert len(served.log) == 2


def assert_on_pytorch(image: Image, served: Served, said: str) -> None:
    """Check that a process decoded right without the library, and said why."""
    assert served.line.startswith(f"not trusted, its fallback runs (trial {said}")
    [verdict] = image.kept(".json")
    assert f"; remove {verdict} to try again)" in served.line
    assert (served.faults, served.loaded, served.path) == ([None], 0, "pytorch")
    assert image.kept(".pending") == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_library_with_a_fault_ends_on_pytorch_and_is_not_even_loaded(name: str, image: Image, tmp_path: Path) -> None:
    image.put(double(tmp_path, FAULTS[name]))
    assert_on_pytorch(image, image.serve(), f"failed: {FAULTS[name].said}")


def test_a_library_that_returns_wrong_numbers_ends_on_pytorch(image: Image, tmp_path: Path) -> None:
    (tmp_path / "wrong.cu").write_text(WRONG, encoding="utf-8")
    image.put(host_library(tmp_path, "bi100", source=tmp_path / "wrong.cu"))
    served = image.serve()
    assert_on_pytorch(image, served, "failed: float16 with heads of 128: the largest error is 0.")
    [verdict] = image.kept(".json")
    written = verdict.stat().st_mtime_ns
    assert image.serve().log == served.log
    assert verdict.stat().st_mtime_ns == written, "it was tried a second time"


def test_a_library_that_hangs_is_killed_and_ends_on_pytorch(image: Image, tmp_path: Path) -> None:
    image.put(double(tmp_path, Fault("for (;;) pause();", "")))
    served = image.serve(VLLM_TRITON_TRIAL_TIMEOUT_S="20")
    assert_on_pytorch(image, served, "hung: no result within 20 s (VLLM_TRITON_TRIAL_TIMEOUT_S), it was killed")


@pytest.mark.parametrize("content", [b"", b"no library"])
def test_what_is_no_library_ends_on_pytorch(content: bytes, image: Image, tmp_path: Path) -> None:
    (tmp_path / "v2").write_bytes(content)
    image.put(tmp_path / "v2")
    assert_on_pytorch(image, image.serve(), "failed: it refuses every case: there is no compiled PagedAttention V2: ")


def test_a_library_that_changed_is_tried_again(image: Image, right: Path, tmp_path: Path) -> None:
    assert image.serve().path == "compiled"
    other = tmp_path / "other.so"
    other.write_bytes(right.read_bytes() + b"\0")
    image.put(other)
    assert image.serve().path == "compiled"
    assert len(image.kept(".json")) == 2
    image.put(double(tmp_path, FAULTS["aborts"]))
    served = image.serve()
    assert (served.faults, served.path) == ([None], "pytorch")
    assert len(image.kept(".json")) == 3
    image.put(right)
    assert image.serve().path == "compiled"
    assert len(image.kept(".json")) == 3


def test_another_library_may_be_named_by_a_path_from_the_current_folder(
    image: Image, right: Path, tmp_path: Path
) -> None:
    image.put(double(tmp_path, FAULTS["aborts"]))
    shutil.copyfile(right, image.folder / "v2.so")
    for path in ("v2.so", "./v2.so", str(image.folder / "v2.so")):
        served = image.serve(**{VARIABLE: path})
        assert (served.faults, served.loaded, served.path) == ([None], 1, "compiled")
    assert len(image.kept(".json")) == 1


def test_a_library_that_is_not_there_is_no_trial(image: Image) -> None:
    (image.package / "paged_attention_v2.so").unlink()
    served = image.serve(VLLM_TRITON_TRUST="all")
    said = f"there is no compiled library {image.package / 'paged_attention_v2.so'}"
    assert served.line == f"not trusted, its fallback runs ({said})"
    assert (served.faults, served.loaded, served.path) == ([None], 0, "pytorch")
    assert image.kept(".json") == []


@pytest.mark.parametrize(("value", "path"), [("none", "pytorch"), ("prefix_prefill", "pytorch"), ("all", "compiled")])
def test_the_user_s_word_holds_for_it_too(value: str, path: str, image: Image) -> None:
    served = image.serve(VLLM_TRITON_TRUST=value)
    assert served.line.partition(" (VLLM_TRITON_TRUST=")[2].startswith(value)
    assert (served.faults, served.loaded, served.path) == ([None], int(path == "compiled"), path)
    assert image.kept(".json") == []


def test_only_what_is_deployed_is_tried_before_a_server_starts(image: Image) -> None:
    done = image.run("-m", f"{PACKAGE}.trust")
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    assert line.startswith(f"{HEAD}trusted (trial passed: 4 of 4 cases right")
    assert image.serve().log == [line]
    (image.package / "prefix_prefill.py").touch()
    done = image.run("-m", f"{PACKAGE}.trust")
    assert done.returncode == 1
    assert "Triton prefix_prefill: not trusted, its fallback runs (Triton is not installed)" in done.stdout
