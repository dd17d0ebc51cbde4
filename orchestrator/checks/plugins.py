"""Checks of installed distributions: found by name, loaded when used, kept from harming a run."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast, get_args

from pydantic import ValidationError, create_model
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

from orchestrator.checks.base import Check
from orchestrator.checks.verdict import Verdict, fails
from orchestrator.core.diagnostics import Diagnostic, Rejected
from orchestrator.origin.plugins import Plugin, broken, find_plugin, installed, load_plugin, said, suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import ValidatorFunctionWrapHandler
    from pydantic_core import ErrorDetails

    from orchestrator.checks.view import View


def check_model(name: str, own: Iterable[str]) -> type[Check]:
    """Return the model of an installed check; `own` are the checks of this program, for what may be meant.

    Raises `Rejected`: E112 for a name that nothing installed has, E280 for one that is broken, E281 for two of a name.
    """
    plugin = find_plugin("check", name)
    if plugin is None:
        raise Rejected(Diagnostic("E112", f"unknown check '{name}'", help=suggestion("check", name, own)))
    return _model_of(plugin)


def installed_models(own: Iterable[str]) -> dict[str, type[Check]]:
    """Return every installed check that can be loaded, by name."""
    found = {}
    known = tuple(own)
    for name in installed("check"):
        try:
            found[name] = check_model(name, known)
        except Rejected:  # a pipeline that uses it is told why
            continue
    return found


@cache
def _model_of(plugin: Plugin) -> type[Check]:
    """Return a plugin's class under its prefixed name, guarded."""
    model = load_plugin(plugin)
    if not (isinstance(model, type) and issubclass(model, Check)):
        raise Rejected(broken(plugin, f"it is {_kind(model)}, not a subclass of `orchestrator.checks.base.Check`"))
    if model.look is Check.look and model.judge is Check.judge:
        raise Rejected(broken(plugin, "it defines no `look(self, view)`"))
    try:
        literal: Any = Literal[plugin.name]
        bases: Any = (_Guarded, model)
        made = create_model(
            model.__name__,
            __base__=bases,
            __module__=model.__module__,
            __doc__=model.__doc__,
            check=(literal, ...),
        )
    except Exception as error:  # noqa: BLE001 - whatever the author's class does when it is subclassed
        raise Rejected(broken(plugin, f"its model cannot be made: {said(error)}")) from None
    guarded = cast("type[_Guarded]", made)
    guarded.plugin = plugin
    return guarded


def _kind(found: Any) -> str:  # noqa: ANN401 - whatever an entry point names
    return f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"


class _Guarded(Check):
    """What a check of others gets on top: whatever it does, it ends in a verdict."""

    plugin: ClassVar[Plugin | None] = None

    def judge(self, view: View) -> Verdict:
        """Return the verdict; a check that raises, or returns something else, fails and names its distribution."""
        view.reads.everything = True  # it may have looked at the tree in ways that are not noted
        try:
            verdict: object = super().judge(view)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the author's check does
            return fails(f"the check itself raised {said(error)} ({self.plugin})")
        if isinstance(verdict, Verdict):
            return verdict
        return fails(f"the check returned {_kind(verdict)}, not a Verdict ({self.plugin})")

    def subject(self) -> str:
        """Return what the check is about."""
        try:
            return str(super().subject())
        except Exception:  # noqa: BLE001 - the same
            return ""


_STANDARD = frozenset(get_args(ErrorType))
REJECTED = "rejected"
"""The type of a validation error that holds a diagnostic's code, message and help."""


def by_name(own: Iterable[str], data: Any, handler: ValidatorFunctionWrapHandler) -> Any:  # noqa: ANN401 - YAML
    """Validate one entry of a list of checks: one of the `own` by `handler`, any other by the plugin of its name."""
    name = data.get("check") if isinstance(data, dict) else None
    if not isinstance(name, str) or name in own:
        return handler(data)
    try:
        model = check_model(name, own)
    except Rejected as error:
        raise _refused(error.diagnostics[0]) from None
    try:
        return model.model_validate(data)
    except ValidationError as error:
        lines = [_below(name, line) for line in error.errors(include_url=False)]
        raise ValidationError.from_exception_data(error.title, lines) from None
    except Exception as error:
        found = find_plugin("check", name)
        if found is None:
            raise
        raise _refused(broken(found, f"reading its keys raised {said(error)}")) from None


def _refused(found: Diagnostic) -> PydanticCustomError:
    context = {"code": found.code, "help": found.help, "notes": "\n".join(found.notes), "key": "check"}
    return PydanticCustomError(REJECTED, "{message}", {"message": found.message, **context})


def _below(name: str, line: ErrorDetails) -> InitErrorDetails:
    """Return an error line with the check's name in front of its place, where a union has its tag."""
    context = line.get("ctx", {})
    kind: Any = line["type"]
    if kind not in _STANDARD:
        kind = PydanticCustomError(kind, line["msg"].replace("{", "{{").replace("}", "}}"), context)
    return InitErrorDetails(type=kind, loc=(name, *line["loc"]), input=line["input"], ctx=context)
