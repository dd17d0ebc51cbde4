"""Which kernels may run: on a device that a kernel can hang for good, none does before it has been tried.

An operation that is asked for the first time is tried in a child process with a time limit: `trial.py` beside this file
compiles its kernel, runs it on small inputs and compares it with the PyTorch path. The verdict is kept for this device,
driver, Triton and kernel, so that one trial serves all ranks and later starts; for a kernel that the image's compiler
made, the bytes of its library stand in Triton's place, and nothing of it is loaded before. A mark is written before a
trial begins and removed after it; one that is found later means that the trial was cut off, perhaps by a device that
hung, and the operation is not trusted until somebody removes it.

The variables are named after Triton, whose kernels were the first; they hold for every operation:

    VLLM_TRITON_TRUST             unset or `trial`: as above. `all`, `on` or `1`: trusted without a trial; `none`, `off`
                                  or `0`: not; operations separated by commas: these without a trial, no others
    VLLM_TRITON_TRUST_CACHE       folder of the verdicts; default `triton_trust` in vLLM's cache folder
    VLLM_TRITON_TRIAL_TIMEOUT_S   time limit of a trial in seconds; default 180

Nothing is decided at import, and a decision holds for the process: callers may ask at every step. Since a trial needs
memory on the device, a server that leaves it none can have its trials before it starts:

    python3 -m vllm.attention.ops.trust

The file imports only the standard library, runs unchanged on Python 3.8 and newer, and answers `live` on its own.
"""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import hashlib
import importlib.util
import json
import logging
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

VARIABLE = "VLLM_TRITON_TRUST"
CACHE = "VLLM_TRITON_TRUST_CACHE"
TIMEOUT = "VLLM_TRITON_TRIAL_TIMEOUT_S"
GUARD = "VLLM_TRITON_TRIAL"
"""Set in the child process to the id of its parent: there nothing is trusted, or a trial would start another."""
DEVICE = "VLLM_TRITON_TRIAL_DEVICE"
"""Set in the child process to the index of its parent's device."""


class Library(NamedTuple):
    """A library that the image's compiler made: its file beside this one, and the variable that may name another."""

    variable: str
    file: str

    @property
    def path(self) -> str:
        """Where it is looked for; relative paths are those of the current folder, and nothing is searched."""
        return os.path.abspath(os.environ.get(self.variable) or os.path.join(os.path.dirname(__file__), self.file))  # noqa: PTH100, PTH118, PTH120 - for ctypes


class Operation(NamedTuple):
    """The module that holds the kernel, and those besides it that a verdict depends on; some may not be deployed.

    A kernel that has no library is Triton's.
    """

    kernel: str
    others: tuple[str, ...]
    library: Library | None = None

    @property
    def path(self) -> str:
        """What `live` calls the path that the kernel takes."""
        return "compiled" if self.library else "triton"

    @property
    def title(self) -> str:
        """What a line of the log begins with."""
        return "Compiled kernel" if self.library else "Triton"


_OTHERS = ("muh_dispatch", "paged_attention_pytorch", "trial", "trust")

OPERATIONS = {
    "prefix_prefill": Operation("prefix_prefill", _OTHERS),
    "paged_decode_v2": Operation("paged_attention_v2_triton", _OTHERS),
    "compiled_decode_v2": Operation(
        "paged_attention_v2_compiled",
        _OTHERS[1:],
        Library("VLLM_PAGED_ATTENTION_V2_LIBRARY", "paged_attention_v2.so"),
    ),
}
"""Operations that have a path besides PyTorch's; which of them are deployed is another matter."""

_EVERY = ("all", "on", "1")
_NO = ("none", "off", "0")
_TRY = ("trial",)
_WORDS = _EVERY + _NO + _TRY

_DEFAULT_LIMIT_S = 180.0
_MARGIN_S = 30.0  # others wait for a trial as long as it may take, and this much longer
_KILL_S = 10.0  # a process that a kill has not ended by then waits for its device, and may do so for ever
_MOST_LINES = 32
_LONGEST_REASON = 400
_TAIL_BYTES = 1 << 16

