"""The generated documents are what the models, tables and commands say today; README shows what a run says today."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.core.diagnostics import ExitCode
from orchestrator.origin.sdist import cache_folder

if TYPE_CHECKING:
    from orchestrator.emit.reference import CommandHelp

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATE: dict[str, Any] = runpy.run_path(str(DOCS / "generate.py"))
GENERATED: dict[str, str] = GENERATE["generated"]()


@pytest.mark.parametrize("file", GENERATED)
def test_a_generated_document_is_up_to_date(file: str) -> None:
    assert (DOCS / file).read_text(encoding="utf-8") == GENERATED[file], "run `make docs`"


def test_the_readme_shows_what_a_run_says() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "│ applied" in readme
    assert readme == GENERATE["with_output"](readme), "run `make docs`"


@pytest.mark.parametrize("command", GENERATE["command_help"](), ids=lambda command: command.name)
def test_a_command_says_what_it_does_with_an_example_and_what_each_option_is(command: CommandHelp) -> None:
    assert re.search(rf"^Example: orchestrator {command.name}\b", command.text, re.MULTILINE)
    assert all(what for _, what in command.options)
    assert "--json" in [option for option, _ in command.options]
    assert f"### orchestrator {command.name}\n" in GENERATED["reference.md"]


def test_every_exit_code_is_in_the_reference() -> None:
    assert all(f"| {int(code)} | {code.meaning} |" in GENERATED["reference.md"] for code in ExitCode)


def test_the_documents_name_the_variable_that_moves_the_cache(tmp_path: Path) -> None:
    assert cache_folder({"ORCHESTRATOR_CACHE": str(tmp_path)}) == tmp_path
    assert "ORCHESTRATOR_CACHE" in GENERATED["errors.md"]
