# SPDX-License-Identifier: Apache-2.0
"""Builds graphs: GraphBuilder adds operators to a graph and records each call. A definition runs twice, and the records of both traces are compared.

Operators that are called outside of every definition are added to a loose graph. If a pipeline gets a node of a loose graph, the operators that compute the
node are copied into the pipeline's graph.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from stoker import _core
from stoker._values import ValueKind
from stoker._where import notice, users_line
from stoker.errors import InvalidArgumentError, StateError

Value = tuple[str, int, Any]  # an argument of an operator: name, kind (ValueKind), value

# The library's numbers for devices. A "mixed" operator reads host memory and writes GPU memory; for the library it is a GPU operator.
DEVICES = {None: 0, "cpu": 1, "gpu": 2, "mixed": 2}


class NodeRef(NamedTuple):
    """Identifies a value in a graph: index of the operator, index of its output."""

    op: int
    output: int


@dataclass(frozen=True)
class Record:
    """A call of an operator in a trace. where: the user's line. outputs: number of outputs."""

    op: str
    inputs: tuple[NodeRef, ...]
    args: tuple[Value, ...]
    name: str | None
    where: str
    outputs: int
    device: str | None = None
    moved: bool = False  # whether add() appended this copy to the GPU itself, after an operator with device="gpu" that runs on the CPU

    def operands(self) -> list[NodeRef]:
        """Returns the inputs, and the arguments that are nodes."""
        return [*self.inputs, *(NodeRef(*value) for _, kind, value in self.args if kind == ValueKind.NODE)]


Condition = tuple[NodeRef, bool]  # a node of bools, and the value for which samples take the branch


class UserSource(NamedTuple):
    """An external_source or a python_function: the operator's index in the graph, its name, and the object that provides its samples."""

    op: int
    name: str
    source: Any  # a stoker._sources.KeptErrors


class FrozenRandomError(InvalidArgumentError):
    """Raised if a definition added other operators, or passed other arguments to them, when it was traced the second time."""


