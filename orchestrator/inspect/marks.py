"""Shell conditions that take a text, or a file that is there, for a sign that a patch is in: `grep -q x f || apply`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orchestrator.inspect.endings import Endings
from orchestrator.inspect.paths import joined
from orchestrator.inspect.session import Sign
from orchestrator.inspect.syntax import Binary, Call, If, Statement, Test, calls

if TYPE_CHECKING:
    from orchestrator.inspect.machine import Machine
    from orchestrator.inspect.text import Chunk

_PLAIN = re.compile(r"[^.^$*+?{}\[\]\\|()]+")
_THERE = frozenset({"-f", "-e", "-s"})


def note_signs(machine: Machine, chunk: Chunk, statement: Statement) -> None:
    """Keep what a condition asks for, where its success means that nothing is done and nothing fails."""
    endings = Endings(machine.state.functions, ())
    match statement.command:
        case Binary(op="||", x=x, y=y) if not endings.always_fails((y,)) and not endings.does_nothing((y,)):
            _note(machine, chunk, x)
        case Binary(op="&&", x=x, y=y) if _leaves((y,)) and not endings.always_fails((y,)):
            _note(machine, chunk, x)
        case If(condition=(asked,), then=then, other=other):
            there, absent = (other, then) if asked.negated else (then, other)
            works = bool(absent) and not endings.does_nothing(absent) and not endings.always_fails(absent)
            if (works or _leaves(there)) and not endings.always_fails(there):
                _note(machine, chunk, asked)


def _leaves(found: tuple[Statement, ...]) -> bool:
    return any(call.words and call.words[0].literal in {"exit", "return"} for call in calls(found))


def _note(machine: Machine, chunk: Chunk, asked: Statement) -> None:
    place = chunk.place(asked.start, max(1, asked.end - asked.start))
    match asked.command:
        case Call(words=given) if given:
            words = [text for word in given for text in machine.words(word)]
        case Test(comparisons=(only,)) if only.op in _THERE:
            words = ["[", only.op, *(machine.value(word) for word in (only.x, only.y) if word is not None)]
        case _:
            return
    operands = [word for word in words[1:] if not word.startswith("-") and word != "]"]
    if words[:1] and words[0] in {"[", "test"} and len(operands) == 1 and _THERE & set(words):
        machine.session.signs.append(Sign("", joined(machine.state.cwd, operands[0]), place))
    elif words[:1] and words[0] in {"grep", "fgrep", "egrep"} and len(operands) == 2 and "-v" not in words:  # noqa: PLR2004 - what for, and where
        fixed = words[0] == "fgrep" or any(re.match(r"-\w*F", word) for word in words)
        if fixed or _PLAIN.fullmatch(operands[0]):
            machine.session.signs.append(Sign(operands[0], joined(machine.state.cwd, operands[1]), place))
