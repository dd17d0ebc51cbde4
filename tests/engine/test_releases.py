"""Stages that upstream makes needless, stages that expire, and which release a tree is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.tree import Tree
from orchestrator.engine.releases import version_of
from orchestrator.spec.releases import is_past
from tests.workspaces import CODE, LIMIT_STAGE, Workspace, faults, replaced

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workspaces import Ended

UPSTREAM = """\
    upstream:
      pr: https://example.org/pull/7
      fixed_when:
        - {check: assignment_equals, file: pkg/a.py, name: LIMIT, value: "16"}
"""
BROKEN = "{check: match_count, file: pkg/a.py, pattern: x = = 1, equals: 1}"
SECOND = """\
  - id: second
    kind: codemod
    needs: [limit]
    summary: Return.
    edits:
      - {op: replace, file: pkg/a.py, within: second, match: raise NotImplementedError(), with: return x}
    post:
      - {check: match_count, file: pkg/a.py, within: second, pattern: return x, equals: 1}
"""


def outcomes(ended: Ended) -> dict[str, str]:
    return {r["stage"]: r["outcome"] for r in ended.records() if r["event"] == "stage"}


@pytest.mark.parametrize(("limit", "outcome"), [("4", "applied (unlocked)"), ("16", "fixed upstream")])
def test_a_stage_is_skipped_where_the_checks_hold_on_the_base(tmp_path: Path, limit: str, outcome: str) -> None:
    workspace = Workspace.at(tmp_path, LIMIT_STAGE + UPSTREAM + SECOND)
    workspace.base({"a.py": replaced(CODE, "LIMIT = 4", f"LIMIT = {limit}")})
    for name in ("plan", "render"):
        ended = workspace.run(name, "--json")
        assert ended.code == 0, ended
        # What needs it may run: the work is there, by upstream.
        assert outcomes(ended) == {"limit": outcome, "second": "applied (unlocked)"}
    if outcome == "fixed upstream":
        record = next(r for r in ended.records() if r.get("stage") == "limit")
        assert record["reason"].startswith("fixed upstream: https://example.org/pull/7 (")
        assert [check["role"] for check in record["checks"]] == ["upstream"]
        assert b"https://example.org/pull/7" in workspace.built()["audit.jsonl"]
        assert any(
            b"https://example.org/pull/7" in text for name, text in workspace.built().items() if "report" in name
        )


def test_verify_takes_a_stage_that_upstream_made_needless_for_skipped(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path, LIMIT_STAGE + UPSTREAM + SECOND)
    workspace.base(
        {"a.py": replaced(CODE, "LIMIT = 4", "LIMIT = 16").replace("raise NotImplementedError()", "return x")}
    )
    ended = workspace.run("verify", "--json")
    states = {r["stage"]: r["state"] for r in ended.records() if r["event"] == "verify"}
    assert states == {"limit": "skipped", "second": "applied"}


@pytest.mark.parametrize(
    ("version", "codes"),
    [("0.7.9", []), ("0.8", []), ("0.8.0+cu124", []), ("0.8.0rc1", []), ("0.8.0.post1", ["E516"]), ("0.8.1", ["E516"])],
)
def test_a_stage_that_expired_fails_loudly(tmp_path: Path, version: str, codes: list[str]) -> None:
    workspace = Workspace.at(tmp_path, LIMIT_STAGE + '    expires: "0.8"\n')
    workspace.base({"_version.py": f"__version__ = version = '{version}'\n"})
    for name in ("plan", "render"):
        ended = workspace.run(name, "--json")
        assert [fault.split()[0] for fault in faults(ended)] == codes
        assert ended.code == (5 if codes else 0)
        assert outcomes(ended) == {"limit": "applied (unlocked)"}


def test_an_expiry_that_cannot_be_judged_is_a_warning(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path, LIMIT_STAGE + '    expires: "0.8"\n')
    ended = workspace.run("plan", "--json")
    assert [r["code"] for r in ended.records() if r["event"] == "diagnostic" and r["code"] == "W517"] == ["W517"]
    assert ended.code == 0


def test_a_stage_that_is_off_does_not_expire(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path, LIMIT_STAGE + '    enabled: false\n    expires: "0.8"\n')
    workspace.base({"_version.py": "version = '9'\n"})
    assert workspace.run("plan").code == 0


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ('    expires: "soon"\n', "not a version"),
        ("    upstream: {pr: somewhere, fixed_when: [{check: file_exists, file: pkg/a.py}]}\n", "does not match"),
        ('    upstream: {pr: "https://example.org/1", fixed_when: []}\n', "is empty"),
        ('    expect: [{verdict: fine, because: x, until: "1"}]\n', "must be"),
        ("    expect: [{verdict: adapted, because: x}]\n", "'until' is missing"),
        ('    expect: [{verdict: adapted, because: x, until: "1", on: "0.6"}]\n', "not a set of versions"),
        (f"    upstream: {{pr: 'https://example.org/1', fixed_when: [{BROKEN}]}}\n", "E2"),
    ],
)
def test_a_mistake_in_what_is_said_of_releases_is_marked(tmp_path: Path, key: str, told: str) -> None:
    workspace = Workspace.at(tmp_path, LIMIT_STAGE + key)
    ended = workspace.run("validate", "--json")
    assert ended.code == 3
    assert any(told in fault for fault in faults(ended)), faults(ended)


@given(st.sampled_from(["_version.py", "version.py", "__version__.py", "__init__.py"]), st.binary(max_size=60))
def test_any_file_says_a_version_or_none(name: str, content: bytes) -> None:
    found = version_of(Tree({f"pkg/{name}": b"# version\n" + content}), "pkg", {})
    assert found is None or found[0].isalnum()


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"version.py": "from ._version import __version__\n", "_version.py": "__version__: str = '1.2'\n"}, "1.2"),
        ({"__init__.py": "__version__ = '4.5.dev0'\r\n"}, "4.5.dev0"),
        ({"__init__.py": "__version__ = get()\n"}, None),
        ({"__init__.py": "__version__ = 'unknown'\n"}, None),
        ({"a.py": "__version__ = '1'\n"}, None),
    ],
)
def test_a_package_says_which_release_it_is(files: dict[str, str], found: str | None) -> None:
    assert version_of(Tree({f"pkg/{name}": text.encode() for name, text in files.items()}), "pkg", {}) == found
    assert version_of(Tree(), "pkg", {"pkg": "7"}) == "7"


@given(st.tuples(*[st.integers(0, 30)] * 3), st.tuples(*[st.integers(0, 30)] * 3))
def test_a_release_is_past_another_where_it_is_later(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    first, second = (".".join(map(str, parts)) for parts in (one, other))
    assert is_past(f"{first}+local", second) == (one > other)


def test_what_is_not_said_of_releases_leaves_a_stage_s_digest_alone(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    plain = workspace.plan().stages[0].digest
    workspace.pipeline(f'{LIMIT_STAGE}    expect: [{{verdict: adapted, because: x, until: "1"}}]\n')
    assert workspace.plan().stages[0].digest == plain
    workspace.pipeline(f'{LIMIT_STAGE}    expires: "1"\n')
    assert workspace.plan().stages[0].digest != plain
