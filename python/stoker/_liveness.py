# SPDX-License-Identifier: Apache-2.0
"""Finds the variables of a function that may be read after an `if`. Goes through its statements from the last to the first."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

Names = frozenset[str]
_NONE: Names = frozenset()
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def within(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the node and its descendants, but nothing inside functions, lambdas and classes."""
    yield node
    if not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from within(child)


def reads(node: ast.AST | None) -> Names:
    """Returns the variables that an expression or a statement reads, also inside functions that it defines."""
    if node is None:
        return _NONE
    found: set[str] = set()
    for part in ast.iter_child_nodes(node):
        found |= reads(part)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        found.add(node.id)
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        found.add(node.target.id)
    elif isinstance(node, _COMPREHENSIONS):
        found -= {name for generator in node.generators for name in writes(generator.target)}
    elif isinstance(node, _FUNCTIONS):
        a = node.args
        found -= {arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if arg is not None}
    return frozenset(found)


def writes(node: ast.AST) -> dict[str, int]:
    """Returns the variables that a statement assigns or deletes, each with the last line that does so."""
    found: dict[str, int] = {}
    loops = {id(name) for part in within(node) if isinstance(part, ast.comprehension) for name in ast.walk(part.target)}
    for part in within(node):
        line = getattr(part, "lineno", 0)
        if isinstance(part, ast.Name):
            if not isinstance(part.ctx, ast.Load) and id(part) not in loops:
                found[part.id] = line
        elif isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            if part.name:
                found[part.name] = line
        elif isinstance(part, ast.MatchMapping):
            if part.rest:
                found[part.rest] = line
        elif isinstance(part, ast.alias):
            found[(part.asname or part.name).partition(".")[0]] = line
    return found


class Liveness:
    """Finds live variables in a function's body. after: dict from id(statement) of each `if` to the variables that may be read after it. captured: variables
    that inner functions and classes read; inner functions may run at any time."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.after: dict[int, Names] = {}
        # For each loop around the current statement: the variables that are live after the loop, and those that are live at its head.
        self.loops: list[tuple[Names, Names]] = []
        self.caught: list[Names] = []  # for each `try` around the current statement: the variables that its handlers read
        self.captured = self._captured(body)
        self._block(body, _NONE)

    @staticmethod
    def _captured(body: Iterable[ast.stmt]) -> Names:
        inner = (part for statement in body for part in within(statement) if isinstance(part, _SCOPES))
        return _NONE.union(*(reads(part) for part in inner))

    def _block(self, statements: Sequence[ast.stmt], after: Names) -> Names:
        for statement in reversed(statements):
            after = self._statement(statement, after).union(*self.caught)
        return after

    def _statement(self, s: ast.stmt, after: Names) -> Names:
        if isinstance(s, ast.If):
            self.after[id(s)] = after
            return reads(s.test) | self._block(s.body, after) | self._block(s.orelse, after)
        if isinstance(s, (ast.For, ast.AsyncFor)):
            return reads(s.iter) | self._loop(s.body, s.orelse, after, reads(s.target), frozenset(writes(s.target)))
        if isinstance(s, ast.While):
            return self._loop(s.body, s.orelse, after, reads(s.test), _NONE)
        if isinstance(s, (ast.With, ast.AsyncWith)):
            inner = self._block(s.body, after)
            return inner.union(*(reads(item) for item in s.items))
        if isinstance(s, (ast.Try, ast.TryStar)):
            return self._try(s, after)
        if isinstance(s, ast.Match):
            cases = (self._block(case.body, after) | reads(case.guard) | reads(case.pattern) for case in s.cases)
            return after.union(reads(s.subject), *cases)
        if isinstance(s, (ast.Return, ast.Raise)):
            return reads(s)
        if isinstance(s, ast.Break):
            return self.loops[-1][0]
        if isinstance(s, ast.Continue):
            return self.loops[-1][1]
        written = frozenset() if isinstance(s, ast.Delete) else frozenset(writes(s))
        return (after - written) | reads(s)

    def _loop(self, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt], after: Names, test: Names, targets: Names) -> Names:
        head = self._block(orelse, after) | test
        while True:
            self.loops.append((after, head))
            more = head | (self._block(body, head) - targets)
            self.loops.pop()
            if more == head:
                return head
            head = more

    def _try(self, s: ast.Try | ast.TryStar, after: Names) -> Names:
        final = self._block(s.finalbody, after)
        handlers = final.union(*(self._block(handler.body, final) | reads(handler.type) for handler in s.handlers))
        self.caught.append(handlers)
        body = self._block(s.body, self._block(s.orelse, final))
        self.caught.pop()
        return body | handlers
