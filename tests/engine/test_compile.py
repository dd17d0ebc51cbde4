"""Stages with sources that the image's compiler makes files of, and files that are made from templates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.workspaces import TARGET, Workspace, replaced

if TYPE_CHECKING:
    from pathlib import Path

STAGE = """\
  - id: kernel
    kind: codemod
    summary: A compiled kernel.
    deploy:
      - {source: k.cu, to: pkg/k.cu}
      - {template: sizes.h.j2, to: pkg/sizes.h}
    compile:
      - {source: pkg/k.cu, to: pkg/k.so}
    post:
      - {check: text_count, file: pkg/sizes.h, text: "64", equals: 1}
"""
ASKS = STAGE + "    when:\n      - {check: compiler_named, because: PyTorch does it}\n"
COMPILER = "compiler: {path: /usr/bin/nvcc, options: [-O3, -shared], source: somebody}\n"
ABSENT = "compiler: {absent: a laptop}\n"
HEADER = "// {{ target }}\n#define WARP {{ device.warps }}\n#define CORES {{ device.cores | default(0) }}\n"


def workspace(tmp_path: Path, stages: str, compiler: str = COMPILER) -> Workspace:
    made = Workspace.at(tmp_path, stages)
    made.write("target.yaml", TARGET + compiler)
    made.write("k.cu", "kernel\n")
    made.write("sizes.h.j2", HEADER)
    return made


def rendered(made: Workspace) -> dict[str, bytes]:
    ended = made.run("render")
    assert ended.code == 0, ended.err
    return made.built()


def record_of(files: dict[str, bytes], stage: str) -> dict[str, Any]:
    records = [json.loads(line) for line in files["audit.jsonl"].splitlines()]
    return next(r for r in records if r["event"] == "stage" and r["stage"] == stage)


@pytest.mark.parametrize("stage", [STAGE, ASKS], ids=["without asking", "asking"])
def test_what_is_to_be_compiled_is_in_manifest_audit_and_report_and_has_no_digest_yet(
    stage: str, tmp_path: Path
) -> None:
    files = rendered(workspace(tmp_path, stage))
    command = ["/usr/bin/nvcc", "-O3", "-shared"]
    assert json.loads(files["patchset/manifest.json"])["builds"] == [
        {"stage": "kernel", "root": "pkg", "source": "k.cu", "to": "k.so", "command": command}
    ]
    assert record_of(files, "kernel")["compiles"] == [
        {"source": "pkg/k.cu", "to": "pkg/k.so", "command": command, "sha256": None}
    ]
    for report in ("report.md", "report.html"):
        assert b"compiled in the image, so its digest is known only there" in files[report]
    assert b"RUN [" in files["Dockerfile"]
    assert files["Dockerfile"].count(b"RUN ") == 1


def test_a_template_is_filled_with_the_target_s_values_and_deployed(tmp_path: Path) -> None:
    files = rendered(workspace(tmp_path, STAGE))
    assert files["patchset/overlay/pkg/sizes.h"] == b"// box\n#define WARP 64\n#define CORES 0\n"


@pytest.mark.parametrize(
    ("compiler", "said"), [(ABSENT, "compiler_named: a laptop"), ("", "the target names no compiler")]
)
def test_without_a_compiler_a_stage_that_asks_is_skipped_with_its_own_reason_first(
    compiler: str, said: str, tmp_path: Path
) -> None:
    files = rendered(workspace(tmp_path, ASKS, compiler))
    record = record_of(files, "kernel")
    assert record["outcome"] == "skipped"
    assert record["reason"].startswith("PyTorch does it (when: compiler_named: ")
    assert said in record["reason"]
    assert "compiles" not in record
    assert json.loads(files["patchset/manifest.json"])["builds"] == []
    assert b"PyTorch does it" in files["report.md"]


def test_a_second_run_on_what_was_installed_changes_nothing(tmp_path: Path) -> None:
    made = workspace(tmp_path, STAGE)
    overlay = "patchset/overlay/pkg/"
    made.base({p.removeprefix(overlay): raw for p, raw in rendered(made).items() if p.startswith(overlay)})
    made.base({"k.so": b"compiled"})
    ended = made.run("plan", "--json")
    assert ended.code == 0, ended.err
    assert next(r for r in ended.records() if r["event"] == "stage")["outcome"] == "already applied"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("source: pkg/k.cu, to: pkg/k.so", "source: pkg/other.cu, to: pkg/k.so", "no file that this stage deploys"),
        ("source: pkg/k.cu, to: pkg/k.so", "source: pkg/k.cu, to: pkg/sizes.h", "written twice"),
        ("compile:\n", "compile:\n      - {source: pkg/sizes.h, to: pkg/k.so}\n", "written twice"),
        ("/usr/bin/nvcc", "", "names no compiler"),
    ],
)  # fmt: skip
def test_a_stage_that_cannot_be_compiled_is_told_before_any_tree(old: str, new: str, said: str, tmp_path: Path) -> None:
    made = workspace(tmp_path, STAGE.replace(old, new), COMPILER if "nvcc" not in old else "")
    ended = made.run("validate")
    assert ended.code == 3
    assert "E260" in ended.err
    assert said in ended.err


@pytest.mark.parametrize(
    ("compiler", "said"),
    [
        ("compiler: {path: nvcc, options: [], source: x}\n", "compiler"),
        ("compiler: {path: /usr/bin/nvcc, source: x}\n", "options"),
        ("compiler: {absent: ''}\n", "compiler"),
        ("compiler:\n", "no value"),
    ],
)
def test_a_target_whose_compiler_cannot_be_used_is_refused(compiler: str, said: str, tmp_path: Path) -> None:
    ended = workspace(tmp_path, STAGE, compiler).run("validate")
    assert ended.code == 3
    assert said in ended.err


@pytest.mark.parametrize(
    ("template", "code"),
    [("{{ device.warp }}", "E231"), ("{{ provided.flags }}", "E231"), ("{% if %}", "E230"), ("{{ 1 / 0 }}", "E232")],
)
def test_a_template_of_a_deployed_file_that_does_not_render_is_a_fault_of_the_pipeline(
    template: str, code: str, tmp_path: Path
) -> None:
    made = workspace(tmp_path, STAGE)
    made.write("sizes.h.j2", template)
    ended = made.run("validate")
    assert ended.code == 3
    assert code in ended.err
    assert "sizes.h.j2" in ended.err


def test_a_deployed_file_has_one_origin(tmp_path: Path) -> None:
    for line in ("{to: pkg/k.cu}", "{source: k.cu, template: sizes.h.j2, to: pkg/k.cu}"):
        ended = workspace(tmp_path, replaced(STAGE, "{source: k.cu, to: pkg/k.cu}", line)).run("validate")
        assert ended.code == 3
        assert "by `source` or by `template`" in ended.err


ELSEWHERE = """\
  - id: headers
    kind: template
    summary: Headers for sources.
    when:
      - {check: file_exists, file: csrc/ops.h, because: nothing is compiled here}
    deploy:
      - {template: sizes.h.j2, to: csrc/sizes.h}
