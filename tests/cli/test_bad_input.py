"""What is wrong with a pipeline is said with its code, its place and what to do; each case with the exact words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.workspaces import HEAD, LIMIT_STAGE, Workspace, faults, replaced

if TYPE_CHECKING:
    from pathlib import Path

VALUE = 'value: "${params.limit}"'
EDIT = f"op: assign, file: pkg/a.py, name: LIMIT, {VALUE}"


def stage(old: str, new: str) -> tuple[str, str]:
    """Return head and stages with a change in the stage."""
    return HEAD, replaced(LIMIT_STAGE, old, new)


def head(old: str, new: str) -> tuple[str, str]:
    """Return head and stages with a change in the head."""
    return replaced(HEAD, old, new), LIMIT_STAGE


def edit(new: str) -> tuple[str, str]:
    """Return head and stages with another edit (line 10)."""
    return stage(EDIT, new)


SECOND = replaced(LIMIT_STAGE, "id: limit", "id: second")

CASES = {
    "unknown key of the document": (
        head("params:", "parms:"),
        ["E110 pipeline.yaml:4:1 unknown key 'parms' | did you mean 'params'?"],
    ),
    "unknown key of a stage": (
        stage("    kind", "    claims: Fast.\n    kind"),
        ["E110 pipeline.yaml:7:5 unknown key 'claims' | did you mean 'claim'?"],
    ),
    "unknown key of an edit": (
        stage(f"LIMIT, {VALUE}", f"LIMIT, fro: '4', {VALUE}"),
        ["E110 pipeline.yaml:10:51 unknown key 'fro' | did you mean 'from'?"],
    ),
    "unknown key of a check": (
        stage("{check: assignment_equals, file", "{check: assignment_equals, becuase: x, file"),
        ["E110 pipeline.yaml:12:36 unknown key 'becuase' | did you mean 'because'?"],
    ),
    "missing key": (
        stage("    summary: Raise the limit.\n", ""),
        ["E111 pipeline.yaml:6:5 key 'summary' is missing | Add `summary:`."],
    ),
    "unknown edit": (
        edit("op: asign, file: pkg/a.py"),
        ["E112 pipeline.yaml:10:14 unknown op 'asign' | did you mean 'assign'?"],
    ),
    "edit without a kind": (edit("file: pkg/a.py"), ["E111 pipeline.yaml:10:9 key 'op' is missing | Say which `op:`."]),
    "unknown check": (
        stage("check: assignment_equals", "check: assignment_equal"),
        ["E112 pipeline.yaml:12:17 unknown check 'assignment_equal' | did you mean 'assignment_equals'?"],
    ),
    "unknown stage": (
        (HEAD, LIMIT_STAGE + replaced(SECOND, "    edits", "    needs: [limt]\n    edits")),
        ["E211 pipeline.yaml:16:12 stage 'second' needs 'limt', which does not exist | did you mean 'limit'?"],
    ),
    "unknown stage, and no other": (
        stage("    edits", "    needs: [limt]\n    edits"),
        ["E211 pipeline.yaml:9:12 stage 'limit' needs 'limt', which does not exist | There is no other stage."],
    ),
    "unknown stage behind until": (
        (
            HEAD,
            replaced(LIMIT_STAGE, "{check: assignment_equals,", "{check: assignment_equals, until: secnd,") + SECOND,
        ),
        ["E211 pipeline.yaml:12:43 `until: secnd` names no stage | did you mean 'second'?"],
    ),
    "self-dependency": (
        stage("    edits", "    needs: [limit]\n    edits"),
        ["E212 pipeline.yaml:9:12 stage 'limit' needs itself | Remove this need."],
    ),
    "cycle": (
        (
            HEAD,
            "".join(
                replaced(
                    replaced(LIMIT_STAGE, "id: limit", f"id: {name}"), "    edits", f"    needs: [{need}]\n    edits"
                )
                for name, need in (("one", "three"), ("two", "one"), ("three", "two"))
            ),
        ),
        [
            (
                "E213 pipeline.yaml:9:12 the stages need each other in a circle: one → two → three → one | "
                "Remove one of these needs."
            )
        ],
    ),
    "stage given twice": (
        (HEAD, LIMIT_STAGE + LIMIT_STAGE),
        ["E210 pipeline.yaml:13:9 stage 'limit' exists already in line 6 | Give it another id."],
    ),
    "unknown transform": (
        edit("op: transform, file: pkg/a.py, use: rais"),
        ["E221 pipeline.yaml:10:46 'stages/rais.py' does not exist in the workspace | did you mean 'stages/raise.py'?"],
    ),
    "unknown parameter": (
        (HEAD, LIMIT_STAGE.replace("params.limit", "params.limt")),
        [
            "E204 pipeline.yaml:10:58 `${params.limt}` is not known | did you mean 'params.limit'?",
            "E204 pipeline.yaml:12:72 `${params.limt}` is not known | did you mean 'params.limit'?",
        ],
    ),
    "unknown parameter outside of code": (
        stage("    edits", '    enabled: "${params.limt}"\n    edits'),
        ["E204 pipeline.yaml:9:14 `${params.limt}` is not known | did you mean 'params.limit'?"],
    ),
    "unknown model field": (
        stage(VALUE, 'value: "${model.head_dims}"'),
        ["E204 pipeline.yaml:10:58 `${model.head_dims}` is not known | did you mean 'model.head_dim'?"],
    ),
    "figure that the target calls unknown": (
        stage(VALUE, 'value: "${device.cores}"'),
        [
            (
                "E204 pipeline.yaml:10:58 `${device.cores}` is unknown: the target says so, and nothing is computed "
                "from it | "
                "Measure it and enter it in the target, or do without it."
            )
        ],
    ),
    "unknown hole": (
        edit('op: replace, file: pkg/a.py, match: "x + ${more}", with: "${mor}"'),
        ["E207 pipeline.yaml:10:67 hole `${mor}` is not bound by the pattern | did you mean 'more'?"],
    ),
    "hole outside of code": (
        stage("summary: Raise the limit.", 'summary: "${limit}"'),
        [
            (
                "E205 pipeline.yaml:8:14 hole `${limit}` outside of code | "
                "Holes stand in code only; a parameter is written `${params.NAME}`."
            )
        ],
    ),
    "reference without quotes": (
        stage(VALUE, "value: ${params.limit}"),
        [
            (
                "E103 pipeline.yaml:10:59 not YAML: while parsing a flow mapping, expected ',' or '}', but got '{' | "
                'Inside `{…}` and `[…]`, a value with a reference is written in quotes: "${params.x}".'
            )
        ],
    ),
    "duplicate key": (
        stage("    kind", "    id: other\n    kind"),
        ["E108 pipeline.yaml:7:5 key 'id' is given twice; first in line 6 | Keep one of the two."],
    ),
    "tab": (
        stage("    kind", "\tkind"),
        ["E105 pipeline.yaml:7:1 a tab indents this line | YAML indents with blanks."],
    ),
    "empty when": (
        stage("    edits", "    when:\n    edits"),
        ["E114 pipeline.yaml:9:5 'when' has no value | Give it one, or remove the key."],
    ),
    "when without a check": (
        stage("    edits", "    when: []\n    edits"),
        ["E114 pipeline.yaml:9:11 'when' is empty | Found an empty list."],
    ),
    "empty from": (
        stage("name: LIMIT, value", "name: LIMIT, from: , value"),
        ["E114 pipeline.yaml:10:51 'from' has no value | Give it one, or remove the key."],
    ),
    "empty stages": (
        (HEAD, ""),
        ["E114 pipeline.yaml:5:1 'stages' takes a list | The key has no value: give it one, or remove the key."],
    ),
    "no stage": (
        (replaced(HEAD, "stages:", "stages: []"), ""),
        ["E114 pipeline.yaml:5:9 'stages' is empty | Found an empty list."],
    ),
    "stages missing": (
        (replaced(HEAD, "stages:\n", ""), ""),
        ["E111 pipeline.yaml:1:1 key 'stages' is missing | Add `stages:`."],
    ),
    "parameter without a value": (
        head("limit: 8", "limit: ~"),
        [
            (
                "E114 pipeline.yaml:4:17 'limit' takes true or false, a number, text or a list | "
                "The key has no value: give it one, or remove the key."
            )
        ],
    ),
    "number where text belongs": (
        edit("op: assign, file: pkg/a.py, name: LIMIT, value: 8"),
        ["E113 pipeline.yaml:10:58 'value' takes text, but YAML reads `8` as a number | Write it in quotes: \"8\"."],
    ),
    "truth value where text belongs": (
        edit("op: assign, file: pkg/a.py, name: LIMIT, value: true"),
        [
            (
                "E113 pipeline.yaml:10:58 'value' takes text, but YAML reads `true` as true or false | "
                'Write it in quotes: "true".'
            )
        ],
    ),
    "text where a number belongs": (
        edit("op: delete, file: pkg/a.py, match: LIMIT = 4, count: two"),
        ["E114 pipeline.yaml:10:63 'count' takes a whole number | Found the text 'two'."],
    ),
    "another version": (head("version: 1", "version: 2"), ["E114 pipeline.yaml:1:10 'version' must be 1 | Found 2."]),
    "not a mapping": (
        ("", "- a\n"),
        [
            (
                "E103 pipeline.yaml:1:1 the document is not a mapping | "
                "Start with `version: 1`; `orchestrator init` writes a starter."
            )
        ],
    ),
    "evidence of nothing": (
        stage("    edits", "    evidence: measured\n    edits"),
        ["E114 pipeline.yaml:6:5 an entry of 'stages' does not fit: evidence without a claim | Found a mapping."],
    ),
    "pattern that is not Python": (
        edit('op: delete, file: pkg/a.py, match: "if x"'),
        [
            (
                "E206 pipeline.yaml:10:45 not valid Python: expected ':' (line 1, column 5 of the code) | Write whole "
                "statements or one expression; a hole stands where a name, expression or statement may stand."
            )
        ],
    ),
    "pattern of a check that is not Python": (
        stage(
            '{check: assignment_equals, file: pkg/a.py, name: LIMIT, value: "${params.limit}"}',
            '{check: match_count, file: pkg/a.py, pattern: "if x", equals: 1}',
        ),
        [
            (
                "E206 pipeline.yaml:12:55 not valid Python: expected ':' (line 1, column 5 of the code) | Write whole "
                "statements or one expression; a hole stands where a name, expression or statement may stand."
            )
        ],
    ),
    "empty pattern": (
        edit('op: delete, file: pkg/a.py, match: "# LIMIT = 4"'),
        ["E206 pipeline.yaml:10:45 the code is empty | Write the code that the edit looks for."],
    ),
    "value that is a statement": (
        edit("op: assign, file: pkg/a.py, name: LIMIT, value: x = 1"),
        ["E206 pipeline.yaml:10:58 a value is one expression | Write what stands behind the `=`."],
    ),
    "import that is none": (
        edit("op: import, file: pkg/a.py, code: x = 1"),
        [
            (
                "E206 pipeline.yaml:10:44 not an import statement | "
                "Write `import x` or `from x import y`; other code goes into `op: insert`."
            )
        ],
    ),
    "pattern that matches its own result": (
        edit('op: replace, file: pkg/a.py, match: "y = ${x}", with: "y = ${x} * 2"'),
        [
            (
                "E406 pipeline.yaml:10:46 the pattern matches its own result: y = ${x} * 2 | "
                "Make the pattern narrower than the replacement, so that it cannot match what it wrote."
            )
        ],
    ),
    "two places for an insertion": (
        edit('op: insert, file: pkg/a.py, at: end, before: "LIMIT = 4", code: "x = 1"'),
        [
            (
                "E114 pipeline.yaml:10:9 an entry of 'edits' does not fit: give exactly one of `before`, `after` and "
                "`at` | "
                "Found a mapping."
            )
        ],
    ),
    "unknown parameter of a variant": (
        head("stages:", "variants: {big: {limti: 16}}\nstages:"),
        ["E201 pipeline.yaml:5:18 variant 'big' sets 'limti', which is not a parameter | did you mean 'limit'?"],
    ),
    "variant with a value of another type": (
        head("stages:", "variants: {big: {limit: many}}\nstages:"),
        [
            (
                "E203 pipeline.yaml:5:25 variant 'big' sets limit to 'many': the parameter takes a whole number | "
                "Give a value like the one in `params:`, 8."
            )
        ],
    ),
    "target that does not exist": (
        head("target.yaml", "targt.yaml"),
        ["E120 pipeline.yaml:3:9 'targt.yaml' does not exist in the workspace | did you mean 'target.yaml'?"],
    ),
    "target outside of the workspace": (
        head("target.yaml", "../target.yaml"),
        [
            (
                "E122 pipeline.yaml:3:9 '../target.yaml' leaves the workspace | "
                "Name a file relative to `pipeline.yaml`, without `..`."
            )
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_fault_of_the_pipeline_is_named_with_its_place_and_what_to_do(tmp_path: Path, case: str) -> None:
    (head_text, stages), expected = CASES[case]
    workspace = Workspace.at(tmp_path, stages, head_text)
    workspace.write("stages/raise.py", "")
    ended = workspace.run("validate", "--json")
    assert faults(ended) == expected
    assert ended.code == 3


@pytest.mark.parametrize(
    ("written", "read", "advice"),
    [
        ("0.10", "0.1", "Write 0.1, or put it in quotes if text is meant: '0.10'."),
        ("1e3", "1000.0", "Write 1000.0, or put it in quotes if text is meant: '1e3'."),
        ("1.", "1.0", "Write 1.0, or put it in quotes if text is meant: '1.'."),
        ("012", "12", "Write 12, or put it in quotes if text is meant: '012'."),
        ("0o14", "12", "Write 12, or put it in quotes if text is meant: '0o14'."),
        ("0x1F", "31", "Write 31, or put it in quotes if text is meant: '0x1F'."),
        ("1_000", "1000", "Write 1000, or put it in quotes if text is meant: '1_000'."),
        ("+8", "8", "Write 8, or put it in quotes if text is meant: '+8'."),
        (".inf", "a number that is not finite", "Put it in quotes if text is meant: '.inf'."),
        ("1e999", "a number that is not finite", "Put it in quotes if text is meant: '1e999'."),
        (".nan", "a number that is not finite", "Put it in quotes if text is meant: '.nan'."),
        ("2026-01-01", "a date", "Put it in quotes if text is meant: '2026-01-01'."),
        ("2026-01-01 10:00:00", "a date", "Put it in quotes if text is meant: '2026-01-01 10:00:00'."),
        ("9" * 5000, "a number that is too long", f"Put it in quotes if text is meant: '{'9' * 40}…'."),
        ("0x" + "f" * 5000, "a number that is too long", f"Put it in quotes if text is meant: '0x{'f' * 38}…'."),
    ],
)
def test_a_value_that_yaml_reads_as_something_else_is_refused(
    tmp_path: Path, written: str, read: str, advice: str
) -> None:
    shown = written if len(written) <= 40 else f"{written[:40]}…"
    workspace = Workspace.at(tmp_path, head=replaced(HEAD, "limit: 8", f"limit: {written}"))
    ended = workspace.run("validate", "--json")
    assert faults(ended) == [f"E109 pipeline.yaml:4:17 `{shown}` is read by YAML as {read} | {advice}"]
    assert ended.code == 3


@pytest.mark.parametrize("written", ["no", "yes", "on", "off", "y", "1:30", "1.2.3", "=", "<<"])
def test_text_that_older_yaml_reads_as_something_else_stays_text(tmp_path: Path, written: str) -> None:
    workspace = Workspace.at(tmp_path, head=replaced(HEAD, "word: text", f"word: {written}"))
    assert workspace.plan().values["params.word"] == written


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "E102 pipeline.yaml the file is empty | `orchestrator init` writes a starter."),
        (b"  \n\n", "E102 pipeline.yaml the file is empty | `orchestrator init` writes a starter."),
        (b"# nothing\n", "E102 pipeline.yaml the file holds no YAML document | `orchestrator init` writes a starter."),
        (b"version: 1\nname: caf\xe9\n", "E104 pipeline.yaml:2:10 byte 0xe9 is not UTF-8 | Save the file as UTF-8."),
        (
            "version: 1\n".encode("utf-16"),
            "E104 pipeline.yaml:1:1 byte 0xff is not UTF-8 | Save the file as UTF-8.",
        ),
        (
            b"#" * (2**20 + 1),
            (
                "E101 pipeline.yaml the file has 1,048,577 bytes; at most 1,048,576 are read | "
                "Split it, or remove generated parts."
            ),
        ),
        (
            b"#" * (4 * 2**20 + 1),
            (
                "E123 pipeline.yaml 'pipeline.yaml' has 4,194,305 bytes; at most 4,194,304 are read | "
                "A patch is small; is this the right file?"
            ),
        ),
    ],
    ids=["empty", "blank", "comment", "latin-1", "utf-16", "too large", "far too large"],
)
def test_a_file_that_holds_no_pipeline_is_named(tmp_path: Path, content: bytes, expected: str) -> None:
    workspace = Workspace.at(tmp_path)
    workspace.write("pipeline.yaml", content)
    ended = workspace.run("validate", "--json")
    assert faults(ended) == [expected]
    assert ended.code == 3


def test_a_fault_is_shown_with_its_line_and_a_mark_below_it(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path, replaced(LIMIT_STAGE, "op: assign", "op: asign"))
    ended = workspace.run("validate")
    assert ended.out == ""
    assert ended.err == (
        "error[E112]: unknown op 'asign'\n"
        "  --> pipeline.yaml:10:14\n"
        '  10 |       - {op: asign, file: pkg/a.py, name: LIMIT, value: "${params.limit}"}\n'
        "     |              ^^^^^\n"
        "  help: did you mean 'assign'?\n"
    )


def test_all_faults_of_a_step_are_reported_together_in_the_order_of_their_places(tmp_path: Path) -> None:
    stages = replaced(LIMIT_STAGE, "op: assign", "op: asign") + replaced(SECOND, "kind: codemod", "kind: codmod")
    ended = Workspace.at(tmp_path, stages).run("validate", "--json")
    assert faults(ended) == [
        "E112 pipeline.yaml:10:14 unknown op 'asign' | did you mean 'assign'?",
        "E114 pipeline.yaml:14:11 'kind' must be 'codemod' or 'template' | Found the text 'codmod'.",
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "version: 1",
            "verson: 1",
            [
                "E111 target.yaml:1:1 key 'version' is missing | Add `version:`.",
                "E110 target.yaml:1:1 unknown key 'verson' | did you mean 'version'?",
            ],
        ),
        (
            "example.org/box:1, python",
            "example.org/box:1, pyton",
            [
                "E111 target.yaml:3:8 key 'python' is missing | Add `python:`.",
                "E110 target.yaml:3:39 unknown key 'pyton' | did you mean 'python'?",
            ],
        ),
        (
            'python: "3.11"',
            "python: 3.11",
            [
                (
                    "E113 target.yaml:3:47 'python' takes text, but YAML reads `3.11` as a number | "
                    'Write it in quotes: "3.11".'
                )
            ],
        ),
        (
            'python: "3.11"',
            "python: 3.10",
            [
                (
                    "E109 target.yaml:3:47 `3.10` is read by YAML as 3.1 | "
                    "Write 3.1, or put it in quotes if text is meant: '3.10'."
                )
            ],
        ),
        (
            "head_dim: 256",
            "head_dim: [1]",
            [
                (
                    "E114 target.yaml:9:19 'head_dim' takes true or false, a number, text or a mapping | "
                    "Found a list with 1 entries."
                )
            ],
        ),
    ],
)
def test_a_fault_of_the_target_is_named_in_the_target(tmp_path: Path, old: str, new: str, expected: list[str]) -> None:
    workspace = Workspace.at(tmp_path)
    workspace.write("target.yaml", replaced((workspace.folder / "target.yaml").read_text(), old, new))
    ended = workspace.run("validate", "--json")
    assert sorted(faults(ended)) == sorted(expected)
    assert ended.code == 3
