"""Which Triton paths may run: on a device that a kernel can hang for good, none does until somebody says so.

`VLLM_TRITON_TRUST` says so. It holds operations separated by commas, or one word for every operation: `all`, `on` or
`1`; `none`, `off` or `0`. Unset means none. It is read when an operation is asked for the first time, never at import,
and the answer then holds for the process: callers may ask at every step.

The file imports only the standard library and runs unchanged on Python 3.8 and newer.
"""

from __future__ import annotations

import difflib
import logging
import os
import threading
from typing import Mapping, NamedTuple

VARIABLE = "VLLM_TRITON_TRUST"

OPERATIONS = ("prefix_prefill", "paged_decode_v2")
"""Operations that have a Triton path."""

_EVERY = ("all", "on", "1")
_NO = ("none", "off", "0")

# vLLM configures only loggers below "vllm", and this file's own name differs between the repository and the image.
_logger = logging.getLogger("vllm.attention.ops.trust")
_lock = threading.Lock()
_decisions: dict[tuple[int, str], Decision] = {}  # by process: a forked worker says its own line
_warned: set[int] = set()


class Decision(NamedTuple):
    """Whether an operation is trusted, and why."""

    trusted: bool
    reason: str


def trusted(operation: str) -> bool:
    """Return whether the Triton path of `operation` may be used; says so in the log once per process and operation.

    Raises:
        ValueError: There is no such operation.
    """
    if operation not in OPERATIONS:
        raise ValueError(f"no such operation: {operation!r}{_did_you_mean(operation, OPERATIONS)}")
    process = os.getpid()
    decision = _decisions.get((process, operation))
    if decision is None:
        with _lock:
            decision = _decisions.get((process, operation))
            if decision is None:
                _warn_of_unknown_names(process)
                decision = _decide(operation, os.environ)
                _decisions[process, operation] = decision
                verdict = "trusted" if decision.trusted else "not trusted, its fallback runs"
                _logger.info("Triton %s: %s (%s)", operation, verdict, decision.reason)
    return decision.trusted


def _decide(operation: str, environ: Mapping[str, str]) -> Decision:
    """Return the decision that the environment asks for."""
    names = _names(environ)
    if not names:
        return Decision(False, f"{VARIABLE} is not set")
    said = f"{VARIABLE}={environ[VARIABLE]}"
    if len(names) == 1 and names[0] in _EVERY + _NO:
        return Decision(names[0] in _EVERY, said)
    if operation in names:
        return Decision(True, f"{said} names it")
    return Decision(False, f"{said} does not name it")


def _names(environ: Mapping[str, str]) -> list[str]:
    """Return the words of the variable, in lower case."""
    return [word for word in (part.strip().lower() for part in environ.get(VARIABLE, "").split(",")) if word]


def _warn_of_unknown_names(process: int) -> None:
    """Warn of words that name no operation, once per process; they trust nothing."""
    if process in _warned:
        return
    _warned.add(process)
    names = _names(os.environ)
    words = _EVERY + _NO
    if len(names) == 1 and names[0] in words:
        return
    for name in names:
        if name in words:
            _logger.warning("%s: %r stands alone or not at all, it trusts nothing here", VARIABLE, name)
        elif name not in OPERATIONS:
            hint = _did_you_mean(name, OPERATIONS + words)
            _logger.warning("%s: no such operation: %r, it trusts nothing%s", VARIABLE, name, hint)


def _did_you_mean(name: str, known: tuple[str, ...]) -> str:
    """Return a suggestion that can follow a message."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(known)}"
