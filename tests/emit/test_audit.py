"""The audit: whatever happens to a line afterwards is found; what the folder holds is held against it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.digest import canonical_json, digest_data
from orchestrator.emit.audit import FIRST, Circumstances, audit_faults, audit_lines, read_audit
from orchestrator.engine.run import run
from tests.workspaces import LIMIT_STAGE, Workspace, faults, replaced

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.engine.outcome import Run

SECOND = (
    replaced(LIMIT_STAGE, "id: limit", "id: second")
    .replace("LIMIT", "LAST")
    .replace("op: assign, file: pkg/a.py, name: LAST, value", "op: insert, file: pkg/a.py, at: end, code")
    .replace('code: "${params.limit}"', 'code: "LAST = ${params.limit}\\nprint(LAST)"')
)
SECOND = replaced(SECOND, "    edits", "    needs: [limit]\n    edits")
RENDER = """\
  - id: conf
    kind: template
    summary: Write it.
    render:
      - {template: t.j2, to: run.txt}
"""
MOMENT = Circumstances("2026-01-02T03:04:05Z", "host", "user", "orchestrator render")


def workspace_at(folder: Path) -> Workspace:
    made = Workspace.at(folder, LIMIT_STAGE + SECOND + RENDER)
    made.write("t.j2", "limit {{ params.limit }}\n")
    return made


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = workspace_at(tmp_path_factory.mktemp("audit"))
    return run(made.plan(), made.tree())


@pytest.fixture(scope="module")
def log(done: Run) -> bytes:
    return audit_lines(done, {"patchset_digest": "d" * 64}, MOMENT)


def codes(content: bytes, *, complete: bool = True) -> list[str]:
    return [found.code for found in audit_faults("audit.jsonl", content, complete=complete)]


def test_a_log_is_whole_as_it_is_written(done: Run, log: bytes) -> None:
    assert not done.failed
    assert codes(log) == []
    records = read_audit(log)
    assert [record["event"] for record in records] == ["stage", "stage", "stage", "artefact", "patchset", "run"]
    assert records[-1]["records"] == len(records)
    assert [record["number"] for record in records] == list(range(1, len(records) + 1))
    assert [record["previous"] for record in records] == [FIRST, *(record["digest"] for record in records[:-1])]


def test_the_copy_for_the_image_is_the_log_without_its_last_line(done: Run, log: bytes) -> None:
    inner = audit_lines(done, {"patchset_digest": "d" * 64}, None)
    assert inner == b"".join(line + b"\n" for line in log.splitlines()[:-1])
    assert codes(inner, complete=False) == []
    assert codes(inner) == ["E613"]


def test_the_time_is_in_the_last_line_and_nowhere_else(done: Run, log: bytes) -> None:
    other = audit_lines(done, {"patchset_digest": "d" * 64}, Circumstances("another", "another", "another"))
    assert log.splitlines()[:-1] == other.splitlines()[:-1]
    assert log.splitlines()[-1] != other.splitlines()[-1]


@given(st.data())
def test_a_removed_line_is_found(log: bytes, data: st.DataObject) -> None:
    lines = log.splitlines(keepends=True)
    del lines[data.draw(st.integers(0, len(lines) - 1))]
    assert codes(b"".join(lines)) in (["E612"], ["E613"])


@given(st.data())
def test_a_repeated_or_moved_line_is_found(log: bytes, data: st.DataObject) -> None:
    lines = log.splitlines(keepends=True)
    index = st.integers(0, len(lines) - 1)
    source, to = data.draw(index), data.draw(index)
    repeated = [*lines[:to], lines[source], *lines[to:]]
    assert codes(b"".join(repeated)) == ["E612"]
    moved = list(lines)
    moved.insert(to, moved.pop(source))
    assert (codes(b"".join(moved)) == []) == (moved == lines)


@given(st.data())
def test_a_log_that_is_cut_off_anywhere_is_found(log: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(log) - 1))
    assert codes(log[:cut]) != []


@given(st.data())
def test_a_changed_byte_anywhere_is_found(log: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(log) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != log[place]))
    assert codes(log[:place] + bytes([byte]) + log[place + 1 :]) != []


@given(st.data())
def test_an_edited_field_is_found_even_where_the_line_s_own_digest_is_made_anew(
    log: bytes, data: st.DataObject
) -> None:
    lines = log.decode().splitlines()
    number = data.draw(st.integers(0, len(lines) - 2))
    record = json.loads(lines[number])
    field = data.draw(st.sampled_from(sorted(record.keys() - {"digest"})))
    record[field] = "forged"
    lines[number] = canonical_json(record)
    assert codes("".join(f"{line}\n" for line in lines).encode()) in (["E611"], ["E612"])
    record["digest"] = digest_data({key: value for key, value in record.items() if key != "digest"})
    lines[number] = canonical_json(record)
    assert codes("".join(f"{line}\n" for line in lines).encode()) in (["E612"], ["E610"])


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "E613"),
        (b"\n", "E610"),
        (b"{}\n", "E610"),
        (b"[]\n", "E610"),
        (b"null\n", "E610"),
        (b"\xff\n", "E610"),
        (b"not json\n", "E610"),
        (b'{"digest": 1, "number": 1, "previous": 1, "event": NaN}\n', "E610"),
        (b'{"digest": "a", "number": [], "previous": {}, "event": ""}\n', "E611"),
        (b"[" * 100_000 + b"\n", "E610"),
        (b'{"a":' * 20_000 + b"\n", "E610"),
    ],
    ids=range(11),
)
def test_what_is_no_log_is_named(content: bytes, code: str) -> None:
    assert codes(content) == [code]


@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(content: bytes) -> None:
    assert codes(content) != []


# --- the folder beside the log ---


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    made = workspace_at(tmp_path_factory.mktemp("rendered"))
    assert made.run("render").code == 0
    return made


def test_a_rendered_folder_is_what_its_audit_says(rendered: Workspace) -> None:
    ended = rendered.run("audit", "build")
    assert (ended.code, "the chain is whole" in ended.err) == (0, True)
    ended = rendered.run("audit", "build/patchset/audit.jsonl")
    assert ended.code == 0


FILES = [
    "Dockerfile",
    "report.html",
    "report.md",
    ".dockerignore",
    "run.txt",
    "patches/01-limit.patch",
    "patches/02-second.patch",
    "patchset/audit.jsonl",
    "patchset/manifest.json",
    "patchset/patchset.py",
    "patchset/overlay/pkg/a.py",
]


def test_these_are_all_files_of_a_build(rendered: Workspace) -> None:
    assert sorted(rendered.built()) == sorted([*FILES, "audit.jsonl"])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", ["edited", "removed"])
def test_a_file_that_is_not_what_the_audit_names_is_found(rendered: Workspace, name: str, change: str) -> None:
    path = rendered.folder / "build" / name
    before = path.read_bytes()
    try:
        if change == "edited":
            path.write_bytes(before + b" ")
        else:
            path.unlink()
        ended = rendered.run("audit", "build", "--json")
    finally:
        path.write_bytes(before)
    assert ended.code == 6
    assert faults(ended)
    assert all(found.startswith("E614 ") and name in found for found in faults(ended))


@pytest.mark.parametrize("name", ["patchset/overlay/pkg/extra.py", "patches/99-mine.patch", "patchset/extra", "extra"])
def test_a_file_that_the_audit_does_not_name_is_found(rendered: Workspace, name: str) -> None:
    path = rendered.folder / "build" / name
    path.write_bytes(b"")
    try:
        ended = rendered.run("audit", "build", "--json")
    finally:
        path.unlink()
    assert ended.code == 6
    assert [name in found for found in faults(ended)] == [True]
