"""The report looked at in a real browser: light, dark, on a phone, with two hundred stages, with harmful texts."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.emit.report.page import page_of
from tests.emit.browser import Browser, program
from tests.emit.reported import SURROUNDINGS, harmful, many_stages, report, with_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(program() is None, reason="looking at a page needs chromium")

Looking = tuple[Browser, dict[str, Path], Path]
LEAST_CONTRAST = 4.5  # WCAG 2.2, level AA, for text

CONTRASTS = """
(() => {
  const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return parse(getComputedStyle(document.documentElement).backgroundColor).slice(0, 3);
  };
  const found = new Map();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || element.closest("script, style, title, defs")) continue;
    const style = getComputedStyle(element);
    const svg = element.closest("svg");
    const front = parse(svg ? style.fill : style.color);
    const back = svg ? parse(getComputedStyle(element.parentElement.querySelector("rect")).fill) : behind(element);
    const pair = [light(front), light(back)].sort((a, b) => b - a);
    found.set(`${front} on ${back} ${element.tagName}.${element.className.baseVal ?? element.className}`,
              (pair[0] + 0.05) / (pair[1] + 0.05));
  }
  return [...found].sort((a, b) => a[1] - b[1]);
})()
"""

COLOURS = """
(async () => {
  const answer = await fetch("data:image/png;base64,%s");
  const image = await createImageBitmap(await answer.blob());
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const data = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
  const counts = new Map();
  for (const pixel of data) counts.set(pixel, (counts.get(pixel) || 0) + 1);
  const [most] = [...counts].sort((a, b) => b[1] - a[1])[0];
  return { width: image.width, height: image.height, colours: counts.size,
           most: [most & 255, (most >> 8) & 255, (most >> 16) & 255], share: counts.get(most) / data.length };
})()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the pages by name: one whose texts mean harm, one of many stages."""
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for name, workspace, known in (("harmful", harmful, True), ("many", many_stages, False)):
        found[name] = folder / f"{name}.html"
        made = report(workspace(folder / name), SURROUNDINGS)
        found[name].write_bytes(page_of(with_memory(made, known=known)))
    return found


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page without rules, on which a picture can be counted."""
    page = tmp_path_factory.mktemp("blank") / "blank.html"
    page.write_text("<!DOCTYPE html><title>blank</title>")
    return page


@pytest.fixture
def looking(browser: Browser, pages: dict[str, Path], blank: Path) -> Looking:
    return browser, pages, blank


def kept(name: str, png: bytes) -> bytes:
    """Return a picture; keep it in `REPORT_SCREENSHOTS`, for people, where that is set."""
    folder = os.environ.get("REPORT_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.png").write_bytes(png)
    return png


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360], ids=["desktop", "phone"])
@pytest.mark.parametrize("page", ["harmful", "many"])
def test_a_page_is_seen_whole_and_asks_for_nothing(looking: Looking, page: str, width: int, *, dark: bool) -> None:
    browser, pages, blank = looking
    seen = browser.look_at(pages[page], width=width, height=800, dark=dark)
    assert browser.value("document.title").endswith(": patch report"), "a text ran as a script"
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("[...document.querySelectorAll('.controls')].every(box => !box.hidden)"), "the script ran"
    png = kept(f"{page}-{width}-{'dark' if dark else 'light'}", browser.screenshot())
    assert seen.requests == [pages[page].resolve().as_uri()]
    assert seen.complaints == []
    browser.look_at(blank)
    picture = browser.value(COLOURS % base64.b64encode(png).decode())
    assert (picture["width"], picture["height"]) == (width, 800)
    assert picture["colours"] > 50, "letters have many shades"
    assert 0.3 < picture["share"] < 0.98
    assert max(picture["most"]) < 60 if dark else min(picture["most"]) > 230


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read_on_its_ground(browser: Browser, pages: dict[str, Path], *, dark: bool) -> None:
    browser.look_at(pages["harmful"], dark=dark)
    browser.value("for (const box of document.querySelectorAll('details')) box.open = true")
    found = browser.value(CONTRASTS)
    assert len(found) > 20
    assert [pair for pair in found if pair[1] < LEAST_CONTRAST] == []
    browser.value("document.documentElement.style.setProperty('--soft', '#808080')")
    assert browser.value(CONTRASTS)[0][1] < LEAST_CONTRAST, "the measure finds what is too pale"


