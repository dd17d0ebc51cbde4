"""Write the generated documents, and the output in README.md: `python docs/generate.py`, or `make docs`.

The output is that of a run on the default target, so the source of vLLM is fetched unless it is cached.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from orchestrator.cli.app import app, run_app
from orchestrator.device.budget import Setting
from orchestrator.emit.budgets import budgets
from orchestrator.emit.capacities import Case
from orchestrator.emit.reference import CommandHelp, errors, reference
from orchestrator.emit.schema import pipeline_schema, target_schema
from orchestrator.engine.load import Choice, load
from orchestrator.spec.target import load_target

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).parent
ROOT = HERE.parent
OUTPUT = re.compile(r"(<!-- output -->\n```text\n).*?(```\n)", re.DOTALL)
COLUMNS = "120"


def generated() -> dict[str, str]:
    """Return the generated documents, by the name that they have in this folder."""
    return {
        "reference.md": reference(command_help()),
        "errors.md": errors(),
        "budgets.md": judged(),
        "pipeline.schema.json": _json(pipeline_schema()),
        "target.schema.json": _json(target_schema()),
    }


CONTEXTS = (2048, 32768, 100_000, 262_144)
"""Context lengths for which sequences are counted: the average that the seeds reckon with, and lengths in use."""
OWN = "bi100"


def judged() -> str:
    """Return the budgets of all targets, and of the parameters of this repository's pipeline under each variant."""
    paths = sorted((ROOT / "targets").glob("*.yaml"))
    targets = {path.stem: load_target(f"targets/{path.name}", path.read_bytes(), _read) for path in paths}
    targets.pop("corex-replica")  # the same device, model and engine
    pipeline = _read("pipeline.yaml")
    variants = [None, *load("pipeline.yaml", pipeline, _read).pipeline.variants]
    return budgets(targets, [_case(pipeline, variant) for variant in variants], OWN, CONTEXTS)


def _case(pipeline: bytes, variant: str | None) -> Case:
    values = load("pipeline.yaml", pipeline, _read, Choice(variant)).values
    setting = Setting(
        utilisation=values["params.gpu_memory_utilization"],
        batched_tokens=values["params.max_num_batched_tokens"],
        context_tokens=values["params.max_model_len"],
        sequences=values["params.max_num_seqs"],
        ranks=values["model.tensor_parallel"],
        eager=True,
    )
    return Case(variant or "default", setting)


def _read(path: str) -> bytes:
    return (ROOT / path).read_bytes()


def command_help() -> list[CommandHelp]:
    """Return what the command line knows of its commands, in its order."""
    group = typer.main.get_command(app)
    found = []
    for name, command in getattr(group, "commands", {}).items():
        options = tuple((_spelling(parameter), parameter.help or "") for parameter in command.params)
        found.append(CommandHelp(name, inspect.getdoc(command.callback) or "", options))
    return found


def _spelling(parameter: Any) -> str:  # noqa: ANN401 - a parameter of typer's own click
    if parameter.param_type_name == "argument":
        return f"[{parameter.metavar or parameter.name.upper()}]"
    value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper()}"
    return f"{', '.join(sorted(parameter.opts, key=len))}{value}"


def with_output(readme: str) -> str:
    """Return the text of README.md with what a run says now."""
    table = stages_table().replace("\\", r"\\")
    return OUTPUT.sub(rf"\g<1>{table}\g<2>", readme)


def stages_table() -> str:
    """Return the table that `plan` and `render` end with, for the pipeline of this repository."""
    said = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = COLUMNS
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            run_app(["plan", "-C", str(ROOT)])
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    lines = said.getvalue().splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith("stage ")), len(lines))
    end = next((number for number, line in enumerate(lines[first:], first) if not line.strip()), len(lines))
    return "".join(f"{line.rstrip()}\n" for line in lines[first:end])


def _json(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write them all."""
    for name, text in generated().items():
        (HERE / name).write_text(text, encoding="utf-8")
        print(f"docs/{name}")  # noqa: T201 - a program that prints
    readme = ROOT / "README.md"
    readme.write_text(with_output(readme.read_text(encoding="utf-8")), encoding="utf-8")
    print(readme.name)  # noqa: T201 - a program that prints


if __name__ == "__main__":
    main()
