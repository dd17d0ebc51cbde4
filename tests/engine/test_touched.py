"""Two versions of any document can be compared: valid or not, no input is a traceback."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.engine.touched import touched
from orchestrator.engine.versions import Version

_WORDS = st.sampled_from(["a", "b", "stages/a.py", "${params.a}", "transform", "pkg/a.py", "n==1", "", "x.j2"])
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=6,
)
_PARTS = st.lists(
    st.dictionaries(
        st.sampled_from(["op", "use", "file", "source", "to", "template", "requirement", "schema"]),
        _PLAIN,
        max_size=4,
    ),
    max_size=3,
)
_STAGE = st.fixed_dictionaries(
    {"id": _WORDS},
    optional={
        "edits": _PARTS | _PLAIN,
        "deploy": _PARTS | _PLAIN,
        "render": _PARTS | _PLAIN,
        "wheels": _PARTS | _PLAIN,
        "provides": _PLAIN,
        "enabled": _PLAIN,
        "post": _PLAIN,
    },
)
_DOCUMENT = st.dictionaries(
    st.sampled_from(["name", "params", "variants", "target"]), _PLAIN, max_size=4
) | st.fixed_dictionaries({"stages": st.lists(_STAGE, max_size=3) | _PLAIN, "params": _PLAIN, "variants": _PLAIN})
_FILES = st.dictionaries(_WORDS, st.sampled_from([b"", b"\xff{{ params }}", b"{% include 'x.j2' %}"]), max_size=4)


def version(document: dict[str, Any], files: dict[str, bytes]) -> Version:
    return Version(document, None, None, files.get)


@given(_DOCUMENT, _DOCUMENT, _FILES, st.frozensets(_WORDS))
def test_any_two_documents_can_be_compared(
    old: dict[str, Any], new: dict[str, Any], files: dict[str, bytes], changed: frozenset[str]
) -> None:
    for reach in touched(version(old, {}), version(new, files), changed):
        assert reach.reasons
        assert reach.record()["stage"] == reach.stage


@given(_DOCUMENT, _FILES)
def test_a_version_reaches_nothing_of_itself(document: dict[str, Any], files: dict[str, bytes]) -> None:
    assert touched(version(document, files), version(document, files), frozenset()) == ()
