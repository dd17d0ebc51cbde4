"""The parts that reports are made of: diffs with line numbers, the drawing of the graph, text made safe."""

from __future__ import annotations

import html
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from orchestrator.emit.patches import patch_of
from orchestrator.emit.report.diffs import FileDiff, file_diffs
from orchestrator.emit.report.drawing import Drawing, Vertex, drawing_of
from orchestrator.emit.report.memory import MemoryTable, Setting, Use
from orchestrator.emit.report.page import bars
from orchestrator.emit.report.text import code_block, code_span, markdown, visible

# --- diffs ---

LINES = st.lists(
    st.sampled_from([b"a", b"b", b"--- a", b"+++ b", b"@@ -1 +1 @@", b"diff --git a b", b"", b"\r", b"\xff"])
)
CONTENT = st.builds(lambda lines, end: b"\n".join(lines) + end, LINES, st.sampled_from([b"", b"\n"]))


def lines_of(content: bytes) -> list[str]:
    lines = content.decode("utf-8", "replace").split("\n")
    return lines if lines[-1] else lines[:-1]


@given(CONTENT | st.none(), CONTENT, CONTENT, CONTENT)
def test_every_line_of_a_diff_stands_in_its_file_under_its_number(
    before: bytes | None, after: bytes, other_before: bytes, other: bytes
) -> None:
    old, new = {"pkg/a.py": before, "pkg/b.py": other_before}, {"pkg/a.py": after, "pkg/b.py": other}
    found = file_diffs(patch_of(old, new), old, new)
    assert [diff.path for diff in found] == [path for path in sorted(new) if old[path] != new[path]]
    for diff in found:
        was, now = lines_of(old[diff.path] or b""), lines_of(new[diff.path])
        assert diff.new_file == (old[diff.path] is None)
        assert len(now) - len(was) == diff.added - diff.removed
        for hunk in diff.hunks:
            left, right = hunk.old, hunk.new
            for line in hunk.lines:
                if line.kind in {"same", "removed"}:
                    assert was[left - 1] == line.text[1:]
                    left += 1
                if line.kind in {"same", "added"}:
                    assert now[right - 1] == line.text[1:]
                    right += 1


def one_diff(before: bytes | None, after: bytes) -> FileDiff:
    (found,) = file_diffs(patch_of({"a": before}, {"a": after}), {"a": before}, {"a": after})
    return found


def test_a_diff_reads_as_its_patch_has_it() -> None:
    old, new = b"1\n2\n3", b"1\nx\n3\n"
    patch = patch_of({"a": old}, {"a": new}).decode()
    assert one_diff(old, new).text() == patch[patch.index("@@") :]


def test_a_diff_that_is_cut_keeps_its_first_lines() -> None:
    diff = one_diff(b"".join(b"%d\n" % i for i in range(90)), b"".join(b"%d\n" % (i * 7 % 90) for i in range(90)))
    for limit in (0, 1, 30, diff.length, diff.length + 1):
        kept = diff.first(limit)
        assert kept.length == min(limit, diff.length)
        assert diff.text().startswith(kept.text())


# --- the drawing ---


@st.composite
def graphs(draw: st.DrawFn) -> list[Vertex]:
    count = draw(st.integers(0, 24))
    return [
        Vertex(f"s{i}", "note", "exact", tuple(f"s{j}" for j in before))
        for i in range(count)
        for before in [draw(st.lists(st.integers(0, i - 1), max_size=4, unique=True)) if i else []]
    ]


def starts_and_ends(drawing: Drawing) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    ends = []
    for path in drawing.arrows:
        numbers = [int(number) for number in re.findall(r"\d+", path)]
        ends.append(((numbers[0], numbers[1]), (numbers[-2], numbers[-1])))
    return ends


@given(graphs())
def test_boxes_never_overlap_and_stand_inside_the_drawing(vertices: list[Vertex]) -> None:
    drawing = drawing_of(vertices)
    assert [box.vertex for box in drawing.boxes] == vertices
    for i, a in enumerate(drawing.boxes):
        assert 0 <= a.x <= a.x + a.width <= drawing.width
        assert 0 <= a.y <= a.y + a.height <= drawing.height
        for b in drawing.boxes[:i]:
            apart = a.x + a.width < b.x or b.x + b.width < a.x or a.y + a.height < b.y or b.y + b.height < a.y
            assert apart, (a, b)


