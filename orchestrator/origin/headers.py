"""Headers of a tar whose size is bounded, for every reader of one."""

from __future__ import annotations

import tarfile
from typing import cast

from orchestrator.origin.base import MIB

MAX_HEADER = MIB
_LONG = {
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
}


class Header(tarfile.TarInfo):
    """A header whose extensions are bounded: tarfile reads them into memory whole."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size < 0 or (self.type in _LONG and self.size > MAX_HEADER):
            raise tarfile.ReadError("a header of it is too long, or has a size below zero")
        return cast("tarfile.TarInfo", super()._proc_member(archive))  # type: ignore[misc] # tarfile's own hook
