"""Figures about device, model and engine stand in targets and documents only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.repository.figures import in_code, in_text, target_figures
from tests.repository.sources import files, name

if TYPE_CHECKING:
    from pathlib import Path

# Facts, documents, expected values; the replica, whose code is the vendor's, figures and all; and the model's published
# configuration, which is deployed as it is (tests/behaviour/test_qwen3_5_config.py holds it against the target). The
# table of kernel configurations runs where no target is (tests/kernels/test_muh_dispatch.py holds it against them). And
# what CCCL assumes that any device gives a block, which is no device's figure, though it is the same number.
ELSEWHERE = (
    *("targets/", "docs/", "tests/", "examples/", "modules/qwen3_5/", "kernels/muh_dispatch.py"),
    "templates/muh/common.cuh",
)
NO_TEXT = ("LICENSE",)
FIGURES = target_figures()


def looked_at(path: Path) -> str:
    """Return what is searched of a file: of a pipeline the stages, since its parameters are the user's decisions."""
    text = path.read_text(encoding="utf-8")
    if path.name != "pipeline.yaml":
        return text
    before, stages, after = text.partition("\nstages:\n")
    return "\n" * before.count("\n") + stages + after


def test_no_figure_stands_outside_targets_and_documents() -> None:
    found = []
    for path in files():
        if name(path).startswith(ELSEWHERE) or name(path) in NO_TEXT:
            continue
        text = looked_at(path)
        places = {*in_text(text, FIGURES), *(in_code(text, FIGURES) if path.suffix == ".py" else ())}
        found += [f"{name(path)}:{line}: {what}" for line, what in sorted(places)]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "limit: 49152",
        "# 49,152 bytes",
        "x = 49_152",
        "fits 48 KB",
        "32 KiB",
        "584 GB/s",
        "at 56 GB/s",
        "48 * 1024",
        "262144",
    ],
)
def test_a_figure_is_found_however_it_is_written(line: str) -> None:
    assert list(in_text(line, FIGURES))


@pytest.mark.parametrize("line", ["LIMIT = 48 * 1024", "x = 1 << 15", "y = 2**15", "z = 0xC000", "w = 3 * 2**14"])
def test_a_figure_is_found_in_a_constant_expression(line: str) -> None:
    assert list(in_code(line, FIGURES))


@pytest.mark.parametrize(
    "line", ["_CHUNK = 512", "1.49152", "v49152", "a149152", "49152.5", "65536", "2024-01-01", "32 MB"]
)
def test_other_numbers_are_left_alone(line: str) -> None:
    assert not list(in_text(line, FIGURES))


def test_the_figures_are_those_of_the_targets() -> None:
    assert {49152, 32768, 5120, 248320, 262144, 900 * 10**9, 584 * 10**9} <= FIGURES
