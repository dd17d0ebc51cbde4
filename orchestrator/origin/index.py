"""Find one pinned file on a package index and download it. Nothing is built, nothing installed."""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import ssl
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from packaging.version import InvalidVersion, Version
from unearth import PackageFinder
from unearth.auth import MultiDomainBasicAuth
from unearth.errors import HashMismatchError
from unearth.fetchers import PyPIClient
from unearth.preparer import HTTPErrors

from orchestrator.core.diagnostics import Diagnostic, Rejected, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unearth.fetchers import Fetcher
    from unearth.link import Link

    from orchestrator.origin.pinned import Kind
    from orchestrator.origin.pip_settings import IndexSettings

MAX_BYTES = 512 * 2**20
UNREACHABLE: tuple[type[Exception], ...] = (*HTTPErrors, OSError, ValueError, RuntimeError)
NOT_HERE = frozenset({404, 410})


@dataclass
class _Report:
    """What happened on the way.

    `broken` sources may hold the file, `others` are files of another digest, `unfit` are files of another
    kind, `said` is what the library logged.
    """

    broken: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    unfit: list[str] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)

    def answered(self, response: Any) -> None:  # noqa: ANN401 - httpx in one release of unearth, httpx2 in the next
        """Note an answer that says neither yes nor no."""
        if response.is_error and response.status_code not in NOT_HERE:
            self.broken.append(f"{redacted(str(response.url))}: status {response.status_code}")

    @property
    def notes(self) -> tuple[str, ...]:
        """All of it, each line once."""
        return tuple(dict.fromkeys(redacted(line) for line in (*self.broken, *self.said)))


def download(  # noqa: PLR0913, PLR0917 - one search, and all that it depends on
    kind: Kind, name: str, version: Version, folder: Path, settings: IndexSettings, expected: str | None
) -> tuple[Path, str]:
    """Download the file of this kind into `folder`; return its path and its address without credentials.

    Local sources are asked before remote ones. Raises `Rejected`: E301 a source did not answer, E302 the file is not
    the one the index announces, E303 no source has it.
    """
    report = _Report()
    with _heard(report), contextlib.ExitStack() as stack:
        try:
            client = stack.enter_context(_session(settings, report))
            session = cast("Fetcher", client)  # its own class, which the library's protocol describes too narrowly
        except UNREACHABLE as error:
            help_ = "Correct pip's certificates or proxy: PIP_CERT, PIP_CLIENT_CERT, PIP_PROXY, or `pip config list`."
            raise Rejected(Diagnostic("E301", f"no connection can be set up: {_words(error)}", help=help_)) from None
        for link in _links(kind, name, version, settings, session, report, expected):
            try:
                return _save(session, link, folder), link.redacted
            except HashMismatchError as error:
                raise Rejected(_not_as_announced(link, error)) from None
            except UNREACHABLE as error:
                report.broken.append(f"{link.redacted}: {_words(error)}")
    raise Rejected(_not_found(kind, name, version, settings, report, expected))


def redacted(text: str) -> str:
    """Return `text` with user names and passwords in addresses masked."""
    return re.sub(r"://[^/@\s]+@", "://***@", text)


def _session(settings: IndexSettings, report: _Report) -> PyPIClient:
    more: dict[str, Any] = {"proxy": settings.proxy} if settings.proxy else {}
    if settings.certificates or settings.client_certificate:
        more["verify"] = _tls(settings)
    return PyPIClient(
        trusted_hosts=settings.trusted_hosts,
        timeout=settings.timeout,
        follow_redirects=True,
        auth=MultiDomainBasicAuth(prompting=False, index_urls=settings.index_urls),
        event_hooks={"response": [report.answered]},
        **more,
    )


def _tls(settings: IndexSettings) -> ssl.SSLContext:
    authorities = Path(settings.certificates) if settings.certificates else None
    if authorities and authorities.is_dir():
        context = ssl.create_default_context(capath=authorities)
    else:
        context = ssl.create_default_context(cafile=authorities)
    if settings.client_certificate:
        context.load_cert_chain(settings.client_certificate)
    return context


def _links(  # noqa: PLR0913, PLR0917 - one search, and all that it depends on
    kind: Kind,
    name: str,
    version: Version,
    settings: IndexSettings,
    session: Fetcher,
    report: _Report,
    expected: str | None,
) -> Iterator[Link]:
    """Yield the links to the file, source by source; one whose announced digest is another is passed over."""
    sources = [("find_links", s) for s in settings.find_links] + [("index_urls", s) for s in settings.index_urls]
    for how, source in sorted(sources, key=lambda s: "://" in s[1] and not s[1].startswith("file:")):
        if how == "find_links" and "://" not in source and not Path(source).exists():
            report.said.append(f"{source}: does not exist")
            continue
        try:
            finder = PackageFinder(
                session,
                find_links=[source] if how == "find_links" else [],
                index_urls=[source] if how == "index_urls" else [],
                ignore_compatibility=True,  # with this Python; the image has its own
            )
            packages = finder.find_all_packages(name, allow_yanked=True)
            found = [p for p in packages if p.link.filename.endswith(kind.endings) and p.version]
        except UNREACHABLE as error:
            report.broken.append(f"{redacted(source)}: {_words(error)}")
            continue
        report.versions.update(str(p.version) for p in found)
        report.unfit += [p.link.filename for p in packages if p not in found and _is_version(p.version, version)]
        for link in (p.link for p in found if Version(str(p.version)) == version):
            announced = _announced(link)
            if expected and announced and announced != expected:
                report.others.append(f"{link.redacted}: announced sha256 {announced}")
            else:
                yield link


