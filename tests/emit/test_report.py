"""The report of a run: what is on the page and in the Markdown, and what no text in it can do."""

from __future__ import annotations

import base64
import dataclasses
import fnmatch
import hashlib
import html
import re
import tomllib
from html.parser import HTMLParser
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from orchestrator.emit.audit import Circumstances, read_audit
from orchestrator.emit.report.content import Moment
from orchestrator.emit.report.gathering import report_of, tiles_in
from orchestrator.emit.report.markdown import LIMIT, markdown_of
from orchestrator.emit.report.memory import memory_of
from orchestrator.emit.report.page import LINES_OF_ALL, page_of
from orchestrator.emit.report.text import visible
from orchestrator.engine.lock import Lock, chain_of
from orchestrator.engine.run import run
from tests.emit.reported import HARM, LONG, SURROUNDINGS, built, harmful, many_stages, report, with_memory
from tests.workspaces import LIMIT_STAGE, ROOT, TARGET, Workspace, replaced

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.emit.report.content import Report

VOID = {"meta", "link", "input", "br", "img", "path", "rect", "line"}


class Parsed(HTMLParser):
    """A page as a browser's parser takes it: tags with attributes, the text; tags that do not close are faults."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.faults: list[str] = []
        self._open: list[str] = []
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if len(dict(attrs)) != len(attrs):
            self.faults.append(f"{tag} has an attribute twice")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in {"script", "style"}:
            self.texts.append(data)

    def close(self) -> None:
        super().close()
        self.faults += [f"<{tag}> is never closed" for tag in self._open]

    @property
    def text(self) -> str:
        """All text, blanks made one."""
        return " ".join(" ".join(self.texts).split())

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of all tags of this name."""
        return [attributes for name, attributes in self.tags if name == tag]


def page(made: Report) -> Parsed:
    return Parsed(page_of(made))


def readable(markdown: bytes) -> str:
    """Return what GitHub would show of a text: tags dropped, entities read."""
    made = MarkdownIt("commonmark").enable("table").render(markdown.decode())
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"<!--.*?-->", "", made))).split())


# --- what is written, and when it is the same ---


