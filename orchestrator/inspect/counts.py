"""Numbers of files that somebody typed into a shell script."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orchestrator.inspect.pyscript import typed_count
from orchestrator.inspect.syntax import Assign, Call, Comparison, Subst, Test, Var, Word, calls, nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from orchestrator.inspect.session import Session, ShellRun

_OPS = frozenset({"-eq", "-ne", "=", "==", "!=", "-lt", "-ge"})
_LISTING = frozenset({"ls", "find", "wc", "grep"})
MIN_COUNT = 3


def judge_shell_counts(session: Session) -> None:
    """Report comparisons of a number of files with a literal."""
    for run in session.runs.values():
        counted = _counted_names(run)
        for word, number in _comparisons(run, _numbers(run)):
            if int(number) >= MIN_COUNT and _is_count(word, counted):
                place = run.chunk.place(word.start, word.end - word.start)
                session.found.append(typed_count(f"the number of files, {number}, was typed by hand", place))


def _numbers(run: ShellRun) -> dict[str, str]:
    """Return the variables that hold a number that somebody wrote down, and nothing else."""
    found: dict[str, set[str]] = {}
    for node in nodes(run.statements):
        if isinstance(node, Assign) and node.value is not None:
            found.setdefault(node.name, set()).add(node.value.literal or "")
    return {
        name: next(iter(values)) for name, values in found.items() if len(values) == 1 and "".join(values).isdigit()
    }


def _comparisons(run: ShellRun, numbers: Mapping[str, str]) -> Iterator[tuple[Word, str]]:
    for found in nodes(run.statements):
        match found:
            case Test(comparisons=comparisons):
                for item in comparisons:
                    yield from _sides(item, numbers)
            case Call(words=words) if words and words[0].literal in {"[", "test"}:
                for x, op, y in zip(words[1:], words[2:], words[3:], strict=False):
                    yield from _sides(Comparison(op.literal or "", x, y), numbers)


def _sides(item: Comparison, numbers: Mapping[str, str]) -> Iterator[tuple[Word, str]]:
    if item.op not in _OPS or item.x is None or item.y is None:
        return
    for counted, number in ((item.x, item.y), (item.y, item.x)):
        spelled = number.literal or ""
        match number.parts:
            case (Var(name=name),) if name in numbers:
                spelled = numbers[name]
        if re.fullmatch(r"\d{1,9}", spelled):
            yield counted, spelled


def _counted_names(run: ShellRun) -> set[str]:
    """Return the variables that hold a count: of `… | wc -l`, of `grep -c`."""
    return {
        found.name
        for found in nodes(run.statements)
        if isinstance(found, Assign) and found.value and _counts_files(found.value)
    }


def _is_count(word: Word, counted: set[str]) -> bool:
    if word.literal in counted:  # as arithmetic names a variable
        return True
    for part in word.parts:
        if isinstance(part, Var) and (
            part.name in counted or (part.op == "#" and part.other and part.name not in {"", "#", "@"})
        ):
            return part.name not in {"@", "*"}
    return _counts_files(word)


def _counts_files(word: Word) -> bool:
    for part in word.parts:
        if isinstance(part, Subst):
            names = [call.words[0].literal for call in calls(part.statements) if call.words]
            if "wc" in names and {"ls", "find"} & set(names):
                return True
            if "wc" in names and names[0] in {"wc", "cat", "printf"}:
                return True
    return False
