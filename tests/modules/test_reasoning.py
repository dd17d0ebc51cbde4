"""The thought and the answer in a thinking model's output."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.reasoning.thought import CLOSE, OPEN, Split, Start, ThoughtSplitter, split, start_after, start_within

OUTPUTS = st.lists(
    st.sampled_from(["<think>", "</think>", "<thi", "</", "think>", "<", "\n", " ", "a", "é", "<tool_call>"]),
    max_size=12,
).map("".join)
STARTS = st.sampled_from(Start)


def expected(output: str, start: Start) -> Split:
    """Say the same by partition, which needs the whole output."""
    opened = output.lstrip().startswith(OPEN)
    if start is Start.OUTSIDE or (start is Start.EITHER and not opened):
        return Split("", output)
    body = output.lstrip().removeprefix(OPEN) if opened else output
    thought, _, answer = body.partition(CLOSE)
    return Split(thought.strip("\n"), answer.lstrip("\n"))


def in_pieces(output: str, start: Start, cuts: list[int]) -> Split:
    splitter = ThoughtSplitter(start)
    ends = [0, *sorted(cut % (len(output) + 1) for cut in cuts), len(output)]
    found = [splitter.feed(output[a:b]) for a, b in pairwise(ends)]
    found.append(splitter.close())
    return Split("".join(part.thought for part in found), "".join(part.answer for part in found))


@given(OUTPUTS, STARTS, st.lists(st.integers(min_value=0)))
def test_where_the_output_is_cut_makes_no_difference(output: str, start: Start, cuts: list[int]) -> None:
    assert in_pieces(output, start, cuts) == expected(output, start)


@given(OUTPUTS, STARTS)
def test_letter_by_letter_gives_the_same(output: str, start: Start) -> None:
    assert in_pieces(output, start, list(range(len(output)))) == split(output, start)


@pytest.mark.parametrize(
    ("output", "start", "thought", "answer"),
    [
        ("<think>\nHm.\n</think>\n\nYes.", Start.EITHER, "Hm.", "Yes."),
        ("\n<think>Hm.</think>Yes.", Start.EITHER, "Hm.", "Yes."),
        ("Hm.\n</think>\n\nYes.", Start.INSIDE, "Hm.", "Yes."),
        ("<think>\nHm.\n</think>\n\nYes.", Start.INSIDE, "Hm.", "Yes."),
        ("Yes, <think> is a tag.", Start.EITHER, "", "Yes, <think> is a tag."),
        ("<think> is a tag.", Start.OUTSIDE, "", "<think> is a tag."),
        ("\n\nYes.", Start.OUTSIDE, "", "\n\nYes."),
        ("Hm. And", Start.INSIDE, "Hm. And", ""),
        ("Hm.\n</thi", Start.INSIDE, "Hm.\n</thi", ""),
        ("<thi", Start.EITHER, "", "<thi"),
        ("<thi", Start.INSIDE, "<thi", ""),
        ("\n\n</think>\n\nYes.", Start.INSIDE, "", "Yes."),
        ("Hm.</think>Yes </think> no.", Start.INSIDE, "Hm.", "Yes </think> no."),
        ("a\n\nb</think>c\n\nd\n", Start.INSIDE, "a\n\nb", "c\n\nd\n"),
        ("", Start.INSIDE, "", ""),
        ("", Start.EITHER, "", ""),
    ],
)
def test_an_output_is_split_at_its_tags(output: str, start: Start, thought: str, answer: str) -> None:
    assert split(output, start) == Split(thought, answer)


def test_a_thought_is_given_while_it_is_thought() -> None:
    splitter = ThoughtSplitter(Start.INSIDE)
    assert splitter.feed("Hm, this") == Split("Hm, this", "")
    assert splitter.feed(" is</think>So") == Split(" is", "So")


@pytest.mark.parametrize(
    ("prompt", "start"),
    [
        ("…assistant\n<think>\n", Start.INSIDE),
        ("…assistant\n<think>\n\n</think>\n\n", Start.OUTSIDE),
        ("…assistant\n", Start.EITHER),
        ("What does <think> mean?<|im_end|>\n<|im_start|>assistant\n", Start.EITHER),
        ("", Start.EITHER),
    ],
)
def test_the_end_of_the_prompt_says_where_the_output_begins(prompt: str, start: Start) -> None:
    assert start_after(prompt) is start


@pytest.mark.parametrize(
    ("message", "start"),
    [
        ("<think>\nHm, so", Start.INSIDE),
        ("<think>Hm.</think>Yes, be", Start.OUTSIDE),
        ("Yes, be", Start.OUTSIDE),
        ("", Start.EITHER),
    ],
)
def test_a_message_that_is_continued_says_so_too(message: str, start: Start) -> None:
    assert start_within(message) is start
