# SPDX-License-Identifier: Apache-2.0
"""fn.python_function: operators that call a user's Python function."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from stoker import _core, _docs
from stoker import _types as types
from stoker._arrays import as_buffer
from stoker._build import Value, building, current_builder
from stoker._signatures import hint_for
from stoker._sources import KeptErrors
from stoker._values import ValueKind
from stoker._where import users_line
from stoker.data_node import DataNode, call_operator, constant_node
from stoker.errors import ArgumentError, InvalidArgumentError, UnknownArgumentError, UnsupportedError

Given = tuple[bytearray, int, tuple[int, ...]]  # one sample of an input: a copy of its bytes, its type (DALIDataType), its shape


class _Here(threading.local):
    in_function = False  # whether this thread is a worker that calls a user's function


here = _Here()


@dataclass(frozen=True)
class Side:
    """The kind of arrays that a function takes. as_input: makes an array of a sample. context: returns a context in which to call the function."""

    as_input: Callable[[Given], Any]
    context: Callable[[], AbstractContextManager[Any]] = nullcontext


class Function(KeptErrors):
    """The user's function in a python_function. by_batch: the function takes and returns lists of samples."""

    def __init__(self, function: Callable[..., Any], outputs: int, by_batch: bool, side: Side) -> None:
        self.function = function
        self.outputs = outputs
        self.by_batch = by_batch
        self.side = side
        self.handle = _core.Source(self.pull, None, ("",) * outputs, not by_batch, 0)

    def pull(self, epoch: int, _batch: int, _index: int, count: int, position: int, inputs: tuple[list[Given], ...]) -> list[list[Any]]:
        """Calls the function with copies of the inputs, and returns its outputs as lists of samples. Runs on a worker of the library."""
        here.in_function = True
        try:
            with self.side.context():
                given = [[self.side.as_input(sample) for sample in samples] for samples in inputs]
                result = self.function(*(given if self.by_batch else (samples[0] for samples in given)))
                return [self._samples(part, count) for part in self._parts(result)]
        except StopIteration as e:  # a loop would take it for the end of the epoch
            error = RuntimeError("the function raised StopIteration, which would end the epoch: next(iterator, default) does not")
            error.add_note(self._where(epoch, position))
            raise error from e
        except Exception as e:
            e.add_note(self._where(epoch, position))
            raise
        finally:
            here.in_function = False

    def _where(self, epoch: int, position: int) -> str:
        which = f"the batch from sample {position}" if self.by_batch else f"sample {position}"
        return f"in the function of python_function, for {which} of epoch {self.first_epoch + epoch}"

    def _parts(self, result: Any) -> Sequence[Any]:
        """Returns the function's result as a tuple. Raises ArgumentError if it does not have one entry for each output."""
        parts = (result,) if self.outputs == 1 and not isinstance(result, tuple) else result
        if not isinstance(parts, tuple) or len(parts) != self.outputs:
            what = f"a tuple of {len(parts)}" if isinstance(parts, tuple) else type(parts).__name__
            raise ArgumentError(
                f"python_function: num_outputs={self.outputs}, but the function returned {what}; it returns a tuple with one entry an output"
            )
        return parts

    def _samples(self, part: Any, count: int) -> list[Any]:
        if not self.by_batch:
            return [as_buffer(part)]
        if not hasattr(part, "__len__") or isinstance(part, (str, bytes)) or len(part) != count:
            what = f"{len(part)} samples" if hasattr(part, "__len__") else type(part).__name__
            raise InvalidArgumentError(
                f"python_function: a batch of {count} samples was given, and the function returned {what}; it returns as many in a list"
            )
        return [as_buffer(sample) for sample in part]


def _without_output(function: Callable[..., Any], by_batch: bool) -> Callable[..., Any]:
    """Wraps a function that is called only for its side effects. The wrapper returns one byte for each sample, because an operator needs an output."""

    def call(*samples: Any) -> Any:
        result = function(*samples)
        if by_batch and not samples:
            raise ArgumentError("python_function: batch_processing needs an input or an output, from which the number of samples follows")
        if result is not None and result != ():
            raise ArgumentError(f"python_function: num_outputs=0, but the function returned {type(result).__name__}")
        return [bytes(1)] * len(samples[0]) if by_batch else bytes(1)

    return call


@functools.cache
def _array_maker(dtype: int) -> Callable[..., Any]:
    """Returns a function that makes a NumPy array of this type, with a given shape, over bytes."""
    import numpy as np

    array: Any = np.ndarray
    return functools.partial(array, dtype=np.dtype(types.to_numpy_type(types.DALIDataType(dtype))))


def as_array(given: Given) -> Any:
    """Makes a NumPy array over a sample's copied bytes."""
    data, dtype, shape = given
    return _array_maker(dtype)(shape, buffer=data)


def _cupy_side(device_id: int) -> Side:
    """Returns the Side of functions that take CuPy arrays on a GPU. Raises ImportError if CuPy is not installed."""
    import cupy

    device = functools.partial(cupy.cuda.Device, device_id)
    return Side(lambda given: cupy.asarray(as_array(given)), device)


def _as_capsule(given: Given) -> Any:
    return as_array(given).__dlpack__()


