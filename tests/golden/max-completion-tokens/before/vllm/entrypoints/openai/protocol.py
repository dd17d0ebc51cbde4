"""What travels, as far as the stage meets it."""
from typing import Optional

from pydantic import BaseModel, model_validator


class ChatCompletionRequest(BaseModel):
    model: str
    max_tokens: Optional[int] = None
    n: Optional[int] = 1

    # the model decides
    user: Optional[str] = None

    def to_sampling_params(self, default_max_tokens: int):
        max_tokens = self.max_tokens
        if max_tokens is None:
            max_tokens = default_max_tokens
        return max_tokens

    @model_validator(mode="before")
    @classmethod
    def check_user(cls, data):
        return data


class CompletionRequest(BaseModel):
    max_tokens: Optional[int] = 16
