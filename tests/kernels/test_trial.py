"""Trials of doubles, in real child processes: whatever a kernel does, it ends on the path that is known to be right."""

# ruff: noqa: ANN401, SLF001 - a module loaded from a copy has no type; some cases are met inside it only
from __future__ import annotations

import fcntl
import importlib
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.emit.test_patchset import find_python
from tests.kernels.trial_scene import (
    DECODE,
    FAULTS,
    PACKAGE,
    PREFILL,
    Scene,
    answer_of,
    is_running,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = "3600"
ROOT = Path(__file__).parents[2]


STANDS_IN = """
import json, os, sys
print(json.dumps({"trial": "begun"}), flush=True)
if sys.argv[1] == "paged_decode_v2":
    os.kill(os.getpid(), 15)
print(json.dumps({"trial": "result", "right": True, "reason": "fine"}))
"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path)
    scene.lay("right")
    return scene


@pytest.fixture
def trust(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module as this process has it when it has decided nothing."""
    for name in [name for name in os.environ if name.startswith("VLLM_")]:
        monkeypatch.delenv(name)
    for name, value in scene.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(scene.package.parent))
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    yield importlib.import_module(f"{PACKAGE}.trust")
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


# ------------------------------------------------------------------------------------------------ verdicts


def test_a_right_kernel_is_trusted_and_its_verdict_serves_later_processes(scene: Scene) -> None:
    first = scene.ask(PREFILL, DECODE)
    assert first.trusted == {PREFILL: True, DECODE: True}
    assert first.line().startswith("Triton prefix_prefill: trusted (trial passed: 2 of 2 cases right, largest error 0,")
    assert first.path() == first.path(DECODE) == "triton"
    verdicts = [json.loads(path.read_text(encoding="utf-8")) for path in scene.kept(".json")]
    assert [(verdict["device"], verdict["triton"]) for verdict in verdicts] == [("interpreter", "9.9.1")] * 2
    assert [[case["error"] for case in verdict["figures"]] for verdict in verdicts] == [[0, 0]] * 2
    assert scene.kept(".pending") == []
    runs = scene.runs
    assert len(runs) == 2
    again = scene.ask(PREFILL, DECODE)
    assert (again.trusted, again.log, again.live) == (first.trusted, first.log, first.live)
    assert scene.runs == runs


@pytest.mark.parametrize("double", FAULTS)
def test_a_kernel_that_fails_its_trial_is_never_trusted(double: str, scene: Scene) -> None:
    operation = DECODE if len(double) % 2 else PREFILL  # each double for one of the two
    scene.lay(double)
    first = scene.ask(operation)
    assert first.trusted == {operation: False}
    assert f"not trusted, its fallback runs (trial failed: {FAULTS[double]}" in first.line(operation)
    [verdict] = scene.kept(".json")
    assert f"; remove {verdict} to try again)" in first.line(operation)
    assert scene.kept(".pending") == []
    assert first.path(operation) == "pytorch"
    runs = scene.runs
    assert scene.ask(operation).log == first.log
    assert scene.runs == runs


@pytest.mark.parametrize("operation", [PREFILL, DECODE])
@pytest.mark.parametrize("double", ["one_token_too_few", "another_head"])
def test_wrong_numbers_are_found_for_every_operation(double: str, operation: str, scene: Scene) -> None:
    scene.lay(double)
    assert not scene.ask(operation).trusted[operation]


def test_what_a_kernel_prints_is_no_result(scene: Scene) -> None:
    scene.lay("prints_garbage")
    assert scene.ask(PREFILL, DECODE).trusted == {PREFILL: True, DECODE: True}


def test_a_kernel_that_hangs_is_killed_with_its_children_when_its_time_is_over(scene: Scene) -> None:
    scene.lay("hangs")
    answer = scene.ask(VLLM_TRITON_TRIAL_TIMEOUT_S="20")
    assert "(trial hung: no result within 20 s (VLLM_TRITON_TRIAL_TIMEOUT_S), it was killed; remove" in answer.line()
    assert not is_running(int(scene.runs[0]))
    assert not is_running(int((scene.folder / "child").read_text(encoding="utf-8")))
    assert scene.kept(".pending") == []
    assert scene.ask().log == answer.log


