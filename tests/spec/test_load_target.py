"""Targets that extend others: one home for each figure, and every fault at the place where it was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.core.diagnostics import Diagnostic, Rejected
from orchestrator.spec.target import Figure, Target, WorkspaceBase, load_target

BASE = """version: 1
name: base
summary: The base.
image: {reference: "img:1", python: "3.10", interpreter: /usr/local/bin/python3}
base: {supplied: bring it}
roots: {pkg: [/opt/pkg]}
packages: {torch: 2.1.0}
mounts: [/model]
device:
  sms: {value: 16, status: measured, source: a tool}
  wide: {status: unknown, source: nobody}
model: {head_dim: 256}
"""
ABOVE = """version: 1
name: above
extends: base.yaml
image: {reference: "img:2"}
base: {workspace: examples/x}
packages: {triton: 2.3.1}
device: {sms: 8}
"""


def load(files: dict[str, str], name: str = "targets/above.yaml") -> Target:
    return load_target(name, files[name].encode(), lambda path: files[path].encode())


def faults(files: dict[str, str], name: str = "targets/above.yaml") -> list[Diagnostic]:
    with pytest.raises(Rejected) as caught:
        load(files, name)
    return list(caught.value.diagnostics)


def test_sections_are_merged_key_by_key_and_the_extending_file_wins() -> None:
    found = load({"targets/above.yaml": ABOVE, "targets/base.yaml": BASE})
    assert (found.name, found.summary) == ("above", "The base.")
    assert (found.image.reference, found.image.python) == ("img:2", "3.10")
    assert isinstance(found.base, WorkspaceBase)
    assert found.packages == {"torch": "2.1.0", "triton": "2.3.1"}
    assert found.mounts == ["/model"]
    assert found.values() == {"device.sms": 8, "model.head_dim": 256}
    assert found.unknown() == {"device.wide"}


def test_a_target_may_extend_one_that_extends_another() -> None:
    files = {
        "targets/above.yaml": ABOVE.replace("base.yaml", "sub/middle.yaml"),
        "targets/sub/middle.yaml": "extends: ../base.yaml\nmodel: {head_dim: 128}\n",
        "targets/base.yaml": BASE,
    }
    assert load(files).values() == {"device.sms": 8, "model.head_dim": 128}


def test_a_target_that_extends_nothing_is_as_it_is() -> None:
    found = load({"targets/base.yaml": BASE}, "targets/base.yaml")
    assert found.device["sms"] == Figure(value=16, status="measured", source="a tool")


@pytest.mark.parametrize(
    ("above", "place", "message"),
    [
        ("bse.yaml", "targets/above.yaml:3:10", "`extends: bse.yaml` names targets/bse.yaml: it cannot be read"),
        ("../../x.yaml", "targets/above.yaml:3:10", "`extends: ../../x.yaml` names ../x.yaml: it cannot be read"),
        ("above.yaml", "targets/above.yaml:3:10", "targets extend each other: targets/above.yaml → targets/above.yaml"),
    ],
)
def test_a_file_that_cannot_be_extended_is_named(above: str, place: str, message: str) -> None:
    [found] = faults({"targets/above.yaml": ABOVE.replace("base.yaml", above), "targets/base.yaml": BASE})
    assert (found.code, str(found.place), found.message) == ("E115", place, message)


def test_a_longer_circle_is_shown_whole() -> None:
    files = {"targets/above.yaml": ABOVE, "targets/base.yaml": f"extends: above.yaml\n{BASE}"}
    [found] = faults(files)
    assert found.message == "targets extend each other: targets/above.yaml → targets/base.yaml → targets/above.yaml"
    assert str(found.place) == "targets/base.yaml:1:10"


def test_what_the_reader_says_is_passed_on() -> None:
    def refuse(path: str) -> bytes:
        raise Rejected(Diagnostic("E122", f"'{path}' lies outside"))

    with pytest.raises(Rejected) as caught:
        load_target("targets/above.yaml", ABOVE.encode(), refuse)
    [found] = caught.value.diagnostics
    assert (found.code, found.message) == (
        "E115",
        "`extends: base.yaml` names targets/base.yaml: 'targets/base.yaml' lies outside",
    )


def test_each_fault_has_its_place_in_the_file_that_wrote_it() -> None:
    files = {
        "targets/above.yaml": ABOVE + "model: {head_dim: [1]}\n",
        "targets/base.yaml": BASE + "colour: red\n",
    }
    assert {(d.code, str(d.place)) for d in faults(files)} >= {
        ("E110", "targets/base.yaml:13:1"),
        ("E114", "targets/above.yaml:8:19"),
    }


def test_a_replaced_value_takes_its_places_along() -> None:
    files = {
        "targets/above.yaml": ABOVE.replace("{sms: 8}", "{sms: {value: 8, status: guessed, source: me}}"),
        "targets/base.yaml": BASE,
    }
    assert all(d.place and d.place.file == "targets/above.yaml" for d in faults(files))


@pytest.mark.parametrize("content", ["- 1\n", "plain\n"])
def test_what_is_no_mapping_is_refused(content: str) -> None:
    assert faults({"targets/above.yaml": content})
    [found] = faults({"targets/above.yaml": ABOVE, "targets/base.yaml": content})
    assert (found.code, found.message) == ("E115", "targets/base.yaml is no mapping")


@pytest.mark.parametrize("extends", ["[a]", "1", "''"])
def test_extends_is_the_name_of_a_file(extends: str) -> None:
    found = faults({"targets/above.yaml": ABOVE.replace("base.yaml", extends)})
    assert any(str(d.place) == "targets/above.yaml:3:10" for d in found)


def test_a_scalar_that_yaml_misreads_is_reported_in_either_file() -> None:
    files = {"targets/above.yaml": ABOVE, "targets/base.yaml": BASE.replace("256", "1e3")}
    assert [(d.code, d.place and d.place.file) for d in faults(files)] == [("E109", "targets/base.yaml")]


# ------------------------------------------------------------------------------------- the targets we ship
REPOSITORY = Path(__file__).parents[2]


def shipped(name: str) -> Target:
    return load_target(name, (REPOSITORY / name).read_bytes(), lambda path: (REPOSITORY / path).read_bytes())


def test_the_default_target_has_the_facts_of_the_vendors_image() -> None:
    vendor, replica = shipped("targets/bi100.yaml"), shipped("targets/corex-replica.yaml")
    assert replica.values() == vendor.values()
    assert replica.roots["vllm"] == vendor.roots["vllm"]
    assert replica.roots.keys() == vendor.roots.keys()
    assert replica.constants == vendor.constants
    assert replica.image.reference != vendor.image.reference


@pytest.mark.parametrize("section", ["device", "model", "engine"])
def test_every_number_of_a_shipped_target_has_a_status_and_a_source(section: str) -> None:
    figures = getattr(shipped("targets/bi100.yaml"), section)
    bare = [key for key, figure in figures.items() if isinstance(figure, int | float)]
    assert bare == []


def test_disputed_figures_list_what_is_disputed() -> None:
    shared = shipped("targets/bi100.yaml").device["shared_memory_per_block_bytes"]
    assert isinstance(shared, Figure)
    assert (shared.status, shared.value, shared.values) == ("disputed", 49152, [49152, 32768])


def test_vendor_names_may_carry_their_signatures() -> None:
    more = "vendor_modules: {v.ops: {norm: '(a, b=None)', rope: null}, v.other: [x], v.free: []}\n"
    found = load({"targets/above.yaml": BASE + more})
    assert found.vendor_modules == {"v.ops": {"norm": "(a, b=None)", "rope": None}, "v.other": ["x"], "v.free": []}


@pytest.mark.parametrize("signature", ["a, b", "(a", "(a): pass; x = 1; def g()", "(a, a b)"])
def test_what_is_no_signature_of_a_vendor_symbol_is_refused_at_its_place(signature: str) -> None:
    more = f"vendor_modules:\n  v.ops:\n    norm: '{signature}'\n"
    (found,) = faults({"targets/above.yaml": BASE + more})
    assert "not a signature as Python writes one" in found.message
    assert found.place is not None
    assert found.place.line == BASE.count("\n") + 3
