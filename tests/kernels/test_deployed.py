"""The files work unchanged where they are deployed: side by side inside another package, on an older Python."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[2] / "kernels"
NAMES = ("paged_attention_pytorch.py", "paged_attention_v2_pytorch.py", "paged_attention_v2_compiled.py", "trust.py")

PROGRAM = """
import sys
from vllm.attention.ops.paged_attention_v2_pytorch import paged_attention_v2
from vllm.attention.ops.paged_attention_pytorch import long_decode_attention, prefix_attention
from vllm.attention.ops.trust import trusted
assert "triton" not in sys.modules
assert not any(name == "kernels" or name.startswith("kernels.") for name in sys.modules)
from vllm.attention.ops import paged_attention_v2_compiled
assert not trusted("prefix_prefill")
print(paged_attention_v2.__module__, long_decode_attention.__module__, prefix_attention.__module__)
"""


def test_the_files_import_each_other_inside_vllm(tmp_path: Path) -> None:
    package = tmp_path / "vllm" / "attention" / "ops"
    package.mkdir(parents=True)
    for folder in (package, *package.parents[:2]):
        (folder / "__init__.py").touch()
    for name in NAMES:
        shutil.copy(KERNELS / name, package / name)
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    ops = "vllm.attention.ops"
    modules = (f"{ops}.paged_attention_v2_pytorch", f"{ops}.paged_attention_pytorch", f"{ops}.paged_attention_pytorch")
    assert found.stdout.split() == list(modules)


@pytest.mark.parametrize("name", NAMES)
def test_the_syntax_is_that_of_python_3_8(name: str) -> None:
    ast.parse((KERNELS / name).read_text(encoding="utf-8"), feature_version=(3, 8))


@pytest.mark.parametrize("name", NAMES)
def test_only_torch_the_standard_library_and_siblings_are_imported(name: str) -> None:
    tree = ast.parse((KERNELS / name).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            sibling = node.level == 1 and f"{module}.py" in NAMES
            assert sibling or (node.level == 0 and module.split(".")[0] in sys.stdlib_module_names)
        elif isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= {"torch", *sys.stdlib_module_names}
