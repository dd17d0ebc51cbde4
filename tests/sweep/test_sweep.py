"""The command on a server of the tests' own: records, resuming, stopping, recommending, and being interrupted."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.sweep.serving import FAKE, fresh_mark, processes
from tests.sweep.workspaces import SCORE, SEQS, swept_workspace
from tests.workspaces import ROOT, Ended, Workspace, interruptible, run_cli

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")

LOAD = (
    *("--prompt-tokens", "8", "--shared-tokens", "4", "--output-tokens", "4", "--rounds", "1", "--repeats", "2"),
    *("--health-limit", "60", "--stall-limit", "60", "--grace", "10"),
)
FLAT = ("--errors", "1e12", "--share", "1")
"""A margin in which every value lies, so that the third is the end of the plateau whatever the machine does."""
STEEP = ("--errors", "0", "--share", "0", "--every")
SERVER = ("--", "{command}", "--port", "{port}")


def workspace(folder: Path, *further: str, score: str = SCORE) -> Workspace:
    argv = [sys.executable, str(FAKE), "--max-num-seqs", SEQS, *further]
    return swept_workspace(folder, argv, score=score)


def arguments(made: Workspace, *options: str, server: Iterable[str] = SERVER) -> list[str]:
    return ["sweep", "-C", str(made.folder), "--tree", f"pkg={made.package}", *LOAD, *options, *server]


def swept(made: Workspace, *options: str, server: Iterable[str] = SERVER) -> Ended:
    return run_cli(*arguments(made, *options, server=server), cwd=made.folder)


def kept(made: Workspace) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (made.folder / "sweep" / "records.jsonl").read_text().splitlines()]


def test_a_sweep_measures_each_value_and_shows_table_plot_and_recommendation(tmp_path: Path) -> None:
    made = workspace(tmp_path)
    ended = swept(made, "--values", "2, 1,2.0", *STEEP)
    assert ended.code == 0, ended.err
    rows = [line.split("│")[0].strip() for line in ended.out.splitlines() if "│" in line]
    assert rows == ["1", "2"]
    assert "Recommended: max_num_seqs=" in ended.out
    assert [(record["value"], record["outcome"]) for record in kept(made)] == [("1", "measured"), ("2", "measured")]
    assert [record["measured"]["concurrency"] for record in kept(made)] == [1, 2]
    folder = made.folder / "sweep"
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "sweep.svg").read_text()
    assert '--max-num-seqs", "2"' in (folder / "max_num_seqs-2" / "run.yaml").read_text().replace("\n", " ")


def test_the_plateau_ends_the_sweep_and_the_smallest_value_is_recommended(tmp_path: Path) -> None:
    ended = swept(workspace(tmp_path), "--values", "1,2,3,4", "--json", *FLAT)
    *values, recommendation = ended.records()
    assert [record["value"] for record in values] == ["1", "2", "3"]
    assert recommendation["value"] == "1"
    assert recommendation["ended"] == "stopped at 3: the plateau is reached"


def test_every_value_is_measured_where_that_is_asked_for(tmp_path: Path) -> None:
    ended = swept(workspace(tmp_path), "--values", "1,2,3,4", "--json", "--every", *FLAT)
    assert [record["value"] for record in ended.records()[:-1]] == ["1", "2", "3", "4"]


def words(shown: str) -> list[str]:
    """Return what a table and the sentences below it say, however wide its columns are."""
    return [word for word in shown.split() if not set(word) <= set("━╇┃│")]


def test_the_same_command_again_starts_nothing_and_says_so(tmp_path: Path) -> None:
    made = workspace(tmp_path)
    first = swept(made, "--values", "1,2", *STEEP)
    again = swept(made, "--values", "1,2", *STEEP)
    assert again.code == 0
    assert again.err.count("taken from the records of ") == 2
    assert "started" not in again.err
    assert words(again.out.replace(" (earlier run)", "")) == words(first.out)
    assert len(kept(made)) == 2
    more = swept(made, "--values", "1,2,3", *STEEP)
    assert more.err.count("taken from the records") == 2
    assert [record["value"] for record in kept(made)] == ["1", "2", "3"]


@pytest.mark.parametrize(
    "change",
    [
        ("--output-tokens", "5"),
        ("--prompt-tokens", "9"),
        ("--body", "{}"),
        ("--concurrency", "3"),
        ("--set", "max_model_len=7"),
    ],
)
def test_what_was_measured_under_other_circumstances_is_measured_anew(tmp_path: Path, change: tuple[str, ...]) -> None:
    made = workspace(tmp_path, "--mark", "{{ params.max_model_len }}")
    swept(made, "--values", "1")
    other = swept(made, "--values", "1", *change)
    assert "started" in other.err
    assert "taken from the records" not in other.err
    assert len({record["inputs"] for record in kept(made)}) == 2


def test_another_server_command_is_measured_anew(tmp_path: Path) -> None:
    made = workspace(tmp_path)
    swept(made, "--values", "1")
    other = swept(made, "--values", "1", server=(*SERVER, "--mark", "other"))
    assert "taken from the records" not in other.err


def test_again_measures_what_is_known(tmp_path: Path) -> None:
    made = workspace(tmp_path)
    swept(made, "--values", "1")
    assert "started" in swept(made, "--values", "1", "--again").err
    assert len(kept(made)) == 2


@pytest.mark.parametrize(
    ("mode", "policy", "looked_at"),
    [
        ("ends", "auto", ["1", "2", "3"]),
        ("ends", "stop", ["1", "2"]),
        ("no-blocks", "auto", ["1", "2"]),
        ("no-blocks", "next", ["1", "2", "3"]),
    ],
)
def test_what_follows_a_failed_value(tmp_path: Path, mode: str, policy: str, looked_at: list[str]) -> None:
    made = workspace(tmp_path, "--mode", mode, "--at", "2")
    ended = swept(made, "--values", "1,2,3", "--json", "--after-failure", policy, *STEEP)
    assert ended.code == 0, "something was measured"
    *values, recommendation = ended.records()
    assert [record["value"] for record in values] == looked_at
    assert values[1]["outcome"] == "failed"
    assert recommendation["value"] in {"1", "3"}


def test_two_failures_running_end_a_sweep(tmp_path: Path) -> None:
    ended = swept(workspace(tmp_path, "--mode", "ends"), "--values", "1,2,3", "--json")
    assert ended.code == 5
    *values, recommendation, diagnostic = ended.records()
    assert [record["value"] for record in values] == ["1", "2"]
    assert recommendation["value"] is None
    assert "two values failed running" in recommendation["ended"]
    assert diagnostic["code"] == "E913"
    assert "unrecognised arguments" in " ".join(diagnostic["notes"])


def test_a_failure_is_shown_and_not_tried_again_unless_that_is_asked_for(tmp_path: Path) -> None:
    made = workspace(tmp_path, "--mode", "breaks", "--at", "1")
    first = swept(made, "--values", "1,2")
    assert {"error", "answered:"} <= set(words(first.out))
    again = swept(made, "--values", "1,2")
    assert "--retry tries it again" in again.err
    assert "started" not in again.err
    retried = swept(made, "--values", "1,2", "--retry")
    assert retried.err.count("started") == 1


def test_a_value_that_the_pipeline_refuses_is_recorded_and_starts_nothing(tmp_path: Path) -> None:
    ended = swept(workspace(tmp_path), "--values", "0,1", "--json")
    assert ended.code == 0, ended.err
    refused, measured, _ = ended.records()
    assert refused["fault"]["kind"] == "not rendered"
    assert "E521" in refused["fault"]["message"]
    assert measured["outcome"] == "measured"


def test_a_value_is_refused_for_what_the_pipeline_says_today(tmp_path: Path) -> None:
    made = workspace(tmp_path)
    swept(made, "--values", "0,1")
    template = made.folder / "templates/run.yaml.j2"
    other = "{% if params.max_num_seqs == 0 %}surprise: 1\n{% endif %}concurrency: 1"
    template.write_text(template.read_text().replace(f"concurrency: {SEQS}", other))
    refused, _, _ = swept(made, "--values", "0,1", "--json").records()
    assert "surprise" in refused["fault"]["message"]


def test_where_every_value_is_refused_the_pipeline_s_own_fault_is_shown(tmp_path: Path) -> None:
    ended = swept(workspace(tmp_path), "--values", "0")
    assert ended.code == 5
    assert "error[E521]" in ended.err


def test_a_score_of_unknown_rates_is_unknown_and_known_from_below(tmp_path: Path) -> None:
    ended = swept(workspace(tmp_path, "--mode", "no-details"), "--values", "1", "--json")
    record = ended.records()[0]
    assert record["cached_tps"] is None
    assert record["score"] is None
    assert record["score_at_least"] == pytest.approx(10 * record["output_tps"] + 2 * record["input_tps"])
    shown = swept(workspace(tmp_path, "--mode", "no-details"), "--values", "1", "--by", "score")
    assert shown.code == 0
    assert "unknown" in shown.out
    assert "≥" in shown.out
    assert "No recommendation: the score is unknown." in shown.out


def test_the_score_decides_where_it_is_told_to(tmp_path: Path) -> None:
    ended = swept(workspace(tmp_path), "--values", "1", "--json", "--by", "score")
    record, recommendation = ended.records()
    repeats = record["measured"]["repeats"]
    scores = [10 * r["output"] + 2 * r["input"] + 0.5 * r["cached"] for r in repeats]
    assert recommendation["mean"] == pytest.approx(sum(scores) / len(scores))


def test_a_target_without_a_score_has_none(tmp_path: Path) -> None:
    made = workspace(tmp_path, score="")
    record = swept(made, "--values", "1", "--json").records()[0]
    assert "score" not in record
    ended = swept(made, "--values", "1", "--by", "score")
    assert ended.code == 2
    assert "error[E912]" in ended.err


def test_records_that_are_damaged_or_of_others_are_left_alone(tmp_path: Path) -> None:
    made = workspace(tmp_path)
    swept(made, "--values", "1")
    records = made.folder / "sweep" / "records.jsonl"
    whole = records.read_bytes()
    nowhere = json.dumps({**json.loads(whole), "number": float("nan")}).encode()
    records.write_bytes(b"\xff\n[]\nnull\n{}\n" + whole + nowhere + b"\n" + b'{"event": "value", "form')
    ended = swept(made, "--values", "1,2", *STEEP)
    assert ended.code == 0, ended.err
    assert ended.err.count("taken from the records") == 1
    lines = records.read_bytes().split(b"\n")
    assert lines[-3] == b'{"event": "value", "form'
    assert json.loads(lines[-2])["value"] == "2"


@pytest.mark.parametrize(
    ("options", "server", "code", "exit_code"),
    [
        ((), (), "E910", 2),
        ((), ("--", "serve"), "E910", 2),
        ((), ("--", "serve", "{prot}"), "E910", 2),
        (("--values", "4,,8"), SERVER, "E911", 2),
        (("--values", "4;8"), SERVER, "E911", 2),
        (("--values", "nan"), SERVER, "E911", 2),
        (("--values", ""), SERVER, "E911", 2),
        (("--prompt-tokens", "0"), SERVER, "E911", 2),
        (("--prompt-tokens", "x"), SERVER, "E911", 2),
        (("--token-ids", "5"), SERVER, "E911", 2),
        (("--token-ids", "9-5"), SERVER, "E911", 2),
        (("--body", "[]"), SERVER, "E911", 2),
        (("--body", "{"), SERVER, "E911", 2),
        (("--body", '{"x": NaN}'), SERVER, "E911", 2),
        (("--body", '{"prompt": "x"}'), SERVER, "E911", 2),
        (("--health", "health"), SERVER, "E911", 2),
        (("--health", "//elsewhere/health"), SERVER, "E911", 2),
        (("--health", "http://elsewhere/"), SERVER, "E911", 2),
        (("--health", "/\n"), SERVER, "E911", 2),
        (("--by", "speed"), SERVER, "E700", 2),
        (("--after-failure", "cry"), SERVER, "E700", 2),
        (("--repeats", "0"), SERVER, "E700", 2),
        (("--param", "no_such"), SERVER, "E201", 2),
        (("--param", "word"), SERVER, None, 0),
        (("--values", "1.5"), SERVER, "E203", 2),
        (("--config", "other.yaml"), SERVER, "E912", 2),
        (("--target", "nowhere.yaml"), SERVER, "E120", 2),
    ],
)
def test_a_wrong_command_line_is_told_what_is_wrong_and_starts_nothing(
    tmp_path: Path, options: tuple[str, ...], server: tuple[str, ...], code: str | None, exit_code: int
) -> None:
    made = workspace(tmp_path)
    ended = swept(made, *(() if "--values" in options else ("--values", "1")), *options, server=server)
    assert ended.code == exit_code, ended.err
    if code is not None:
        assert f"error[{code}]" in ended.err
        assert "started" not in ended.err
    assert "Traceback" not in ended.err


def test_words_that_are_no_text_are_handed_on_as_they_are(tmp_path: Path) -> None:
    made = workspace(tmp_path, "--mark", "{{ params.word }}")
    server = (*SERVER, "--environment", "\udcff")
    for said in ("", "taken from the records"):
        ended = swept(made, "--values", "1", "--body", '{"x": "\\ud800"}', "--model", "\udcff", server=server)
        assert ended.code == 0, ended.err
        assert said in ended.err


def test_values_that_change_nothing_are_told(tmp_path: Path) -> None:
    made = workspace(tmp_path)
    server = ("--", "no-such-program", "{port}")
    assert "W910" in swept(made, "--param", "word", "--values", "1,2", server=server).err
    assert "W910" not in swept(made, "--param", "word", "--values", "1", server=server).err
    assert "W910" not in swept(made, "--values", "1,2", server=server).err
    assert "W910" not in swept(made, "--param", "word", "--values", "1,2", server=(*server, "{value}")).err


def test_a_pipeline_without_a_run_configuration_has_nothing_to_sweep(tmp_path: Path) -> None:
    ended = run_cli("sweep", "-C", str(Workspace.at(tmp_path).folder), "--param", "limit", *SERVER, cwd=tmp_path)
    assert ended.code == 2
    assert "error[E912]" in ended.err


def test_the_server_s_own_options_are_not_ours(tmp_path: Path) -> None:
    made = workspace(tmp_path)
    ended = swept(made, "--values", "1", server=("--", "no-such-program", "{port}", "--json", "-C", "elsewhere"))
    assert ended.code == 5
    assert "error[E913]" in ended.err, "no JSON was asked of us"


def test_without_the_extra_its_name_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "httpx" else find(name))
    ended = swept(workspace(tmp_path), "--values", "1")
    assert ended.code == 2
    assert "error[E901]" in ended.err
    assert "orchestrator[sweep]" in ended.err


def test_a_folder_that_cannot_be_written_is_a_diagnostic(tmp_path: Path) -> None:
    made = workspace(tmp_path)
    (made.folder / "sweep").write_text("a file")
    assert "error[E701]" in swept(made, "--values", "1").err
    (made.folder / "sweep").unlink()
    (made.folder / "sweep").mkdir()
    (made.folder / "sweep" / "max_num_seqs-1").write_text("a file")
    assert "error[E701]" in swept(made, "--values", "1").err


def test_what_was_measured_is_shown_where_its_plot_cannot_be_written(tmp_path: Path) -> None:
    made = workspace(tmp_path)
    (made.folder / "sweep" / "sweep.png").mkdir(parents=True)
    ended = swept(made, "--values", "1")
    assert "error[E701]" in ended.err
    assert ended.code == 2
    assert "Recommended: max_num_seqs=1" in ended.out
    assert not list((made.folder / "sweep").glob(".*.new"))


@contextlib.contextmanager
def started(made: Workspace, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Start a sweep in a process of its own, give it once its server is healthy, and leave none behind."""
    with subprocess.Popen(
        interruptible(*arguments(made, *options)),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as sweep:
        try:
            assert sweep.stderr is not None
            told: list[str] = []
            for line in sweep.stderr:
                told.append(line)
                if "healthy" in line:
                    break
            else:
                pytest.fail("".join(told))
            yield sweep
        finally:
            sweep.kill()


def test_an_interrupt_ends_everything_and_the_records_are_kept(tmp_path: Path) -> None:
    mark = fresh_mark()
    made = workspace(tmp_path, "--mode", "forks", "--mark", mark)
    with started(made, "--values", "1,2", "--rounds", "100000") as sweep:
        sweep.send_signal(signal.SIGINT)
        assert sweep.wait(timeout=120) == 130
    assert processes(mark) == []


def test_two_sweeps_do_not_share_a_folder(tmp_path: Path) -> None:
    mark = fresh_mark()
    made = workspace(tmp_path, "--mode", "stalls", "--mark", mark)
    with started(made, "--values", "1") as sweep:
        second = swept(made, "--values", "1")
        sweep.send_signal(signal.SIGINT)
        assert sweep.wait(timeout=120) == 130
    assert "error[E703]" in second.err
    assert processes(mark) == []


@pytest.mark.parametrize("wish", ["stty -echo < /dev/tty", "read answer < /dev/tty"])
def test_a_server_that_wants_the_terminal_is_told_of_and_ended(tmp_path: Path, wish: str) -> None:
    mark = fresh_mark()
    made = workspace(tmp_path, "--mark", mark)
    server = ("--", "sh", "-c", f'{wish}; exec "$@"', mark, "{command}", "--port", "{port}")
    ours, theirs = os.openpty()
    with os.fdopen(ours), os.fdopen(theirs) as terminal:
        ended = subprocess.run(
            [sys.executable, "-c", ON_TERMINAL, *interruptible(*arguments(made, "--values", "1", server=server))],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=terminal,
            capture_output=True,
            text=True,
            start_new_session=True,
            check=False,
        )
    assert ended.returncode == 5, ended.stderr
    assert "wants to use the terminal" in ended.stderr
    assert processes(mark) == []


ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_sweep_that_is_killed_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    mark = fresh_mark()
    made = workspace(tmp_path, "--mode", "forks", "--mark", mark)
    with started(made, "--values", "1", "--grace", "0.2", "--rounds", "100000") as sweep:
        sweep.send_signal(number)
        assert sweep.wait(timeout=120) == -number
        assert sweep.stderr is not None
    gone(mark)


def gone(mark: str) -> None:
    """Wait until no process with the mark is left; the guard is on its own now, and takes its time."""
    import time  # noqa: PLC0415 - the only place that waits

    for _ in range(600):
        if not processes(mark):
            return
        time.sleep(0.1)
    assert processes(mark) == []
