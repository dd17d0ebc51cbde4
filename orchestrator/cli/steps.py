"""The steps that commands are made of: read, validate, order, fetch, run. Reading is here, deciding is not."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from orchestrator.core.diagnostics import Diagnostic, ExitCode, Place, Rejected, Severity, did_you_mean, errors
from orchestrator.core.tree import Tree
from orchestrator.origin.workspace import WorkspaceFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from orchestrator.checks.view import Facts, Sources
    from orchestrator.cli.options import Request
    from orchestrator.engine.lock import Chain, Lock
    from orchestrator.engine.outcome import Run
    from orchestrator.engine.plan import Plan
    from orchestrator.engine.wheels import Wheel
    from orchestrator.origin.pinned import PinnedFile
    from orchestrator.spec.target import Origin, SdistBase

LOCK = "pipeline.lock"
T = TypeVar("T")


class Stopped(Exception):  # noqa: N818 - a step said no; the command line prints why and exits
    """A step found faults; `exit_code` is what the shell gets."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...], exit_code: ExitCode) -> None:
        super().__init__(exit_code.meaning)
        self.diagnostics = diagnostics
        self.exit_code = exit_code

    @classmethod
    def usage(cls, code: str, message: str, help_: str) -> Stopped:
        """Return the refusal of a command line that cannot be followed."""
        return cls((Diagnostic(code, message, help=help_),), ExitCode.USAGE)


def need_extra(extra: str, packages: Sequence[str]) -> None:
    """Stop (usage) where a package of an extra, which the command of the same name needs, is not installed."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        message = f"`{extra}` needs {', '.join(missing)}, which this Python does not have"
        raise Stopped.usage("E901", message, f"Install the extra: python -m pip install 'orchestrator[{extra}]'.")


@dataclass(frozen=True)
class BaseTree:
    """The tree that a run starts from: its name in words, compiled modules beside it, inputs with their digests.

    The wheels of the stages come along: they are fetched at the same moment.
    """

    tree: Tree
    name: str
    compiled: frozenset[str] = frozenset()
    inputs: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[Diagnostic, ...] = ()
    wheels: Mapping[str, Wheel] = field(default_factory=dict)
    """Distribution → the wheel that a stage puts over the tree."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Package root → its version, where the origin says it."""


def workspace_files(request: Request) -> WorkspaceFiles:
    """Return the reader of the workspace folder; stop (usage) where there is none."""
    root = request.workspace
    if not root.is_dir():
        raise Stopped.usage("E126", f"there is no folder {root}", "Name the workspace with --workspace.")
    return WorkspaceFiles(root.resolve())


def make_plan_for(request: Request) -> Plan:
    """Return the plan of the workspace.

    Stops (invalid) with everything that is wrong with it, or (usage) where the command line names what is not there.
    """
    return plan_of(request, workspace_files(request).read)


def plan_of(request: Request, read: Callable[[str], bytes]) -> Plan:
    """Return the plan of a workspace whose files `read` brings. Stops as `make_plan_for` does."""
    from orchestrator.engine.load import Choice, WrongChoice, load
    from orchestrator.engine.plan import make_plan

    content = pipeline_of(read, request)
    try:
        choice = Choice(request.variant, settings_of(request.settings), request.target)
        loaded = load(request.file, content, read, choice)
        return make_plan(loaded, read)
    except WrongChoice as error:
        raise Stopped(error.diagnostics, ExitCode.USAGE) from None
    except Rejected as error:
        raise Stopped(error.diagnostics, ExitCode.INVALID) from None


def pipeline_of(read: Callable[[str], bytes], request: Request) -> bytes:
    """Return the bytes of the pipeline; stop (usage, or invalid) where they cannot be read."""
    try:
        return read(request.file)
    except Rejected as error:
        found = error.diagnostics[0]
        if found.code == "E120" and not found.help.startswith("did you mean"):
            help_ = "Name it with --file, or its folder with --workspace; `orchestrator init` writes a starter."
            found = replace(found, help=help_)
        raise Stopped((found,), ExitCode.INVALID if found.code == "E123" else ExitCode.USAGE) from None