# vLLM configures only loggers below "vllm", and this file's own name differs between the repository and the image.
_logger = logging.getLogger("vllm.attention.ops.trust")
_lock = threading.Lock()
_decisions: dict[str, Decision] = {}
_said: set[tuple[str, str]] = set()


class Decision(NamedTuple):
    """Whether an operation is trusted, and why; one that does not last is made anew when it is asked for again."""

    trusted: bool
    reason: str
    lasts: bool = True


def trusted(operation: str) -> bool:
    """Return whether the kernel of `operation` may be used; says so in the log once per process and operation.

    The first call may take as long as a trial, later ones look up a dictionary.

    Raises:
        ValueError: There is no such operation.
    """
    decision = _decisions.get(operation)
    return (decision or _first_time(operation)).trusted


def attempt(operation: str, function: Callable[..., object], *args: Any, **kwargs: Any) -> bool:  # noqa: ANN401 - any
    """Call `function` with the rest, if `operation` is trusted; return whether that was done, so no fallback is needed.

    Where it raises, the caller takes its fallback (False is returned), and one line says so:

    - `NotImplementedError` is a refusal of these inputs before any launch: the operation stays trusted.
    - So it does when memory ran out: that says nothing about the kernel, and nothing was launched without its memory.
      The fallback works in tiles of a bounded size; if they do not fit either, it raises by itself.
    - After any other exception the operation is not trusted any more in this process.

    An error after which the device answers nothing more is raised again, as is whatever is not an `Exception`.

    Raises:
        ValueError: There is no such operation.
    """
    if not trusted(operation):
        return False
    try:
        function(*args, **kwargs)
    except Exception as error:
        if _is_final(operation, error):
            raise
        return False
    return True


def library_path(operation: str) -> str:
    """Return where the library of `operation` is looked for, which is where its trial looks; empty if it has none."""
    library = OPERATIONS[operation].library
    return library.path if library is not None else ""


def live() -> list[dict[str, str]]:
    """Return which path each operation takes and why, as far as the environment and the folder of verdicts tell.

    Needs neither Triton nor a device; it sees the environment of the process that asks. A row has `operation`, `path`
    (`triton`, `compiled`, `pytorch`, or `undecided` where the first use will start a trial) and `reason`. An operation
    has several rows where verdicts of several devices are kept, and one for each living process that switched to its
    fallback; it has none where its kernel is not deployed.
    """
    rows = []
    for operation in deployed():
        decision = _said_by_environment(operation, os.environ)
        if decision is not None:
            found = [(OPERATIONS[operation].path if decision.trusted else "pytorch", decision.reason)]
        else:
            found = list(_kept_verdicts(operation))
        found += _switched(operation)
        rows += [{"operation": operation, "path": path, "reason": reason} for path, reason in found]
    return rows


def deployed() -> list[str]:
    """Return the operations whose kernels stand beside this file."""
    here = Path(__file__)
    return [name for name, operation in OPERATIONS.items() if here.with_name(f"{operation.kernel}.py").exists()]


# ------------------------------------------------------------------------------------------------------------ decisions


def _first_time(operation: str) -> Decision:
    if operation not in OPERATIONS:
        raise ValueError(f"no such operation: {operation!r}{_did_you_mean(operation, tuple(OPERATIONS))}")
    with _lock:
        decision = _decisions.get(operation)
        if decision is None:
            _warn_of_unknown_names()
            decision = _said_by_environment(operation, os.environ) or _tried(operation, os.environ)
            if decision.lasts:
                _decisions[operation] = decision
            verdict = "trusted" if decision.trusted else "not trusted, its fallback runs"
            _say_once(operation, logging.INFO, f"{verdict} ({decision.reason})")
    return decision


def _forget() -> None:
    """Let a forked process decide, and say so, for itself; another thread may have held the lock when it was made."""
    global _lock  # noqa: PLW0603 - a lock that is held by nobody can only be replaced
    _lock = threading.Lock()
    _decisions.clear()
    _said.clear()


os.register_at_fork(after_in_child=_forget)