def test_a_render_writes_both_reports_and_the_audit_knows_their_digests(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    assert workspace.run("render").code == 0
    files = workspace.built()
    assert files["report.html"].startswith(b"<!DOCTYPE html>")
    assert files["report.md"].startswith(b"# demo on box\n")
    emitted = next(r for r in read_audit(files["audit.jsonl"]) if r["event"] == "patchset")["emitted"]
    for name in ("report.html", "report.md"):
        assert emitted[name] == hashlib.sha256(files[name]).hexdigest()


def test_a_run_that_fails_leaves_the_former_reports(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    workspace.run("render")
    before = workspace.built()
    workspace.base({"a.py": "LIMIT = 4\nLIMIT = 5\n"})
    assert workspace.run("render").code == 4
    assert workspace.built() == before


def test_neither_clock_nor_host_nor_user_is_in_a_report(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    one = built(workspace, circumstances=Circumstances("2026-01-01T00:00:00Z", "first-host", "first-user", "cmd-1"))
    two = built(workspace, circumstances=Circumstances("2027-02-02T00:00:00Z", "second-host", "second-user", "cmd-2"))
    differing = {name for name in one if one[name] != two[name]}
    assert differing == {"audit.jsonl"}
    for word in (b"first-host", b"first-user", b"cmd-1", b"2026-01-01", str(tmp_path).encode()):
        assert word not in one["report.html"]
        assert word not in one["report.md"]


def test_a_report_names_no_place_on_the_machine_that_it_was_made_on(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    assert workspace.run("render").code == 0
    files = workspace.built()
    for name in ("report.html", "report.md"):
        assert b"handed over with --tree" in files[name]
        assert str(tmp_path).encode() not in files[name]


def test_what_the_lock_does_not_hold_is_told(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    workspace.run("render")
    assert "W602 there is no pipeline.lock" in Parsed(workspace.built()["report.html"]).text
    workspace.run("lock")
    workspace.run("render")
    text = Parsed(workspace.built()["report.html"]).text
    assert "W602" not in text
    assert hashlib.sha256((workspace.folder / "pipeline.lock").read_bytes()).hexdigest() in text


def test_inputs_of_the_base_stand_with_their_digests(tmp_path: Path) -> None:
    text, markdown = both(report(Workspace.at(tmp_path), SURROUNDINGS))
    assert f"Input package==1.0 {'1' * 64}" in text
    assert f"Input package==1.0: {'1' * 64}" in markdown


def test_each_stage_has_its_own_patch_whatever_its_id_ends_in(tmp_path: Path) -> None:
    stages = "".join(
        replaced(LIMIT_STAGE, "id: limit", f"id: {id_}").replace("LIMIT", name)
        for id_, name in (("a-b", "ONE"), ("b", "TWO"), ("1-b", "THREE"))
    )
    workspace = Workspace.at(tmp_path, stages)
    workspace.base({"a.py": "".join(f"{name} = 4\n" for name in ("ONE", "TWO", "THREE"))})
    made = report(workspace)
    assert [section.patch for section in made.sections] == [
        "patches/01-a-b.patch",
        "patches/02-b.patch",
        "patches/03-1-b.patch",
    ]
    diffs = [section.diffs[0] for section in made.sections]
    added = [[line.text for hunk in diff.hunks for line in hunk.lines if line.kind == "added"] for diff in diffs]
    assert added == [["+ONE = 8"], ["+TWO = 8"], ["+THREE = 8"]]


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_no_artefact_may_take_the_name_of_a_report(tmp_path: Path, name: str) -> None:
    stage = f"""\
  - id: mine
    kind: template
    summary: A report of my own.
    render: [{{template: templates/mine.j2, to: {name}}}]
"""
    workspace = Workspace.at(tmp_path, stage)
    workspace.write("templates/mine.j2", "mine")
    ended = workspace.run("render")
    assert ended.code != 0
    assert "E233" in ended.err


def test_every_template_of_the_report_is_part_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = project["package-data"]["orchestrator"]
    folder = ROOT / "orchestrator"
    paths = [p.relative_to(folder).as_posix() for p in (folder / "emit/report").rglob("*") if p.suffix == ".j2"]
    assert paths
    assert [path for path in paths if not any(fnmatch.fnmatch(path, pattern) for pattern in patterns)] == []


# --- no text does anything ---


def test_harmful_texts_are_nothing_but_text_on_the_page(tmp_path: Path) -> None:
    content = built(harmful(tmp_path), SURROUNDINGS)["report.html"]
    parsed = Parsed(content)
    assert parsed.faults == []
    assert len(parsed.named("script")) == 1
    assert parsed.named("img") == parsed.named("iframe") == parsed.named("link") == []
    for tag, attributes in parsed.tags:
        assert not [name for name in attributes if name.startswith("on")], tag
        for name in ("href", "src", "action", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
    assert "\u202e" not in content.decode()
    seen = parsed.text.count(HARM.replace("\u202e", "⟨U+202E⟩").split(" {{")[0])
    assert seen > 20, "the texts are shown, whole and as they are"


def test_only_the_page_s_own_script_may_run_and_nothing_may_be_loaded(tmp_path: Path) -> None:
    content = built(Workspace.at(tmp_path))["report.html"].decode()
    script = content[content.rindex("<script>") + len("<script>") : content.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(a["content"] for a in Parsed(content.encode()).named("meta") if a.get("http-equiv"))
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert set(rules) == {"default-src", "style-src", "script-src", "base-uri", "form-action"}
    assert not re.search(r"url\(\s*['\"]?(?!#)|@import|https?://", content)


def test_harmful_texts_are_nothing_but_text_in_the_markdown(tmp_path: Path) -> None:
    content = built(harmful(tmp_path), SURROUNDINGS)["report.md"].decode()
    made = MarkdownIt("commonmark").enable("table").render(content)
    bare = re.sub(r"<pre>.*?</pre>|<code>.*?</code>", "", made, flags=re.DOTALL)
    ours = "h1 h2 p ul li strong table thead tbody tr th td details summary b blockquote br"
    assert set(re.findall(r"<(\w+)", bare)) <= set(ours.split())
    assert not re.search(r"@someone|#1\b", bare)
    assert "href" not in made
    assert "\u202e" not in content


def test_every_table_row_of_the_markdown_has_the_cells_of_its_head(tmp_path: Path) -> None:
    content = built(harmful(tmp_path), SURROUNDINGS)["report.md"].decode()
    made = MarkdownIt("commonmark").enable("table").render(content)
    for table in re.findall(r"<table>.*?</table>", made, flags=re.DOTALL):
        rows = [len(re.findall(r"<t[hd]", row)) for row in re.findall(r"<tr>.*?</tr>", table, flags=re.DOTALL)]
        assert len(set(rows)) == 1, table[:200]


@settings(max_examples=25)
@given(st.text(alphabet=st.characters() | st.sampled_from("<>&\"'`|\n{}%#@!-[]()$*_~\\"), max_size=60))
def test_any_text_is_shown_and_changes_nothing_around_it(plain: Report, text: str) -> None:
    section = dataclasses.replace(plain.sections[0], claim=f"x{text}y", evidence=f"x{text}y", reason=f"x{text}y")
    made = dataclasses.replace(plain, target_summary=f"x{text}y", sections=(section,))
    parsed, empty = page(made), page(plain)
    assert parsed.faults == []
    tags = [tag for tag, _ in parsed.tags if tag != "code"]
    assert sorted(set(tags)) == sorted({tag for tag, _ in empty.tags if tag != "code"})
    expected = " ".join(str(visible(f"x{text}y")).split())
    assert parsed.text.replace(" ", "").count(expected.replace(" ", "")) >= 1 or "`" in text
    markdown = markdown_of(made)
    assert markdown.decode().count("| **limit**: ") == 1
    assert expected.replace("`", "").replace(" ", "") in readable(markdown).replace("`", "").replace(" ", "")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return a report with a claim and a reason, so that every kind of tag is on its page."""
    made = report(Workspace.at(tmp_path_factory.mktemp("plain")))
    section = dataclasses.replace(made.sections[0], claim="claim", evidence="evidence", reason="reason")
    return dataclasses.replace(made, target_summary="summary", sections=(section,))


def test_links_of_the_page_lead_to_places_that_exist_once(tmp_path: Path) -> None:
    parsed = Parsed(built(many_stages(tmp_path, 20), SURROUNDINGS)["report.html"])
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {a["href"] for a in parsed.named("a")}
    assert {link for link in links if link and link.removeprefix("#") not in ids} == set()
    named = [a["aria-labelledby"] for _, a in parsed.tags if "aria-labelledby" in a]
    assert set(named) <= set(ids)


def test_headings_go_down_one_level_at_a_time(tmp_path: Path) -> None:
    parsed = Parsed(built(harmful(tmp_path), SURROUNDINGS)["report.html"])
    levels = [int(tag[1]) for tag, _ in parsed.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


# --- what is said ---


def both(made: Report) -> tuple[str, str]:
    return page(made).text, readable(markdown_of(made))


def test_claims_without_evidence_are_counted_and_shown_as_such(tmp_path: Path) -> None:
    claimed = replaced(LIMIT_STAGE, "    edits", "    claim: Twice as fast.\n    edits")
    proven = replaced(
        replaced(claimed, "id: limit", "id: other").replace("LIMIT", "OTHER"),
        "claim: Twice as fast.",
        "claim: Safer.\n    evidence: We counted.",
    )
    workspace = Workspace.at(tmp_path, claimed + proven)
    workspace.base({"a.py": "LIMIT = 4\nOTHER = 4\n"})
    made = report(workspace)
    assert [s.id for s in made.unproven] == ["limit"]
    assert [s.id for s in made.proven] == ["other"]
    text, markdown = both(made)
    assert "1 of 2 claims has no evidence." in text
    assert "Twice as fast. no evidence" in text
    assert "Safer. Evidence: We counted." in text
    assert "Claims without evidence: 1 of 2" in markdown
    assert "Twice as fast. none" in markdown


def test_every_outcome_is_told_with_its_reason(tmp_path: Path) -> None:
    off = replaced(replaced(LIMIT_STAGE, "id: limit", "id: off"), "    edits", "    enabled: false\n    edits")
    after = replaced(replaced(LIMIT_STAGE, "id: limit", "id: later"), "    edits", "    needs: [off]\n    edits")
    workspace = Workspace.at(tmp_path, LIMIT_STAGE + off + after)
    text, markdown = both(report(workspace))
    for shown in (text, markdown):
        assert "applied (unlocked)" in shown
        assert "enabled: false" in shown
        assert "needs 'off', which is skipped" in shown


def test_exact_adapted_and_already_applied_are_told_apart(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    plan, tree = workspace.plan(), workspace.tree()
    first = run(plan, tree)
    chain = chain_of(first)
    lock = Lock(inputs={}, bases={tree.digest: chain})
    assert report(workspace, lock=lock).sections[0].fit == "exact"
    again = run(plan, first.tree, lock, chain)
    assert report_of(again, {}, "").sections[0].fit == "already"
    workspace.base({"a.py": "LIMIT = 4 + 1\n"})
    assert report(workspace, lock=lock).sections[0].fit == "adapted"


def test_a_check_is_shown_before_after_and_at_the_end(tmp_path: Path) -> None:
    stage = replaced(
        LIMIT_STAGE,
        "    post:",
        "    pre:\n      - {check: file_exists, file: pkg/a.py, because: it is edited}\n    post:\n"
        "      - {check: symbol_exists, file: pkg/a.py, name: first}",
    )
    made = report(Workspace.at(tmp_path, stage))
    rows = {row.role: tuple(moment.status for moment in row.moments) for row in made.sections[0].checks}
    assert rows == {
        "pre": ("holds", "", ""),
        "invariant": ("holds", "holds", "holds"),
        "effect": ("not yet", "holds", "holds"),
    }
    text, markdown = both(made)
    assert "not yet holds holds" in text
    assert "because it is edited" in text
    assert "because it is edited" in markdown


def test_a_condition_that_does_not_hold_is_no_failed_check(tmp_path: Path) -> None:
    stage = replaced(LIMIT_STAGE, "    edits", "    when:\n      - {check: file_exists, file: pkg/no.py}\n    edits")
    text = page(report(Workspace.at(tmp_path, stage))).text
    assert "0 do not hold" in text
    assert "pkg/no.py is not there" in text


def test_a_run_that_failed_can_be_shown_too(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    workspace.base({"a.py": "LIMIT = 4\nLIMIT = 5\n"})
    made = report_of(run(workspace.plan(), workspace.tree()), {}, "")
    text, markdown = both(made)
    for shown in (text, markdown):
        assert "failed" in shown
        assert "E405" in shown


def test_findings_and_waivers_stand_with_their_stage(tmp_path: Path) -> None:
    edit = 'edits:\n      - {op: insert, file: pkg/a.py, at: end, code: "import absent_package"}'
    stage = replaced(LIMIT_STAGE, "edits:", edit)
    workspace = Workspace.at(tmp_path, stage)
    found = run(workspace.plan(), workspace.tree()).findings[0]
    waiver = f"    waive:\n      - {{rule: {found.code}, because: it comes with the image}}\n    post:"
    made = report(Workspace.at(tmp_path / "waived", replaced(stage, "    post:", waiver)))
    assert [(f.code, str(f.severity)) for f in made.sections[0].findings] == [(found.code, "note")]
    text, markdown = both(made)
    for shown in (text, markdown):
        assert found.message.split("`")[0].strip() in shown
        assert f"waived {found.code} because it comes with the image" in shown


def test_the_diff_and_the_reason_of_each_edit_are_shown(tmp_path: Path) -> None:
    made = report(many_stages(tmp_path, 1))
    section = made.sections[0]
    assert [(edit.op, edit.file, edit.sites, edit.because) for edit in section.edits] == [
        ("assign", "pkg/m000.py", ("31",), "the old one is too small"),
        ("assign", "pkg/m000.py", ("6",), ""),
    ]
    text, markdown = both(made)
    for shown in (text, markdown):
        assert "the old one is too small" in shown
        assert "-SETTING_30 = 30" in shown
        assert "+SETTING_30 = 100" in shown
    content = page_of(made).decode()
    assert content.count("<ins>") == content.count("<del>") == 2
    assert 'style="counter-reset:o 2 n 2"' in content


def test_digests_name_every_file_but_the_reports_and_the_audit(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    workspace.run("render")
    files = workspace.built()
    text = Parsed(files["report.html"]).text
    left = {"report.html", "report.md", "audit.jsonl", "patchset/audit.jsonl"}
    assert left < files.keys()
    for name, content in files.items():
        assert (hashlib.sha256(content).hexdigest() in text) == (name not in left), name


def test_the_run_configuration_says_who_brings_what(tmp_path: Path) -> None:
    made = report(harmful(tmp_path))
    assert made.server is not None
    assert [(a.text, a.value, a.stage) for a in made.server.arguments] == [
        ("python3", "", ""),
        ("-m", "pkg", ""),
        ("--flag", HARM, "limit"),
    ]
    assert [(v.name, v.value, v.origin, v.stage) for v in made.server.environment] == [
        ("HARM", HARM, "run.yaml", "limit"),
    ]


def test_the_effective_environment_says_what_is_hidden(tmp_path: Path) -> None:
    workspace = harmful(tmp_path)
    target = (workspace.folder / "target.yaml").read_text()
    image = "interpreter: /usr/bin/python3, environment: {HARM: other, PATH: /bin}}"
    workspace.write("target.yaml", replaced(target, "interpreter: /usr/bin/python3}", image))
    made = report(workspace)
    assert made.server is not None
    assert [(v.name, v.origin, v.hidden) for v in made.server.environment] == [
        ("HARM", "run.yaml", (("image", "other"),)),
        ("PATH", "image", ()),
    ]
    text, markdown = both(made)
    for shown in (text, markdown):
        assert "hides other of image" in shown


def test_memory_is_shown_by_use_with_what_is_disputed_and_what_is_refused(tmp_path: Path) -> None:
    for shown in both(with_memory(report(Workspace.at(tmp_path)))):
        assert "34.0 GB" in shown
        assert "16.0-17.0" in shown
        assert "270,048 ±7,728" in shown
        assert "rule 7: batched is more than a rank may take" in shown
        assert "\N{MINUS SIGN}165" in shown
        assert "no CUDA graphs: eager mode (pkg/a.py:1:1)" in shown
        assert "unknown, for want of" not in shown


def test_memory_that_is_unknown_is_called_so_and_has_no_bar(tmp_path: Path) -> None:
    plain = report(Workspace.at(tmp_path))
    made = with_memory(plain, known=False)
    for shown in both(made):
        assert "unknown, for want of model.activation" in shown
    content = page_of(made)
    assert content.count(b'class="use-1"') == 1, "in the legend alone"
    assert page_of(with_memory(plain)).count(b'class="use-1"') == 4
    for shown in both(plain):
        assert "Memory of a rank" not in shown


def test_memory_that_nothing_is_known_of_is_one_sentence(tmp_path: Path) -> None:
    record = {"event": "memory", "stage": "s", "artefact": "run.yaml", "unknown": ["device.memory_bytes"]}
    made = dataclasses.replace(report(Workspace.at(tmp_path)), memory=tuple(memory_of([record])))
    for shown in both(made):
        assert "memory of a rank: unknown, for want of device.memory_bytes" in shown


def test_a_tile_is_shown_with_its_arithmetic(tmp_path: Path) -> None:
    made = report(Workspace.at(tmp_path))
    row = dataclasses.replace(
        made.sections[0].checks[0],
        check="tile_fits",
        end=Moment("warns", "`BLOCK` is 64x64; 64·128·2 + 64·64·2 = 24,576 B; above what is preferred", "pkg/a.py:1:1"),
    )
    section = dataclasses.replace(made.sections[0], checks=(row,))
    tiled = dataclasses.replace(made, sections=(section,), tiles=tuple(tiles_in([section])))
    for shown in both(tiled):
        assert "64·128·2 + 64·64·2 = 24,576 B" in shown
        assert "M·D·e + M·N·e + buffers·N·D·e" in shown
    assert "Where the tiles come from" not in page(made).text


def test_a_target_with_a_limit_for_tiles_and_no_tile_is_told(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    workspace.write("target.yaml", replaced(TARGET, "warps: 64", "shared_memory_per_block_bytes: 49152"))
    assert "No tile is derived here" in page(report(workspace)).text


def test_figures_of_the_target_stand_with_status_and_source(tmp_path: Path) -> None:
    text, markdown = both(report(Workspace.at(tmp_path)))
    for shown in (text, markdown):
        assert "device.cores" in shown
        assert "unknown nobody has looked" in shown


# --- size ---


def test_two_hundred_stages_make_a_page_of_a_few_megabytes_and_a_markdown_that_github_takes(tmp_path: Path) -> None:
    files = built(many_stages(tmp_path))
    assert len(files["report.html"]) < 5_000_000
    markdown = files["report.md"].decode()
    assert len(markdown.encode("utf-16-le")) // 2 < LIMIT
    start = markdown[:600]
    assert "[!WARNING]" in start
    assert "Left out: 200 of" not in start
    assert re.search(r"Left out: \d+ of \d+ diffs; ", start)
    assert "mermaid" not in markdown
    assert "stage-199-of-many" in readable(files["report.md"])


def test_a_short_report_is_not_cut_and_draws_the_graph(tmp_path: Path) -> None:
    markdown = markdown_of(report(many_stages(tmp_path, 5))).decode()
    assert "WARNING" not in markdown
    assert "```mermaid\nflowchart LR" in markdown


def test_a_markdown_fits_whatever_stands_beside_the_stages(tmp_path: Path) -> None:
    made = dataclasses.replace(report(Workspace.at(tmp_path)), target_summary="word " * LIMIT, base="base " * LIMIT)
    markdown = markdown_of(made).decode()
    assert len(markdown) < LIMIT
    assert markdown.endswith("**The rest is cut.**\n")


@pytest.mark.parametrize("claim", [20_000, 60_000])
def test_whatever_the_length_of_its_texts_a_markdown_fits_and_says_what_it_lacks(tmp_path: Path, claim: int) -> None:
    made = report(many_stages(tmp_path, 12))
    sections = tuple(dataclasses.replace(s, claim=LONG * (claim // len(LONG))) for s in made.sections)
    markdown = markdown_of(dataclasses.replace(made, sections=sections)).decode()
    assert len(markdown) < LIMIT
    assert "**This report is cut to fit a pull request.**" in markdown[:200]


def test_a_page_cuts_an_endless_diff_and_names_the_patch(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    lines = LINES_OF_ALL * 2
    stage = replaced(LIMIT_STAGE, "    post:", "    deploy: [{source: long.txt, to: pkg/long.txt}]\n    post:")
    workspace.pipeline(stage)
    workspace.write("long.txt", "".join(f"line {i}\n" for i in range(lines)))
    made = report(workspace)
    content = page_of(made)
    assert content.count(b"<ins>") < LINES_OF_ALL
    assert f"of {lines:,} lines are shown. The whole diff is in patches/01-limit.patch" in Parsed(content).text
