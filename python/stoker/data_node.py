# SPDX-License-Identifier: Apache-2.0
"""DataNode: a value in a graph. Arithmetic, comparisons and slicing add operators to the graph."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NoReturn

from stoker import _docs
from stoker import _types as types
from stoker._build import GraphBuilder, NodeRef, Value, current_builder
from stoker._constant import constant_arguments
from stoker._elsewhere import no_attribute
from stoker._values import ValueKind
from stoker._where import notice, users_line
from stoker.errors import ArgumentError, InvalidArgumentError, UnknownArgumentError, UnsupportedError

_OPEN = -(2**63)  # stands for an omitted bound of a range
_INDEX, _RANGE, _FULL, _NEW = 0, 1, 2, 3


class _NewAxis:
    """Marks a new axis in a subscript: x[stoker.newaxis], x[stoker.newaxis("C")]."""

    def __init__(self, name: str = "") -> None:
        if len(name) > 1:
            raise InvalidArgumentError(f"the name of a new axis at {users_line()}: one letter of a layout, not {name!r}")
        self.name = name

    def __call__(self, name: str) -> _NewAxis:
        return _NewAxis(name)


newaxis = _NewAxis()


class NoTruthError(InvalidArgumentError, TypeError):
    """Raised if a DataNode is used as a Python condition."""


class DataNode:
    """One output of one operator: a value of each sample, which is computed when the pipeline runs."""

    __slots__ = ("_builder", "_ref", "_what")

    def __init__(self, builder: GraphBuilder, ref: NodeRef, what: str) -> None:
        self._builder = builder
        self._ref = ref
        self._what = what

    @property
    def ref(self) -> NodeRef:
        return self._ref

    @property
    def name(self) -> str:
        """Returns the operator's name: the argument `name` if the user gave it, else the name of the function."""
        return self._what

    @property
    def device(self) -> str:
        """Returns the device of the value: "cpu" or "gpu"."""
        return self._builder.device(self._ref)

    def __repr__(self) -> str:
        return f"DataNode({self._what}, operator {self._ref.op}, output {self._ref.output})"

    __hash__ = object.__hash__

    # ---- devices ----

    def gpu(self) -> DataNode:
        """Returns the value on the GPU; the node itself in a pipeline without a GPU."""
        if self._builder.device_id is None:
            notice("the pipeline has no GPU (device_id=None): .gpu() leaves data on the CPU")
        elif self.device == "cpu":
            uploaded: DataNode = self._call("copy", [self], device="gpu")
            return uploaded
        return self

    def cpu(self) -> DataNode:
        """Returns the value on the CPU. A value on the GPU is copied after the GPU has computed the whole batch."""
        if self.device == "gpu":
            fetched: DataNode = self._call("_to_cpu", [self], device="cpu")
            return fetched
        return self

    # ---- about the value ----

    def shape(self, *, dtype: Any = None, device: str = "cpu") -> DataNode:
        """Returns the shape of each sample; int64 unless `dtype` is given."""
        args: list[Value] = [] if dtype is None else [("dtype", int(ValueKind.INT), int(types.to_dtype(dtype)))]
        return self._known("shapes", args, device)

    def property(self, key: str, *, device: str = "cpu") -> DataNode:
        """Returns a property of each sample, "source_info" or "layout", as the bytes of a text (uint8)."""
        return self._known("get_property", [("key", int(ValueKind.STRING), key)], device)

    def source_info(self, *, device: str = "cpu") -> DataNode:
        """Returns the path or URI of each sample, as the bytes of a text (uint8)."""
        return self.property("source_info", device=device)

    def _known(self, op: str, args: list[Value], device: str) -> DataNode:
        """Adds an operator that needs only the value's shape, layout or source, and therefore runs on the CPU even if the value's data is on the GPU."""
        found: DataNode = self._call(op, [self], args, device="cpu")
        return found.gpu() if device == "gpu" and self._builder.device_id is not None else found

    # ---- unsupported uses ----

    def __bool__(self) -> bool:
        if current_builder([self._builder]).conditionals:
            advice = (
                "enable_conditionals=True does not reach this place: an assert, the condition of a comprehension, a function under @do_not_convert, or "
                "one whose "
                "source cannot be had (typed at a prompt, or made by exec), which has to stand in a file. & | and comparisons work per sample."
            )
        else:
            advice = "@pipeline_def(enable_conditionals=True) lets if, and, or, not depend on samples; & | and comparisons work per sample without it."
        raise NoTruthError(
            f"at {users_line()}: a DataNode has no truth value while the graph is built, since each sample has its own. {advice}"
        )

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be iterated: its length is known only when the pipeline runs")

    def __len__(self) -> int:
        raise TypeError(f"{self!r} has no length while the graph is built; x.shape() gives the shape of each sample")

    # ---- operators ----

    @staticmethod
    def _call(op: str, inputs: list[DataNode], args: list[Value] | None = None, device: str | None = None) -> Any:
        return call_operator(op, inputs, args or [], device=device)

    def _arithmetic(self, op: str, other: Any = None, *, swap: bool = False, unary: bool = False) -> DataNode:
        if unary:
            return arithmetic(op, self)
        return arithmetic(op, other, self) if swap else arithmetic(op, self, other)

    def __add__(self, other: Any) -> DataNode:
        return self._arithmetic("add", other)

    def __radd__(self, other: Any) -> DataNode:
        return self._arithmetic("add", other, swap=True)

    def __sub__(self, other: Any) -> DataNode:
        return self._arithmetic("sub", other)

    def __rsub__(self, other: Any) -> DataNode:
        return self._arithmetic("sub", other, swap=True)

    def __mul__(self, other: Any) -> DataNode:
        return self._arithmetic("mul", other)

    def __rmul__(self, other: Any) -> DataNode:
        return self._arithmetic("mul", other, swap=True)

    def __truediv__(self, other: Any) -> DataNode:
        return self._arithmetic("fdiv", other)

    def __rtruediv__(self, other: Any) -> DataNode:
        return self._arithmetic("fdiv", other, swap=True)

    def __floordiv__(self, other: Any) -> DataNode:
        return self._arithmetic("div", other)

    def __rfloordiv__(self, other: Any) -> DataNode:
        return self._arithmetic("div", other, swap=True)

    def __mod__(self, other: Any) -> DataNode:
        return self._arithmetic("mod", other)

    def __rmod__(self, other: Any) -> DataNode:
        return self._arithmetic("mod", other, swap=True)

    def __pow__(self, other: Any) -> DataNode:
        return self._arithmetic("pow", other)

    def __rpow__(self, other: Any) -> DataNode:
        return self._arithmetic("pow", other, swap=True)

    def __and__(self, other: Any) -> DataNode:
        return self._arithmetic("bitand", other)

    def __rand__(self, other: Any) -> DataNode:
        return self._arithmetic("bitand", other, swap=True)

    def __or__(self, other: Any) -> DataNode:
        return self._arithmetic("bitor", other)

    def __ror__(self, other: Any) -> DataNode:
        return self._arithmetic("bitor", other, swap=True)

    def __xor__(self, other: Any) -> DataNode:
        return self._arithmetic("bitxor", other)

    def __rxor__(self, other: Any) -> DataNode:
        return self._arithmetic("bitxor", other, swap=True)

    def __lshift__(self, other: Any) -> DataNode:
        return self._arithmetic("shl", other)

    def __rlshift__(self, other: Any) -> DataNode:
        return self._arithmetic("shl", other, swap=True)

    def __rshift__(self, other: Any) -> DataNode:
        return self._arithmetic("shr", other)

    def __rrshift__(self, other: Any) -> DataNode:
        return self._arithmetic("shr", other, swap=True)

    def __invert__(self) -> DataNode:
        return self._arithmetic("bitnot", unary=True)

    def __eq__(self, other: object) -> DataNode:  # type: ignore[override]
        return self._arithmetic("eq", other)

    def __ne__(self, other: object) -> DataNode:  # type: ignore[override]
        return self._arithmetic("ne", other)

    def __lt__(self, other: Any) -> DataNode:
        return self._arithmetic("lt", other)

    def __le__(self, other: Any) -> DataNode:
        return self._arithmetic("le", other)

    def __gt__(self, other: Any) -> DataNode:
        return self._arithmetic("gt", other)

    def __ge__(self, other: Any) -> DataNode:
        return self._arithmetic("ge", other)

    def __neg__(self) -> DataNode:
        return self._arithmetic("neg", unary=True)

    def __pos__(self) -> DataNode:
        return self._arithmetic("pos", unary=True)

    def __abs__(self) -> DataNode:
        return self._arithmetic("abs", unary=True)

    def __getitem__(self, key: Any) -> DataNode:
        return subscript(self, key)


