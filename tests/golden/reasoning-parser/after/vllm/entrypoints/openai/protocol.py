"""What travels, as far as the stage meets it."""
from typing import Optional

from pydantic import BaseModel


class ChatMessage(BaseModel):
    role: str
    content: Optional[str] = None
    reasoning_content: Optional[str] = None


class DeltaMessage(BaseModel):
    # all of it is optional
    role: Optional[str] = None
    content: Optional[str] = None
    reasoning_content: Optional[str] = None


class ChatCompletionNamedToolChoiceParam(BaseModel):
    type: str = "function"


class ChatCompletionRequest(BaseModel):
    content: Optional[str] = None


class ChatCompletionResponseChoice(BaseModel):
    message: ChatMessage