"""


def test_a_stage_may_ask_for_a_package_root_that_the_target_does_not_have_and_is_skipped(tmp_path: Path) -> None:
    files = rendered(workspace(tmp_path, ELSEWHERE + STAGE))
    record = record_of(files, "headers")
    assert record["outcome"] == "skipped"
    assert record["reason"].startswith("nothing is compiled here (when: file_exists file=csrc/ops.h: ")
    assert not [name for name in files if "csrc" in name]


def test_a_package_root_that_nothing_asks_for_is_still_a_typing_mistake(tmp_path: Path) -> None:
    stage = ELSEWHERE.replace("csrc/ops.h", "pkg/a.py")
    ended = workspace(tmp_path, stage).run("validate")
    assert ended.code == 3
    assert "E131" in ended.err


def test_where_the_root_is_there_the_headers_are_deployed(tmp_path: Path) -> None:
    made = workspace(tmp_path, ELSEWHERE)
    made.write("target.yaml", replaced(TARGET, "roots: {", "roots: {csrc: [/opt/src/csrc], "))
    made.write("csrc/ops.h", "#pragma once\n")
    ended = made.run("render", "--tree", "csrc=csrc", "--tree", f"pkg={made.package}")
    assert ended.code == 0, ended.err
    assert made.built()["patchset/overlay/csrc/sizes.h"].startswith(b"// box\n")
