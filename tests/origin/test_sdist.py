"""The cache and the index. The index is a real one, of this test: a folder, or HTTP on the loopback device."""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.core.diagnostics import Diagnostic, Rejected, Severity
from orchestrator.origin.archive import read_package
from orchestrator.origin.pip_settings import PYPI, index_settings
from orchestrator.origin.sdist import cache_folder, fetch_sdist
from tests.origin.images import layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUIET = {"PIP_CONFIG_FILE": os.devnull, "PIP_TIMEOUT": "5"}


def sdist(content: bytes = b"VALUE = 1\n") -> bytes:
    """Return a packed source distribution; its digest names tests, so every process that makes it makes the same."""
    files = {"demo-1.0/demo/__init__.py": content, "demo-1.0/setup.py": b"raise SystemExit(1)\n"}
    return gzip.compress(layer(files), mtime=0)


GOOD, OTHER = sdist(), sdist(b"VALUE = 2\n")
SHA, OTHER_SHA = (hashlib.sha256(data).hexdigest() for data in (GOOD, OTHER))


class Quiet(http.server.SimpleHTTPRequestHandler):
    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path.startswith("/broken/"):
            self.send_error(503)
        elif self.path.startswith("/moved/"):
            self.send_response(301)
            self.send_header("Location", self.path.replace("/moved/", "/simple/"))
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    handler = type("Recorded", (Quiet,), {"asked": asked})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def site(folder: Path, content: bytes = GOOD, announced: str = SHA) -> Path:
    page = folder / "simple" / "demo"
    page.mkdir(parents=True)
    (folder / "files").mkdir()
    (folder / "files" / "demo-1.0.tar.gz").write_bytes(content)
    fragment = f"#sha256={announced}" if announced else ""
    old_python = f'<a href="/files/demo-1.0.tar.gz{fragment}" data-requires-python="&lt;3">source</a>'
    links = f'{old_python}<a href="demo-1.0-py3-none-any.whl">wheel</a>'
    (page / "index.html").write_text(links, encoding="utf-8")
    return folder


def unreachable() -> str:
    with socket.socket() as taken:  # bound, then closed: nobody listens there
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/simple"


def only(index: str) -> dict[str, str]:
    return {**QUIET, "PIP_INDEX_URL": index}


def local(folder: Path, content: bytes = GOOD) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    (folder / "demo-1.0.tar.gz").write_bytes(content)
    return {**QUIET, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}


def refused(call: Callable[[], object]) -> tuple[Diagnostic, ...]:
    with pytest.raises(Rejected) as caught:
        call()
    assert all(d.help for d in caught.value.diagnostics), "every error says what to do"
    return caught.value.diagnostics


def test_an_index_is_asked_once_and_then_never_again(tmp_path: Path) -> None:
    with serving(site(tmp_path / "site")) as (url, asked):
        got = fetch_sdist("demo==1.0", tmp_path / "cache", SHA, environment=only(f"{url}/simple"))
        assert got.path == tmp_path / "cache" / "sdist" / "demo-1.0.tar.gz"
        assert got.path.read_bytes() == GOOD
        assert (got.sha256, got.url, got.notices) == (SHA, f"{url}/files/demo-1.0.tar.gz", ())
        before = list(asked)
        for expected in (SHA, None):
            again = fetch_sdist("demo==1.0", tmp_path / "cache", expected, environment=only(f"{url}/simple"))
            assert again == got
        assert asked == before
    assert json.loads(Path(f"{got.path}.json").read_bytes()) == {"sha256": SHA, "url": got.url}
    assert not list(got.path.parent.glob(".*"))
    base, found = read_package(got.path, "demo", "demo")
    assert (dict(base.tree), base.sha256, found) == ({"demo/__init__.py": b"VALUE = 1\n"}, SHA, ())


def test_an_index_that_moved_is_followed(tmp_path: Path) -> None:
    with serving(site(tmp_path / "site")) as (url, _):
        assert fetch_sdist("demo==1.0", tmp_path / "cache", SHA, environment=only(f"{url}/moved")).sha256 == SHA


def test_a_cached_run_does_not_even_load_the_http_client(tmp_path: Path) -> None:
    fetch_sdist("demo==1.0", tmp_path, None, environment=local(tmp_path / "links"))
    program = (
        "import sys, pathlib; from orchestrator.origin.sdist import fetch_sdist;"
        "fetch_sdist('demo==1.0', pathlib.Path(sys.argv[1]), None);"
        "print([m for m in sys.modules if m in ('unearth', 'httpx', 'httpx2')])"
    )
    child = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "[]"


def test_no_network_and_nothing_cached_says_what_to_do(tmp_path: Path) -> None:
    call = functools.partial(fetch_sdist, "demo==1.0", tmp_path, None, environment=only(unreachable()), command="plan")
    (found,) = refused(call)
    assert found.code == "E301"
    assert "`plan`" in found.message
    assert f"put the file at {tmp_path / 'sdist' / 'demo-1.0.tar.gz'}" in found.help