def _said_by_environment(operation: str, environ: Mapping[str, str]) -> Decision | None:
    """Return the decision that the environment makes; None where a trial does."""
    if environ.get(GUARD):
        return Decision(False, f"{GUARD} is set: this process is a trial")
    library = library_path(operation)
    if library and not os.path.isfile(library):  # noqa: PTH113 - a text
        return Decision(False, f"there is no compiled library {library}")
    if not library and importlib.util.find_spec("triton") is None:
        return Decision(False, "Triton is not installed")
    names = _names(environ)
    if not names or (len(names) == 1 and names[0] in _TRY):
        return None
    said = f"{VARIABLE}={environ[VARIABLE]}"
    if len(names) == 1 and names[0] in _EVERY + _NO:
        return Decision(names[0] in _EVERY, said)
    if operation in names:
        return Decision(True, f"{said} names it")
    return Decision(False, f"{said} does not name it")


def _names(environ: Mapping[str, str]) -> list[str]:
    """Return the words of the variable, in lower case."""
    return [word for word in (part.strip().lower() for part in environ.get(VARIABLE, "").split(",")) if word]


def _warn_of_unknown_names() -> None:
    """Warn of words that name no operation, once per process; they trust nothing."""
    names = _names(os.environ)
    if len(names) == 1 and names[0] in _WORDS:
        return
    for name in names:
        if name in _WORDS:
            message = f"{name!r} stands alone or not at all, it trusts nothing here"
        elif name not in OPERATIONS:
            hint = _did_you_mean(name, tuple(OPERATIONS) + _WORDS)
            message = f"no such operation: {name!r}, it trusts nothing{hint}"
        else:
            continue
        if (VARIABLE, message) not in _said:
            _said.add((VARIABLE, message))
            _logger.warning("%s: %s", VARIABLE, message)


def _did_you_mean(name: str, known: tuple[str, ...]) -> str:
    """Return a suggestion that can follow a message."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(known)}"


def _say_once(operation: str, level: int, message: str) -> None:
    """Log a line about an operation unless this process has said it; refusals may name shapes, so lines are counted."""
    if (operation, message) not in _said and len(_said) < _MOST_LINES:
        _said.add((operation, message))
        _logger.log(level, "%s %s: %s", OPERATIONS[operation].title, operation, message)


# ----------------------------------------------------------------------------------------------- failures while serving

# What CUDA says after errors that leave the context unusable (cudaErrorIllegalAddress and its like).
_FINAL_TEXT = re.compile(
    r"illegal memory access|illegal.?address|illegal instruction|misaligned.?address|device.?side.?assert"
    r"|launch.?failure|launch.?failed|launch.?timed? ?out|invalid program counter|invalid address space|hardware stack"
    r"|uncorrectable|context is destroyed",
    re.IGNORECASE,
)
_FINAL_CODES = frozenset({214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999})  # of cudaError and CUresult
_NO_MEMORY = frozenset({"OutOfMemoryError", "MemoryError"})


def _is_final(operation: str, error: Exception) -> bool:
    """Say in the log what follows from an exception of a trusted operation; return whether the device is lost."""
    what = _one_line(error)
    text = str(error)
    if isinstance(error, NotImplementedError):
        _say_once(operation, logging.WARNING, f"its fallback runs for this call, the kernel refuses it ({what})")
        return False
    lost = _lost(error)
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if not lost and (kinds & _NO_MEMORY or "out of memory" in text):
        kind = type(error).__name__
        _say_once(operation, logging.WARNING, f"its fallback runs for this call, memory ran out ({kind})")
        return False
    with _lock:
        _decisions[operation] = Decision(False, f"it failed in this process: {what}")
    named = f"{OPERATIONS[operation].title} {operation}"
    if lost:
        _logger.error("%s: %s, the error is raised (%s)", named, lost, what)
    else:
        _logger.warning("%s: not trusted any more in this process, its fallback runs (%s)", named, what)
    _leave_note(operation, what)
    return bool(lost)


def _lost(error: Exception) -> str:
    """Return how it is known that the device cannot be used any more by this process; empty if it can."""
    if _FINAL_TEXT.search(str(error)) or getattr(error, "error_code", None) in _FINAL_CODES:
        return "this error ends the use of the device"
    torch = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_initialized() or torch.cuda.is_current_stream_capturing():
            return ""  # nothing may be asked while a graph is captured
        torch.cuda.synchronize()
        torch.zeros(1, device="cuda").item()
    except Exception as other:  # noqa: BLE001 - any answer but a good one
        if "out of memory" not in str(other):
            return f"the device does not answer any more: {_one_line(other)}"
    return ""


def _one_line(error: BaseException) -> str:
    """Return an exception's type and the first line of its text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:_LONGEST_REASON] if lines else type(error).__name__


