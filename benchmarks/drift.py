"""What becomes of an edit when its base moves on: ours, text anchors, and a diff by two programs.

On each release edits are drawn by a seeded generator and written in every form; each is applied to later releases and
judged by the meaning of what comes out (`benchmarks/drifting/judge.py`).

    python benchmarks/drift.py [--edits 300] [--seed 1] [--jobs 2] [--out docs/drift.json]
    python benchmarks/drift.py --page docs/drift.json      # writes docs/drift.md and docs/drift.svg from it
    python benchmarks/drift.py --edits 60 --pair 0.6.3 0.32.0 --wrong

With `--wrong` every wrong result of ours is shown as a diff. Sources come from the package index, once.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import json
import os
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.drifting import report, scoped, textual  # noqa: E402 - the path comes first
from benchmarks.drifting.forms import Refused, Result, Written  # noqa: E402 - the same
from benchmarks.drifting.judge import expected, said  # noqa: E402 - the same
from benchmarks.drifting.sample import Drawn, drawn  # noqa: E402 - the same
from orchestrator.core.diagnostics import Rejected, errors  # noqa: E402 - the same
from orchestrator.origin.archive import read_package  # noqa: E402 - the same
from orchestrator.origin.sdist import cache_folder, fetch_sdist  # noqa: E402 - the same

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

RELEASES = (
    *("0.6.3", "0.7.3", "0.8.5.post1", "0.9.2", "0.10.2", "0.11.2", "0.12.0", "0.13.0", "0.14.1", "0.16.0", "0.17.1"),
    *("0.18.1", "0.19.1", "0.20.2", "0.21.0", "0.22.1", "0.23.0", "0.24.0", "0.25.1", "0.26.0", "0.27.1", "0.28.0"),
    *("0.29.0", "0.30.0", "0.31.0", "0.32.0"),
)
"""The last release of each minor version that has a source distribution."""
LONG = 5  # minor versions of a long jump

FORMS: dict[str, Callable[[Drawn], Written | None]] = {
    "scoped pattern": scoped.written,
    "anchor of 1 line, must be there once": textual.checked(1),
    "anchor of 3 lines, must be there once": textual.checked(3),
    "anchor of 6 lines, must be there once": textual.checked(6),
    "anchor of 1 line, replaced unseen": textual.unchecked(1),
    "anchor of 3 lines, replaced unseen": textual.unchecked(3),
    "anchor of 6 lines, replaced unseen": textual.unchecked(6),
    "diff, git apply": textual.diffed("git", "apply"),
    "diff, patch with its fuzz": textual.diffed("patch", "-p1", "--batch"),
}
Package = dict[str, bytes]


@dataclass(frozen=True)
class Case:
    """A drawn change on a later release: what each form came to, and whether there is a right result at all."""

    jump: str
    base: str
    to: str
    kind: str
    possible: bool
    outcomes: dict[str, str]
    shown: str = ""


@functools.lru_cache(maxsize=LONG + 3)
def release(version: str) -> Package:
    """Return the Python files of a release of vLLM."""
    cache = cache_folder(dict(os.environ))
    archive = fetch_sdist(f"vllm=={version}", cache, None, environment=dict(os.environ), command="bench")
    found, faults = read_package(archive.path, "vllm", "vllm")
    if errors(faults):
        raise Rejected(faults)
    return {path: raw for path, raw in found.tree.items() if path.endswith(".py")}


def jumps(releases: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return (kind of jump, base, later release): to the next minor, five further, and to the newest."""
    last, found = len(releases) - 1, []
    for i, base in enumerate(releases[:-1]):
        found.append(("next minor", base, releases[i + 1]))
        if i + LONG < last:
            found.append((f"{LONG} minors on", base, releases[i + LONG]))
        if i + 1 < last:
            found.append(("the newest", base, releases[last]))
    return found


def judged(found: Drawn, written: Mapping[str, Written | None], later: Package, case: Case) -> Case:
    """Return a case with what each form came to on a later release."""
    change = found.change
    raw = later.get(change.file)
    right = expected(change, raw) if raw is not None else frozenset()
    outcomes, shown = {}, ""
    for name, form in written.items():
        result = form(raw) if form and raw is not None else Refused("no such file")
        outcomes[name] = outcome(form, raw, result, right)
        if name == "scoped pattern" and outcomes[name] in {"wrong", "silent"}:
            assert raw is not None
            assert isinstance(result, bytes)
            shown = _shown(raw, result, f"{change}")
    return Case(case.jump, case.base, case.to, change.kind, bool(right), outcomes, shown)


