"""What the OpenAI server of a tree is asked, as plain data: read by the tests, and by the process that serves the tree.

A chat is one request and the output that the engine gives. It is answered whole, and streamed in every way to cut the
output that is named.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "write_file",
            "parameters": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "content": {"type": "string"},
                    "mode": {"type": "integer"},
                    "backup": {"type": "boolean"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    },
    {"type": "function", "function": {"name": "now"}},
]


def call(name: str, **parameters: str) -> str:
    """Write a call as the chat template of the model shows it."""
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters.items())
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


@dataclass(frozen=True)
class Chat:
    """One request, and what the engine answers it with.

    `cut` says how the streamed output is cut: in one piece, letter by letter, or in two at every place. `ends` says
    whether the last piece ends the answer or an empty one behind it does. `at_any_byte` asks once more for each number
    of bytes after which the output may end.
    """

    name: str
    output: str
    extra: dict[str, Any] = field(default_factory=dict)
    template: Literal["opens", "leaves"] = "leaves"
    """Whether the chat template opens the thought in the prompt, or leaves that to the model."""
    cut: Literal["whole", "letters", "everywhere"] = "everywhere"
    ends: Literal["with it", "behind it"] = "behind it"
    finish_reason: str = "stop"
    n: int = 1
    at_any_byte: bool = False


WITH_TOOLS = {"tools": TOOLS}
NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}
FILE = call("write_file", path="a.py", content='if a < b:\n    print("x > y")\n', mode="5", backup="true", tags='["t"]')
NOW = call("now")

ONE_CALL, A_THOUGHT = "one call", "a thought"

TOOL_CHATS = [
    Chat(ONE_CALL, FILE, WITH_TOOLS),
    Chat("one call, ended by its last piece", FILE, WITH_TOOLS, ends="with it"),
    Chat("one call in one piece", FILE, WITH_TOOLS, cut="whole", ends="with it"),
    Chat("two calls in one piece", f"{NOW}\n{FILE}", WITH_TOOLS, cut="whole", ends="with it"),
    Chat("two calls with text around", f"First:\n{FILE}\nthen\n{NOW}\ndone.", WITH_TOOLS),
    Chat("text alone", "a < b, and <tool> is none", WITH_TOOLS),
    Chat("text that ends like a call", "see <tool_ca", WITH_TOOLS, ends="with it"),
    Chat("a malformed call", 'So: <tool_call>\n{"name": "now"}\n</tool_call>', WITH_TOOLS),
    Chat("an unfinished call", f"So: {FILE[:60]}", WITH_TOOLS, finish_reason="length"),
    Chat("a malformed call, then a call", f"<tool_call>?</tool_call>{NOW}", WITH_TOOLS),
    Chat("a value of another type", call("write_file", mode="rw"), WITH_TOOLS, cut="letters"),
    Chat("a tool that was not given", call("other", x="1"), WITH_TOOLS, cut="letters"),
    Chat("a call cut at any byte", f"Ö: {NOW} é", WITH_TOOLS, cut="letters", at_any_byte=True),
    Chat("no tools", FILE, cut="letters"),
    Chat("three choices", f"Hm. {FILE}", WITH_TOOLS, cut="letters", n=3),
]

THOUGHT = "<think>\nHm, ünfair.\n</think>\n\nYes, <b>."
INSIDE = THOUGHT.removeprefix("<think>\n")
THOUGHT_AND_CALL = f"Hm: {NOW} maybe.\n</think>\n\nSo:\n{FILE}"
NAMED = {**WITH_TOOLS, "tool_choice": {"type": "function", "function": {"name": "now"}}}
REASONING_CHATS = [
    Chat(A_THOUGHT, THOUGHT),
    Chat("a thought, ended by its last piece", THOUGHT, ends="with it"),
    Chat("a thought in one piece", THOUGHT, cut="whole", ends="with it"),
    Chat("a thought that the prompt opened", INSIDE, template="opens"),
    Chat("a thought that was opened twice", THOUGHT, template="opens"),
    Chat("thinking switched off", "Yes </think>.", NO_THINKING, template="opens"),
    Chat("thinking switched off, left to the model", "Yes.", NO_THINKING),
    Chat("no thought", "Yes </think>."),
    Chat("a thought cut at any byte", THOUGHT, cut="letters", at_any_byte=True),
    Chat("an open thought cut at any byte", INSIDE, template="opens", cut="letters", at_any_byte=True),
    Chat("a thought and a call", THOUGHT_AND_CALL, WITH_TOOLS, template="opens"),
    Chat(
        "a thought and a call in one piece", THOUGHT_AND_CALL, WITH_TOOLS, template="opens", cut="whole", ends="with it"
    ),
    Chat(
        "a thought and a call cut at any byte",
        f"é\n</think>{NOW}",
        WITH_TOOLS,
        template="opens",
        cut="letters",
        at_any_byte=True,
    ),
    Chat("three thoughts", INSIDE, template="opens", cut="letters", n=3),
    Chat("a tool that must be called", "{}", NAMED, template="opens", cut="letters"),
    Chat("guided decoding", "ab", {"guided_choice": ["ab"]}, template="opens", cut="letters"),
    Chat("a JSON answer", "{}", {"response_format": {"type": "json_object"}}, template="opens", cut="letters"),
    Chat(
        "a thought that is continued",
        "m.</think>Yes.",
        {
            "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "<think>\nH"}],
            "add_generation_prompt": False,
            "continue_final_message": True,
        },
        cut="letters",
    ),
]

LIMITS: dict[str, dict[str, Any]] = {
    "neither": {},
    "the old name": {"max_tokens": 7},
    "the new name": {"max_completion_tokens": 7},
    "both": {"max_tokens": 9, "max_completion_tokens": 7},
    "beams": {"max_completion_tokens": 7, "use_beam_search": True},
    "too many": {"max_completion_tokens": 100_000},
    "no number": {"max_completion_tokens": "many"},
}
FLAGS = {
    "tools": ["--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder"],
    "reasoning": ["--reasoning-parser", "qwen3"],
    "another parser": ["--reasoning-parser", "qwen2"],
}
