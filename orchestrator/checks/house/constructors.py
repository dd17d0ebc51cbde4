"""Which signatures a call must bind to: of a function, a class's constructor, an instance's `__call__`."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from orchestrator.checks.house.things import Callee, Class, External, Function, Instance
from orchestrator.code.imports import guarded
from orchestrator.code.signature import Parameter, parameters_of, read_signature

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.checks.house.names import Names
    from orchestrator.checks.house.things import Thing

Callees = tuple[Callee, ...] | None
"""Every signature that a call may meet, None where that is not all."""

# Bases outside of the tree whose metaclass and `__new__` leave the call to the `__init__` that is found first.
_LEAVE_IT_TO_INIT = ("torch.nn.", "threading.Thread", "collections.abc.", "logging.")
_EXCEPTIONS = ("Error", "Exception", "Warning")
_BUILTIN_BASES = frozenset({"builtins.dict", "builtins.list", "builtins.set"})
_CALLS_FORWARD = ("torch.nn.",)


def callees(thing: Thing, names: Names) -> Callees:
    """Return the signatures that a call of a thing may meet."""
    match thing:
        case Function(spot=spot, node=node, implicit=implicit):
            return (Callee(spot.qualified(node.name), parameters_of(node.args, annotated=False), implicit, spot, node),)
        case Class(open=open_):
            every = [thing, *names.classes.heirs(thing)] if open_ and names.strict else [thing]
            return _all(_constructor(cls, names) for cls in every)
        case Instance():
            return _called(thing, names)
        case External(name=name):
            return _vendor(name, names)
        case _:
            return None


def _all(several: Iterator[Callees]) -> Callees:
    found: list[Callee] = []
    for part in several:
        if part is None:
            return None
        found += part
    return tuple(found)


def _vendor(name: str, names: Names) -> Callees:
    module, _, symbol = name.rpartition(".")
    text = names.world.view.facts.vendor_signatures.get(module, {}).get(symbol, "")
    parameters = read_signature(text) if text else None
    return None if parameters is None else (Callee(name, parameters, 0, None, None),)


def _called(thing: Instance, names: Names) -> Callees:
    classes = names.classes
    outside = [base for base in classes.order(thing.of) if isinstance(base, External)]
    name = "__call__"
    if outside:
        own = any(classes.members(b, name) for b in classes.order(thing.of) if isinstance(b, Class))
        if not own and all(base.name.startswith(_CALLS_FORWARD) for base in outside):
            name = "forward"
    return _all(callees(found, names) for found in classes.attribute(thing, name))


def _constructor(cls: Class, names: Names) -> Callees:
    """Return what calling a class meets, None where its bases, metaclass or decorators may have their own way."""
    classes = names.classes
    order = classes.order(cls)
    if _is_named_tuple(cls, names):
        return (_made(cls, tuple(_named_tuple_fields(cls))),)
    for base in order:
        if isinstance(base, External):
            if not _leaves_it_to_init(base.name):
                return None
            continue
        other = (d for d in base.node.decorator_list if not _is_transparent(d, base, names))
        if any(other) or classes.has_own_metaclass(base) or classes.members(base, "__new__"):
            return None
    return _initialiser(cls, names)


def _initialiser(cls: Class, names: Names) -> Callees:
    classes = names.classes
    order = classes.order(cls)
    if names.strict and names.elsewhere.is_set("__init__"):
        return None
    for base in order:
        if isinstance(base, External):
            return None
        if classes.members(base, "__init__"):
            found = classes.attribute(Instance(replace(base, open=False)), "__init__")
            return _all(callees(one, names) for one in found) if found else None
        if _dataclass(base, names) is not None:
            fields = _fields(base, names)
            return None if fields is None else (_made(cls, fields),)
    return (_made(cls, ()),)


def _made(cls: Class, parameters: Sequence[Parameter]) -> Callee:
    return Callee(cls.spot.qualified(cls.node.name), tuple(parameters), 0, cls.spot, cls.node)


def _leaves_it_to_init(name: str) -> bool:
    if name.startswith(_LEAVE_IT_TO_INIT) or name in _BUILTIN_BASES:
        return True
    return name.startswith("builtins.") and name.endswith(_EXCEPTIONS)


def _is_transparent(decorator: ast.expr, cls: Class, names: Names) -> bool:
    origin = names.classes.origin(decorator, cls.spot)
    if origin == "dataclasses.dataclass":
        return True
    return origin in {"functools.total_ordering", "typing.final", "typing.runtime_checkable", "typing_extensions.final"}


# --- fields ---


def _dataclass(cls: Class, names: Names) -> dict[str, bool] | None:
    """Return the flags of a class that is a dataclass with a constructor of its own making, None for any other."""
    for decorator in cls.node.decorator_list:
        if names.classes.origin(decorator, cls.spot) == "dataclasses.dataclass":
            keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
            flags = {k.arg: k.value.value is True for k in keywords if k.arg and isinstance(k.value, ast.Constant)}
            return flags if flags.get("init", True) else None
    return None


def _fields(cls: Class, names: Names) -> tuple[Parameter, ...] | None:
    """Return the parameters that a dataclass makes of its fields and those of its bases, None where one is odd."""
    found: dict[str, Parameter | None] = {}
    for base in reversed(names.classes.order(cls)):
        if isinstance(base, External):
            return None
        flags = _dataclass(base, names)
        if flags is None:
            if any(names.classes.origin(d, base.spot) == "dataclasses.dataclass" for d in base.node.decorator_list):
                return None
            continue
        keyword = flags.get("kw_only", False)
        for statement, guard in guarded(base.node.body, nested=False):
            if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
                continue
            if guard.tests or not guard.certain:
                return None
            if _last_name(statement.annotation) == "KW_ONLY":
                keyword = True
            elif _last_name(statement.annotation) != "ClassVar":
                field = _field(statement.target.id, statement.value, base, names, keyword=keyword)
                if field is None:
                    return None
                found[statement.target.id] = field[0]
    present = [p for p in found.values() if p is not None]
    return tuple(sorted(present, key=lambda p: p.kind == "keyword"))


def _field(
    name: str, value: ast.expr | None, cls: Class, names: Names, *, keyword: bool
) -> tuple[Parameter | None] | None:
    """Return the parameter of a field (in a tuple, with None for a field without one), None where it is odd."""
    default: str | None = None
    match value:
        case None:
            pass
        case ast.Call(keywords=keywords) as call:
            if names.classes.origin(call, cls.spot) != "dataclasses.field":
                if isinstance(call.func, ast.Attribute | ast.Name) and "field" not in _last_name(call.func).lower():
                    default = "..."
                else:
                    return None
            given = {k.arg: k.value for k in keywords}
            if default is None:
                if None in given:
                    return None
                default = "..." if given.keys() & {"default", "default_factory"} else None
                if isinstance(off := given.get("init"), ast.Constant) and off.value is False:
                    return (None,)
                if isinstance(only := given.get("kw_only"), ast.Constant):
                    keyword = bool(only.value)
        case _:
            default = "..."
    return (Parameter("keyword" if keyword else "positional", name, default),)


def _last_name(annotation: ast.expr) -> str:
    """Return the last name of an annotation's head: `ClassVar` of `typing.ClassVar[int]`, quoted or not."""
    text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
    return str(text).partition("[")[0].rpartition(".")[2].strip()


def _is_named_tuple(cls: Class, names: Names) -> bool:
    bases = cls.node.bases
    return (
        bool(bases) and names.classes.origin(bases[0], cls.spot) == "typing.NamedTuple" and not cls.node.decorator_list
    )


def _named_tuple_fields(cls: Class) -> Iterator[Parameter]:
    for statement in cls.node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield Parameter("positional", statement.target.id, None if statement.value is None else "...")
