"""The plan: stages in order, every pattern, template and transform compiled, every source read.

All that can be known without a source tree is known here; a plan that exists is valid.
"""

from __future__ import annotations

import ast
import dataclasses
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from orchestrator.checks.compiler import CompilerNamed
from orchestrator.checks.files import FileExists
from orchestrator.checks.house.parses import fault_of_compiling
from orchestrator.checks.serving.facts import Serving
from orchestrator.checks.view import Facts
from orchestrator.code.edits import Assign, Delete, Import, Insert, Replace, ScopedEdit, Transform
from orchestrator.code.patterns import compile_pattern
from orchestrator.code.source import Source, parse_python
from orchestrator.code.template import compile_template, own_result
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, Severity, did_you_mean
from orchestrator.core.digest import digest, digest_data
from orchestrator.engine.graph import ancestors, order
from orchestrator.engine.groups import chosen
from orchestrator.engine.load import explained
from orchestrator.engine.lock import Pinned
from orchestrator.engine.serving import serving_facts
from orchestrator.engine.templates import compile_jinja, render_template
from orchestrator.engine.wheels import PlannedWheel
from orchestrator.origin.plugins import find_plugin, load_plugin, source_digest, suggestion
from orchestrator.spec.edits import AssignEdit, DeleteEdit, ImportEdit, InsertEdit, ReplaceEdit, TransformEdit
from orchestrator.spec.pins import pin, wheel_name
from orchestrator.spec.target import Compiler, NoCompiler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import CodeType

    from orchestrator.checks.base import Check
    from orchestrator.code.edits import Edit
    from orchestrator.code.patterns import Pattern
    from orchestrator.code.template import Template
    from orchestrator.code.transforms import LoadedTransform
    from orchestrator.engine.load import Loaded, Read
    from orchestrator.engine.model import Stage, WorkspaceWaiver
    from orchestrator.origin.plugins import Kind, Plugin
    from orchestrator.spec.edits import AnyEdit
    from orchestrator.spec.target import Target


@dataclass(frozen=True)
class PlannedEdit:
    """A compiled edit, the number it has in its stage (from 1), and where it stands in the YAML."""

    number: int
    edit: ScopedEdit
    place: Place
    source: str = ""
    """For a transform: the file of the workspace that it comes from."""


@dataclass(frozen=True)
class PlannedDeploy:
    """A file to put into the tree."""

    source: str
    to: str
    content: bytes
    replaces: str | None
    place: Place
    tree: ast.Module | None = None
    """Its syntax tree, where it is Python: read when the plan is made, which must know whether it parses."""


@dataclass(frozen=True)
class PlannedCompile:
    """A source to compile in the image: paths of the tree, and the whole command but for source and output."""

    source: str
    to: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class PlannedRender:
    """A template to render into an artefact."""

    template: str
    to: str
    code: CodeType
    schema: str | None
    place: Place


@dataclass(frozen=True)
class PlannedStage:
    """A stage, ready to run. `digest` names it and everything that leads to it."""

    stage: Stage
    edits: tuple[PlannedEdit, ...]
    deploys: tuple[PlannedDeploy, ...]
    renders: tuple[PlannedRender, ...]
    place: Place
    digest: str
    wheels: tuple[PlannedWheel, ...] = ()
    compiles: tuple[PlannedCompile, ...] = ()

    @property
    def id(self) -> str:
        """The stage's id."""
        return self.stage.id


@dataclass(frozen=True)
class Plan:
    """Everything a run needs besides the tree."""

    name: str
    target: Target
    facts: Facts
    values: Mapping[str, Any]
    stages: tuple[PlannedStage, ...]
    ancestors: Mapping[str, frozenset[str]]
    sources: Mapping[str, str]
    """Workspace file → digest: templates, deployed files, transforms."""
    read: Callable[[str], bytes]
    warnings: tuple[Diagnostic, ...] = ()
    waive: tuple[WorkspaceWaiver, ...] = ()
    """What the pipeline declares about its workspace."""
    plugins: Mapping[str, Pinned] = dataclasses.field(default_factory=dict)
    """`transform NAME` or `check NAME` of an installed distribution → what the lock holds of it."""
    further_targets: tuple[str, ...] = ()
    """The target files that the pipeline names beside its first."""

    @property
    def digest(self) -> str:
        """The digest of all stages as they will run."""
        return digest_data([stage.digest for stage in self.stages])


