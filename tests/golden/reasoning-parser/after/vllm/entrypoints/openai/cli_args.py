"""The options of the server, as far as the stage meets them."""
import argparse

from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.reasoning.parsers import REASONING_PARSERS


def make_arg_parser(parser: argparse.ArgumentParser):
    parser.add_argument("--tool-call-parser", type=str, default=None)

    parser.add_argument(
        "--reasoning-parser",
        type=str,
        choices=list(REASONING_PARSERS),
        default=None,
        help="Select the reasoning parser depending on the model that you're "
        "using. What the model thinks is given as reasoning_content.")

    # the engine's own
    parser = AsyncEngineArgs.add_cli_args(parser)
    return parser
