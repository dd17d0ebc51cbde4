"""Runs that a report is made of: an ordinary one, one of many stages, one whose every text means harm."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from orchestrator.emit.audit import Circumstances
from orchestrator.emit.build import build_files
from orchestrator.emit.report.gathering import Surroundings, report_of
from orchestrator.emit.report.memory import memory_of
from orchestrator.engine.run import run
from tests.workspaces import HEAD, LIMIT_STAGE, TARGET, Workspace, replaced

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.emit.report.content import Report
    from orchestrator.engine.lock import Lock

GB = 10**9
SCRIPT = "<script>document.title = 'taken'</script>"
LONG = "unbroken" * 60
HARM = (
    f"{SCRIPT}<img src=x onerror=\"document.title='taken'\">'\"&lt; {{{{ 7 * 7 }}}} [a](javascript:alert(1)) | `x` "
    f"@someone #1 $$ ``` \u202e --> ]]> {LONG}"
)
"""What no text may do: run, load, break a table, mention somebody, reorder a line, widen the page."""


ENGINE = """\
engine: {default_batched_tokens_chunked: 512, default_batched_tokens_floor: 2048, multimodal_batched_tokens: 5120,
         default_max_num_seqs: 256, chunked_prefill_above: 32768}
"""


def memory_record(*, known: bool = True) -> dict[str, Any]:
    """Return the record of a rank's memory for three settings, of which one cannot start."""
    return {
        "event": "memory",
        "artefact": "run.yaml",
        "context_tokens": 100_000,
        "ranks": 4,
        "accounting": "every layer",
        "graphs": {"eager": True, "by": "pkg/a.py:1:1"},
        "fit": {
            "constant_bytes": 19 * GB,
            "bytes_per_token": 79_000,
            "runs": [{"batched_tokens": 8192, "peak_bytes": 20 * GB, "residual_bytes": -165_000_000}],
        },
        "rows": [memory_row(tokens, known=known) for tokens in (8_192, 16_384, 65_536)],
    }


