# SPDX-License-Identifier: Apache-2.0
"""Runs the functions that define pipelines, and stores which pipeline is being defined."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from stoker._build import GraphBuilder, Record, building
from stoker._where import users_line
from stoker.data_node import DataNode, constant_node
from stoker.errors import ArgumentError, InvalidArgumentError


class _Defined(threading.local):
    """The pipelines that this thread is defining, the innermost last, each with the context to leave when its definition ends."""

    def __init__(self) -> None:
        self.stack: list[tuple[Any, AbstractContextManager[Any]]] = []


_defined = _Defined()


def current() -> Any:
    """Returns the pipeline that is being defined, or None."""
    return _defined.stack[-1][0] if _defined.stack else None


def begin(pipeline: Any, builder: GraphBuilder) -> None:
    """Begins the definition of a pipeline. Operators that are called afterwards are added to its graph."""
    scope = building(builder)
    scope.__enter__()
    _defined.stack.append((pipeline, scope))


def end() -> None:
    """Ends the definition that the last begin() of this thread began."""
    _defined.stack.pop()[1].__exit__(None, None, None)


@contextmanager
def defining(pipeline: Any, builder: GraphBuilder) -> Iterator[None]:
    """A context in which operators are added to this pipeline's graph."""
    begin(pipeline, builder)
    try:
        yield
    finally:
        end()


def trace_again(pipeline: Any, builder: GraphBuilder, first: Sequence[Record], define: Callable[[], Any]) -> None:
    """Runs a definition a second time, and raises an error if this run adds other operators or arguments than the first run did. first: records of the first
    run."""
    dry = GraphBuilder(builder.device_id, first=list(first), graph=builder.graph)
    dry.conditionals = builder.conditionals
    with defining(pipeline, dry):
        define()
    if len(dry.records) != len(first):
        raise InvalidArgumentError(
            f"the definition at {users_line()} added {len(first)} operators when traced first and {len(dry.records)} the second time"
        )


def output_nodes(builder: GraphBuilder, nodes: Sequence[Any]) -> list[DataNode]:
    """Converts the outputs of a definition to nodes of its graph. Numbers and arrays become constants."""
    with building(builder):
        return [_output_node(builder, node, i) for i, node in enumerate(nodes)]


def _output_node(builder: GraphBuilder, node: Any, i: int) -> DataNode:
    if isinstance(node, DataNode):
        return DataNode(builder, builder.node_of(node._builder, node.ref, f"output {i}"), node.name)
    if isinstance(node, (list, tuple)) and any(isinstance(n, DataNode) for n in node):
        raise ArgumentError(f"output {i} is a {type(node).__name__} of nodes: return a flat tuple of nodes")
    if isinstance(node, (str, bytes, dict, set, type(None))):
        raise ArgumentError(f"output {i} is {type(node).__name__}, not a node: did the definition return all it should?")
    return constant_node(node)


def split(fn: Callable[..., Any], kwargs: dict[str, Any], settings: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns (arguments of the pipeline, arguments of the function). The function gets the arguments in its signature and, if it
    has **kwargs, those that `settings` does not contain."""
    parameters = inspect.signature(fn).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for_function = {k: v for k, v in kwargs.items() if k in parameters or (takes_any and k not in settings)}
    return {k: v for k, v in kwargs.items() if k not in for_function}, for_function


def returned(fn: Callable[..., Any], result: Any) -> tuple[Any, ...]:
    """Returns the result of a definition as a tuple of outputs. Raises InvalidArgumentError for None."""
    if isinstance(result, DataNode):
        return (result,)
    if result is None:
        raise InvalidArgumentError(f"the definition {fn.__name__} returned nothing: it returns the nodes to be delivered")
    if isinstance(result, list) and result and all(isinstance(n, (bool, int, float, list)) for n in result):
        return (result,)  # a list of numbers is one constant
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)
