"""Which values a name may have: a small abstract interpreter over one function, class or module.

It executes the statements of the scope in order on sets of states. A condition that folds chooses its branch;
one that does not splits the state in two, each remembering what it assumed. Only statements that can affect
what is asked for are looked at, states that agree are merged, and above `MAX_PATHS` they become one in which
everything that differs is unknown. So an answer may hold too many values or an `Unknown`, never too few.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.code.anatomy import anatomy, conditions, every, nodes_of
from orchestrator.code.constants import Unknown, Value, fold, key, normal, text_of, truth
from orchestrator.code.scopes import FunctionNode
from orchestrator.code.states import MAX_PATHS, State, common, names_in, pairs
from orchestrator.code.symbols import parameters, reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from orchestrator.code.scopes import ScopeNode

_ITERATIONS = 3
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


class Possible(NamedTuple):
    """One value and the conditions that nothing known decides, under which the name has it."""

    value: Value
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class Seen:
    """What the expressions asked for are worth when one path reaches a statement (None: the end)."""

    statement: ast.stmt | None
    values: tuple[Value, ...]
    conditions: tuple[str, ...]


def possible_values(
    scope: ScopeNode, name: str, given: Mapping[str, Value], constants: Mapping[str, Value]
) -> list[Possible]:
    """Return every value that `name` may have at the end of `scope`'s own statements, or where it returns.

    `given` and `constants` map expressions (`k.shape[-1]`, `HAS_TRITON`) to values: `given` about this scope,
    its parameters included; `constants` about the world outside, which a local of the same name hides.
    """
    seen = observed(scope, {None: [ast.Name(name, ast.Load())]}, given, constants)
    return [Possible(s.values[0], s.conditions) for s in seen]


def observed(
    scope: ScopeNode,
    at: Mapping[ast.stmt | None, Sequence[ast.expr]],
    given: Mapping[str, Value],
    constants: Mapping[str, Value],
) -> list[Seen]:
    """Return what the expressions of `at` may be worth each time before their statement runs (None: at the end)."""
    run = _Run(scope, at)
    end = run.block(scope.body, [_start(scope, given, constants)])
    if None in at:
        run.see(None, [*end, *run.returned])
    found: dict[tuple[int, tuple[tuple[str, str], ...]], Seen] = {}
    for seen in run.seen:
        identity = id(seen.statement), tuple(key(value) for value in seen.values)
        before = found.get(identity)
        common = tuple(c for c in before.conditions if c in seen.conditions) if before else seen.conditions
        found[identity] = replace(seen, conditions=common)
    return _told_apart(list(found.values()))


def _told_apart(found: list[Seen]) -> list[Seen]:
    """Leave of the conditions only those that tell apart what is seen at one statement."""
    shared: dict[ast.stmt | None, set[str]] = {}
    for seen in found:
        shared.setdefault(seen.statement, set(seen.conditions)).intersection_update(seen.conditions)
    return [replace(s, conditions=tuple(c for c in s.conditions if c not in shared[s.statement])) for s in found]


def module_values(tree: ast.Module, names: Iterable[str], constants: Mapping[str, Value]) -> dict[str, Value]:
    """Return the value of each module-level name that has exactly one, for code that reads it later."""
    found: dict[str, Value] = {}
    for name in sorted(set(names) & _assigned(tree)):
        values = possible_values(tree, name, {}, constants)
        if len(values) == 1 and not isinstance(values[0].value, Unknown):
            found[name] = values[0].value
    return found


def _assigned(tree: ast.Module) -> set[str]:
    """Return the names that a module gives a value: an import, a function or a class has none to fold."""
    found: set[str] = set()
    other: set[str] = set()
    for statement in every(tree.body):
        plain = isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For | ast.With)
        (found if plain else other).update(anatomy(statement).bound)
    return found - other


def outside_names(scope: ScopeNode) -> set[str]:
    """Return the names that a scope reads and does not bind itself."""
    local = _bound_in(scope.body) | (parameters(scope) if isinstance(scope, FunctionNode) else set())
    return {name for statement in every(scope.body) for name in anatomy(statement).read} - local


def _bound_in(body: Iterable[ast.stmt]) -> set[str]:
    """Return every name that a body of one scope binds on some path, as `symbols.all_bound` does."""
    return {name for own in map(anatomy, every(body)) for name in own.bound | own.handled}


def _start(scope: ScopeNode, given: Mapping[str, Value], constants: Mapping[str, Value]) -> State:
    names: dict[str, Value] = {
        name: Unknown(f"`{name}` is not bound before it is used") for name in _bound_in(scope.body)
    }
    if isinstance(scope, FunctionNode):
        names |= {name: Unknown(f"the parameter `{name}` is not known") for name in parameters(scope)}
    about = {normal(text): value for text, value in given.items()}
    names |= {text: value for text, value in about.items() if text.isidentifier()}
    outside = {normal(text): value for text, value in constants.items()}
    return State(names, {**outside, **{t: v for t, v in about.items() if not t.isidentifier()}})


class _Run:
    """One execution: the states that returned, those that left a loop, and what was seen."""

    def __init__(self, scope: ScopeNode, at: Mapping[ast.stmt | None, Sequence[ast.expr]]) -> None:
        self.at = at
        self.seen: list[Seen] = []
        self.returned: list[State] = []
        self.broken: list[list[State]] = []
        self.continued: list[list[State]] = []
        self.raising: list[list[State]] = []
        self.shared = _rebound_elsewhere(scope)
        self.matters: set[ast.stmt] = set()
        self.names = self._closure(scope)
        changed = {name for own in map(anatomy, self.matters) for name in own.bound | own.unbound | own.handled}
        self.order = sorted(self.names & changed)  # all others are the same in every state
        self.asked = {s: conditions(n for node in nodes for n in nodes_of(node)) for s, nodes in at.items()}

    def _closure(self, scope: ScopeNode) -> set[str]:
        """Return the names that can affect what is asked for, and note the statements that can."""
        names = {name.id for wanted in self.at.values() for node in wanted for name in reads(node)}
        backwards = list(every(scope.body))[::-1]
        while True:
            before = len(names), len(self.matters)
            for statement in backwards:
                if statement in self.matters or not self._affects(statement, names):
                    continue
                self.matters.add(statement)
                names |= anatomy(statement).read
            if before == (len(names), len(self.matters)):
                return names

    def _affects(self, statement: ast.stmt, names: set[str]) -> bool:
        own = anatomy(statement)
        if isinstance(statement, _ENDS) or statement in self.at:
            return True
        if not names.isdisjoint(own.bound | own.unbound | own.handled) or not self.matters.isdisjoint(own.inner):
            return True
        return any(not names.isdisjoint(names_in(text)) for text in own.stored)

    def block(self, body: Sequence[ast.stmt], states: list[State]) -> list[State]:
        for statement in body:
            if not states:
                break
            if statement not in self.matters:
                continue
            self._may_raise(states)
            if statement in self.at:
                self.see(statement, states)
            states = self._merged(self._step(statement, states))
        self._may_raise(states)
        return states

    def _may_raise(self, states: list[State]) -> None:
        """Note that an exception may leave here: for the innermost `try` around, which passes it on."""
        if self.raising:
            self.raising[-1] = self._merged([*self.raising[-1], *states])

    def see(self, statement: ast.stmt | None, states: list[State]) -> None:
        wanted = self.at[statement]
        for state in states:
            for forked in self._forks(state, self.asked[statement]):
                values = tuple(fold(node, forked.names, forked.known) for node in wanted)
                self.seen.append(Seen(statement, values, forked.conditions))

    def _forks(self, state: State, tests: Sequence[ast.expr]) -> list[State]:
        """Return states in which all these conditions of conditional expressions are decided."""
        pending: list[State] = [state]
        done: list[State] = []
        while pending:
            current = pending.pop(0)
            test = _undecided(current, tests) if len(pending) + len(done) < MAX_PATHS else None
            if test is None:
                done.append(current)
            else:
                pending += [current.assuming(test, True), current.assuming(test, False)]
        return done

    def _step(self, statement: ast.stmt, states: list[State]) -> list[State]:
        tests = anatomy(statement).tests
        forked = [f for state in states for f in self._forks(self._walrus(statement, state), tests)]
        match statement:
            case ast.If():
                return self._if(statement, forked)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(statement, forked)
            case ast.Try() | ast.TryStar():
                return self._try(statement, forked)
            case ast.Match():
                return self._match(statement, forked)
            case ast.With() | ast.AsyncWith():
                return self.block(statement.body, [self._lost(s, anatomy(statement).bound, "with") for s in forked])
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                return self._end(statement, forked)
            case _:
                return [self._simple(statement, state) for state in forked]

    def _simple(self, statement: ast.stmt, state: State) -> State:
        state = self._forgetting(state, [statement])
        match statement:
            case ast.Assign(targets=targets, value=value):
                bindings = [each for target in targets for each in pairs(target, value, state)]
                for name, folded in bindings:
                    state = self._bind(state, name, folded)
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value:
                state = self._bind(state, name, fold(value, state.names, state.known))
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                whole = ast.BinOp(ast.Name(target.id, ast.Load()), op, value)
                state = self._bind(state, name, fold(whole, state.names, state.known))
            case ast.Expr():
                pass
            case _:
                lost = anatomy(statement).bound | anatomy(statement).unbound
                state = self._lost(state, lost, type(statement).__name__.lower())
        return state

    def _forgetting(self, state: State, statements: Iterable[ast.stmt]) -> State:
        """Return the state without what was known of attributes and items that the statements assign."""
        texts = [text for statement in statements for text in anatomy(statement).stored]
        if not texts:
            return state
        return replace(state, known={t: v for t, v in state.known.items() if not any(text in t for text in texts)})

    def _bind(self, state: State, name: str, value: Value) -> State:
        if name in self.shared:
            value = Unknown(f"`{name}` is also assigned by a nested function")
        return state.binding(name, value)

    def _lost(self, state: State, names: Iterable[str], by: str) -> State:
        for name in sorted(names):
            state = self._bind(state, name, Unknown(f"`{name}` is bound by `{by}`"))
        return state

    def _walrus(self, statement: ast.stmt, state: State) -> State:
        for name, value, certain in anatomy(statement).walruses:
            unknown = Unknown(f"`{name}` is assigned inside an expression")
            state = self._bind(state, name, fold(value, state.names, state.known) if certain else unknown)
        return state

    def _if(self, statement: ast.If, states: list[State]) -> list[State]:
        then, other = [], []
        for state in states:
            holds = truth(statement.test, state.names, state.known)
            if isinstance(holds, Unknown):
                then.append(state.assuming(statement.test, True))
                other.append(state.assuming(statement.test, False))
            else:
                (then if holds else other).append(state)
        return self.block(statement.body, then) + self.block(statement.orelse, other)

    def _loop(self, statement: ast.For | ast.AsyncFor | ast.While, states: list[State]) -> list[State]:
        """Run the body until another iteration brings no new state; if that takes long, from any state at all."""
        test = statement.test if isinstance(statement, ast.While) else None
        heads = self._merged(states)
        for _ in range(_ITERATIONS):
            again, broken = self._iteration(statement, heads)
            grown = self._merged([*heads, *again])
            if {_identity(s, self.order) for s in grown} == {_identity(s, self.order) for s in heads}:
                break
            heads = grown
        else:
            changed = [self._forgetting(s, every(statement.body)) for s in heads]
            anything = self._merged([self._lost(s, _bound_in([statement]), "a loop") for s in changed])
            again, broken = self._iteration(statement, anything)
            heads = [*states, *again]
        leaving = [s for s in heads if not test or truth(test, s.names, s.known) is not True]
        return self.block(statement.orelse, leaving) + broken

    def _iteration(
        self, statement: ast.For | ast.AsyncFor | ast.While, heads: list[State]
    ) -> tuple[list[State], list[State]]:
        """Return the states in which the next iteration starts, and those that a `break` left in."""
        test = statement.test if isinstance(statement, ast.While) else None
        entering = [s for s in heads if not test or truth(test, s.names, s.known) is not False]
        entering = [self._lost(s, anatomy(statement).bound, "a loop") for s in entering]
        self.broken.append([])
        self.continued.append([])
        ends = self.block(statement.body, self._merged(entering))
        return [*ends, *self.continued.pop()], self.broken.pop()

    def _try(self, statement: ast.Try | ast.TryStar, states: list[State]) -> list[State]:
        """Run a `try`; its `finally` stands on every way out: the end, `return`, `break`, `continue`, an exception."""
        final = statement.finalbody
        if not final:
            return self._guarded(statement, states)
        before, self.returned = self.returned, []
        jumps = [frames for frames in (self.broken, self.continued) if frames]
        for frames in (*jumps, self.raising):
            frames.append([])
        ends = self._guarded(statement, states)
        escaping = self.raising.pop()
        returning, self.returned = self.returned, before
        leaving = [frames.pop() for frames in jumps]
        through = self.block(final, returning)
        self.returned = self._merged([*self.returned, *through])
        for frames, left in zip(jumps, leaving, strict=True):
            frames[-1] += self.block(final, left)
        self._may_raise(self.block(final, escaping))
        return self.block(final, self._merged(ends))

    def _guarded(self, statement: ast.Try | ast.TryStar, states: list[State]) -> list[State]:
        """Run body and handlers: a handler starts from every state that the body passes, since any part may raise."""
        self.raising.append([])
        end = self.block(statement.body, states)
        raised = self.raising.pop()
        self._may_raise(raised)
        ends = self.block(statement.orelse, end)
        for handler in statement.handlers:
            caught = [self._lost(s, {handler.name} if handler.name else set(), "except") for s in raised]
            ends += self.block(handler.body, caught)
        return ends

    def _match(self, statement: ast.Match, states: list[State]) -> list[State]:
        ends = list(states)
        lost = anatomy(statement).bound
        for case in statement.cases:
            shown = f"case {text_of(case.pattern)}"
            entered = [self._lost(s, lost, "case") for s in states]
            ends += self.block(case.body, [replace(s, conditions=(*s.conditions, shown)) for s in entered])
        return ends

    def _end(self, statement: ast.stmt, states: list[State]) -> list[State]:
        match statement:
            case ast.Return():
                self.returned = self._merged([*self.returned, *states])
            case ast.Break() if self.broken:
                self.broken[-1] += states
            case ast.Continue() if self.continued:
                self.continued[-1] += states
        return []

    def _merged(self, states: list[State]) -> list[State]:
        """Return states without repeats; those that agree on what matters keep what they have in common."""
        if len(states) < 2:  # noqa: PLR2004 - one state repeats nothing
            return list(states)
        first = states[0].names
        order = [name for name in self.order if any(s.names.get(name) is not first.get(name) for s in states)]
        groups: dict[tuple[tuple[str, str], ...], State] = {}
        for state in states:
            identity = _identity(state, order)
            before = groups.get(identity)
            groups[identity] = common(before, state) if before else state
        merged = list(groups.values())
        if len(merged) <= MAX_PATHS:
            return merged
        whole = merged[0]
        for state in merged[1:]:
            whole = common(whole, state)
        return [whole]


def _identity(state: State, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple(key(state.names.get(name)) for name in names)


def _undecided(state: State, tests: Sequence[ast.expr]) -> ast.expr | None:
    return next((test for test in tests if isinstance(truth(test, state.names, state.known), Unknown)), None)


def _rebound_elsewhere(scope: ScopeNode) -> set[str]:
    kind = ast.Global if isinstance(scope, ast.Module) else ast.Nonlocal
    return {
        name
        for statement in every(scope.body)
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for node in ast.walk(statement)
        if isinstance(node, kind)
        for name in node.names
    }
