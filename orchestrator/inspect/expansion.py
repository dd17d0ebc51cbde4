"""What the words of a shell stand for, as far as a text tells it."""

from __future__ import annotations

import itertools
import posixpath
import re
from dataclasses import dataclass, field

from orchestrator.inspect.paths import joined, root_in_code
from orchestrator.inspect.syntax import Lit, Statement, Subst, Var, Word, own_calls

MAX_ITEMS = 40
_BRACES = re.compile(r"(.*?)\{([^{}]*,[^{}]*)\}(.*)", re.DOTALL)


@dataclass
class State:
    """What a shell knows while it runs: `values` None is a variable that is set to something unknown."""

    cwd: str
    values: dict[str, str | None]
    zero: str = ""
    arguments: tuple[str, ...] = ()
    functions: dict[str, Statement] = field(default_factory=dict)

    def branched(self) -> State:
        """Return a copy for a subshell or a branch."""
        return State(self.cwd, dict(self.values), self.zero, self.arguments, dict(self.functions))


class Expansion:
    """Values of words, given what the shell knows."""

    state: State

    def value(self, word: Word) -> str:
        """Return the text of a word, `${…}` standing for what is unknown."""
        return "".join(self._part(part) for part in word.parts)

    def words(self, word: Word) -> list[str]:
        """Return the words that a word becomes: braces are expanded, an unquoted variable falls into its words."""
        if all(isinstance(part, Lit) for part in word.parts) and not any(
            getattr(p, "quoted", False) for p in word.parts
        ):
            return _braces(self.value(word))
        if len(word.parts) == 1 and isinstance(word.parts[0], Var):
            text = self._part(word.parts[0])
            return text.split() if " " in text and "${" not in text else [text] if text else []
        if any(isinstance(p, Var) and p.name in {"@", "*"} for p in word.parts) and len(word.parts) <= 2:  # noqa: PLR2004 - `"$@"`
            return list(self.state.arguments)
        return (
            _braces(self.value(word))
            if not any(getattr(p, "quoted", False) for p in word.parts)
            else [self.value(word)]
        )

    def _part(self, part: object) -> str:
        match part:
            case Lit(text=text):
                return text
            case Var():
                return self._variable(part)
            case Subst(statements=statements, process=False):
                return self._output(statements)
            case _:
                return "${?}"

    def _variable(self, var: Var) -> str:
        state = self.state
        if var.name in {"0", "BASH_SOURCE"}:
            found: str | None = state.zero or None
        elif var.name == "PWD":
            found = state.cwd
        elif var.name.isdigit():
            at = int(var.name) - 1
            found = state.arguments[at] if at < len(state.arguments) else "" if var.op in {":-", "-"} else None
        else:
            found = state.values.get(var.name)
            if var.name not in state.values and var.op in {":-", "-", ":=", "="} and var.operand is not None:
                return self.value(var.operand)
        if not found and var.op in {":-", ":="} and var.operand is not None and found is not None:
            return self.value(var.operand)
        if found is None or var.other:
            return f"${{{var.name}}}"
        if var.op == "%" and var.operand is not None and var.operand.literal == "/*":
            return posixpath.dirname(found)
        if var.op == "##" and var.operand is not None and var.operand.literal == "*/":
            return posixpath.basename(found)
        return f"${{{var.name}}}" if var.op in {"%", "%%", "#", "##", "^", "^^", ",", ",,"} else found

    def _output(self, statements: tuple[Statement, ...]) -> str:
        """Return what a command would print, for the few whose answer a text tells."""
        saved, self.state = self.state, self.state.branched()
        try:
            return self._printed(statements)
        finally:
            self.state = saved

    def _printed(self, statements: tuple[Statement, ...]) -> str:
        found = "${?}"
        for call in own_calls(statements):
            words = [text for word in call.words for text in self.words(word)]
            match words:
                case ["cd", path] | ["cd", "--" | "-P", path]:
                    self.state.cwd = joined(self.state.cwd, path)
                case ["pwd", *_]:
                    return self.state.cwd
                case ["dirname", *_, path]:
                    found = posixpath.dirname(path) or "."
                case ["basename", path]:
                    return posixpath.basename(path)
                case ["readlink" | "realpath", *_, path]:
                    found = joined(self.state.cwd, path)
                case ["echo", *rest] if len(statements) == 1:
                    found = " ".join(rest)
                case ["pip" | "pip3", "show", *_]:
                    return "${site}"
                case [name, *rest] if re.fullmatch(r"(.*/)?python[\d.]*|\$\{\w*PYTHON\w*\}", name):
                    module = rest[rest.index("-m") + 1] if "-m" in rest[:-1] else ""
                    code = next((b for a, b in itertools.pairwise(rest) if a.endswith("c")), "")
                    code = code or self._here(statements)
                    return "${site}" if module in {"pip", "site"} else root_in_code(code)
        return found

    def _here(self, statements: tuple[Statement, ...]) -> str:
        bodies = [r.body for s in statements for r in s.redirects if r.body is not None]
        return self.value(bodies[0]) if bodies else ""


def _braces(text: str) -> list[str]:
    match = _BRACES.fullmatch(text)
    if match is None or "${" in match[1][-2:] + "{":
        return [text]
    if match[1].endswith("$"):
        return [text]
    found: list[str] = []
    for choice in match[2].split(","):
        found += _braces(f"{match[1]}{choice}{match[3]}")
        if len(found) > MAX_ITEMS:
            return [text]
    return found
