"""The replica gets the quirks that the facts name, from the published source, with this very tool.

Those on the real source fetch it from the package index once, and are skipped without network. The one that
imports the result needs an interpreter with `tests/behaviour/requirements.txt`. In CI nothing is skipped.
"""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.code.transforms import load_transform
from orchestrator.core.diagnostics import Rejected
from orchestrator.engine.load import load
from orchestrator.engine.lock import chain_of
from orchestrator.engine.outcome import AlreadyApplied, Applied, Run
from orchestrator.engine.plan import Plan, make_plan
from orchestrator.engine.run import run
from orchestrator.origin.archive import read_package
from orchestrator.origin.sdist import cache_folder, fetch_sdist
from orchestrator.origin.workspace import WorkspaceFiles
from tests.behaviour import trees

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from orchestrator.core.tree import Tree

ROOT = Path(__file__).parents[2]
WORKSPACE = ROOT / "examples" / "corex-replica"
STANDINS = ROOT / "tests" / "standins"

OPS = "vllm/_custom_ops.py"
REFUSING_NAMES = """
    paged_attention_v2 paged_attention_rocm advance_step_flashinfer awq_dequantize marlin_gemm gptq_marlin_24_gemm
    cutlass_scaled_mm_azp aqlm_gemm aqlm_dequant gptq_marlin_repack awq_marlin_repack gptq_marlin_moe_repack
    gptq_marlin_gemm fp8_marlin_gemm machete_supported_schedules machete_gemm machete_prepack_B permute_cols
    scaled_fp8_quant marlin_qqq_gemm ggml_dequantize ggml_mul_mat_vec_a8 ggml_mul_mat_a8 causal_conv1d_fwd
    causal_conv1d_update selective_scan_fwd convert_fp8 get_device_attribute init_custom_ar should_custom_ar
    all_reduce_reg all_reduce_unreg dispose meta_size register_buffer get_graph_buffer_ipc_meta
    register_graph_buffers
"""
REFUSING = frozenset(REFUSING_NAMES.split())
ABSENT_NAMES = """
    advance_step_flashattn copy_blocks swap_blocks dynamic_scaled_int8_quant static_scaled_int8_quant
    gelu_tanh_and_mul paged_attention_cache_appended reshape_and_cache_flash vllm_batched_rotary_embedding
    vllm_invoke_fused_moe_kernel vllm_moe_align_block_size vllm_moe_topk_softmax w8a8
"""
ABSENT = frozenset(ABSENT_NAMES.split())
IMPORTED = (
    "attention.ops.paged_attn",
    "attention.backends.xformers",
    "worker.model_runner",
    "core.scheduler",
    "sequence",
    "engine.arg_utils",
    "model_executor.models.registry",
    "model_executor.layers.fused_moe",
    "entrypoints.openai.api_server",
)


# --- the pipeline -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plan() -> Plan:
    files = WorkspaceFiles(WORKSPACE)
    return make_plan(load("pipeline.yaml", files.read("pipeline.yaml"), files.read), files.read)


@pytest.fixture(scope="module")
def published() -> Tree:
    try:
        archive = fetch_sdist("vllm==0.6.3", cache_folder(os.environ), None)
    except Rejected as error:
        if {d.code for d in error.diagnostics} == {"E301"}:
            trees.unavailable("the source distribution is not in the cache and the package index cannot be reached")
        raise
    base, _ = read_package(archive.path, "vllm", "vllm")
    return base.tree


@pytest.fixture(scope="module")
def replica(plan: Plan, published: Tree) -> Run:
    return run(plan, published)


def test_every_stage_is_compiled_without_a_tree(plan: Plan) -> None:
    assert [stage.id for stage in plan.stages if not stage.edits] == []
    assert not plan.warnings


def test_every_stage_applies_to_the_published_source(replica: Run) -> None:
    assert [str(d) for d in replica.diagnostics if d.severity == "error"] == []
    assert {type(result.outcome) for result in replica.results} == {Applied}


def test_every_stage_has_an_effect_that_would_be_missed(replica: Run) -> None:
    assert [d.message for d in replica.diagnostics if d.code == "W520"] == []


def test_a_second_run_knows_its_own_work_and_changes_nothing(plan: Plan, replica: Run) -> None:
    again = run(plan, replica.tree, chain=chain_of(replica))
    assert {type(result.outcome) for result in again.results} == {AlreadyApplied}
    assert again.tree.digest == replica.tree.digest


def test_the_kernel_that_patches_tune_is_left_as_published(replica: Run, published: Tree) -> None:
    path = "vllm/attention/ops/prefix_prefill.py"
    assert replica.tree[path] == published[path]


def functions(raw: bytes) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.parse(raw).body if isinstance(node, ast.FunctionDef)}


