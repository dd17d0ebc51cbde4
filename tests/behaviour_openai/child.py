"""The process that serves a vLLM tree: `child.py RESULT [CHAT…]`, the tree and the stand-ins on PYTHONPATH.

The tree's own argument parser, application and chat server answer through FastAPI's test client; the engine is a stub
that says what it is told. Tokenizer and configuration are made on the spot. It writes one JSON object, chat → answers.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import json
import logging
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parents[2]))

from tests.behaviour_openai import chats

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

Json = dict[str, Any]
TEMPLATE = """{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% else %}OPENING{% endif %}{% endif %}"""
TEMPLATES = {"opens": TEMPLATE.replace("OPENING", "<think>\n"), "leaves": TEMPLATE.replace("OPENING", "")}
LONGEST = 4096  # tokens of the model


def make_model(folder: Path) -> None:
    """Write a tokenizer of single bytes with the model's tags, and the smallest configuration."""
    tokenizers: Any = importlib.import_module("tokenizers")
    transformers: Any = importlib.import_module("transformers")
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE({letter: n for n, letter in enumerate(letters)}, []))
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    bpe.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    bpe.add_tokens(["<think>", "</think>", "<tool_call>", "</tool_call>"])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|im_end|>")  # noqa: S106 - no secret
    fast.save_pretrained(folder)
    config = transformers.LlamaConfig(
        vocab_size=len(letters) + 6,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        max_position_embeddings=LONGEST,
        architectures=["LlamaForCausalLM"],
    )
    config.save_pretrained(folder)


class Engine:
    """Says the output that it is told, in the pieces that it is told."""

    errored = False

    def __init__(self, tokenizer: Any) -> None:  # noqa: ANN401 - transformers'
        self.tokenizer = tokenizer
        self.pieces: list[str] = []
        self.finish_reason = "stop"
        self.n = 1
        self.asked: Any = None

    async def get_tokenizer(self, _: Any) -> Any:  # noqa: ANN401 - the tree's LoRA request, transformers' tokenizer
        return self.tokenizer

    async def is_tracing_enabled(self) -> bool:
        return False

    async def generate(self, prompt: Json, parameters: Any, request: str, **_: Any) -> AsyncIterator[Any]:  # noqa: ANN401 - the tree's
        outputs: Any = importlib.import_module("vllm.outputs")
        kinds: Any = importlib.import_module("vllm.sampling_params").RequestOutputKind
        self.asked = parameters
        streamed = parameters.output_kind == kinds.DELTA
        pieces = self.pieces if streamed else ["".join(self.pieces)]
        for number, text in enumerate(pieces):
            last = number == len(pieces) - 1
            tokens = self.tokenizer.encode(text, add_special_tokens=False)
            said = [
                outputs.CompletionOutput(i, text, tokens, None, None, self.finish_reason if last else None)
                for i in range(self.n)
            ]
            # As the engine does: a streamed answer has its prompt with the first piece alone.
            ids = prompt["prompt_token_ids"] if number == 0 else None
            yield outputs.RequestOutput(request, None, ids, None, said, last)


class Lines(logging.Handler):
    """Keeps what the tree warns of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


@dataclass
class Server:
    """The application of a tree around the stub."""

    engine: Engine
    client: Any
    lines: Lines

    def post(self, body: Json) -> Any:  # noqa: ANN401 - the test client's response
        return self.client.post("/v1/chat/completions", json={"model": "llm", **body})


@contextlib.contextmanager
def served(model: Path, flags: list[str]) -> Iterator[Server]:
    """Start the tree's server with these flags."""
    testing: Any = importlib.import_module("fastapi.testclient")
    transformers: Any = importlib.import_module("transformers")
    api: Any = importlib.import_module("vllm.entrypoints.openai.api_server")
    config: Any = importlib.import_module("vllm.config")
    options = ["--model", str(model), "--served-model-name", "llm", "--disable-log-requests", "--disable-log-stats"]
    arguments = api.make_arg_parser(api.FlexibleArgumentParser()).parse_args([*options, *flags])
    api.validate_parsed_serve_args(arguments)
    engine = Engine(transformers.AutoTokenizer.from_pretrained(model))
    of_model = config.ModelConfig(str(model), str(model), "auto", trust_remote_code=False, dtype="float32", seed=0)
    app = api.build_app(arguments)
    api.init_app_state(engine, of_model, app.state, arguments)
    lines = Lines()
    logger = logging.getLogger("vllm")
    logger.addHandler(lines)
    try:
        yield Server(engine, testing.TestClient(app), lines)
    finally:
        logger.removeHandler(lines)


# --- answers ----------------------------------------------------------------------------------------------------


def cuts(chat: chats.Chat) -> Iterator[list[str]]:
    """Yield the pieces of every way to cut the output."""
    behind = [""] if chat.ends == "behind it" else []
    output = chat.output
    if chat.cut == "whole":
        yield [output, *behind]
        return
    yield [*output, *behind]
    if chat.cut == "everywhere":
        yield from ([output[:place], output[place:], *behind] for place in range(len(output) + 1))


def request_of(chat: chats.Chat) -> Json:
    return {
        "messages": [{"role": "user", "content": "What does <think> mean?"}],
        "chat_template": TEMPLATES[chat.template],
        "n": chat.n,
        **chat.extra,
    }


