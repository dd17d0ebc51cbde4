"""A small server in a tree, with a target's facts about it, to judge run configurations on."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.checks.serving.facts import Serving
from orchestrator.checks.view import Facts
from orchestrator.device.quantity import figures_of
from orchestrator.spec.serving import Forced, RefusedVariable, Registry, Server, Sign
from orchestrator.spec.target import Figure
from tests.checks.conftest import Scene
from tests.device.targets import target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.checks.verdict import Verdict
    from orchestrator.core.diagnostics import Diagnostic

FILE = "computility-run.yaml"
ARGUMENTS, COMMAND = "vllm/arguments.py", "vllm/command.py"
PARSERS = "vllm/parsers"
TREE: dict[str, str | bytes] = {
    ARGUMENTS: """\
class EngineArgs:
    def add_cli_args(parser):
        parser.add_argument('--tensor-parallel-size', '-tp', type=int)
        parser.add_argument('--max-model-len', type=int)
        parser.add_argument('--max-num-seqs', type=int)
        parser.add_argument('--max-num-batched-tokens', type=int)
        parser.add_argument('--num-scheduler-steps', type=int)
        parser.add_argument('--gpu-memory-utilization', type=float)
        parser.add_argument('--block-size', type=int, choices=[8, 16, 32])
        parser.add_argument('--num-gpu-blocks-override', type=int)
        parser.add_argument('--enforce-eager', action='store_true')
        parser.add_argument('--max-seq-len-to-capture', type=int)
        parser.add_argument('--disable-custom-all-reduce', action='store_true')
        parser.add_argument('--enable-prefix-caching', action='store_true')
        parser.add_argument('--enable-chunked-prefill', action=StoreBoolean, nargs='?', const='True')
        parser.add_argument('--limit-mm-per-prompt', type=dict)

    def create_model_config(self):
        return ModelConfig(model=self.model,
                           enforce_eager=True)

    def create_engine_config(self):
        return ParallelConfig(disable_custom_all_reduce=self.disable_custom_all_reduce)
""",
    COMMAND: """\
import os

def make_arg_parser(parser):
    parser.add_argument("--model", type=str)
    parser.add_argument("--tool-call-parser", type=str, default=None)
    parser.add_argument("--tool-parser-plugin", type=str)
    parser.add_argument("--chat_template", type=str)
    return os.environ.get("ENGINE_TIMEOUT", "60")
""",
    f"{PARSERS}/__init__.py": "from .hermes import Hermes\n",
    f"{PARSERS}/hermes.py": '@Manager.register_module("hermes")\nclass Hermes: ...\n',
    f"{PARSERS}/forgotten.py": '@Manager.register_module("forgotten")\nclass Forgotten: ...\n',
    f"{PARSERS}/several.py": '@Manager.register_module(["one", "two"])\nclass Several: ...\n',
}
SERVER = Server(
    module="vllm.server",
    argument_files=[ARGUMENTS, COMMAND],
    registries=[
        Registry(option="tool-call-parser", under=PARSERS, call="register_module", plugin="tool-parser-plugin")
    ],
    forced=[
        Forced(
            option="enforce-eager",
            file=ARGUMENTS,
            within="EngineArgs.create_model_config",
            call="ModelConfig",
            keyword="enforce_eager",
            idle=["max-seq-len-to-capture"],
        ),
        Forced(
            option="disable-custom-all-reduce",
            file=ARGUMENTS,
            within="EngineArgs.create_engine_config",
            call="ParallelConfig",
            keyword="disable_custom_all_reduce",
        ),
    ],
    attention_layers_alone=[Sign(under="transformers/model", name="layers_block_type")],
    backends_of_multi_step=["FLASH_ATTN", "FLASHINFER"],
    backends_of_chunked_multi_step=["FLASH_ATTN"],
)


@dataclasses.dataclass
class Serve:
    """A scene for run configurations: `judge` renders one from arguments and variables and judges it."""

    scene: Scene
    serving: Serving
    values: dict[str, Any]

    def file(self, path: str, text: str) -> None:
        """Put a file into the tree."""
        self.scene.files[path] = text

    def facts(self, **changes: Any) -> None:  # noqa: ANN401 - fields of Serving
        """Change facts about serving."""
        self.serving = dataclasses.replace(self.serving, **changes)

    def judge(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        start: tuple[str, ...] = ("-m", "vllm.server"),
        **check: Any,  # noqa: ANN401 - fields of the check
    ) -> Verdict:
        """Return the verdict on a run configuration."""
        variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
        content = {"concurrency": 8, "command": ["python3", *start, *arguments], "env": variables}
        self.scene.artefacts = {FILE: json.dumps(content, indent=1)}
        roots = {"vllm": ("/opt/lib/vllm",)}
        self.scene.facts = Facts(values=self.values, serving=self.serving, roots=roots)
        return self.scene.judge("run_config", file=FILE, **check)

    def found(self, *arguments: str, **options: Any) -> list[str]:  # noqa: ANN401 - as for `judge`
        """Return what was found: `CODE message` each."""
        return [said(finding) for finding in self.judge(*arguments, **options).findings]


def said(finding: Diagnostic) -> str:
    """Return code and message."""
    return f"{finding.code} {finding.message}"


@pytest.fixture
def serve() -> Serve:
    """The small server on the facts of the real device."""
    device = target("bi100")
    serving = Serving(
        figures=figures_of(device),
        server=SERVER,
        memory_runs=tuple(device.memory_runs),
        required={},
        refused=(RefusedVariable(name="ALLOCATOR", containing="expandable", source="the allocator has none"),),
        read={"NCCL_*": "the collective library"},
        image_files=frozenset({"/usr/lib/known.so"}),
    )
    return Serve(Scene(files=dict(TREE)), serving, device.values())


FLAG = Figure(value="1", status="measured", source="the largest gain known")
