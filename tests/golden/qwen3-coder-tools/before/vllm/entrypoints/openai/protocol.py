"""What travels, as far as the stage meets it."""
from typing import List, Optional

from pydantic import BaseModel


class ChatCompletionRequest(BaseModel):
    tools: Optional[list] = None


class DeltaFunctionCall(BaseModel):
    name: Optional[str] = None
    arguments: Optional[str] = None


class DeltaToolCall(BaseModel):
    id: str
    type: str
    index: int
    function: DeltaFunctionCall


class DeltaMessage(BaseModel):
    content: Optional[str] = None
    tool_calls: List[DeltaToolCall] = []


class FunctionCall(BaseModel):
    name: str
    arguments: str


class ToolCall(BaseModel):
    function: FunctionCall


class ExtractedToolCallInformation(BaseModel):
    tools_called: bool
    tool_calls: List[ToolCall]
    content: Optional[str] = None
