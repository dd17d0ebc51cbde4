"""The table's model of shared memory is held against the compilers, over the space that is searched.

`tests/kernels/test_triton_compile.py` does so for every row of the table.
"""

from __future__ import annotations

import os
import sys

import pytest

from orchestrator.tune import judge
from orchestrator.tune.compilers import OLD_TRITON, Compilers, disagreement, interpreters
from orchestrator.tune.space import Row, space_of
from orchestrator.tune.study import shuffled
from tests.device.targets import figures
from tests.workspaces import ROOT

pytestmark = pytest.mark.triton

SAMPLE = 5
SEED = 7


@pytest.fixture(scope="module")
def pythons() -> dict[int, tuple[str, str]]:
    pytest.importorskip("triton")
    old = os.environ.get("TRITON_2_PYTHON") or str(ROOT / OLD_TRITON)
    found = interpreters([sys.executable, old], dict(os.environ))
    if set(found) != {2, 3}:
        pytest.skip(f"both Tritons are needed, there are: {found}")
    return found


@pytest.mark.parametrize("device", ["bi100", "h200"])
@pytest.mark.parametrize("operation", ["paged_decode_v2", "prefix_prefill"])
def test_where_the_model_says_that_a_row_fits_the_compilers_say_so_too(
    operation: str, device: str, pythons: dict[int, tuple[str, str]]
) -> None:
    question = {"operation": operation, "device": device, "dtype": "float16", "head_size": 64, "group": 4}
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    space = space_of(ROOT, question, environment)
    passing, _ = judge.counted(space, figures(device))
    compilers = Compilers(ROOT, space, 4, 64, 120, environment, pythons)
    assert compilers.used == list(space.compilers)
    lived = 0
    for place in shuffled(SEED, len(passing))[:SAMPLE]:
        row = space.rows[passing[place]]
        assert isinstance(row, Row)
        made = compilers.of(row)
        assert disagreement(row, made) is None
        assert made.death or made.shared <= space.limit
        lived += not made.death
    assert lived > SAMPLE / 2, "what does not compile agrees with every model"


def test_addresses_of_pages_are_in_the_model_of_four_warps_products(pythons: dict[int, tuple[str, str]]) -> None:
    """A tile of as many keys as four warps have threads was 1,024 B above the model once."""
    question = {"operation": "prefix_prefill", "device": "h200", "dtype": "float16", "head_size": 128, "group": 4}
    space = space_of(ROOT, question, dict(os.environ))
    choice = {"block_m": 64, "block_n": 128, "num_warps": 4, "num_stages": 3, "key_parts": 1}
    row = space.rows[space.at({**choice})]
    assert isinstance(row, Row)
    made = Compilers(ROOT, space, 4, 128, 120, {**os.environ, "TRITON_INTERPRET": "0"}, pythons).of(row)
    assert made.shared == row.shared
