"""The facts of one image: what it is, what is in it, what it runs on. Facts only, never behaviour."""

from __future__ import annotations

import ast
import posixpath
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected
from orchestrator.spec.document import Document, read_document
from orchestrator.spec.model import Model, Scalar
from orchestrator.spec.serving import MemoryRun, RefusedVariable, Score, Server
from orchestrator.spec.validate import misread, validated

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

Status = Literal["measured", "specified", "disputed", "unknown"]


class Figure(Model):
    """One figure with its source. A disputed one has all its `values`, an unknown one has none."""

    value: Annotated[Scalar | None, Field(description="the value to compute with")] = None
    values: Annotated[list[Scalar], Field(description="all values that somebody states, where they disagree")] = []
    status: Annotated[Status, Field(description="how well it is known")]
    source: Annotated[str, Field(min_length=1, description="who says so, or how it was measured")]
    note: Annotated[str, Field(description="what else one should know")] = ""

    @model_validator(mode="after")
    def _value_fits_status(self) -> Self:
        if self.status == "unknown" and (self.value is not None or self.values):
            raise ValueError("an unknown figure has no value")
        if self.status != "unknown" and self.value is None:
            raise ValueError("give the `value` to compute with, or `status: unknown`")
        if self.status == "disputed" and len(self.values) <= 1:
            raise ValueError("a disputed figure lists all its `values`")
        return self


class Image(Model):
    """The image that the Dockerfile starts from."""

    reference: Annotated[str, Field(min_length=1, description="what stands behind FROM")]
    python: Annotated[str, Field(pattern=r"^3\.\d+$", description="major.minor of its interpreter")]
    interpreter: Annotated[str, Field(pattern=r"^/", description="absolute path of its interpreter")]
    environment: Annotated[dict[str, str], Field(description="environment variable of the image → value")] = {}
    files: Annotated[
        list[str], Field(description="files outside the package roots that are known to be in it, such as libraries")
    ] = []


class Compiler(Model):
    """The compiler in the image for code of the device; a stage may have its sources compiled with it there."""

    path: Annotated[str, Field(pattern=r"^/", description="absolute path of the compiler in the image")]
    options: Annotated[
        list[str], Field(description="what makes a shared library for the device of one source; `-o` is added")
    ]
    source: Annotated[str, Field(min_length=1, description="who says so")]


class NoCompiler(Model):
    """The image has no compiler for code of the device."""

    absent: Annotated[str, Field(min_length=1, description="why, shown where a stage is skipped for it")]


class SdistBase(Model):
    """One package of the base tree from a source distribution of the package index."""

    sdist: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+==[^=\s]+$", description="NAME==VERSION")]
    package: Annotated[
        str, Field(min_length=1, description="the package folder inside it; fills the package root of that name")
    ]

    def fills(self, roots: Collection[str]) -> str:
        """Return the package root that it fills: the one of the package's name, else the target's first."""
        return self.package if self.package in roots else next(iter(roots))


class WorkspaceBase(Model):
    """Packages of the base tree that another workspace's pipeline makes: all that its own target has."""

    workspace: Annotated[str, Field(min_length=1, description="folder, relative to this workspace")]


class SuppliedBase(Model):
    """A base tree that the user hands over: `--tree ROOT=DIR` or an archive."""

    supplied: Annotated[str, Field(min_length=1, description="how to get it, shown when it is missing")]


Origin = SdistBase | WorkspaceBase | SuppliedBase


def _signature(text: str) -> str:
    try:
        statements = ast.parse(f"def f{text}: pass").body
    except (SyntaxError, ValueError):
        statements = []
    if len(statements) != 1 or not text.startswith("("):
        raise ValueError("not a signature as Python writes one, such as `(a, b, c=None)`")
    return text


VendorSignature = Annotated[str, AfterValidator(_signature)]
VendorNames = Annotated[
    Annotated[list[str], Tag("list")] | Annotated[dict[str, VendorSignature | None], Tag("mapping")],
    Discriminator(lambda value: "mapping" if isinstance(value, dict) else "list"),  # a fault is told once
]


