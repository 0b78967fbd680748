# SPDX-License-Identifier: Apache-2.0
"""Rewrites definitions for enable_conditionals=True. `if`, `while`, `and`, `or`, `not`, conditional expressions, chained comparisons and calls become calls
of functions in stoker._branches, which do the same as Python if no DataNode is involved. Statements keep their function, line numbers and variables:

    if flip:                                _branches_1 = _stoker.begin(flip, (("image", 2, 0, 2),), "", _stoker.locals(), [])
        image = fn.flip(image)              if _branches_1.first():             # always true if `flip` is a DataNode
                                                image = _stoker.call(fn.flip)(image)
                                            if _branches_1.second(_stoker.locals(), []):
                                                ...                             # restores the variables, then runs the code of the `else` branch
                                            if _branches_1.both:
                                                ...                             # the variables merged

If an `if` statement contains `return`, the function is first changed so that each `return` is the last statement that runs: statements after such an `if` are
moved into its branches. Each `return` is then replaced by an assignment to a variable, which is merged like the others.
"""

from __future__ import annotations

import ast
import copy
import functools
import linecache
from collections.abc import Sequence
from types import CodeType
from typing import Any

from stoker._liveness import Liveness, within, writes

RUNTIME = "_stoker"
RESULT = "_stoker_result"
_MOST_COPIES = 2000  # the most syntax nodes to duplicate: code after an `if` with a `return` may be copied into both branches

DEAD, CAPTURED, READ = 0, 1, 2  # the use of a variable after an `if`: not used, perhaps used by an inner function, read


# ---- returns ----


def _returns(statement: ast.stmt) -> bool:
    """Returns whether the statement is an `if` with a `return` in its branches, directly or in nested `if` statements."""
    if isinstance(statement, ast.If):
        return any(isinstance(s, ast.Return) or _returns(s) for s in (*statement.body, *statement.orelse))
    return False


def _falls_through(body: Sequence[ast.stmt]) -> bool:
    """Returns whether execution can reach the end of these statements."""
    return all(
        _falls_through(s.body) or _falls_through(s.orelse) if isinstance(s, ast.If) else not isinstance(s, (ast.Return, ast.Raise))
        for s in body
    )


