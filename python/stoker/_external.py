# SPDX-License-Identifier: Apache-2.0
"""fn.external_source: an operator whose samples come from Python."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from numbers import Integral
from typing import Any

from stoker import _docs, types
from stoker._build import GraphBuilder, Value, current_builder
from stoker._signatures import hint_for
from stoker._sources import FedSource, make_source
from stoker._values import ValueKind
from stoker._where import notice, users_line
from stoker.data_node import DataNode, call_operator
from stoker.errors import ArgumentError, InvalidArgumentError, UnknownArgumentError


def _per_output(value: Any, outputs: int, what: str) -> list[Any]:
    """Returns a list with a setting for each output. value: one setting for all outputs, or a list, which for layouts may cover only the first outputs. what:
    the setting's name in messages."""
    if isinstance(value, (list, tuple)):
        if what == "layout":
            value = [*value, *([None] * (outputs - len(value)))]
        if len(value) != outputs:
            raise InvalidArgumentError(f"external_source at {users_line()}: {len(value)} values of {what} for {outputs} outputs")
        return list(value)
    return [value] * outputs


def add_fed_sources(builder: GraphBuilder, operators: Sequence[dict[str, Any]]) -> None:
    """Makes each external_source of a deserialised graph take its batches from feed_input, because its Python source was not serialised."""
    for i, operator in enumerate(operators):
        if operator["op"] != "external_source":
            continue
        args = operator.get("args", {})
        outputs = int(args.get("num_outputs", 1))
        layouts, dtypes = (_spread(args.get(what, default), outputs) for what, default in (("layout", ""), ("dtype", -1)))
        source = FedSource(
            outputs=outputs,
            single=outputs == 1,
            layouts=tuple(layouts),
            dtypes=tuple(None if d < 0 else int(d) for d in dtypes),
            copy=True,
        )
        builder.add_source(i, operator.get("name"), source)


def _spread(values: Any, outputs: int) -> list[Any]:
    """Returns one value for each output, from a list or from one value for all."""
    values = values if isinstance(values, list) else [values]
    return values * outputs if len(values) == 1 else values


