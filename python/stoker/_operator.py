# SPDX-License-Identifier: Apache-2.0
"""Calling operators: a Python function for each, made from its table when first used."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from typing import Any

from stoker import _core, _docs
from stoker._build import GraphBuilder, Value, current_builder, node_value
from stoker._catalog import Arg, Op, aliases, operators
from stoker._values import BadValue, convert
from stoker._where import notice, users_line
from stoker.data_node import DataNode, call_operator, constant_node
from stoker.errors import InvalidArgumentError


class ArgumentError(InvalidArgumentError, TypeError):
    """An argument of the wrong name or type."""


def _explain_unknown(op: Op, name: str) -> str:
    close = difflib.get_close_matches(name, [a.name for a in op.args] + list(_docs.COMMON), 1, 0.6)
    hint = f"; did you mean '{close[0]}'?" if close else f"; it takes {', '.join(a.name for a in op.args if not a.accepted_only) or 'none'}"
    return f"{op.name} at {users_line()}: there is no argument '{name}'{hint}"


def _check_device(op: Op, builder: GraphBuilder, device: str | None) -> None:
    if device not in (None, "cpu", "gpu", "mixed"):
        raise ArgumentError(f"{op.name} at {users_line()}: device is 'cpu', 'gpu' or 'mixed', not {device!r}")
    if device in ("gpu", "mixed") and builder.device_id is None:
        notice(f'the pipeline has no GPU (device_id=None): {op.name} and others with device="{device}" run on the CPU')


def _as_node(value: Any, op: Op) -> DataNode:
    if isinstance(value, DataNode):
        return value
    if isinstance(value, (str, bytes)) or value is None:
        raise ArgumentError(f"{op.name} at {users_line()}: an input is a DataNode or numbers, not {type(value).__name__}")
    return constant_node(value)


def _arg_value(op: Op, arg: Arg, value: Any) -> Value:
    if isinstance(value, (list, tuple)) and any(isinstance(v, DataNode) for v in value):
        value = call_operator("stack", [_as_node(v, op) for v in value], [])
    if isinstance(value, DataNode):
        if not arg.per_sample:
            raise BadValue(f"argument '{arg.name}' is the same for all samples: it takes {arg.type}, not a DataNode")
        if value.device == "gpu":
            raise BadValue(f"argument '{arg.name}' is read by the cores: it takes a value that lies there, not on the GPU")
        return node_value(arg.name, value.ref)
    kind, converted = convert(op, arg, value)
    return (arg.name, int(kind), converted)


def _arg_values(op: Op, kwargs: dict[str, Any]) -> list[Value]:
    values = []
    for name, value in kwargs.items():
        arg = op.by_name.get(name)
        if arg is None and name in _docs.COMMON:
            continue
        if arg is None:
            raise ArgumentError(_explain_unknown(op, name))
        if value is None:
            continue
        try:
            values.append(_arg_value(op, arg, value))
        except BadValue as e:
            raise ArgumentError(f"{op.name} at {users_line()}: {e}") from None
    return values


def _call(op: Op, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    builder = current_builder(f"fn.{op.name}")
    _check_device(op, builder, kwargs.get("device"))
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    if any(isinstance(i, (list, tuple)) and any(isinstance(n, DataNode) for n in i) for i in inputs):
        return _call_sets(op, inputs, kwargs)
    if not op.min_inputs <= len(inputs) <= op.max_inputs:
        count = op.min_inputs if op.min_inputs == op.max_inputs else f"{op.min_inputs} to {op.max_inputs}"
        raise ArgumentError(f"{op.name} at {users_line()}: takes {count} inputs, {len(inputs)} were given (arguments go by name)")
    nodes = [_as_node(i, op) for i in inputs]
    device = kwargs.get("device")
    if device == "cpu" and any(n.device == "gpu" for n in nodes):
        raise ArgumentError(
            f'{op.name} at {users_line()}: device="cpu", but an input lies on the GPU and cannot come back inside a graph yet; leave device out, '
            "or move the operator before .gpu()"
        )
    return call_operator(op.name, nodes, _arg_values(op, kwargs), kwargs.get("name"), device)


def _call_sets(op: Op, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """A list of nodes as an input means: once for each, as in DALI."""
    count = max(len(i) for i in inputs if isinstance(i, (list, tuple)))
    sets = [i if isinstance(i, (list, tuple)) else [i] * count for i in inputs]
    if any(len(s) != count for s in sets):
        raise ArgumentError(f"{op.name} at {users_line()}: lists of inputs differ in length")
    return [_call(op, tuple(one), kwargs) for one in zip(*sets, strict=True)]


def _make(op: Op, name: str) -> Callable[..., Any]:
    def operator(*inputs: Any, **kwargs: Any) -> Any:
        return _call(op, inputs, kwargs)

    operator.__name__ = operator.__qualname__ = name.rpartition(".")[2]
    module, _, _ = name.rpartition(".")
    operator.__module__ = "stoker.fn" + ("." + module if module else "")
    operator.__signature__ = _docs.signature(op)  # type: ignore[attr-defined]
    operator.__doc__ = _docs.docstring(op)
    return operator


@functools.cache
def function(name: str) -> Callable[..., Any] | None:
    """The function of an operator, by its name or DALI's legacy name; None where there is none."""
    op = operators().get(name) or operators().get(aliases().get(name, ""))
    return None if op is None or op.hidden else _make(op, name)


def explain_missing(name: str) -> str:
    """One sentence about a name that is no operator."""
    return _core.explain_missing(name)
