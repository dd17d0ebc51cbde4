"""Failures that a Python script hides: caught and dropped, or never asked for; and counts that somebody typed."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from orchestrator.inspect.pyflow import Flow, FunctionNode, mentions, walk_scope
from orchestrator.inspect.pyvalues import argument, called_name

if TYPE_CHECKING:
    from collections.abc import Iterator

_ACTS = frozenset([
    "write", "write_text", "write_bytes", "writelines", "copy", "copy2", "copyfile", "copytree", "move",
    "check_call", "check_output",
])  # fmt: skip
_HARMLESS = frozenset([
    "rm", "pkill", "kill", "killall", "echo", "true", "sleep", "nvidia-smi", "ixsmi", "ldconfig", "chmod",
    "chown", "mkdir", "touch", "ls", "find", "clear", "sync",
])  # fmt: skip
_QUESTIONS = frozenset([
    "show", "list", "freeze", "rev-parse", "describe", "status", "log", "diff", "ls-files", "remote", "--version",
    "-V", "--help", "inspect",
])  # fmt: skip
"""What a program that changes things is asked, where it changes nothing."""
_CHANGING = frozenset([
    "cp", "mv", "install", "patch", "git", "sed", "awk", "perl", "pip", "pip3", "uv", "conda", "python", "python3",
    "bash", "sh", "tar", "unzip", "rsync", "ln", "tee", "dd", "make", "cmake", "ninja", "docker",
])  # fmt: skip
_LISTINGS = frozenset([
    "listdir", "glob", "rglob", "iglob", "iterdir", "scandir", "walk", "namelist", "getnames", "splitlines",
    "readlines",
])  # fmt: skip
PROGRAMS = ("subprocess.", "os.spawn", "asyncio.create_subprocess")
_NARROW = frozenset(
    ["FileExistsError", "ImportError", "ModuleNotFoundError", "KeyboardInterrupt", "UnicodeDecodeError"]
)
MIN_COUNT = 3
STARTERS = frozenset({"os.system", "os.popen"})
_UNASKED = frozenset(
    ["subprocess.call", "subprocess.Popen", "subprocess.getoutput", "subprocess.getstatusoutput", *STARTERS]
)
"""What starts a program and leaves it to the caller to ask how it ended."""
_KEPT = frozenset(["subprocess.run", "subprocess.call", "subprocess.Popen", "os.system"])


def hidden_failures(tree: ast.Module, flow: Flow) -> Iterator[tuple[ast.AST, str, str]]:
    """Yield (node, message, help) for each failure that the script hides."""
    acting = _acting_functions(flow)
    for node in ast.walk(tree):
        if isinstance(node, ast.Try | ast.TryStar):
            yield from _caught(node, flow, acting, _owner(tree, node))
        elif isinstance(node, ast.With):
            yield from _suppressed(node, flow, acting)
        elif isinstance(node, FunctionNode):
            yield from _decorated(node, flow, acting)
        elif isinstance(node, ast.Call):
            yield from _threaded(node, acting)
    for scope in (tree, *flow.functions.values()):
        yield from _unread(scope.body, flow)


def _owner(tree: ast.Module, inner: ast.AST) -> str:
    name = ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(n is inner for n in ast.walk(node)):
            name = node.name
    return name


def _acting_functions(flow: Flow) -> set[str]:
    """Return the functions that change files or start programs, themselves or through others."""
    found: set[str] = set()
    for _ in range(len(flow.functions) + 1):
        more = {name for name, function in flow.functions.items() if name not in found and _acts(function.body, found)}
        if not more:
            break
        found |= more
    return found


def _acts(body: list[ast.stmt], acting: set[str]) -> bool:
    for node in walk_scope(body):
        if not isinstance(node, ast.Call):
            continue
        name = called_name(node)
        first, _, last = name.rpartition(".")
        if _is_question(node):
            continue
        if (last in _ACTS and first not in {"sys.stdout", "sys.stderr", "stdout", "copy"}) or last in acting:
            return True
        if name.startswith(PROGRAMS) or name in {"os.system", "os.replace", "os.rename", "main", "runpy.run_path"}:
            return True
    return False


def _is_question(call: ast.Call) -> bool:
    """Tell whether a call only takes the output of a program that changes nothing: a version, a list of libraries."""
    name = called_name(call)
    taken = name.endswith("check_output") or any(
        (k.arg == "capture_output" and isinstance(k.value, ast.Constant) and k.value.value is True)
        or (k.arg == "stdout" and ast.unparse(k.value).endswith("PIPE"))
        for k in call.keywords
    )
    if not (taken or name in {"subprocess.getoutput", "os.popen"}):
        return False
    match argument(call, 0, "args" if taken else "cmd"):
        case ast.List(
            elts=[
                ast.Constant(value=str(program))
                | ast.BinOp(op=ast.Add(), right=ast.Constant(value=str(program)))
                | ast.JoinedStr(values=[*_, ast.Constant(value=str(program))]),
                *rest,
            ]
        ):
            second = rest[0].value if rest and isinstance(rest[0], ast.Constant) else None
        case ast.Constant(value=str(text)) if text.split() and not set(text) & set(";&|><`$"):
            program, second = [*text.split(), ""][:2]
        case _:
            return False
    program = program.rpartition("/")[2]
    if program not in _CHANGING:
        return True
    return second in _QUESTIONS or (second == "-c" and program.startswith("python"))


def _caught(
    node: ast.Try | ast.TryStar, flow: Flow, acting: set[str], owner: str
) -> Iterator[tuple[ast.AST, str, str]]:
    if not _acts(node.body, acting):
        return
    for left in walk_scope(node.finalbody):
        if isinstance(left, ast.Return | ast.Break | ast.Continue) or _ends_well(left):
            yield left, "this `finally` leaves, and with it an exception of the step is gone", "Leave after the `try`."
            break
    for handler in node.handlers:
        names = {n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)} if handler.type else set()
        if names and names <= _NARROW:
            continue
        if names == {"SystemExit"} or flow.raises(handler.body) or flow.hands_on(handler.body, owner):
            continue
        if _acts(handler.body, acting):  # something else is tried
            continue
        what = " and ".join(sorted(names)) or "every exception"
        message = f"a failure of this step is caught here ({what}) and the script goes on as if nothing had happened"
        yield handler, message, "Let it raise, or end with `raise` or `sys.exit(1)` after the message."


def _ends_well(node: ast.AST) -> bool:
    """Tell whether a node ends the program with success."""
    if not isinstance(node, ast.Call) or called_name(node) not in {"sys.exit", "exit", "quit", "os._exit"}:
        return False
    return not node.args or (isinstance(node.args[0], ast.Constant) and node.args[0].value in {0, None})


def _decorated(node: FunctionNode, flow: Flow, acting: set[str]) -> Iterator[tuple[ast.AST, str, str]]:
    for decorator in node.decorator_list:
        is_suppress = isinstance(decorator, ast.Call) and called_name(decorator).endswith("suppress")
        if is_suppress and _acts(node.body, acting) and not flow.raises(node.body):
            yield decorator, "a failure of this function is suppressed", "Let it raise."


def _threaded(node: ast.Call, acting: set[str]) -> Iterator[tuple[ast.AST, str, str]]:
    """An exception ends its thread, and the script goes on."""
    if called_name(node) not in {"threading.Thread", "threading.Timer", "Thread"}:
        return
    for target in (k.value for k in node.keywords if k.arg == "target"):
        named = isinstance(target, ast.Name) and target.id in acting
        if named or (isinstance(target, ast.Lambda) and _acts([ast.Expr(target.body)], acting)):
            message = "an exception in a thread ends the thread, and the script goes on as if nothing had happened"
            yield node, message, "Call the function, or ask an executor's future for its result."


def _suppressed(node: ast.With, flow: Flow, acting: set[str]) -> Iterator[tuple[ast.AST, str, str]]:
    for item in node.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and called_name(call).endswith("suppress") and _acts(node.body, acting):
            names = {n.id for a in call.args for n in ast.walk(a) if isinstance(n, ast.Name)}
            if not names <= _NARROW | {"FileNotFoundError"} and not flow.raises(node.body):
                yield call, "a failure of this step is suppressed", "Let it raise."


def _unread(body: list[ast.stmt], flow: Flow) -> Iterator[tuple[ast.AST, str, str]]:
    help_ = "Give `check=True`, or fail on its return code."
    for node in walk_scope(body):
        match node:
            case ast.Expr(value=ast.Call() | ast.Await() as value):
                call = _started(value)
                name = called_name(call)
                if _is_harmless(call):
                    continue
                if name == "subprocess.run" and not _checks(call):
                    yield call, "nobody asks whether this command failed: there is no `check=True`", help_
                elif name in _UNASKED or name.startswith(PROGRAMS[1:]):
                    yield call, f"nobody asks for the status that `{name}` returns", help_
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() | ast.Await() as value):
                call = _started(value)
                spelled = called_name(call)
                starts = spelled in _KEPT or spelled.startswith(PROGRAMS[1:])
                if not starts or _checks(call) or _is_harmless(call) or _is_question(call):
                    continue
                if not _is_asked(body, name, call, flow):
                    message = f"the status that `{spelled}` returns is kept in `{name}`, and nothing fails on it"
                    yield call, message, help_


def _started(node: ast.expr) -> ast.Call:
    """Return the call that starts a program: `Popen(…)` of `Popen(…).wait()`, and what is awaited."""
    match node:
        case ast.Await(value=inner):
            return _started(inner)
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr="wait" | "communicate" | "read" | "close")):
            return inner
        case ast.Call():
            return node
        case _:
            return ast.Call(ast.Name("", ast.Load()), [], [])


def _started_by(node: ast.expr | None) -> ast.Call | None:
    return _started(node) if isinstance(node, ast.Call | ast.Await) else None


def _checks(call: ast.Call) -> bool:
    return any(
        k.arg is None or (k.arg == "check" and not (isinstance(k.value, ast.Constant) and not k.value.value))
        for k in call.keywords
    )


def _is_harmless(call: ast.Call) -> bool:
    match argument(call, 0, "args"):
        case ast.List(elts=[ast.Constant(value=str(text)), *_]) | ast.Constant(value=str(text)):
            words = text.split()
            return bool(words) and words[0].rpartition("/")[2] in _HARMLESS
        case _:
            return False


def _is_asked(body: list[ast.stmt], name: str, call: ast.Call, flow: Flow) -> bool:
    """Tell whether the status in a variable decides anything: a branch that fails, a return value, an exit code."""
    for node in walk_scope(body):
        match node:
            case ast.If(test=test, body=then, orelse=other) if mentions(test, {name}):
                if flow.raises([*then, *other]) or flow.hands_on([*then, *other], "?"):
                    return True
            case ast.Assert(test=test) | ast.While(test=test) if mentions(test, {name}):
                return True
            case ast.Assign(value=ast.Call(func=ast.Attribute(attr="communicate"))):
                continue  # what it printed, and not how it ended
            case ast.Return(value=value) | ast.Assign(value=value) if _started_by(value) is not call:
                if mentions(value, {name}):
                    return True
            case ast.Attribute(value=ast.Name(id=of), attr="terminate" | "kill" | "poll" | "send_signal") if of == name:
                return True  # a server of its own
            case ast.Call() if node is not call and called_name(node) == f"{name}.check_returncode":
                return True
            case ast.Call() if node is not call and called_name(node) != "print":
                if any(mentions(a, {name}) for a in node.args):
                    return True
    return False


def typed_counts(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield (node, message) for each comparison of a number of files with a literal."""
    listed = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _lists(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    numbers: dict[str, ast.expr] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant() as constant):
                numbers[name] = constant
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() | ast.Lt() | ast.GtE()], comparators=[right]):
                for counted, given_number in ((left, right), (right, left)):
                    named = given_number.id if isinstance(given_number, ast.Name) else ""
                    number = numbers.get(named, given_number)
                    match counted, number:
                        case ast.Call(func=ast.Name(id="len" | "sum"), args=[given]), ast.Constant(value=int(value)):
                            is_list = _lists(given) or (isinstance(given, ast.Name) and given.id in listed)
                            if is_list and value >= MIN_COUNT:
                                yield node, f"the number of files, {value}, was typed by hand"


def _lists(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Call) and called_name(n).rpartition(".")[2] in _LISTINGS for n in ast.walk(node))