def call_operator(
    op_name: str, inputs: Sequence[DataNode], args: Sequence[Value], name: str | None = None, device: str | None = None
) -> Any:
    """Adds an operator whose arguments are already converted. Returns the node of its output, or a list if it has several outputs."""
    builder = current_builder(n._builder for n in inputs)
    record = builder.add(op_name, [builder.node_of(n._builder, n.ref, op_name) for n in inputs], args, name, device)
    ordinal = len(builder.records) - 1
    nodes = [DataNode(builder, NodeRef(ordinal, k), op_name if name is None else name) for k in range(record.outputs)]
    return nodes[0] if len(nodes) == 1 else nodes


def constant_node(
    value: Any, dtype: types.DALIDataType | None = None, shape: Sequence[int] | None = None, layout: str | None = None, **common: Any
) -> DataNode:
    """Makes a node that has the same value for each sample. value: a number, nested lists or an array."""
    if unknown := sorted(common.keys() - _docs.COMMON.keys()):
        raise UnknownArgumentError(
            f"Constant at {users_line()}: there is no argument '{unknown[0]}'; it takes value, dtype, shape, layout and device"
        )
    args = constant_arguments(value, dtype, shape, layout)
    builder = current_builder()
    builder.add("constant", [], args)
    return DataNode(builder, NodeRef(len(builder.records) - 1, 0), "constant")