def memory_row(tokens: int, *, known: bool) -> dict[str, Any]:
    """Return one setting of a memory record."""
    cache = {
        "layers": {"value": 40},
        "tokens": {"value": 270_048},
        "tokens_spread": {"value": 7_728},
        "sequences": {"value": 2},
    }
    return {
        "chosen": tokens == 16_384,
        "utilisation": 0.9,
        "batched_tokens": tokens,
        "refused": ["rule 7: `batched` is more than a rank may take"] if tokens > 40_000 else [],
        "memory": {"value": 34 * GB},
        "given": {"value": 30 * GB},
        "weights": {"value": 17 * GB, "values": [16 * GB, 17 * GB]},
        "activation": {"value": tokens * GB // 4096} if known else {"unknown": ["model.activation"]},
        "kv_cache": {"value": 9 * GB},
        "graphs": {"value": 0},
        "reserve": {"value": 4 * GB},
        "caches": [
            {**cache, "accounting": "every layer", "basis": "fitted"},
            {**cache, "accounting": "attention layers", "basis": "measured"},
        ],
    }


def built(
    workspace: Workspace, around: Surroundings | None = None, circumstances: Circumstances | None = None
) -> dict[str, bytes]:
    """Return what `render` would write."""
    made = run(workspace.plan(), workspace.tree())
    assert not made.failed, made.diagnostics
    return build_files(made, circumstances or Circumstances("now", "here", "me"), around)


def report(workspace: Workspace, around: Surroundings | None = None, lock: Lock | None = None) -> Report:
    """Return the report of a workspace's run, its patches among the files."""
    made = run(workspace.plan(), workspace.tree(), lock)
    files = build_files(made, Circumstances("now", "here", "me"), around)
    kept = {name: content for name, content in files.items() if name.startswith("patches/")}
    return report_of(made, kept, "0" * 64, around)


def many_stages(folder: Path, count: int = 200) -> Workspace:
    """Return a workspace of that many stages: chains, fans and loners; with and without claim; some switched off."""
    stages, files = [], {}
    for i in range(count):
        files[f"m{i:03d}.py"] = "".join(f"SETTING_{n} = {n}\n" for n in range(60)) + "print(SETTING_5, SETTING_30)\n"
        needs = [f"stage-{j:03d}-of-many" for j in sorted({i // 2, i - 7, i - 1 if i % 10 else -1}) if 0 <= j < i]
        stages.append(
            f"""\
  - id: stage-{i:03d}-of-many
    kind: codemod
    summary: Give the thirtieth setting of module {i} another value, and say so in one sentence.
    needs: {json.dumps([] if i % 13 == 0 else needs[:2])}
    enabled: {json.dumps(i % 37 != 36)}
    edits:
      - {{op: assign, file: pkg/m{i:03d}.py, name: SETTING_30, value: "{i + 100}", because: the old one is too small}}
      - {{op: assign, file: pkg/m{i:03d}.py, name: SETTING_5, value: "{i + 200}"}}
    post:
      - {{check: assignment_equals, file: pkg/m{i:03d}.py, name: SETTING_30, value: "{i + 100}", because: it is used}}
      - {{check: assignment_equals, file: pkg/m{i:03d}.py, name: SETTING_5, value: "{i + 200}"}}
      - {{check: assignment_equals, file: pkg/m{i:03d}.py, name: SETTING_6, value: "6"}}
    claim: Requests of kind {i} take a tenth of the time that they took.
{"    evidence: Measured on the device by its owner." if i % 3 == 0 else ""}
"""
        )
    workspace = Workspace.at(folder, "".join(stages))
    workspace.base({"__init__.py": "", **files})
    return workspace


def harmful(folder: Path) -> Workspace:
    """Return a workspace whose every free text is `HARM`: summaries, reasons, claims, code, names of files, figures."""
    text = json.dumps(HARM)
    stage = replaced(
        LIMIT_STAGE, "summary: Raise the limit.", f"summary: {text}\n    claim: {text}\n    evidence: {text}"
    )
    stage = replaced(stage, 'value: "${params.limit}"}', f'value: "${{params.limit}}", because: {text}}}')
    stage = replaced(stage, 'value: "${params.limit}"}', f'value: "${{params.limit}}", because: {text}}}')
    stage = replaced(
        stage,
        "    post:",
        f"""\
    deploy:
      - {{source: "harm/<b>.txt", to: "pkg/<script>alert(1)<.txt", replaces: {text}}}
    waive:
      - {{rule: E601, because: {text}, about: {text}}}
    provides: {{flags: {{"--flag": {text}}}, environment: {{HARM: {text}}}}}
    post:""",
    )
    skipped = f"""\
  - id: skipped
    kind: codemod
    summary: {text}
    when:
      - {{check: file_exists, file: {json.dumps(f"pkg/{SCRIPT}".replace("/script", "script"))}, because: {text}}}
    edits:
      - {{op: assign, file: pkg/a.py, name: LIMIT, value: "5"}}
    claim: {text}
  - id: configure
    kind: template
    summary: {text}
    render: [{{template: templates/run.yaml.j2, to: run.yaml, schema: run-config}}]
"""
    head = replaced(HEAD, "word: text", f"word: {text}")
    workspace = Workspace.at(folder, stage + skipped, head)
    workspace.write("harm/<b>.txt", f"{HARM}\n")
    workspace.write(
        "templates/run.yaml.j2",
        """\
concurrency: 1
command: [python3, -m, pkg{% for flag, text in provided.flags.items() %}, {{ flag }}, {{ text | tojson }}{% endfor %}]
env: [{% for name, text in provided.environment.items() %}{name: {{ name }}, value: {{ text | tojson }}}{% endfor %}]
""",
    )
    target = replaced(TARGET, "name: box", f"name: box\nsummary: {text}")
    target = replaced(target, "source: nobody has looked", f"source: {text}, note: {text}")
    workspace.write("target.yaml", target + ENGINE)
    return workspace


SURROUNDINGS = Surroundings("a base", {"package==1.0": "1" * 64}, b"lock")
"""What a report shows besides the run."""


def with_memory(made: Report, *, known: bool = True) -> Report:
    """Return a report with a table of a rank's memory."""
    return dataclasses.replace(made, memory=tuple(memory_of([memory_record(known=known)])))
