"""`examples/vllm-current` on the published source of vLLM 0.32.0: what each patch does, by running the patched code."""

from __future__ import annotations

import ast
import asyncio
import sys
import types
from http import HTTPStatus
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.cli.options import Request
from orchestrator.cli.steps import base_of, lock_of, make_plan_for
from orchestrator.engine.outcome import AlreadyApplied, Applied
from orchestrator.engine.run import run
from tests.workspaces import ROOT, run_cli

if TYPE_CHECKING:
    from orchestrator.core.tree import Tree
    from orchestrator.engine.outcome import Run

WORKSPACE = ROOT / "examples" / "vllm-current"
SERVING = "vllm/entrypoints/serve/engine/serving.py"
PARSER = "vllm/reasoning/marked_reasoning_parser.py"
MARK = "\n\nAnswer:"


@pytest.fixture(scope="module")
def done() -> Run:
    request = Request(workspace=WORKSPACE, command="test")
    plan = make_plan_for(request)
    return run(plan, base_of(plan, request).tree, lock_of(request))


@pytest.fixture(scope="module")
def patched(done: Run) -> Tree:
    return done.tree


def test_all_eight_stages_apply_as_they_are_locked(done: Run) -> None:
    assert not done.failed, done.diagnostics
    outcomes = {result.id: result.outcome for result in done.results}
    assert len(outcomes) == 8
    assert set(outcomes.values()) == {Applied("exact")}


def test_a_second_run_finds_every_stage_applied(done: Run) -> None:
    again = run(done.plan, done.tree, lock_of(Request(workspace=WORKSPACE, command="test")))
    assert {type(result.outcome) for result in again.results} == {AlreadyApplied}
    assert again.tree == done.tree


def function(tree: Tree, file: str, name: str, **names: object) -> Any:  # noqa: ANN401 - whatever is defined there
    """Return a method of a file as a plain function that knows `names` alone; annotations are not read."""
    node: ast.AST = ast.parse(tree[file])
    for part in name.split("."):
        node = next(n for n in ast.walk(node) if getattr(n, "name", None) == part)
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    node.decorator_list = []
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)
    module = ast.fix_missing_locations(ast.Module([future, node], []))
    space = dict(names)
    exec(compile(module, file, "exec", dont_inherit=True), space)  # noqa: S102 - the code under test
    return space[node.name]


def test_a_completion_that_asks_for_no_length_gets_the_parameter(done: Run, patched: Tree) -> None:
    tree = ast.parse(patched["vllm/entrypoints/openai/completion/protocol.py"])
    request = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "CompletionRequest")
    values = [ast.unparse(n.value) for n in request.body if isinstance(n, ast.AnnAssign) and n.value
              and ast.unparse(n.target) == "max_tokens"]  # fmt: skip
    assert values == [str(done.plan.values["params.reply_tokens"])]


@pytest.mark.parametrize(("tokens", "spelled"), [(256, True), (257, False)])
def test_tokens_of_short_prompts_alone_are_spelled_out(patched: Tree, tokens: int, spelled: bool) -> None:  # noqa: FBT001 - a table's column
    ids = list(range(tokens))

    async def nothing(*_: object, **__: object) -> None:
        return None

    async def prompts(*_: object, **__: object) -> list[list[int]]:
        return [ids]

    tokenizer = SimpleNamespace(convert_ids_to_tokens=lambda ids: [f"t{i}" for i in ids])
    self = SimpleNamespace(
        _check_model=nothing,
        _base_request_id=lambda _: "",
        _maybe_get_adapters=lambda _: None,
        _log_inputs=lambda *_, **__: None,
        _extract_prompt_components=lambda given: SimpleNamespace(token_ids=given),
        online_renderer=SimpleNamespace(preprocess_completion=prompts),
        renderer=SimpleNamespace(get_tokenizer=lambda: tokenizer),
        model_config=SimpleNamespace(max_model_len=1024),
    )
    tokenize = function(
        patched, "vllm/entrypoints/serve/tokenize/serving.py", "ServingTokenization.create_tokenize",
        TokenizeChatRequest=type("Chat", (), {}), TokenizeResponse=SimpleNamespace,
    )  # fmt: skip
    answer = asyncio.run(tokenize(self, SimpleNamespace(prompt="x", return_token_strs=True), None))
    assert answer.count == tokens
    assert (answer.token_strs is not None) == spelled