def image_templates(plan: Plan, *, required: bool) -> None:
    """Look at the templates that every build needs; stop (invalid) for those that cannot be used."""
    from orchestrator.emit.build import DOCKERFILE, DOCKERIGNORE
    from orchestrator.engine.templates import compile_jinja

    faults: list[Diagnostic] = []
    for name in (DOCKERFILE, DOCKERIGNORE):
        try:
            content = plan.read(name)
        except Rejected as error:
            faults += error.diagnostics if required else ()
            continue
        try:
            compile_jinja(name, content.decode("utf-8"))
        except Rejected as error:
            faults += error.diagnostics
        except UnicodeDecodeError:
            faults.append(Diagnostic("E125", f"'{name}' is not UTF-8", Place(name), help="Save it as UTF-8."))
    if faults:
        raise Stopped(tuple(faults), ExitCode.INVALID)


def settings_of(given: tuple[str, ...]) -> dict[str, str]:
    """Return what `--set` says, by parameter; stop (usage) where one is not NAME=VALUE."""
    settings = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise Stopped.usage("E203", f"--set {item}: not NAME=VALUE", "Write --set max_num_seqs=16.")
        settings[name.removeprefix("params.")] = value
    return settings


def base_of(plan: Plan, request: Request, trees: Callable[[Plan, Request], BaseTree] | None = None) -> BaseTree:
    """Return the base tree and the wheels of the stages. Stops where they cannot be had.

    Each package root comes from `--tree` if that names it, else from the target's origins. With `--tree` an origin
    that cannot be had is no fault: its roots are absent then. `trees` takes the place of `tree_of`, for a tree that is
    there already.
    """
    from orchestrator.cli.wheels import wheels_of

    try:
        return wheels_of(plan, request, (trees or tree_of)(plan, request))
    except Rejected as error:
        raise Stopped(error.diagnostics, origin_exit(error.diagnostics)) from None


def origin_exit(found: tuple[Diagnostic, ...]) -> ExitCode:
    """Return what faults of an origin say to the shell."""
    codes = {d.code for d in found}
    if "E302" in codes:
        return ExitCode.MISMATCH
    return ExitCode.INVALID if codes & {"E301", "E303", "E310", "E311", "E120"} else ExitCode.USAGE


def tree_of(plan: Plan, request: Request) -> BaseTree:
    """Return the base tree without the wheels of the stages; raise `Rejected` or `Stopped` where it cannot be had."""
    given = _supplied(plan, request)
    left = frozenset(plan.target.roots) - given.keys()
    parts = list(given.values())
    for origin in plan.target.origins:
        try:
            parts.extend(_from_origin(plan, origin, request, left))
        except (Rejected, Stopped) as error:
            if not given:
                raise
            parts.append(BaseTree(Tree(), "", notices=tuple(_absent(d) for d in error.diagnostics)))
    return together(parts)


def _absent(found: Diagnostic) -> Diagnostic:
    """Say that a package root is absent: another one was handed over, so that need not matter."""
    message = f"not every package root has a tree: {found.message}"
    return replace(found, message=message, severity=Severity.WARNING)


def together(parts: list[BaseTree]) -> BaseTree:
    """Return the trees of several package roots as one."""
    return BaseTree(
        Tree({path: content for part in parts for path, content in part.tree.items()}),
        "; ".join(part.name for part in parts if part.name),
        frozenset().union(*(part.compiled for part in parts)),
        {name: value for part in parts for name, value in part.inputs.items()},
        tuple(notice for part in parts for notice in part.notices),
        versions={root: version for part in parts for root, version in part.versions.items()},
    )


def _supplied(plan: Plan, request: Request) -> dict[str, BaseTree]:
    """Return what `--tree` hands over: package root → its tree."""
    from orchestrator.origin.archive import read_package
    from orchestrator.origin.folder import read_folder

    given: dict[str, BaseTree] = {}
    for item in request.trees:
        root, where = root_and_path(plan, item)
        if root in given:
            raise Stopped.usage("E131", f"--tree {item}: '{root}' has a tree already", "Give each root once.")
        if where != "-" and Path(where).is_dir():
            found, faults = read_folder(Path(where), root)
        else:
            stream: Path | BinaryIO = sys.stdin.buffer if where == "-" else Path(where)
            found, faults = read_package(stream, root, root)
        if errors(faults):
            raise Rejected(faults)
        given[root] = BaseTree(found.tree, found.source, found.compiled, notices=faults)
    return given