def make_plan(loaded: Loaded, read: Read) -> Plan:
    """Return the plan of a loaded pipeline; raise `Rejected` with every fault found."""
    stages = chosen(loaded.pipeline.stages, loaded.place)
    ids = order(stages, loaded.place)
    index = {stage.id: i for i, stage in enumerate(stages)}
    compiler = _Compiler(loaded, read)
    planned: dict[str, PlannedStage] = {}
    for id_ in ids:
        stage = stages[index[id_]]
        before = [planned[need].digest for need in sorted(stage.needs)]
        planned[id_] = compiler.stage(index[id_], stage, before)
    compiler.checks_name_stages(stages, set(ids))
    if any(d.severity is Severity.ERROR for d in compiler.found):
        raise Rejected(compiler.found)
    return Plan(
        name=loaded.pipeline.name,
        target=loaded.target,
        facts=facts_of(loaded.target, loaded.values, serving_facts(loaded, read)),
        values=loaded.values,
        stages=tuple(planned[id_] for id_ in ids),
        ancestors=ancestors(stages),
        sources=compiler.sources,
        read=read,
        warnings=tuple(compiler.found),
        waive=tuple(loaded.pipeline.waive),
        plugins=compiler.plugins,
        further_targets=tuple(loaded.pipeline.targets),
    )


def facts_of(target: Target, values: Mapping[str, Any], serving: Serving | None = None) -> Facts:
    """Return what checks and house rules need of a target; `serving` is what a run configuration is judged by."""
    major, minor = target.image.python.split(".")
    return Facts(
        python=(int(major), int(minor)),
        roots={root: tuple(paths) for root, paths in target.roots.items()},
        packages=frozenset(target.packages),
        vendor_modules={name: tuple(names) for name, names in target.vendor_modules.items()},
        vendor_signatures={
            module: {name: signature for name, signature in names.items() if signature}
            for module, names in target.vendor_modules.items()
            if isinstance(names, dict)
        },
        constants=dict(target.constants),
        mounts=tuple(target.mounts),
        values=dict(values),
        serving=serving or Serving(),
        compiler=compiler_of(target),
        no_compiler=target.compiler.absent if isinstance(target.compiler, NoCompiler) else "",
    )


def compiler_of(target: Target) -> tuple[str, ...]:
    """Return the command of the compiler for device code in the image, () where the target names none."""
    found = target.compiler
    return (found.path, *found.options) if isinstance(found, Compiler) else ()


