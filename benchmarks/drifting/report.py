"""The page `docs/drift.md` and its plot, made from what was counted."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

OUTCOMES = {
    "right": "applied right",
    "refused": "refused",
    "wrong": "applied wrong",
    "silent": "silently nothing",
    "unwritten": "could not be written",
}
COLOURS = {"right": "#2a7f4f", "refused": "#c9ccd1", "wrong": "#b3261e", "silent": "#e08a1e", "unwritten": "#ffffff"}
OURS = "scoped pattern"
Group = Mapping[str, Any]


def table(group: Group) -> str:
    """Return forms against outcomes in Markdown: how many, and the share of all cases."""
    rows = [f"| form | {' | '.join(OUTCOMES.values())} |", f"| --- |{' ---: |' * len(OUTCOMES)}"]
    for name, found in group["forms"].items():
        cells = [f"{found.get(key, 0)} ({found.get(key, 0) / sum(found.values()):.1%})" for key in OUTCOMES]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def of_each(groups: Mapping[str, Group], prefix: str) -> str:
    """Return a table of the groups whose name starts so: what is possible, what is right, and what is wrong."""
    named = {key.removeprefix(prefix): group for key, group in groups.items() if key.startswith(prefix)}
    rows = [
        (
            "| | cases | can be right | right: scoped pattern | right: best other form "
            "| wrong or silent: scoped pattern | wrong or silent: worst other form |"
        ),
        f"| --- |{' ---: |' * 6}",
    ]
    for name, group in sorted(named.items()):
        forms = dict(group["forms"])
        ours = forms.pop(OURS)
        best = max(forms, key=lambda form: forms[form].get("right", 0))
        worst = max(forms, key=lambda form: _bad(forms[form]))
        cells = (
            sum(ours.values()),
            group["possible"],
            ours.get("right", 0),
            f"{forms[best].get('right', 0)} ({best})",
            _bad(ours),
            f"{_bad(forms[worst])} ({worst})",
        )
        rows.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def _bad(found: Mapping[str, int]) -> int:
    return found.get("wrong", 0) + found.get("silent", 0)


def page(found: Mapping[str, Any]) -> str:
    """Return the whole page."""
    everything = found["groups"]["all"]
    return PAGE.format(
        edits=found["edits"],
        bases=len(found["bases"]),
        first=found["bases"][0],
        last=found["newest"],
        cases=found["cases"],
        possible=everything["possible"],
        seed=found["seed"],
        table=table(everything),
        jumps=of_each(found["groups"], "jump: "),
        kinds=of_each(found["groups"], "kind: "),
    )


PAGE = """\
# What becomes of an edit when its base moves on

Somebody patches a release of vLLM. The next one comes. `benchmarks/drift.py` measures what happens then, on real
releases: {edits} edits are drawn by a seeded generator (seed {seed}) from the sources of {bases} releases, {first} and
the last of each minor version after it that has a source distribution, spread over the package: functions, methods,
classes and module level. Each is written in nine forms and applied to the next minor version, to the fifth after it
and to the newest, {last}: {cases} cases, of which {possible} can end right at all.

{table}

![Outcomes of each form](drift.svg)

## What the words mean

An edit changes one part of one definition: the value of an assignment, one keyword argument of a call, a condition, a
`return`, a `raise`; or it deletes a statement, inserts a line before or behind one, or adds an import.

- **Applied right**: the result says, as a syntax tree, what the later release says with that same part changed. The
  part is found by a second opinion, the standard library's `ast` alone: in the definition of the same qualified name,
  which has to be there once and to hold as many parts that say the same as before.
- **Refused**: nothing was written, and the form said so. Where the later release lacks the file, the definition or the
  part, that is what should happen.
- **Applied wrong**: another part was changed, the line stands elsewhere, or the file is not Python any more.
- **Silently nothing**: the form ended well, and the file is as it was.
- **Could not be written**: the form is not right even on the release that the edit was drawn from, say because its one
  line stands there twice.

The forms:

- **Scoped pattern**: a `pipeline.yaml` of one stage with one edit, by `within` and the shortest pattern that is right
  on the first release; parsed, planned and run by this program. Checks and house rules, which would refuse more, are
  left out.
- **Anchor**: the lines that change and their neighbours, replaced by `text.replace(old, new)`: where they must stand
  exactly once, and replaced unseen, as most scripts do.
- **Diff**: a unified diff with three lines of context, by `git apply` and by `patch --batch` with the fuzz that it has
  by default.

What this does not measure: edits that span several definitions, and edits whose meaning changes although every
statement around them stays. Bodies that were rewritten upstream are lost to every form; `orchestrator bump` says what
took their place.

## By distance

{jumps}

## By kind of edit

{kinds}

## Measure it

```sh
python benchmarks/drift.py --out docs/drift.json   # fetches the releases once, then minutes
python benchmarks/drift.py --page docs/drift.json  # writes this page and its plot
```
"""


def write(found: Mapping[str, Any], stem: Path) -> None:
    """Write the page and its plot beside each other."""
    stem.with_suffix(".md").write_text(page(found), encoding="utf-8")
    plot(found["groups"]["all"], stem.with_suffix(".svg"))


def plot(group: Group, file: Path) -> None:
    """Draw the outcomes of each form as one bar."""
    import matplotlib as mpl  # noqa: PLC0415 - a second that only the plot costs

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "drift", "svg.fonttype": "none", "font.family": "sans-serif"})
    from matplotlib import pyplot as plt  # noqa: PLC0415 - behind the choice of the backend

    forms = dict(reversed(group["forms"].items()))
    figure, axes = plt.subplots(figsize=(9, 4.2))
    left = dict.fromkeys(forms, 0.0)
    for key, label in OUTCOMES.items():
        shares = [100 * found.get(key, 0) / sum(found.values()) for found in forms.values()]
        edge = "#888888" if key == "unwritten" else COLOURS[key]
        axes.barh(list(forms), shares, left=list(left.values()), label=label, color=COLOURS[key], edgecolor=edge)
        left = {name: start + share for (name, start), share in zip(left.items(), shares, strict=True)}
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of all cases, %")
    axes.legend(ncols=len(OUTCOMES), loc="lower center", bbox_to_anchor=(0.35, 1.0), fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    file.write_text("".join(f"{line.rstrip()}\n" for line in drawn.getvalue().splitlines()), encoding="utf-8")
