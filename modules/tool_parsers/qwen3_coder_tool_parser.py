"""The `qwen3_coder` tool parser of the OpenAI server: calls in the XML form of Qwen3-Coder and its successors.

A call is sent when it is complete, in one piece, so that one which stays unfinished can still be given as text.
Each that is left as text is logged, with the reason and without what the model wrote.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Sequence

from vllm.entrypoints.openai.protocol import (
    ChatCompletionRequest,
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
    ExtractedToolCallInformation,
    FunctionCall,
    ToolCall,
)
from vllm.entrypoints.openai.tool_parsers.abstract_tool_parser import ToolParser, ToolParserManager
from vllm.entrypoints.openai.tool_parsers.qwen3_coder_syntax import Call, CallScanner, Event, Refused, Text, scan
from vllm.entrypoints.openai.tool_parsers.qwen3_coder_values import arguments_of
from vllm.logger import init_logger
from vllm.utils import random_uuid

if TYPE_CHECKING:
    from vllm.transformers_utils.tokenizer import AnyTokenizer

logger = init_logger(__name__)


@ToolParserManager.register_module("qwen3_coder")
class Qwen3CoderToolParser(ToolParser):
    """Finds the calls of one answer; a streamed answer has an instance of its own."""

    sends_whole_calls = True

    def __init__(self, tokenizer: AnyTokenizer) -> None:
        super().__init__(tokenizer)
        self._scanner = CallScanner()
        self._request: ChatCompletionRequest | None = None

    def extract_tool_calls(self, model_output: str, request: ChatCompletionRequest) -> ExtractedToolCallInformation:
        """Return the calls and the text of a whole answer."""
        text, calls = _read(scan(model_output), request)
        return ExtractedToolCallInformation(
            tools_called=bool(calls),
            tool_calls=[
                ToolCall(function=FunctionCall(name=name, arguments=json.dumps(values))) for name, values in calls
            ],
            content=text or None,
        )

    def extract_tool_calls_streaming(  # noqa: PLR0913, PLR0917 - the signature of every tool parser
        self,
        previous_text: str,  # noqa: ARG002 - the scanner keeps what it needs
        current_text: str,  # noqa: ARG002
        delta_text: str,
        previous_token_ids: Sequence[int],  # noqa: ARG002 - the form is found in the text
        current_token_ids: Sequence[int],  # noqa: ARG002
        delta_token_ids: Sequence[int],  # noqa: ARG002
        request: ChatCompletionRequest,
    ) -> DeltaMessage | None:
        """Return what another piece of the answer decides, None for nothing yet."""
        self._request = request
        return self._message(self._scanner.feed(delta_text))

    def finish(self, delta: DeltaMessage | None) -> DeltaMessage:
        """Return the last message of the answer: `delta` and what was kept back."""
        rest = self._message(self._scanner.close())
        parts = [part for part in (delta, rest) if part is not None]
        return _delta(
            "".join(part.content or "" for part in parts), [call for part in parts for call in part.tool_calls]
        )

    def _message(self, events: list[Event]) -> DeltaMessage | None:
        text, calls = _read(events, self._request)
        sent = []
        for name, values in calls:
            arguments = json.dumps(values)
            # The server asks these whether tools were called.
            self.prev_tool_call_arr.append({"name": name, "arguments": values})
            self.streamed_args_for_tool.append(arguments)
            self.current_tool_id += 1
            sent.append(
                DeltaToolCall(
                    id="chatcmpl-tool-" + random_uuid(),
                    type="function",
                    index=self.current_tool_id,
                    function=DeltaFunctionCall(name=name, arguments=arguments),
                )
            )
        return _delta(text, sent) if text or sent else None


def _delta(text: str, calls: list[DeltaToolCall]) -> DeltaMessage:
    """Return a message with the fields that say something: those that are set are sent."""
    fields: dict[str, Any] = {}
    if text:
        fields["content"] = text
    if calls:
        fields["tool_calls"] = calls
    return DeltaMessage(**fields)


def _read(events: list[Event], request: ChatCompletionRequest | None) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """Return the text and the typed calls among `events`; log what is not as it should be."""
    tools = (request.tools if request is not None else None) or []
    schemas = {tool.function.name: tool.function.parameters for tool in tools}
    text = ""
    calls = []
    for event in events:
        if isinstance(event, Text):
            text += event.text
        elif isinstance(event, Refused):
            logger.warning("A tool call at character %d is left as text: %s.", event.offset, event.reason)
        elif isinstance(event, Call):
            arguments = arguments_of(event.parameters, schemas.get(event.name))
            if arguments.mistyped:
                logger.warning(
                    "Tool call: %d argument(s) not of a type in the tool's schema, given as strings.",
                    len(arguments.mistyped),
                )
            calls.append((event.name, arguments.values))
    return text, calls
