"""The pytest plugin: a test that asks for `golden_case` gets every golden stage of a workspace.

It does nothing unless a test asks. The workspace is that of `orchestrator_workspace` in pytest's configuration (the
folder of the configuration itself if not given), the golden folders are those of `orchestrator_golden` below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

FIXTURE = "golden_case"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two settings."""
    parser.addini("orchestrator_workspace", "the workspace whose golden stages are run", default=".")
    parser.addini("orchestrator_golden", "where its golden folders are, relative to it", default="tests/golden")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that asks for `golden_case` a case for each stage and shape."""
    if FIXTURE not in metafunc.fixturenames:
        return
    import pytest  # noqa: PLC0415 - it runs us

    from orchestrator.testing.cases import GoldenMismatch, golden_cases  # noqa: PLC0415 - only for those who ask

    workspace = metafunc.config.rootpath / metafunc.config.getini("orchestrator_workspace")
    try:
        cases = golden_cases(workspace, metafunc.config.getini("orchestrator_golden"))
    except GoldenMismatch as error:
        raise pytest.UsageError(str(error)) from None
    metafunc.parametrize(FIXTURE, cases, ids=map(str, cases))