def external_source(
    source: Any = None,
    num_outputs: int | None = None,
    *,
    cycle: str | bool | None = None,
    name: str | None = None,
    device: str | None = "cpu",
    layout: str | Sequence[str | None] | None = None,
    dtype: Any = None,
    ndim: int | Sequence[int] | None = None,
    cuda_stream: Any = None,
    use_copy_kernel: bool | None = None,
    blocking: bool | None = None,
    batch: bool | None = None,
    repeat_last: bool = False,
    parallel: bool | None = None,
    no_copy: bool | None = None,
    prefetch_queue_depth: int | None = None,
    bytes_per_sample_hint: int | None = None,
    batch_info: bool | None = None,
    **kwargs: Any,
) -> DataNode | list[DataNode]:
    """Adds an operator whose samples come from Python. Returns its node, or with num_outputs the list of its nodes.

    source: a callable, an iterable, a generator or a generator function. With batch=True, the default, it returns a batch each time: a list of samples, or
    one array with the samples along its first axis. With batch=False it returns one sample each time. A callable takes no argument, or one: the number of the
    batch, with batch_info=True a types.BatchInfo, with batch=False a types.SampleInfo. It raises StopIteration to end an epoch. If an epoch of single samples
    ends inside a batch, that batch is left out. Without a source, pass batches by Pipeline.feed_input or run(name=data). If a run gives no batch because another
    source has ended the epoch, the next run gets the data that was fed. A batch may have fewer samples than the batch size. In a pipeline with a reader, the
    reader determines the epochs. The source must then not end before the reader, and must return as many samples as the reader has in a batch. With
    tail="keep" the reader's last batch may be short; with batch=False the source is then called only for the samples in it.

    num_outputs: None for one output, which is the source's value; otherwise the source returns a tuple with this number of values.
    cycle: for iterables. True or "quiet": the source starts again when it ends, without ending the epoch. "raise": its end is the end of the epoch, and it
    starts again with the next epoch. None or "no": the source does not start again, and later epochs are empty.
    repeat_last: without a source, a run without new data gets the last batch again. blocking: without a source, a run waits until another thread feeds data.
    cuda_stream: the stream on which torch or CuPy writes the data on a GPU; Stoker waits for it. By default it is the current stream of torch or CuPy.
    layout, dtype, ndim: the layout, type and number of dimensions of the samples: one for all outputs, or a list. dtype and ndim are checked if they are given.
    device: "gpu" uploads the samples, in a pipeline with a GPU. Batches of torch or CuPy arrays that are on that GPU are not copied to host memory; single
    samples (batch=False) and arrays on another GPU are copied.

    no_copy: by default arrays are copied as soon as the source returns them (bytes objects are not, because they cannot change), so a source may write the
    next batch into the same array. With True, arrays are read later, without a copy: do not write to them.

    The source runs on its own thread. If the source raises an exception, the program gets that exception
    where it waits for the batch, with its traceback and the position of the sample.

    parallel: a callable that takes an argument is called in py_num_workers processes of the pipeline. With batch=False they divide the samples of a batch
    among them. They begin prefetch_queue_depth batches ahead. The processes are forked. With py_start_method="spawn" the callable is pickled instead;
    functions that cannot be imported, such as lambdas, are pickled with all objects that they refer to. Other sources run on the source's thread. If a callable
    spends its time in NumPy or in a decoder, threads are as fast as processes.

    use_copy_kernel, bytes_per_sample_hint: have no effect.
    """
    if unknown := sorted(kwargs.keys() - _docs.COMMON.keys()):
        hint = hint_for(unknown[0], [n for n in inspect.signature(external_source).parameters if n != "kwargs"])
        raise UnknownArgumentError(f"external_source at {users_line()}: there is no argument '{unknown[0]}'; {hint}")
    builder = current_builder()
    if device not in (None, "cpu", "gpu"):
        raise InvalidArgumentError(f"external_source at {users_line()}: device is 'cpu' or 'gpu', not {device!r}")
    if device == "gpu" and builder.device_id is None:
        notice('the pipeline has no GPU (device_id=None): external_source with device="gpu" stays on the CPU')
    outputs = 1 if num_outputs is None else num_outputs
    for what, given, kind in (("num_outputs", outputs, Integral), ("name", name, str), ("layout", layout, str), ("ndim", ndim, Integral)):
        for value in given if isinstance(given, (list, tuple)) else [given]:
            if value is not None and not isinstance(value, kind):
                raise InvalidArgumentError(
                    f"external_source at {users_line()}: {what} takes {'a whole number' if kind is Integral else 'a string'}, not {value!r}"
                )
    layouts = tuple(x or "" for x in _per_output(layout, outputs, "layout"))
    dtypes = tuple(None if d is None else int(types.to_dtype(d)) for d in _per_output(dtype, outputs, "dtype"))
    ndims = _per_output(ndim, outputs, "ndim")
    try:
        adapter = make_source(
            source,
            cycle,
            bool(batch_info),
            bool(repeat_last),
            bool(blocking),
            (1 if prefetch_queue_depth is None else prefetch_queue_depth) if parallel else None,
            by_sample=batch is False,
            stream=None if cuda_stream == -1 else cuda_stream,
            outputs=outputs,
            single=num_outputs is None,
            layouts=layouts,
            dtypes=dtypes,
            copy=not no_copy,
        )
    except (TypeError, ValueError) as e:
        raise (ArgumentError if isinstance(e, TypeError) else InvalidArgumentError)(f"{e} (at {users_line()})") from None
    args: list[Value] = [("num_outputs", int(ValueKind.INT), outputs)]
    if any(layouts):
        args.append(("layout", int(ValueKind.STRINGS), list(layouts)))
    if all(d is not None for d in dtypes):
        args.append(("dtype", int(ValueKind.INTS), list(dtypes)))
    known = [n if n is not None else len(x) if x else -1 for n, x in zip(ndims, layouts, strict=True)]
    if all(n >= 0 for n in known):
        args.append(("ndim", int(ValueKind.INTS), known))
    nodes = call_operator("external_source", [], args, name)
    nodes = nodes if isinstance(nodes, list) else [nodes]
    given = [n.gpu() for n in nodes] if device == "gpu" and builder.device_id is not None else nodes
    adapter.title = f"external_source at {users_line()}"
    adapter.uploads = device == "gpu"
    builder.add_source(nodes[0].ref.op, name, adapter)
    return given[0] if num_outputs is None else given