def test_the_file_put_where_the_help_says_is_used(tmp_path: Path) -> None:
    path = tmp_path / "sdist" / "demo-1.0.tar.gz"
    path.parent.mkdir()
    path.write_bytes(GOOD)
    for expected in (None, SHA):
        assert fetch_sdist("demo==1.0", tmp_path, expected, offline=True).sha256 == SHA


def test_offline_never_asks(tmp_path: Path) -> None:
    with serving(site(tmp_path / "site")) as (url, asked):
        environment = only(f"{url}/simple")
        (found,) = refused(lambda: fetch_sdist("demo==1.0", tmp_path, None, offline=True, environment=environment))
        assert (found.code, asked) == ("E301", [])


def test_a_source_that_fails_is_not_a_source_that_says_no(tmp_path: Path) -> None:
    with serving(site(tmp_path / "site")) as (url, _):
        broken = only(f"{url.replace('://', '://user:secret@')}/broken/simple")
        absent = only(f"{url}/nothing-here")
        for environment, code in ((broken, "E301"), (absent, "E303")):
            (found,) = refused(functools.partial(fetch_sdist, "demo==1.0", tmp_path, None, environment=environment))
            assert found.code == code
            assert "secret" not in repr(found)


def test_one_unreachable_source_does_not_matter_if_another_has_the_file(tmp_path: Path) -> None:
    with serving(site(tmp_path / "site")) as (url, _):
        environment = {**only(unreachable()), "PIP_EXTRA_INDEX_URL": f"{url}/simple"}
        assert fetch_sdist("demo==1.0", tmp_path, None, environment=environment).sha256 == SHA


@pytest.mark.parametrize("requirement", ["demo", "demo>=1", "demo==1.*", "demo==1,<2", "../demo==1", "demo==../1", ""])
def test_only_a_pinned_version_is_fetched(requirement: str, tmp_path: Path) -> None:
    (found,) = refused(lambda: fetch_sdist(requirement, tmp_path, None))
    assert found.code == "E303"
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_version_suggests_a_known_one(tmp_path: Path) -> None:
    environment = local(tmp_path / "links")
    (found,) = refused(lambda: fetch_sdist("demo==1.0.1", tmp_path / "cache", None, environment=environment))
    assert (found.code, found.help) == ("E303", "did you mean '1.0'?")


@pytest.mark.parametrize("announced", [OTHER_SHA, ""])
def test_an_index_with_another_file_is_refused_and_nothing_is_kept(announced: str, tmp_path: Path) -> None:
    with serving(site(tmp_path / "site", OTHER, announced)) as (url, _):
        environment = only(f"{url}/simple")
        (found,) = refused(lambda: fetch_sdist("demo==1.0", tmp_path / "cache", SHA, environment=environment))
    assert found.code == "E302"
    assert SHA in repr(found.notes)
    assert OTHER_SHA in repr(found.notes)
    assert not list(tmp_path.glob("cache/sdist/*.tar.gz"))


def test_a_file_that_is_not_the_announced_one_is_refused(tmp_path: Path) -> None:
    with serving(site(tmp_path / "site", OTHER, SHA)) as (url, _):
        environment = only(f"{url}/simple")
        (found,) = refused(lambda: fetch_sdist("demo==1.0", tmp_path / "cache", None, environment=environment))
    assert found.code == "E302"


@pytest.mark.parametrize("expected", [None, SHA])
def test_a_tampered_archive_is_replaced_once_and_said_so(expected: str | None, tmp_path: Path) -> None:
    environment = local(tmp_path / "links")
    path = fetch_sdist("demo==1.0", tmp_path, expected, environment=environment).path
    path.write_bytes(OTHER)
    got = fetch_sdist("demo==1.0", tmp_path, expected, environment=environment)
    assert path.read_bytes() == GOOD
    (notice,) = got.notices
    assert (notice.code, notice.severity) == ("E302", Severity.WARNING)
    assert fetch_sdist("demo==1.0", tmp_path, expected, environment=environment).notices == ()


@pytest.mark.parametrize("expected", [None, SHA])
@pytest.mark.parametrize("way", ["offline", "no network", "the index has the tampered one too"])
def test_a_tampered_archive_that_cannot_be_replaced_is_refused(way: str, expected: str | None, tmp_path: Path) -> None:
    path = fetch_sdist("demo==1.0", tmp_path, expected, environment=local(tmp_path / "links")).path
    path.write_bytes(OTHER)
    environment = local(tmp_path / "links", OTHER) if way.startswith("the index") else only(unreachable())
    found = refused(
        lambda: fetch_sdist("demo==1.0", tmp_path, expected, offline=way == "offline", environment=environment)
    )
    assert found[0].code == "E302"
    assert found[0].notes == (f"expected sha256 {SHA}", f"found    sha256 {OTHER_SHA}")
    assert path.read_bytes() == OTHER, "what was refused stays for a look"