def _is_version(text: str | None, version: Version) -> bool:
    try:
        return Version(text or "") == version
    except InvalidVersion:
        return False


def _announced(link: Link) -> str | None:
    return (link.hash_option or {}).get("sha256", [None])[0]


def _save(session: Fetcher, link: Link, folder: Path) -> Path:
    def bounded(link: Link, completed: int, total: int | None) -> None:  # noqa: ARG001 - the library's signature
        if completed > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES:,} bytes")

    finder = PackageFinder(session, find_links=[str(folder)])
    path = finder.download(link, folder, download_reporter=bounded)
    if link.is_file:  # a local file is not copied by the library
        path = Path(shutil.copyfile(path, folder / path.name))
    return path


_LISTENING = threading.Lock()
_PROPAGATED: list[bool] = []
"""Whether the library's words went on to other listeners before the first of ours, while there is one."""


class _Listener(logging.Handler):
    """Hears the warnings that are said in the thread that made it: several may download at once."""

    def __init__(self, report: _Report) -> None:
        super().__init__(logging.WARNING)
        self.report, self.here = report, threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self.here:
            self.report.said.append(record.getMessage())


@contextlib.contextmanager
def _heard(report: _Report) -> Iterator[None]:
    """Collect what the library would print: it logs that a page failed, and then finds nothing."""
    logger, listener = logging.getLogger("unearth"), _Listener(report)
    with _LISTENING:
        if not any(isinstance(handler, _Listener) for handler in logger.handlers):
            _PROPAGATED.append(logger.propagate)
        logger.addHandler(listener)
        logger.propagate = False
    try:
        yield
    finally:
        with _LISTENING:
            logger.removeHandler(listener)
            if not any(isinstance(handler, _Listener) for handler in logger.handlers):
                logger.propagate = _PROPAGATED.pop()


def _words(error: BaseException) -> str:
    return redacted(" ".join(str(error).split())) or type(error).__name__


def _not_as_announced(link: Link, error: HashMismatchError) -> Diagnostic:
    pairs = [f"{name}: announced {' or '.join(error.expected[name])}, got {got}" for name, got in error.actual.items()]
    message = f"{link.redacted} is not the file that the index announces"
    return Diagnostic("E302", message, notes=tuple(pairs), help="Try again; if it stays so, do not trust this index.")


def _not_found(  # noqa: PLR0913, PLR0917 - one search, and all that it depends on
    kind: Kind, name: str, version: Version, settings: IndexSettings, report: _Report, expected: str | None
) -> Diagnostic:
    if report.others:
        message = f"the index has another {name}=={version} than the one that is expected"
        notes = (f"expected sha256 {expected}", *report.others, *report.notes)
        help_ = "Find out which of the two is right; if the new one is, correct the digest where it is pinned."
        return Diagnostic("E302", message, notes=notes, help=help_)
    if report.broken:
        return Diagnostic("E301", f"{name}=={version} cannot be fetched: not every source answers", notes=report.notes)
    asked = [redacted(source) for source in (*settings.find_links, *settings.index_urls)]
    near = did_you_mean(str(version), report.versions)
    message = f"no {kind.words} {name}-{version}{kind.endings[0]} on {_list(asked)}"
    notes = tuple(f"it has {file}" for file in dict.fromkeys(report.unfit))
    return Diagnostic("E303", message, notes=(*notes, *report.notes), help=near or kind.advice)


def _list(words: Sequence[str]) -> str:
    return ", ".join(words) or "any index (pip's configuration says no-index)"


def listed(kind: Kind, name: str, settings: IndexSettings) -> dict[Version, bool]:
    """Return the releases that the sources have, yanked ones left out → whether there is a file of this kind.

    Raises `Rejected`: E301 no source answers, E303 none has the package.
    """
    report = _Report()
    found: dict[Version, bool] = {}
    with _heard(report), contextlib.ExitStack() as stack:
        try:
            client = stack.enter_context(_session(settings, report))
            session = cast("Fetcher", client)  # as in `download`
            finder = PackageFinder(
                session,
                find_links=[s for s in settings.find_links if "://" in s or Path(s).exists()],
                index_urls=list(settings.index_urls),
                ignore_compatibility=True,
            )
            packages = list(finder.find_all_packages(name, allow_yanked=False))
        except UNREACHABLE as error:
            report.broken.append(_words(error))
            packages = []
    for package in packages:
        try:
            version = Version(package.version or "")
        except InvalidVersion:
            continue
        found[version] = found.get(version, False) or package.link.filename.endswith(kind.endings)
    if not found:
        asked = _list([redacted(source) for source in (*settings.find_links, *settings.index_urls)])
        code = "E301" if report.broken else "E303"
        raise Rejected(Diagnostic(code, f"no release of {name} on {asked}", notes=report.notes, help=kind.advice))
    return found
