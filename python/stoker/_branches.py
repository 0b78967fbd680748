# SPDX-License-Identifier: Apache-2.0
"""The functions that rewritten definitions call (stoker._rewrite). If a condition depends on data, both branches are traced and their variables merged.

Operators that are called in a branch are added with the branch's condition (GraphBuilder.when), so that they run only for samples that take the branch. If no
DataNode is involved, each function of this file does the same as the Python statement.
"""

from __future__ import annotations

import builtins
import functools
import operator
import sys
from collections.abc import Callable, Sequence
from types import CellType, FunctionType, MethodType
from typing import Any, NoReturn

from stoker import _types as types
from stoker._build import GraphBuilder, NodeRef, Value, current_builder
from stoker._constant import constant_arguments
from stoker._rewrite import DEAD, READ, RESULT, RUNTIME, rewritten
from stoker._values import ValueKind
from stoker._where import users_line
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError, UnsupportedError

locals = builtins.locals
_MISSING = object()
# A variable: its source text; the last line that assigns it in the first branch, or 0; the last such line in the second branch, or 0; how it is used after the
# `if` (DEAD, CAPTURED or READ of stoker._rewrite).
Variable = tuple[str, int, int, int]
_MARK = "_stoker_do_not_convert"


# ---- functions ----


def do_not_convert(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function that enable_conditionals must not rewrite. Conditions in that function, and in functions that it calls, stay plain Python."""
    target = func.__func__ if isinstance(func, MethodType) else func
    setattr(target, _MARK, True)
    return func


def _is_users(function: FunctionType) -> bool:
    if getattr(function, _MARK, False) or RUNTIME in function.__code__.co_freevars:
        return False
    module = function.__globals__.get("__name__") or ""
    package = module.partition(".")[0]
    return module.startswith("stoker.auto_aug") or package not in _FOREIGN


_FOREIGN = {"stoker", "numpy", "torch", "torchvision", "cupy", "PIL", "cv2", *sys.stdlib_module_names} - {"__main__"}


def _convert(function: FunctionType) -> FunctionType | None:
    """Returns the rewritten function with the original's globals, closure and defaults; None if the function cannot be rewritten."""
    code = rewritten(function.__code__)
    if code is None:
        return None
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[RUNTIME] = CellType(sys.modules[__name__])
    made = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, tuple(cells[name] for name in code.co_freevars)
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    return made


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a rewritten function for a user's function, method or callable object. Returns other objects, and what cannot be rewritten, unchanged."""
    if isinstance(function, FunctionType):
        return (_convert(function) if _is_users(function) else None) or function
    if isinstance(function, MethodType):
        inner = converted(function.__func__)
        return function if inner is function.__func__ else MethodType(inner, function.__self__)
    if isinstance(function, functools.partial):
        return functools.partial(converted(function.func), *function.args, **function.keywords)
    if not isinstance(function, type) and isinstance(method := getattr(type(function), "__call__", None), FunctionType):  # noqa: B004
        inner = converted(method)
        return function if inner is method else MethodType(inner, function)
    return function


call = converted


# ---- conditions ----


def _depends(value: Any) -> bool:
    return isinstance(value, DataNode) and current_builder([value._builder]).conditionals


def _add(builder: GraphBuilder, op: str, inputs: Sequence[NodeRef], args: Sequence[Value], where: str | None = None) -> DataNode:
    builder.add(op, inputs, args, None, "cpu" if op == "_truth" else None, where)
    return DataNode(builder, NodeRef(len(builder.records) - 1, 0), op)


def _truth(builder: GraphBuilder, value: DataNode, of: str, *, negate: bool = False) -> DataNode:
    """Converts a node to a condition, a node of bools. `if` and `not` accept any number, `and` and `or` only bools, as in DALI. of: the operator's name."""
    ref = builder.node_of(value._builder, value.ref, of)
    if value.device == "gpu":
        raise InvalidArgumentError(
            f"`{of}` at {users_line()}: its condition lies on the GPU, and the cores decide which branch a sample takes: make it before .gpu(), or call .cpu()"
        )
    strict = of in ("and", "or")
    dtype, ndim, _, _ = builder.describe(ref)
    if not strict and not negate and ndim == 0 and dtype == types.BOOL:
        return DataNode(builder, ref, value.name)
    args: list[Value] = [("of", int(ValueKind.STRING), of)]
    args += [(name, int(ValueKind.BOOL), True) for name, given in (("negate", negate), ("strict", strict)) if given]
    return _add(builder, "_truth", [ref], args)


def not_(value: Any) -> Any:
    """Returns `not value`, which is a node if the value is one."""
    if not _depends(value):
        return not value
    return _truth(current_builder([value._builder]), value, "not", negate=True)


def _lazy(of: str, left: DataNode, right: Callable[[], Any]) -> DataNode:
    """Returns the node of `left and right` or `left or right`. The operators of `right` run only for samples in which the result depends on `right`."""
    builder = current_builder([left._builder])
    predicate = _truth(builder, left, of)
    around = builder.when
    builder.when = (*around, (predicate.ref, of == "and"))
    try:
        value = right()
        if not isinstance(value, DataNode):
            value = _constant(builder, value, users_line())
        other = _truth(builder, value, of)
    finally:
        builder.when = around
    sides = (other, predicate) if of == "and" else (predicate, other)
    return _add(builder, "_merge", [predicate.ref, *(side.ref for side in sides)], [], f"{users_line()} ({of})")


def and_(value: Any, *rest: Callable[[], Any]) -> Any:
    """Returns `value and rest[0]() and ...`. The result is a node if one of the evaluated operands is a node."""
    for right in rest:
        if _depends(value):
            value = _lazy("and", value, right)
        elif not value:
            return value
        else:
            value = right()
    return value


def or_(value: Any, *rest: Callable[[], Any]) -> Any:
    """Returns `value or rest[0]() or ...`. The result is a node if one of the evaluated operands is a node."""
    for right in rest:
        if _depends(value):
            value = _lazy("or", value, right)
        elif value:
            return value
        else:
            value = right()
    return value


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


def compare(left: Any, *links: tuple[str, Callable[[], Any]]) -> Any:
    """Returns a chained comparison, such as `left < b < c`. links: for each further operand, the name of the comparison and a function that returns the
    operand."""
    (op, later), *more = links
    right = later()
    first = _COMPARE[op](left, right)
    return and_(first, lambda: compare(right, *more)) if more else first


def loop(value: Any) -> Any:
    """Returns the condition of `while`. Raises UnsupportedError if it depends on data."""
    if _depends(value):
        raise UnsupportedError(
            f"`while` at {users_line()}: how often a loop runs cannot depend on data; repeat a fixed number of times, with an `if` inside"
        )
    return value


def either(test: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """Returns `yes if test else no`. yes, no: functions that return the values."""
    if not _depends(test):
        return yes() if test else no()
    branches = Branches(test, (("the value of the conditional expression", 0, 0, READ),), "", (), where=users_line())
    branches.first()
    first = yes()
    branches.second({}, ())
    second = no()
    return branches.merged([first], [second])[0]


# ---- branches ----


class Plain:
    """An `if` whose condition does not depend on data."""

    both = False

    def __init__(self, test: Any) -> None:
        self.taken = bool(test)

    def first(self) -> bool:
        return self.taken

    def second(self, _state: Any, _peeks: Any) -> bool:
        return not self.taken


class Branches:
    """An `if` whose condition depends on data. Its branches are traced one after the other."""

    both = True

    def __init__(self, test: DataNode, variables: tuple[Variable, ...], leaves: str, before: Sequence[Any], where: str) -> None:
        self.where = where
        if leaves:
            raise UnsupportedError(
                f"`if` at {where} depends on data, so both of its branches are traced, and each sample takes one: {leaves} cannot be done for only "
                "some samples"
            )
        self.variables = variables
        self.builder = current_builder([test._builder])
        self.predicate = _truth(self.builder, test, "if")
        self.around = self.builder.when
        self.values = list(before)
        self.of_first: list[Any] = []

    def _enter(self, wanted: bool) -> bool:
        self.builder.when = (*self.around, (self.predicate.ref, wanted))
        return True

    def first(self) -> bool:
        """Begins the trace of the `if` branch."""
        return self._enter(True)

    def second(self, state: dict[str, Any], peeks: Sequence[Callable[[], Any]]) -> bool:
        """Begins the trace of the `else` branch. Afterwards, value() and missing() return the variables as they were before the `if`."""
        self.of_first = _state(self.variables, state, peeks)
        return self._enter(False)

    def merge(self, state: dict[str, Any], peeks: Sequence[Callable[[], Any]]) -> None:
        """Ends the trace of both branches. Afterwards, value() and missing() return the merged variables."""
        self.values = self.merged(self.of_first, _state(self.variables, state, peeks))

    def value(self, i: int) -> Any:
        return None if self.missing(i) else self.values[i]

    def missing(self, i: int) -> bool:
        return self.values[i] is _MISSING

    def merged(self, first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
        self.builder.when = self.around
        return [self._variable(v, a, b) for v, a, b in zip(self.variables, first, second, strict=True)]

    # ---- one variable ----

    def _variable(self, variable: Variable, a: Any, b: Any) -> Any:
        name, _, _, becomes = variable
        if a is b:
            return a
        if becomes == DEAD:
            return _MISSING
        if a is _MISSING or b is _MISSING:
            if becomes == READ:
                self._refuse(variable, a, b, "")
            return _MISSING
        try:
            return self._value(variable, a, b, "")
        except _UnequalError as e:
            if becomes != READ:
                return _MISSING
            self._refuse(variable, a, b, str(e))
        raise AssertionError(name)

    def _value(self, variable: Variable, a: Any, b: Any, at: str) -> Any:
        """Returns the value of a variable after both branches. Merges nodes and numbers, also inside lists, tuples and dicts of one form. at: where inside the
        variable the values are, for messages. Raises _UnequalError if the values cannot be merged."""
        if a is b:
            return a
        if isinstance(a, dict) and isinstance(b, dict):
            if a.keys() != b.keys():
                raise _UnequalError(f"the keys of{at or ' it'} are {sorted(map(repr, a))} and {sorted(map(repr, b))}")
            return type(a)((key, self._value(variable, a[key], b[key], f"{at} item {key!r}")) for key in a)
        if isinstance(a, (list, tuple)) and type(a) is type(b):
            if len(a) != len(b):
                raise _UnequalError(f"{at or 'it'} has {len(a)} elements and {len(b)}")
            items = [self._value(variable, x, y, f"{at} element {i}") for i, (x, y) in enumerate(zip(a, b, strict=True))]
            return type(a)(*items) if hasattr(a, "_fields") else type(a)(items)
        if isinstance(a, DataNode) or isinstance(b, DataNode):
            return self._merge(variable, a, b, at)
        if type(a) is type(b) and _equal(a, b):
            return a
        return self._merge(variable, a, b, at)

    def _merge(self, variable: Variable, a: Any, b: Any, at: str) -> DataNode:
        builder = self.builder
        refs = []
        for i, (value, other) in enumerate(((a, b), (b, a))):
            self._enter(i == 0)
            node = value if isinstance(value, DataNode) else self._constant(variable, value, i, at)
            refs.append(builder.node_of(node._builder, node.ref, variable[0]))
            if not isinstance(value, DataNode) and isinstance(other, DataNode) and other.device == "gpu":
                refs[i] = node.gpu().ref
        builder.when = self.around
        if refs[0] == refs[1]:
            return DataNode(builder, refs[0], a.name)
        return _add(builder, "_merge", [self.predicate.ref, *refs], [], f"{self.where} ({_called(variable[0])}{at})")

    def _constant(self, variable: Variable, value: Any, side: int, at: str) -> DataNode:
        line = variable[1 + side]
        where = f"{self.where.rpartition(':')[0]}:{line}" if line else self.where
        if isinstance(value, (str, bytes, type(None), dict, set)) or callable(value):
            raise _UnequalError(f"{at.strip() or 'it'} is {_shown(value)} in one, which is no value of a sample")
        try:
            return _constant(self.builder, value, where)
        except (TypeError, ValueError, AttributeError):
            raise _UnequalError(f"{at.strip() or 'it'} is {_shown(value)} in one, which is no value of a sample") from None

    def _refuse(self, variable: Variable, a: Any, b: Any, why: str) -> NoReturn:
        name, first, second, _ = variable
        file = self.where.rpartition(":")[0]
        lines = [f"{file}:{line}" if line else self.where for line in (first, second)]
        what = _called(name)
        if name == RESULT and (a is None or b is None):
            why = f"there is a value where the condition is {'false' if a is None else 'true'}, and none where it is not"
        if a is _MISSING or b is _MISSING:
            only = "true" if b is _MISSING else "false"
            why = f"it is assigned only where the condition is {only} (at {lines[0 if b is _MISSING else 1]}), and read afterwards"
        raise InvalidArgumentError(
            f"`if` at {self.where} depends on data, and {what} cannot be merged from its branches: {why}. Give it values of one form in both "
            f"(at {lines[0]} and {lines[1]})"
        )


def _called(name: str) -> str:
    if name == RESULT:
        return "what the function returns"
    return name if name.startswith("the ") else f"the variable {name!r}"


class _UnequalError(Exception):
    """Raised if a variable's values in the two branches cannot be merged."""


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:  # the result of == has no truth value, as for arrays
        return False


def _constant(builder: GraphBuilder, value: Any, where: str) -> DataNode:
    return _add(builder, "constant", [], constant_arguments(value, None, None, None), where)


def _peek(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (LookupError, AttributeError, NameError):
        return _MISSING


def _state(variables: Sequence[Variable], state: dict[str, Any], peeks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Returns the current values of the variables: first those of local variables, from `state`, then those of attributes and items, from the functions in
    `peeks`. The value of an unset variable is _MISSING."""
    names = variables[: len(variables) - len(peeks)]
    return [*(state.get(name, _MISSING) for name, *_ in names), *map(_peek, peeks)]


def begin(
    test: Any, variables: tuple[Variable, ...], leaves: str, state: dict[str, Any], peeks: Sequence[Callable[[], Any]]
) -> Plain | Branches:
    """Begins an `if`. Returns Plain if its condition is a Python value, and Branches if it depends on data."""
    if not _depends(test):
        return Plain(test)
    return Branches(test, variables, leaves, _state(variables, state, peeks), users_line())
