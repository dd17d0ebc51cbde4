"""The memory of one rank by use, as records: for the chosen setting and its neighbours, by both accountings.

Everything here is computed from the target's figures and the run configuration as it was rendered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrator.checks.run_config import RunConfigFits
from orchestrator.checks.serving.capacity import cache_in_effect, context_fits, setting_of
from orchestrator.checks.serving.effective import BATCHED, CAPTURE, UTILISATION
from orchestrator.checks.serving.rules import broken_rules
from orchestrator.checks.view import View
from orchestrator.core.diagnostics import Rejected
from orchestrator.device.budget import budget, measured_fit
from orchestrator.device.graphs import capture
from orchestrator.device.quantity import Known, Quantity, Unknown, figure, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.checks.run_config import Configuration
    from orchestrator.device.budget import Budget, Cache, Setting
    from orchestrator.device.peak import PeakFit
    from orchestrator.engine.outcome import Run, StageResult

SCHEMA = "run-config"
STEP = 0.05
"""How far a neighbouring share of the memory is away; neighbouring batches have half and twice the tokens."""


def memory_records(run: Run) -> list[dict[str, Any]]:
    """Return one record for each run configuration that a stage in effect renders."""
    view = View(run.tree, run.installed, run.plan.facts, run.artefacts)
    found: list[dict[str, Any]] = []
    for result in run.results:
        for render in result.planned.renders if result.in_effect else ():
            if render.schema == SCHEMA:
                found += _records(view, result, render.to)
    return found


def _records(view: View, result: StageResult, file: str) -> Iterator[dict[str, Any]]:
    own = (check for check in result.planned.stage.post if isinstance(check, RunConfigFits) and check.file == file)
    check = next(own, RunConfigFits(check="run_config", file=file))
    try:
        read = check.read(view)
        if read is None:
            return
        setting = read.setting(view)
    except Rejected:  # the check itself has said so
        return
    match setting:
        case Unknown(missing=missing):
            yield {"event": "memory", "stage": result.id, "artefact": file, "unknown": list(missing)}
        case _:
            yield {"event": "memory", "stage": result.id, "artefact": file, **_record(view, read, setting)}


def _record(view: View, read: Configuration, setting: Setting) -> dict[str, Any]:
    serving = view.facts.serving
    made = budget(serving.figures, serving.memory_runs, setting)
    return {
        "context_tokens": setting.context_tokens,
        "sequences": setting.sequences,
        "ranks": setting.ranks,
        "accounting": cache_in_effect(view, made).accounting,
        "fit": _fit(measured_fit(serving.figures, serving.memory_runs)),
        "graphs": _graphs(view, read, setting),
        "rows": [_row(view, read, *neighbour) for neighbour in _neighbours(setting)],
    }


def _neighbours(setting: Setting) -> Iterator[tuple[float, int, bool]]:
    """Yield (share of the memory, tokens of a batch, whether it is the chosen one), the chosen one first."""
    share, tokens = setting.utilisation, setting.batched_tokens
    yield share, tokens, True
    yield from ((share, other, False) for other in (tokens // 2, tokens * 2) if other)
    yield from ((other, tokens, False) for other in (round(share - STEP, 6), round(share + STEP, 6)) if 0 < other <= 1)


def _row(view: View, read: Configuration, share: float, tokens: int, chosen: bool) -> dict[str, Any]:  # noqa: FBT001 - a field of the record
    flags = read.flags if chosen else {**read.flags, UTILISATION: str(share), BATCHED: str(tokens)}
    serving = view.facts.serving
    setting = setting_of(flags, read.context, read.forced, serving)
    if isinstance(setting, Unknown):
        raise TypeError("a neighbour of a known setting is known")
    made = budget(serving.figures, serving.memory_runs, setting)
    refused = broken_rules(flags, read.context)
    refused += [d.message for d in context_fits(view, flags, setting, read.place)]
    return {
        "chosen": chosen,
        "utilisation": share,
        "batched_tokens": tokens,
        "refused": refused,
        **_uses(made),
        "caches": [_cache(cache) for cache in made.caches],
    }


def _uses(made: Budget) -> dict[str, Any]:
    return {
        "memory": _whole(made.memory),
        "given": _whole(made.given),
        "weights": _whole(made.weights),
        "activation": _whole(made.activation),
        "peak": _whole(made.peak),
        "kv_cache": _whole(made.cache_bytes),
        "graphs": _whole(made.graphs),
        "reserve": _whole(made.reserve),
    }


def _cache(cache: Cache) -> dict[str, Any]:
    return {
        "accounting": cache.accounting,
        "layers": plain(cache.layers),
        "block_bytes": plain(cache.block_bytes),
        "blocks": plain(cache.blocks),
        "tokens": plain(cache.tokens),
        "tokens_spread": plain(cache.tokens_spread),
        "sequences": plain(cache.sequences),
        "basis": cache.basis,
    }


def _fit(fit: PeakFit | Unknown) -> dict[str, Any]:
    if isinstance(fit, Unknown):
        return plain(fit)
    return {
        "constant_bytes": round(fit.constant_bytes),
        "bytes_per_token": round(fit.bytes_per_token),
        "runs": [
            {
                "batched_tokens": point.batched_tokens,
                "peak_bytes": round(point.peak_bytes),
                "residual_bytes": round(residual),
            }
            for point, residual in zip(fit.points, fit.residuals_bytes, strict=True)
        ],
    }


def _graphs(view: View, read: Configuration, setting: Setting) -> dict[str, Any]:
    if setting.eager:
        by = next((str(forcing.place) for forcing in read.forced if forcing.option == "enforce-eager"), "")
        return {"eager": True, "by": by}
    longest = read.flags.get(CAPTURE) or ""
    default = figure(view.facts.serving.figures, "engine.default_max_seq_len_to_capture")
    if not longest.isdecimal() and isinstance(default, Unknown):
        return {"eager": False, **plain(default)}
    limit = int(longest) if longest.isdecimal() else int(default.value if isinstance(default, Known) else 0)
    made = capture(setting.sequences, limit, setting.context_tokens)
    return {"eager": False, "batches": list(made.batches), "longest_tokens": made.longest_tokens}


def _whole(quantity: Quantity) -> dict[str, Any]:
    """Return bytes as plain data, in whole numbers."""
    match quantity:
        case Known(value=value, stated=stated):
            return plain(Known(round(value), tuple(round(other) for other in stated)))
        case Unknown():
            return plain(quantity)
