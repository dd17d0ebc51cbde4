"""Who decides about chunked prefill is read in the tree: the stage that takes the engine's own choice away counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.checks.verdict import Status
from orchestrator.checks.view import Facts
from tests.checks.conftest import FIGURES

if TYPE_CHECKING:
    from tests.checks.conftest import Scene

FILE = "computility-run.yaml"
ENGINE = "vllm/engine/arg_utils.py"
CHOOSES = "class E:\n    def f(self, long):\n        if long:\n            self.chunked = True\n"
OBEYS = "class E:\n    def f(self, long):\n        self.chunked = False\n"
FACTS = Facts(
    values={**FIGURES, "engine.chunks_by_itself_file": ENGINE, "engine.chunks_by_itself_code": "self.chunked = True"}
)
LONG = "[server, --max-model-len, '65536', --max-num-batched-tokens, '8192']"  # legal only where prefill is chunked


def judged(scene: Scene, engine: str | None, *, facts: Facts = FACTS, chunks_by_itself: bool | None = None) -> Status:
    scene.facts = facts
    scene.files = {} if engine is None else {ENGINE: engine}
    scene.artefacts = {FILE: f"concurrency: 1\ncommand: {LONG}\nenv: []\n"}
    return scene.judge("run_config", file=FILE, chunks_by_itself=chunks_by_itself).status


def test_a_batch_that_only_chunks_fit_is_legal_while_the_engine_chunks_by_itself(scene: Scene) -> None:
    assert judged(scene, CHOOSES) is Status.HOLDS


def test_it_is_refused_once_the_tree_no_longer_does(scene: Scene) -> None:
    assert judged(scene, OBEYS) is Status.FAILS


@pytest.mark.parametrize("facts", [Facts(values=FIGURES), FACTS])
def test_where_nothing_is_known_the_flag_alone_decides(facts: Facts, scene: Scene) -> None:
    assert judged(scene, None, facts=facts) is Status.FAILS


def test_what_the_check_says_wins_over_the_tree(scene: Scene) -> None:
    assert judged(scene, OBEYS, chunks_by_itself=True) is Status.HOLDS
    assert judged(scene, CHOOSES, chunks_by_itself=False) is Status.FAILS
