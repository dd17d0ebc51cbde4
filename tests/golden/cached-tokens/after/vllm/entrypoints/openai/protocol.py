"""What goes over the wire, as far as the stage meets it."""
from typing import Optional

from pydantic import BaseModel
from vllm.entrypoints.openai.cached_tokens import PromptTokensDetails


class UsageInfo(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: Optional[int] = 0
    prompt_tokens_details: Optional[PromptTokensDetails] = None


class RequestResponseMetadata(BaseModel):
    final_usage_info: Optional[UsageInfo] = None