def test_an_unknown_model_is_told_what_is_served(patched: Tree) -> None:
    check = function(patched, SERVING, "BaseServing._check_model", HTTPStatus=HTTPStatus,
                     envs=SimpleNamespace(VLLM_ALLOW_RUNTIME_LORA_UPDATING=False))  # fmt: skip
    self = SimpleNamespace(
        request_logger=None,
        _is_model_supported=lambda model: model == "tiny",
        models=SimpleNamespace(lora_requests={}, base_model_paths=[SimpleNamespace(name="tiny")]),
        create_error_response=lambda **told: told,
    )
    assert asyncio.run(check(self, SimpleNamespace(model="tiny"))) is None
    told = asyncio.run(check(self, SimpleNamespace(model="large")))
    assert told["message"] == "The model `large` is not served here; GET /v1/models lists: tiny."
    assert (told["err_type"], told["status_code"]) == ("NotFoundError", HTTPStatus.NOT_FOUND)


def test_the_type_of_a_fault_is_the_default_where_none_is_said(patched: Tree) -> None:
    respond = function(patched, SERVING, "BaseServing.create_error_response", HTTPStatus=HTTPStatus)
    respond.__globals__["create_error_response"] = lambda *told: told
    assert respond.__defaults__ == ("invalid_request_error", HTTPStatus.BAD_REQUEST, None)


def test_the_log_line_comes_before_the_one_that_says_where(patched: Tree) -> None:
    lines: list[str] = []

    async def given(*_: object, **__: object) -> str:
        return "served"

    serve = function(
        patched, "vllm/entrypoints/launchers/api_server/entry.py", "build_and_serve",
        get_uvicorn_log_config=lambda _: None, build_app=lambda *_: SimpleNamespace(state=None), init_app_state=given,
        serve_http=given, envs=SimpleNamespace(VLLM_HTTP_TIMEOUT_KEEP_ALIVE=5),
        logger=SimpleNamespace(info=lambda text, *given: lines.append(text % given)),
    )  # fmt: skip
    engine = SimpleNamespace(
        get_supported_tasks=given, model_config=SimpleNamespace(model="a-model", max_model_len=1024)
    )
    anything = type("Anything", (), {"__getattr__": lambda _self, _name: None})()
    assert asyncio.run(serve(engine, "localhost", None, anything)) == "served"
    assert lines[1:] == ["Serving a-model with 1024 tokens of context", "Starting vLLM server on localhost"]


