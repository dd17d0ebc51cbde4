"""Tests of a workspace's own stages, as this repository tests its own: golden folders, and a pytest fixture for them.

Nothing here imports pytest but the plugin, and that only while pytest runs.
"""

from orchestrator.testing.cases import GoldenCase, GoldenMismatch, golden_cases

__all__ = ["GoldenCase", "GoldenMismatch", "golden_cases"]
