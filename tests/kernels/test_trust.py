"""The policy that says which kernels may run."""

import importlib.util
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

SOURCE = Path(__file__).parents[2] / "kernels" / "trust.py"
LOGGER = "vllm.attention.ops.trust"


def fresh() -> ModuleType:
    """Return the module as a process that has decided nothing yet has it, loaded from its file alone."""
    spec = importlib.util.spec_from_file_location("trust_in_a_new_process", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _world(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Triton and a library are there, nothing has been decided, and nobody's own cache is touched."""
    for name in [name for name in os.environ if name.startswith("VLLM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("VLLM_TRITON_TRUST_CACHE", str(tmp_path / "verdicts"))
    (tmp_path / "v2.so").write_bytes(b"never loaded here")
    monkeypatch.setenv("VLLM_PAGED_ATTENTION_V2_LIBRARY", str(tmp_path / "v2.so"))
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text('__version__ = "9.9.1"\n', encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    caplog.set_level(logging.INFO, logger=LOGGER)


UNTRIED = "this file was loaded outside its package, no trial can be started"
PATHS = {"prefix_prefill": "triton", "paged_decode_v2": "triton", "compiled_decode_v2": "compiled"}
EVERY = set(PATHS)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("none", set()),
        ("0", set()),
        ("off", set()),
        ("all", EVERY),
        ("1", EVERY),
        ("ON", EVERY),
        ("prefix_prefill", {"prefix_prefill"}),
        ("paged_decode_v2", {"paged_decode_v2"}),
        ("compiled_decode_v2", {"compiled_decode_v2"}),
        (" Prefix_Prefill , paged_decode_v2,", {"prefix_prefill", "paged_decode_v2"}),
        ("prefix_prefil", set()),
        ("prefix_prefil,paged_decode_v2", {"paged_decode_v2"}),
        ("all,prefix_prefill", {"prefix_prefill"}),
        ("none,prefix_prefill", {"prefix_prefill"}),
    ],
)
def test_the_variable_decides(value: str, expected: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_TRITON_TRUST", value)
    trust = fresh()
    assert {operation for operation in PATHS if trust.trusted(operation)} == expected
    found = {row["operation"]: row["path"] for row in trust.live()}
    assert found == {name: path if name in expected else "pytorch" for name, path in PATHS.items()}


@pytest.mark.parametrize("value", [None, "", " , ", "trial", "TRIAL"])
def test_a_trial_decides_unless_the_variable_does(
    value: str | None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv("VLLM_TRITON_TRUST", value)
    trust = fresh()
    assert not trust.trusted("prefix_prefill")
    assert UNTRIED in caplog.text
    [row, _, compiled] = trust.live()
    assert row["path"] == compiled["path"] == "undecided"
    assert row["reason"].endswith("for this kernel and Triton 9.9.1: the first use starts a trial")
    library = os.environ["VLLM_PAGED_ATTENTION_V2_LIBRARY"]
    assert compiled["reason"].endswith(f"for this kernel and {library}: the first use starts a trial")


@pytest.mark.parametrize("value", [None, "all", "prefix_prefill"])
def test_without_triton_its_operations_are_not_trusted(
    value: str | None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv("VLLM_TRITON_TRUST", value)
    trust = fresh()
    monkeypatch.setattr(trust.importlib.util, "find_spec", lambda _: None)
    assert not trust.trusted("prefix_prefill")
    assert "(Triton is not installed)" in caplog.text
    assert [row["reason"] for row in trust.live()][:2] == ["Triton is not installed"] * 2


@pytest.mark.parametrize("value", [None, "all", "compiled_decode_v2"])
def test_without_its_library_the_compiled_operation_is_not_trusted(
    value: str | None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if value is not None:
        monkeypatch.setenv("VLLM_TRITON_TRUST", value)
    (tmp_path / "v2.so").unlink()
    trust = fresh()
    said = f"there is no compiled library {tmp_path / 'v2.so'}"
    assert not trust.trusted("compiled_decode_v2")
    assert caplog.messages == [f"Compiled kernel compiled_decode_v2: not trusted, its fallback runs ({said})"]
    assert [row["reason"] for row in trust.live() if row["operation"] == "compiled_decode_v2"] == [said]


@pytest.mark.parametrize("value", ["all", "compiled_decode_v2"])
def test_the_compiled_operation_needs_no_triton(
    value: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_TRITON_TRUST", value)
    trust = fresh()
    monkeypatch.setattr(trust.importlib.util, "find_spec", lambda _: None)
    assert trust.trusted("compiled_decode_v2")
    assert caplog.messages[0].startswith(f"Compiled kernel compiled_decode_v2: trusted (VLLM_TRITON_TRUST={value}")


def test_a_library_is_looked_for_at_its_path_and_nowhere_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trust = fresh()
    monkeypatch.chdir(tmp_path)
    for text, path in (("v2.so", tmp_path / "v2.so"), ("", SOURCE.with_name("paged_attention_v2.so"))):
        monkeypatch.setenv("VLLM_PAGED_ATTENTION_V2_LIBRARY", text)
        assert trust.library_path("compiled_decode_v2") == str(path)
    assert trust.library_path("prefix_prefill") == ""


def test_what_is_not_deployed_is_not_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VLLM_TRITON_TRUST", "all")
    trust = fresh()
    for kernels in ([], ["prefix_prefill"], ["paged_attention_v2_compiled", "prefix_prefill"]):
        folder = tmp_path / str(len(kernels))
        folder.mkdir()
        for kernel in kernels:
            (folder / f"{kernel}.py").touch()
        monkeypatch.setattr(trust, "__file__", str(folder / "trust.py"))
        found = {row["operation"] for row in trust.live()}
        assert found == {name for name in PATHS if trust.OPERATIONS[name].kernel in kernels}
        assert set(trust.deployed()) == found


def test_each_operation_says_its_decision_and_the_reason_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_TRITON_TRUST", "prefix_prefill")
    trust = fresh()
    for _ in range(3):
        trust.trusted("prefix_prefill")
        trust.trusted("paged_decode_v2")
    variable = "VLLM_TRITON_TRUST=prefix_prefill"
    assert [(record.name, record.levelname, record.getMessage()) for record in caplog.records] == [
        (LOGGER, "INFO", f"Triton prefix_prefill: trusted ({variable} names it)"),
        (
            LOGGER,
            "INFO",
            f"Triton paged_decode_v2: not trusted, its fallback runs ({variable} does not name it)",
        ),
    ]


def test_threads_that_ask_together_get_one_line(caplog: pytest.LogCaptureFixture) -> None:
    trust = fresh()
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        trust.trusted("prefix_prefill")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [record.getMessage() for record in caplog.records] == [
        f"Triton prefix_prefill: not trusted, its fallback runs ({UNTRIED})"
    ]


FORKS = """
import logging, os, sys
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
sys.path[:0] = sys.argv[1:]
import trust
trust.trusted("prefix_prefill")
trust._lock.acquire()  # as another thread may that decides while this one forks
sys.stdout.flush()
child = os.fork()
if child == 0:
    trust.trusted("prefix_prefill")
    sys.stdout.flush()
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


def test_a_forked_process_decides_for_itself_and_says_its_own_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(SOURCE.parent), str(tmp_path)],
        env={**os.environ, "VLLM_TRITON_TRUST": "all"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == ["Triton prefix_prefill: trusted (VLLM_TRITON_TRUST=all)"] * 2


def test_a_decision_holds_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    trust = fresh()
    monkeypatch.setenv("VLLM_TRITON_TRUST", "none")
    assert not trust.trusted("prefix_prefill")
    monkeypatch.setenv("VLLM_TRITON_TRUST", "all")
    assert not trust.trusted("prefix_prefill")
    assert trust.trusted("paged_decode_v2")


@pytest.mark.parametrize(
    ("value", "warnings"),
    [
        ("prefix_prefil", ["'prefix_prefil', it trusts nothing; did you mean 'prefix_prefill'?"]),
        ("xyz", ["it trusts nothing; there are: prefix_prefill, paged_decode_v2, compiled_decode_v2"]),
        ("al", ["did you mean 'all'?"]),
        ("paged_decode,xyz", ["did you mean 'paged_decode_v2'?", "'xyz', it trusts nothing"]),
        ("all,prefix_prefill", ["'all' stands alone or not at all"]),
        ("trial,prefix_prefill", ["'trial' stands alone or not at all"]),
        ("prefix_prefill", []),
        ("all", []),
    ],
)
def test_unknown_names_are_reported_once(
    value: str, warnings: list[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_TRITON_TRUST", value)
    trust = fresh()
    for operation in ("prefix_prefill", "paged_decode_v2", "prefix_prefill"):
        trust.trusted(operation)
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(found) == len(warnings)
    for message, part in zip(found, warnings, strict=True):
        assert part in message


def test_asking_for_an_unknown_operation_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_TRITON_TRUST", "all")
    with pytest.raises(ValueError, match=r"'prefix_prefil'; did you mean 'prefix_prefill'\?"):
        fresh().trusted("prefix_prefil")


def test_importing_decides_and_says_nothing(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_TRITON_TRUST", "nonsense")
    trust = fresh()
    assert caplog.records == []
    monkeypatch.setenv("VLLM_TRITON_TRUST", "all")
    assert trust.trusted("prefix_prefill")


# ------------------------------------------------------------------------------------------------ while serving


def raising(error: BaseException) -> Callable[..., NoReturn]:
    def function(*_: object, **__: object) -> NoReturn:
        raise error

    return function


class OutOfMemoryError(RuntimeError):
    """As torch's own, which is found by its name."""


class AcceleratorError(RuntimeError):
    """As torch's own."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.error_code = code


@pytest.fixture
def trust(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module where everything is trusted."""
    monkeypatch.setenv("VLLM_TRITON_TRUST", "all")
    return fresh()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]


def test_a_trusted_operation_is_carried_out_with_its_arguments(trust: ModuleType) -> None:
    calls: list[object] = []

    def function(*args: object, **kwargs: object) -> bool:
        calls.append((args, kwargs))
        return False

    assert trust.attempt("prefix_prefill", function, 1, 2, scale=3)
    assert calls == [((1, 2), {"scale": 3})]


def test_an_operation_that_is_not_trusted_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_TRITON_TRUST", "none")
    assert not fresh().attempt("prefix_prefill", raising(AssertionError("called")))


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (NotImplementedError("fp8 cache"), "the kernel refuses it (NotImplementedError: fp8 cache)"),
        (OutOfMemoryError("CUDA out of memory. Tried 20 MiB"), "memory ran out (OutOfMemoryError)"),
        (RuntimeError("Triton Error [CUDA]: out of memory"), "memory ran out (RuntimeError)"),
        (MemoryError(), "memory ran out (MemoryError)"),
    ],
)
def test_a_call_that_cannot_be_served_takes_its_fallback_and_the_operation_stays_trusted(
    error: Exception, line: str, trust: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        assert not trust.attempt("prefix_prefill", raising(error))
        assert trust.trusted("prefix_prefill")
    assert said(caplog) == [f"Triton prefix_prefill: its fallback runs for this call, {line}"]
    assert [row["path"] for row in trust.live()] == ["triton", "triton", "compiled"]


def test_refusals_for_ever_new_reasons_do_not_fill_the_log(trust: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    for tokens in range(1000):
        assert not trust.attempt("prefix_prefill", raising(NotImplementedError(f"{tokens} tokens")))
    assert 1 < len(said(caplog)) < 40
    assert len(trust._said) < 40  # noqa: SLF001 - memory that must not grow shows nowhere else


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (RuntimeError("shared memory, Required: 90112\nmore"), "RuntimeError: shared memory, Required: 90112"),
        (ValueError(), "ValueError"),
        (AcceleratorError("CUDA error: invalid argument", 1), "AcceleratorError: CUDA error: invalid argument"),
    ],
)
def test_after_any_other_exception_the_operation_is_off_for_this_process(
    error: Exception, what: str, trust: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    assert not trust.attempt("prefix_prefill", raising(error))
    assert not trust.trusted("prefix_prefill")
    assert not trust.attempt("prefix_prefill", raising(AssertionError("called again")))
    assert trust.trusted("paged_decode_v2")
    assert said(caplog) == [f"Triton prefix_prefill: not trusted any more in this process, its fallback runs ({what})"]


def test_what_follows_from_a_compiled_kernel_s_errors_is_said_of_it(
    trust: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    assert not trust.attempt("compiled_decode_v2", raising(NotImplementedError("float32")))
    assert trust.trusted("compiled_decode_v2")
    with pytest.raises(AcceleratorError):
        trust.attempt("compiled_decode_v2", raising(AcceleratorError("CUDA error 700 when it was launched", 700)))
    lines = said(caplog)
    assert lines[0].startswith(
        "Compiled kernel compiled_decode_v2: its fallback runs for this call, the kernel refuses"
    )
    assert lines[1].startswith("Compiled kernel compiled_decode_v2: this error ends the use of the device")
    assert not trust.trusted("compiled_decode_v2")


FINAL = [
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("Triton Error [CUDA]: device-side assert triggered"),
    RuntimeError("CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronously reported"),
    RuntimeError("CUDA error: misaligned address"),
    RuntimeError("CUDA error: the launch timed out and was terminated"),
    RuntimeError("CUDA error: uncorrectable ECC error encountered"),
    RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS"),
    RuntimeError("cudaErrorLaunchFailure"),
    AcceleratorError("no text that is known", 700),
]


@pytest.mark.parametrize("error", FINAL, ids=str)
def test_an_error_after_which_the_device_is_lost_is_raised(
    error: Exception, trust: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(type(error)) as raised:
        trust.attempt("prefix_prefill", raising(error))
    assert raised.value is error
    [line] = said(caplog)
    assert line.startswith("Triton prefix_prefill: this error ends the use of the device, the error is raised (")
    assert not trust.trusted("prefix_prefill")


class Torch:
    """A torch whose device answers as told; what is asked of it is counted."""

    def __init__(self, answer: Exception | None, *, capturing: bool = False, initialized: bool = True) -> None:
        self.cuda = self
        self.asked = 0
        self.answer = answer
        self.is_initialized = lambda: initialized
        self.is_current_stream_capturing = lambda: capturing

    def synchronize(self) -> None:
        self.asked += 1
        if self.answer:
            raise self.answer

    def zeros(self, *_: object, **__: object) -> "Torch":
        return self

    def item(self) -> float:
        return 0.0


def test_a_device_that_does_not_answer_afterwards_is_lost_whatever_the_error_said(
    trust: ModuleType, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", Torch(RuntimeError("CUDA error: gone")))
    with pytest.raises(KeyError):
        trust.attempt("prefix_prefill", raising(KeyError("grid")))
    [line] = said(caplog)
    assert line == (
        "Triton prefix_prefill: the device does not answer any more: RuntimeError: CUDA error: gone, "
        "the error is raised (KeyError: 'grid')"
    )


@pytest.mark.parametrize(
    ("torch", "asked"),
    [
        (Torch(None), 1),
        (Torch(RuntimeError("CUDA out of memory")), 1),
        (Torch(RuntimeError("not while a graph is captured"), capturing=True), 0),
        (Torch(RuntimeError("no device"), initialized=False), 0),
    ],
)
def test_a_device_that_answers_or_cannot_be_asked_is_not_lost(
    torch: Torch, asked: int, trust: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert not trust.attempt("prefix_prefill", raising(KeyError("grid")))
    assert torch.asked == asked


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()], ids=repr)
def test_what_is_no_exception_passes_and_changes_nothing(error: BaseException, trust: ModuleType) -> None:
    with pytest.raises(type(error)):
        trust.attempt("prefix_prefill", raising(error))
    assert trust.trusted("prefix_prefill")


# ------------------------------------------------------------------------------------------------ what live says


def notes() -> list[Path]:
    return sorted(Path(os.environ["VLLM_TRITON_TRUST_CACHE"]).glob("switched-*"))


def test_a_living_process_that_switched_is_told_and_one_that_ended_is_forgotten(trust: ModuleType) -> None:
    assert not trust.attempt("prefix_prefill", raising(RuntimeError("out of registers")))
    [note] = notes()
    reason = f"process {os.getpid()} has switched to it: RuntimeError: out of registers"
    expected = {"operation": "prefix_prefill", "path": "pytorch", "reason": reason}
    other = fresh()
    assert [row for row in other.live() if "switched" in row["reason"]] == [expected]
    assert [row["path"] for row in other.live()] == ["triton", "pytorch", "triton", "compiled"]
    content = json.loads(note.read_text(encoding="utf-8"))
    boot, space, started = content["identity"]
    another_container = note.with_name("switched-prefix_prefill-77.json")
    another_container.write_text(json.dumps({**content, "identity": [boot, space + "1", started]}), encoding="utf-8")
    gone: dict[str, dict[str, object]] = {
        "an id that was given again": {"identity": [boot, space, "1"]},
        "an ended process": {"process": 2**22 + 1},
        "an earlier start of this machine": {"identity": ["1-2-3", space, started]},
    }
    for name, changes in gone.items():
        note.write_text(json.dumps({**content, **changes}), encoding="utf-8")
        assert [row["path"] for row in other.live()] == ["triton", "triton", "compiled"], name
        assert notes() == [another_container], name


def test_notes_that_are_none_are_passed_over(trust: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "verdicts").mkdir()
    for number, text in enumerate(("", "[]", "{}", '{"process": 1}', '{"process": "x", "identity": [1, 2, 3]}')):
        (tmp_path / "verdicts" / f"switched-prefix_prefill-{number}.json").write_text(text, encoding="utf-8")
    assert [row["path"] for row in trust.live()] == ["triton", "triton", "compiled"]


def test_a_folder_that_cannot_be_written_keeps_no_process_from_its_fallback(trust: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "verdicts").write_text("a file in its place", encoding="utf-8")
    assert not trust.attempt("prefix_prefill", raising(RuntimeError("out of registers")))
    assert [row["path"] for row in trust.live()] == ["triton", "triton", "compiled"]
