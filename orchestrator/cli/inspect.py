"""`inspect`: what is wrong with a Dockerfile and with the scripts that it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import JsonOption
from orchestrator.core.diagnostics import Diagnostic, ExitCode, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.inspect.folder import Folder

FolderArgument = Annotated[Path, typer.Argument(help="The folder with the Dockerfile and the scripts.")]
DockerfileOption = Annotated[
    str | None, typer.Option("--dockerfile", metavar="NAME", help="The Dockerfile, a path from the folder.")
]
ContextOption = Annotated[
    Path | None, typer.Option("--context", metavar="DIR", help="The build context, where it is not the folder.")
]
PythonOption = Annotated[
    str | None, typer.Option("--python", metavar="VERSION", help="The Python of the image, such as 3.10.")
]
SourceOption = Annotated[
    list[str] | None,
    typer.Option("--tree", metavar="ROOT=DIR", help="The source of a patched package, as the base image has it."),
]


def command(
    folder: FolderArgument,
    dockerfile: DockerfileOption = None,
    context: ContextOption = None,
    python: PythonOption = None,
    tree: SourceOption = None,
    as_json: JsonOption = False,
) -> int:
    """Find what is wrong with a Dockerfile and the patch scripts it runs; nothing is built, run or imported.

    All faults are shown at once, and what cannot be known is said. Exit code 0: no errors; 5: errors.

    Example: orchestrator inspect my-image --python 3.10 --tree vllm=/usr/lib/python3/dist-packages/vllm
    """
    from orchestrator.cli.output import print_findings
    from orchestrator.core.diagnostics import errors
    from orchestrator.inspect.folder import read_folder
    from orchestrator.inspect.ignore import Ignore, read_ignore
    from orchestrator.inspect.look import look, look_at_scripts
    from orchestrator.inspect.text import decoded

    version = version_of(python)
    trees = {path: content for spelled in tree or () for path, content in _tree(spelled).items()}
    _refuse_no_folder(folder)
    found_folder = read_folder(context or folder)
    name, raw = _dockerfile(folder, dockerfile)
    if raw is None and dockerfile is None and any(n.endswith((".sh", ".bash", ".py")) for n in found_folder.files):
        found = look_at_scripts(found_folder, trees, version)
    elif raw is None:
        message = f"there is no {name} in {folder}"
        raise Rejected(Diagnostic("E700", message, help="Name the Dockerfile with --dockerfile."))
    else:
        shown = _shown(folder, name, found_folder)
        ignore = Ignore()
        for beside in (f"{shown}.dockerignore", ".dockerignore"):
            content = found_folder.read(beside)
            if content is not None:
                ignore = read_ignore(beside, decoded(content))
                break
        found = look(found_folder, ignore, (shown, raw), trees, version)
    print_findings(found, _lines(found_folder, folder), as_json=as_json)
    return ExitCode.CHECK_FAILED if errors(found) else ExitCode.OK


def version_of(spelled: str | None) -> tuple[int, int] | None:
    """Return a version such as 3.10 as numbers; raise `Rejected` (E700) where it is none."""
    if spelled is None:
        return None
    parts = spelled.split(".")
    if len(parts) < 2 or not all(part.isdigit() for part in parts[:2]) or parts[0] != "3":  # noqa: PLR2004 - major and minor
        raise Rejected(
            Diagnostic("E700", f"--python {spelled}: not a version of Python 3", help="Write --python 3.10.")
        )
    return int(parts[0]), int(parts[1])


def _refuse_no_folder(folder: Path) -> None:
    if not folder.is_dir():
        message = f"there is no folder {folder}"
        raise Rejected(Diagnostic("E700", message, help="Name the folder with the Dockerfile."))


def _dockerfile(folder: Path, name: str | None) -> tuple[str, bytes | None]:
    for candidate in (name,) if name else ("Dockerfile", "Containerfile", "dockerfile"):
        try:
            return candidate, (folder / candidate).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            continue
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise Rejected(Diagnostic("E700", f"{candidate} cannot be read: {reason}", help="Check it.")) from None
    return name or "Dockerfile", None


def _shown(folder: Path, name: str, context: Folder) -> str:
    """Return the Dockerfile's path from the top of the context, where it lies in there, else as it was given."""
    try:
        return (folder / name).resolve().relative_to(context.root.resolve()).as_posix()
    except ValueError:
        return str(folder / name)


def _tree(spelled: str) -> dict[str, bytes]:
    from orchestrator.cli.steps import Stopped
    from orchestrator.origin.folder import read_folder as read_package

    root, equals, path = spelled.partition("=")
    if not equals or not root or not path:
        raise Rejected(Diagnostic("E700", f"--tree {spelled}: not ROOT=DIR", help="Write --tree vllm=/path/to/vllm."))
    if not Path(path).is_dir():
        raise Rejected(
            Diagnostic("E700", f"--tree {spelled}: there is no folder {path}", help="Name the package's folder.")
        )
    try:
        base, _ = read_package(Path(path), root)
    except Rejected as rejected:  # the command line names it, so it is wrong usage
        raise Stopped(rejected.diagnostics, ExitCode.USAGE) from None
    return dict(base.tree)


def _lines(context: Folder, folder: Path) -> Callable[[str, int], str | None]:
    def line(file: str, number: int) -> str | None:
        text = context.text(file)
        if text is None:
            try:
                text = (folder / file).read_text(encoding="utf-8", errors="replace")
            except (OSError, ValueError):
                return None
        lines = text.split("\n")
        return lines[number - 1] if 0 < number <= len(lines) else None

    return line