def whole(server: Server, chat: chats.Chat) -> list[Json]:
    """Return the choices of the whole answer."""
    answer = server.post(request_of(chat))
    body = answer.json()
    if answer.status_code != 200:
        return [{"status": answer.status_code, "message": body["message"]}]
    return [
        {
            "content": choice["message"]["content"],
            "thought": choice["message"].get("reasoning_content"),
            "calls": [[c["function"]["name"], c["function"]["arguments"]] for c in choice["message"]["tool_calls"]],
            "finish_reason": choice["finish_reason"],
        }
        for choice in body["choices"]
    ]


def streamed(server: Server, chat: chats.Chat) -> list[Json]:
    """Return the choices of the streamed answer, put together as a client does."""
    answer = server.post({**request_of(chat), "stream": True})
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    if events[-1] != "[DONE]":
        return [{"status": answer.status_code, "message": answer.text}]
    choices: list[Json] = [
        {"content": "", "thought": "", "calls": [], "heads": [], "finish_reason": []} for _ in range(chat.n)
    ]
    for event in events[:-1]:
        data = json.loads(event)
        if "choices" not in data:
            return [{"status": answer.status_code, "message": data["message"]}]
        for choice in data["choices"]:
            add(choices[choice["index"]], choice)
    return choices


def add(found: Json, choice: Json) -> None:
    """Add a piece of the stream to a choice."""
    delta = choice["delta"]
    found["content"] += delta.get("content") or ""
    found["thought"] += delta.get("reasoning_content") or ""
    for call in delta.get("tool_calls") or []:
        if call["index"] == len(found["calls"]):
            found["calls"].append(["", ""])
            found["heads"].append(f"{call.get('id', '').rstrip('0123456789abcdef')} {call.get('type')}")
        found["calls"][call["index"]][0] += call["function"].get("name") or ""
        found["calls"][call["index"]][1] += call["function"].get("arguments") or ""
    if choice.get("finish_reason"):
        found["finish_reason"].append(choice["finish_reason"])


def answers(server: Server, chat: chats.Chat) -> Json:
    """Return the whole answer, the different streamed ones, and what was logged for each."""
    server.engine.finish_reason, server.engine.n = chat.finish_reason, chat.n
    server.engine.pieces = [chat.output]
    server.lines.found.clear()
    found: Json = {
        "whole": whole(server, chat),
        "lines": list(server.lines.found),
        "streamed": [],
        "streamed lines": [],
    }
    for pieces in cuts(chat):
        server.engine.pieces = pieces
        server.lines.found.clear()
        answer = streamed(server, chat)
        if answer not in found["streamed"]:
            found["streamed"].append(answer)
        if server.lines.found not in found["streamed lines"]:
            found["streamed lines"].append(list(server.lines.found))
    if chat.at_any_byte:
        found["cut"] = list(cut_at_bytes(server, chat))
    return found


def cut_at_bytes(server: Server, chat: chats.Chat) -> Iterator[list[Any]]:
    """Yield for each number of bytes after which the output ends: the output, its whole and its streamed answer."""
    letters = chat.output.encode()
    for length in range(len(letters) + 1):
        server.engine.pieces = [*letters[:length].decode(errors="replace"), ""]
        server.engine.finish_reason = "length"
        yield ["".join(server.engine.pieces), whole(server, chat), streamed(server, chat)]


def limits(server: Server, extra: Json) -> Json:
    """Return how many tokens the engine is asked for at most, or what the server says."""
    server.engine.pieces, server.engine.asked, server.engine.n = ["Yes."], None, 1
    body = {**request_of(chats.Chat("", "")), **extra}
    if extra.get("use_beam_search"):  # the server asks its own engines alone for beams
        request: Any = importlib.import_module("vllm.entrypoints.openai.protocol").ChatCompletionRequest
        try:
            return {"limit": request(model="llm", **body).to_beam_search_params(1).max_tokens}
        except ValueError as fault:
            return {"status": 400, "message": str(fault)}
    answer = server.post(body)
    if server.engine.asked is None:
        return {"status": answer.status_code, "message": answer.json()["message"]}
    return {"status": answer.status_code, "limit": server.engine.asked.max_tokens}


def started(model: Path, flags: list[str]) -> Json:
    """Return how a start with these flags ends."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), served(model, flags):
            return {"started": True}
    except SystemExit:
        return {"started": False, "said": said.getvalue()}
    except Exception as fault:  # noqa: BLE001 - whatever the tree raises is the finding
        return {"started": False, "said": str(fault)}


def results(model: Path, names: list[str]) -> Json:
    """Return the answers to the chats of these names, to all where none is given."""
    starts = {name: started(model, flags) for name, flags in chats.FLAGS.items()}
    found: Json = {"starts": starts}
    flags = [flag for name in ("tools", "reasoning") if starts[name]["started"] for flag in chats.FLAGS[name]]
    with served(model, flags) as server:
        for chat in (*chats.TOOL_CHATS, *chats.REASONING_CHATS):
            if not names or chat.name in names:
                found[chat.name] = answers(server, chat)
        found["limits"] = {name: limits(server, copy.deepcopy(extra)) for name, extra in chats.LIMITS.items()}
    return found


def main(result: Path, names: list[str]) -> None:
    vllm: Any = importlib.import_module("vllm")
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder))
        found = results(Path(folder), names)
    result.write_text(json.dumps({"file": vllm.__file__, **found}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
