"""The policy that says which Triton paths may run."""

import importlib.util
import logging
import os
import threading
from pathlib import Path
from types import ModuleType

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
def _logging(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_TRITON_TRUST", raising=False)
    caplog.set_level(logging.INFO, logger=LOGGER)


BOTH = {"prefix_prefill", "paged_decode_v2"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, set()),
        ("", set()),
        (" , ", set()),
        ("none", set()),
        ("0", set()),
        ("off", set()),
        ("all", BOTH),
        ("1", BOTH),
        ("ON", BOTH),
        ("prefix_prefill", {"prefix_prefill"}),
        ("paged_decode_v2", {"paged_decode_v2"}),
        (" Prefix_Prefill , paged_decode_v2,", BOTH),
        ("prefix_prefil", set()),
        ("prefix_prefil,paged_decode_v2", {"paged_decode_v2"}),
        ("all,prefix_prefill", {"prefix_prefill"}),
        ("none,prefix_prefill", {"prefix_prefill"}),
    ],
)
def test_the_variable_decides(value: str | None, expected: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if value is not None:
        monkeypatch.setenv("VLLM_TRITON_TRUST", value)
    trust = fresh()
    assert {operation for operation in BOTH if trust.trusted(operation)} == expected


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
        "Triton prefix_prefill: not trusted, its fallback runs (VLLM_TRITON_TRUST is not set)"
    ]


def test_another_process_says_its_own_line(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    trust = fresh()
    trust.trusted("prefix_prefill")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    trust.trusted("prefix_prefill")
    assert len(caplog.records) == 2


def test_a_decision_holds_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    trust = fresh()
    assert not trust.trusted("prefix_prefill")
    monkeypatch.setenv("VLLM_TRITON_TRUST", "all")
    assert not trust.trusted("prefix_prefill")
    assert trust.trusted("paged_decode_v2")


@pytest.mark.parametrize(
    ("value", "warnings"),
    [
        ("prefix_prefil", ["'prefix_prefil', it trusts nothing; did you mean 'prefix_prefill'?"]),
        ("xyz", ["it trusts nothing; there are: prefix_prefill, paged_decode_v2"]),
        ("al", ["did you mean 'all'?"]),
        ("paged_decode,xyz", ["did you mean 'paged_decode_v2'?", "'xyz', it trusts nothing"]),
        ("all,prefix_prefill", ["'all' stands alone or not at all"]),
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
