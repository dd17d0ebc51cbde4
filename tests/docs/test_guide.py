"""The guide is run: every edit gives what it shows, every complete example is a valid document."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.core.diagnostics import Diagnostic, Rejected
from orchestrator.core.tree import Tree
from orchestrator.engine.load import load
from orchestrator.engine.outcome import Applied
from orchestrator.engine.plan import make_plan
from orchestrator.engine.run import run
from orchestrator.spec.target import load_target

GUIDE = (Path(__file__).parents[2] / "docs" / "guide.md").read_text()
FENCE = r"```{}\n(.*?)```\n"
EDITS = re.compile(
    rf"<!-- edit -->\n{FENCE.format('yaml')}\n{FENCE.format('python')}\n{FENCE.format('python')}", re.DOTALL
)
COMPLETE = re.compile(rf"<!-- complete -->\n{FENCE.format('yaml')}", re.DOTALL)
TARGETS = re.compile(rf"<!-- target -->\n{FENCE.format('yaml')}", re.DOTALL)

HEAD = """\
version: 1
name: guide
target: target.yaml
stages:
  - id: shown
    kind: codemod
    summary: What the guide shows.
"""
TARGET = """\
version: 1
name: box
image: {reference: example.org/box:1, python: "3.11", interpreter: /usr/bin/python3}
base: {supplied: Copy it out of the image.}
roots: {pkg: [/opt/lib/pkg]}
"""


def read(name: str) -> bytes:
    if name == "target.yaml":
        return TARGET.encode()
    raise Rejected(Diagnostic("E120", f"no {name}"))


def nothing(name: str) -> bytes:
    raise KeyError(name)


@pytest.mark.parametrize("example", EDITS.findall(GUIDE), ids=lambda example: re.findall(r"op: (\w+)", example[0])[0])
def test_an_edit_of_the_guide_gives_the_code_that_is_shown(example: tuple[str, str, str]) -> None:
    edits, before, after = example
    document = HEAD + "".join(f"    {line}\n" for line in edits.splitlines())
    result = run(
        make_plan(load("pipeline.yaml", document.encode(), read), read), Tree({"pkg/server.py": before.encode()})
    )
    assert isinstance(result.results[0].outcome, Applied), result.diagnostics
    assert result.tree["pkg/server.py"].decode() == after


@pytest.mark.parametrize("document", COMPLETE.findall(GUIDE))
def test_a_complete_pipeline_of_the_guide_applies_and_has_an_effect(document: str) -> None:
    tree = Tree({"pkg/server.py": b"KEEP_ALIVE = 5\n\n\ndef serve():\n    return KEEP_ALIVE\n"})
    result = run(make_plan(load("pipeline.yaml", document.encode(), read), read), tree)
    assert not result.diagnostics
    assert result.tree["pkg/server.py"].startswith(b"KEEP_ALIVE = 30\n")


@pytest.mark.parametrize("document", TARGETS.findall(GUIDE))
def test_a_target_of_the_guide_is_one(document: str) -> None:
    assert load_target("target.yaml", document.encode(), nothing).unknown() == {"device.registers_per_sm"}


def test_the_guide_shows_every_edit_but_the_transform() -> None:
    assert len(EDITS.findall(GUIDE)) == 5
    assert COMPLETE.findall(GUIDE)
    assert TARGETS.findall(GUIDE)
