"""Options that the patched command line does not know, and options that do nothing there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.checks.verdict import Status
from tests.checks.serving.conftest import ARGUMENTS, COMMAND, FILE, PARSERS, TREE

if TYPE_CHECKING:
    from tests.checks.serving.conftest import Serve

FORCED = "W540 {} has no effect here: vllm/arguments.py:20:42 "


# ------------------------------------------------------------------------------------------------------- known
@pytest.mark.parametrize(
    "arguments",
    [
        ["--model", "/model", "-tp", "4"],
        ["--max_model_len", "8192", "--chat-template", "x"],
        ["--chat_template=x"],
        ["--gpu-memory", "0.9"],  # argparse takes the beginning of one option alone
        ["--enable-chunked-prefill"],
        ["--enable-chunked-prefill", "True", "--max-num-batched-tokens", "512"],
        ["--block-size", "16"],
        ["--tool-call-parser", "hermes"],
        ["--tool-call-parser", "mine", "--tool-parser-plugin", "/model/mine.py"],
    ],
)
def test_what_the_parser_knows_is_taken(serve: Serve, arguments: list[str]) -> None:
    assert [said for said in serve.found(*arguments) if said.startswith("E541")] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--max-model-length", "8192"],
            "rule 6: the server in the patched tree knows no --max-model-length; did you mean '--max-model-len'?",
        ),
        (
            ["--reasoning-parser", "qwen3"],
            (
                "rule 6: the server in the patched tree knows no --reasoning-parser; a stage that brings it is off, or "
                "not there"
            ),
        ),
        (["-x"], "rule 6: the server in the patched tree knows no -x; a stage that brings it is off, or not there"),
        (["--max-num", "8"], "--max-num may be --max-num-batched-tokens, --max-num-seqs"),
        (["--enforce-eager", "true"], "--enforce-eager takes no value, and is given 'true' (vllm/arguments.py:11:9)"),
        (["8192"], "'8192' is no option, and the option before it does not take it"),
        (["--model", "/a", "/b"], "'/b' is no option, and the option before it does not take it"),
        (["--model"], "--model takes a value and has none (vllm/command.py:4:5)"),
        (["--block-size", "64"], "--block-size 64: the server takes 8, 16, 32 (vllm/arguments.py:9:9)"),
        (
            ["--tool-call-parser", "hermez"],
            "rule 6: nothing in vllm/parsers registers --tool-call-parser hermez; did you mean 'hermes'?",
        ),
        (
            ["--tool-call-parser", "forgotten"],  # its module is there and nothing imports it
            (
                "rule 6: nothing in vllm/parsers registers --tool-call-parser forgotten; a stage that brings it is "
                "off, or not there"
            ),
        ),
    ],
)
def test_what_the_parser_does_not_know_is_refused(serve: Serve, arguments: list[str], said: str) -> None:
    found = [finding for finding in serve.judge(*arguments).findings if finding.code == "E541"]
    assert [finding.message for finding in found] == [said]
    assert found[0].place is not None
    assert found[0].place.file == FILE
    assert found[0].help


def test_the_stage_that_provides_an_unknown_option_is_named(serve: Serve) -> None:
    serve.facts(providers={"reasoning-parser": "reasoning", "tool-call-parser": "tools"})
    found = serve.found("--reasoning-parser", "qwen3", "--tool-call-parser", "coder")
    assert [said.partition("; ")[2] for said in found] == [
        "stage 'reasoning' provides it, and what that brings is not in the tree",
        "stage 'tools' provides the option, and what that brings is not in the tree",
    ]


def test_a_stage_that_adds_the_argument_makes_the_option_known(serve: Serve) -> None:
    assert "E541" in serve.found("--reasoning-parser", "qwen3")[0]
    serve.file(
        COMMAND, str(TREE[COMMAND]).replace("    return", "    parser.add_argument('--reasoning-parser')\n    return")
    )
    assert serve.found("--reasoning-parser", "qwen3") == []


def test_a_stage_that_registers_and_imports_a_value_makes_it_known(serve: Serve) -> None:
    arguments = ["--tool-call-parser", "two"]
    assert "E541" in serve.found(*arguments)[0]
    serve.file(f"{PARSERS}/__init__.py", "from .several import Several\n")
    assert serve.found(*arguments) == []


def test_where_code_makes_an_option_s_name_none_is_called_unknown(serve: Serve) -> None:
    text = str(TREE[COMMAND]).replace("    return", "    parser.add_argument(f'--{NAME}')\n    return")
    serve.file(COMMAND, text)
    assert serve.found("--reasoning-parser", "qwen3") == []
    assert [said[:4] for said in serve.found("--enforce-eager", "true")] == ["E541", "W540"]


@pytest.mark.parametrize("line", ["parser.add_argument('path')", "parser.add_argument('--names', nargs='*')"])
def test_a_word_that_something_takes_is_fine(serve: Serve, line: str) -> None:
    serve.file(COMMAND, str(TREE[COMMAND]).replace("    return", f"    {line}\n    return"))
    before = ["--names", "a"] if "names" in line else []
    assert serve.found(*before, "b", "c") == []


def test_a_switch_with_its_opposite_has_both(serve: Serve) -> None:
    text = str(TREE[COMMAND]).replace(
        "    return", "    parser.add_argument('--fast', action=argparse.BooleanOptionalAction)\n    return"
    )
    serve.file(COMMAND, text)
    assert serve.found("--no-fast") == []
    assert [said[:4] for said in serve.found("--fast", "1")] == ["E541"]


def test_another_program_s_options_are_not_judged_by_the_server_s_parser(serve: Serve) -> None:
    assert serve.found("--other", "1", start=("-m", "something.else")) == []


def test_options_before_the_module_are_python_s(serve: Serve) -> None:
    assert serve.found("--model", "/model", start=("-u", "-m", "vllm.server")) == []


@pytest.mark.parametrize("file", [ARGUMENTS, COMMAND])
def test_without_the_parser_s_files_no_option_is_called_unknown(serve: Serve, file: str) -> None:
    del serve.scene.files[file]
    assert [said for said in serve.found("--other", "1") if "E541" in said] == []


# -------------------------------------------------------------------------------------------------------- idle
def test_an_option_under_a_forced_one_is_called_idle_with_the_place_that_forces_it(serve: Serve) -> None:
    found = serve.judge("--max-seq-len-to-capture", "65536")
    assert found.status is Status.WARNS
    assert [f"{d.code} {d.message}" for d in found.findings] == [
        FORCED.format("--max-seq-len-to-capture 65536") + "forces --enforce-eager"
    ]


def test_a_forced_option_itself_is_idle_too(serve: Serve) -> None:
    assert serve.found("--enforce-eager") == [
        FORCED.format("--enforce-eager") + "sets it whatever the command line says"
    ]


@pytest.mark.parametrize("arguments", [["--max-seq-len-to-capture", "65536"], ["--disable-custom-all-reduce"]])
def test_a_patch_that_takes_the_override_away_gives_the_option_its_effect(serve: Serve, arguments: list[str]) -> None:
    serve.file(ARGUMENTS, str(TREE[ARGUMENTS]).replace("enforce_eager=True", "enforce_eager=self.enforce_eager"))
    assert serve.found(*arguments) == []


def test_a_constant_of_false_forces_but_makes_nothing_idle(serve: Serve) -> None:
    serve.file(ARGUMENTS, str(TREE[ARGUMENTS]).replace("enforce_eager=True", "enforce_eager=False"))
    assert serve.found("--max-seq-len-to-capture", "65536") == []
    assert len(serve.found("--enforce-eager")) == 1


def test_eager_mode_that_the_command_line_asks_for_makes_the_capture_idle(serve: Serve) -> None:
    serve.file(ARGUMENTS, str(TREE[ARGUMENTS]).replace("enforce_eager=True", "enforce_eager=self.enforce_eager"))
    assert serve.found("--enforce-eager", "--max-seq-len-to-capture", "8192") == [
        "W540 --max-seq-len-to-capture 8192 has no effect here: --enforce-eager stands beside it"
    ]


def test_prefix_caching_is_idle_for_a_multimodal_model(serve: Serve) -> None:
    assert serve.found("--enable-prefix-caching") == []
    assert serve.found("--enable-prefix-caching", multimodal=True) == [
        (
            "W540 --enable-prefix-caching has no effect here: rule 5: the engine turns prefix caching off for a "
            "multimodal model"
        )
    ]


def test_warnings_do_not_fail_the_check_and_errors_come_with_them(serve: Serve) -> None:
    found = serve.judge("--enforce-eager", "--nothing")
    assert found.status is Status.FAILS
    assert [finding.code for finding in found.findings] == ["E541", "W540"]


def test_a_forced_option_s_definition_may_be_gone(serve: Serve) -> None:
    serve.file(ARGUMENTS, str(TREE[ARGUMENTS]).replace("create_model_config", "another"))
    assert serve.found("--max-seq-len-to-capture", "65536") == []