def outcome(form: Written | None, raw: bytes | None, result: Result, right: frozenset[Any]) -> str:
    """Return in a word what a form came to."""
    if form is None:
        return "unwritten"
    if isinstance(result, Refused):
        return "refused"
    if result == raw:
        return "silent"
    return "right" if said(result) in right else "wrong"


def _shown(raw: bytes, result: bytes, title: str) -> str:
    old, new = (each.decode(errors="replace").splitlines() for each in (raw, result))
    return "\n".join([title, *difflib.unified_diff(old, new, n=4, lineterm="")])


def writes(name: str, found: Drawn) -> Written | None:
    """Return a change written in a form, None where the form is not even right on the file it was drawn from."""
    written = FORMS[name](found)
    if written is None:
        return None
    made = written(found.raw)
    return written if isinstance(made, bytes) and said(made) in expected(found.change, found.raw) else None


def measured(
    seed: int, count: int, base: str, to: Sequence[tuple[str, str]], read: Callable[[str], Package]
) -> list[Case]:
    """Return the cases of one base: `count` changes drawn from it, each on the releases of `to`."""
    random_ = random.Random(f"{seed} {base}")  # noqa: S311 - a sample, not a secret
    changes = [(found, {name: writes(name, found) for name in FORMS}) for found in drawn(read(base), count, random_)]
    cases = []
    for jump, version in to:
        later = read(version)
        case = Case(jump, base, version, "", possible=False, outcomes={})
        cases += [judged(found, written, later, case) for found, written in changes]
    return cases


def counted(cases: Sequence[Case]) -> dict[str, Any]:
    """Return the counts that the page is made from: by jump and by kind, form → outcome → how many."""
    forms: dict[str, dict[str, Counter[str]]] = {}
    for case in cases:
        for group in ("all", f"jump: {case.jump}", f"kind: {case.kind}"):
            for name, came in case.outcomes.items():
                forms.setdefault(group, {}).setdefault(name, Counter())[came] += 1
    possible = Counter(group for c in cases for group in ("all", f"jump: {c.jump}", f"kind: {c.kind}") if c.possible)
    return {
        "cases": len(cases),
        "groups": {
            group: {"possible": possible[group], "forms": {name: dict(found) for name, found in by_form.items()}}
            for group, by_form in forms.items()
        },
    }


def main(given: Sequence[str] | None = None) -> int:
    """Measure, or write the page; 1 if a result of ours is wrong or silent."""
    options = arguments(given)
    if options.page:
        report.write(json.loads(options.page.read_text()), options.page.with_suffix(""))
        return 0
    pairs = [("given", a, b) for a, b in options.pair] or jumps(RELEASES)
    bases = list(dict.fromkeys(base for _, base, _ in pairs))
    share = -(-options.edits // len(bases))
    start = time.monotonic()
    work = functools.partial(_of_base, options.seed, share, pairs)
    if options.jobs > 1:
        with ProcessPoolExecutor(options.jobs) as pool:
            cases = [
                case for found in pool.map(work, bases, chunksize=-(-len(bases) // options.jobs)) for case in found
            ]
    else:
        cases = [case for base in bases for case in work(base)]
    found = {"seed": options.seed, "edits": share * len(bases), "bases": bases, "newest": pairs[-1][2]} | counted(cases)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(report.table(found["groups"]["all"]))
    print(f"{len(cases)} cases in {time.monotonic() - start:.0f} s", file=sys.stderr)
    bad = [case for case in cases if case.shown]
    for case in bad if options.wrong else ():
        print(f"\n{case.base} → {case.to}: {case.kind}: {case.shown}")
    return int(bool(bad))


def _of_base(seed: int, count: int, pairs: Sequence[tuple[str, str, str]], base: str) -> list[Case]:
    found = measured(seed, count, base, [(jump, to) for jump, from_, to in pairs if from_ == base], release)
    print(f"{base}: {len(found)} cases", file=sys.stderr, flush=True)
    return found


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=300, help="how many changes to draw, spread over the bases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--pair", nargs=2, action="append", default=[], metavar=("BASE", "LATER"))
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    parser.add_argument("--page", type=Path, metavar="FILE.json")
    parser.add_argument("--wrong", action="store_true", help="show each wrong or silent result of ours")
    return parser.parse_args(given)


if __name__ == "__main__":
    raise SystemExit(main())
