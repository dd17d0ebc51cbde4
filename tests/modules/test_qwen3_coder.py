"""Qwen3-Coder's tool calls: what is a call, what is text, and which values the schema makes of them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.tool_parsers.qwen3_coder_syntax import Call, CallScanner, Event, Refused, Text, scan
from modules.tool_parsers.qwen3_coder_values import arguments_of

if TYPE_CHECKING:
    from collections.abc import Sequence

TAGS = ["<tool_call>", "</tool_call>", "<function=f>", "<function=", "</function>", "<parameter=k>", "<parameter="]
SHORT = "<tool_call><function=f><parameter=k>v</parameter></function></tool_call>"
PIECES = st.sampled_from(
    [*TAGS, "</parameter>", "<tool_c", "all>", "<", ">", "/", "=", "\n", " ", "a", "é", "k", SHORT, "<parameter=k2>"]
)
OUTPUTS = st.lists(PIECES, max_size=14).map("".join)
TEXTS = st.text(alphabet='ab <>"\\\n/=é', max_size=12)
NAMES = st.text(alphabet="abc_-.7", min_size=1, max_size=6)
PROSE = st.sampled_from(["", "\n", "I look.", "\n\nNow:\n\n", 'a < b > "c"', "<tool>", "<function=f>", "</tool_call>"])


def written(name: str, parameters: dict[str, str]) -> str:
    """Write a call as the chat template of the model shows it."""
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters.items())
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


def joined(events: Sequence[Event]) -> list[Event]:
    """Return the events with neighbouring texts as one: where a text is cut says nothing."""
    found: list[Event] = []
    for event in events:
        if isinstance(event, Text) and found and isinstance(found[-1], Text):
            found[-1] = Text(found[-1].text + event.text)
        else:
            found.append(event)
    return found


def in_pieces(output: str, cuts: list[int]) -> list[Event]:
    scanner = CallScanner()
    ends = [0, *sorted(cut % (len(output) + 1) for cut in cuts), len(output)]
    events = [event for a, b in pairwise(ends) for event in scanner.feed(output[a:b])]
    return joined([*events, *scanner.close()])


def text_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def calls_of(events: Sequence[Event]) -> list[Call]:
    return [event for event in events if isinstance(event, Call)]


def refused(events: Sequence[Event]) -> list[Refused]:
    return [event for event in events if isinstance(event, Refused)]


@given(OUTPUTS, st.lists(st.integers(min_value=0)))
def test_where_the_output_is_cut_makes_no_difference(output: str, cuts: list[int]) -> None:
    assert in_pieces(output, cuts) == joined(scan(output))


@given(OUTPUTS)
def test_letter_by_letter_gives_the_same(output: str) -> None:
    assert in_pieces(output, list(range(len(output)))) == joined(scan(output))


@given(OUTPUTS)
def test_what_is_no_call_is_text_to_the_last_letter(output: str) -> None:
    events = scan(output)
    if not calls_of(events):
        assert text_of(events) == output
    left = sum(len(event.text) for event in events if isinstance(event, Text))
    assert left <= len(output)


@given(st.lists(st.tuples(PROSE, NAMES, st.dictionaries(NAMES, TEXTS, max_size=3)), max_size=3), PROSE)
def test_well_formed_calls_are_found_between_the_texts(parts: list[tuple[str, str, dict[str, str]]], last: str) -> None:
    output = "".join(prose + written(name, parameters) for prose, name, parameters in parts) + last
    events = scan(output)
    assert calls_of(events) == [Call(name, parameters) for _, name, parameters in parts]
    texts = [*(prose for prose, _, _ in parts), last]
    assert text_of(events) == ("".join(t for t in texts if t.strip()) if parts else last)
    assert not refused(events)


@pytest.mark.parametrize(
    "value",
    [
        "one\ntwo\n\nthree",
        "\n first line empty",
        "last line empty\n",
        'say "hello"',
        "it's",
        "if a < b and c > d:",
        "<div class='x'>&amp;</div>",
        "<tool_call>",
        "a </tool_call> b",
        "<function=f>",
        "<parameter=k>",
        "<xml><parameter>x</parameter></xml>",
        "</parameter>",
        "</function>",
        "C:\\new\ttab",
        "",
        "  kept  ",
        "日本語 🎉",
    ],
)
def test_a_value_is_verbatim(value: str) -> None:
    assert calls_of(scan(written("f", {"a": value, "b": "2"}))) == [Call("f", {"a": value, "b": "2"})]


def test_nothing_but_the_tags_is_needed() -> None:
    assert scan("<tool_call><function=f><parameter=k>v</parameter></function></tool_call>") == [Call("f", {"k": "v"})]
    assert scan("<tool_call><function=f></function></tool_call>") == [Call("f", {})]


def test_a_block_may_have_several_functions() -> None:
    output = "<tool_call>\n<function=a>\n</function>\n<function=b>\n</function>\n</tool_call>"
    assert scan(output) == [Call("a", {}), Call("b", {})]


@pytest.mark.parametrize("length", range(len(written("f", {"a": "1"}))))
def test_a_call_that_is_cut_off_is_text(length: int) -> None:
    output = "So:" + written("f", {"a": "1"})[:length]
    events = scan(output)
    assert not calls_of(events)
    assert text_of(events) == output
    assert len(refused(events)) == (length >= len("<tool_call>"))


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("<tool_call>hello</tool_call>", "there should be <function="),
        ("<tool_call></tool_call>", "there should be <function="),
        ('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', "there should be <function="),
        ("<tool_call><function=></function></tool_call>", "the name of a function is broken"),
        ("<tool_call><function=f\n></function></tool_call>", "the name of a function is broken"),
        (
            "<tool_call><function=f><parameter=k<</parameter></function></tool_call>",
            "the name of a parameter is broken",
        ),
        ("<tool_call><function=f>x</function></tool_call>", "there should be <parameter= or </function>"),
        (
            "<tool_call><function=f><parameter=k>v</parameter></tool_call>",
            "there should be <parameter= or </function>",
        ),
        ("<tool_call><function=f></function>x</tool_call>", "there should be <function= or </tool_call>"),
        (
            "<tool_call><function=f><parameter=k>1</parameter><parameter=k>2</parameter></function></tool_call>",
            "a parameter is given twice",
        ),
        ("<tool_call><function=f><parameter=k>v</parameter></function>", "the output ends inside it"),
        ("<tool_call>\n", "the output ends inside it"),
    ],
)
def test_a_malformed_call_is_text_and_says_why(broken: str, reason: str) -> None:
    events = scan(f"Now {broken}")
    assert text_of(events) == f"Now {broken}"
    assert not calls_of(events)
    assert refused(events) == [Refused(reason, 4)]


@pytest.mark.parametrize(
    "broken",
    [
        "<tool_call>hello</tool_call>",
        "<tool_call>",
        "<tool_call><function=f><parameter=k>v</parameter></tool_call>",
        "<tool_call><function=f</tool_call>",
        "<tool_call><function=f></function>",
    ],
)
def test_a_call_behind_a_malformed_one_is_found(broken: str) -> None:
    events = scan(f"{broken}\n{written('g', {'x': '1'})}")
    assert calls_of(events) == [Call("g", {"x": "1"})]
    assert text_of(events) == f"{broken}\n"
    assert len(refused(events)) == 1


def test_text_is_given_before_the_output_ends() -> None:
    scanner = CallScanner()
    assert scanner.feed("I look") == [Text("I look")]
    assert scanner.feed(" it up <tool") == [Text(" it up ")]
    assert scanner.feed("box>") == [Text("<toolbox>")]


def test_a_call_is_given_before_the_output_ends() -> None:
    scanner = CallScanner()
    assert scanner.feed(SHORT[:-1]) == []
    assert scanner.feed(SHORT[-1]) == [Call("f", {"k": "v"})]


def test_blank_space_alone_is_dropped_only_beside_a_call() -> None:
    assert scan("\n\n") == [Text("\n\n")]
    assert scan(f"\n\n{SHORT}\n{SHORT}\n") == [Call("f", {"k": "v"})] * 2


# --- values -----------------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "$defs": {"Point": {"type": "object"}, "Loop": {"$ref": "#/$defs/Loop"}, "a/b": {"type": "integer"}},
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "size": {"type": "number"},
        "flag": {"type": "boolean"},
        "items": {"type": "array", "items": {"type": "string"}},
        "bag": {"type": "object"},
        "maybe": {"type": ["integer", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "point": {"$ref": "#/$defs/Point"},
        "escaped": {"$ref": "#/$defs/a~1b"},
        "loop": {"$ref": "#/$defs/Loop"},
        "gone": {"$ref": "#/$defs/Nothing"},
        "level": {"enum": [1, 2, 3]},
        "word": {"enum": ["1", "true"]},
        "fixed": {"const": None},
        "listed": {"items": {}},
        "shaped": {"properties": {}},
        "free": {},
        "odd": True,
    },
}


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("text", "5", "5"),
        ("text", "true", "true"),
        ("text", "null", "null"),
        ("text", '{"a": 1}', '{"a": 1}'),
        ("text", " kept\n", " kept\n"),
        ("count", "5", 5),
        ("count", " -7\n", -7),
        ("count", "5.0", 5),
        ("size", "2.5", 2.5),
        ("size", "2", 2),
        ("size", "1e3", 1000.0),
        ("flag", "true", True),
        ("flag", "False", False),
        ("items", '["a", "b"]', ["a", "b"]),
        ("bag", '{"a": {"b": [1, null]}}', {"a": {"b": [1, None]}}),
        ("maybe", "null", None),
        ("maybe", "None", None),
        ("maybe", "3", 3),
        ("either", "3", 3),
        ("either", "three", "three"),
        ("point", '{"x": 1}', {"x": 1}),
        ("escaped", "1", 1),
        ("loop", "1", "1"),
        ("gone", "1", "1"),
        ("level", "2", 2),
        ("word", "1", "1"),
        ("fixed", "null", None),
        ("listed", "[1]", [1]),
        ("shaped", "{}", {}),
        ("free", "1", "1"),
        ("odd", "1", "1"),
        ("unknown", "1", "1"),
    ],
)
def test_the_schema_gives_a_value_its_type(key: str, text: str, value: object) -> None:
    found = arguments_of({key: text}, SCHEMA)
    assert found.values == {key: value}
    assert type(found.values[key]) is type(value)
    assert not found.mistyped


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("count", "five"),
        ("count", "5.5"),
        ("count", "true"),
        ("count", ""),
        ("size", "NaN"),
        ("size", "1e999"),
        ("size", "true"),
        ("flag", "1"),
        ("flag", "yes"),
        ("items", "a, b"),
        ("items", '{"a": 1}'),
        ("items", "[" * 100_000),
        ("bag", "{'a': 1}"),
        ("bag", "[1e999]"),
        ("bag", '{"a": NaN}'),
        ("maybe", "nil"),
    ],
)
def test_a_value_of_another_type_stays_a_string_and_is_told(key: str, text: str) -> None:
    found = arguments_of({key: text}, SCHEMA)
    assert found.values == {key: text}
    assert found.mistyped == [key]


def test_other_parameters_have_the_type_that_the_schema_gives_them() -> None:
    assert arguments_of({"a": "1"}, {"additionalProperties": {"type": "integer"}}).values == {"a": 1}


@pytest.mark.parametrize("schema", [None, [], "x", {"properties": 3}, {"properties": {"a": None}}, {"properties": []}])
def test_without_a_schema_values_are_strings(schema: object) -> None:
    assert arguments_of({"a": "1"}, schema) == ({"a": "1"}, [])


def no_constant(text: str) -> None:
    raise AssertionError(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(["null", "boolean", "integer", "number", "string", "object", "array", "other", 3, None])
SCHEMAS = st.recursive(
    st.fixed_dictionaries({}, optional={"type": KINDS | st.lists(KINDS, max_size=2), "const": JSON, "$ref": TEXTS}),
    lambda inner: st.fixed_dictionaries(
        {}, optional={"anyOf": st.lists(inner, max_size=2), "allOf": JSON, "enum": JSON}
    ),
    max_leaves=4,
)


@given(st.dictionaries(NAMES, TEXTS | JSON.map(json.dumps), max_size=3), st.dictionaries(NAMES, SCHEMAS, max_size=3))
def test_whatever_the_schema_the_arguments_are_strict_json(parameters: dict[str, str], schemas: dict[str, Any]) -> None:
    found = arguments_of(parameters, {"properties": schemas}).values
    assert found.keys() == parameters.keys()
    assert json.loads(json.dumps(found), parse_constant=no_constant) == found


@given(st.dictionaries(NAMES, JSON, max_size=4))
def test_what_the_template_writes_comes_back(arguments: dict[str, Any]) -> None:
    kinds = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", dict: "object"}
    schema = {"properties": {key: {"type": kinds.get(type(value), "array")} for key, value in arguments.items()}}
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
    [call] = calls_of(scan(written("f", texts)))
    found = arguments_of(call.parameters, schema)
    assert found == (arguments, [])
