"""What the Dockerfile and .dockerignore templates render to, without building."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jinja2 import UndefinedError

if TYPE_CHECKING:
    from collections.abc import Callable

VALUES = {
    "image": "registry.example/vendor/base:v1.2.3",
    "interpreter": "/usr/bin/python3",
    "patchset_digest": "0" * 64,
}


@pytest.mark.parametrize("labels", [{}, {"org.example.note": 'a "quoted" $price \\ and\nmore', "a": "1"}])
def test_the_linter_has_nothing_to_say(rendered: Callable[..., bytes], labels: dict[str, str]) -> None:
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    text = rendered("Dockerfile.j2", labels=labels, **VALUES)
    done = subprocess.run([hadolint, "--no-color", "-"], input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode()
    assert done.stdout == b""
    assert b"hadolint ignore" not in text


def test_there_is_one_copy_into_a_new_folder_and_one_run_of_the_target_interpreter(
    rendered: Callable[..., bytes],
) -> None:
    text = rendered("Dockerfile.j2", labels={}, **{**VALUES, "interpreter": "/opt/my python/bin/python3"}).decode()
    words = [line.split(" ", 1)[0] for line in text.splitlines() if line]
    assert words == ["FROM", "LABEL", "COPY", "RUN"]
    [run] = [line.removeprefix("RUN ") for line in text.splitlines() if line.startswith("RUN ")]
    assert json.loads(run) == ["/opt/my python/bin/python3", "/opt/patchset/patchset.py", "install"]
    assert "COPY patchset/ /opt/patchset/\n" in text


@pytest.mark.parametrize("missing", [*VALUES, "labels"])
def test_a_value_that_is_not_given_is_an_error(rendered: Callable[..., bytes], missing: str) -> None:
    values = {name: value for name, value in {**VALUES, "labels": {}}.items() if name != missing}
    with pytest.raises(UndefinedError, match=missing):
        rendered("Dockerfile.j2", **values)


def test_the_ignore_file_is_a_whitelist(rendered: Callable[..., bytes]) -> None:
    lines = [line for line in rendered("dockerignore.j2").decode().splitlines() if not line.startswith("#")]
    assert lines == ["*", "!patchset"]