class _Compiler:
    """Compiles stages and collects what is wrong with them."""

    def __init__(self, loaded: Loaded, read: Read) -> None:
        self.loaded = loaded
        self.read_file = read
        self.found: list[Diagnostic] = []
        self.sources: dict[str, str] = {}
        self.transforms: dict[str, LoadedTransform] = {}
        self.plugins: dict[str, Pinned] = {}
        self.wheels: dict[str, tuple[str, int]] = {}

    def stage(self, index: int, stage: Stage, before: list[str]) -> PlannedStage:
        here = len(self.found)
        edits = [self.edit(index, i, edit) for i, edit in enumerate(stage.edits)]
        deploys = [self.deploy(index, i, stage) for i in range(len(stage.deploy))]
        renders = [self.render(index, i, stage) for i in range(len(stage.render))]
        wheels = [self.wheel(index, i, stage) for i in range(len(stage.wheels))]
        compiles = [self.compile(index, i, stage) for i in range(len(stage.compile))]
        self.live(index, stage, deploys)
        self.patterns_of_checks(index, stage)
        unknown = self.loaded.target.unknown()
        self.found[here:] = [explained(d, unknown).in_stage(stage.id) for d in self.found[here:]]
        files = [d.file for d in stage.deploy] + [r.template for r in stage.render]
        files += [e.source for e in edits if e and e.source]
        fills = bool(stage.render) or any(d.template for d in stage.deploy)
        identity = {
            "stage": stage.model_dump(mode="json", by_alias=True, exclude=_says_nothing(stage)),
            "values": {k: v for k, v in self.loaded.values.items() if f"${{{k}}}" in _text_of(stage) or fills},
            "files": {file: self.sources.get(file, "") for file in files},
            "before": before,
            **({"compiler": compiler_of(self.loaded.target)} if stage.compile else {}),
        }
        plugins = self.plugins_of(index, stage)
        if plugins:
            identity["plugins"] = {name: [pinned.version, pinned.sha256] for name, pinned in plugins.items()}
        return PlannedStage(
            stage,
            tuple(e for e in edits if e),
            tuple(d for d in deploys if d),
            tuple(r for r in renders if r),
            self.loaded.place(index, "id"),
            digest_data(identity),
            tuple(w for w in wheels if w),
            tuple(c for c in compiles if c),
        )

    def edit(self, stage: int, number: int, edit: AnyEdit) -> PlannedEdit | None:
        path = ("edits", number)
        place = self.loaded.place(stage, *path)
        ok = self.target_path(edit.file, self.loaded.place(stage, *path, "file"))
        try:
            compiled, source = self.compiled(edit, lambda key: self.loaded.place(stage, *path, key))
        except Rejected as error:
            self.found.extend(d.at(place) for d in error.diagnostics)
            return None
        key = next(k for k in ("match", "name", "code", "use") if hasattr(edit, k))
        scoped = ScopedEdit(edit.file, edit.within, compiled)
        return PlannedEdit(number + 1, scoped, self.loaded.place(stage, *path, key), source) if ok else None

    def compiled(self, edit: AnyEdit, place: Callable[[str], Place]) -> tuple[Edit, str]:
        known = self.loaded.values
        pattern = _at(place, compile_pattern)
        template = _at(place, compile_template)
        match edit:
            case AssignEdit():
                old = pattern("from", edit.from_, known) if edit.from_ is not None else None
                value = template("value", edit.value, known, old.holes if old else frozenset())
                _one_expression(value.is_expression, place("value"))
                return Assign(pattern("name", edit.name, known), old, value), ""
            case ReplaceEdit():
                found = pattern("match", edit.match, known)
                with_ = template("with", edit.with_, known, found.holes)
                _not_its_own_result(found, with_, place("match"))
                return Replace(found, with_, edit.count), ""
            case DeleteEdit():
                return Delete(pattern("match", edit.match, known), edit.count), ""
            case InsertEdit():
                return self.insert(edit, place), ""
            case ImportEdit():
                code = template("code", edit.code, known, frozenset())
                _only_imports(code.nodes, place("code"))
                return Import(code), ""
            case TransformEdit():
                return self.transform(edit, place)

    def insert(self, edit: InsertEdit, place: Callable[[str], Place]) -> Insert:
        known = self.loaded.values
        code = _at(place, compile_template)("code", edit.code, known, frozenset())
        if edit.before is not None:
            return Insert("before", _at(place, compile_pattern)("before", edit.before, known), code)
        if edit.after is not None:
            return Insert("after", _at(place, compile_pattern)("after", edit.after, known), code)
        return Insert(edit.at or "end", None, code)

    def transform(self, edit: TransformEdit, place: Callable[[str], Place]) -> tuple[Transform, str]:
        from orchestrator.code.transforms import (  # noqa: PLC0415 - libcst only where it is used
            installed_transform,
            load_transform,
        )

        path = f"stages/{edit.use}.py" if "." not in edit.use else ""
        if edit.use not in self.transforms and not path:
            plugin = self.plugin("transform", edit.use, place("use"))
            self.transforms[edit.use] = _at(place, installed_transform)("use", plugin)
        elif edit.use not in self.transforms:
            content = self.transform_file(edit.use, path, place("use"))
            self.transforms[edit.use] = _loaded_transform(load_transform, edit.use, path, content)
        loaded = self.transforms[edit.use]
        try:
            params = loaded.params.model_validate(edit.params)
        except ValidationError as error:
            raise Rejected(_wrong_params(edit, loaded, error, place)) from None
        return Transform(edit.use, loaded.function, params, loaded.applied, loaded.origin), path

    def transform_file(self, name: str, path: str, place: Place) -> bytes:
        """Return the file of a transform; where there is none, name what an installed distribution may bring."""
        try:
            return self.source(path, place, "E221")
        except Rejected as error:
            near = suggestion("transform", name)
            found = error.diagnostics[0]
            if found.code == "E221" and near.startswith("did you mean") and not found.help.startswith("did you mean"):
                raise Rejected(dataclasses.replace(found, help=near)) from None
            raise

    def plugin(self, kind: Kind, name: str, place: Place) -> Plugin:
        """Return an installed transform or check, and note which: the lock holds its version and source."""
        plugin = find_plugin(kind, name)
        if plugin is None:
            message = f"no installed distribution brings a {kind} '{name}'"
            raise Rejected(Diagnostic("E221", message, place, help=suggestion(kind, name)))
        load_plugin(plugin)  # what is wrong with it is told before what is wrong with its source
        self.plugins[f"{kind} {name}"] = Pinned(plugin.version, source_digest(plugin))
        return plugin

    def plugins_of(self, index: int, stage: Stage) -> dict[str, Pinned]:
        """Return what a stage uses of installed distributions."""
        names = {f"transform {edit.use}" for edit in stage.edits if isinstance(edit, TransformEdit)}
        for way, check in stage.checks():
            names.add(f"check {check.check}")
            if "." in check.check:
                place = self.loaded.place(index, *way, "check")
                try:
                    self.plugin("check", check.check, place)
                except Rejected as error:
                    self.found.extend(d.at(place) for d in error.diagnostics)
        return {name: self.plugins[name] for name in sorted(names & self.plugins.keys())}

    def deploy(self, stage: int, number: int, model: Stage) -> PlannedDeploy | None:
        deploy = model.deploy[number]
        place = self.loaded.place(stage, "deploy", number, "source" if deploy.source else "template")
        ok = self.target_path(deploy.to, self.loaded.place(stage, "deploy", number, "to"), _asked_for(model))
        try:
            content = self.source(deploy.file, place)
            if deploy.template:
                content = self.filled(deploy.template, content)
            python = facts_of(self.loaded.target, {}).python
            tree = _python_source(deploy.file, content, python) if deploy.to.endswith(".py") else None
        except Rejected as error:
            self.found.extend(d.at(place) for d in error.diagnostics)
            return None
        return PlannedDeploy(deploy.file, deploy.to, content, deploy.replaces, place, tree) if ok else None

    def filled(self, path: str, content: bytes) -> bytes:
        """Return what a template of a deployed file makes of the values; stages bring it nothing."""
        try:
            code = compile_jinja(path, content.decode("utf-8"))
        except UnicodeDecodeError:
            message = f"template '{path}' is not UTF-8"
            raise Rejected(Diagnostic("E125", message, Place(path), help="Save it as UTF-8.")) from None
        context = {**sections(self.loaded.values), "target": self.loaded.target.name}
        return render_template(path, code, context, self.read_file).encode()

    def compile(self, stage: int, number: int, model: Stage) -> PlannedCompile | None:
        wanted = model.compile[number]
        place = self.loaded.place(stage, "compile", number, "source")
        deployed = [deploy.to for deploy in model.deploy]
        command = compiler_of(self.loaded.target)
        if not self.target_path(wanted.to, self.loaded.place(stage, "compile", number, "to")):
            return None
        if wanted.source not in deployed:
            message = f"'{wanted.source}' is no file that this stage deploys"
            help_ = did_you_mean(wanted.source, deployed)
        elif wanted.to.partition("/")[0] != wanted.source.partition("/")[0]:
            message = f"'{wanted.to}' lies in another package root than its source"
            help_ = "Let the compiler write beside the source, or below it."
        elif wanted.to in deployed or [other.to for other in model.compile].count(wanted.to) > 1:
            message = f"'{wanted.to}' is written twice by this stage"
            help_ = "Let the compiler write a file of its own."
        elif not command and not any(isinstance(check, CompilerNamed) for check in model.when or ()):
            message = f"target '{self.loaded.target.name}' names no compiler for device code"
            help_ = "Name it under `compiler:` of the target, or have the stage ask: `when: [{check: compiler_named}]`."
        else:
            return PlannedCompile(wanted.source, wanted.to, command)
        self.found.append(Diagnostic("E260", message, place, help=help_))
        return None

    def render(self, stage: int, number: int, model: Stage) -> PlannedRender | None:
        render = model.render[number]
        place = self.loaded.place(stage, "render", number, "template")
        try:
            text = self.source(render.template, place).decode("utf-8")
            code = compile_jinja(render.template, text)
        except Rejected as error:
            self.found.extend(d.at(place) for d in error.diagnostics)
            return None
        except UnicodeDecodeError:
            message = f"template '{render.template}' is not UTF-8"
            self.found.append(Diagnostic("E125", message, place, help="Save it as UTF-8."))
            return None
        return PlannedRender(render.template, render.to, code, render.schema_, place)

    def wheel(self, stage: int, number: int, model: Stage) -> PlannedWheel | None:
        """Return a wheel that the stage asks for; the file itself is fetched with the base tree."""
        wheel = model.wheels[number]
        place = self.loaded.place(stage, "wheels", number, "source" if wheel.source else "requirement")
        try:
            name, version = wheel_name(wheel.source) if wheel.source else pin(wheel.requirement or "")
        except Rejected as error:
            self.found.extend(d.at(place) for d in error.diagnostics)
            return None
        planned = PlannedWheel(name, version, wheel.source, wheel.replaces, place)
        other = self.wheels.setdefault(planned.key, (model.id, number))
        if other != (model.id, number):
            message = f"two wheels of '{planned.key}': stage '{other[0]}' has one as well"
            self.found.append(
                Diagnostic("E240", message, place, help="An image has one version of a package: keep one.")
            )
        return planned

    def live(self, index: int, stage: Stage, deploys: Iterable[PlannedDeploy | None]) -> None:
        """Check that the module that is to be asked in the image is one that the stage deploys, and answers."""
        if stage.live is None:
            return
        names = [deploy.to for deploy in stage.deploy]
        here = next((deploy for deploy in deploys if deploy and deploy.to == stage.live), None)
        if stage.live not in names:
            message = f"`live: {stage.live}` is no file that this stage deploys"
            help_ = did_you_mean(stage.live, names)
        elif here is not None and not _answers_live(here.tree):
            message = f"'{here.source}' has no function `live()` at its top level that can be called without arguments"
            help_ = "Define it; it returns mappings of operation, path and reason to texts."
        else:
            return
        self.found.append(Diagnostic("E250", message, self.loaded.place(index, "live"), help=help_))

    def source(self, path: str, place: Place, missing: str = "E120") -> bytes:
        try:
            content = self.read_file(path)
        except Rejected as error:
            first = error.diagnostics[0]
            code = missing if first.code == "E120" else first.code
            raise Rejected(Diagnostic(code, first.message, place, help=first.help)) from None
        self.sources[path] = digest(content)
        return content

    def target_path(self, path: str, place: Place, asked_for: frozenset[str] = frozenset()) -> bool:
        """Check that a path lies in one of the target's package roots and under no runtime mount.

        A root that the stage's own `when:` asks for may be missing: then the stage is skipped.
        """
        pure = PurePosixPath(path)
        target = self.loaded.target
        mount = next((m for m in target.mounts if pure.is_absolute() and pure.is_relative_to(m)), None)
        root = pure.parts[0] if pure.parts else ""
        if mount:
            message = f"'{path}' lies under the runtime mount {mount}: it does not exist while the image is built"
            fault = Diagnostic("E505", message, place, help="Do this when the container starts, not in the image.")
        elif pure.is_absolute() or ".." in pure.parts or "\\" in path or str(pure) != path or not path.isprintable():
            message = f"target path {path!r} is not a plain path below a package root"
            help_ = f"Write it as {next(iter(target.roots))}/…, without `..`, `//` and a leading `/`."
            fault = Diagnostic("E130", message, place, help=help_)
        elif root not in target.roots and root not in asked_for:
            message = f"'{root}' is not a package root of target '{target.name}'"
            fault = Diagnostic("E131", message, place, help=did_you_mean(root, target.roots))
        elif len(pure.parts) == 1:
            fault = Diagnostic("E130", f"'{path}' is a package root, not a file in it", place, help="Name a file.")
        else:
            return True
        self.found.append(fault)
        return False

    def patterns_of_checks(self, index: int, stage: Stage) -> None:
        """Compile the code in checks once, so that a mistyped pattern fails at load."""
        for way, check in stage.checks():
            self.found.extend(self.faults_of_check(check, (index, *way)))

    def faults_of_check(self, check: Check, path: tuple[int, *tuple[str | int, ...]]) -> Iterable[Diagnostic]:
        from orchestrator.spec.model import code_fields  # noqa: PLC0415 - beside its only use

        dumped = check.model_dump(by_alias=True, exclude_none=True)
        for field, form in sorted(code_fields(type(check)).items()):
            text = dumped.get(field)
            if isinstance(text, str):
                try:
                    compile_pattern(form.replace("{}", text), self.loaded.values)
                except Rejected as error:
                    yield from (d.at(self.loaded.place(*path, field)) for d in error.diagnostics)

    def checks_name_stages(self, stages: Sequence[Stage], ids: set[str]) -> None:
        for index, stage in enumerate(stages):
            for i, check in enumerate(stage.post):
                if check.until is not None and check.until not in ids:
                    place = self.loaded.place(index, "post", i, "until")
                    message = f"`until: {check.until}` names no stage"
                    self.found.append(
                        Diagnostic("E211", message, place, did_you_mean(check.until, ids), stage=stage.id)
                    )