def test_the_build_name_keeps_the_version_and_says_that_it_is_patched(
    patched: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version, name in (("0.32.0", "0.32.0+patched"), ("0.32.0+cpu", "0.32.0+cpu.patched")):
        monkeypatch.setitem(sys.modules, "vllm.version", module("vllm.version", __version__=version))
        space: dict[str, Any] = {}
        exec(patched["vllm/build_name.py"], space)  # noqa: S102 - the code under test
        assert space["BUILD_NAME"] == name
    basic = ast.parse(patched["vllm/entrypoints/serve/instrumentator/basic.py"])
    names = {a.asname: n.module for n in basic.body if isinstance(n, ast.ImportFrom) for a in n.names if a.asname}
    assert names == {"VLLM_VERSION": "vllm.build_name"}


def module(name: str, **names: object) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update(names)
    return made


@pytest.fixture
def parser(patched: Tree, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - the code under test
    """The parser with a tokenizer of one token a character."""
    base = type(
        "ReasoningParser", (), {"__init__": lambda self, tokenizer: setattr(self, "model_tokenizer", tokenizer)}
    )
    names: dict[str, dict[str, object]] = {"vllm.entrypoints.generate.base.protocol": {"DeltaMessage": SimpleNamespace}}
    names["vllm.reasoning"] = {"ReasoningParser": base}
    for name, there in names.items():
        monkeypatch.setitem(sys.modules, name, module(name, **there))
    space: dict[str, Any] = {"__name__": "marked"}
    exec(compile(patched[PARSER], PARSER, "exec", dont_inherit=True), space)  # noqa: S102 - the code under test
    return space["MarkedReasoningParser"](SimpleNamespace(decode=lambda ids: "".join(map(chr, ids))))


TEXTS = {
    "both": f"thought{MARK} 42",
    "no answer": "thought without an end",
    "two marks": f"a{MARK} b{MARK} c",
    "nothing before": f"{MARK} 42",
    "half a mark": "thought\n\nAnswe",
    "a mark at the end": f"thought{MARK}",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("step", [1, 3, 100])
def test_a_streamed_output_is_split_as_the_whole_one(parser: Any, text: str, step: int) -> None:  # noqa: ANN401 - the code under test
    pieces: dict[str, str] = {"reasoning": "", "content": ""}
    for end in range(step, len(text) + step, step):
        before, now = text[: end - step], text[:end]
        delta = parser.extract_reasoning_streaming(before, now, now[len(before) :], [], [], [])
        for key in pieces:
            pieces[key] += (getattr(delta, key) or "") if delta else ""
    reasoning, answer = parser.extract_reasoning(text, None)
    assert pieces["content"] == (answer or "")
    assert reasoning.startswith(pieces["reasoning"])
    assert reasoning == pieces["reasoning"] or (
        answer is None and MARK.startswith(reasoning[len(pieces["reasoning"]) :])
    )


def test_the_tokens_behind_the_mark_are_the_answer(parser: Any) -> None:  # noqa: ANN401 - the code under test
    ids = [ord(c) for c in TEXTS["both"]]
    assert parser.is_reasoning_end(ids)
    assert not parser.is_reasoning_end(ids[: len("thought")])
    assert "".join(map(chr, parser.extract_content_ids(ids))) == " 42"
    assert parser.extract_content_ids(ids[: len("thought")]) == []


def test_the_registry_leads_to_the_module_that_is_deployed(patched: Tree) -> None:
    found: dict[str, tuple[str, str]] = {}
    tree = ast.parse(patched["vllm/reasoning/__init__.py"])
    wanted = [n for n in tree.body if isinstance(n, ast.Assign) and "_REASONING_PARSERS" in ast.unparse(n.targets[0])]
    loop = function(
        patched, "vllm/reasoning/__init__.py", "register_lazy_reasoning_parsers",
        ReasoningParserManager=SimpleNamespace(register_lazy_module=lambda *a: found.update({a[0]: (a[1], a[2])})),
    )  # fmt: skip
    exec(compile(ast.Module(list(wanted), []), "registry", "exec"), loop.__globals__)  # noqa: S102 - the code under test
    loop()
    assert found["marked"] == ("vllm.reasoning.marked_reasoning_parser", "MarkedReasoningParser")
    assert "qwen3" in found


def test_what_the_documents_tell_of_another_release_is_what_bump_says() -> None:
    rows = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs" / "bump-history.md").read_text(encoding="utf-8").splitlines()
        if line.startswith(("| release", "| 0."))
    ]
    stages, told = rows[0][1:], {row[0]: row[1:] for row in rows[1:]}
    ended = run_cli("bump", "-C", str(WORKSPACE), "--to", "vllm==0.31.0", "--json", cwd=WORKSPACE)
    assert ended.code == 4, ended.err
    found = {record["stage"]: record["verdict"] for record in ended.records() if record["event"] == "bump-stage"}
    assert found == dict(zip(stages, told["0.31.0"], strict=True))
    assert set(told["0.32.0"]) == {"exact"}
