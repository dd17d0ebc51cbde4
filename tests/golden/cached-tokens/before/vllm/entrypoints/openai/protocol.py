"""What goes over the wire, as far as the stage meets it."""
from typing import Optional

from pydantic import BaseModel


class UsageInfo(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: Optional[int] = 0


class RequestResponseMetadata(BaseModel):
    final_usage_info: Optional[UsageInfo] = None
