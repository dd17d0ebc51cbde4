from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.checks.house import RULES
from orchestrator.checks.view import Facts
from orchestrator.core.diagnostics import Severity

if TYPE_CHECKING:
    from tests.checks.house.conftest import Judged

ROOTS = {"pkg": ("/opt/lib/pkg", "/opt/lib64/pkg"), "weights": ("/model/weights",)}


@pytest.mark.parametrize(
    ("path", "mounts", "refused"),
    [
        ("pkg/a.py", ("/model",), False),
        ("weights/config.json", ("/model",), True),
        ("weights/config.json", ("/model/",), True),
        ("weights/config.json", ("/model/weights/config.json",), True),
        ("weights/config.json", ("/model/weight",), False),
        ("weights/config.json", ("/mod",), False),
        ("pkg/a.py", ("/opt/lib64",), True),
        ("pkg/a.py", ("/opt/lib64/../lib",), True),
        ("pkg/a.py", ("/",), True),
        ("pkg/a.py", (), False),
        ("other/a.py", ("/opt",), False),
        ("/model/tokenizer_config.json", ("/model",), True),
    ],
)
def test_a_target_under_a_runtime_mount_is_refused(
    judged: Judged, path: str, mounts: tuple[str, ...], *, refused: bool
) -> None:
    found = judged({path: ""}, facts=Facts(roots=ROOTS, mounts=mounts))
    assert [d.code for d in found] == (["E505"] if refused else [])


def test_the_finding_names_the_path_in_the_image_and_the_mount(judged: Judged) -> None:
    (found,) = judged({"pkg/a.py": ""}, facts=Facts(roots=ROOTS, mounts=("/opt/lib64",)))
    assert found.message.startswith("/opt/lib64/pkg/a.py lies under /opt/lib64,")


def test_a_changed_package_file_is_refused_at_the_first_changed_line(judged: Judged) -> None:
    base = {"pkg/sub/__init__.py": "a = 1\nb = 2\n", "pkg/sub/m.py": ""}
    (found,) = judged({"pkg/sub/__init__.py": "a = 1\nb = 3\n"}, base=base)
    assert (found.code, found.severity, str(found.place)) == ("E506", Severity.ERROR, "pkg/sub/__init__.py:2:1")
    assert "changes the `__init__.py` of the package `pkg.sub`" in found.message
    assert "waive: [{rule: E506, about: pkg.sub, because:" in found.help


@pytest.mark.parametrize(("text", "line"), [("", 1), ("a = 1\n", 1), ("a = 1\nb = 2\nc = 3\n", 3)])
def test_shortened_and_lengthened_package_files_have_a_place_too(judged: Judged, text: str, line: int) -> None:
    (found,) = judged({"pkg/__init__.py": text}, base={"pkg/__init__.py": "a = 1\nb = 2\n"})
    assert found.place is not None
    assert found.place.line == line


def test_a_package_file_added_to_an_old_folder_is_refused_and_a_new_package_is_not(judged: Judged) -> None:
    files = {"pkg/old/__init__.py": "", "pkg/new/__init__.py": "", "pkg/new/m.py": ""}
    found = judged(files, base={"pkg/old/m.py": ""})
    assert [(d.code, d.place and d.place.file) for d in found] == [("E506", "pkg/old/__init__.py")]


def test_every_rule_has_a_code_of_its_own_and_a_sentence() -> None:
    assert [rule.code for rule in RULES] == sorted({rule.code for rule in RULES})
    assert all(rule.title.endswith(".") for rule in RULES)


def test_a_file_that_does_not_parse_gets_that_one_finding(judged: Judged) -> None:
    assert [d.code for d in judged({"pkg/a.py": "import gone\ndef (\n"})] == ["E501"]


def test_files_that_are_not_touched_are_not_judged(judged: Judged) -> None:
    assert judged({"pkg/a.py": "gone\n", "pkg/b.py": "x = 1\n"}, "pkg/b.py") == []
