"""From YAML to a plan: values, references, parameters, variants, digests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.diagnostics import Rejected
from orchestrator.engine.load import Choice, load
from orchestrator.engine.plan import make_plan
from tests.workspaces import HEAD, LIMIT_STAGE, TARGET, TEMPLATES, Workspace, replaced

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.engine.plan import Plan

PARAMS = "params: {limit: 8, word: text, share: 0.9, on: true, sizes: [1, 2]}"
TYPED = replaced(HEAD, "params: {limit: 8, word: text}", PARAMS)
VALUE = """\
  - id: conf
    kind: template
    summary: "SUMMARY"
    render:
      - {template: t.j2, to: run.txt}
    post:
      - {check: value_equals, file: run.txt, path: a, equals: EQUALS}
"""

SECOND = replaced(replaced(LIMIT_STAGE, "id: limit", "id: second"), "    edits", "    needs: [limit]\n    edits")


def planned(stages: str, head: str = TYPED, choice: Choice | None = None) -> Plan:
    """Return the plan of a pipeline whose workspace is in memory."""
    files = {"target.yaml": TARGET, "t.j2": "a: 1\n", "k.py": "K = 1\n", **TEMPLATES}

    def read(path: str) -> bytes:
        return files[path].encode()

    return make_plan(load("pipeline.yaml", f"{head}{stages}".encode(), read, choice), read)


def equals_of(written: str, **keys: Any) -> object:  # noqa: ANN401 - Choice's own fields
    plan = planned(VALUE.replace("EQUALS", written).replace("SUMMARY", "s"), choice=Choice(**keys))
    return plan.stages[0].stage.post[0].equals  # type: ignore[union-attr]  # a value_equals


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"${params.limit}"', 8),
        ('"${params.share}"', 0.9),
        ('"${params.on}"', True),
        ('"${params.word}"', "text"),
        ('"${params.sizes}"', [1, 2]),
        ('"${model.head_dim}"', 256),
        ('"${params.limit} of ${device.warps}"', "8 of 64"),
        ('" ${params.limit}"', " 8"),
        ('"$${params.limit}"', "${params.limit}"),
        ('"$${ and ${params.limit}"', "${ and 8"),
        ('["${params.limit}", "${params.word}"]', [8, "text"]),
        ('"$5 {x}"', "$5 {x}"),
    ],
)
def test_a_reference_alone_keeps_its_type_and_others_become_text(written: str, value: object) -> None:
    found = equals_of(written)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("params.limt", ("E204", "`${params.limt}` is not known", "did you mean 'params.limit'?")),
        ("modle.head_dim", ("E204", "`${modle.head_dim}` is not known", "did you mean 'model.head_dim'?")),
        (
            "device.cores",
            (
                "E204",
                "`${device.cores}` is unknown: the target says so, and nothing is computed from it",
                "Measure it and enter it in the target, or do without it.",
            ),
        ),
        (
            "name",
            (
                "E205",
                "hole `${name}` outside of code",
                "Holes stand in code only; a parameter is written `${params.NAME}`.",
            ),
        ),
        (
            "1 + 1",
            (
                "E205",
                "`${1 + 1}` is neither a hole nor a value",
                "A hole is a name, `${name}` or `${name...}`; a value is dotted, `${params.x}`; `$${` is a plain `${`.",
            ),
        ),
    ],
)
def test_a_reference_to_nothing_is_refused_when_it_is_read(reference: str, expected: tuple[str, str, str]) -> None:
    with pytest.raises(Rejected) as caught:
        equals_of(f'"${{{reference}}}"')
    assert [(d.code, d.message, d.help) for d in caught.value.diagnostics] == [expected]


def test_parameters_come_from_the_document_the_variant_and_the_command_line_in_that_order() -> None:
    head = replaced(TYPED, "stages:", "variants: {big: {limit: 16, share: 1}}\nstages:")
    written = VALUE.replace("EQUALS", '["${params.limit}", "${params.share}"]')

    def values(choice: Choice) -> object:
        return planned(written, head, choice).stages[0].stage.post[0].equals  # type: ignore[union-attr]  # as above

    assert values(Choice()) == [8, 0.9]
    assert values(Choice(variant="big")) == [16, 1]
    assert values(Choice(variant="big", settings={"limit": "32"})) == [32, 1]
    assert values(Choice(settings={"share": "0.10"})) == [8, 0.1]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_text_of_the_command_line_arrives_as_it_is(text: str) -> None:
    assert equals_of('"${params.word}"', settings={"word": text}) == text


@given(st.dictionaries(st.sampled_from(["limit", "word", "share", "on", "sizes", "nothing"]), st.text(max_size=20)))
def test_whatever_is_set_the_answer_is_a_plan_or_diagnostics(settings: dict[str, str]) -> None:
    codes: set[str] = set()
    try:
        values = dict(planned(LIMIT_STAGE, choice=Choice(settings=settings)).values)
    except Rejected as error:
        values, codes = {}, {d.code for d in error.diagnostics}
    assert codes <= {"E201", "E203"}
    defaults = planned(LIMIT_STAGE).values
    assert codes or values.keys() == defaults.keys()
    assert all(type(values[key]) in {type(defaults[key]), int} for key in values)


def test_a_parameter_in_code_is_a_node_and_never_spliced_text(tmp_path: Path) -> None:
    workspace = Workspace.at(
        tmp_path, replaced(LIMIT_STAGE, 'LIMIT, value: "${params.limit}"', 'LIMIT, value: "${params.word}"')
    )
    workspace.pipeline((workspace.folder / "pipeline.yaml").read_text().partition("stages:\n")[2].split("    post")[0])
    ended = workspace.run("diff", "--set", "word=1); import os; (")
    assert "+LIMIT = '1); import os; ('\n" in ended.out
    assert ended.code == 0


@pytest.mark.parametrize(
    "signature", ["(a)", "()", "(a, b=1)", "(a: int, /, *rest, b: str = 'x', **more)", "(a, limit=${params.limit})"]
)
def test_a_signature_is_read_as_python_writes_one(signature: str) -> None:
    check = f"    pre:\n      - {{check: signature_equals, file: pkg/a.py, name: f, signature: {signature!r}}}\n"
    assert planned(LIMIT_STAGE + check).stages[0].stage.pre[0].check == "signature_equals"


@pytest.mark.parametrize("signature", ["a, b", "(a", "(a, a b)", "(a=1, b)"])
def test_what_is_no_signature_is_refused_when_it_is_read(signature: str) -> None:
    check = f"    pre:\n      - {{check: signature_equals, file: pkg/a.py, name: f, signature: {signature!r}}}\n"
    with pytest.raises(Rejected) as caught:
        planned(LIMIT_STAGE + check)
    assert [(d.code, d.place is not None) for d in caught.value.diagnostics] == [("E206", True)]


def test_a_need_for_a_group_is_one_for_its_enabled_stage() -> None:
    one = replaced(LIMIT_STAGE, "    edits", "    one_of: either\n    edits")
    other = replaced(replaced(one, "id: limit", "id: other"), "    edits", "    enabled: false\n    edits")
    plan = planned(other + one + replaced(SECOND, "needs: [limit]", "needs: [either]"))
    assert [stage.id for stage in plan.stages] == ["other", "limit", "second"]
    assert plan.stages[2].stage.needs == ["limit"]


# --- digests: an id names everything that leads to it ---


def digests(stages: str, **settings: str) -> list[str]:
    return [stage.digest for stage in planned(stages, choice=Choice(settings=settings)).stages]


def test_a_stage_s_digest_changes_with_what_it_says_and_with_what_it_needs() -> None:
    first = digests(LIMIT_STAGE + SECOND)
    assert digests(LIMIT_STAGE + SECOND) == first
    changed = digests(LIMIT_STAGE + replaced(SECOND, "Raise the limit.", "Lower it."))
    assert (changed[0] == first[0], changed[1] == first[1]) == (True, False)
    changed = digests(replaced(LIMIT_STAGE, "Raise the limit.", "Lower it.") + SECOND)
    assert (changed[0] == first[0], changed[1] == first[1]) == (False, False)


def test_a_stage_s_digest_changes_with_the_parameters_that_it_uses_and_with_no_other() -> None:
    first = digests(LIMIT_STAGE)
    assert digests(LIMIT_STAGE, word="another") == first
    assert digests(LIMIT_STAGE, limit="9") != first


def test_the_order_in_which_stages_are_written_does_not_change_what_they_are() -> None:
    assert sorted(digests(LIMIT_STAGE + SECOND)) == sorted(digests(SECOND + LIMIT_STAGE))


def test_a_plan_names_every_source_with_its_digest() -> None:
    deploy = replaced(LIMIT_STAGE, "    edits", "    deploy:\n      - {source: k.py, to: pkg/k.py}\n    edits")
    plan = planned(deploy + VALUE.replace("EQUALS", "1").replace("SUMMARY", "s"))
    assert sorted(plan.sources) == ["k.py", "t.j2"]
