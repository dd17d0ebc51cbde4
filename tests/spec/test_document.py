"""Reading YAML: whatever the bytes are, the answer is a document or diagnostics, and soon."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.core.diagnostics import Place, Rejected
from orchestrator.spec.document import MAX_BYTES, Document, read_document


def read(text: str) -> Document:
    return read_document("a.yaml", text.encode())


def refused(content: bytes) -> list[tuple[str, str]]:
    with pytest.raises(Rejected) as caught:
        read_document("a.yaml", content)
    return [(d.code, str(d.place)) for d in caught.value.diagnostics]


def tried(content: bytes) -> Document | None:
    """Return the document, or None where it is refused with a code, a place in the file and a message."""
    try:
        return read_document("a.yaml", content)
    except Rejected as error:
        lines = content.count(b"\n") + content.count(b"\r") + 1
        for found in error.diagnostics:
            assert found.code.startswith("E10")
            assert found.message
            assert found.place is not None
            assert found.place.file == "a.yaml"
            assert (
                0
                <= found.place.line
                <= lines + content.decode("utf-8", "replace").count("\x85") + content.count(b"\xe2\x80")
            )
        return None


@given(st.binary(max_size=300))
@example(b"\xef\xbb\xbfa: 1\n")
@example(b"a: 1\x00\n")
@example(b"%YAML 1.1\n---\na: no\n")
@example(b"a: 1\n---\nb: 2\n")
@example(b"a: *nowhere\n")
@example(b"? [a]\n: 1\n")
@example(b"a: !!python/object:os.system x\n")
@example(b"a: !!int nine\n")
@example(b"a: !!float x\n")
@example(b"a: !!timestamp x\n")
@example(b"a: !!set {x}\n")
@example(b"<<: {a: 1}\n")
@example(b"a: 0o9\nb: 0x\nc: 1e\nd: _\ne: 0b2\n")
@example(b"- - - - : :")
@example(b"a: &a [*a]\n")
def test_any_bytes_give_a_document_or_diagnostics(content: bytes) -> None:
    tried(content)


_yaml_text = st.text(st.sampled_from("abn01: -\n\t\"'{}[],#&*!|>%@`?<=~.e+_x\r\x85\u2028é🎈"), max_size=200)


@given(_yaml_text)
def test_any_text_made_of_yaml_s_own_signs_gives_a_document_or_diagnostics(text: str) -> None:
    tried(text.encode())


_plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(_plain)
def test_what_json_writes_is_read_back_with_its_types(data: object) -> None:
    document = read(json.dumps(data))
    found = document.data
    assert json.dumps(found) == json.dumps(_floats_as_yaml(data, found))


def _floats_as_yaml(data: object, found: object) -> object:
    """YAML 1.2 reads `1e+20` and `1e20` as JSON does, so only types that it cannot tell apart are left: none."""
    return found if isinstance(data, float) and data == found else data


@given(_plain)
def test_every_value_has_a_place_and_the_places_lie_in_the_text(data: object) -> None:
    text = json.dumps(data, indent=2)
    document = read(text)
    lines = text.split("\n")
    for path, place in document.values.items():
        assert 1 <= place.line <= len(lines)
        assert 1 <= place.column <= len(lines[place.line - 1]) + 1
        assert document.place(path) == place


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &a [*a]\n", [("E107", "a.yaml:1:4")]),
        ("a: &a {b: *a}\n", [("E107", "a.yaml:1:4")]),
        ("a: 1\na: 2\nb: {c: 1, c: 2}\n", [("E108", "a.yaml:2:1"), ("E108", "a.yaml:3:11")]),
        ("1: a\n", [("E106", "a.yaml:1:1")]),
        ("yes: a\ntrue: b\n", [("E106", "a.yaml:2:1")]),
        ("[a]: b\n", [("E106", "a.yaml:1:1")]),
        ("<<: {a: 1}\n", [("E106", "a.yaml:1:1")]),
        ("a: !!python/name:os.system x\n", [("E106", "a.yaml:1:4")]),
        ("a: !own {b: 1}\n", [("E106", "a.yaml:1:4")]),
        ("a: 1\n---\nb: 1\n", [("E103", "a.yaml:2:1")]),
        ("a: [1\n", [("E103", "a.yaml:2:1")]),
        ("a:\n\tb: 1\n", [("E105", "a.yaml:2:1")]),
        ("a: *b\n", [("E103", "a.yaml:1:4")]),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused_at_its_place(text: str, expected: list[tuple[str, str]]) -> None:
    assert refused(text.encode()) == expected


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        bomb(30),
        "[" * 5_000,
        "[" * 60 + "]" * 60 + "\n" + "[" * 500,
        "{a: " * 3_000,
        "- " * 20_000 + "x",
        "a: &x " + "[" * 100 + "]" * 100,
        "? " * 3_000,
    ],
    ids=["alias bomb", "open lists", "two", "open mappings", "nested sequences", "deep anchor", "nested keys"],
)
def test_what_grows_when_it_is_read_is_refused(text: str) -> None:
    assert [code for code, _ in refused(text.encode())] in (["E107"], ["E103"])


def test_a_value_that_an_alias_repeats_counts_each_time_and_few_are_fine() -> None:
    assert read("a: &a [1, 2]\nb: *a\n").data == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize("filler", [b" ", b"\n", b"#", b"# x\n"], ids=["blanks", "lines", "one comment", "comments"])
def test_a_file_of_the_largest_size_is_read_or_refused(filler: bytes) -> None:
    content = b"a: 1\n" + filler * ((MAX_BYTES - 5) // len(filler))
    found = tried(content)
    assert found is not None
    assert found.data == {"a": 1}
    assert [code for code, _ in refused(content + b"    ")] == ["E101"]


def test_a_place_is_that_of_the_nearest_part_that_exists() -> None:
    document = read("stages:\n  - id: a\n    edits: [{op: x, count: 2}]\n    when:\n")
    assert document.place(("stages", 0, "edits", 0, "assign", "count")) == Place("a.yaml", 3, 28, 1)
    assert document.place(("stages", 0, "edits", 0, "assign", "nothing")) == Place("a.yaml", 3, 13, 17)
    assert document.place(("stages", 0, "id"), key=True) == Place("a.yaml", 2, 5, 2)
    assert document.place(("stages", 0, "when")) == Place("a.yaml", 4, 5, 4)
    assert document.place(("nothing",)) == Place("a.yaml", 1, 1, 1)
    assert document.line(2) == "  - id: a"
    assert document.line(9) == ""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("12", 12),
        ("-3", -3),
        ("1.5", 1.5),
        ("1e-05", 1e-05),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("'12'", "12"),
        ('"0.10"', "0.10"),
        ("|\n  0.10\n", "0.10\n"),
        ("8, 9", "8, 9"),
        ("0.6.3", "0.6.3"),
        ("3_x", "3_x"),
        ("0x", "0x"),
    ],
)
def test_a_scalar_is_what_yaml_1_2_says(text: str, value: object) -> None:
    document = read(f"a: {text}")
    assert document.data == {"a": value}
    assert type(document.data["a"]) is type(value)
    assert document.misread == {}