# ------------------------------------------------------------------------------------------------------------ the trial


class _Device(NamedTuple):
    name: str
    driver: str
    ordinal: str


class _Key(NamedTuple):
    """What a verdict is good for."""

    operation: str
    device: str
    driver: str
    triton: str  # "none" where the kernel is not Triton's
    digest: str

    @property
    def name(self) -> str:
        whole = json.dumps(self, ensure_ascii=False).encode()
        return f"{self.operation}-{hashlib.sha256(whole).hexdigest()[:16]}"


class _Outcome(NamedTuple):
    """How a trial ended: `passed`, `failed`, `hung`, or `unknown` where that says nothing about the kernel."""

    word: str
    reason: str
    gone: bool = True
    """Whether the process has ended; one that waits for its device cannot even be killed."""
    figures: Any = None
    """What the trial measured, case by case."""


def _tried(operation: str, environ: Mapping[str, str]) -> Decision:
    """Return the decision of the trial that was, or of one that is carried out now."""
    if not __package__:
        return Decision(False, "this file was loaded outside its package, no trial can be started")
    limit = _limit(environ)
    if limit is None:
        return Decision(False, f"{TIMEOUT}={environ[TIMEOUT]!r} is not a number of seconds above 0")
    try:
        device = _device(operation)
        if device is None:
            return Decision(False, "this process uses no CUDA device yet; it is asked again once it does", lasts=False)
        digest = _digest(operation)
    except Exception as error:  # noqa: BLE001 - torch raises what it likes where a device does not answer
        return Decision(False, f"kernel and device cannot be told: {_one_line(error)}")
    folder = _folder(environ)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        store = _Store(folder, _Key(operation, device.name, device.driver, _triton_version(operation), digest))
        return store.verdict() or _one_trial(store, device, limit)
    except OSError as error:
        what = f"{error.strerror or error} ({error.filename or folder})"
        return Decision(False, f"verdicts cannot be kept: {what}; set {CACHE} to a folder that can be written")


def _one_trial(store: _Store, device: _Device, limit: float) -> Decision:
    with store.locked(limit + _MARGIN_S) as held:
        if not held:
            return Decision(False, f"another process has held {store.path('.lock')} for over {limit + _MARGIN_S:g} s")
        kept = store.verdict() or store.cut_off()
        if kept is not None:
            return kept
        store.mark()
        outcome = _carry_out(store, device, limit)
        if outcome.word == "unknown":
            if outcome.gone:
                store.unmark()
            return Decision(False, f"no verdict, the next process tries again: {outcome.reason}")
        try:
            store.keep(outcome)
        except OSError as error:
            # Without a verdict the mark of a device that may have hung has to stay.
            if outcome.word != "hung":
                store.unmark()
            what = f"trial {outcome.word}: {outcome.reason}; the verdict cannot be kept: {error.strerror}"
            return Decision(outcome.word == "passed", what)
        store.unmark()
        return store.verdict() or Decision(False, "the verdict was removed")


