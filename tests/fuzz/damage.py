"""Damage: what turns a valid text or archive into one that is nearly valid. Each step is data, so it shrinks."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

RANGE = 2**20
"""Positions are parts of the whole in these units, so that one step fits texts of every length."""


class Step(NamedTuple):
    """One change: what kind, at which line or byte, over how much, with which text."""

    kind: str
    at: int
    much: int
    text: str


LINES = ("drop", "twice", "swap", "indent", "dedent", "move", "join")
SPANS = ("cut", "put", "replace", "repeat")
SIGNS = [
    *"\n\t \r\f\x00\\'\"`$(){}[]<>|&;#!*?=/~,:-+%@.0_é\ufeff\u2028🎈",
    *["${", "}", "${x...}", "${params.x}", "$${", "{{", "{%", "%}", "&a ", "*a", "<<: ", "!!int ", "? ", "- ", ": "],
    *["lambda: ", "yield ", "await ", "async ", "*", "**", "...", ":=", "->", "@", "f'{", "'''", '"""', "if x:\n"],
    *["def f(", "class A:", "try:\n", "except* E:", "match x:\n case [", "import ", "from . import *", "global x"],
    *["<<EOF\n", "&&", "||", "$(", "`", "set -e\n", "RUN ", "COPY ", "FROM x", "| tee ", "2>/dev/null", "; true"],
    *["../", "/", "1e999", "-0", "0x", "10" * 40, "[" * 120, "(" * 120, "{a: " * 70, "not " * 300, "-" * 300],
]


def steps(kinds: tuple[str, ...] = (*LINES, *SPANS), most: int = 4) -> st.SearchStrategy[list[Step]]:
    """Return a strategy for a few changes."""
    text = st.one_of(st.sampled_from(SIGNS), st.text(max_size=6))
    step = st.builds(Step, st.sampled_from(kinds), st.integers(0, RANGE - 1), st.integers(0, 40), text)
    return st.lists(step, max_size=most)


def damaged(text: str, changes: list[Step]) -> str:
    """Return the text after these changes."""
    for step in changes:
        text = _lines_changed(text, step) if step.kind in LINES else _span_changed(text, step)
    return text


def _lines_changed(text: str, step: Step) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at = step.at * len(lines) // RANGE
    end = at + 1 + step.much % 8
    match step.kind:
        case "drop":
            lines[at:end] = []
        case "twice":
            lines[at:at] = lines[at:end]
        case "swap":
            lines[at], lines[-1 - at] = lines[-1 - at], lines[at]
        case "indent":
            lines[at:end] = [f"  {line}" for line in lines[at:end]]
        case "dedent":
            lines[at:end] = [line.removeprefix("  ") for line in lines[at:end]]
        case "move":
            lines.insert(step.much % len(lines), lines.pop(at))
        case _:
            lines[at] = lines[at].rstrip("\r\n")
    return "".join(lines)


def _span_changed(text: str, step: Step) -> str:
    at = step.at * (len(text) + 1) // RANGE
    taken = text[at : at + step.much]
    new = {"cut": "", "put": step.text + taken, "replace": step.text, "repeat": taken * 3}[step.kind]
    return text[:at] + new + text[at + step.much :]


def damaged_bytes(content: bytes, changes: list[Step]) -> bytes:
    """Return bytes after these changes: cut off, a bit turned, a span lost, doubled, zeroed or replaced."""
    for step in changes:
        at = step.at * (len(content) + 1) // RANGE
        rest = content[at + step.much :]
        taken = content[at : at + step.much]
        match step.kind:
            case "end":
                content = content[:at]
            case "bit":
                turned = bytes([content[at] ^ (1 << step.much % 8)]) if at < len(content) else b""
                content = content[:at] + turned + content[at + 1 :]
            case "cut":
                content = content[:at] + rest
            case "repeat":
                content = content[:at] + taken * 2 + rest
            case "zero":
                content = content[:at] + bytes(step.much) + rest
            case "block":  # whole blocks of a tar, so that its rhythm stays
                start = at // 512 * 512
                content = content[:start] + content[start + 512 * (step.much % 3) :]
            case "twice":
                start = at // 512 * 512
                content = content[:start] + content[start : start + 512 * (step.much % 4)] + content[start:]
            case _:
                content = content[:at] + step.text.encode("utf-8", "surrogatepass") + rest
    return content


BYTES = ("end", "bit", "cut", "repeat", "zero", "block", "twice", "replace")


def mended(content: bytes) -> bytes:
    """Return a tar with the checksums of its headers put right, so that what was changed in them is believed."""
    blocks = bytearray(content)
    for at in range(0, len(blocks) - 511, 512):
        if blocks[at + 257 : at + 262] == b"ustar":
            blocks[at + 148 : at + 156] = b" " * 8
            blocks[at + 148 : at + 156] = b"%06o\0 " % sum(blocks[at : at + 512])
    return bytes(blocks)
