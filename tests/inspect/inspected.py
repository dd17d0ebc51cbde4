"""What the tests of `inspect` share: a folder that exists as text alone, and findings in short."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.inspect.folder import Folder
from orchestrator.inspect.ignore import Ignore, read_ignore
from orchestrator.inspect.look import look

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.core.diagnostics import Diagnostic

PINNED = "FROM vendor/image@sha256:" + "0" * 64 + "\n"


def folder_of(files: Mapping[str, str], links: Mapping[str, str] | None = None) -> Folder:
    """Return a folder with these files."""
    folders = {str(above) for name in files for above in Path(name).parents} - {"."}
    links = links or {}
    return Folder(
        Path("/nowhere"),
        frozenset(files) | frozenset(links),
        frozenset(folders),
        links,
        contents={name: text.encode("utf-8", errors="surrogatepass") for name, text in files.items()},
    )


def inspected(
    files: Mapping[str, str],
    *,
    python: tuple[int, int] | None = (3, 10),
    tree: Mapping[str, str] | None = None,
    links: Mapping[str, str] | None = None,
) -> tuple[Diagnostic, ...]:
    """Return what is found in a folder with a Dockerfile."""
    ignore = read_ignore(".dockerignore", files[".dockerignore"]) if ".dockerignore" in files else Ignore()
    source = {name: text.encode() for name, text in (tree or {}).items()}
    return look(folder_of(files, links), ignore, ("Dockerfile", files["Dockerfile"].encode()), source, python)


def codes(found: tuple[Diagnostic, ...], *, notes: bool = False) -> list[str]:
    """Return the codes of the findings, each with its file."""
    shown = [d for d in found if notes or d.severity != "note"]
    return [f"{d.code} {posixpath.basename(d.place.file) if d.place else ''}" for d in shown]


def of_run(shell: str, *, sh: str = "") -> list[str]:
    """Return the codes of a Dockerfile with one RUN; its scripts and files are there."""
    return [code.split()[0] for code in codes(inspected({**FILES, "Dockerfile": f"{PINNED}{sh}{COPY}RUN {shell}\n"}))]


def of_script(text: str, shebang: str = "#!/bin/bash") -> list[str]:
    """Return the codes of a script that a Dockerfile runs in its own folder."""
    files = {**FILES, "s/run.sh": f"{shebang}\n{text}\n", "Dockerfile": f"{PINNED}{COPY}RUN /w/s/run.sh\n"}
    return [code.split()[0] for code in codes(inspected(files))]


COPY = "WORKDIR /w/s\nCOPY s /w/s\n"
FILES = {
    "s/a.py": "A = 1\n",
    "s/patch.py": "import shutil\nshutil.copy('/w/s/a.py', '/opt/a.py')\n",
    "s/fix.patch": "--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-a\n+b\n",
    "s/apply.sh": "#!/bin/bash\nset -e\ncp /w/s/a.py /opt/a.py\n",
    "s/check.py": "print('fine')\n",
}
