"""Where pip is told to look for packages: its environment variables and its configuration files.

The file names, their order and the option names are those of pip's documentation, "Configuration".
"""

from __future__ import annotations

import configparser
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PYPI = "https://pypi.org/simple/"
SECTIONS = ("global", "download")  # a command's section goes before the global one


@dataclass(frozen=True)
class IndexSettings:
    """Sources in the order in which they are asked, and how. `timeout` is in seconds."""

    find_links: tuple[str, ...] = ()
    index_urls: tuple[str, ...] = (PYPI,)
    trusted_hosts: tuple[str, ...] = ()
    certificates: str | None = None
    client_certificate: str | None = None
    proxy: str | None = None
    timeout: float = 15.0


def index_settings(environment: Mapping[str, str], site: Path = Path(sys.prefix)) -> IndexSettings:
    """Return what pip would use. Raises `Rejected` with E301 if a configuration file cannot be understood."""
    options: dict[str, str] = {}
    for path in _files(environment, site):
        options |= _read(path)
    for name, value in environment.items():
        if name.startswith("PIP_") and value:
            options[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    timeout = options.get("timeout") or options.get("default-timeout") or "15"
    try:
        seconds = float(timeout)
    except ValueError:
        message = f"pip's timeout is '{timeout}', which is no number of seconds"
        raise Rejected(Diagnostic("E301", message, help="Correct PIP_TIMEOUT or pip's configuration.")) from None
    links = (link for link in options.get("find-links", "").split() if link)
    indexes = (options.get("index-url", PYPI), *options.get("extra-index-url", "").split())
    no_index = options.get("no-index", "").lower() in {"1", "true", "yes", "y", "on", "t"}
    return IndexSettings(
        find_links=tuple(str(Path(link).expanduser()) if link.startswith("~") else link for link in links),
        index_urls=() if no_index else indexes,
        trusted_hosts=tuple(options.get("trusted-host", "").split()),
        certificates=options.get("cert"),
        client_certificate=options.get("client-cert"),
        proxy=options.get("proxy"),
        timeout=seconds,
    )


def _files(environment: Mapping[str, str], site: Path) -> Iterator[Path]:
    named = environment.get("PIP_CONFIG_FILE")
    if named == os.devnull:  # pip's way to say: none at all
        return
    for folder in (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep):
        yield Path(folder, "pip", "pip.conf")
    yield Path("/etc/pip.conf")
    if home := environment.get("HOME"):
        yield Path(home, ".pip", "pip.conf")
        yield Path(environment.get("XDG_CONFIG_HOME") or Path(home, ".config"), "pip", "pip.conf")
    yield site / "pip.conf"
    if named:
        yield Path(named)


def _read(path: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except OSError:  # missing or not ours to read; pip goes on as well
        return {}
    except (configparser.Error, UnicodeDecodeError) as error:
        message = f"pip's configuration cannot be read: {' '.join(str(error).split())}"
        raise Rejected(Diagnostic("E301", message, Place(str(path)), help="Correct the file.")) from None
    sections = [dict(parser[section]) for section in SECTIONS if parser.has_section(section)]
    return {name.lower().replace("_", "-"): value for section in sections for name, value in section.items() if value}