def add_function(
    what: str,
    inputs: Sequence[Any],
    function: Callable[..., Any],
    num_outputs: int,
    device: str | None,
    batch_processing: bool,
    output_layouts: str | Sequence[str] | None,
    host: Side,
    on_gpu: Callable[[int], Side] | None,
    **kwargs: Any,
) -> Any:
    """Adds a python_function to the graph. Returns its node, or a list if it has several outputs; None if num_outputs is 0.

    what: the operator's name in messages. host: the Side of functions on the CPU. on_gpu: takes a GPU's index and returns the Side for device="gpu", or
    raises ImportError if a library is missing; None: device="gpu" is refused.
    """
    where = users_line()
    if unknown := sorted(kwargs.keys() - _docs.COMMON.keys() - {"synchronize_stream"}):
        hint = hint_for(unknown[0], ("function", "num_outputs", "batch_processing", "output_layouts", *_docs.COMMON))
        raise UnknownArgumentError(f"{what} at {where}: there is no argument '{unknown[0]}'; {hint}")
    if not callable(function):
        raise InvalidArgumentError(f"{what} at {where}: function is a callable, not {type(function).__name__}")
    if not isinstance(num_outputs, int) or num_outputs < 0:
        raise InvalidArgumentError(f"{what} at {where}: num_outputs is a whole number from 0 on, not {num_outputs!r}")
    sink = num_outputs == 0
    if sink:
        num_outputs, function, output_layouts = 1, _without_output(function, bool(batch_processing)), None
    if device not in (None, "cpu", "gpu") or (device == "gpu" and on_gpu is None):
        raise UnsupportedError(
            f"{what} at {where}: its functions run on the cores: leave out device={device!r}, and send what it returns on with .gpu()"
        )
    layouts = [output_layouts] * num_outputs if isinstance(output_layouts, str) else list(output_layouts or [])
    args: list[Value] = [
        ("num_outputs", int(ValueKind.INT), num_outputs),
        ("batch_processing", int(ValueKind.BOOL), bool(batch_processing)),
    ]
    if layouts:
        args.append(("output_layouts", int(ValueKind.STRINGS), layouts))
    with building(current_builder(i._builder for i in inputs if isinstance(i, DataNode))) as builder:
        nodes = [i if isinstance(i, DataNode) else constant_node(i) for i in inputs]
        side = host
        if device == "gpu":
            side = _side_on_gpu(what, where, builder.device_id, on_gpu)
            nodes = [n.cpu() for n in nodes]
        elif any(n.device == "gpu" for n in nodes):
            raise UnsupportedError(f"{what} at {where}: functions run on the cores, and an input lies on the GPU: give its .cpu()")
        made = call_operator("python_function", nodes, args, kwargs.get("name"), "cpu")
        first = made[0] if isinstance(made, list) else made
        builder.add_source(first.ref.op, kwargs.get("name"), Function(function, num_outputs, bool(batch_processing), side))
        if sink or kwargs.get("preserve"):
            builder.add_sink(first.ref)
        if device == "gpu":
            made = [m.gpu() for m in made] if isinstance(made, list) else made.gpu()
    return None if sink else made


def _side_on_gpu(name: str, where: str, device_id: int | None, on_gpu: Callable[[int], Side] | None) -> Side:
    if device_id is None or on_gpu is None:
        raise UnsupportedError(f'{name} at {where}: device="gpu" in a pipeline without a GPU (device_id=None)')
    try:
        return on_gpu(device_id)
    except ImportError as e:
        raise UnsupportedError(f'{name} at {where}: with device="gpu" the function takes arrays of a library that is missing: {e}') from e


def python_function(
    *inputs: Any,
    function: Callable[..., Any],
    num_outputs: int = 1,
    device: str | None = None,
    batch_processing: bool = False,
    output_layouts: str | Sequence[str] | None = None,
    **kwargs: Any,
) -> Any:
    """Adds an operator that calls a Python function with each sample. Returns its node, a list of nodes if num_outputs > 1, or None if it is 0.

    inputs: nodes, or none. The function gets their samples as NumPy arrays, which are copies.
    function: is called with one array for each input. It returns an array, or with num_outputs > 1 a tuple of this number of arrays. An array may have any
    shape; its type and its number of dimensions must be the same for all samples of a batch.
    batch_processing: the function is called once for each batch, with a list of arrays for each input, and returns lists with one array for each sample.
    num_outputs: with 0, the function is called only for its side effects, and must return None.
    output_layouts: a layout for all outputs, or a list with those of the first outputs. By default outputs have no layout.
    device: "gpu" passes CuPy arrays on the pipeline's GPU, which is the current device during the call, and the outputs are on the GPU. Samples are copied to
    the GPU and back through host memory, after the whole batch was made, so operators of fn are faster if they can do the same.

    Several threads of the pipeline call the function at once, in no particular order, so a function that keeps data between calls needs a lock. These threads
    serve only this pipeline, so the function may wait for batches of other pipelines. Python's GIL allows one thread at a time, except while NumPy or another
    library releases it. The pipeline's on_error decides what happens after an exception: the program gets the exception where it waits for the batch, or the
    sample counts as a bad one.
    """
    return add_function(
        "python_function", inputs, function, num_outputs, device, batch_processing, output_layouts, Side(as_array), _cupy_side, **kwargs
    )


def dl_tensor_python_function(
    *inputs: Any,
    function: Callable[..., Any],
    num_outputs: int = 1,
    device: str | None = None,
    batch_processing: bool = True,
    output_layouts: str | Sequence[str] | None = None,
    **kwargs: Any,
) -> Any:
    """Does the same as python_function with DLPack capsules instead of arrays. By default, the function is called once for each batch, with lists of
    capsules."""
    return add_function(
        "dl_tensor_python_function",
        inputs,
        function,
        num_outputs,
        device,
        batch_processing,
        output_layouts,
        Side(_as_capsule),
        None,
        **kwargs,
    )