class _Tail:
    """Moves the statements that follow an `if` with a `return` into the branches of that `if`."""

    def __init__(self) -> None:
        self.copied = 0

    def function(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Returns the body changed so that each `return` is the last statement that runs. Returns it unchanged for a generator, if no `if` returns, or if too
        much code would have to be duplicated."""
        gives_up = any(isinstance(part, (ast.Yield, ast.YieldFrom)) for s in body for part in within(s))
        if gives_up or not any(_returns(s) for s in body):
            return list(body)
        made = self._block(list(body), body[-1])
        if self.copied > _MOST_COPIES:
            return list(body)
        end = ast.Return(ast.Name(RESULT, ast.Load()))
        return [*made, ast.fix_missing_locations(ast.copy_location(end, body[-1]))]

    def _block(self, statements: list[ast.stmt], last: ast.stmt) -> list[ast.stmt]:
        for at, s in enumerate(statements):
            if isinstance(s, ast.Return):
                return [*statements[:at], self._result(s.value, s)]
            if isinstance(s, ast.If) and _returns(s):
                rest = statements[at + 1 :]
                twice = _falls_through(s.body) and _falls_through(s.orelse)
                body = self._block(s.body + rest, s)  # statements after a `return` are dropped
                orelse = self._block(s.orelse + (self._copy(rest) if twice else rest), s)
                return [*statements[:at], ast.copy_location(ast.If(s.test, body, orelse), s)]
            if isinstance(s, ast.Raise):
                return statements[: at + 1]
        return [*statements, self._result(None, last)]

    def _copy(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        self.copied += sum(1 for s in statements for _ in ast.walk(s))
        return [] if self.copied > _MOST_COPIES else copy.deepcopy(statements)

    @staticmethod
    def _result(value: ast.expr | None, at: ast.stmt) -> ast.stmt:
        assigned = ast.Assign([ast.Name(RESULT, ast.Store())], value or ast.Constant(None))
        return ast.fix_missing_locations(ast.copy_location(assigned, at))


# ---- what a branch does ----


def _leaves(body: Sequence[ast.stmt]) -> str:
    """Returns a text about the first statement that leaves the branch or cannot be merged, with its line; "" if there is no such statement."""
    for statement in body:
        for part, in_loop in _with_loops(statement, False):
            line = getattr(part, "lineno", 0)
            if isinstance(part, (ast.Break, ast.Continue)) and not in_loop:
                return f"{type(part).__name__.lower()} in line {line}"
            if isinstance(part, ast.Return):
                return f"return in line {line}, inside a loop, with or try,"
            if isinstance(part, (ast.Yield, ast.YieldFrom, ast.Await)):
                return f"yield or await in line {line}"
            if isinstance(part, ast.Global):
                return f"the assignment to the global variable {part.names[0]!r} in line {line}"
    return ""


def _with_loops(node: ast.AST, in_loop: bool) -> Any:
    yield node, in_loop
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
        return
    for child in ast.iter_child_nodes(node):
        inner = in_loop or (isinstance(node, (ast.For, ast.AsyncFor, ast.While)) and child in node.body)
        yield from _with_loops(child, inner)


def _root_variable(target: ast.expr) -> str | None:
    """Returns the variable at the beginning of a target such as `a.b[0]`. Returns None if the target has an index that is not a constant: its value could not
    be read, restored and merged."""
    if isinstance(target, ast.Name):
        return target.id
    if isinstance(target, ast.Attribute):
        return _root_variable(target.value)
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        return _root_variable(target.value)
    return None


def _assigned_parts(body: Sequence[ast.stmt], names: dict[str, int]) -> tuple[dict[str, int], str]:
    """Returns (parts, refused) for a branch. parts: the attributes and items that it assigns to, of objects that exist before the branch, as a dict from source
    text to line. refused: a text about the first assignment that cannot be merged, or ""."""
    found: dict[str, int] = {}
    for statement in body:
        for part in within(statement):
            if not isinstance(part, (ast.Attribute, ast.Subscript)) or isinstance(part.ctx, ast.Load):
                continue
            base = _root_variable(part)
            if base is None:
                return found, f"the assignment to {ast.unparse(part)} in line {part.lineno}"
            if base not in names:
                found[ast.unparse(part)] = part.lineno
    return found, ""


class _Rewriter(ast.NodeTransformer):
    """Rewrites the statements and expressions of one function."""

    def __init__(self) -> None:
        self.live: list[Liveness] = []
        self.everywhere: list[frozenset[str]] = []  # for each enclosing function, the names that it declares as nonlocal
        self.globals: list[frozenset[str]] = []
        self.count = 0

    # ---- functions ----

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Returns the function with its body rewritten."""
        node.body = _Tail().function(node.body)
        declared = [part for s in node.body for part in within(s)]
        self.everywhere.append(frozenset(n for part in declared if isinstance(part, ast.Nonlocal) for n in part.names))
        self.globals.append(frozenset(n for part in declared if isinstance(part, ast.Global) for n in part.names))
        self.live.append(Liveness(node.body))
        node.body = self._statements(node.body)
        for stack in (self.live, self.everywhere, self.globals):
            stack.pop()
        return node

    def _statements(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for s in body:
            new = self.visit(s)
            made += new if isinstance(new, list) else [new]
        return made

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if any(isinstance(d, (ast.Name, ast.Attribute)) and ast.unparse(d).endswith("do_not_convert") for d in node.decorator_list):
            return node
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        return self.function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    # ---- statements ----

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        after, live = self.live[-1].after[id(node)], self.live[-1]
        first: dict[str, int] = {}
        second: dict[str, int] = {}
        for body, found in ((node.body, first), (node.orelse, second)):
            for s in body:
                found.update(writes(s))
        names = sorted(first.keys() | second.keys(), key=lambda n: first.get(n, 0) or second[n])
        targets: dict[str, tuple[int, int]] = {}
        leaves = _leaves(node.body) or _leaves(node.orelse)
        for i, body in enumerate((node.body, node.orelse)):
            found, odd = _assigned_parts(body, {n: 0 for n in names})
            leaves = leaves or odd
            for target, line in found.items():
                lines = targets.get(target, (0, 0))
                targets[target] = (line, lines[1]) if i == 0 else (lines[0], line)
        for name in names:
            if name in self.globals[-1]:
                leaves = leaves or f"the assignment to the global variable {name!r} in line {first.get(name, 0) or second[name]}"
        read = after | self.everywhere[-1]
        spec: list[tuple[str, int, int, int]] = [
            (n, first.get(n, 0), second.get(n, 0), READ if n in read or n == RESULT else CAPTURED if n in live.captured else DEAD)
            for n in names
            if n not in self.globals[-1]
        ]
        spec += [(target, *lines, READ) for target, lines in targets.items()]
        return self._branches(node, spec, [f"lambda: {target}" for target in targets], leaves)

    def _branches(self, node: ast.If, spec: list[tuple[str, int, int, int]], peeks: list[str], leaves: str) -> list[ast.stmt]:
        self.count += 1
        b = f"_branches_{self.count}"
        state = f"{RUNTIME}.locals(), [{', '.join(peeks)}]"
        put = "".join(f"\n    {name} = {b}.value({i})\n    if {b}.missing({i}): del {name}" for i, (name, *_) in enumerate(spec))
        text = (
            f"{b} = {RUNTIME}.begin(_test, {tuple(spec)!r}, {leaves!r}, {state})\n"
            f"if {b}.first():\n    pass\n"
            f"if {b}.second({state}):\n    if {b}.both:\n        pass{put.replace(chr(10), chr(10) + '    ')}\n"
            f"if {b}.both:\n    {b}.merge({state}){put}\n"
        )
        begin, first, second, merge = made = ast.parse(text).body
        for s in made:
            for part in ast.walk(s):
                if "lineno" in part._attributes:
                    ast.copy_location(part, node)
                    part.end_lineno, part.end_col_offset = node.test.end_lineno, node.test.end_col_offset  # type: ignore[attr-defined]
        assert (
            isinstance(begin, ast.Assign) and isinstance(begin.value, ast.Call) and isinstance(first, ast.If) and isinstance(second, ast.If)
        )
        begin.value.args[0] = self.visit(node.test)
        first.body = self._statements(node.body)
        second.body += self._statements(node.orelse)
        return [begin, first, second, merge]

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        node.test = self._call("loop", [node.test], node.test)
        return node

    # ---- expressions ----

    @staticmethod
    def _call(name: str, args: list[ast.expr], at: ast.expr) -> ast.Call:
        function = ast.Attribute(ast.Name(RUNTIME, ast.Load()), name, ast.Load())
        return ast.fix_missing_locations(ast.copy_location(ast.Call(function, args, []), at))

    @staticmethod
    def _later(value: ast.expr) -> ast.expr:
        none = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        return ast.fix_missing_locations(ast.copy_location(ast.Lambda(none, value), value))

    @staticmethod
    def _may_wait(*values: ast.expr) -> bool:
        """Returns whether these expressions may be moved into lambdas: none of them assigns, awaits or yields."""
        odd = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
        return not any(isinstance(part, odd) for value in values for part in ast.walk(value))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if not self._may_wait(*node.values[1:]):
            return node
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return self._call(name, [node.values[0], *map(self._later, node.values[1:])], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return self._call("not_", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if not self._may_wait(node.body, node.orelse):
            return node
        return self._call("either", [node.test, self._later(node.body), self._later(node.orelse)], node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1 or not self._may_wait(*node.comparators):
            return node
        links: list[ast.expr] = [
            ast.copy_location(ast.Tuple([ast.Constant(type(op).__name__), self._later(value)], ast.Load()), value)
            for op, value in zip(node.ops, node.comparators, strict=True)
        ]
        return self._call("compare", [node.left, *links], node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.func = self._call("call", [node.func], node.func)
        return node


# ---- code objects ----


@functools.lru_cache(64)
def _parsed(source: str) -> tuple[ast.Module, dict[int, ast.ClassDef]]:
    """Returns a file's syntax tree, and a dict from the id of a function's node to the class that contains it."""
    tree = ast.parse(source)
    classes = {id(child): node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for child in node.body}
    return tree, classes


def _arguments(node: ast.FunctionDef | ast.Lambda) -> tuple[str, ...]:
    a = node.args
    return tuple(x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if x is not None)


def _is_source_of(node: ast.AST, code: CodeType) -> bool:
    if isinstance(node, ast.FunctionDef):
        line = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        same = code.co_name == node.name and line == code.co_firstlineno
    elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>":
        at = {(p[0], p[2]) for p in code.co_positions()}
        same = node.lineno == code.co_firstlineno and any(
            (getattr(x, "lineno", 0), getattr(x, "col_offset", -1)) in at for x in ast.walk(node.body)
        )
    else:
        return False
    flags = bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
    count = code.co_argcount + code.co_kwonlyargcount + flags
    return same and len(_arguments(node)) == count and set(_arguments(node)) == set(code.co_varnames[:count])


def _find(module: CodeType, path: Sequence[str]) -> CodeType | None:
    for name in path:
        inner = [c for c in module.co_consts if isinstance(c, CodeType) and c.co_name == name]
        if not inner:
            return None
        module = inner[0]
    return module


@functools.cache
def rewritten(code: CodeType) -> CodeType | None:
    """Returns a function's code, rewritten. It has the original's variables, and RUNTIME as one more free variable. Returns None if the source is not
    available, cannot be parsed, or does not occur exactly once in its file."""
    lines = linecache.getlines(code.co_filename)
    if not lines:
        return None
    try:
        tree, classes = _parsed("".join(lines))
    except SyntaxError:
        return None
    found = [node for node in ast.walk(tree) if _is_source_of(node, code)]
    if len(found) != 1:
        return None
    node = copy.deepcopy(found[0])
    holder = classes.get(id(found[0]))
    inner = _wrapped(node, holder)
    outer = ast.FunctionDef(
        name="_outer",
        args=ast.arguments(
            posonlyargs=[],
            args=[ast.arg(name) for name in (RUNTIME, *code.co_freevars) if name != "__class__"],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[],
        ),
        body=[inner],
        decorator_list=[],
    )
    assert isinstance(inner, (ast.FunctionDef, ast.ClassDef, ast.Expr))
    if not isinstance(inner, ast.Expr) and inner.name not in code.co_freevars:
        outer.body.insert(0, ast.Global([inner.name]))  # the original reads this name as a global, because it is not a free variable there
    module = ast.fix_missing_locations(ast.Module([outer], []))
    path = ["_outer", *([holder.name] if holder is not None else []), code.co_name]
    made = _find(compile(module, code.co_filename, "exec", dont_inherit=True, flags=code.co_flags & 0x1000000), path)
    return None if made is None else made.replace(co_qualname=code.co_qualname)


def _wrapped(node: ast.AST, holder: ast.ClassDef | None) -> ast.stmt:
    """Returns the rewritten function as a statement. Puts a method into a class with the original's name, because Python mangles names such as __x with the
    name of the class."""
    if isinstance(node, ast.FunctionDef):
        node.decorator_list = []
        node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
        node.args.kw_defaults = [None if d is None else ast.Constant(None) for d in node.args.kw_defaults]
        _unannotate(node)
        made: ast.stmt = _Rewriter().function(node)
    else:
        assert isinstance(node, ast.Lambda)
        rewriter = _Rewriter()
        node.body = rewriter.visit(node.body)
        made = ast.copy_location(ast.Expr(node), node)
    if holder is not None:
        made = ast.copy_location(ast.ClassDef(name=holder.name, bases=[], keywords=[], body=[made], decorator_list=[]), made)
    return made


def _unannotate(node: ast.FunctionDef) -> None:
    """Removes the annotations. Only the function's code is used; the function object keeps its own annotations."""
    node.returns = None
    for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg):
        if arg is not None:
            arg.annotation = None
