"""What holds for all tests: in CI nothing may be skipped for want of a tool, and no example has a time limit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Generator

# How long an example takes is the machine's business, and what else it does.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

LANGUAGE = ("this Python ", "tables of Python ")
"""How the reasons begin of tests that speak of another Python than the one that runs them: these may be skipped."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure where CI=true says that nothing may be missing."""
    report = yield
    if os.environ.get("CI") == "true" and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(LANGUAGE) and not hasattr(report, "wasxfail"):
            report.outcome = "failed"
            report.longrepr = f"skipped, which is a failure in CI: {reason}"
    return report
