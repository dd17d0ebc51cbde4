"""Workspaces whose pipeline renders a run configuration for a server of the tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.workspaces import TARGET, Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

HEAD = """\
version: 1
name: swept
target: target.yaml
params: {max_num_seqs: 4, max_model_len: 1024, word: text}
stages:
"""
STAGE = """\
  - id: run-config-render
    kind: template
    summary: Start the server.
    render:
      - {template: templates/run.yaml.j2, to: run.yaml, schema: run-config}
"""
FIGURES = """\
engine:
  default_batched_tokens_chunked: {value: 2048, status: specified, source: the tests}
  default_batched_tokens_floor: {value: 2048, status: specified, source: the tests}
  default_max_num_seqs: {value: 128, status: specified, source: the tests}
  multimodal_batched_tokens: {value: 2048, status: specified, source: the tests}
  chunked_prefill_above: {value: 1, status: specified, source: the tests}
"""
SCORE = "score: {output: 10, input: 2, cached: 0.5, source: the tests}\n"
SEQS, LENGTH = "{{ params.max_num_seqs }}", "{{ params.max_model_len }}"


def swept_workspace(
    folder: Path, command: Sequence[str], environment: Mapping[str, str] | None = None, score: str = SCORE
) -> Workspace:
    """Make a workspace whose run configuration has this command; it may hold `SEQS` and `LENGTH`."""
    made = Workspace.at(folder, STAGE, HEAD)
    made.write("target.yaml", TARGET + FIGURES + score)
    variables = [{"name": name, "value": value} for name, value in (environment or {}).items()]
    lines = (f"concurrency: {SEQS}", f"command: {json.dumps(list(command))}", f"env: {json.dumps(variables)}", "")
    made.write("templates/run.yaml.j2", "\n".join(lines))
    return made
