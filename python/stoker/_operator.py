# SPDX-License-Identifier: Apache-2.0
"""Makes a Python function for each operator, from the library's table, when it is first used."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from stoker import _docs, tfrecord
from stoker._build import GraphBuilder, Value, building, current_builder, node_value
from stoker._catalog import Arg, Op, find
from stoker._signatures import hint_for
from stoker._values import BadValue, convert
from stoker._where import notice, users_line
from stoker.data_node import DataNode, call_operator, constant_node
from stoker.errors import ArgumentError, InvalidArgumentError, UnknownArgumentError


def _explain_unknown(op: Op, name: str) -> str:
    taken = ", ".join(a.name for a in op.args if not a.accepted_only) or "none"
    hint = hint_for(name, [*(a.name for a in op.args), *_docs.COMMON], f"it takes {taken}")
    return f"{op.name} at {users_line()}: there is no argument '{name}'; {hint}"


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
    if arg.shaped and not isinstance(value, DataNode) and len(getattr(value, "shape", ())) > 1:
        value = constant_node(value)
    if isinstance(value, DataNode):
        if not arg.per_sample:
            raise BadValue(f"argument '{arg.name}' is the same for all samples: it takes {arg.type}, not a DataNode")
        if value.device == "gpu":
            raise BadValue(f"argument '{arg.name}' is read by the cores, and this value lies on the GPU: call .cpu() on it")
        return node_value(arg.name, current_builder().node_of(value._builder, value.ref, op.name))
    kind, converted = convert(op, arg, value)
    return (arg.name, int(kind), converted)


# Maps DALI's older names of arguments to the present ones.
_RENAMED = {
    "output_dtype": "dtype",
    "type": "dtype",
    "dump_meta_files": "save_preprocessed_annotations",
    "dump_meta_files_path": "save_preprocessed_annotations_dir",
    "meta_files_path": "preprocessed_annotations",
    "save_img_ids": "image_ids",
}
# Arguments that DALI still accepts but does not use, and the operators that have them.
_WITHOUT_EFFECT = {
    "image_type": ("crop", "crop_mirror_normalize", "resize", "slice"),
    **dict.fromkeys(
        ["memory_stats", "split_stages", "use_chunk_allocator"],
        ("decoders.image", "decoders.image_crop", "decoders.image_random_crop", "decoders.image_slice"),
    ),
}


def _known_arguments(op: Op, kwargs: dict[str, Any]) -> Iterator[tuple[Arg, Any]]:
    """Yields the given arguments that belong to the operator itself, also those under an older name, with their values. Skips arguments whose value is None,
    and those that all operators take or that have no effect. Raises UnknownArgumentError for any other name."""
    for name, value in kwargs.items():
        arg = op.by_name.get(name)
        if arg is None and _RENAMED.get(name) in op.by_name and kwargs.get(_RENAMED[name]) is None:
            arg = op.by_name[_RENAMED[name]]
        if arg is None and name not in _docs.COMMON and op.name not in _WITHOUT_EFFECT.get(name, ()):
            raise UnknownArgumentError(_explain_unknown(op, name))
        if arg is not None and value is not None:
            yield arg, value


def _arg_values(op: Op, kwargs: dict[str, Any]) -> list[Value]:
    values = []
    for arg, value in _known_arguments(op, kwargs):
        try:
            values.append(_arg_value(op, arg, value))
        except BadValue as e:
            raise ArgumentError(f"{op.name} at {users_line()}: {e}") from None
    return values


def check_arguments(op: Op, kwargs: dict[str, Any]) -> None:
    """Raises an error for arguments that the operator does not have, and for constants of a wrong type or out of range. Adds nothing to a graph."""
    kwargs, _ = tfrecord.as_arguments(op, kwargs)
    for arg, value in _known_arguments(op, kwargs):
        if not any(_graphs_of([value])):
            try:
                convert(op, arg, value)
            except BadValue as e:
                raise ArgumentError(f"{op.name} at {users_line()}: {e}") from None


def _graphs_of(values: Any) -> Iterator[GraphBuilder]:
    """Yields the graph of each node in `values`, also inside lists and tuples."""
    for value in values:
        if isinstance(value, DataNode):
            yield value._builder
        elif isinstance(value, (list, tuple)):
            yield from _graphs_of(value)


def call(op: Op, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Adds an operator to the graph for a user's call. Returns its node, or the list of its nodes; for a TFRecord reader with named features, a dict."""
    kwargs, names = tfrecord.as_arguments(op, kwargs)
    with building(current_builder(_graphs_of((*inputs, *kwargs.values())))) as builder:
        made = _call(op, inputs, kwargs, builder)
    return made if names is None else dict(zip(names, made if isinstance(made, list) else [made], strict=True))


def _call(op: Op, inputs: tuple[Any, ...], kwargs: dict[str, Any], builder: GraphBuilder) -> Any:
    _check_device(op, builder, kwargs.get("device"))
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    if any(isinstance(i, (list, tuple)) and any(isinstance(n, DataNode) for n in i) for i in inputs):
        return _call_sets(op, inputs, kwargs, builder)
    if not op.min_inputs <= len(inputs) <= op.max_inputs:
        count = op.min_inputs if op.min_inputs == op.max_inputs else f"{op.min_inputs} to {op.max_inputs}"
        raise ArgumentError(f"{op.name} at {users_line()}: takes {count} inputs, {len(inputs)} were given (arguments go by name)")
    nodes = [_as_node(i, op) for i in inputs]
    if op.random and builder.seeds is not None and kwargs.get("seed") is None:
        kwargs = {**kwargs, "seed": builder.seeds()}
    device = kwargs.get("device")
    if device == "cpu" and any(n.device == "gpu" for n in nodes):
        raise ArgumentError(
            f'{op.name} at {users_line()}: device="cpu", but an input lies on the GPU; call .cpu() on it, or leave device out'
        )
    return call_operator(op.name, nodes, _arg_values(op, kwargs), kwargs.get("name"), device)


def _call_sets(op: Op, inputs: tuple[Any, ...], kwargs: dict[str, Any], builder: GraphBuilder) -> list[Any]:
    """Adds a call of the operator for each position in the inputs that are lists, as in DALI. Inputs that are not lists are passed to each call. Returns the
    results as a list."""
    count = max(len(i) for i in inputs if isinstance(i, (list, tuple)))
    sets = [i if isinstance(i, (list, tuple)) else [i] * count for i in inputs]
    if any(len(s) != count for s in sets):
        raise ArgumentError(f"{op.name} at {users_line()}: lists of inputs differ in length")
    try:
        return [_call(op, tuple(one), kwargs, builder) for one in zip(*sets, strict=True)]
    except InvalidArgumentError as e:
        e.args = (
            f"{e}; the input is a list of {count} nodes, and the operator is called for each: name the one that is meant, as in `files, labels = ...`",
        )
        raise


def _make(op: Op, name: str) -> Callable[..., Any]:
    def operator(*inputs: Any, **kwargs: Any) -> Any:
        return call(op, inputs, kwargs)

    operator.__name__ = operator.__qualname__ = name.rpartition(".")[2]
    module, _, _ = name.rpartition(".")
    operator.__module__ = "stoker.fn" + ("." + module if module else "")
    operator.__signature__ = _docs.signature(op)  # type: ignore[attr-defined]
    operator.__doc__ = _docs.docstring(op)
    return operator


@functools.cache
def function(name: str) -> Callable[..., Any] | None:
    """Returns the function of an operator, by its name or DALI's legacy name; None if there is no such operator, or if it is hidden."""
    op = find(name)
    return None if op is None or op.hidden else _make(op, name)
