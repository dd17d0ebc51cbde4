"""A browser without a window, spoken to over its DevTools pipe: what a page looks like, and what it does."""

from __future__ import annotations

import base64
import json
import os
import select
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 120
"""How long a command may take: a page that hangs fails its test."""


def program() -> str | None:
    """Return the path of a Chromium on this machine."""
    return next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)


@dataclass
class Seen:
    """What a page did while it was looked at."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


class Browser:
    """One browser process with one page."""

    def __init__(self, profile: Path) -> None:
        read_end, self._out = os.pipe()
        self._in, write_end = os.pipe()
        arguments = [
            str(program()),
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-background-networking",
            f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
        ]
        # The pipe is what the browser finds at descriptors 3 and 4.
        line = f"exec {shlex.join(arguments)} 3<&{read_end} 4>&{write_end}"
        self._process = subprocess.Popen(
            ["bash", "-c", line],
            pass_fds=(read_end, write_end),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_end)
        os.close(write_end)
        self._waiting = b""
        self._number = 0
        self._session = ""
        self.seen = Seen()
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = ""
        try:
            self._call("Browser.close")
        finally:
            os.close(self._out)
            os.close(self._in)
            try:
                self._process.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                raise

    def look_at(self, page: Path, *, width: int = 1280, height: int = 900, dark: bool = False, media: str = "") -> Seen:
        """Open a file in a window of this size; return what it asked for and complained about."""
        self.seen = Seen()
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self._call("Page.navigate", url=page.resolve().as_uri())
        self._until("Page.loadEventFired")
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return self.seen

    def value(self, expression: str) -> Any:  # noqa: ANN401 - whatever the script returns
        """Return the value of a script in the page."""
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key; `text` is the character that it types."""
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text)

    def screenshot(self, *, whole: bool = False) -> bytes:
        """Return a PNG of the window, or of the whole page."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"])

    def printed(self) -> bytes:
        """Return the page as a PDF."""
        return base64.b64decode(self._call("Page.printToPDF", printBackground=True)["data"])

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])

    def _until(self, event: str) -> None:
        while self._next().get("method") != event:
            pass

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._waiting:
            ready, _, _ = select.select([self._in], [], [], PATIENCE_S)
            assert ready, "the browser does not answer"
            part = os.read(self._in, 1 << 20)
            assert part, "the browser ended"
            self._waiting += part
        line, _, self._waiting = self._waiting.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.seen.requests.append(parameters["request"]["url"])
        elif method == "Log.entryAdded":
            self.seen.complaints.append(parameters["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.seen.complaints.append(parameters["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.seen.complaints.append(f"{parameters['type']}: {parameters['args']}")
