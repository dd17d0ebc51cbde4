"""Starts the server, as far as the stage meets it."""
from vllm.entrypoints.openai.serving_chat import OpenAIServingChat


def init_app_state(engine_client, state, args) -> None:
    state.engine_client = engine_client

    state.openai_serving_chat = OpenAIServingChat(
        engine_client,
        tool_parser=args.tool_call_parser)
    state.openai_serving_chat.reasoning_parser = args.reasoning_parser
    state.ready = True