class GraphBuilder:
    """A graph to which add() appends operators. first: the records of an earlier trace. If they are given, add() does not change the graph, but compares each
    call with its record."""

    def __init__(self, device_id: int | None = None, first: list[Record] | None = None, graph: _core.Graph | None = None) -> None:
        self.graph = graph if graph is not None else _core.Graph()
        self.device_id = device_id
        self.records: list[Record] = []
        self.sources: list[UserSource] = []  # this list keeps them alive: the library holds no reference to them
        self.sinks: list[NodeRef] = []  # nodes that are computed although no output needs them
        self.first = first
        self.names: set[str] = set()
        self.built = False
        self.conditionals = False  # whether the pipeline's definition is rewritten (stoker._branches)
        self.when: tuple[Condition, ...] = ()  # the conditions under which samples reach the code that is being traced, outermost first
        # If not None, called once for each random operator that is added, and returns its seed. If None, the operators use the pipeline's seed.
        self.seeds: Callable[[], int] | None = None
        self._adopted: weakref.WeakKeyDictionary[GraphBuilder, dict[int, int]] = weakref.WeakKeyDictionary()

    loose = False  # whether the graph belongs to no pipeline

    def add(
        self,
        op: str,
        inputs: Sequence[NodeRef],
        args: Sequence[Value],
        name: str | None = None,
        device: str | None = None,
        where: str | None = None,
    ) -> Record:
        """Appends an operator. device: "cpu", "gpu", "mixed", or None for the device of its inputs. Returns the operator's record or, if its output is copied
        to the GPU, the record of the copy. Errors name the operator and the user's line."""
        where = where or users_line()
        at = len(self.records)
        if self.built:
            raise StateError(f"{op} at {where}: the pipeline is built: no operators can be added")
        if self.first is not None:
            records = [self._compare(op, tuple(inputs), tuple(args), name, where)]
            records += [r for r in self.first[at + 1 : at + 2] if r.moved]
        else:
            if name is not None and name in self.names:
                raise InvalidArgumentError(f"{op} at {where}: there is already an operator named {name!r}")
            ordinal, outputs = self.graph.add(op, inputs, args, None if self.loose else name, where, DEVICES[device], self.when)
            records = [Record(op, tuple(inputs), tuple(args), name, where, outputs, device)]
            if ordinal > at:
                records.append(Record("copy", (NodeRef(at, 0),), (), None, where, 1, device, moved=True))
        if name is not None and not self.loose:
            self.names.add(name)
        self.records += records
        return records[-1]

    def _compare(self, op: str, inputs: tuple[NodeRef, ...], args: tuple[Value, ...], name: str | None, where: str) -> Record:
        assert self.first is not None
        at = len(self.records)
        if at >= len(self.first) or self.first[at].op != op or self.first[at].inputs != inputs:
            before = f"{self.first[at].op} at {self.first[at].where}" if at < len(self.first) else "nothing"
            raise FrozenRandomError(
                f"{op} at {where}: the definition is traced twice, and added another operator the second time (the first time: {before}). It runs only while "
                "the graph is built: what it decides with Python's random numbers or counters stays as it is for the whole run."
            )
        for (arg, _kind, was), (_name, _kind2, now) in zip(self.first[at].args, args, strict=False):
            if was != now and repr(was) != repr(now):  # NaN is not equal to itself
                raise FrozenRandomError(
                    f"{op} at {where}: argument '{arg}' was {was!r} when the definition was traced first and {now!r} the second time. The "
                    "definition runs only while the graph is built, so a random number of Python would stay the same for the whole run: use "
                    "fn.random.uniform, fn.random.coin_flip or fn.random.normal."
                )
        return Record(op, inputs, args, name, where, self.first[at].outputs)

    def node_of(self, builder: GraphBuilder, node: NodeRef, what: str) -> NodeRef:
        """Returns the node of this graph that corresponds to a node of another graph. If the other graph is loose, copies the operators that compute the node,
        unless they were copied before. Raises InvalidArgumentError for a node of another pipeline. what: the operator's name for the message."""
        if builder is self:
            return node
        if not builder.loose:
            raise InvalidArgumentError(f"{what} at {users_line()}: an input is a node of another pipeline")
        known = self._adopted.setdefault(builder, {})
        needed: set[int] = set()
        left = [node.op]
        while left:
            op = left.pop()
            if op not in known and op not in needed:
                needed.add(op)
                left += [operand.op for operand in builder.records[op].operands()]
        when, self.when = self.when, ()  # these operators were called outside of all branches
        try:
            for op in sorted(needed):
                self._adopt(builder, op, known)
        finally:
            self.when = when
        return NodeRef(known[node.op], node.output)

    def _adopt(self, builder: GraphBuilder, op: int, known: dict[int, int]) -> None:
        record = builder.records[op]
        if record.moved:  # the copy was added along with the operator whose output it copies
            known[op] = known[record.inputs[0].op]
            return
        if record.device in ("gpu", "mixed") and self.device_id is None:
            notice("the pipeline has no GPU (device_id=None): what was placed on it runs on the CPU")
        args: list[Value] = [
            (name, kind, (known[value[0]], value[1]) if kind == ValueKind.NODE else value) for name, kind, value in record.args
        ]
        inputs = [NodeRef(known[i.op], i.output) for i in record.inputs]
        self.add(record.op, inputs, args, record.name, record.device, record.where)
        known[op] = len(self.records) - 1
        for source in builder.sources:
            if source.op == op:
                self.add_source(known[op], record.name, source.source)

    def add_source(self, op: int, name: str | None, source: Any) -> None:
        """Sets the source or function of the external_source or python_function with index `op`. Does nothing in a second trace. name: the source's name, or
        None to make one from `op`."""
        if self.first is None:
            if source.uploads and not self.loose:
                source.device_id = self.device_id
            self.graph.set_source((op, 0), source.handle)
            self.sources.append(UserSource(op, name or f"__source_{op}", source))

    def add_sink(self, node: NodeRef) -> None:
        """Makes the pipeline compute a node although no output needs it."""
        if self.loose:
            raise StateError(
                f"an operator without outputs at {users_line()} belongs to a pipeline: call it in its definition, or inside `with pipe:`"
            )
        if self.first is None:
            self.sinks.append(node)

    def source_of(self, node: NodeRef) -> NodeRef:
        """Returns the node from which `node` was copied to the GPU; `node` itself if it is not a copy."""
        while self.records[node.op].op == "copy":
            node = self.records[node.op].inputs[0]
        return node

    def device(self, node: NodeRef) -> str:
        """Returns "cpu" or "gpu", the device of a value when the pipeline runs."""
        return "gpu" if self.device_id is not None and self.graph.device(node) == DEVICES["gpu"] else "cpu"

    def describe(self, node: NodeRef) -> tuple[int, int, tuple[int, ...], str]:
        """Returns (dtype, ndim, shape, layout) of a value. Numbers that are not known before the first batch are negative."""
        return self.graph.describe(node)


class LooseBuilder(GraphBuilder):
    """A graph of operators that belong to no pipeline yet. Whether its pipeline will use a GPU is not known, so it assumes one, and records devices as the user
    gave them."""

    loose = True

    def __init__(self) -> None:
        super().__init__(device_id=0)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.builders: list[GraphBuilder] = []
        self.loose: weakref.ref[GraphBuilder] | None = None  # weak, so that the graph is freed with its last node


_stack = _Stack()


@contextmanager
def building(builder: GraphBuilder) -> Iterator[GraphBuilder]:
    """A context that adds the operators called inside it to this graph."""
    builders = _stack.builders  # this thread's list; an unfinished generator may be collected, and then end, on another thread
    builders.append(builder)
    try:
        yield builder
    finally:
        builders.remove(builder)


def current_builder(nodes_of: Iterable[GraphBuilder] = ()) -> GraphBuilder:
    """Returns the graph to which an operator is added: that of the pipeline that is being defined; if there is none, the first graph in nodes_of that belongs
    to a pipeline; else this thread's loose graph. nodes_of: the graphs of the operator's inputs."""
    if _stack.builders:
        return _stack.builders[-1]
    for builder in nodes_of:
        if not builder.loose:
            return builder
    loose = _stack.loose() if _stack.loose is not None else None
    if loose is None:
        loose = LooseBuilder()
        _stack.loose = weakref.ref(loose)
    return loose


def node_value(name: str, ref: NodeRef) -> Value:
    return (name, int(ValueKind.NODE), tuple(ref))