def _carry_out(store: _Store, device: _Device, limit: float) -> _Outcome:
    """Run the trial in a child process; every wait is bounded."""
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)  # noqa: PTH100 - '' means the current folder
    environ = {**os.environ, "PYTHONPATH": paths, GUARD: str(os.getpid()), DEVICE: device.ordinal}
    library = OPERATIONS[store.key.operation].library
    if library is not None:
        environ[library.variable] = library.path  # the child runs in another folder
    command = [sys.executable, "-m", f"{__package__}.trial", store.key.operation]
    begin = time.monotonic()
    # Files take what is written whatever becomes of the readers; pipes could block both sides.
    with tempfile.TemporaryFile(dir=str(store.folder)) as out, tempfile.TemporaryFile(dir=str(store.folder)) as err:
        try:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environ,
                cwd="/",  # -m puts it in front of the path
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return _Outcome("unknown", f"{sys.executable or 'an interpreter'} cannot be started: {error}")
        code = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(limit)
        except BaseException:
            if _end(process):
                store.unmark()
            raise
        gone = _end(process)
        seconds = time.monotonic() - begin
        return _outcome(code, _tail(out), _tail(err), limit if code is None else seconds)._replace(gone=gone)


def _end(process: subprocess.Popen[bytes]) -> bool:
    """Kill what still runs of a trial; return whether it has ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_S)
    return process.poll() is not None


def _tail(stream: Any) -> list[str]:  # noqa: ANN401 - a temporary file's type is private
    """Return the last lines of what a child wrote."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _TAIL_BYTES))
    return [line for line in stream.read().decode("utf-8", "replace").splitlines() if line.strip()]


def _outcome(code: int | None, out: Sequence[str], err: Sequence[str], seconds: float) -> _Outcome:
    """Judge a child's exit code (None: it did not end by itself), its lines and its time.

    What went wrong before the child said that it begins with the kernel is not the kernel's doing.
    """
    said = [line for line in map(_parsed, out) if line and "trial" in line]
    result = next((line for line in reversed(said) if line["trial"] == "result"), None)
    if code is not None and result is not None:
        reason = f"{result.get('reason')} ({seconds:.0f} s)"
        if result.get("right") is True and code == 0:
            return _Outcome("passed", reason, figures=result.get("figures"))
        word = "failed" if result.get("about_kernel", True) else "unknown"
        return _Outcome(word, reason, figures=result.get("figures"))
    begun = any(line["trial"] == "begun" for line in said)
    if code is None:
        what = f"no result within {seconds:g} s ({TIMEOUT}), it was killed"
        return _Outcome("hung" if begun else "unknown", what if begun else f"{what} before it reached the kernel")
    what = f"the process ended with {_exit(code)} and no result"
    last = f": {err[-1].strip()[:_LONGEST_REASON]}" if err else ""
    return _Outcome("failed" if begun else "unknown", f"{what}{'' if begun else ' before it reached the kernel'}{last}")


def _exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _limit(environ: Mapping[str, str]) -> float | None:
    """Return the time limit of a trial in seconds; None if the variable holds none."""
    text = environ.get(TIMEOUT)
    if text is None:
        return _DEFAULT_LIMIT_S
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if seconds > 0 and math.isfinite(seconds) else None


def _device(operation: str) -> _Device | None:
    """Return the device that this process uses, without being the first to touch it.

    A library may be one for the host: where there is no CUDA device, that is what the operation can be asked for.
    """
    compiled = OPERATIONS[operation].library is not None
    if not compiled and os.environ.get("TRITON_INTERPRET", "").lower() in {"1", "true", "on", "yes"}:
        return _Device("interpreter", "none", "")
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return _Device("host", "none", "cpu") if compiled and torch and not torch.cuda.is_available() else None
    index = torch.cuda.current_device()
    return _Device(torch.cuda.get_device_name(index), _driver(torch), str(index))


def _driver(torch: Any) -> str:  # noqa: ANN401 - the module, if somebody else has imported it
    """Return the driver's version, with that of the interface it serves."""
    ask = getattr(getattr(torch, "_C", None), "_cuda_getDriverVersion", None)
    found = [f"CUDA {ask()}"] if ask else []
    for module in ("nvidia", "iluvatar"):
        with contextlib.suppress(OSError):
            found.append(Path(f"/sys/module/{module}/version").read_text(encoding="utf-8").strip())
    return ", ".join(found) or "unknown"


