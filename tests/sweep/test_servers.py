"""One value on a server that behaves, and on each kind of server that does not."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.sweep import guard, server
from orchestrator.sweep.model import Fault, Kind, Measured
from orchestrator.sweep.server import Server
from orchestrator.sweep.trial import LOG, Serving, measure
from tests.sweep.serving import LIMITS, LOAD, SHORT, fresh_mark, measured, processes, rendered, words

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")

FAULTS = {
    "ends": (Kind.DIED, "start", "exit code 2"),
    "ends-well": (Kind.DIED, "start", "exit code 0"),
    "no-blocks": (Kind.OUT_OF_MEMORY, "start", "No available memory for the cache blocks"),
    "killed-at-start": (Kind.OUT_OF_MEMORY, "start", "signal 9"),
    "port-taken": (Kind.PORT_TAKEN, "start", "address already in use"),
    "forks-and-ends": (Kind.DIED, "start", "exit code 1"),
    "no-models": (Kind.REFUSED, "warm-up", "HTTP 404"),
    "odd-models": (Kind.NOT_A_STREAM, "warm-up", "no list of models"),
    "nameless": (Kind.NOT_A_STREAM, "warm-up", "no list of models"),
    "packs": (Kind.NOT_A_STREAM, "warm-up", "packed (gzip)"),
    "refuses": (Kind.REFUSED, "warm-up", "no such field"),
    "breaks": (Kind.REFUSED, "warm-up", "HTTP 500"),
    "no-memory": (Kind.OUT_OF_MEMORY, "warm-up", "CUDA out of memory"),
    "page": (Kind.NOT_A_STREAM, "warm-up", "text/event-stream"),
    "garbage": (Kind.NOT_A_STREAM, "warm-up", "{not json"),
    "list": (Kind.NOT_A_STREAM, "warm-up", "no object"),
    "binary": (Kind.NOT_A_STREAM, "warm-up", "no JSON"),
    "says-error": (Kind.REFUSED, "warm-up", "the engine is dead"),
    "long-line": (Kind.NOT_A_STREAM, "warm-up", "far longer"),
    "endless": (Kind.NOT_A_STREAM, "warm-up", "more tokens than were asked for"),
    "cut-short": (Kind.CUT_SHORT, "warm-up", "[DONE]"),
    "drops": (Kind.CUT_SHORT, "warm-up", "[DONE]"),
    "dies": (Kind.DIED, "warm-up", "exit code 3"),
    "is-killed": (Kind.OUT_OF_MEMORY, "warm-up", "signal 9"),
    "no-usage": (Kind.NO_USAGE, "warm-up", "usage"),
}


def test_a_server_that_behaves_is_measured_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    mark = fresh_mark()
    found = measured("well", tmp_path, mark=mark)
    assert isinstance(found, Measured)
    assert [rates.requests for rates in found.repeats] == [8, 8]
    assert found.concurrency == 4
    assert found.prompt_tokens == (8, 8)
    for rates in found.repeats:
        assert rates.output * rates.seconds == pytest.approx(8 * 4)
        assert rates.input * rates.seconds == pytest.approx(8 * 8)
        assert rates.cached is not None
        assert rates.cached * rates.seconds == pytest.approx(8 * 3)
    assert found.first_token_s is not None
    assert found.per_token_s is not None
    assert 0 < found.first_token_s["p50"] <= found.first_token_s["p99"]
    assert processes(mark) == []
    assert (tmp_path / "run.yaml").read_bytes() == b"concurrency: 4\n"


@pytest.mark.parametrize("mode", ["odd-charset", "odder-charset", "wide-charset"])
def test_events_are_utf_8_whatever_a_server_calls_them(mode: str, tmp_path: Path) -> None:
    assert isinstance(measured(mode, tmp_path), Measured)


@pytest.mark.parametrize("mode", FAULTS)
def test_a_server_that_fails_is_recorded_as_what_it_did_and_nothing_of_it_is_left(mode: str, tmp_path: Path) -> None:
    mark = fresh_mark()
    found = measured(mode, tmp_path, mark=mark)
    kind, phase, said = FAULTS[mode]
    assert isinstance(found, Fault)
    assert (found.kind, found.phase) == (kind, phase), found
    assert said in found.message
    assert "the environment says nothing" in found.log
    assert processes(mark) == []


def test_a_failure_in_the_measured_load_is_one_of_the_load(tmp_path: Path) -> None:
    found = measured("dies", tmp_path, load=replace(LOAD, warm_up=0))
    assert isinstance(found, Fault)
    assert (found.kind, found.phase) == (Kind.DIED, "load")
    assert found.log[-1] == "a last word"


@pytest.mark.parametrize("mode", ["hangs", "unhealthy", "deaf"])
def test_a_server_that_never_gets_healthy_is_ended_at_the_limit(mode: str, tmp_path: Path) -> None:
    mark = fresh_mark()
    found = measured(mode, tmp_path, mark=mark, limits=replace(LIMITS, health_s=3 * SHORT))
    assert isinstance(found, Fault)
    assert (found.kind, found.phase) == (Kind.NO_HEALTH, "start")
    assert "at last: " in found.message
    assert processes(mark) == []


@pytest.mark.parametrize("mode", ["stalls", "keeps-alive"])
def test_a_stream_without_further_tokens_is_stalled_whatever_else_it_sends(mode: str, tmp_path: Path) -> None:
    mark = fresh_mark()
    found = measured(mode, tmp_path, mark=mark, limits=replace(LIMITS, stall_s=4 * SHORT))
    assert isinstance(found, Fault)
    assert (found.kind, found.phase) == (Kind.STALLED, "warm-up")
    assert "after its last token" in found.message
    assert processes(mark) == []


def test_a_load_that_takes_too_long_is_ended_at_its_limit(tmp_path: Path) -> None:
    found = measured("stalls", tmp_path, limits=replace(LIMITS, load_s=SHORT))
    assert isinstance(found, Fault)
    assert found.kind is Kind.TOO_SLOW


def test_cached_tokens_that_are_not_reported_are_unknown_and_not_zero(tmp_path: Path) -> None:
    found = measured("no-details", tmp_path)
    assert isinstance(found, Measured)
    assert found.mean("cached") is None


def test_a_server_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    mark = fresh_mark()
    found = measured("stubborn", tmp_path, mark=mark, limits=replace(LIMITS, grace_s=SHORT))
    assert isinstance(found, Measured)
    assert processes(mark) == []


def test_processes_that_a_server_starts_are_ended_with_it_in_whatever_session_they_are(tmp_path: Path) -> None:
    mark = fresh_mark()
    found = measured("forks", tmp_path, mark=mark, limits=replace(LIMITS, grace_s=SHORT))
    assert isinstance(found, Measured)
    assert processes(mark) == []


def test_a_log_without_end_takes_a_bounded_place_and_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 2**16
    monkeypatch.setattr(server, "LOG_BYTES", limit)
    found = measured("talks", tmp_path)
    assert isinstance(found, Measured)
    sizes = {path.name: path.stat().st_size for path in tmp_path.glob(f"{LOG}*")}
    assert set(sizes) == {LOG, f"{LOG}.1"}
    assert all(size <= limit for size in sizes.values())


def test_a_program_that_is_not_there_is_not_started(tmp_path: Path) -> None:
    found = measured("well", tmp_path, words=("no-such-program-anywhere", "{port}"))
    assert isinstance(found, Fault)
    assert found.kind is Kind.NOT_STARTED
    assert "no-such-program-anywhere" in found.message


def test_a_port_on_which_somebody_listens_is_not_measured(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        found = measured("well", tmp_path, port=other.getsockname()[1])
    assert isinstance(found, Fault)
    assert found.kind is Kind.PORT_TAKEN
    assert not (tmp_path / LOG).exists(), "nothing was started"


def test_another_port_is_tried_where_a_free_one_was_lost(tmp_path: Path) -> None:
    told: list[str] = []
    way = Serving(words("port-taken"), limits=LIMITS)
    found = asyncio.run(measure(rendered(), way, LOAD, tmp_path, told.append))
    assert isinstance(found, Fault)
    assert sum("trying another" in line for line in told) == 2


def test_the_server_gets_the_environment_of_the_run_configuration_over_ours(tmp_path: Path) -> None:
    way = Serving(words("well", "--environment", "OF_THE_RUN"), limits=LIMITS)
    asyncio.run(measure(rendered(OF_THE_RUN="configured"), way, LOAD, tmp_path, lambda _: None))
    assert "the environment says configured" in (tmp_path / LOG).read_text()


def test_a_server_has_a_group_of_its_own_in_the_session_of_the_sweep(tmp_path: Path) -> None:
    said = "import os; print(os.getpgrp() == os.getpid(), os.getsid(0))"

    async def shown() -> str:
        started = await Server.start([sys.executable, "-c", said], {}, tmp_path, tmp_path / LOG, 1)
        assert await started.exited == 0
        await started.stop()
        return (tmp_path / LOG).read_text()

    assert asyncio.run(shown()).split() == ["True", str(os.getsid(0))]


def test_a_server_hears_the_signals_that_its_guard_does_not_heed(tmp_path: Path) -> None:
    async def ignored() -> int:
        started = await Server.start(["grep", "SigIgn", "/proc/self/status"], {}, tmp_path, tmp_path / LOG, 1)
        assert await started.exited == 0
        await started.stop()
        return int((tmp_path / LOG).read_text().split()[1], 16)

    found = asyncio.run(ignored())
    assert not [number for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE) if found >> (number - 1) & 1]


def test_a_guard_that_is_killed_takes_the_server_with_it_and_is_told_of(tmp_path: Path) -> None:
    mark = fresh_mark()
    told: list[str] = []

    def kill_guard(line: str) -> None:
        told.append(line)
        if "healthy" in line:
            (own,) = guards()
            os.kill(own, 9)

    def guards() -> list[int]:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return [int(c) for c in children if guard.__file__.encode() in Path(f"/proc/{c}/cmdline").read_bytes()]

    way = Serving(words("stubborn", mark=mark), limits=replace(LIMITS, grace_s=SHORT))
    found = asyncio.run(measure(rendered(), way, LOAD, tmp_path, kill_guard))
    assert isinstance(found, Fault)
    assert processes(mark) == []
    assert "its guard was killed" in told[-1]


def test_a_server_that_is_told_to_end_twice_ends_once(tmp_path: Path) -> None:
    async def twice() -> tuple[bool, bool]:
        started = await Server.start([sys.executable, "-c", "input()"], {}, tmp_path, tmp_path / LOG, 1)
        return await started.stop(), await started.stop()

    assert asyncio.run(twice()) == (True, True)
