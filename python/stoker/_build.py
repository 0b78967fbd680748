# SPDX-License-Identifier: Apache-2.0
"""Building graphs: the pipeline that operators are added to, and the record by which two traces of a definition are compared."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from stoker import _core
from stoker._values import ValueKind
from stoker._where import users_line
from stoker.errors import InvalidArgumentError, StokerError

Value = tuple[str, int, Any]  # name, kind, value

# As the library numbers them. "mixed" reads on the cores and gives on the GPU: for the library its place is the GPU.
DEVICES = {None: 0, "cpu": 1, "gpu": 2, "mixed": 2}


class NodeRef(NamedTuple):
    """One output of one operator of a graph."""

    op: int
    output: int


@dataclass(frozen=True)
class Record:
    """One call of an operator, as it was traced."""

    op: str
    inputs: tuple[NodeRef, ...]
    args: tuple[Value, ...]
    name: str | None
    where: str
    outputs: int


class FrozenRandomError(InvalidArgumentError):
    """The definition gave different constants when it was traced again."""


class GraphBuilder:
    """A graph that grows by add(). With `first`, the records of an earlier trace, nothing is built: calls are only compared with them."""

    def __init__(self, device_id: int | None = None, first: list[Record] | None = None, graph: _core.Graph | None = None) -> None:
        self.graph = graph if graph is not None else _core.Graph()
        self.device_id = device_id
        self.records: list[Record] = []
        self.sources: list[Any] = []  # external_source adapters: the library holds them weakly
        self.first = first
        self.names: set[str] = set()

    def add(self, op: str, inputs: Sequence[NodeRef], args: Sequence[Value], name: str | None = None, device: str | None = None) -> Record:
        """Appends an operator; errors name it and the user's line. device: "cpu", "gpu", "mixed", or None: where its inputs are."""
        where = users_line()
        if self.first is not None:
            record = self._compare(op, tuple(inputs), tuple(args), name, where)
        else:
            if name is not None and name in self.names:
                raise InvalidArgumentError(f"{op} at {where}: there is already an operator named {name!r}")
            _ordinal, outputs = self.graph.add(op, inputs, args, name, where, DEVICES[device])
            record = Record(op, tuple(inputs), tuple(args), name, where, outputs)
        if name is not None:
            self.names.add(name)
        self.records.append(record)
        return record

    def _compare(self, op: str, inputs: tuple[NodeRef, ...], args: tuple[Value, ...], name: str | None, where: str) -> Record:
        assert self.first is not None
        at = len(self.records)
        if at >= len(self.first) or self.first[at].op != op or self.first[at].inputs != inputs:
            before = f"{self.first[at].op} at {self.first[at].where}" if at < len(self.first) else "nothing"
            raise FrozenRandomError(
                f"{op} at {where}: the definition is traced twice and took another way the second time (before: {before}). It runs only while "
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

    def device(self, node: NodeRef) -> str:
        """Where a value lies when the pipeline runs: "cpu" or "gpu"."""
        return "gpu" if self.device_id is not None and self.graph.device(node) == DEVICES["gpu"] else "cpu"

    def describe(self, node: NodeRef) -> tuple[int, int, tuple[int, ...], str]:
        """(dtype, ndim, shape, layout) of a value, as far as known."""
        return self.graph.describe(node)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.builders: list[GraphBuilder] = []


_stack = _Stack()


@contextmanager
def building(builder: GraphBuilder) -> Iterator[GraphBuilder]:
    """Operators called inside are added to this graph."""
    _stack.builders.append(builder)
    try:
        yield builder
    finally:
        _stack.builders.remove(builder)


def current_builder(what: str) -> GraphBuilder:
    if not _stack.builders:
        raise StokerError(
            f"{what} at {users_line()}: operators are called inside a function marked @pipeline_def, or inside `with pipeline:`"
        )
    return _stack.builders[-1]


def node_value(name: str, ref: NodeRef) -> Value:
    return (name, int(ValueKind.NODE), tuple(ref))
