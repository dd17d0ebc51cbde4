"""Templates are boxed in: nothing outside of the workspace is read, nothing of Python's insides is reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.diagnostics import Rejected
from orchestrator.engine.templates import compile_jinja, render_template
from orchestrator.origin.workspace import WorkspaceFiles

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "the secret outside"  # noqa: S105 - no password
VALUES = {"params": {"x": 1, "name": "a"}, "items": [1, 2], "provided": {"flags": {}}, "target": "box"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "templates").mkdir(parents=True)
    (tmp_path / "secret.j2").write_text(SECRET)
    (tmp_path / "workspace-two").mkdir()
    (tmp_path / "workspace-two" / "secret.j2").write_text(SECRET)
    (folder / "templates" / "part.j2").write_text("{% macro m() %}part{% endmacro %}")
    (folder / "templates" / "link.j2").symlink_to(tmp_path / "secret.j2")
    (folder / "templates" / "relative.j2").symlink_to("../../secret.j2")
    (folder / "templates" / "chain.j2").symlink_to("link.j2")
    (folder / "templates" / "ring.j2").symlink_to("ring.j2")
    (folder / "out").symlink_to(tmp_path)
    (folder / "beside").symlink_to(tmp_path / "workspace-two")
    return folder


def rendered(folder: Path, text: str) -> str:
    read = WorkspaceFiles(folder.resolve()).read
    return render_template("t.j2", compile_jinja("t.j2", text), VALUES, read)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(Rejected) as caught:
        rendered(folder, text)
    (found,) = caught.value.diagnostics
    assert found.code in {"E230", "E231", "E232"}
    assert found.help
    assert SECRET not in str(found)
    return found.message


OUTSIDE = [
    "../secret.j2",
    "templates/../../secret.j2",
    "./../secret.j2",
    "templates/./../../secret.j2",
    "/etc/passwd",
    "//etc/passwd",
    "file:///etc/passwd",
    "~/.bashrc",
    "..\\\\secret.j2",
    "templates\\\\..\\\\..\\\\secret.j2",
    "templates/link.j2",
    "templates/relative.j2",
    "templates/chain.j2",
    "templates/ring.j2",
    "out/secret.j2",
    "out/workspace/out/secret.j2",
    "beside/secret.j2",
    "../workspace-two/secret.j2",
    "../workspace/../secret.j2",
    "templates/part.j2\\0/../../secret.j2",
    "/proc/self/environ",
    "/dev/stdin",
    "templates",
    ".",
    "..",
    "",
]
WAYS = [
    "{%% include '%s' %%}",
    "{%% extends '%s' %%}",
    "{%% import '%s' as p %%}{{ p }}",
    "{%% from '%s' import m %%}{{ m }}",
    "{%% include ['nowhere.j2', '%s'] %%}",
    "{%% set name = '%s' %%}{%% include name %%}",
    "{%% include ['%s'] | first %%}",
]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_out_of_the_workspace(workspace: Path, way: str, path: str) -> None:
    assert refusal(workspace, way % path)


@pytest.mark.parametrize("path", OUTSIDE)
def test_what_may_be_missing_is_left_out_and_not_read_elsewhere(workspace: Path, path: str) -> None:
    assert rendered(workspace, f"{{% include '{path}' ignore missing %}}") == ""


INSIDES = [
    "{{ ''.__class__ }}",
    "{{ ''['__class__'] }}",
    "{{ '' | attr('__class__') }}",
    "{{ '' | attr('__cl' ~ 'ass__') }}",
    "{{ '' | attr('\\x5f\\x5fclass\\x5f\\x5f') }}",
    "{{ [''] | selectattr('__class__') | list }}",
    "{{ [{'a': ''}] | map(attribute='a.__class__.__mro__') | list }}",
    "{{ [1, 2] | sum(attribute='__class__') }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ cycler('a').next.__func__.__globals__ }}",
    "{{ joiner.__init__.__globals__.os }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ namespace(a=1).__class__ }}",
    "{{ namespace(a=1)._Namespace__attrs.clear() }}",
    "{{ lipsum.__globals__ }}",
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "{{ lipsum['__globals__'] }}",
    "{{ lipsum | attr('__globals__') }}",
    "{{ range.__self__ }}",
    "{{ dict.__base__.__subclasses__() }}",
    "{{ dict.mro() }}",
    "{{ self.__init__ }}",
    "{{ self._TemplateReference__context.environment }}",
    "{{ self.__dict__ }}",
    "{% macro m() %}{% endmacro %}{{ m.__init__.__globals__ }}",
    "{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}",
    "{% for x in items %}{{ loop.__init__.__globals__ }}{% endfor %}",
    "{% import 'templates/part.j2' as p %}{{ p.__init__.__globals__ }}",
    "{% import 'templates/part.j2' as p %}{{ p.__loader__ }}",
    "{{ (1).__class__.__base__ }}",
    "{{ ().__class__.__bases__[0].__subclasses__() }}",
    "{{ params.__class__ }}",
    "{{ params.items.__self__ }}",
    "{{ (1 for_ in x) }}",
    "{{ '{0.__class__}'.format('') }}",
    "{{ '{x.__class__.__mro__}'.format(x='') }}",
    "{{ '{0[__class__]}'.format(params) }}",
    "{{ '{x.__class__}'.format_map({'x': ''}) }}",
    "{{ ('{0.__class__' ~ '}').format('') }}",
    "{{ ''.format.__self__ }}",
    "{% set f = '{0.__class__}'.format %}{{ f('') }}",
    "{{ '{0.__class__}' | attr('format') }}{{ ('{0.__class__}' | attr('format'))('') }}",
    "{{ ['{0.__class__}'] | map('format', '') | list }}",
    "{{ params.update({'x': 2}) }}",
    "{{ items.append(3) }}",
    "{{ items.sort() }}",
    "{{ params.pop('x') }}",
    "{{ params.setdefault('y', 1) }}",
    "{{ config }}",
    "{{ request }}",
    "{{ os }}",
    "{{ __builtins__ }}",
    "{{ __import__('os') }}",
    "{{ open('/etc/passwd').read() }}",
    "{{ eval('1') }}",
    "{{ undefined_name.__class__ }}",
    "{{ range(10 ** 8) | list }}",
    "{% set ''.__class__ = 1 %}",
    "{% set params.x = 2 %}",
]


@pytest.mark.parametrize("text", INSIDES)
def test_nothing_of_python_s_insides_is_reached_and_nothing_given_is_changed(workspace: Path, text: str) -> None:
    before = repr(VALUES)
    assert refusal(workspace, text)
    assert repr(VALUES) == before


UNSEEN = [
    "{{ [''] | map(attribute='__class__') | list }}",
    "{{ [''] | map('attr', '__class__') | list }}",
    "{{ [''] | groupby('__class__') }}",
    "{{ [''] | sort(attribute='__class__') }}",
]


@pytest.mark.parametrize("text", UNSEEN)
def test_a_filter_over_attributes_finds_nothing_where_there_are_insides(workspace: Path, text: str) -> None:
    assert "class" not in rendered(workspace, text)


@pytest.mark.parametrize(
    "text",
    [
        "{{ " + "not " * 300 + "x }}",
        "{{ " + "(" * 300 + "1" + ")" * 300 + " }}",
        "{{ " + "[" * 3000 + "]" * 3000 + " }}",
        "{% if x %}" * 150 + "{% endif %}" * 150,
        "{{ 1" + " + 1" * 5000 + " }}",
        "{% for x in items %}" * 30 + "{% endfor %}" * 30,
    ],
    ids=["nots", "parentheses", "lists", "ifs", "sums", "loops"],
)
def test_a_deeply_nested_template_is_refused_or_rendered(workspace: Path, text: str) -> None:
    try:
        rendered(workspace, text)
    except Rejected as error:
        assert {found.code for found in error.diagnostics} <= {"E230", "E231", "E232"}  # noqa: PT017 - both are right


NAMES = st.sampled_from(
    ["__class__", "__globals__", "__init__", "__mro__", "_x", "mro", "gi_frame", "f_globals", "next"]
)
STARTS = st.sampled_from(
    ["''", "1", "params", "items", "cycler", "lipsum", "namespace(a=1)", "joiner()", "range(2)", "self"]
)


@given(STARTS, st.lists(st.tuples(NAMES, st.sampled_from([".%s", "['%s']", "|attr('%s')", "()"])), max_size=4))
def test_no_chain_of_attributes_ends_in_a_class_a_module_or_a_frame(start: str, steps: list[tuple[str, str]]) -> None:
    text = start + "".join(way % name if "%s" in way else way for name, way in steps)

    def read(path: str) -> bytes:
        raise AssertionError(path)

    try:
        shown = render_template("t.j2", compile_jinja("t.j2", f"{{{{ {text} }}}}"), VALUES, read)
    except Rejected:
        return
    assert "<module" not in shown
    assert "<frame" not in shown
    assert "__builtins__" not in shown
