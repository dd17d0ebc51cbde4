"""Do a log and a tree agree? The log says what it made of which file and definition; the tree is looked at anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrator.checks.view import Sources
from orchestrator.code.scopes import FILE, MODULE, Definition
from orchestrator.core.digest import digest
from orchestrator.engine.images import image
from orchestrator.engine.states import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.core.tree import Tree
    from orchestrator.engine.plan import Plan
    from orchestrator.engine.states import Standing

Record = dict[str, Any]


def of_this_pipeline(records: Sequence[Record], plan: Plan) -> bool:
    """Tell whether a log is one of this pipeline's runs for this target."""
    whole = next((r for r in records if r["event"] == "patchset"), {})
    return (whole.get("pipeline"), whole.get("target")) == (plan.name, plan.target.name)


def of_this_plan(records: Sequence[Record], plan: Plan) -> bool:
    """Tell whether a log is of a run of the pipeline as it is now, parameters included."""
    return any(r["event"] == "patchset" and r.get("pipeline_digest") == plan.digest for r in records)


def tells_of_the_base(records: Sequence[Record], tree: Tree) -> bool:
    """Tell whether a tree is the very one that the run of a log started from, so that nothing of it can be in."""
    whole = next((r for r in records if r["event"] == "patchset"), {})
    return whole.get("base_digest") == tree.digest != whole.get("tree_digest")


def disagreements(records: Sequence[Record], tree: Tree, plan: Plan, standings: Sequence[Standing]) -> list[Record]:
    """Return where a whole log (of this pipeline) and a tree disagree: records with stages, place, both sides.

    Files are compared by digest, then by definition, so that layout and comments do not count. A stage's outcome is
    compared with its state where the stage has not changed since the log was written.
    """
    stages = {r["stage"]: r for r in records if r["event"] == "stage"}
    found = [fault for path in sorted(_files(stages)) for fault in _of_file(path, stages, tree)]
    said = {stage for fault in found for stage in fault["stages"]}
    digests = {planned.id: planned.digest for planned in plan.stages}
    for standing in standings:
        record = stages.get(standing.stage)
        if record is None or standing.stage in said or record.get("digest_of_stage") != digests[standing.stage]:
            continue
        outcome = str(record["outcome"])
        logged = outcome.startswith(("applied", "already"))
        if logged and standing.state in {State.PARTLY, State.NOT, State.CANNOT}:
            found.append(
                _fault((standing.stage,), standing.stage, f"the log says '{outcome}', the tree '{standing.state}'")
            )
        if not logged and standing.state is State.APPLIED:
            found.append(
                _fault((standing.stage,), standing.stage, f"the log says '{outcome}', the tree '{standing.state}'")
            )
    return found


def _files(stages: Mapping[str, Record]) -> dict[str, str]:
    """Return the last digest that a log names for each file."""
    return {file["path"]: file["after"] for record in stages.values() for file in record.get("files", ())}


def _of_file(path: str, stages: Mapping[str, Record], tree: Tree) -> list[Record]:
    writers = tuple(id_ for id_, r in stages.items() if any(f["path"] == path for f in r.get("files", ())))
    here = tree.get(path)
    if here is not None and digest(here) == _files(stages)[path]:
        return []
    if here is None:
        return [_fault(writers, path, "the log has it, and it is absent")]
    sources = Sources()
    last: dict[Definition, tuple[str, str | None]] = {}
    for id_, record in stages.items():
        for entry in record.get("definitions", ()):
            file, _, name = str(entry["definition"]).partition(":")
            if file == path:
                last[Definition(file, name or MODULE)] = (id_, entry["after"])
    return [
        _fault((id_,), path if definition.name == FILE else str(definition), "the log has other code than there is")
        for definition, (id_, after) in last.items()
        if image(definition, here, sources) != after
    ]


def _fault(stages: tuple[str, ...], about: str, what: str) -> Record:
    return {"stages": list(stages), "about": about, "what": what}
