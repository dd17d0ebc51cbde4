"""Leave the last line of a file without its line end, as some of the vendor's files are.

No edit can do this, and none should: an edit keeps what it was not asked to change. It is here because
a patch has to survive such a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.spec.model import Model

if TYPE_CHECKING:
    import libcst as cst


class Params(Model):
    """Nothing to choose."""


def transform(module: cst.Module, params: Params) -> cst.Module:  # noqa: ARG001 - every transform takes both
    """Return `module` without a line end behind its last statement."""
    return module.with_changes(has_trailing_newline=False)
