"""Job 5: the architectures are known to vLLM where a stage deploys the model module, and nowhere else."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from orchestrator.engine.outcome import Applied, Skipped
from tests.behaviour import trees

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.engine.outcome import Run, StageResult

MODULE = "vllm/model_executor/models/qwen3_5.py"
NAMES = [f"Qwen3_5{kind}For{use}" for kind in ("", "Moe") for use in ("CausalLM", "ConditionalGeneration")]
STAND_IN = """\
\"\"\"A stand-in for the user's module: the names that the registry looks up.\"\"\"
from torch import nn


class Qwen3_5ForCausalLM(nn.Module):
    pass


class Qwen3_5MoeForCausalLM(nn.Module):
    pass
"""
ASKS = """\
import json, sys
from vllm.model_executor.models.registry import ModelRegistry
known = ModelRegistry.models
print(json.dumps({name: known[name].load_model_cls().__name__ for name in sys.argv[1:] if name in known}))
"""
DOCUMENT = trees.ROOT / "docs" / "qwen3.6.md"


def documented_stage() -> str:
    """Return the stage that the documentation shows."""
    blocks = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    [stage] = [block for block in blocks if "id: qwen3-5-model" in block]
    return str(stage)


def deployed(folder: Path, module: str = STAND_IN) -> Path:
    """Return a workspace in which a user has done what the documentation says."""
    folder.mkdir(exist_ok=True)
    workspace = trees.workspace_copy(folder, disabled=())
    pipeline = workspace / "pipeline.yaml"
    text = pipeline.read_text(encoding="utf-8")
    assert text.count("  - id: qwen3-5-registry\n") == 1
    # The other half of what the documentation says: the registry stage needs the one that deploys the module.
    text = text.replace("    needs: [qwen3-5-config]\n", "    needs: [qwen3-5-config, qwen3-5-model]\n")
    text = text.replace("  - id: qwen3-5-registry\n", f"{documented_stage()}\n  - id: qwen3-5-registry\n")
    pipeline.write_text(text, encoding="utf-8")
    (workspace / "modules").mkdir(exist_ok=True)
    (workspace / "modules/qwen3_5.py").write_text(module, encoding="utf-8")
    return workspace


def run_of(workspace: Path) -> Run:
    return trees.patched(trees.request_for(workspace), trees.default().base).run


def registry(run: Run) -> StageResult:
    return next(result for result in run.results if result.id == "qwen3-5-registry")


def asked(run: Run, folder: Path) -> dict[str, str]:
    """Return architecture → class, as a process with the patched tree finds them."""
    tree = trees.write(run.tree, folder)
    done = subprocess.run(
        [trees.interpreter(), "-c", ASKS, *NAMES],
        env=trees.environment(tree),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_without_the_module_the_stage_is_skipped_and_says_why() -> None:
    outcome = registry(trees.default().run).outcome
    assert isinstance(outcome, Skipped)
    assert f"{MODULE} is not there" in outcome.reason


def test_without_the_module_no_architecture_is_known(patched: Path, tmp_path: Path) -> None:
    assert patched.is_dir()
    assert asked(trees.default().run, tmp_path) == {}


def test_with_the_stage_of_the_documentation_all_four_are_known_and_load(tmp_path: Path) -> None:
    trees.interpreter()
    made = run_of(deployed(tmp_path / "workspace"))
    assert not made.failed, "\n".join(str(d) for d in made.diagnostics)
    assert isinstance(registry(made).outcome, Applied)
    assert asked(made, tmp_path / "tree") == {
        name: "Qwen3_5MoeForCausalLM" if "Moe" in name else "Qwen3_5ForCausalLM" for name in NAMES
    }


def test_switching_the_deployment_off_takes_the_entries_out(tmp_path: Path) -> None:
    workspace = deployed(tmp_path)
    pipeline = workspace / "pipeline.yaml"
    text = pipeline.read_text(encoding="utf-8")
    pipeline.write_text(
        text.replace("  - id: qwen3-5-model\n", "  - id: qwen3-5-model\n    enabled: false\n"), encoding="utf-8"
    )
    made = run_of(workspace)
    assert not made.failed
    assert isinstance(registry(made).outcome, Skipped)
    assert b"qwen3_5" not in made.tree["vllm/model_executor/models/registry.py"]


@pytest.mark.parametrize("missing", ["Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"])
def test_a_module_without_a_class_that_is_looked_up_is_refused(missing: str, tmp_path: Path) -> None:
    made = run_of(deployed(tmp_path, STAND_IN.replace(f"class {missing}(", "class Other(")))
    assert made.failed
    found = [d for d in made.diagnostics if d.severity == "error" and d.stage.startswith("qwen3-5")]
    assert {d.code for d in found} <= {"E520", "E521"}
    assert missing in found[0].message
    assert b"qwen3_5" not in made.tree["vllm/model_executor/models/registry.py"]
