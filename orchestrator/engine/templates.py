"""jinja2 in one place: sandboxed, strict, unable to leave its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import CodeType


class _WorkspaceLoader(jinja2.BaseLoader):
    """Loads what `include` and `extends` name through the reader that refuses to leave the workspace."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self.read = read

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        del environment
        try:
            return self.read(template).decode("utf-8"), template, lambda: True
        except Rejected as error:
            raise jinja2.TemplateNotFound(template, error.diagnostics[0].message) from None
        except UnicodeDecodeError:
            raise jinja2.TemplateNotFound(template, f"'{template}' is not UTF-8") from None


def compile_jinja(path: str, text: str) -> CodeType:
    """Return a template's code; raise `Rejected` (E230) for a syntax fault. Variables are known when it is rendered."""
    try:
        return _environment(None).compile(text, name=path, filename=path)
    except jinja2.TemplateSyntaxError as error:
        raise Rejected(_syntax(path, error)) from None
    except (RecursionError, SyntaxError, MemoryError):  # of jinja2's parser, and of Python, which reads its code
        fault = Diagnostic("E230", "template: nested too deeply", Place(path), help="Mend the template.")
        raise Rejected(fault) from None


def render_template(path: str, code: CodeType, context: Mapping[str, Any], read: Callable[[str], bytes]) -> str:
    """Return a compiled template filled from `context`.

    `read` brings further templates by their path from the workspace. Raises `Rejected`: E230 for a syntax
    fault in one of these, E231 for an undefined variable, E232 for anything else that goes wrong.
    """
    environment = _environment(_WorkspaceLoader(read))
    try:
        return jinja2.Template.from_code(environment, code, environment.make_globals(None)).render(context)
    except jinja2.TemplateSyntaxError as error:
        raise Rejected(_syntax(path, error)) from None
    except jinja2.UndefinedError as error:
        raise Rejected(_undefined(path, error, context)) from None
    except jinja2.TemplateNotFound as error:
        help_ = "Name a file of the workspace, relative to `pipeline.yaml`."
        raise Rejected(Diagnostic("E232", f"template: {error.message}", _place(path, error), help=help_)) from None
    except Exception as error:  # noqa: BLE001 - templates run the user's expressions
        message = f"template: {type(error).__name__}: {error}"
        raise Rejected(Diagnostic("E232", message, _place(path, error), help="Mend the template.")) from None


def own_template(
    templates: Mapping[str, str], name: str, shown: Callable[[Any], Any], *, html: bool
) -> Callable[[Mapping[str, Any]], str]:
    """Return one of the package's own templates as a function of its values; they go through `shown`.

    For HTML they are escaped then. `templates` are all that it may include, by name.
    """
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=html,  # noqa: S701 - off for Markdown alone, whose template escapes by filters of its own
        finalize=shown,
        loader=jinja2.DictLoader(templates),
    )
    return environment.get_template(name).render


def _environment(loader: jinja2.BaseLoader | None) -> ImmutableSandboxedEnvironment:
    return ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # the results are YAML, Dockerfiles and C++, not HTML
        loader=loader,
    )


def _syntax(path: str, error: jinja2.TemplateSyntaxError) -> Diagnostic:
    place = Place(error.filename or path, error.lineno, 1)
    return Diagnostic("E230", f"template: {error.message}", place, help="Mend the template.")


def _undefined(path: str, error: jinja2.UndefinedError, context: Mapping[str, Any]) -> Diagnostic:
    message = str(error.message).replace("'dict object' has no attribute", "there is no")
    words = [word.strip("'") for word in message.split("'")[1::2]]
    names = list(context)
    for value in context.values():
        if isinstance(value, dict):
            names.extend(str(key) for key in value)
    help_ = did_you_mean(words[-1], names) if words else ""
    return Diagnostic("E231", f"template: {message}", _place(path, error), help=help_)


def _place(path: str, error: Exception) -> Place:
    trace, line, file = error.__traceback__, 0, path
    while trace:
        name = trace.tb_frame.f_code.co_filename
        if name == path or name.endswith(".j2"):
            line, file = trace.tb_lineno, name
        trace = trace.tb_next
    return Place(file, line, 1) if line else Place(path)
