"""The run configuration: its shape, and the engine's rules on the argument list before any server starts."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.checks.serving.argv import parse_argv
from orchestrator.checks.serving.effective import Context, Engine
from orchestrator.checks.serving.rules import broken_rules
from orchestrator.checks.verdict import Status
from orchestrator.core.diagnostics import Place

if TYPE_CHECKING:
    from tests.checks.conftest import Scene

FILE = "computility-run.yaml"
ENGINE = Engine(512, 2048, 5120, 256, 32768, 262144)
SERVER = ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "/model"]


def document(*arguments: str, rest: str = "env: []") -> str:
    return f"concurrency: 8\ncommand: {json.dumps([*SERVER, *arguments])}\n{rest}\n"


def rules(*arguments: str, multimodal: bool = False, chunks_by_itself: bool = False) -> list[str]:
    return broken_rules(parse_argv([*SERVER, *arguments]), Context(ENGINE, multimodal, chunks_by_itself))


# ------------------------------------------------------------------------------------------- the arguments
@pytest.mark.parametrize(
    ("argv", "flags"),
    [
        (["--a", "1", "--b=2", "-tp", "4", "--bare"], {"a": "1", "b": "2", "tensor-parallel-size": "4", "bare": None}),
        (["--max_model_len", "1"], {"max-model-len": "1"}),
        (["--a", "1", "--a", "2"], {"a": "2"}),
        (["--a=", "--b", "-1", "--c"], {"a": "", "b": "-1", "c": None}),
        (["-tp=4", "x", "y"], {"tensor-parallel-size": "4"}),
        (["--a=b=c"], {"a": "b=c"}),
        (["-", "--", "-5"], {}),
        ([], {}),
    ],
)
def test_arguments_are_read_as_the_engine_reads_them(argv: list[str], flags: dict[str, str | None]) -> None:
    assert parse_argv(argv) == flags


@given(st.lists(st.text("-=a1 ", max_size=4), max_size=6))
def test_any_argument_list_can_be_read(argv: list[str]) -> None:
    assert all(not key.startswith("-") or not key.strip("-") for key in parse_argv(argv))


# ------------------------------------------------------------------------------------------------ the rules
@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["--max-model-len", "8192", "--max-num-batched-tokens", "8192"], {}),
        (["--max-model-len", "8192", "--max-num-batched-tokens", "4096", "--enable-chunked-prefill"], {}),
        (["--max-model-len", "8192", "--max-num-batched-tokens", "4096", "--enable-chunked-prefill=True"], {}),
        (["--max-model-len", "100000"], {}),
        (["--enable-chunked-prefill", "--max-num-seqs", "512"], {}),
        (["--enable-chunked-prefill", "--max-num-seqs", "5120"], {"multimodal": True}),
        (["--max-model-len", "65536", "--max-num-batched-tokens", "8192"], {"chunks_by_itself": True}),
        ([], {}),
    ],
)
def test_what_the_engine_takes_is_taken(arguments: list[str], options: dict[str, bool]) -> None:
    assert rules(*arguments, **options) == []


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (
            ["--max-model-len", "32768", "--max-num-batched-tokens=8192"],
            {},
            (
                "rule 1: without chunked prefill, --max-num-batched-tokens 8192 must be at least "
                "the context length 32768; "
                "the smallest legal --max-num-batched-tokens is 32768, the largest legal --max-model-len is 8192"
            ),
        ),
        (
            ["--max-num-batched-tokens", "8192"],
            {},
            (
                "rule 1: without chunked prefill, --max-num-batched-tokens 8192 must be at least "
                "the context length 262144 "
                "(the model's own length); the smallest legal --max-num-batched-tokens is 262144, "
                "the largest legal --max-model-len is 8192"
            ),
        ),
        (
            ["--enable-chunked-prefill", "false", "--max-model-len", "4096", "--max-num-batched-tokens", "2048"],
            {},
            (
                "rule 1: without chunked prefill, --max-num-batched-tokens 2048 must be at least "
                "the context length 4096; "
                "the smallest legal --max-num-batched-tokens is 4096, the largest legal --max-model-len is 2048"
            ),
        ),
        (
            ["--max-model-len", "65536", "--max-num-batched-tokens", "8192", "--enable-lora"],
            {"chunks_by_itself": True},
            (
                "rule 1: without chunked prefill, --max-num-batched-tokens 8192 must be at least "
                "the context length 65536; "
                "the smallest legal --max-num-batched-tokens is 65536, the largest legal --max-model-len is 8192"
            ),
        ),
        (
            ["--enable-chunked-prefill", "--max-num-seqs", "513"],
            {},
            (
                "rule 2: the engine's default of 512 batched tokens must be at least --max-num-seqs 513; "
                "the smallest legal --max-num-batched-tokens is 513, the largest legal --max-num-seqs is 512"
            ),
        ),
        (
            ["--enable-chunked-prefill", "--max-num-batched-tokens", "128"],
            {},
            (
                "rule 2: --max-num-batched-tokens 128 must be at least the engine's default of 256 sequences; "
                "the smallest legal --max-num-batched-tokens is 256, the largest legal --max-num-seqs is 128"
            ),
        ),
        (
            ["--num-scheduler-steps", "0"],
            {},
            "rule 2: --num-scheduler-steps 0 must be at least 1, the smallest legal value",
        ),
        (["--max-num-seqs", "-1"], {}, "--max-num-seqs -1 must be at least 1, the smallest legal value"),
        (["--max-num-seqs", "many"], {}, "--max-num-seqs has 'many', which is no whole number"),
        (["--max-model-len=8k"], {}, "--max-model-len has '8k', which is no whole number"),
        (["--max-num-batched-tokens", "1.5"], {}, "--max-num-batched-tokens has '1.5', which is no whole number"),
        (["--max-model-len"], {}, "--max-model-len has no value"),
        (
            ["--enable-chunked-prefill=maybe"],
            {},
            "--enable-chunked-prefill has 'maybe', neither true nor false",
        ),
    ],
)
def test_what_the_engine_refuses_is_refused_with_the_legal_value(
    arguments: list[str], options: dict[str, bool], said: str
) -> None:
    assert rules(*arguments, **options) == [said]


@given(
    st.integers(1, 70_000),
    st.integers(1, 70_000) | st.none(),
    st.integers(1, 6_000) | st.none(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_the_value_that_a_rule_calls_legal_is_legal(  # noqa: PLR0913, PLR0917 - one value each
    length: int,
    tokens: int | None,
    sequences: int | None,
    chunked: bool,  # noqa: FBT001 - drawn
    multimodal: bool,  # noqa: FBT001 - drawn
    by_itself: bool,  # noqa: FBT001 - drawn
) -> None:
    arguments = ["--max-model-len", str(length)]
    arguments += ["--max-num-batched-tokens", str(tokens)] if tokens else []
    arguments += ["--max-num-seqs", str(sequences)] if sequences else []
    arguments += ["--enable-chunked-prefill"] if chunked else []
    for _ in range(2):
        found = rules(*arguments, multimodal=multimodal, chunks_by_itself=by_itself)
        for sentence in found:
            smallest = sentence.partition("smallest legal --max-num-batched-tokens is ")[2].partition(",")[0]
            arguments += ["--max-num-batched-tokens", smallest]
    assert rules(*arguments, multimodal=multimodal, chunks_by_itself=by_itself) == []


# ------------------------------------------------------------------------------------------------ the check
def test_a_good_run_configuration_holds_and_says_what_it_counted_with(scene: Scene) -> None:
    scene.artefacts = {FILE: document("--max-model-len", "8192", rest='env:\n  - {name: FAST, value: "1"}')}
    found = scene.judge("run_config", file=FILE)
    assert (found.status, found.evidence) == (
        Status.HOLDS,
        (
            f"{FILE} keeps the rules of shape, engine and environment "
            "with the engine's default of 8192 batched tokens; "
            "KV capacity unknown: no --gpu-memory-utilization, or engine.default_gpu_memory_utilisation"
        ),
    )


def test_a_broken_rule_fails_at_the_argument_list(scene: Scene) -> None:
    scene.artefacts = {FILE: document("--num-scheduler-steps", "0", "--max-num-seqs", "many")}
    found = scene.judge("run_config", file=FILE)
    assert (found.status, found.evidence) == (
        Status.FAILS,
        f"{FILE}:2:10: --max-num-seqs has 'many', which is no whole number",
    )
    assert found.place is not None
    assert (found.place.file, found.place.line, found.place.column) == (FILE, 2, 10)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("concurrency: 8\ncommand: [a]\n", f"{FILE}:1:1: key 'env' is missing"),
        (document(rest="env: []\nextra: 1"), f"{FILE}:4:1: unknown key 'extra'"),
        (document().replace("8\n", "0\n", 1), f"{FILE}:1:14: 'concurrency' "),
        (document().replace(": 8", ': "8"', 1), f"{FILE}:1:14: 'concurrency' "),
        (
            "concurrency: 8\ncommand: [a, 8]\nenv: []\n",
            f"{FILE}:2:14: an entry of 'command' takes text, but YAML reads `8` as a number",
        ),
        ("concurrency: 8\ncommand: []\nenv: []\n", f"{FILE}:2:10: 'command' "),
        (
            document(rest="env: [{name: A, value: 1}]"),
            f"{FILE}:3:24: 'value' takes text, but YAML reads `1` as a number",
        ),
        (document(rest='env: [{name: A, value: "1", more: 2}]'), f"{FILE}:3:29: unknown key 'more'"),
        (document(rest='env: [{name: A B, value: "1"}]'), f"{FILE}:3:14: 'name' "),
        (document(rest='env: [{name: A, value: "1"}, {name: A, value: "2"}]'), "env names A more than once"),
        (document(rest="env: [{name: A, value: 0.10}]"), "`0.10` is read by YAML as 0.1"),
        ("- 1\n", f"{FILE}:1:1: "),
    ],
)
def test_another_shape_fails_with_its_place(scene: Scene, text: str, said: str) -> None:
    scene.artefacts = {FILE: text}
    found = scene.judge("run_config", file=FILE)
    assert found.status is Status.FAILS
    assert said in found.evidence
    assert found.place is not None
    assert found.place.file == FILE


def test_every_fault_of_the_shape_is_named_at_once(scene: Scene) -> None:
    scene.artefacts = {FILE: "concurrency: 0\ncommand: []\nextra: 1\n"}
    evidence = scene.judge("run_config", file=FILE).evidence
    assert all(part in evidence for part in ("'concurrency'", "'command'", "'env' is missing", "unknown key 'extra'"))


@pytest.mark.parametrize("path", ["env", "concurrency", "command[0]", "commands"])
def test_what_is_no_argument_list_is_refused(scene: Scene, path: str) -> None:
    scene.artefacts = {FILE: document(rest='env: [{name: A, value: "1"}]')}
    found = scene.judge("run_config", file=FILE, argv_from=path)
    assert (found.status, found.evidence, found.place) == (
        Status.FAILS,
        f"`{path}` of {FILE} is no argument list",
        Place(FILE),
    )


def test_the_engines_figures_come_from_the_target(scene: Scene) -> None:
    scene.artefacts = {FILE: document()}
    values = dict(scene.facts.values)
    del values["engine.default_batched_tokens_floor"]
    scene.facts = dataclasses.replace(scene.facts, values=values)
    found = scene.judge("run_config", file=FILE)
    assert (found.status, found.evidence) == (
        Status.FAILS,
        "the target has no usable figure `engine.default_batched_tokens_floor`",
    )
