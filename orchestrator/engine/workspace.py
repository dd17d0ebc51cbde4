"""What is wrong around the stages: copies that nothing uses, forgotten files, sources that git does not have.

Known without a tree. Pure: the folder is handed over as a listing, and with what git says of it.
"""

from __future__ import annotations

import dataclasses
import operator
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.code.likeness import Body
from orchestrator.core.diagnostics import Diagnostic, Place, Severity
from orchestrator.engine.claims import claims_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from orchestrator.engine.claims import Claim, Claims
    from orchestrator.engine.model import Waiver, WorkspaceWaiver
    from orchestrator.engine.plan import Plan

ALIKE = 0.9
"""From this likeness on a file is a copy of another, whatever it is called."""
ALIKE_NAMESAKE = 0.5
"""The same for a file of the same name."""
MIN_LINES = 20
"""A file of fewer lines is like many others; only an equal one is a copy of it."""
MIN_BODY = 200
"""Two equal files of fewer bytes need not be copies, unless they have one name."""
_TIMES, _TIMES_NAMESAKE = 2, 10
"""A file that is so many times as long as another is no copy of it, and need not be read."""
FOLDERS = ("kernels", "stages", "templates")
_KEPT = re.compile(r"(?:\.(?:bak|backup|old|orig|save|copy|\d{1,8})|~)+$", re.IGNORECASE)
"""What people and editors put behind the name of a file that they keep: `k.py.bak`, `k.py~`."""
_FINE = re.compile(
    r"(^|/)(__init__\.py|py\.typed|conftest\.py|(README|LICEN[CS]E|NOTICE)[^/]*|[^/]*\.md|\.[^/]*)$", re.IGNORECASE
)


@dataclass(frozen=True)
class Folder:
    """A workspace: its files with their sizes, how to read one, and what git says; `tracked` is None without git."""

    files: Mapping[str, int]
    read: Callable[[str], bytes | None]
    real: Callable[[str], str]
    tracked: frozenset[str] | None = None
    ignored: Callable[[Sequence[str]], frozenset[str]] = lambda _: frozenset()
    pipeline: str = "pipeline.yaml"
    whole: bool = True
    """Whether all of it was looked at."""


def judge_workspace(plan: Plan, folder: Folder) -> tuple[Diagnostic, ...]:
    """Return the findings about a workspace: E140, W141, E142, W142, and W890 for one that is too large to look at."""
    claims = claims_of(plan, folder.files, folder.read)
    used = claims.used | {folder.real(path) for path in claims.used} | _of_other_pipelines(folder)
    left = [path for path in folder.files if path not in used]
    copies = list(_copies(left, claims, folder))
    unused = list(_unused(left, claims, {path for path, _ in copies}))
    ignored = folder.ignored([path for path, _ in (*copies, *unused)])
    found = [finding for path, finding in (*copies, *unused) if path not in ignored]
    found += _not_in_git(plan, claims, folder)
    if not folder.whole:
        message = "the workspace holds too many files to look at them all: copies of sources may go unnoticed"
        help_ = "Give the pipeline a folder of its own."
        found.append(Diagnostic("W890", message, help=help_, severity=Severity.WARNING))
    waivers: list[Waiver | WorkspaceWaiver] = [
        *plan.waive,
        *(waiver for stage in plan.stages for waiver in stage.stage.waive),
    ]
    return tuple(_waived(finding, waivers) for finding in found)


def _waived(found: Diagnostic, waivers: Sequence[Waiver | WorkspaceWaiver]) -> Diagnostic:
    for waiver in waivers:
        if waiver.rule == found.code and (waiver.about is None or waiver.about in found.message):
            notes = (*found.notes, f"waived: {waiver.because}")
            return dataclasses.replace(found, severity=Severity.NOTE, notes=notes)
    return found


def _of_other_pipelines(folder: Folder) -> frozenset[str]:
    """Return the files that another pipeline of this folder speaks of: several may share their sources."""
    texts = [
        (folder.read(path) or b"").decode("utf-8", errors="replace")
        for path in folder.files
        if "/" not in path and path.endswith((".yaml", ".yml")) and path != folder.pipeline
    ]
    words = {word for text in texts if "\nstages:" in text for word in re.findall(r"[\w./+-]+", text)}
    return frozenset(
        path
        for path in folder.files
        if path in words or (path.startswith("stages/") and path[len("stages/") : -len(".py")] in words)
    )


def _tail(path: str) -> str:
    """Return the last two parts of a path, empty for one that has fewer."""
    return "/".join(path.split("/")[-2:]) if "/" in path else ""


# --- copies ---