def arithmetic(op: str, *operands: Any) -> DataNode:
    """Adds operator `op`, which computes element by element from nodes and numbers, and returns its node. Types of operands are promoted as in DALI."""
    nodes = []
    for operand in operands:
        if isinstance(operand, (str, bytes, type(None))):
            raise ArgumentError(f"'{op}' at {users_line()}: an operand is a DataNode or a number, not {operand!r}")
        if not isinstance(operand, DataNode):  # a NumPy scalar keeps its type, unlike an array
            scalar = hasattr(operand, "dtype") and getattr(operand, "shape", None) == ()
            dtype = types.to_dtype(operand.dtype) if scalar else None
            operand = constant_node(int(operand) if isinstance(operand, IntEnum) else operand, dtype)
        nodes.append(operand)
    result: DataNode = DataNode._call("_arithmetic", nodes, [("op", int(ValueKind.STRING), op)])
    return result


def _expand(node: DataNode, keys: list[Any]) -> list[Any]:
    """Replaces an Ellipsis in a subscript by full ranges. Raises InvalidArgumentError for a second Ellipsis, or if the number of dimensions is not known."""
    ellipses = [i for i, k in enumerate(keys) if k is Ellipsis]
    if not ellipses:
        return keys
    ndim = node._builder.describe(node.ref)[1]
    if len(ellipses) > 1 or ndim < 0:
        why = "there is more than one" if len(ellipses) > 1 else "the number of dimensions is not known here"
        raise InvalidArgumentError(f"'...' in a subscript at {users_line()}: {why}")
    fill = [slice(None)] * (ndim - sum(not isinstance(k, _NewAxis) for k in keys) + 1)
    return keys[: ellipses[0]] + fill + keys[ellipses[0] + 1 :]


class _Bounds:
    """Collects the bounds of a subscript. The bounds that are nodes become inputs of the operator."""

    def __init__(self) -> None:
        self.nodes: list[DataNode] = []
        self.inputs: list[int] = []  # for each bound: 0 for a constant, or k for the k-th input, counted from 1

    def add(self, value: Any, otherwise: int, what: str) -> int:
        """Returns the number for a bound. None gives `otherwise`. A node becomes an input of the operator, and gives the placeholder 1. what: the bound's name
        in messages."""
        if isinstance(value, types.ScalarConstant):
            value = constant_node(value)
        if isinstance(value, DataNode):
            if value.device == "gpu":
                raise InvalidArgumentError(
                    f"{what} of a subscript at {users_line()} lies on the GPU: the cores read it, so leave out its .gpu()"
                )
            self.nodes.append(value)
            self.inputs.append(len(self.nodes))
            return 1
        self.inputs.append(0)
        if value is None:
            return otherwise
        try:
            return int(value.__index__())
        except (AttributeError, TypeError):
            raise ArgumentError(f"{what} of a subscript at {users_line()}: a whole number is needed, not {value!r}") from None


def subscript(node: DataNode, key: Any) -> DataNode:
    """Returns the node for node[key]. key: '...', whole numbers, ranges with steps, and stoker.newaxis. In place of a number it may have a node, which holds a
    number for each sample."""
    keys = _expand(node, list(key) if isinstance(key, tuple) else [key])
    kinds, lo, hi, step = [], [], [], []
    bounds, names = _Bounds(), list[str]()
    for k in keys:
        if k is None:
            raise UnsupportedError(f"None in a subscript at {users_line()}: stoker.newaxis adds a dimension")
        if isinstance(k, _NewAxis):
            kinds.append(_NEW)
            names.append(k.name)
            lo.append(bounds.add(None, _OPEN, ""))
            hi.append(bounds.add(None, _OPEN, ""))
            step.append(bounds.add(None, 1, ""))
        elif isinstance(k, slice):
            full = k.start is None and k.stop is None and k.step is None
            kinds.append(_FULL if full else _RANGE)
            lo.append(bounds.add(k.start, _OPEN, "the start"))
            hi.append(bounds.add(k.stop, _OPEN, "the end"))
            step.append(bounds.add(k.step, 1, "the step"))
        else:
            kinds.append(_INDEX)
            lo.append(bounds.add(k, _OPEN, "an index"))
            hi.append(bounds.add(None, _OPEN, ""))
            step.append(bounds.add(None, 1, ""))
    ints = int(ValueKind.INTS)
    args: list[Value] = [("kinds", ints, kinds), ("lo", ints, lo), ("hi", ints, hi), ("step", ints, step)]
    if bounds.nodes:
        args.append(("held", ints, bounds.inputs))
    if any(names):
        if not all(names):
            raise InvalidArgumentError(f"a subscript at {users_line()}: name all new axes, or none")
        args.append(("new_names", int(ValueKind.STRING), "".join(names)))
    result: DataNode = DataNode._call("_subscript", [node, *bounds.nodes], args)
    return result


def __getattr__(name: str) -> NoReturn:
    raise no_attribute(__name__, name)