class Target(Model):
    """One image: reference, interpreter, package roots, device, model, inventory, mounts, engine rules."""

    version: Annotated[Literal[1], Field(description="version of this format")]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="lower case, digits, dashes")]
    summary: Annotated[str, Field(description="one sentence: which image this is")] = ""
    extends: Annotated[
        str | None, Field(min_length=1, description="target file, relative to this one, whose facts hold here too")
    ] = None
    image: Annotated[Image, Field(description="the image and its interpreter")]
    base: Annotated[
        Origin | Annotated[list[Origin], Field(min_length=1)],
        Field(description="where the base tree comes from: one origin, or a list of them, each for its own packages"),
    ]
    roots: Annotated[
        dict[str, list[str]], Field(min_length=1, description="package root → the paths it has in the image")
    ]
    packages: Annotated[
        dict[str, str], Field(description="importable third-party packages in the image → version, `` if unknown")
    ] = {}
    vendor_modules: Annotated[
        dict[str, VendorNames],
        Field(
            description="compiled vendor module → the names it has, [] if not listed; or name → its signature as "
            "Python writes it, `(a, b, c=None)`, null where it is not known"
        ),
    ] = {}
    constants: Annotated[
        dict[str, Scalar], Field(description="expressions whose value is a fact here, such as a capability gate")
    ] = {}
    mounts: Annotated[list[str], Field(description="folders that exist only at run time")] = []
    compiler: Annotated[
        Compiler | NoCompiler | None, Field(description="the compiler in the image for device code, or why it has none")
    ] = None
    device: Annotated[
        dict[str, Scalar | Figure], Field(description="name → figure; `${device.NAME}` refers to it")
    ] = {}
    model: Annotated[dict[str, Scalar | Figure], Field(description="name → figure; `${model.NAME}` refers to it")] = {}
    engine: Annotated[
        dict[str, Scalar | Figure], Field(description="name → figure; `${engine.NAME}` refers to it")
    ] = {}
    server: Annotated[Server | None, Field(description="the server that a run configuration starts")] = None
    memory_runs: Annotated[
        list[MemoryRun], Field(description="measured starts, to which the activation peak is fitted")
    ] = []
    score: Annotated[
        Score | None, Field(description="how the platform scores a server's speed; `orchestrator sweep` computes it")
    ] = None
    required_env: Annotated[
        dict[str, Figure], Field(description="environment variable that may not get lost → the value it has to have")
    ] = {}
    refused_env: Annotated[list[RefusedVariable], Field(description="variables that cannot be taken here")] = []
    read_env: Annotated[
        dict[str, str],
        Field(description="variable that something outside the tree reads → what reads it; `NCCL_*` is all so named"),
    ] = {}

    @model_validator(mode="after")
    def _one_origin_a_root(self) -> Self:
        filled = [origin.fills(self.roots) for origin in self.origins if isinstance(origin, SdistBase)]
        twice = next((root for root in filled if filled.count(root) > 1), None)
        if twice:
            raise ValueError(f"two source distributions fill the package root '{twice}'")
        return self

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Every origin of the base tree."""
        return tuple(self.base) if isinstance(self.base, list) else (self.base,)

    def values(self) -> dict[str, Any]:
        """Return the dotted values that YAML may refer to; unknown figures are left out."""
        found: dict[str, Any] = {}
        for section in ("device", "model", "engine"):
            for key, figure in getattr(self, section).items():
                value = figure.value if isinstance(figure, Figure) else figure
                if value is not None:
                    found[f"{section}.{key}"] = value
        return found

    def unknown(self) -> frozenset[str]:
        """Return the dotted names of figures that are known to be unknown."""
        return frozenset(
            f"{section}.{key}"
            for section in ("device", "model", "engine")
            for key, figure in getattr(self, section).items()
            if isinstance(figure, Figure) and figure.value is None
        )


_SERVING = ("server", "required_env", "read_env")
_MERGED = ("image", "roots", "packages", "vendor_modules", "constants", "device", "model", "engine", *_SERVING)


def load_target(name: str, content: bytes, read: Callable[[str], bytes]) -> Target:
    """Return the target in `content`, with what it `extends` below it; raise `Rejected` with every fault's place.

    The sections in `_MERGED` are merged per key and the extending file wins; every other key it gives replaces
    the other's. `read` returns a further file by its name, which is made relative to the extending file's; it raises
    `OSError`, `KeyError` or `Rejected` where there is none (E115).
    """
    document = _extended(read_document(name, content), read, (posixpath.normpath(name),))
    faults = misread(document)
    if faults:
        raise Rejected(faults)
    return validated(Target, document.data, document, {})


def _extended(document: Document, read: Callable[[str], bytes], chain: tuple[str, ...]) -> Document:
    """Return the document on top of the one it extends; `chain` are the files on the way to it."""
    file = document.data.get("extends") if isinstance(document.data, dict) else None
    if not isinstance(file, str) or not file:
        return document
    place = document.place(("extends",))
    base = posixpath.normpath(posixpath.join(posixpath.dirname(chain[-1]), file))
    if base in chain:
        circle = " → ".join([*chain[chain.index(base) :], base])
        raise Rejected(Diagnostic("E115", f"targets extend each other: {circle}", place, help="Remove one `extends:`."))
    try:
        content = read(base)
    except (OSError, KeyError, Rejected) as error:
        reason = error.diagnostics[0].message if isinstance(error, Rejected) else "it cannot be read"
        message = f"`extends: {file}` names {base}: {reason}"
        help_ = "Name a file relative to this one."
        raise Rejected(Diagnostic("E115", message, place, help=help_)) from None
    below = _extended(read_document(base, content), read, (*chain, base))
    if not isinstance(below.data, dict):
        raise Rejected(Diagnostic("E115", f"{base} is no mapping", Place(base), help="A target is a mapping."))
    return _merged(below, document)


def _merged(below: Document, above: Document) -> Document:
    """Return one document with the facts of both; every value keeps the place where it was written."""
    merged = Document(above.name, above.text, dict(below.data))
    merged.values, merged.keys, merged.misread = dict(below.values), dict(below.keys), dict(below.misread)
    for key, value in above.data.items():
        other = merged.data.get(key)
        if key in _MERGED and isinstance(value, dict) and isinstance(other, dict):
            merged.data[key] = {**other, **value}
            replaced: list[tuple[str, ...]] = [(key, inner) for inner in value]
        else:
            merged.data[key] = value
            replaced = [(key,)]
        for table in (merged.values, merged.keys, merged.misread):
            for path in [p for p in table if any(p[: len(r)] == r for r in replaced)]:
                del table[path]
    merged.values.update(above.values)
    merged.keys.update(above.keys)
    merged.misread.update(above.misread)
    return merged