@given(graphs())
def test_what_comes_before_stands_further_left_and_every_arrow_ends_at_a_box(vertices: list[Vertex]) -> None:
    drawing = drawing_of(vertices)
    box = {b.vertex.id: b for b in drawing.boxes}
    for vertex in vertices:
        for before in vertex.before:
            assert box[before].x + box[before].width < box[vertex.id].x
    entries = {(b.x, b.y + b.height // 2) for b in drawing.boxes}
    reached = {end for _, end in starts_and_ends(drawing)}
    assert reached <= entries
    fed = {(box[v.id].x, box[v.id].y + box[v.id].height // 2) for v in vertices if v.before}
    assert reached == fed


@given(graphs())
def test_the_same_graph_is_drawn_the_same(vertices: list[Vertex]) -> None:
    assert drawing_of(vertices) == drawing_of(list(vertices))


def test_an_edge_that_follows_from_others_is_not_drawn() -> None:
    chain = [Vertex("a", "", "exact"), Vertex("b", "", "exact", ("a",)), Vertex("c", "", "exact", ("a", "b"))]
    drawing = drawing_of(chain)
    assert len(drawing.arrows) == 2
    assert drawing.lines == ()


def test_a_long_edge_goes_round_the_boxes_between() -> None:
    vertices = [
        Vertex("a", "", "exact"),
        Vertex("b", "", "exact", ("a",)),
        Vertex("c", "", "exact", ("b",)),
        Vertex("other", "", "exact"),
        Vertex("far", "", "exact", ("c", "other")),
        Vertex("near", "", "exact", ("other",)),
    ]
    drawing = drawing_of(vertices)
    straight = [line for line in drawing.lines if "H" in line]
    assert straight
    for line in straight:
        x, y, end = (int(number) for number in re.findall(r"\d+", line))
        hit = [b for b in drawing.boxes if b.y < y < b.y + b.height and b.x < end and x < b.x + b.width]
        assert hit == []


def test_a_long_name_is_cut_in_its_box_and_a_column_is_as_wide_as_its_longest() -> None:
    drawing = drawing_of([Vertex("a" * 80, "", "exact"), Vertex("b", "", "exact")])
    assert drawing.boxes[0].label.endswith("…")
    assert drawing.boxes[0].width == drawing.boxes[1].width < 300


# --- text ---


def shown(markdown_text: str) -> str:
    """Return what a reader of Markdown sees, tags and comments aside."""
    made = MarkdownIt("commonmark").enable("table").render(markdown_text)
    return html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"<!--.*?-->", "", made))).strip()


@given(st.text())
def test_markdown_shows_a_text_as_it_is(text: str) -> None:
    plain = text.replace("`", "'")
    expected = " ".join(str(visible(plain)).split())
    assert shown(f"x{markdown(plain)}y") == f"x{expected}y"


@given(st.text())
def test_a_code_span_shows_a_text_as_it_is(text: str) -> None:
    expected = " ".join(str(visible(text)).split())
    assert shown(code_span(text).replace(r"\|", "|")) == expected


@given(st.text(alphabet="`~a \n<|"))
def test_no_fence_in_a_text_ends_the_block_around_it(text: str) -> None:
    made = MarkdownIt("commonmark").render(code_block(text, "diff") + "\n\nafter\n")
    assert made.count("<pre>") == 1
    assert made.endswith("<p>after</p>\n")


def test_what_stands_between_backticks_is_code_in_markdown() -> None:
    assert markdown("`a|b` is `1`") == r"`a\|b` is `1`"
    assert markdown("an odd ` stays") == r"an odd \` stays"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x1b[31mb", "a␛[31mb"),
        ("a\x00b\r\n\tc", "a␀b␍\n\tc"),
        ("if x: \u202e return", "if x: ⟨U+202E⟩ return"),
        ("zero\u200bwidth\ufeff", "zero⟨U+200B⟩width⟨U+FEFF⟩"),
        ("half \ud800 character", "half � character"),
        ("größe 例 👩‍💻", "größe 例 👩‍💻"),
    ],
)
def test_what_cannot_be_seen_is_shown_by_its_name(text: str, expected: str) -> None:
    assert visible(text) == expected


@given(st.text())
def test_visible_text_can_be_written_and_stays_as_it_is(text: str) -> None:
    once = visible(text)
    assert visible(once) == once
    assert str(once).encode().decode() == once


# --- bars ---


@given(st.lists(st.none() | st.integers(0, 2**40), min_size=1, max_size=12))
def test_the_parts_of_a_bar_touch_and_are_as_long_as_their_share(counts: list[int | None]) -> None:
    setting = Setting("s", tuple(Use(f"u{i}", count, "") for i, count in enumerate(counts)), ())
    scale = MemoryTable("", "", "", (), (setting,), ()).scale
    parts = list(bars(setting, scale))
    for (start, width, _), (following, _, _) in pairwise(parts):
        assert start + width == following
    for start, width, index in parts:
        assert abs(width - 1000 * (counts[index] or 0) / scale) <= 1
        assert 0 <= start <= start + width <= 1000
    assert len(parts) <= sum(bool(count) for count in counts)
