"""The same chats without the patches, and with one of the two parsers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.engine.outcome import Applied, Skipped
from tests.behaviour_openai import chats

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.engine.outcome import Run
    from tests.behaviour_openai.conftest import Answers

TOOLS, REASONING = "qwen3-coder-tools", "reasoning-parser"
FLAGS = {TOOLS: ("--enable-auto-tool-choice", "--tool-call-parser"), REASONING: ("--reasoning-parser",)}


def test_unpatched_the_server_knows_none_of_the_flags(on_unpatched: Answers) -> None:
    starts = on_unpatched["starts"]
    assert "tool_parser:'qwen3_coder' which has not been registered" in starts["tools"]["said"]
    assert "unrecognized arguments: --reasoning-parser qwen3" in starts["reasoning"]["said"]


@pytest.mark.parametrize("chat", [c for c in chats.TOOL_CHATS if c.extra], ids=lambda chat: chat.name)
def test_unpatched_a_chat_with_tools_is_refused(chat: chats.Chat, on_unpatched: Answers) -> None:
    [answer] = on_unpatched[chat.name]["whole"]
    assert answer["status"] == 400
    assert "--enable-auto-tool-choice" in answer["message"]


@pytest.mark.parametrize("name", ["a thought", "a thought that the prompt opened"])
def test_unpatched_the_thought_is_part_of_the_answer(name: str, on_unpatched: Answers) -> None:
    [whole] = on_unpatched[name]["whole"]
    [[streamed]] = on_unpatched[name]["streamed"]
    for found in (whole, streamed):
        assert "Hm, ünfair.\n</think>" in found["content"]
        assert not found["thought"]


def test_unpatched_the_new_name_of_the_limit_is_refused(on_unpatched: Answers) -> None:
    for name in ("the new name", "both", "beams"):
        found = on_unpatched["limits"][name]
        assert found["status"] == 400
        assert "max_completion_tokens" in found["message"]
    assert on_unpatched["limits"]["the old name"]["limit"] == 7


@pytest.mark.parametrize(("off", "other"), [(TOOLS, REASONING), (REASONING, TOOLS)])
def test_a_parser_that_is_switched_off_takes_its_flags_with_it_and_leaves_the_other(
    off: str, other: str, run_without: Callable[[str], Run]
) -> None:
    made = run_without(off)
    outcomes = {stage.id: stage.outcome for stage in made.results}
    skipped = outcomes[off]
    assert isinstance(skipped, Skipped)
    assert skipped.reason
    assert isinstance(outcomes[other], Applied)
    command = made.artefacts["computility-run.yaml"].decode()
    assert not any(flag in command for flag in FLAGS[off])
    assert all(flag in command for flag in FLAGS[other])


def test_tools_alone_leave_the_thought_in_the_answer(answers_without: Callable[[str], Answers]) -> None:
    found = answers_without(REASONING)
    assert found["starts"]["tools"]["started"]
    assert not found["starts"]["reasoning"]["started"]
    [[streamed]] = found[chats.ONE_CALL]["streamed"]
    assert streamed["calls"][0][0] == "write_file"
    assert found[chats.A_THOUGHT]["whole"][0]["content"] == chats.THOUGHT


def test_reasoning_alone_needs_no_tool_parser(answers_without: Callable[[str], Answers]) -> None:
    found = answers_without(TOOLS)
    assert found["starts"]["reasoning"]["started"]
    assert not found["starts"]["tools"]["started"]
    assert found[chats.A_THOUGHT]["whole"][0]["thought"] == "Hm, ünfair."
    [[streamed]] = found[chats.A_THOUGHT]["streamed"]
    assert streamed["thought"] == "Hm, ünfair."
