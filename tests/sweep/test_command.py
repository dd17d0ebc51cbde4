"""The server's command line: what is filled in, and what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.sweep.command import Filling, appends_flags, faults_of, filled, flags_of

COMMAND = ("python3", "-m", "vllm.server", "--model", "/model", "--max-num-seqs", "8", "--trust-remote-code")
FLAGS = list(COMMAND[3:])
FILLING = Filling("8", 1234, Path("/out/max_num_seqs-8/run.yaml"), COMMAND)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("{command}", "--port", "{port}"), [*COMMAND, "--port", "1234"]),
        (("serve", "--port={port}", "{flags}"), ["serve", "--port=1234", *FLAGS]),
        (("serve", "--seqs", "{value}", ":{port}"), ["serve", "--seqs", "8", ":1234"]),
        (("serve", "{config}", "{port}"), ["serve", "/out/max_num_seqs-8/run.yaml", "1234"]),
        (("sh", "-c", "serve {value} {port} > {folder}/x"), ["sh", "-c", "serve 8 1234 > /out/max_num_seqs-8/x"]),
        (("serve", "{port}"), ["serve", "1234", *FLAGS]),
        (("serve", "{{port}}", "{port}", "{value}"), ["serve", "{port}", "1234", "8"]),
        (("serve", '{"a": {"b": 1}}', "{port}", "{value}"), ["serve", '{"a": {"b": 1}}', "1234", "8"]),
    ],
)
def test_placeholders_are_filled_in_and_flags_appended_where_nothing_depends_on_the_value(
    words: tuple[str, ...], expected: list[str]
) -> None:
    assert faults_of(words, None) == []
    assert filled(words, FILLING) == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no server command"),
        (("",), "no server command"),
        (("serve",), "does not say where `{port}` goes"),
        (("serve", "{{port}}"), "does not say where `{port}` goes"),
        (("serve", "{port}", "{valu}"), "unknown placeholder `{valu}`"),
        (("serve", "{port}", "x{flags}"), "cannot be part of `x{flags}`"),
        (("sh", "-c", "exec {command} --port {port}"), "cannot be part of"),
    ],
)
def test_a_command_line_that_cannot_be_filled_in_is_refused(words: tuple[str, ...], said: str) -> None:
    found = faults_of(words, None)
    assert any(said in fault.message for fault in found)
    assert all(fault.help for fault in found)


def test_a_port_that_is_given_need_not_stand_in_the_command_line() -> None:
    assert faults_of(("serve",), 8000) == []


def test_a_misspelt_placeholder_is_told_the_nearest_one() -> None:
    assert "did you mean 'value'?".lower() in faults_of(("serve", "{port}", "{valu}"), None)[0].help.lower()


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (COMMAND, FLAGS),
        (("vllm", "serve", "/model", "-tp", "4"), ["-tp", "4"]),
        (("python3", "-u", "-m", "server", "-m", "x", "-1"), ["-m", "x", "-1"]),
        (("python3", "-m"), []),
        ((), []),
    ],
)
def test_the_flags_are_what_follows_the_program(command: tuple[str, ...], flags: list[str]) -> None:
    assert list(flags_of(command)) == flags


@given(st.lists(st.text(alphabet="abc -/=.", min_size=1), min_size=1))
def test_words_without_braces_stay_as_they_are(words: list[str]) -> None:
    assert appends_flags(words)
    assert filled(words, FILLING) == [*words, *FLAGS]
