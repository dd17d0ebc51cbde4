"""Links in the documents lead somewhere: to a file that is there, to a heading that it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")


def anchors(document: Path) -> set[str]:
    """Return the anchors that a Markdown renderer gives to the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", document.read_text()), re.MULTILINE)
    return {"".join(c for c in text.lower() if c.isalnum() or c in "-_ ").replace(" ", "-") for text in headings}


def links(document: Path) -> list[str]:
    return LINK.findall(CODE.sub("", FENCE.sub("", document.read_text())))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    broken = []
    for link in links(document):
        file, _, anchor = link.partition("#")
        if "://" in file:
            continue
        target = document.parent / file if file else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_there_are_links_to_look_at() -> None:
    assert sum(len(links(document)) for document in DOCUMENTS) > len(DOCUMENTS)
