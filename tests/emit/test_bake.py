"""The bake file: names that BuildKit takes, texts that it reads as they are, paths that are there."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.emit.bake import bake_file, bake_names, tag_of

NAME = re.compile(r"[a-zA-Z0-9_-]+")
TAG = re.compile(r"[a-z0-9][a-z0-9-]*:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
targets = st.from_regex(r"[a-z0-9][a-z0-9-]{0,40}", fullmatch=True)
variants = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", fullmatch=True)


@given(st.lists(st.tuples(targets, variants), unique=True, max_size=20))
def test_every_cell_has_a_name_of_its_own_that_bake_takes(cells: list[tuple[str, str]]) -> None:
    names = bake_names(cells)
    assert list(names) == cells
    assert len(set(names.values())) == len(cells)
    assert all(NAME.fullmatch(name) for name in names.values())


def test_variants_that_bake_would_call_alike_are_told_apart() -> None:
    cells = [("box", "a.b"), ("box", "a-b"), ("box", "a-b-2")]
    assert list(bake_names(cells).values()) == ["box_a-b", "box_a-b-2", "box_a-b-2-2"]


@given(targets, targets, variants)
def test_a_tag_is_one_that_registries_take(pipeline: str, target: str, variant: str) -> None:
    assert TAG.fullmatch(tag_of(pipeline, target, variant))


def test_long_tags_differ_where_the_names_do() -> None:
    assert tag_of("p", "t" * 100, f"{'v' * 99}1") != tag_of("p", "t" * 100, f"{'v' * 99}2")


def cell(**values: str) -> dict[str, Any]:
    given_ = {"target": "box", "variant": "fast", "folder": "box/fast", "pipeline": "demo", "patchset": "0" * 64}
    return {**given_, "bake": "box_fast", "tag": "demo:box-fast", **values}


def read_as_bake_does(text: str) -> str:
    """Return a text of a JSON bake file as HCL reads it: `$${` and `%%{` are literal, `${` and `%{` are templates."""
    assert not re.search(r"(?<!\$)\$\{|(?<!%)%\{", text), f"a template: {text}"
    return text.replace("$${", "${").replace("%%{", "%{")


@pytest.mark.parametrize(
    "text", ["${HOME}", 'a "quoted" one', "back\\slash", "%{ if x }", "line\nbreak", "größer", "$$"]
)
def test_a_text_that_needs_quoting_comes_back(text: str) -> None:
    data = json.loads(bake_file([cell(variant=text)]))
    assert read_as_bake_does(data["target"]["box_fast"]["labels"]["orchestrator.variant"]) == text


def test_the_file_has_a_group_of_all_and_one_for_each_target() -> None:
    cells = [cell(), cell(target="crate", folder="crate/fast", bake="crate_fast")]
    data = json.loads(bake_file(cells))
    assert data["group"] == {
        "default": {"targets": ["box_fast", "crate_fast"]},
        "target-box": {"targets": ["box_fast"]},
        "target-crate": {"targets": ["crate_fast"]},
    }
    assert data["target"]["crate_fast"] == {
        "context": "crate/fast",
        "dockerfile": "Dockerfile",
        "args": {},
        "labels": {
            "orchestrator.pipeline": "demo",
            "orchestrator.target": "crate",
            "orchestrator.variant": "fast",
            "orchestrator.patchset.digest": f"sha256:{'0' * 64}",
        },
        "tags": ["demo:box-fast"],
    }
    assert all(NAME.fullmatch(name) for name in data["group"])
