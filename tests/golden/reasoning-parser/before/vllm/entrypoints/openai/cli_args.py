"""The options of the server, as far as the stage meets them."""
import argparse

from vllm.engine.arg_utils import AsyncEngineArgs


def make_arg_parser(parser: argparse.ArgumentParser):
    parser.add_argument("--tool-call-parser", type=str, default=None)

    # the engine's own
    parser = AsyncEngineArgs.add_cli_args(parser)
    return parser
