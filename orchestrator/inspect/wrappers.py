"""Programs that run another command: `sudo`, `env`, `timeout`, `uv run` and the like."""

from __future__ import annotations

import posixpath
import re

# Programs that run another command, with those of their options that take a value.
WRAPPERS: dict[str, str] = {
    "sudo": "-u -g -h -p -C", "env": "-u -C -S", "nohup": "", "nice": "-n", "ionice": "-c -n -p", "setsid": "",
    "timeout": "-s -k --signal --kill-after", "time": "-f -o", "command": "", "exec": "-a", "stdbuf": "-o -e -i",
    "unbuffer": "", "chronic": "", "gosu": "", "su-exec": "", "tini": "", "dumb-init": "", "builtin": "",
    "parallel": "-j --jobs -n",
    "uv run": "--with -p --python --project --directory --env-file", "conda run": "-n -p --name --prefix --cwd",
    "mamba run": "-n -p", "micromamba run": "-n -p", "poetry run": "", "pipenv run": "", "pdm run": "", "hatch run": "",
    "xargs": "-n -P -I -L -d -a -s -E", "eatmydata": "", "fakeroot": "", "chroot": "", "numactl": "", "then": "",
}  # fmt: skip
_LEADING = {"timeout": 1, "gosu": 1, "su-exec": 1, "chroot": 1}  # words before the command


def unwrapped(words: list[str]) -> list[str]:
    """Return the words of the command that runs in the end, without `sudo`, `env A=b`, `timeout 60` and the like."""
    for _ in range(8):
        name = posixpath.basename(words[0]) if words else ""
        if words[1:2] == ["run"] and f"{name} run" in WRAPPERS:
            name, words = f"{name} run", words[1:]
        if name not in WRAPPERS or (name == "command" and words[1:2] in (["-v"], ["-V"])):
            break
        valued = WRAPPERS[name].split()
        rest = words[1:]
        if name == "env" and (text := _split_text(rest)):
            rest = text
        while rest and (rest[0].startswith("-") or (name == "env" and re.match(r"\w+=", rest[0]))):
            taken = 2 if rest[0] in valued else 1
            ended = rest[0] == "--"
            rest = rest[taken:]
            if ended:
                break
        rest = rest[_LEADING.get(name, 0) :]
        if not rest:
            break
        words = rest
    return words


def _split_text(rest: list[str]) -> list[str]:
    """Return the words that `env -S 'a b'` makes of one, nothing where it has no such option."""
    for at, word in enumerate(rest):
        if word in {"-S", "--split-string"} and at + 1 < len(rest):
            return [*rest[at + 1].split(), *rest[at + 2 :]]
        if word.startswith("--split-string=") or re.match(r"-v?S.", word):
            return [*re.sub(r"^(--split-string=|-v?S)", "", word).split(), *rest[at + 1 :]]
        if not word.startswith("-"):
            break
    return []