def _triton_version(operation: str) -> str:
    """Return the version that Triton states, without importing it; `none` where the kernel is not Triton's."""
    if OPERATIONS[operation].library is not None:
        return "none"
    spec = importlib.util.find_spec("triton")
    try:
        text = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    except OSError:
        text = ""
    found = re.search(r"""^__version__ = ["']([^"']+)["']""", text, re.MULTILINE)
    return found.group(1) if found else "unknown"


def _digest(operation: str) -> str:
    """Return the digest of all that a verdict depends on in this folder, and of the library's bytes.

    Raises:
        OSError: The kernel's module, or its library, cannot be read.
    """
    total = hashlib.sha256()
    wanted = OPERATIONS[operation]
    for module in (wanted.kernel, *wanted.others):
        path = Path(__file__).with_name(f"{module}.py")
        content = b"" if module != wanted.kernel and not path.exists() else path.read_bytes()
        total.update(f"{module} {len(content)}\n".encode() + content)
    library = library_path(operation)
    if library:
        total.update(b"library\n" + Path(library).read_bytes())
    return total.hexdigest()


# --------------------------------------------------------------------------------------------------------- what is kept


def _folder(environ: Mapping[str, str]) -> Path:
    """Return where verdicts are kept: the variable's folder, else one in vLLM's cache folder."""
    own = environ.get(CACHE)
    if own:
        return Path(os.path.expanduser(own)).absolute()  # noqa: PTH111 - leaves an unknown home as it is
    caches = environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")  # noqa: PTH118 - not a path yet
    root = environ.get("VLLM_CACHE_ROOT") or os.path.join(caches, "vllm")  # noqa: PTH118 - the same
    return Path(os.path.expanduser(root)).absolute() / "triton_trust"  # noqa: PTH111 - the same