def root_and_path(plan: Plan, item: str) -> tuple[str, str]:
    """Return the package root and the path that a `--tree` names; stop (usage) where the target has no such root."""
    root, equals, where = item.partition("=")
    if not equals or root not in plan.target.roots:
        message = f"--tree {item}: '{root}' is not a package root of target '{plan.target.name}'"
        help_ = f"Write --tree ROOT=PATH; {did_you_mean(root, plan.target.roots)}"
        raise Stopped.usage("E131", message, help_)
    return root, where


def _from_origin(plan: Plan, origin: Origin, request: Request, left: frozenset[str]) -> list[BaseTree]:
    """Return what an origin of the target fills of the roots that are `left`; [] where that is nothing."""
    from orchestrator.spec.target import SdistBase, SuppliedBase, WorkspaceBase

    match origin:
        case SdistBase():
            return [sdist_tree(plan, origin, request)] if origin.fills(plan.target.roots) in left else []
        case WorkspaceBase(workspace=folder):
            return _from_workspace(folder, request, left)
        case SuppliedBase(supplied=how):
            if request.trees:
                return []
            message = f"target '{plan.target.name}' has no base that can be fetched"
            help_ = f"Hand it over with --tree {next(iter(plan.target.roots))}=PATH. {how}"
            raise Stopped.usage("E308", message, help_)


def sdist_tree(plan: Plan, origin: SdistBase, request: Request) -> BaseTree:
    """Return the package root that a source distribution fills; raise `Rejected` where it cannot be had or read."""
    from orchestrator.origin.archive import read_package

    archive = fetched_sdist(origin.sdist, request)
    root = origin.fills(plan.target.roots)
    found, faults = read_package(archive.path, origin.package, root)
    if errors(faults):
        raise Rejected(faults)
    inputs, notices = {origin.sdist: archive.sha256}, (*archive.notices, *faults)
    versions = {root: origin.sdist.partition("==")[2]}
    return BaseTree(found.tree, origin.sdist, found.compiled, inputs, notices, versions=versions)


def fetched_sdist(requirement: str, request: Request) -> PinnedFile:
    """Return the source distribution NAME==VERSION, held against the lock; raise `Rejected` where it cannot be had."""
    from orchestrator.origin.pinned import cache_folder
    from orchestrator.origin.sdist import fetch_sdist

    environment = request.environment or dict(os.environ)
    lock = lock_of(request)
    return fetch_sdist(
        requirement,
        cache_folder(environment),
        lock.inputs.get(requirement) if lock else None,
        request.offline,
        environment=environment,
        command=request.command,
    )


def inner_request(request: Request, folder: str) -> Request:
    """Return the request for another workspace, on whose result the workspace of `request` stands."""
    workspace = request.workspace / folder
    return replace(request, workspace=workspace, file="pipeline.yaml", target=None, variant=None, settings=(), trees=())


def _from_workspace(folder: str, request: Request, left: frozenset[str]) -> list[BaseTree]:
    """Return what another workspace's pipeline makes of its own base, as far as that is `left`."""
    inner = inner_request(request, folder)
    plan = make_plan_for(inner)
    if not left & plan.target.roots.keys():
        return []
    base = base_of(plan, inner)
    made = run_on(plan, base, inner, patched=False)
    if made.failed:
        first = Diagnostic("E309", f"the base workspace {folder} does not apply", help=f"Run `validate -C {folder}`.")
        raise Stopped((first, *made.diagnostics), exit_code_of(made))
    inputs = {**base.inputs, f"{folder}/pipeline": plan.digest}
    tree = Tree({path: content for path, content in made.tree.items() if path.partition("/")[0] in left})
    name = f"{folder} on {base.name}"
    return [BaseTree(tree, name, base.compiled, inputs, base.notices, versions=base.versions)]


