"""`match`: where a pattern matches, while it is written."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from orchestrator.cli.options import (
    FileOption,
    JsonOption,
    OfflineOption,
    Request,
    SetOption,
    TargetOption,
    TreeOption,
    VariantOption,
    WorkspaceOption,
)
from orchestrator.core.diagnostics import Diagnostic, ExitCode, Place, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orchestrator.code.looking import Seen
    from orchestrator.code.patterns import Pattern
    from orchestrator.code.source import Source
    from orchestrator.code.template import Template
    from orchestrator.engine.plan import Plan

PATTERN, WITH = "PATTERN", "--with"
"""What the texts of the command line are called where something is wrong with them."""
T = TypeVar("T")
MAX_BYTES = 4 * 2**20


def command(
    pattern: Annotated[str, typer.Argument(help="Python code with holes, as in `match:`.")],
    code: Annotated[str, typer.Argument(metavar="FILE", help="A file, one of the base tree, or - for stdin.")],
    within: Annotated[str | None, typer.Option("--within", help="The definition to search, by qualified name.")] = None,
    with_: Annotated[str | None, typer.Option(WITH, help="A replacement: show what an edit would do.")] = None,
    workspace: WorkspaceOption = Path(),
    file: FileOption = "pipeline.yaml",
    target: TargetOption = None,
    variant: VariantOption = None,
    settings: SetOption = None,
    tree: TreeOption = None,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
) -> int:
    """Show every site of a pattern: its place, the code, what each hole took, and how many there are.

    FILE is a file on disk, else one of the base tree of the workspace's target, such as vllm/sequence.py; with
    --target or --tree it is always one of that tree. Exit 1 if there is no site. With --with the edit is tried: what it
    would change is shown, or why it would be refused, as one that matches its own result (exit 4).

    Example: orchestrator match 'BLOCK = ${a} if ${cond} else ${b}' vllm/attention/ops/prefix_prefill.py
    """
    from orchestrator.cli.output import print_diagnostics
    from orchestrator.cli.steps import Stopped, deeply

    request = Request(
        workspace, file, target, variant, tuple(settings or ()), tuple(tree or ()), offline, command="match"
    )
    texts = {PATTERN: pattern, WITH: with_ or ""}
    try:
        return int(deeply(lambda: _look(request, code, within, texts, replacing=with_ is not None, as_json=as_json)))
    except Stopped as stopped:
        print_diagnostics(stopped.diagnostics, _lines(texts), as_json=as_json)
        return stopped.exit_code


def _look(
    request: Request, file: str, within: str | None, texts: dict[str, str], *, replacing: bool, as_json: bool
) -> ExitCode:
    from orchestrator.cli.output import console, print_diagnostics, print_records
    from orchestrator.cli.steps import Stopped
    from orchestrator.code.looking import look, nearest

    values = _values(request, "".join(texts.values()))
    pattern = _pattern(texts[PATTERN], values)
    template = _template(texts[WITH], values, pattern) if replacing else None
    source = _source(request, file, texts)
    try:
        sites = look(pattern, source, within)
    except Rejected as error:
        raise Stopped(error.diagnostics, ExitCode.USAGE) from None
    change, refused = _tried(pattern, template, source, within, len(sites))
    records: list[dict[str, Any]] = [site.record() for site in sites]
    records.append({"event": "matched", "file": source.path, "count": len(sites)})
    if replacing:
        records[-1] |= {"closed": refused is None, "patch": change}
    if as_json:
        print_records(records)
    else:
        _print(sites, source, texts[PATTERN], change)
        console(stderr=True).print(f"{len(sites)} site{'s' * (len(sites) != 1)} in {source.path}")
    lines = _lines({**texts, source.path: source.text})
    if refused is not None:
        print_diagnostics([refused], lines, as_json=as_json)
        return ExitCode.NOT_APPLIED
    if not sites:
        print_diagnostics([nearest(pattern, source, within)], lines, as_json=as_json)
        return ExitCode.NO
    return ExitCode.OK


def _print(sites: tuple[Seen, ...], source: Source, text: str, change: str) -> None:
    from orchestrator.cli.output import console
    from orchestrator.emit.seen import seen_text

    holes = list(dict.fromkeys(re.findall(r"(?<!\$)\$\{(\w+(?:\.\.\.)?)\}", text)))
    for site in sites:
        console().print(seen_text(site, source.lines[site.place.line - 1], holes), end="")
    if change:
        sys.stdout.write(change)


def _values(request: Request, text: str) -> Mapping[str, Any]:
    """Return the values that a pattern may refer to: those of the workspace, where the pattern asks for any."""
    if not re.search(r"(?<!\$)\$\{\w+\.[^.}]", text):
        return {}
    return _facts(request)[1]


def _facts(request: Request) -> tuple[Plan, Mapping[str, Any]]:
    """Return the workspace's target, as a plan without stages, and the values; the stages may still be wrong."""
    from orchestrator.cli.steps import Stopped, pipeline_of, settings_of, workspace_files
    from orchestrator.engine.load import Choice, WrongChoice, load_facts
    from orchestrator.engine.plan import Plan, facts_of

    files = workspace_files(request)
    content = pipeline_of(files.read, request)
    try:
        choice = Choice(request.variant, settings_of(request.settings), request.target)
        target, values = load_facts(request.file, content, files.read, choice)
    except WrongChoice as error:
        raise Stopped(error.diagnostics, ExitCode.USAGE) from None
    except Rejected as error:
        raise Stopped(error.diagnostics, ExitCode.INVALID) from None
    return Plan("match", target, facts_of(target, values), values, (), {}, {}, files.read), values


