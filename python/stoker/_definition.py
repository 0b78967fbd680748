# SPDX-License-Identifier: Apache-2.0
"""@pipeline_def: a function that describes a graph becomes a function that makes pipelines."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, overload

from stoker._settings import _ACCEPTED, _MEANT
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError
from stoker.pipeline import Pipeline, trace

_PIPELINE_ARGUMENTS = {*_MEANT, *_ACCEPTED}


@overload
def pipeline_def(fn: Callable[..., Any]) -> Callable[..., Pipeline]: ...
@overload
def pipeline_def(fn: None = None, **pipeline_kwargs: Any) -> Callable[[Callable[..., Any]], Callable[..., Pipeline]]: ...


def pipeline_def(fn: Callable[..., Any] | None = None, **pipeline_kwargs: Any) -> Any:
    """Marks a function that calls operators and returns nodes; calling it makes a Pipeline.

        @pipeline_def(batch_size=32, num_threads=4, device_id=None)
        def training(root):
            data, label = fn.readers.file(file_root=root, random_shuffle=True)
            return fn.resize(fn.decoders.image(data), size=224), label

        pipe = training("train", seed=7)      # arguments of Pipeline may also be given here

    The function runs while the graph is built, and twice: if an argument of an operator differs the second time (a random number of Python's, which
    would be the same for the whole run), that is an error at its line.
    """
    if fn is not None:
        return _decorate(fn, pipeline_kwargs)
    return functools.partial(_decorate, pipeline_kwargs=pipeline_kwargs)


def _split(fn: Callable[..., Any], kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keyword arguments of the pipeline and of the function; what the function names goes to it."""
    parameters = inspect.signature(fn).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for_function = {k: v for k, v in kwargs.items() if k in parameters or (takes_any and k not in _PIPELINE_ARGUMENTS)}
    return {k: v for k, v in kwargs.items() if k not in for_function}, for_function


def _decorate(fn: Callable[..., Any], pipeline_kwargs: dict[str, Any]) -> Callable[..., Pipeline]:
    @functools.wraps(fn)
    def create(*args: Any, **kwargs: Any) -> Pipeline:
        for_pipeline, for_function = _split(fn, kwargs)
        pipe = Pipeline(**{**pipeline_kwargs, **for_pipeline})
        define = functools.partial(fn, *args, **for_function)
        result = trace(pipe, define, None)
        records = list(pipe._builder.records)
        pipe.set_outputs(*_as_tuple(fn, result))
        trace(pipe, define, records)
        return pipe

    create._is_pipeline_def = True  # type: ignore[attr-defined]
    return create


def _as_tuple(fn: Callable[..., Any], result: Any) -> tuple[Any, ...]:
    if isinstance(result, DataNode):
        return (result,)
    if result is None:
        raise InvalidArgumentError(f"the definition {fn.__name__} returned nothing: it returns the nodes to be delivered")
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def do_not_convert(func: Callable[..., Any]) -> Callable[..., Any]:
    """Taken for DALI's sake: no function is rewritten here."""
    return func
