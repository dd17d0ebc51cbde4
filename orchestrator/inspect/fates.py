"""What becomes of a status, and what decides it: the options of a shell."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Options:
    """What is set in a shell; `bash` has PIPESTATUS, `sh` has not."""

    errexit: bool = False
    pipefail: bool = False
    bash: bool = False
    cleared: bool = False

    def with_flags(self, flags: Iterable[str]) -> Options:
        """Return the options after the words of `set`, or of a shell's command line."""
        errexit, pipefail, cleared = self.errexit, self.pipefail, self.cleared
        named = ""
        for flag in flags:
            if named:
                errexit = named == "-" if flag == "errexit" else errexit
                pipefail = named == "-" if flag == "pipefail" else pipefail
                cleared = cleared or (flag == "errexit" and named == "+")
                named = ""
            elif flag[:1] in {"-", "+"} and not flag.startswith("--"):
                if "e" in flag[1:]:
                    cleared = cleared or (flag[0] == "+" and errexit)
                    errexit = flag[0] == "-"
                named = flag[0] if flag.endswith("o") else ""
        return dataclasses.replace(self, errexit=errexit, pipefail=pipefail, cleared=cleared)


@dataclass(frozen=True)
class Fate:
    """What becomes of a status: `status` and `exits` are the reasons why it is lost, empty where it is not."""

    status: str = ""
    exits: str = ""
    unguarded: bool = True  # `set -e` applies here

    def lost(self, reason: str) -> Fate:
        """Return the fate of something whose status is thrown away, and for which `set -e` does not stop."""
        return Fate(reason, self.exits, unguarded=False)


@dataclass(frozen=True)
class Loss:
    """A command whose failure nobody sees: its offset in the text, and why. `mild`: something else is tried."""

    offset: int
    end: int
    reason: str
    mild: bool = False
    consumer: str = ""  # what reads it, in a pipe
    in_condition: bool = False
    is_trap: bool = False