def _at(place: Callable[[str], Place], compiler: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a compiler so that its diagnostics get the place of the YAML key that it compiles."""

    def compiled(key: str, *args: Any) -> Any:  # noqa: ANN401 - passes through
        try:
            return compiler(*args)
        except Rejected as error:
            raise Rejected(d.at(place(key)) for d in error.diagnostics) from None

    return compiled


def _loaded_transform(load: Callable[..., LoadedTransform], name: str, path: str, content: bytes) -> LoadedTransform:
    try:
        return load(name, path, content)
    except SystemExit as error:
        message = f"importing it ended the program: exit({error.code!r})"
        help_ = "Raise an exception instead."
        raise Rejected(Diagnostic("E415", message, Place(path), help=help_)) from None


def _not_its_own_result(pattern: Pattern, template: Template, place: Place) -> None:
    """Refuse a pattern that matches its replacement whatever the holes take (rule 3): that shows without a tree."""
    what = own_result(pattern, template)
    if what is not None:
        help_ = "Make the pattern narrower than the replacement, so that it cannot match what it wrote."
        raise Rejected(Diagnostic("E406", f"the pattern matches its own result: {what}", place, help=help_))


def _one_expression(is_expression: bool, place: Place) -> None:  # noqa: FBT001 - reads as a sentence
    if not is_expression:
        raise Rejected(Diagnostic("E206", "a value is one expression", place, help="Write what stands behind the `=`."))


def _only_imports(nodes: Iterable[Any], place: Place) -> None:
    if not all(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes):
        help_ = "Write `import x` or `from x import y`; other code goes into `op: insert`."
        raise Rejected(Diagnostic("E206", "not an import statement", place, help=help_))


def _answers_live(tree: ast.Module | None) -> bool:
    """Return whether a module, None where a file is none, defines `live()` so that it can be called."""
    for node in tree.body if tree else ():
        if isinstance(node, ast.FunctionDef) and node.name == "live":
            positional = len(node.args.posonlyargs) + len(node.args.args) - len(node.args.defaults)
            return not positional and all(default is not None for default in node.args.kw_defaults)
    return False


def _wrong_params(
    edit: TransformEdit, loaded: LoadedTransform, error: ValidationError, place: Callable[[str], Place]
) -> list[Diagnostic]:
    found = []
    origin = f" of {loaded.origin.partition(',')[0]}" if loaded.origin else ""
    for fault in error.errors(include_url=False):
        key = ".".join(str(part) for part in fault["loc"])
        fields = list(loaded.params.model_fields)
        help_ = did_you_mean(key, fields) if fault["type"] == "extra_forbidden" else f"It takes: {', '.join(fields)}."
        message = f"transform '{edit.use}'{origin}, parameter '{key}': {fault['msg']}"
        found.append(Diagnostic("E222", message, place("params"), help=help_))
    return found


def _python_source(path: str, content: bytes, python: tuple[int, int]) -> ast.Module:
    if b"\0" in content:
        raise Rejected(Diagnostic("E125", f"'{path}' is binary, not Python", help="Deploy the source file."))
    tree = parse_python(Source(path, content).text, path, python)
    fault = fault_of_compiling(Source.parsed(path, content, tree))
    if isinstance(fault, SyntaxError):
        place = Place(path, fault.lineno or 0, max(1, fault.offset or 1)) if fault.lineno else Place(path)
        raise Rejected(Diagnostic("E408", f"not valid Python: {fault.msg}", place, help="Mend the code at this place."))
    return tree


def sections(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return dotted values as a template has them: section → name → value."""
    found: dict[str, dict[str, Any]] = {"params": {}, "device": {}, "model": {}, "engine": {}}
    for name, value in values.items():
        section, _, key = name.partition(".")
        found[section][key] = value
    return found


def _asked_for(stage: Stage) -> frozenset[str]:
    """Return the package roots without which a `when:` of the stage does not hold."""
    return frozenset(check.file.partition("/")[0] for check in stage.when or () if isinstance(check, FileExists))


def _says_nothing(stage: Stage) -> set[str]:
    """Return the keys of a stage that have no part in what it does: what `bump` may find, and what is not said."""
    return {"expect", *(key for key in ("upstream", "expires") if getattr(stage, key) is None)}


def _text_of(stage: Stage) -> str:
    return stage.model_dump_json(by_alias=True)
