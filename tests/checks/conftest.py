"""What the tests of checks share: judging a check, given as YAML gives it, on a small tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter

from orchestrator.checks.catalogue import AnyCheck
from orchestrator.checks.view import Facts, View
from orchestrator.core.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.checks.base import Check
    from orchestrator.checks.verdict import Verdict

_CHECK: TypeAdapter[Check] = TypeAdapter(AnyCheck)

FIGURES: dict[str, Any] = {
    "device.shared_memory_per_block_bytes": 49152,
    "device.shared_memory_preferred_bytes": 32768,
    "model.head_dim": 256,
    "model.max_positions": 262144,
    "engine.default_batched_tokens_chunked": 512,
    "engine.default_batched_tokens_floor": 2048,
    "engine.multimodal_batched_tokens": 5120,
    "engine.default_max_num_seqs": 256,
    "engine.chunked_prefill_above": 32768,
    "params.limit": 8192,
}


@dataclass
class Scene:
    """A tree to judge checks on; everything may be set before judging."""

    files: dict[str, str | bytes] = field(default_factory=dict)
    base: dict[str, str | bytes] | None = None
    artefacts: dict[str, str] = field(default_factory=dict)
    facts: Facts = field(default_factory=lambda: Facts(values=FIGURES))

    def judge(self, check: str, /, **fields: Any) -> Verdict:  # noqa: ANN401 - whatever YAML may hold
        """Return the verdict of a check on this scene; a field that is None is left out, as YAML would."""
        given = {key: value for key, value in fields.items() if value is not None or key == "equals"}
        found = _CHECK.validate_python({"check": check, **given})
        tree = _tree(self.files)
        base = tree if self.base is None else _tree(self.base)
        artefacts = {name: text.encode() for name, text in self.artefacts.items()}
        return found.judge(View(tree, base, self.facts, artefacts))


def _tree(files: Mapping[str, str | bytes]) -> Tree:
    return Tree({path: text.encode() if isinstance(text, str) else text for path, text in files.items()})


@pytest.fixture
def scene() -> Scene:
    """An empty scene."""
    return Scene()
