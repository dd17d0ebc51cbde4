"""Read the files of a workspace: only inside it, only ordinary files, only of a sane size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, did_you_mean

MAX_BYTES = 4 * 2**20


@dataclass(frozen=True)
class WorkspaceFiles:
    """A reader of the folder that holds `pipeline.yaml`. `root` is its real path."""

    root: Path

    def names(self, folder: str, ending: str) -> tuple[str, ...]:
        """Return the paths of the files directly in a folder whose names have this ending, sorted; () without one."""
        try:
            found = [entry.name for entry in (self.root / folder).iterdir() if entry.name.endswith(ending)]
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            message = f"the folder '{folder}' cannot be read: {error.strerror}"
            raise Rejected(Diagnostic("E121", message, Place(folder), help="Check its permissions.")) from None
        return tuple(f"{folder}/{name}" for name in sorted(found))

    def read(self, path: str, limit: int = MAX_BYTES) -> bytes:
        """Return the bytes of a workspace file of at most `limit` bytes.

        Raises `Rejected`: E120 missing, E121 unreadable, E122 outside of the workspace, E123 too large,
        E124 not an ordinary file.
        """
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or "\\" in path or "\0" in path or not pure.parts:
            message = f"{path!r} leaves the workspace"
            raise Rejected(Diagnostic("E122", message, help="Name a file relative to `pipeline.yaml`, without `..`."))
        full = self.root / pure
        try:
            real = full.resolve(strict=True)
            if not real.is_relative_to(self.root):
                message = f"'{path}' is a link that leaves the workspace, to {real}"
                raise Rejected(Diagnostic("E122", message, Place(path), help="Copy the file into the workspace."))
            if not real.is_file():
                help_ = "Name a file; folders are not deployed as a whole."
                raise Rejected(Diagnostic("E124", f"'{path}' is not an ordinary file", Place(path), help=help_))
            size = real.stat().st_size
            if size > limit:
                message = f"'{path}' has {size:,} bytes; at most {limit:,} are read"
                raise Rejected(
                    Diagnostic("E123", message, Place(path), help="A patch is small; is this the right file?")
                )
            return real.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise Rejected(self._missing(path)) from None
        except (OSError, RuntimeError) as error:  # a link to itself is a RuntimeError before Python 3.13
            reason = error.strerror if isinstance(error, OSError) else "the link points to itself"
            message = f"'{path}' cannot be read: {reason}"
            raise Rejected(Diagnostic("E121", message, Place(path), help="Check its permissions.")) from None

    def _missing(self, path: str) -> Diagnostic:
        pure = PurePosixPath(path)
        near = ""
        for folder in dict.fromkeys((str(pure.parent), ".")):
            try:
                files = [p for p in (self.root / folder).iterdir() if p.is_file()]
            except OSError:
                continue
            # A hidden file, as the ones that keep two runs apart, is not what was meant.
            names = [str(PurePosixPath(folder) / p.name) for p in files if p.name[0] != "." or pure.name[:1] == "."]
            hint = did_you_mean(path, names)
            near = near or (hint if hint.startswith("did you mean") else "")
        return Diagnostic(
            "E120", f"'{path}' does not exist in the workspace", help=near or "Create it, or correct the path."
        )