def lock_of(request: Request) -> Lock | None:
    """Return the workspace's lock, None if it has none; stop (mismatch) if it is damaged."""
    from orchestrator.engine.lock import read_lock

    content = lock_bytes(request)
    if content is None:
        return None
    try:
        return read_lock(LOCK, content)
    except Rejected as error:
        raise Stopped(error.diagnostics, ExitCode.MISMATCH) from None


def lock_bytes(request: Request) -> bytes | None:
    """Return the file of the workspace's lock, None if it has none; stop (invalid) if it cannot be read."""
    try:
        return (request.workspace / LOCK).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        fault = Diagnostic(
            "E121", f"{LOCK} cannot be read: {error.strerror}", Place(LOCK), help="Check its permissions."
        )
        raise Stopped((fault,), ExitCode.INVALID) from None


def run_on(
    plan: Plan,
    base: BaseTree,
    request: Request,
    *,
    patched: bool = True,
    sources: Sources | None = None,
    trees: Callable[[Plan, Request], BaseTree] | None = None,
) -> Run:
    """Return the run of `plan` on `base`.

    Unless the base is one that the lock knows, the chain is computed too, so that a tree that is patched
    already is recognised: with the present parameters where the target's own base can be had without a
    network, else the lock's. Several runs may share parsed `sources`, and `trees`, which brings base trees.
    """
    from orchestrator.engine.run import run
    from orchestrator.engine.wheels import with_wheels

    try:
        plan = with_wheels(plan, base.wheels)
    except Rejected as error:
        raise Stopped(error.diagnostics, ExitCode.INVALID) from None
    plan = replace(plan, facts=facts_on(plan, base))
    lock = lock_of(request)
    chain = None
    if patched and not (lock and base.tree.digest in lock.bases):
        chain = _known_chain(plan, base, request, lock, trees or tree_of)
    return deeply(lambda: run(plan, base.tree, lock, chain, sources))


def facts_on(plan: Plan, base: BaseTree) -> Facts:
    """Return the facts of the target with what the base adds: its compiled modules, and which versions it is."""
    return replace(plan.facts, packages=plan.facts.packages | base.compiled, versions=base.versions)


def _known_chain(
    plan: Plan, base: BaseTree, request: Request, lock: Lock | None, trees: Callable[[Plan, Request], BaseTree]
) -> Chain | None:
    """Return the chain by which a tree that is no locked base can be recognised."""
    from orchestrator.engine.lock import chain_of
    from orchestrator.engine.run import run

    if request.trees:
        try:
            known = trees(plan, replace(request, trees=(), offline=True))
        except (Rejected, Stopped):
            known = None
        if known is not None and known.tree.digest != base.tree.digest:
            reference = known.tree
            return chain_of(deeply(lambda: run(plan, reference, lock)))
    return next(iter(lock.bases.values()), None) if lock else None


def exit_code_of(run: Run) -> ExitCode:
    """Return what a run's diagnostics say to the shell."""
    codes = [d.code for d in errors(run.diagnostics)]
    if not codes:
        return ExitCode.OK
    if any(code.startswith("E4") for code in codes):
        return ExitCode.NOT_APPLIED
    if any(code.startswith("E2") for code in codes):
        return ExitCode.INVALID
    return ExitCode.CHECK_FAILED


def deeply(function: Callable[[], T]) -> T:
    """Return `function()`, run where deeply nested source exhausts neither stack nor recursion limit."""
    result: list[T] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            result.append(function())
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            failure.append(error)

    limit = sys.getrecursionlimit()
    size = threading.stack_size(_STACK_BYTES)
    sys.setrecursionlimit(_RECURSION_LIMIT)
    try:
        thread = threading.Thread(target=target, name="deep", daemon=True)  # an interrupt does not wait for its end
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    if failure:
        raise failure[0]
    return result[0]


_STACK_BYTES = 512 * 2**20  # only what is touched is taken
_RECURSION_LIMIT = 40_000