class _Store:
    """The files of one key: `.json` the verdict, `.pending` the mark of a trial, `.lock` what one process holds."""

    def __init__(self, folder: Path, key: _Key) -> None:
        self.folder = folder
        self.key = key

    def path(self, suffix: str) -> Path:
        return self.folder / f"{self.key.name}{suffix}"

    def verdict(self) -> Decision | None:
        """Return what the kept verdict says; None if there is none."""
        path = self.path(".json")
        try:
            found = _parsed(path.read_text(encoding="utf-8", errors="replace"))
        except FileNotFoundError:
            return None
        if tuple(found.get(field) for field in _Key._fields) != self.key or "verdict" not in found:
            return Decision(False, f"{path} is not the verdict it should be; remove it to try again")
        what = f"trial {found['verdict']}: {found.get('reason')}"
        if found["verdict"] == "passed":
            return Decision(True, f"{what}; {path}")
        return Decision(False, f"{what}; remove {path} to try again")

    def cut_off(self) -> Decision | None:
        """Return the decision where a trial was cut off; ask this only while holding the lock."""
        path = self.path(".pending")
        if not path.exists():
            return None
        what = "an earlier trial was cut off, perhaps by a device that hung"
        return Decision(False, f"{what}; see whether the device is well and remove {path} to try again")

    def mark(self) -> None:
        """Leave a mark that survives whatever the trial does to this machine."""
        self._write(".pending", {"process": os.getpid()})

    def unmark(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.path(".pending").unlink()

    def keep(self, outcome: _Outcome) -> None:
        self._write(".json", {"verdict": outcome.word, "reason": outcome.reason, "figures": outcome.figures})

    def _write(self, suffix: str, more: Mapping[str, object]) -> None:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        _write_whole(self.path(suffix), {**self.key._asdict(), **more, "when": when})

    @contextlib.contextmanager
    def locked(self, longest: float) -> Iterator[bool]:
        """Hold the lock of this key, which the kernel frees when the process ends; False if it took too long."""
        deadline = time.monotonic() + longest
        descriptor = os.open(str(self.path(".lock")), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not _take(descriptor, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    yield False
                    return
                time.sleep(0.1)
            yield True
        finally:
            os.close(descriptor)

    def is_held(self) -> bool:
        """Return whether a process is at its trial now."""
        try:
            descriptor = os.open(str(self.path(".lock")), os.O_RDONLY)
        except OSError:
            return False
        try:
            return not _take(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)


def _take(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_whole(path: Path, content: Mapping[str, object]) -> None:
    """Write a file that is there whole or not at all, whatever happens to the machine next."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with new.open("w", encoding="utf-8") as stream:
        json.dump(content, stream, ensure_ascii=True, indent=2)
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(path)
    folder = os.open(str(path.parent), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _kept_verdicts(operation: str) -> Iterator[tuple[str, str]]:
    """Yield path and reason for every device that a trial of this kernel was carried out on."""
    folder = _folder(os.environ)
    try:
        digest = _digest(operation)
        files = sorted(folder.glob(f"{operation}-*.json")) + sorted(folder.glob(f"{operation}-*.pending"))
    except OSError as error:
        yield "pytorch", f"verdicts cannot be told: {error.strerror or error} ({error.filename or folder})"
        return
    version = _triton_version(operation)
    seen = set()
    for file in files:
        with contextlib.suppress(OSError, TypeError):
            found = _parsed(file.read_text(encoding="utf-8", errors="replace"))
            key = _Key(*(found.get(field) for field in _Key._fields))  # type: ignore[arg-type]  # compared next
            if key in seen or (key.operation, key.triton, key.digest) != (operation, version, digest):
                continue
            seen.add(key)
            store = _Store(folder, key)
            decision = store.verdict() or store.cut_off()
            if decision is None:
                continue
            where = f"{key.device}, driver {key.driver}"
            if file.suffix == ".pending" and store.is_held():
                yield "undecided", f"{where}: a trial is going on"
            else:
                yield OPERATIONS[operation].path if decision.trusted else "pytorch", f"{where}: {decision.reason}"
    if not seen:
        what = library_path(operation) or f"Triton {version}"
        yield "undecided", f"no verdict in {folder} for this kernel and {what}: the first use starts a trial"


# ---------------------------------------------------------------------------------------------- processes that switched


def _identity(process: int) -> list[str]:
    """Return what names a process for good: the boot, the space of process ids, and the start in ticks.

    Raises:
        OSError: There is no such process.
    """
    boot = space = ""  # a sandbox may not have these
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    with contextlib.suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    return [boot, space, stat.rpartition(")")[2].split()[19]]  # the name before it may hold blanks


def _leave_note(operation: str, reason: str) -> None:
    """Leave word for `live` that this process has switched; serving does not depend on it."""
    with contextlib.suppress(OSError, IndexError):
        folder = _folder(os.environ)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        note = {"operation": operation, "process": os.getpid(), "identity": _identity(os.getpid()), "reason": reason}
        _write_whole(folder / f"switched-{operation}-{os.getpid()}.json", note)


def _switched(operation: str) -> Iterator[tuple[str, str]]:
    """Yield path and reason for every living process that switched; remove the notes of those that have ended."""
    for path in sorted(_folder(os.environ).glob(f"switched-{operation}-*.json")):
        with contextlib.suppress(OSError, IndexError, KeyError, TypeError, ValueError):
            note = _parsed(path.read_text(encoding="utf-8", errors="replace"))
            boot, space, started = note["identity"]
            now = [*_identity(os.getpid())[:2], ""]
            with contextlib.suppress(OSError):
                now = _identity(int(note["process"]))
            if now == [boot, space, started]:
                yield "pytorch", f"process {note['process']} has switched to it: {note['reason']}"
            elif now[0] != boot or now[1] == space:  # another container's processes cannot be seen from here
                path.unlink()


# ----------------------------------------------------------------------------------------------------------- by hand


def main() -> int:
    """Decide about every operation that is deployed now, on the first device; return 0 if all are trusted."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    import torch  # noqa: PLC0415 - only a process of its own may be the first to touch the device

    if torch.cuda.is_available():
        torch.zeros(1, device="cuda")
    return 0 if all([trusted(operation) for operation in deployed()]) else 1  # noqa: C419 - every one is tried


if __name__ == "__main__":
    sys.exit(main())