@pytest.mark.parametrize("page", ["harmful", "many"])
def test_nothing_widens_a_phone_s_page_when_all_is_open(browser: Browser, pages: dict[str, Path], page: str) -> None:
    browser.look_at(pages[page], width=360, height=740)
    browser.value("document.querySelector('[data-open=true]').click()")
    browser.value("for (const box of document.querySelectorAll('details')) box.open = true")
    assert browser.value("document.documentElement.scrollWidth") <= 360
    wide = "[...document.querySelectorAll('main *')].filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth)"
    scrolls = f"{wide}.filter(e => !['auto', 'scroll'].includes(getComputedStyle(e).overflowX))"
    outside = f"{scrolls}.filter(e => !e.closest('.scroll, .code, svg') && getComputedStyle(e).display !== 'inline')"
    assert browser.value(f"{outside}.map(e => e.outerHTML.slice(0, 120))") == []
    kept(f"{page}-phone-open", browser.screenshot())


def test_every_scrolling_box_and_every_link_is_reached_by_the_tab_key(browser: Browser, pages: dict[str, Path]) -> None:
    browser.look_at(pages["harmful"])
    boxes = "[...document.querySelectorAll('.scroll, .code')]"
    assert browser.value(f"{boxes}.every(e => e.tabIndex === 0 && e.getAttribute('aria-label'))")
    reached = []
    for _ in range(12):
        browser.press("Tab", 9)
        reached.append(browser.value("document.activeElement.textContent.trim().slice(0, 30)"))
    assert reached[0] == "Skip to the stages"
    assert reached[1:4] == ["Overview", "Graph", "Stages"]
    assert browser.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_diff_opens_by_the_keyboard_and_has_line_numbers(browser: Browser, pages: dict[str, Path]) -> None:
    browser.look_at(pages["many"])
    browser.value("document.querySelector('details.diff > summary').focus()")
    browser.press("Enter", 13, "\r")
    browser.value("new Promise(done => requestAnimationFrame(done))")
    assert browser.value("document.querySelector('details.diff').open") is True
    numbers = "getComputedStyle(document.querySelector('details.diff ins'), '::after').content"
    assert browser.value(numbers) == "counter(n)"
    browser.value("document.querySelector('details.diff').scrollIntoView({behavior: 'instant'})")
    kept("diff", browser.screenshot())


def test_boxes_of_the_graph_lead_to_the_stages_and_it_can_be_zoomed(browser: Browser, pages: dict[str, Path]) -> None:
    browser.look_at(pages["many"])
    assert browser.value("document.querySelectorAll('#dag a').length") == 200
    assert browser.value("[...document.querySelectorAll('#dag a')].every(a => document.querySelector(a.href.baseVal))")
    seen = "(e => e.getBoundingClientRect().top - document.querySelector('.graph').getBoundingClientRect().top)"
    first = f"{seen}(document.querySelector('#dag a rect'))"
    assert 0 <= browser.value(first) <= browser.value("document.querySelector('.graph').clientHeight")
    natural = browser.value("document.getElementById('dag').clientWidth")
    browser.value("document.querySelector('[data-zoom=fit]').click()")
    box = "document.querySelector('.graph').clientWidth"
    assert browser.value("document.getElementById('dag').clientWidth") == browser.value(box) < natural
    browser.value("document.querySelector('[data-zoom=\"1.25\"]').click()")
    assert browser.value("document.getElementById('dag').clientWidth") > browser.value(box)
    assert browser.value("document.documentElement.scrollWidth") <= 1280


def test_the_filter_leaves_the_stages_that_have_the_word(browser: Browser, pages: dict[str, Path]) -> None:
    browser.look_at(pages["many"])
    filled = "(f => { f.value = 'Stage-19'; f.dispatchEvent(new Event('input')); })(document.getElementById('filter'))"
    browser.value(filled)
    shown = "[...document.querySelectorAll('[data-stage]')].filter(row => !row.hidden).length"
    assert browser.value(shown) == 10


def test_without_its_script_a_page_hides_what_needs_it(looking: Looking, tmp_path: Path) -> None:
    browser, pages, _ = looking
    page = tmp_path / "still.html"
    content = pages["harmful"].read_text(encoding="utf-8")
    page.write_text(content.replace('"use strict";', '"no longer strict";'), encoding="utf-8")
    seen = browser.look_at(page)
    assert any("Content Security Policy" in complaint for complaint in seen.complaints), "only our own script may run"
    assert browser.value("[...document.querySelectorAll('.controls')].every(box => box.offsetHeight === 0)")
    browser.value("document.querySelector('details').open = true")
    assert browser.value("document.querySelector('details table').offsetHeight") > 0


def test_a_page_can_be_printed(browser: Browser, pages: dict[str, Path]) -> None:
    browser.look_at(pages["harmful"], dark=True)
    printed = browser.printed()
    assert printed.startswith(b"%PDF")
    assert len(printed) > 10_000
    browser.look_at(pages["harmful"], width=794, dark=True, media="print")
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.value("document.documentElement.scrollWidth") <= 794
    kept("printed", browser.screenshot())
