"""A small OpenAI server that does what `--mode` says, good or bad; with `--at N`, only where `--max-num-seqs` is N."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TYPES = {
    "odd-charset": "text/event-stream; charset=rot13",
    "odder-charset": "text/event-stream; charset=zlib_codec",
    "wide-charset": "text/event-stream; charset=utf-16",
}
LISTED = {"data": [{"id": "llm"}]}
ANSWERED = threading.Event()
STEADY = "while True: time.sleep(1)"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mode = "well"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/health":
            if self.mode == "hangs":
                time.sleep(3600)
            self.reply(503 if self.mode == "unhealthy" else 200, b"")
        elif self.mode == "no-models":
            self.reply(404, b'{"detail": "Not Found"}')
        else:
            listed = {"odd-models": {"data": []}, "nameless": {"data": [{"id": None}]}}.get(self.mode, LISTED)
            self.reply(200, json.dumps(listed).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        first = not ANSWERED.is_set()
        ANSWERED.set()
        plain = {
            "refuses": (400, b'{"error": {"message": "no such field"}}'),
            "breaks": (500, b"Internal Server Error"),
            "no-memory": (500, b"Internal Server Error"),
            "page": (200, b"<html>welcome</html>"),
        }
        if self.mode == "no-memory":
            say("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
        if self.mode in plain:
            self.reply(*plain[self.mode])
            return
        self.send_response(200)
        self.send_header("Content-Type", TYPES.get(self.mode, "text/event-stream"))
        if self.mode == "packs":
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.stream(body, first=first)

    def stream(self, body: dict[str, Any], *, first: bool) -> None:
        """Write the events; what goes wrong does so in the middle."""
        half = max(body["max_tokens"] // 2, 1)
        for number in range(body["max_tokens"]):
            if number == half:
                self.go_wrong(first=first)
            if self.mode in {"drops", "dies", "is-killed"} and number == half and not first:
                return
            self.event({"choices": [{"index": 0, "text": " word"}]})
        if self.mode == "cut-short":
            return
        if self.mode == "endless":
            while True:
                self.event({"choices": [{"index": 0, "text": " word"}]})
        if self.mode != "no-usage":
            usage: dict[str, Any] = {"prompt_tokens": len(body["prompt"]), "completion_tokens": body["max_tokens"]}
            if self.mode != "no-details":
                usage["prompt_tokens_details"] = {"cached_tokens": 3}
            self.event({"choices": [], "usage": usage})
        self.raw(b"data: [DONE]\n\n")

    def go_wrong(self, *, first: bool) -> None:
        match self.mode:
            case "dies" if not first:
                say("a last word")
                os._exit(3)
            case "is-killed" if not first:
                os.kill(os.getpid(), signal.SIGKILL)
            case "stalls":
                time.sleep(3600)
            case "keeps-alive":
                while True:
                    self.raw(b": still here\n\n")
                    time.sleep(0.05)
            case "garbage":
                self.raw(b"data: {not json\n\n")
            case "list":
                self.raw(b"data: [1, 2]\n\n")
            case "binary":
                self.raw(b"\xff\xfe\x00data\n\n" + b"data: \xff\n\n")
            case "says-error":
                self.event({"error": {"message": "the engine is dead", "code": 500}})
            case "long-line":
                for _ in range(400):
                    self.raw(b"x" * 2**20)

    def event(self, data: object) -> None:
        self.raw(b"data: " + json.dumps(data).encode() + b"\n\n")

    def raw(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def reply(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        pass


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def child(text: str, *, session: bool) -> None:
    """Start a process that outlives us, with `--mark` on its command line so that it can be found."""
    subprocess.Popen([sys.executable, "-c", f"import signal, time\n{text}", *MARK], start_new_session=session)


def begin(mode: str, port: int) -> None:
    """Do what comes before the first request."""
    match mode:
        case "ends":
            say("unrecognised arguments")
            sys.exit(2)
        case "ends-well":
            sys.exit(0)
        case "no-blocks":
            say("ValueError: No available memory for the cache blocks.")
            sys.exit(1)
        case "killed-at-start":
            os.kill(os.getpid(), signal.SIGKILL)
        case "port-taken":
            say(f"OSError: [Errno 98] error while attempting to bind on ('0.0.0.0', {port}): address already in use")
            sys.exit(1)
        case "deaf":
            time.sleep(3600)
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "forks" | "forks-and-ends":
            child(STEADY, session=False)
            child(STEADY, session=True)
            child(f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{STEADY}", session=True)
            if mode == "forks-and-ends":
                sys.exit(1)
        case "talks":
            threading.Thread(target=talk, daemon=True).start()


def talk() -> None:
    """Write a log without end."""
    while True:
        sys.stdout.write("a line of a log that nobody will ever read\n" * 100)


MARK: list[str] = []


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--mode", default="well")
    parser.add_argument("--max-num-seqs", default="")
    parser.add_argument("--at", default="")
    parser.add_argument("--mark", default="")
    parser.add_argument("--environment", default="")
    given = parser.parse_args()
    MARK.extend([given.mark] if given.mark else [])
    mode = given.mode if given.at in {"", given.max_num_seqs} else "well"
    Handler.mode = mode
    say(f"the environment says {os.environ.get(given.environment, 'nothing')}")
    begin(mode, given.port)
    Server(("127.0.0.1", given.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
