"""Is code that fits neither before nor after a stage that stage's work, changed since? And what is different?"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from orchestrator.code.edits import Assign, Replace
from orchestrator.code.patterns import compile_pattern
from orchestrator.code.rewrite import examine
from orchestrator.code.scopes import FILE, MODULE, enclosing, first_line, named
from orchestrator.code.sites import Present
from orchestrator.code.template import compile_template
from orchestrator.code.tokens import tokens_of
from orchestrator.core.diagnostics import Rejected
from orchestrator.spec.edits import AssignEdit, ReplaceEdit

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Mapping
    from typing import Any

    from orchestrator.checks.view import Sources
    from orchestrator.code.scopes import Definition
    from orchestrator.code.source import Source
    from orchestrator.engine.plan import PlannedEdit
    from orchestrator.spec.edits import AnyEdit

ALIKE = 0.5
NEARLY = 0.75  # two spellings of one line
MAX_LINES = 2_000  # difflib is quadratic
MAX_NEAR, MAX_WIDTH = 200, 500  # lines that are compared letter by letter, and their length
_VALUE = re.compile(r"(?<!\$)\$\{([A-Za-z_]\w*)\.([\w.-]+)\}")


def lines_of(definition: Definition, raw: bytes | None, sources: Sources) -> list[str]:
    """Return the lines of code of a definition, stripped, without comments; [] where it is not there."""
    if raw is None:
        return []
    try:
        source = sources.get(definition.file, raw)
        nodes = named(source, None if definition.name in {MODULE, FILE} else definition.name)
    except Rejected:
        return []
    found = [line for node in nodes for line in _numbers(node, source)]
    text = (source.lines[number - 1].strip() for number in found)
    return [line for line in text if line and not line.startswith("#")]


def _numbers(node: ast.AST, source: Source) -> range:
    end = getattr(node, "end_lineno", None)
    return range(first_line(node), end + 1) if end else range(1, len(source.lines) + 1)  # type: ignore[arg-type] # a definition


def holds_the_work(before: list[str], after: list[str], now: list[str]) -> bool:
    """Tell whether `now` has what a stage made of `before`: its lines, exactly or nearly, and not those it removed."""
    removed, added = Counter(before) - Counter(after), Counter(after) - Counter(before)
    if not added or len(now) > MAX_LINES or any(line in now for line in removed):
        return False
    new = [line for line in now if line not in before and len(line) <= MAX_WIDTH][:MAX_NEAR]
    missing = [line for line in added if line not in now]
    near = sum(_is_near(line, new, removed) for line in missing[:MAX_NEAR] if len(line) <= MAX_WIDTH)
    return len(added) - len(missing) + near >= ALIKE * len(added)


def _is_near(line: str, new: Iterable[str], removed: Iterable[str]) -> bool:
    matcher = difflib.SequenceMatcher(None, autojunk=False)
    for other in new:
        matcher.set_seq2(other)
        matcher.set_seq1(line)
        likeness = matcher.ratio() if matcher.quick_ratio() >= NEARLY else 0.0
        if likeness >= NEARLY and all(_ratio(old, other) < likeness for old in removed):
            return True
    return False


def _ratio(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def alike(one: bytes, other: bytes) -> bool:
    """Tell whether two files have half of their lines in common."""
    left, right = one.splitlines(), other.splitlines()
    common = sum((Counter(left) & Counter(right)).values())
    return 2 * common >= ALIKE * (len(left) + len(right))


def same_code(path: str, one: bytes, other: bytes) -> bool:
    """Tell whether two Python files differ in comments and layout at most."""
    if not path.endswith(".py"):
        return False
    try:
        return _tokens(one) == _tokens(other)
    except (SyntaxError, ValueError, Rejected):
        return False


def _tokens(raw: bytes) -> list[str]:
    text = raw.decode("utf-8-sig")
    return tokens_of("\n".join(text.splitlines()) + "\n")


def with_other_values(
    planned: PlannedEdit, written: AnyEdit, source: Source, values: Mapping[str, Any], *, alone: bool
) -> str | None:
    """Return the code that an edit would have written with other parameters, None if there is none.

    `alone` also takes an assignment of whatever value for one where the value is all that the edit says.
    """
    scoped = planned.edit
    edit = scoped.edit
    if isinstance(written, AssignEdit) and isinstance(edit, Assign):
        text = written.value
    elif isinstance(written, ReplaceEdit) and isinstance(edit, Replace):
        text = written.with_
    else:
        return None
    holed = _VALUE.sub(lambda match: "${value_" + re.sub(r"\W", "_", "_".join(match.groups())) + "}", text)
    if holed == text or (_VALUE.fullmatch(text.strip()) and not alone):
        return None
    try:
        holes = compile_pattern(holed, values).holes
        template = compile_template(holed, values, frozenset(holes))
        general = replace(edit, value=template) if isinstance(edit, Assign) else replace(edit, template=template)
        state = examine(general, source, scoped.within)
    except Rejected:
        return None
    return state.sites[0].code if isinstance(state, Present) else None


def difference(definition: Definition, wanted: bytes | None, now: bytes | None, sources: Sources) -> str:
    """Return the unified diff from what the pipeline makes of a file to what is there, as far as a definition goes."""
    if wanted is None or now is None:
        return ""
    old, new = (_text(raw) for raw in (wanted, now))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) > MAX_LINES)
    shown: list[str] = []
    for group in matcher.get_grouped_opcodes(1):
        changed = [code for code in group if code[0] != "equal"]
        if any(_within(definition, code, wanted, now, sources) for code in changed):
            shown.append(f"@@ -{group[0][1] + 1} +{group[0][3] + 1} @@")
            for tag, i1, i2, j1, j2 in group:
                shown += [f" {line}" for line in old[i1:i2]] if tag == "equal" else [f"-{line}" for line in old[i1:i2]]
                shown += [] if tag == "equal" else [f"+{line}" for line in new[j1:j2]]
    head = [f"--- {definition.file} (the pipeline)", f"+++ {definition.file} (here)"]
    return "\n".join([*head, *shown]) + "\n" if shown else ""


def _text(raw: bytes) -> list[str]:
    return raw.decode("utf-8", errors="replace").splitlines()


def _within(
    definition: Definition, code: tuple[str, int, int, int, int], wanted: bytes, now: bytes, sources: Sources
) -> bool:
    if definition.name == FILE:
        return True
    _, i1, i2, j1, j2 = code
    try:
        sides = ((sources.get(definition.file, wanted), i1, i2), (sources.get(definition.file, now), j1, j2))
        return any(
            enclosing(source.tree, line) == definition.name
            for source, start, end in sides
            for line in range(start + 1, end + 1)
        )
    except Rejected:
        return True
