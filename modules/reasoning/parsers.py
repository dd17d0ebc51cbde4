"""The reasoning parsers by name, and what the chat server asks of one while it answers a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Sequence

from vllm.entrypoints.openai.protocol import (
    ChatCompletionNamedToolChoiceParam,
    ChatCompletionRequest,
    ChatMessage,
    DeltaMessage,
)
from vllm.reasoning.thought import Split, Start, ThoughtSplitter, split, start_after, start_within
from vllm.transformers_utils.tokenizer import AnyTokenizer

if TYPE_CHECKING:
    from vllm.outputs import CompletionOutput

Conversation = List[Mapping[str, Any]]

_PROMPT_END = 64  # tokens: enough for the tags of an empty thought, spelt out letter by letter


class Verbatim:
    """Without a reasoning parser, and where decoding is guided: every output is an answer."""

    def whole(self, prompt: Sequence[int] | None, output: CompletionOutput) -> tuple[str, str]:  # noqa: ARG002 - as below
        """Return the thought and the answer in a whole output; `prompt` is its token ids."""
        return "", output.text

    def piece(self, prompt: Sequence[int] | None, output: CompletionOutput) -> tuple[str, str]:  # noqa: ARG002 - as below
        """Return what a piece of output adds to the thought and to the answer."""
        return "", output.text


class Qwen3Thoughts(Verbatim):
    """The thoughts in the outputs for one request.

    Whether an output begins inside a thought is read off its prompt: Qwen's chat templates open the thought there, or
    put an empty one there when thinking is switched off.
    """

    def __init__(self, request: ChatCompletionRequest, conversation: Conversation, tokenizer: AnyTokenizer) -> None:
        self._tokenizer = tokenizer
        self._splitters: dict[int, ThoughtSplitter] = {}
        self._start = Start.EITHER
        last = conversation[-1].get("content") if conversation else None
        self._continued = request.continue_final_message and isinstance(last, str)
        if self._continued:
            self._start = start_within(last)

    def whole(self, prompt: Sequence[int] | None, output: CompletionOutput) -> tuple[str, str]:
        """Return the thought and the answer in a whole output; `prompt` is its token ids."""
        self._note(prompt)
        return split(output.text, self._start)

    def piece(self, prompt: Sequence[int] | None, output: CompletionOutput) -> tuple[str, str]:
        """Return what a piece of output adds to the thought and to the answer."""
        self._note(prompt)
        splitter = self._splitters.setdefault(output.index, ThoughtSplitter(self._start))
        found = splitter.feed(output.text)
        if output.finish_reason is None:
            return found
        rest = splitter.close()
        return Split(found.thought + rest.thought, found.answer + rest.answer)

    def _note(self, prompt: Sequence[int] | None) -> None:
        """Note where outputs begin; a streamed answer gives its prompt with the first pieces alone."""
        if prompt and not self._continued:
            end = list(prompt[-_PROMPT_END:])
            self._start = start_after(self._tokenizer.decode(end, skip_special_tokens=False))


Parser = Callable[[ChatCompletionRequest, Conversation, AnyTokenizer], Verbatim]

REASONING_PARSERS: dict[str, Parser] = {"qwen3": Qwen3Thoughts}


def thoughts_of(
    parser: str | None, request: ChatCompletionRequest, conversation: Conversation, tokenizer: AnyTokenizer
) -> Verbatim:
    """Return what splits the outputs for a request, by the parser of this name (None: no parser)."""
    if parser is None or _guided(request):
        return Verbatim()
    return REASONING_PARSERS[parser](request, conversation, tokenizer)


def _guided(request: ChatCompletionRequest) -> bool:
    """Tell whether the output must have a form from its first token on, so that no thought can come before it."""
    guides = (request.guided_json, request.guided_regex, request.guided_choice, request.guided_grammar)
    return (
        isinstance(request.tool_choice, ChatCompletionNamedToolChoiceParam)
        or (request.response_format is not None and request.response_format.type == "json_object")
        or any(guide is not None for guide in guides)
    )


def with_thought(message: ChatMessage, thought: str) -> ChatMessage:
    """Return the message of a whole answer with its thought; a thought alone has no content."""
    if not thought:
        return message
    return message.model_copy(update={"reasoning_content": thought, "content": message.content or None})


def delta_with_thought(delta: DeltaMessage | None, thought: str) -> DeltaMessage | None:
    """Return a streamed message with a piece of the thought; an empty content beside it is left out."""
    if not thought:
        return delta
    said = delta.model_dump(exclude_unset=True) if delta is not None else {}
    if not said.get("content"):
        said.pop("content", None)
    return DeltaMessage(reasoning_content=thought, **said)