def test_another_kernel_or_triton_is_tried_anew(scene: Scene) -> None:
    assert scene.ask().trusted[PREFILL]
    scene.lay("wrong")
    assert not scene.ask().trusted[PREFILL]
    scene.lay("right")
    assert scene.ask().trusted[PREFILL]
    assert len(scene.runs) == 2
    (scene.package / "muh_dispatch.py").write_text("TILE = 64\n", encoding="utf-8")
    assert scene.ask().trusted[PREFILL]
    assert len(scene.runs) == 3
    scene.lay_triton("9.9.2")
    assert scene.ask().trusted[PREFILL]
    assert len(scene.runs) == 4


def test_a_verdict_of_something_else_is_not_believed(scene: Scene) -> None:
    scene.ask()
    [verdict] = scene.kept(".json")
    whole = verdict.read_text(encoding="utf-8")
    for text in ("", "[]", whole[:-9], whole.replace("9.9.1", "9.9.0"), '{"verdict": "passed"}'):
        verdict.write_text(text, encoding="utf-8")
        assert f"({verdict} is not the verdict it should be; remove it to try again)" in scene.ask().line()
    assert len(scene.runs) == 1


# ------------------------------------------------------------------------------------------------ one trial for all


def test_processes_that_ask_together_run_one_trial(scene: Scene) -> None:
    processes = [scene.start(DOUBLE_SECONDS="1") for _ in range(4)]
    answers = [answer_of(process) for process in processes]
    assert [answer.trusted for answer in answers] == [{PREFILL: True}] * 4
    assert len({answer.line() for answer in answers}) == 1
    assert len(scene.runs) == 1


def test_threads_that_ask_together_run_one_trial(scene: Scene, trust: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(trust.trusted, [PREFILL] * 8)) == [True] * 8
    assert len(scene.runs) == 1