def test_the_functions_without_a_body_are_those_that_the_facts_name(replica: Run) -> None:
    refusing = set()
    for name, function in functions(replica.tree[OPS]).items():
        match function.body[-1]:
            case ast.Raise(exc=ast.Call(func=ast.Name(id="NotImplementedError"))):
                refusing.add(name)
    assert refusing == REFUSING
    assert len(refusing) == 37


def test_signatures_of_emptied_functions_stay(replica: Run, published: Tree) -> None:
    before, after = functions(published[OPS]), functions(replica.tree[OPS])
    kept = REFUSING - {"should_custom_ar"}
    assert {n: ast.unparse(after[n].args) for n in kept} == {n: ast.unparse(before[n].args) for n in kept}


def library_names(raw: bytes) -> set[str]:
    return {
        node.attr
        for node in ast.walk(ast.parse(raw))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ixf_F"
    }


def test_thirteen_of_the_twenty_four_library_names_in_use_do_not_exist(
    replica: Run, standin: Callable[[str], ModuleType]
) -> None:
    used = library_names(replica.tree[OPS])
    library = standin("ixformer.functions")
    assert len(used) == 24
    assert {name for name in used if not hasattr(library, name)} == ABSENT


def test_no_file_but_the_backend_lost_its_last_line_end(replica: Run, published: Tree) -> None:
    changed = replica.tree.changed_since(published)
    bare = {path for path in changed if not replica.tree[path].endswith(b"\n")}
    assert bare == {"vllm/attention/backends/xformers.py"}


def test_the_replica_is_imported_on_a_cpu(replica: Run, tmp_path: Path) -> None:
    python = trees.interpreter()
    trees.write(replica.tree, tmp_path)
    code = "\n".join(f"import vllm.{module}" for module in IMPORTED)
    environment = trees.environment(tmp_path)
    done = subprocess.run([python, "-c", code], env=environment, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]


# --- the transforms ---------------------------------------------------------------------------------------------


def transformed(name: str, text: bytes, **params: Any) -> bytes:  # noqa: ANN401 - the transform's own parameters
    cst = importlib.import_module("libcst")
    path = f"stages/{name}.py"
    loaded = load_transform(name, path, (WORKSPACE / path).read_bytes())
    result = loaded.function(cst.parse_module(text), loaded.params.model_validate(params))
    assert isinstance(result.bytes, bytes)
    return result.bytes


TWO = b'def a(x: int = 1) -> int:\n    """Say."""\n    return x  # why\n\n\ndef b(): return 2\n'


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(
            ["a"],
            b'def a(x: int = 1) -> int:\n    """Say."""\n    raise NotImplementedError()\n\n\ndef b(): return 2\n',
            id="a docstring and the signature stay",
        ),
        pytest.param(
            ["b"],
            TWO.replace(b"def b(): return 2\n", b"def b():\n    raise NotImplementedError()\n"),
            id="a body in the header's line gets lines of its own",
        ),
    ],
)
def test_an_emptied_function_only_refuses(names: list[str], expected: bytes) -> None:
    once = transformed("raise_not_implemented", TWO, functions=names)
    assert once == expected
    assert transformed("raise_not_implemented", once, functions=names) == once


@pytest.mark.parametrize("names", [["a", "gone"], ["gone"]])
def test_a_function_that_is_not_there_is_named(names: list[str]) -> None:
    with pytest.raises(ValueError, match=r": gone$"):
        transformed("raise_not_implemented", TWO, functions=names)


def test_a_function_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r": a$"):
        transformed("raise_not_implemented", TWO + b"\n\n" + TWO, functions=["a"])


@pytest.mark.parametrize("text", [b"x = 1\r\ny = 2\r\n", b"x = 1\ny = 2\n", b"x = 1\ny = 2"])
def test_only_the_last_line_end_is_dropped(text: bytes) -> None:
    assert transformed("drop_last_newline", text) == text.rstrip(b"\r\n")


# --- the stand-in library ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def standin() -> Callable[[str], ModuleType]:
    pytest.importorskip("torch")

    def imported(name: str) -> ModuleType:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(STANDINS))
            return importlib.import_module(name)

    return imported


