# SPDX-License-Identifier: Apache-2.0
"""fn.eager: calls a single operator with lists of arrays, for experiments in a notebook.

    images = [stoker.imread(path) for path in paths]
    small = fn.eager.resize(images, size=224)                   # a list of arrays
    files, labels = fn.eager.readers.file(file_root="train", batch_size=4)

Each call makes a pipeline and runs it once. For more than a few batches, write a pipeline.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from stoker import fn
from stoker._catalog import public_names
from stoker._groups import Family
from stoker.data_node import DataNode
from stoker.errors import ArgumentError, InvalidArgumentError
from stoker.pipeline import Pipeline
from stoker.tensors import TensorListCPU, TensorListGPU

_LISTS = (TensorListCPU, TensorListGPU)


def _batch(name: str, i: int, given: Any) -> Sequence[Any]:
    """Returns input i of the operator `name`. Raises an error unless it is a list of samples, or an array with the samples along its first axis."""
    if isinstance(given, (str, bytes, DataNode)) or not hasattr(given, "__len__"):
        raise ArgumentError(
            f"fn.eager.{name}: input {i} is a list of arrays, or one array with samples along its first axis, not {type(given).__name__}"
        )
    samples: Sequence[Any] = given
    return samples


def _arrays(output: TensorListCPU | TensorListGPU) -> list[Any]:
    import numpy as np

    return [np.asarray(t) for t in (output.as_cpu() if isinstance(output, TensorListGPU) else output)]


def _run(name: str, function: Callable[..., Any], inputs: Sequence[Any], batch_size: int | None, kwargs: dict[str, Any]) -> Any:
    batches: dict[str, Any] = {f"input {i}": _batch(name, i, given) for i, given in enumerate(inputs)}
    batches |= {f"argument {key}": value for key, value in kwargs.items() if isinstance(value, _LISTS)}
    sizes = {what: len(batch) for what, batch in batches.items()}
    if len(set(sizes.values())) > 1 or (batch_size is not None and sizes and batch_size not in sizes.values()):
        raise InvalidArgumentError(f"fn.eager.{name}: batches of one size are needed, not {sizes or batch_size}")
    size = batch_size or next(iter(sizes.values()), 1)
    pipe = Pipeline(size, None, 0 if kwargs.get("device") in ("gpu", "mixed") else None)
    with pipe:
        nodes = {what: fn.external_source(name=what, layout=getattr(batch, "layout", str)() or None) for what, batch in batches.items()}
        given = [nodes[f"input {i}"] for i in range(len(inputs))]
        made = function(*given, **{key: nodes.get(f"argument {key}", value) for key, value in kwargs.items()})
        pipe.set_outputs(*(made if isinstance(made, (list, tuple)) else [made]))
    try:
        outputs = [_arrays(output) for output in pipe.run(**batches)]
    finally:
        pipe.close()
    return tuple(outputs) if isinstance(made, (list, tuple)) else outputs[0]


@functools.cache
def _find(name: str) -> Callable[..., Any] | None:
    try:
        function: Callable[..., Any] = functools.reduce(getattr, name.split("."), fn)  # type: ignore[assignment]
    except AttributeError:
        return None

    @functools.wraps(function)
    def call(*inputs: Any, batch_size: int | None = None, **kwargs: Any) -> Any:
        return _run(name, function, inputs, batch_size, kwargs)

    call.__module__ = __name__
    return call


_family = Family("stoker.fn.eager", [n for n in public_names() if n != "external_source"], _find, str)
globals().update({name: group for name, group in _family.groups.items() if "." not in name})


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _family.get(sys.modules[__name__], "", name)


def __dir__() -> list[str]:
    return _family.dir("")