def test_a_lock_that_is_never_released_is_waited_for_only_so_long(
    scene: Scene, trust: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene.ask()
    [verdict] = scene.kept(".json")
    verdict.unlink()
    monkeypatch.setenv("VLLM_TRITON_TRIAL_TIMEOUT_S", "0.3")
    monkeypatch.setattr(trust, "_MARGIN_S", 0.2)
    caplog.set_level("INFO")
    with verdict.with_suffix(".lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not trust.trusted(PREFILL)
    assert f"another process has held {verdict.with_suffix('.lock')} for over 0.5 s" in caplog.text
    assert len(scene.runs) == 1
    assert scene.kept(".json") == []


def test_the_side_that_asks_runs_on_an_old_python(scene: Scene) -> None:
    python = find_python("3.8")
    if python is None:
        pytest.skip("no Python 3.8 on PATH or in ~/.pyenv")
    (scene.package / "trial.py").write_text(STANDS_IN, encoding="utf-8")  # there is no torch for it
    answers = [answer_of(scene.start(PREFILL, DECODE, python=python)) for _ in range(2)]
    assert [answer.trusted for answer in answers] == [{PREFILL: True, DECODE: False}] * 2
    assert answers[0].log == answers[1].log
    assert "trial failed: the process ended with SIGTERM and no result; remove " in answers[0].line(DECODE)
    assert [answers[0].path(operation) for operation in (PREFILL, DECODE)] == ["triton", "pytorch"]


# ------------------------------------------------------------------------------------------------ cut off


def test_a_trial_whose_parent_was_killed_is_not_trusted_until_somebody_has_looked(scene: Scene) -> None:
    process = scene.start(DOUBLE_SECONDS=LONG)
    wait_until(lambda: bool(scene.runs))
    [pending] = scene.kept(".pending")
    process.kill()
    process.communicate()
    wait_until(lambda: not is_running(int(scene.runs[0])))
    assert scene.kept(".pending") == [pending]
    answer = scene.ask()
    assert answer.trusted == {PREFILL: False}
    assert "an earlier trial was cut off, perhaps by a device that hung" in answer.line()
    assert f"remove {pending} to try again" in answer.line()
    assert answer.path() == "pytorch"
    assert len(scene.runs) == 1
    pending.unlink()
    assert scene.ask().trusted == {PREFILL: True}


def test_a_trial_that_is_going_on_is_told_from_one_that_was_cut_off(scene: Scene, trust: Any) -> None:
    process = scene.start(DOUBLE_SECONDS=LONG)
    wait_until(lambda: bool(scene.runs))
    rows = [row for row in trust.live() if row["operation"] == PREFILL]
    assert [(row["path"], row["reason"].rpartition(": ")[2]) for row in rows] == [("undecided", "a trial is going on")]
    process.kill()
    process.communicate()
    wait_until(lambda: not is_running(int(scene.runs[0])))
    assert [row["path"] for row in trust.live() if row["operation"] == PREFILL] == ["pytorch"]


def test_a_process_that_is_interrupted_ends_its_trial_and_leaves_nothing(scene: Scene) -> None:
    process = scene.start(DOUBLE_SECONDS=LONG)
    wait_until(lambda: bool(scene.runs))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    assert not is_running(int(scene.runs[0]))
    assert scene.kept(".pending") == scene.kept(".json") == []
    assert scene.ask().trusted == {PREFILL: True}


@pytest.mark.parametrize(("word", "kept"), [("unknown", [".pending"]), ("hung", [".json"])])
def test_a_child_that_cannot_be_killed_leaves_word_of_it(
    word: str, kept: list[str], scene: Scene, trust: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No test can make a process wait for its device for ever.
    monkeypatch.setattr(trust, "_carry_out", lambda *_: trust._Outcome(word, "it does not end", gone=False))
    assert not trust.trusted(PREFILL)
    assert [path.suffix for suffix in (".json", ".pending") for path in scene.kept(suffix)] == kept
    assert not scene.ask().trusted[PREFILL]
    assert scene.runs == []


# ------------------------------------------------------------------------------------------------ no verdict


def test_a_child_that_never_reaches_the_kernel_says_nothing_about_it(scene: Scene) -> None:
    sibling = scene.package / "paged_attention_pytorch.py"
    sibling.write_text("raise ImportError('no such library')\n", encoding="utf-8")
    for _ in range(2):
        line = scene.ask().line()
        assert "no verdict, the next process tries again: the process ended with exit code 1 and no result" in line
        assert "before it reached the kernel: ImportError: no such library" in line
    assert scene.kept(".json") == scene.kept(".pending") == []


def test_a_device_without_memory_for_a_trial_says_nothing_about_the_kernel(scene: Scene) -> None:
    scene.lay("finds_no_memory")
    assert "no verdict, the next process tries again: OutOfMemoryError: CUDA out of memory." in scene.ask().line()
    assert f"before a server fills the device: python3 -m {PACKAGE}.trust" in scene.ask().line()
    assert scene.kept(".json") == scene.kept(".pending") == []


def test_an_interpreter_that_cannot_be_started_says_nothing_about_the_kernel(
    scene: Scene, trust: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for number, executable in enumerate(("", str(scene.folder / "python"))):
        trust._forget()
        monkeypatch.setattr(trust.sys, "executable", executable)
        assert not trust.trusted(PREFILL)
        assert "cannot be started" in caplog.messages[number]
    assert scene.kept(".json") == scene.kept(".pending") == []


@pytest.mark.parametrize("text", ["", "soon", "0", "-3", "nan", "inf"])
def test_a_time_limit_that_is_none_is_said_and_nothing_is_tried(text: str, scene: Scene) -> None:
    line = scene.ask(VLLM_TRITON_TRIAL_TIMEOUT_S=text).line()
    assert f"(VLLM_TRITON_TRIAL_TIMEOUT_S={text!r} is not a number of seconds above 0)" in line
    assert scene.runs == []


def test_a_folder_that_cannot_be_written_is_said_and_nothing_is_tried(scene: Scene) -> None:
    scene.cache.write_text("a file in its place", encoding="utf-8")
    line = scene.ask().line()
    assert f"verdicts cannot be kept: File exists ({scene.cache}); set VLLM_TRITON_TRUST_CACHE to a folder" in line
    assert scene.runs == []


def test_a_verdict_that_cannot_be_written_holds_for_its_process_alone(
    scene: Scene, trust: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    caplog.set_level("INFO")
    monkeypatch.setattr(trust._Store, "keep", full)
    assert trust.trusted(PREFILL)
    assert "the verdict cannot be kept: No space left on device" in caplog.text
    assert scene.kept(".json") == scene.kept(".pending") == []


def test_a_kernel_that_is_not_there_is_not_trusted(scene: Scene) -> None:
    (scene.package / "prefix_prefill.py").unlink()
    assert "prefix_prefill.py" in scene.ask().line()


def test_a_process_without_a_device_is_asked_again(
    trust: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.delenv("TRITON_INTERPRET")
    assert not trust.trusted(PREFILL)
    assert not trust.trusted(PREFILL)
    assert [message.partition("(")[2] for message in caplog.messages] == [
        "this process uses no CUDA device yet; it is asked again once it does)"
    ]
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert trust.trusted(PREFILL)


def test_a_trial_starts_no_trial(scene: Scene) -> None:
    answer = scene.ask(VLLM_TRITON_TRIAL="1", VLLM_TRITON_TRUST="all")
    assert answer.line().endswith("(VLLM_TRITON_TRIAL is set: this process is a trial)")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "home/.cache/vllm/triton_trust"),
        ({"XDG_CACHE_HOME": "caches"}, "caches/vllm/triton_trust"),
        ({"XDG_CACHE_HOME": "caches", "VLLM_CACHE_ROOT": "own"}, "own/triton_trust"),
        ({"VLLM_CACHE_ROOT": "own", "VLLM_TRITON_TRUST_CACHE": "~/here"}, "home/here"),
    ],
)
def test_verdicts_are_kept_where_vllm_keeps_its_cache(
    variables: dict[str, str], expected: str, scene: Scene, trust: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scene.folder)
    monkeypatch.setenv("HOME", str(scene.folder / "home"))
    assert trust._folder(variables) == scene.folder / expected


def test_a_trial_by_hand_prints_its_figures(scene: Scene) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"{PACKAGE}.trial", DECODE],
        env=scene.environment(),
        cwd=scene.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    begun, result = map(json.loads, done.stdout.splitlines())
    assert begun == {"trial": "begun"}
    assert result["right"]
    assert [figures["case"] for figures in result["figures"]] == [
        "float16 with heads of 128",
        "float16 with heads of 256",
    ]
    wrong = subprocess.run(
        [sys.executable, "-m", f"{PACKAGE}.trial", "decode"],
        env=scene.environment(),
        cwd=scene.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert wrong.returncode == 2
    assert wrong.stderr == "no such operation: decode; there are: prefix_prefill, paged_decode_v2, compiled_decode_v2\n"


def test_trials_can_be_had_before_a_server_starts(scene: Scene) -> None:
    def by_hand() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", f"{PACKAGE}.trust"],
            env=scene.environment(),
            cwd=scene.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    done = by_hand()
    assert done.returncode == 0, done.stderr
    assert [line.partition(" (")[0] for line in done.stdout.splitlines()] == [
        "Triton prefix_prefill: trusted",
        "Triton paged_decode_v2: trusted",
    ]
    assert scene.ask(PREFILL, DECODE).log == done.stdout.splitlines()
    assert len(scene.runs) == 2
    scene.lay("raises")
    assert by_hand().returncode == 1


@pytest.mark.triton
def test_the_kernels_themselves_pass_their_trial_in_the_interpreter(tmp_path: Path) -> None:
    scene = Scene(tmp_path, on_gpu=True)  # with the Triton that is installed
    for operation in (PREFILL, DECODE):
        done = subprocess.run(
            [sys.executable, "-m", "kernels.trial", operation],
            env=scene.environment(TRITON_INTERPRET="1", TRITON_DEFAULT_FP_FUSION="1"),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        figures = json.loads(done.stdout.splitlines()[-1])["figures"]
        assert len(figures) == 2
        assert all(0 < case["error"] < 2e-3 for case in figures), figures