def decode(library: ModuleType, *, limit: int, mapping: object = None) -> tuple[Any, Any]:
    """Return the stand-in's decode over a shuffled paged cache, and the same attention written out densely."""
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    heads, kv_heads, size, block, x = 4, 2, 16, 16, 8
    lengths = [1, 16, 37]
    keys = [torch.randn(n, kv_heads, size) for n in lengths]
    values = [torch.randn(n, kv_heads, size) for n in lengths]
    tables = torch.tensor([[5, 0, 0], [2, 0, 0], [7, 1, 4]], dtype=torch.int32)
    key_cache = torch.zeros(8, kv_heads, size // x, block, x)
    value_cache = torch.zeros(8, kv_heads, size, block)
    for table, key, value in zip(tables, keys, values, strict=True):
        slots = torch.tensor([int(table[t // block]) * block + t % block for t in range(len(key))], dtype=torch.int32)
        library.vllm_cache_ops_reshape_and_cache(key, value, key_cache, value_cache, slots)
    query, output = torch.randn(3, heads, size), torch.empty(3, heads, size)
    of_head = torch.arange(kv_heads, dtype=torch.int32).repeat_interleave(heads // kv_heads)
    library.vllm_single_query_cached_kv_attention(
        output,
        query,
        key_cache,
        value_cache,
        of_head if mapping is None else mapping,
        size**-0.5,
        tables,
        torch.tensor(lengths, dtype=torch.int32),
        block,
        limit,
    )
    dense = torch.empty_like(output)
    for i, (key, value) in enumerate(zip(keys, values, strict=True)):
        for h in range(heads):
            k, v = key[:, h // (heads // kv_heads)], value[:, h // (heads // kv_heads)]
            dense[i, h] = torch.softmax(k @ query[i, h] * size**-0.5, dim=0) @ v
    return output, dense


def test_the_stand_in_decodes_as_dense_attention_does(standin: Callable[[str], ModuleType]) -> None:
    torch = importlib.import_module("torch")
    output, dense = decode(standin("ixformer.functions"), limit=37)
    torch.testing.assert_close(output, dense)


def test_the_stand_in_fails_beyond_the_context_that_the_device_takes(standin: Callable[[str], ModuleType]) -> None:
    library = standin("ixformer.functions")
    decode(library, limit=32768)
    with pytest.raises(RuntimeError, match="32769"):
        decode(library, limit=32769)


def test_the_stand_in_wants_the_mapping_and_not_the_number_of_heads(standin: Callable[[str], ModuleType]) -> None:
    with pytest.raises(TypeError, match="head_mapping"):
        decode(standin("ixformer.functions"), limit=37, mapping=2)


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_a_name_that_the_image_lacks_is_lacking_here(name: str, standin: Callable[[str], ModuleType]) -> None:
    with pytest.raises(AttributeError):
        getattr(standin("ixformer.functions"), name)


def test_the_stand_in_norms_as_torch_does(standin: Callable[[str], ModuleType]) -> None:
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    x, residual, weight = torch.randn(3, 8), torch.randn(3, 8), torch.randn(8)
    total = x + residual
    wanted = torch.nn.functional.rms_norm(total, (8,), weight, 1e-6)
    out = torch.empty_like(x)
    library = standin("ixformer.functions")
    library.rms_norm(total, weight, out, 1e-6)
    torch.testing.assert_close(out, wanted)
    library.fused_add_rms_norm(x, residual, weight, 1e-6)
    torch.testing.assert_close(x, wanted)
    torch.testing.assert_close(residual, total)


@pytest.mark.parametrize("is_neox", [True, False])
def test_the_stand_in_rotates_pairs_by_their_angle(standin: Callable[[str], ModuleType], *, is_neox: bool) -> None:
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    size, rotated = 8, 6
    positions = torch.tensor([0, 3, 1])
    angles = torch.arange(4.0).unsqueeze(1) * torch.tensor([1.0, 0.1, 0.01])
    query, key = torch.randn(3, 2 * size), torch.randn(3, size)

    def turned(x: Any) -> Any:  # noqa: ANN401 - torch is not imported for types here
        heads = x.view(3, -1, size).clone()
        part = heads[..., :rotated]
        pairs = part.unflatten(-1, (2, 3)).transpose(-1, -2) if is_neox else part.unflatten(-1, (3, 2))
        spun = torch.view_as_complex(pairs.contiguous()) * torch.exp(1j * angles[positions]).unsqueeze(1)
        back = torch.view_as_real(spun)
        heads[..., :rotated] = (back.transpose(-1, -2) if is_neox else back).flatten(-2)
        return heads.flatten(1)

    wanted = turned(query), turned(key)
    cache = torch.cat((angles.cos(), angles.sin()), dim=-1)
    standin("ixformer.functions").vllm_rotary_embedding_neox(positions, query, key, size, cache, is_neox)
    torch.testing.assert_close((query, key), wanted)


def test_the_stand_in_copies_blocks_by_a_dict_only(standin: Callable[[str], ModuleType]) -> None:
    torch = importlib.import_module("torch")
    library = standin("ixformer.functions")
    keys, values = torch.arange(4.0), torch.arange(4.0) + 10
    library.vllm_copy_cache([keys], [values], {0: [2, 3]})
    assert (keys.tolist(), values.tolist()) == ([0, 1, 0, 0], [10, 11, 10, 10])
    library.vllm_swap_blocks(keys, values, {1: 0})
    assert values.tolist() == [1, 11, 10, 10]
    pairs = torch.tensor([[0, 1]])
    with pytest.raises(TypeError, match="dict"):
        library.vllm_copy_cache([keys], [values], pairs)
    with pytest.raises(TypeError, match="dict"):
        library.vllm_swap_blocks(keys, values, pairs)
