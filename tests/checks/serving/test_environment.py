"""One effective environment of image, Dockerfile and run configuration, and what may not happen to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.checks.serving.environment import effective_environment
from orchestrator.checks.verdict import Status
from orchestrator.checks.view import Facts
from tests.checks.serving.conftest import COMMAND, FILE, FLAG, TREE

if TYPE_CHECKING:
    from tests.checks.serving.conftest import Serve

names = st.sampled_from("ABCD")
environments = st.dictionaries(names, st.sampled_from(["0", "1", "2"]))


@given(st.lists(environments, max_size=4))
def test_the_last_layer_that_sets_a_variable_wins(layers: list[dict[str, str]]) -> None:
    found = effective_environment([(str(i), layer) for i, layer in enumerate(layers)])
    merged: dict[str, str] = {}
    for layer in layers:
        merged |= layer
    assert {name: variable.value for name, variable in found.items()} == merged
    for name, variable in found.items():
        assert layers[int(variable.layer)][name] == variable.value
        assert name not in {key for layer in layers[int(variable.layer) + 1 :] for key in layer}


@given(environments, environments)
def test_a_variable_that_moves_from_one_layer_to_another_stays_the_same(
    one: dict[str, str], two: dict[str, str]
) -> None:
    def values(*layers: dict[str, str]) -> dict[str, str]:
        found = effective_environment([(str(i), layer) for i, layer in enumerate(layers)])
        return {name: variable.value for name, variable in found.items()}

    both = {**one, **two}
    assert values(one, two) == values({}, both) == values(both, {})


# ---------------------------------------------------------------------------------------------------- required
def test_a_required_variable_that_is_lost_is_an_error(serve: Serve) -> None:
    serve.facts(required={"ENABLE_IPC": FLAG})
    found = serve.judge()
    assert found.status is Status.FAILS
    assert [f"{d.code} {d.message}" for d in found.findings] == [
        "E544 ENABLE_IPC is set nowhere, and must be '1' in the server's environment: the largest gain known"
    ]
    assert found.findings[0].place is not None
    assert found.findings[0].place.file == FILE


@pytest.mark.parametrize("layer", ["image_environment", "dockerfile_environment", "run"])
def test_wherever_it_is_set_it_is_not_lost(serve: Serve, layer: str) -> None:
    serve.facts(required={"ENABLE_IPC": FLAG})
    where = {"ENABLE_IPC": "1"}
    if layer != "run":
        serve.facts(**{layer: where})
    assert serve.found(env=where if layer == "run" else {}) == []


def test_a_required_variable_of_another_value_is_lost_too_and_the_layer_that_did_it_is_named(serve: Serve) -> None:
    serve.facts(required={"ENABLE_IPC": FLAG}, image_environment={"ENABLE_IPC": "1"})
    found = serve.found(env={"ENABLE_IPC": "0"})
    assert found == [
        (
            "E544 ENABLE_IPC is '0' (run configuration), and must be '1' in the server's environment: "
            "the largest gain known"
        ),
        "W542 ENABLE_IPC=0 (run configuration) hides ENABLE_IPC=1 (image)",
    ]


# ----------------------------------------------------------------------------------------------------- rule 8
def test_a_value_that_the_device_cannot_take_is_refused_in_whatever_layer(serve: Serve) -> None:
    wrong = {"ALLOCATOR": "expandable_segments:True"}
    said = "E543 rule 8: ALLOCATOR=expandable_segments:True ({}) is not supported here: the allocator has none"
    assert serve.found(env=wrong) == [said.format("run configuration")]
    serve.facts(dockerfile_environment=wrong)
    assert serve.found() == [said.format("Dockerfile")]


def test_another_value_of_the_same_variable_is_taken(serve: Serve) -> None:
    assert serve.found(env={"ALLOCATOR": "max_split_size_mb:128"}) == []


@pytest.mark.parametrize(
    "value", ["/usr/lib/known.so", "/opt/lib/vllm/command.py", "/usr/lib/known.so:/usr/lib/known.so", ""]
)
def test_a_library_that_is_in_the_image_is_preloaded(serve: Serve, value: str) -> None:
    serve.facts(read={"LD_*": "the loader"})
    assert serve.found(env={"LD_PRELOAD": value}) == []


@pytest.mark.parametrize(
    "value", ["/usr/lib/gone.so", "/usr/lib/known.so:/usr/lib/gone.so", "/usr/lib/known.so /usr/lib/gone.so"]
)
def test_a_library_that_is_not_known_to_be_there_is_refused(serve: Serve, value: str) -> None:
    serve.facts(read={"LD_*": "the loader"})
    assert serve.found(env={"LD_PRELOAD": value}) == [
        (
            "E543 rule 8: LD_PRELOAD (run configuration) names /usr/lib/gone.so, which is not known to be in the "
            "image: a missing file kills every process"
        )
    ]


# ------------------------------------------------------------------------------------------------------ unread
@pytest.mark.parametrize("name", ["ENGINE_TIMEOUT", "NCCL_DEBUG", "NCCL_P2P_LEVEL"])
def test_a_variable_that_the_tree_names_or_the_inventory_reads_is_fine(serve: Serve, name: str) -> None:
    assert serve.found(env={name: "1"}) == []


@pytest.mark.parametrize("name", ["ENGINE_TIMEOUT_S", "ENGINE", "NOTHING"])
def test_a_variable_that_nothing_reads_is_a_warning(serve: Serve, name: str) -> None:
    found = serve.judge(env={name: "1"})
    assert found.status is Status.WARNS
    assert [f"{d.code} {d.message}" for d in found.findings] == [
        f"W541 nothing reads {name} (run configuration): no string of the patched tree names it"
    ]


def test_a_variable_is_read_from_the_moment_a_stage_brings_code_that_names_it(serve: Serve) -> None:
    assert serve.found(env={"NEW": "1"}) != []
    serve.file("vllm/new.py", "import os\nX = os.environ['NEW']\n")
    assert serve.found(env={"NEW": "1"}) == []


def test_a_comment_does_not_read_a_variable(serve: Serve) -> None:
    serve.file("vllm/new.py", "# NEW is gone\n")
    assert serve.found(env={"NEW": "1"}) != []


def test_a_variable_is_shown_where_it_stands_also_behind_one_that_the_command_sets_again(serve: Serve) -> None:
    command = ["sh", "-c", "A=1 python3 -m vllm.server"]
    variables = [{"name": name, "value": "1"} for name in ("A", "B")]
    content = json.dumps({"concurrency": 8, "command": command, "env": variables}, indent=1)
    serve.scene.artefacts = {FILE: content}
    serve.scene.facts = Facts(values=serve.values, serving=serve.serving, roots={"vllm": ("/opt/lib/vllm",)})
    (place,) = [f.place for f in serve.scene.judge("run_config", file=FILE).findings if "nothing reads B" in f.message]
    assert place is not None
    assert '"B"' in content.splitlines()[place.line - 1]


def test_variables_of_the_image_itself_are_the_vendor_s_business(serve: Serve) -> None:
    serve.facts(image_environment={"VENDOR_THING": "1"})
    assert serve.found() == []


def test_without_the_server_s_code_nothing_is_called_unread(serve: Serve) -> None:
    serve.scene.files = {path: text for path, text in TREE.items() if path.startswith("vllm/parsers")}
    assert COMMAND not in serve.scene.files
    assert serve.found(env={"NOTHING": "1"}) == []


# ---------------------------------------------------------------------------------------------------- conflict
def test_two_layers_of_different_mind_are_noted_and_the_later_one_counts(serve: Serve) -> None:
    serve.facts(dockerfile_environment={"NCCL_DEBUG": "INFO"})
    assert serve.found(env={"NCCL_DEBUG": "WARN"}) == [
        "W542 NCCL_DEBUG=WARN (run configuration) hides NCCL_DEBUG=INFO (Dockerfile)"
    ]
    assert serve.found(env={"NCCL_DEBUG": "INFO"}) == []
