"""Programs that bring something over the network, beside those that the image's own tools are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.inspect.deeds import Download, Other

if TYPE_CHECKING:
    from orchestrator.inspect.deeds import Act

# Programs that fetch, with the words that make them; an empty one where an address does.
FETCHING: dict[str, tuple[str, ...]] = {
    "huggingface-cli": ("download",), "hf": ("download",), "modelscope": ("download",), "oras": ("pull",),
    "npm": ("install", "i"), "yarn": ("add", "install"), "svn": ("checkout", "co", "export"), "gsutil": ("cp", "rsync"),
    "aws": ("s3",), "aria2c": ("",), "scp": ("",), "axel": ("",), "lftp": ("",), "pipx": ("install",),
}  # fmt: skip


def fetched(name: str, arguments: list[str]) -> Act:
    """Return what such a program does."""
    operands = [word for word in arguments if not word.startswith("-")]
    verb = operands[0] if operands else ""
    remote = name == "scp" or any("://" in word for word in arguments)
    if verb in FETCHING.get(name, ()) or ("" in FETCHING.get(name, ("",)) and remote):
        return Download(f"{name} {verb}".strip(), " ".join(operands[1:]))
    return Other(name, tuple(arguments))