def _pattern(text: str, values: Mapping[str, Any]) -> Pattern:
    from orchestrator.code.patterns import compile_pattern

    return _compiled(lambda: compile_pattern(text, values, PATTERN), text, PATTERN)


def _template(text: str, values: Mapping[str, Any], pattern: Pattern) -> Template:
    from orchestrator.code.template import compile_template

    return _compiled(lambda: compile_template(text, values, pattern.holes, WITH), text, WITH)


def _compiled(make: Callable[[], T], text: str, name: str) -> T:
    """Return what `make` makes of a text; stop (invalid) with a place in the text for whatever is wrong with it."""
    from orchestrator.cli.steps import Stopped

    try:
        return make()
    except Rejected as error:
        found = [_placed(each, text, name) for each in error.diagnostics]
        raise Stopped(tuple(found), ExitCode.INVALID) from None


def _placed(found: Diagnostic, text: str, name: str) -> Diagnostic:
    """Return a diagnostic at the reference that it speaks of, else at the start of the text."""
    spoken = re.search(r"\$\{[^}]*\}", found.message)
    at = text.find(spoken.group()) if spoken else -1
    if at < 0 or spoken is None:
        return found.at(Place(name, 1, 1, max(1, len(text.split("\n", maxsplit=1)[0]))))
    line = text.count("\n", 0, at) + 1
    return found.at(Place(name, line, at - text.rfind("\n", 0, at), len(spoken.group())))


def _source(request: Request, file: str, texts: dict[str, str]) -> Source:
    """Return the file to look at, its text put to `texts`; stop (usage) where it is none that can be."""
    from orchestrator.cli.steps import Stopped
    from orchestrator.code.source import Source

    raw = _read(request, file)
    name = "stdin" if file == "-" else file
    if len(raw) > MAX_BYTES:
        raise _cannot(f"{name} has {len(raw):,} bytes; at most {MAX_BYTES:,} are read")
    if b"\0" in raw:
        raise _cannot(f"{name} is binary, not Python")
    source = Source(name, raw)
    texts[name] = raw.decode("utf-8-sig", errors="replace")
    try:
        _ = source.tree
    except Rejected as error:
        raise Stopped(error.diagnostics, ExitCode.USAGE) from None
    return source


def _read(request: Request, file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    path = Path(file)
    if not request.trees and request.target is None:
        try:
            if path.is_file():
                with path.open("rb") as opened:
                    return opened.read(MAX_BYTES + 1)
            if path.exists():
                raise _cannot(f"{file} is no ordinary file")
        except (OSError, ValueError) as error:
            raise _cannot(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not request.trees and request.target is None and not (request.workspace / request.file).exists():
        raise _cannot(f"there is no file {file}, and no {request.file} whose base tree could have it")
    return _of_tree(request, file)


def _of_tree(request: Request, file: str) -> bytes:
    from orchestrator.cli.steps import Stopped, origin_exit, tree_of
    from orchestrator.engine.ground import file_gone

    plan, _ = _facts(request)
    try:
        tree = tree_of(plan, request).tree
    except Rejected as error:
        raise Stopped(error.diagnostics, origin_exit(error.diagnostics)) from None
    if file not in tree:
        found = file_gone(file, tree)
        raise _cannot(f"{found.message}, and not on disk", found.help)
    return tree[file]


def _cannot(message: str, help_: str = "Name a Python file, on disk or of the base tree.") -> Exception:
    from orchestrator.cli.steps import Stopped

    return Stopped.usage("E129", message, help_)


def _tried(
    pattern: Pattern, template: Template | None, source: Source, within: str | None, count: int
) -> tuple[str, Diagnostic | None]:
    """Return the patch that an edit with this replacement would make, or why it would be refused."""
    from orchestrator.code.looking import replaced
    from orchestrator.emit.patches import patch_of

    if template is None:
        return "", None
    try:
        after = replaced(pattern, template, source, within, count)
    except Rejected as error:
        return "", error.diagnostics[0]
    return patch_of({source.path: source.raw}, {source.path: after.raw}).decode("utf-8", errors="replace"), None


def _lines(known: Mapping[str, str]) -> Callable[[str, int], str | None]:
    def line(file: str, number: int) -> str | None:
        lines = known[file].splitlines() if file in known else []
        return lines[number - 1] if 0 < number <= len(lines) else None

    return line