def test_a_damaged_record_means_a_new_download(tmp_path: Path) -> None:
    path = fetch_sdist("demo==1.0", tmp_path, None, environment=local(tmp_path / "links")).path
    Path(f"{path}.json").write_text("{", encoding="utf-8")
    (found,) = refused(lambda: fetch_sdist("demo==1.0", tmp_path, None, offline=True))
    assert found.code == "E302"
    assert fetch_sdist("demo==1.0", tmp_path, None, environment=local(tmp_path / "links")).sha256 == SHA


def test_many_processes_at_once_download_once_and_agree(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from orchestrator.origin.sdist import fetch_sdist;"
        "print(fetch_sdist('demo==1.0', pathlib.Path(sys.argv[1]), None).sha256)"
    )
    with serving(site(tmp_path / "site")) as (url, asked):
        environment = {**os.environ, **only(f"{url}/simple"), "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""}
        command = [sys.executable, "-c", program, str(tmp_path / "cache")]
        children = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        said = [child.communicate()[0].strip() for child in children]
    assert said == [SHA] * 4
    assert asked.count("/files/demo-1.0.tar.gz") == 1


def test_what_a_killed_process_left_behind_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "sdist" / ".demo-1.0.tar.gz-abc"
    left.mkdir(parents=True)
    fetch_sdist("demo==1.0", tmp_path, None, environment=local(tmp_path / "links"))
    assert not left.exists()


def test_a_cache_that_is_no_folder_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("", encoding="utf-8")
    (found,) = refused(
        lambda: fetch_sdist("demo==1.0", tmp_path / "cache", None, environment=local(tmp_path / "links"))
    )
    assert (found.code, "ORCHESTRATOR_CACHE" in found.help) == ("E306", True)


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"ORCHESTRATOR_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/orchestrator"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/c"}, "/c/.cache/orchestrator"),
        ({"HOME": "/c"}, "/c/.cache/orchestrator"),
    ],
)
def test_the_cache_folder_is_where_the_user_says(environment: dict[str, str], folder: str) -> None:
    assert cache_folder(environment) == Path(folder)


def test_without_any_home_the_variable_to_set_is_named() -> None:
    (found,) = refused(lambda: cache_folder({}))
    assert "ORCHESTRATOR_CACHE" in found.help


def test_settings_come_from_files_and_the_environment_goes_before(tmp_path: Path) -> None:
    for folder, text in (
        ("xdg", "[global]\nindex-url = http://global\ntimeout = 7\ntrusted_host = a\n  b\n"),
        ("home/.config", "[global]\nindex-url = http://user\n[download]\nfind-links = /x /y\n[install]\nproxy = no\n"),
    ):
        path = tmp_path / folder / "pip" / "pip.conf"
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    environment = {"XDG_CONFIG_DIRS": str(tmp_path / "xdg"), "HOME": str(tmp_path / "home"), "PIP_CERT": ""}
    settings = index_settings(environment, tmp_path)
    assert settings.index_urls == ("http://user",)
    assert (settings.find_links, settings.trusted_hosts, settings.timeout) == (("/x", "/y"), ("a", "b"), 7)
    assert settings.proxy is None
    assert index_settings({**environment, "PIP_INDEX_URL": "http://env"}, tmp_path).index_urls == ("http://env",)
    assert index_settings({**environment, "PIP_CONFIG_FILE": os.devnull}, tmp_path).index_urls == (PYPI,)
    assert index_settings({**environment, "PIP_NO_INDEX": "true"}, tmp_path).index_urls == ()


@pytest.mark.parametrize("text", ["index-url = x\n", "[global]\ntimeout = soon\n", "[global\n"])
def test_a_broken_configuration_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text(text, encoding="utf-8")
    (found,) = refused(lambda: index_settings({"PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}, tmp_path))
    assert found.code == "E301"


@pytest.mark.parametrize("name", ["PIP_CERT", "PIP_CLIENT_CERT", "PIP_PROXY"])
def test_connection_settings_that_do_not_work_are_an_error_and_no_traceback(name: str, tmp_path: Path) -> None:
    environment = {**only(unreachable()), name: "nonsense:///nowhere.pem"}
    (found,) = refused(lambda: fetch_sdist("demo==1.0", tmp_path, None, environment=environment))
    assert found.code == "E301"


def test_the_real_vllm_reads_as_a_package(tmp_path: Path) -> None:
    cache = cache_folder(os.environ)
    cached = cache / "sdist" / "vllm-0.6.3.tar.gz"
    if not cached.exists() and os.environ.get("CI") != "true":
        pytest.skip(f"{cached} is not there; `CI=true` would download it")
    if cached.exists():
        (tmp_path / "sdist").mkdir()
        shutil.copy(cached, tmp_path / "sdist")
    sha = "03e69029ad9caceaab68d5c3833ae6fe57c04be678ec37f29e9df6eaf178a9c5"
    got = fetch_sdist("vllm==0.6.3", tmp_path, sha)
    base, found = read_package(got.path, "vllm", "vllm")
    assert found == ()
    assert len(base.tree) > 400
    assert b"def context_attention_fwd(" in base.tree["vllm/attention/ops/prefix_prefill.py"]
