"""What the server of the patched tree answers: the same whole and streamed, however the output is cut."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from modules.reasoning import thought as thoughts
from tests.behaviour_openai import chats

if TYPE_CHECKING:
    from tests.behaviour_openai.conftest import Answers

CONTENT = 'if a < b:\n    print("x > y")\n'
FILE = ["write_file", {"path": "a.py", "content": CONTENT, "mode": 5, "backup": True, "tags": ["t"]}]
NOW = ["now", {}]
LEFT = "A tool call at character {} is left as text: {}."


@dataclass(frozen=True)
class Expected:
    """A choice of an answer, and the lines that it is logged with."""

    content: str = ""
    thought: str = ""
    calls: tuple[list[Any], ...] = ()
    finish_reason: str = ""
    lines: tuple[str, ...] = ()


EXPECTED = {
    "one call": Expected(calls=(FILE,)),
    "one call, ended by its last piece": Expected(calls=(FILE,)),
    "one call in one piece": Expected(calls=(FILE,)),
    "two calls in one piece": Expected(calls=(NOW, FILE)),
    "two calls with text around": Expected("First:\n\nthen\n\ndone.", calls=(FILE, NOW)),
    "text alone": Expected("a < b, and <tool> is none"),
    "text that ends like a call": Expected("see <tool_ca"),
    "a malformed call": Expected(
        'So: <tool_call>\n{"name": "now"}\n</tool_call>', lines=(LEFT.format(4, "there should be <function="),)
    ),
    "an unfinished call": Expected(
        f"So: {chats.FILE[:60]}", finish_reason="length", lines=(LEFT.format(4, "the output ends inside it"),)
    ),
    "a malformed call, then a call": Expected(
        "<tool_call>?</tool_call>", calls=(NOW,), lines=(LEFT.format(0, "there should be <function="),)
    ),
    "a value of another type": Expected(
        calls=(["write_file", {"mode": "rw"}],),
        lines=("Tool call: 1 argument(s) not of a type in the tool's schema, given as strings.",),
    ),
    "a tool that was not given": Expected(calls=(["other", {"x": "1"}],)),
    "a call cut at any byte": Expected("Ö:  é", calls=(NOW,)),
    "no tools": Expected(chats.FILE),
    "three choices": Expected("Hm. ", calls=(FILE,)),
    "a thought": Expected("Yes, <b>.", "Hm, ünfair."),
    "a thought, ended by its last piece": Expected("Yes, <b>.", "Hm, ünfair."),
    "a thought in one piece": Expected("Yes, <b>.", "Hm, ünfair."),
    "a thought that the prompt opened": Expected("Yes, <b>.", "Hm, ünfair."),
    "a thought that was opened twice": Expected("Yes, <b>.", "Hm, ünfair."),
    "thinking switched off": Expected("Yes </think>."),
    "thinking switched off, left to the model": Expected("Yes."),
    "no thought": Expected("Yes </think>."),
    "a thought cut at any byte": Expected("Yes, <b>.", "Hm, ünfair."),
    "an open thought cut at any byte": Expected("Yes, <b>.", "Hm, ünfair."),
    "a thought and a call": Expected("So:\n", f"Hm: {chats.NOW} maybe.", (FILE,)),
    "a thought and a call in one piece": Expected("So:\n", f"Hm: {chats.NOW} maybe.", (FILE,)),
    "a thought and a call cut at any byte": Expected("", "é", (NOW,)),
    "three thoughts": Expected("Yes, <b>.", "Hm, ünfair."),
    "guided decoding": Expected("ab"),
    "a JSON answer": Expected("{}"),
    "a thought that is continued": Expected("<think>\nHYes.", "m."),
}
ALL = [chat for chat in (*chats.TOOL_CHATS, *chats.REASONING_CHATS) if chat.name in EXPECTED]
CUT = [chat for chat in ALL if chat.at_any_byte]


def named(chat: chats.Chat) -> str:
    return chat.name


def plain(choice: dict[str, Any]) -> dict[str, Any]:
    """Return a choice with what it may leave out, and its arguments as values."""
    return {
        "content": choice["content"] or "",
        "thought": choice["thought"] or "",
        "calls": [[name, json.loads(arguments)] for name, arguments in choice["calls"]],
        "finish_reason": choice["finish_reason"],
    }


def choice_of(expected: Expected) -> dict[str, Any]:
    reason = expected.finish_reason or ("tool_calls" if expected.calls else "stop")
    return {
        "content": expected.content,
        "thought": expected.thought,
        "calls": list(expected.calls),
        "finish_reason": reason,
    }


def test_every_chat_is_expected() -> None:
    assert {chat.name for chat in ALL} | {"a tool that must be called"} == {
        chat.name for chat in (*chats.TOOL_CHATS, *chats.REASONING_CHATS)
    }


@pytest.mark.parametrize("chat", ALL, ids=named)
def test_a_whole_answer_has_its_parts(chat: chats.Chat, on_patched: Answers) -> None:
    expected = EXPECTED[chat.name]
    assert [plain(choice) for choice in on_patched[chat.name]["whole"]] == [choice_of(expected)] * chat.n
    assert on_patched[chat.name]["lines"] == list(expected.lines)


@pytest.mark.parametrize("chat", ALL, ids=named)
def test_a_streamed_answer_is_the_whole_one_however_it_is_cut(chat: chats.Chat, on_patched: Answers) -> None:
    expected = choice_of(EXPECTED[chat.name])
    [answer] = on_patched[chat.name]["streamed"]
    assert [plain(choice) for choice in answer] == [
        {**expected, "finish_reason": [expected["finish_reason"]]}  # once, at the end
    ] * chat.n
    assert on_patched[chat.name]["streamed lines"] == [list(EXPECTED[chat.name].lines)]


@pytest.mark.parametrize("chat", ALL, ids=named)
def test_each_streamed_call_begins_with_its_id_and_its_kind(chat: chats.Chat, on_patched: Answers) -> None:
    for choice in on_patched[chat.name]["streamed"][0]:
        assert choice["heads"] == ["chatcmpl-tool- function"] * len(choice["calls"])


@pytest.mark.parametrize("chat", ALL, ids=named)
def test_a_part_that_is_empty_is_null(chat: chats.Chat, on_patched: Answers) -> None:
    for choice in on_patched[chat.name]["whole"]:
        assert choice["content"] != ""
        assert choice["thought"] != ""


def parts_of(output: str, chat: chats.Chat) -> dict[str, Any]:
    """Return what an output that ends too early must give."""
    thought, answer = "", output
    if chat.template == "opens" or output.startswith(thoughts.OPEN):
        thought, _, answer = output.removeprefix(thoughts.OPEN).partition(thoughts.CLOSE)
        thought, answer = thought.strip("\n"), answer.lstrip("\n")
    texts = answer.split(chats.NOW)
    calls = [NOW] * (len(texts) - 1)
    return {
        "content": "".join(text for text in texts if text.strip()) if calls else answer,
        "thought": thought,
        "calls": calls,
        "finish_reason": "tool_calls" if calls else "length",
    }


@pytest.mark.parametrize("chat", CUT, ids=named)
def test_an_answer_that_is_cut_at_any_byte_loses_nothing(chat: chats.Chat, on_patched: Answers) -> None:
    assert len(on_patched[chat.name]["cut"]) == len(chat.output.encode()) + 1
    for output, [whole], [streamed] in on_patched[chat.name]["cut"]:
        expected = parts_of(output, chat)
        assert plain(whole) == expected, output
        assert plain(streamed) == {**expected, "finish_reason": [expected["finish_reason"]]}, output


def test_a_tool_that_must_be_called_is_guided_and_has_no_thought(on_patched: Answers) -> None:
    found = on_patched["a tool that must be called"]
    [whole] = found["whole"]
    assert whole["calls"] == [["now", "{}"]]
    [[streamed]] = found["streamed"]
    assert streamed["calls"][0][1] == "{}"
    assert not whole["thought"]
    assert not streamed["thought"]


@pytest.mark.parametrize(
    ("name", "limit"), [("neither", 4060), ("the old name", 7), ("the new name", 7), ("both", 7), ("beams", 7)]
)
def test_the_new_name_of_the_limit_is_taken(name: str, limit: int, on_patched: Answers) -> None:
    assert on_patched["limits"][name]["limit"] == limit


@pytest.mark.parametrize(("name", "words"), [("too many", "maximum context length"), ("no number", "valid integer")])
def test_a_limit_that_cannot_be_is_refused(name: str, words: str, on_patched: Answers) -> None:
    found = on_patched["limits"][name]
    assert found["status"] == 400
    assert words in found["message"]


def test_the_server_starts_with_the_flags_and_with_no_other_parser(on_patched: Answers) -> None:
    starts = on_patched["starts"]
    assert starts["tools"]["started"]
    assert starts["reasoning"]["started"]
    assert not starts["another parser"]["started"]
    assert "invalid choice: 'qwen2' (choose from" in starts["another parser"]["said"]
