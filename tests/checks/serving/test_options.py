"""The command line is read as Python's own argparse reads it: what it refuses is refused, and nothing else."""

from __future__ import annotations

import argparse
import contextlib
import io

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.checks.serving.argv import parse_argv, start_of, words
from orchestrator.checks.serving.flags import unknown_options
from orchestrator.checks.serving.options import Parser, parser_of
from orchestrator.checks.view import View
from orchestrator.core.diagnostics import Place
from orchestrator.core.tree import Tree

CODE = """\
parser.add_argument('--tensor-parallel-size', '-tp', type=str)
parser.add_argument('--max-model-len', type=str)
parser.add_argument('--max-num-seqs', type=str)
parser.add_argument('--block-size', choices=['8', '16'])
parser.add_argument('--enforce-eager', action='store_true')
parser.add_argument('--log', '-l', action='store_false')
parser.add_argument('--chunked', nargs='?', const='True')
parser.add_argument('--many', nargs='*')
parser.add_argument('--both', action=argparse.BooleanOptionalAction)
"""


class Strict(argparse.ArgumentParser):
    """Raises where argparse would end the program."""

    def error(self, message: str) -> None:  # type: ignore[override]  # it does not return, as the original
        raise ValueError(message)


def oracle() -> argparse.ArgumentParser:
    parser = Strict()
    exec(CODE, {"parser": parser, "argparse": argparse})  # noqa: S102 - the same text that is read below
    return parser


def read() -> Parser:
    tree = Tree({"vllm/arguments.py": CODE.encode()})
    found = parser_of(View(tree, tree), ("vllm/arguments.py",))
    assert found is not None
    return found


ORACLE, READ = oracle(), read()
NAMES = [
    "--tensor-parallel-size",
    "-tp",
    "--max-model-len",
    "--max-num-seqs",
    "--block-size",
    "--enforce-eager",
    "--log",
]
MORE = [
    "-l",
    "--chunked",
    "--many",
    "--both",
    "--no-both",
    "--max",
    "--max-m",
    "--tensor",
    "--b",
    "--other",
    "--enforce-eagerly",
]
VALUES = ["4", "8", "-1", "x"]
WORDS = st.sampled_from([*NAMES, *MORE, *(f"{name}=8" for name in NAMES if name.startswith("--")), "--other=1"])
ARGUMENTS = st.lists(st.tuples(WORDS, st.lists(st.sampled_from(VALUES), max_size=2)), max_size=5)


@settings(max_examples=400)
@given(ARGUMENTS)
def test_what_argparse_refuses_is_refused_and_what_it_takes_is_taken(given: list[tuple[str, list[str]]]) -> None:
    argv = [word for name, values in given for word in (name, *values)]
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            taken = vars(ORACLE.parse_args(argv))
    except ValueError:
        taken = None
    found = list(words(argv, READ.options))
    faults = list(unknown_options(found, READ, lambda _: Place("x"), {}))
    assert (taken is None) is bool(faults), [fault.message for fault in faults]
    if taken is not None:
        flags = parse_argv(argv, READ.options)
        for name in ("tensor-parallel-size", "max-model-len", "max-num-seqs", "block-size"):
            assert taken[name.replace("-", "_")] == flags.get(name)
        assert taken["enforce_eager"] is ("enforce-eager" in flags)


@given(st.lists(st.sampled_from(["python3", "-m", "server", "-u", "x"]), max_size=6))
def test_a_server_s_arguments_begin_behind_its_module(argv: list[str]) -> None:
    start = start_of(argv, "server")
    pairs = [i for i in range(len(argv) - 1) if argv[i : i + 2] == ["-m", "server"]]
    assert start == (pairs[0] + 2 if pairs else None)
