"""The check that the tile which the code chooses fits the device: judged on code, never on a literal beside it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from orchestrator.checks.tile import TileFits
from orchestrator.checks.verdict import Status, Verdict

if TYPE_CHECKING:
    from tests.checks.conftest import Scene

FILE = "pkg/prefill.py"
GATED = "BLOCK = 128 if current_platform.has_device_capability(80) else 64"
TUNED = "BLOCK = 64 if k.shape[-1] <= 128 else 32"
CODE = """import torch

if triton.__version__ >= "2.1.0":

    def attend(q, k, v, alibi=None, **extra):
        {choice}
        NUM_WARPS = 4
        if q.dtype is torch.float32:
            BLOCK = BLOCK // 2
        if "fp8" in kind:
            raise ValueError(kind)
        grid = (1, k.shape[-1], triton.cdiv(9, BLOCK))
        if alibi is not None:
            _fwd_alibi[grid](q, k, BLOCK_M=BLOCK, BLOCK_N=BLOCK, num_warps=NUM_WARPS, num_stages=1)
            return
        _fwd[grid](q, k, BLOCK_M=BLOCK, BLOCK_N=BLOCK, num_warps=NUM_WARPS, {stages})
"""
HALF = {"k.shape[-1]": 256, "q.dtype is torch.float32": False}
SINGLE = {"k.shape[-1]": 256, "q.dtype is torch.float32": True}


def judge(scene: Scene, choice: str, stages: str = "num_stages=1", /, **fields: Any) -> Verdict:  # noqa: ANN401 - as YAML
    scene.files = {FILE: CODE.format(choice=choice, stages=stages)}
    return scene.judge("tile_fits", **{"file": FILE, "within": "attend", "name": "BLOCK", "given": HALF} | fields)


def test_the_tuned_tile_fits_the_limit_and_is_above_what_is_preferred(scene: Scene) -> None:
    found = judge(scene, TUNED)
    assert (found.status, found.evidence) == (
        Status.WARNS,
        (
            f"{FILE}:14:13 in `attend`: `BLOCK` is 32x32; with num_stages=1 at head size 256: "
            "32·256·2 + 32·32·2 + 1·32·256·2 = 34,816 B, within the limit of 49,152 B but above the preferred 32,768 B"
        ),
    )
    assert found.place is not None
    assert found.place.line == 14


def test_a_small_tile_holds(scene: Scene) -> None:
    found = judge(scene, "BLOCK = 16")
    assert (found.status, found.evidence) == (
        Status.HOLDS,
        (
            f"{FILE}:14:13 in `attend`: `BLOCK` is 16x16; with num_stages=1 at head size 256: "
            "16·256·2 + 16·16·2 + 1·16·256·2 = 16,896 B, within 32,768 B (limit 49,152 B)"
        ),
    )


def test_the_gate_is_folded_with_the_facts_and_its_tile_does_not_fit(scene: Scene) -> None:
    constants = {"current_platform.has_device_capability(80)": True}
    scene.facts = dataclasses.replace(scene.facts, constants=constants)
    found = judge(scene, GATED)
    assert (found.status, found.evidence) == (
        Status.FAILS,
        (
            f"{FILE}:14:13 in `attend`: `BLOCK` is 128x128; with num_stages=1 at head size 256: "
            "128·256·2 + 128·128·2 + 1·128·256·2 = 163,840 B, above the limit of 49,152 B; "
            "the largest square tile that fits is 32"
        ),
    )


def test_every_branch_that_nothing_decides_is_judged(scene: Scene) -> None:
    found = judge(scene, TUNED, given={"q.dtype is torch.float32": False})
    assert found.status is Status.FAILS
    assert "`BLOCK` is 64x64 where `k.shape[-1] <= 128`; " in found.evidence


def test_float32_halves_the_tile_and_doubles_its_elements(scene: Scene) -> None:
    found = judge(scene, TUNED, given=SINGLE, element_bytes=4)
    assert found.status is Status.WARNS
    assert "`BLOCK` is 16x16; " in found.evidence
    assert "= 33,792 B" in found.evidence


def test_the_launch_default_counts_where_a_launch_passes_no_stages(scene: Scene) -> None:
    found = judge(scene, TUNED, "")
    assert found.status is Status.FAILS
    assert found.evidence.startswith(f"{FILE}:16:9 in `attend`: `BLOCK` is 32x32; with num_stages=3 at head size 256: ")
    assert "4·32·256·2 = 83,968 B" in found.evidence


def test_the_worst_of_several_launches_decides(scene: Scene) -> None:
    found = judge(scene, "BLOCK = 16", "num_stages=2")
    assert found.status is Status.HOLDS
    assert found.evidence.startswith(f"{FILE}:16:9")
    assert "with num_stages=2" in found.evidence


@pytest.mark.parametrize(
    "choice",
    [
        "BLOCK, STAGES = (16, 3) if wide else (32, 1)",
        "BLOCK = 16 if wide else 32\n        STAGES = 3 if wide else 1",
        "if wide:\n            BLOCK, STAGES = 16, 3\n        else:\n            BLOCK, STAGES = 32, 1",
    ],
)
def test_stages_are_folded_together_with_the_tile(scene: Scene, choice: str) -> None:
    found = judge(scene, choice, "num_stages=STAGES")
    assert found.status is Status.WARNS
    assert "= 41,472 B" in found.evidence  # 16x16 with three stages; 32x32 with three, 83,968 B, never happens


@pytest.mark.parametrize(
    ("choice", "stages", "said"),
    [
        ("BLOCK = tune(q)", "num_stages=1", "`BLOCK` cannot be folded: `tune(q)` is not known"),
        ("BLOCK = 32", "num_stages=best", "`num_stages` cannot be folded: `best` is not known"),
        ("BLOCK = 32", "**extra", "`num_stages` cannot be folded: the parameter `extra` is not known"),
        ("BLOCK = 'wide'", "num_stages=1", "`BLOCK` is 'wide', which is no size"),
        ("BLOCK = 0", "num_stages=1", "`BLOCK` is 0, which is no size"),
        ("BLOCK = 32.0", "num_stages=1", "`BLOCK` is 32.0, which is no size"),
        ("BLOCK = 32", "num_stages=True", "`num_stages` is True, which is no size"),
    ],
)
def test_a_tile_that_cannot_be_known_fails_and_says_which_expression(
    scene: Scene, choice: str, stages: str, said: str
) -> None:
    found = judge(scene, choice, stages)
    assert found.status is Status.FAILS
    assert found.evidence.startswith(f"{FILE}:")
    assert said in found.evidence


def test_rows_and_keys_may_have_names_of_their_own(scene: Scene) -> None:
    found = judge(scene, "BLOCK = 32\n        ROWS = 64", block_m="ROWS", limit=60_000)
    assert found.status is Status.WARNS
    assert "`BLOCK` is 64x32; " in found.evidence
    assert "64·256·2 + 64·32·2 + 1·32·256·2 = 53,248 B" in found.evidence


def test_figures_given_in_the_check_win_over_the_target(scene: Scene) -> None:
    found = judge(scene, "BLOCK = 64", head_dim=80, preferred=45_000)
    assert found.status is Status.HOLDS
    assert (
        "at head size 80: 64·128·2 + 64·64·2 + 1·64·128·2 = 40,960 B, within 45,000 B (limit 49,152 B)"
        in found.evidence
    )


@pytest.mark.parametrize("missing", ["device.shared_memory_per_block_bytes", "model.head_dim"])
def test_a_figure_that_the_target_does_not_have_fails(scene: Scene, missing: str) -> None:
    values = {key: value for key, value in scene.facts.values.items() if key != missing}
    scene.facts = dataclasses.replace(scene.facts, values=values)
    found = judge(scene, TUNED)
    assert (found.status, found.evidence) == (Status.FAILS, f"the target has no usable figure `{missing}`")


def test_without_a_preference_only_the_limit_counts(scene: Scene) -> None:
    values = {key: value for key, value in scene.facts.values.items() if "preferred" not in key}
    scene.facts = dataclasses.replace(scene.facts, values=values)
    assert judge(scene, TUNED).status is Status.HOLDS


def test_a_function_that_launches_nothing_needs_the_stages_from_the_check(scene: Scene) -> None:
    scene.files = {FILE: "def pick(k):\n    TILE = 64 if k.shape[-1] <= 128 else 32\n    return TILE\n"}
    fields = {"file": FILE, "within": "pick", "name": "TILE", "given": {"k.shape[-1]": 256}}
    found = scene.judge("tile_fits", **fields)
    assert (found.status, found.evidence) == (
        Status.FAILS,
        f"`pick` in {FILE} launches no kernel: `num_stages` is not known",
    )
    assert scene.judge("tile_fits", **fields, num_stages=1).status is Status.WARNS


def test_a_launch_that_is_never_reached_fails(scene: Scene) -> None:
    scene.files = {FILE: "def f(q):\n    B = 16\n    if False:\n        k[g](B, num_stages=1)\n"}
    found = scene.judge("tile_fits", file=FILE, within="f", name="B")
    assert (found.status, found.evidence) == (Status.FAILS, f"no launch in `f` in {FILE} can be reached")


@pytest.mark.parametrize("stale", ["k.shape[1]", "not (python", "q.dtype is torch.float16"])
def test_a_given_fact_about_nothing_in_the_function_is_named(scene: Scene, stale: str) -> None:
    found = judge(scene, "BLOCK = 16", given={stale: True})
    assert found.status is Status.WARNS
    assert found.evidence.endswith(f"; `given` names `{stale}`, which the function does not have")


@pytest.mark.parametrize(
    "fact", ["alibi", "q.dtype is not torch.float32", "q . dtype  is torch.float32", "alibi is None"]
)
def test_a_given_fact_may_be_spelt_otherwise_or_negated(scene: Scene, fact: str) -> None:
    assert "`given`" not in judge(scene, "BLOCK = 16", given={fact: True}).evidence


def test_a_class_launches_nothing(scene: Scene) -> None:
    scene.files = {FILE: "class K:\n    B = 16\n"}
    found = scene.judge("tile_fits", file=FILE, within="K", name="B")
    assert (found.status, found.evidence) == (Status.FAILS, f"`K` in {FILE} is not a function")


def test_a_constant_of_the_module_is_part_of_the_code(scene: Scene) -> None:
    scene.files = {FILE: "SIZE = 128\ndef f(q):\n    B = SIZE // 8\n    k[g](B, num_stages=1)\n"}
    assert scene.judge("tile_fits", file=FILE, within="f", name="B").status is Status.HOLDS
    scene.files = {FILE: "SIZE = 512\ndef f(q):\n    B = SIZE // 8\n    k[g](B, num_stages=1)\n"}
    assert scene.judge("tile_fits", file=FILE, within="f", name="B").status is Status.FAILS


@pytest.mark.parametrize("fields", [{"name": "B + 1"}, {"element_bytes": 0}, {"num_stages": 0}, {"head_dim": 0}])
def test_sizes_and_names_are_checked_when_the_pipeline_is_read(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TileFits.model_validate({"check": "tile_fits", "file": FILE, "within": "f", "name": "B"} | fields)