def _copies(left: Sequence[str], claims: Claims, folder: Folder) -> Iterator[tuple[str, Diagnostic]]:
    mirrored: dict[str, str] = {}
    for target in claims.written:
        mirrored.setdefault(_tail(target), target)
    sources = [(claim, Body(folder.read(claim.source) or b"")) for claim in claims.named]
    for path in sorted(left):
        mirror = mirrored.get(_tail(path))
        if mirror is not None:
            what = f"'{path}' mirrors {mirror}, which stage '{claims.written[mirror]}' writes"
        else:
            twin = _twin(path, folder, sources)
            if twin is None:
                continue
            claim, share = twin
            what = f"'{path}' is a copy of '{claim.source}', which stage '{claim.stage}' uses"
            what += "" if share == 1 else f" ({share:.0%} of the lines)"
        message = f"{what}; no stage uses this one, so a change of it has no effect"
        help_ = f"Remove it, let a stage use it, or declare it: `waive: [{{rule: E140, about: {path}, because: …}}]`."
        yield path, Diagnostic("E140", message, Place(path), help=help_)


def _twin(path: str, folder: Folder, sources: Sequence[tuple[Claim, Body]]) -> tuple[Claim, float] | None:
    """Return the source that a file is a copy of, and how like it is; None where it is none."""
    plain = _KEPT.sub("", path)
    name, ending = posixpath.basename(plain), posixpath.splitext(plain)[1]
    near = []
    for claim, body in sources:
        namesake = name in {posixpath.basename(claim.source), posixpath.basename(claim.to)} and name != "__init__.py"
        times = _TIMES_NAMESAKE if namesake else _TIMES
        small, large = sorted((folder.files[path], len(body.content)))
        if posixpath.splitext(claim.source)[1] == ending and large < times * small:
            near.append((claim, body, namesake))
    if not near:
        return None
    own = Body(folder.read(path) or b"")
    alike = [(_share(own, body, namesake=namesake), claim) for claim, body, namesake in near]
    share, twin = max(alike, key=operator.itemgetter(0))
    return (twin, share) if share else None


def _share(one: Body, two: Body, *, namesake: bool) -> float:
    """Return how like two files are, 0 where they are no copies of each other."""
    if one.digest == two.digest:
        return 1.0 if namesake or len(one.content) >= MIN_BODY else 0.0
    if min(len(one.lines), len(two.lines)) < MIN_LINES:
        return 0.0
    least = ALIKE_NAMESAKE if namesake else ALIKE
    if min(len(one.lines), len(two.lines)) < least * max(len(one.lines), len(two.lines)):
        return 0.0
    share = one.likeness(two)
    return share if share >= least else 0.0


# --- files that nothing uses ---


def _unused(left: Sequence[str], claims: Claims, copies: set[str]) -> Iterator[tuple[str, Diagnostic]]:
    """Yield the files that lie among sources and are none: in the folders made for them, and beside deployed files."""
    beside = {
        (posixpath.dirname(claim.source), posixpath.splitext(claim.source)[1])
        for claim in claims.named
        if "/" in claim.source
    }
    for path in sorted(left):
        among = (posixpath.dirname(path), posixpath.splitext(path)[1]) in beside
        inside = path.startswith(tuple(f"{folder}/" for folder in FOLDERS))
        if path in copies or _FINE.search(path) or not (among or inside):
            continue
        message = f"no stage uses '{path}', and nothing that a stage uses imports or includes it"
        help_ = "Let a stage use it, or remove it; a file that is kept for another reason is declared with `waive:`."
        yield path, Diagnostic("W141", message, Place(path), help=help_, severity=Severity.WARNING)


# --- git ---


def _not_in_git(plan: Plan, claims: Claims, folder: Folder) -> Iterator[Diagnostic]:
    if folder.tracked is None:
        return
    first: dict[str, tuple[str, Place]] = {}
    for stage in plan.stages:
        parts = [(d.source, d.place) for d in stage.deploys] + [(e.source, e.place) for e in stage.edits]
        parts += [(r.template, r.place) for r in stage.renders] + [(w.source or "", w.place) for w in stage.wheels]
        for source, place in parts:
            first.setdefault(source, (stage.id, place))
    own = {path: folder.real(path) for path in sorted(claims.used) if path in first or path in folder.files}
    absent = {path: real for path, real in own.items() if path and real not in folder.tracked}
    ignored = folder.ignored(sorted(absent.values()))
    for path, real in absent.items():
        id_, where = first.get(path, ("", Place(path)))
        if real in ignored:
            message = f"git ignores '{path}': a fresh clone does not have it, and `git add` passes over it"
            help_ = "Take it out of `.gitignore` and commit it."
            yield Diagnostic("E142", message, where, help_, stage=id_)
        elif folder.tracked:  # where git tracks nothing of a workspace yet, there is nothing to forget
            message = f"git does not track '{path}': a fresh clone does not have it"
            yield Diagnostic("W142", message, where, "Commit it.", stage=id_, severity=Severity.WARNING)
