# SPDX-License-Identifier: Apache-2.0
"""Operators as classes. Arguments of the constructor apply to each call of the object."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

from stoker import _composed, _docs
from stoker._catalog import Op
from stoker._catalog import find as find_operator
from stoker._elsewhere import no_member
from stoker._external import external_source
from stoker._function import dl_tensor_python_function, python_function
from stoker._operator import call, check_arguments
from stoker._where import users_line
from stoker.data_node import DataNode
from stoker.errors import ArgumentError

# Words that DALI's class names spell with more than one capital.
_WORDS = {
    "bbox": "BBox",
    "coco": "COCO",
    "dl": "DL",
    "mfcc": "MFCC",
    "mxnet": "MXNet",
    "rms": "RMS",
    "roi": "ROI",
    "ssd": "SSD",
    "tfrecord": "TFRecord",
}


def class_name(name: str) -> str:
    """Returns the class name of an operator: "readers.File" for "readers.file"."""
    group, dot, last = name.rpartition(".")
    return group + dot + "".join(_WORDS.get(word, word[:1].upper() + word[1:]) for word in last.split("_"))


def operator_name(name: str) -> str:
    """Returns the name of the operator for the name of its class: "readers.file" for "readers.File"."""
    group, dot, last = name.rpartition(".")
    for word, spelled in _WORDS.items():
        last = last.replace(spelled, word.capitalize())
    return group + dot + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", last).lower()


class Operator:
    """Base class of the operators' classes. An object such as ops.Resize(size=224) is called with inputs and further arguments, and adds the operator to the
    graph."""

    def __init__(self, *, device: str | None = None, **kwargs: Any) -> None:
        self._device = device
        self._arguments = {name: value for name, value in kwargs.items() if value is not None}
        self._check()

    def _check(self) -> None:
        """Raises an error for arguments that every call would refuse. Subclasses may override it; this one accepts all."""

    def _function(self, *inputs: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    @property
    def device(self) -> str | None:
        """Returns the device as given; None means the device of the inputs."""
        return self._device

    @property
    def preserve(self) -> bool:
        """Returns whether the argument `preserve` is true."""
        return bool(self._arguments.get("preserve"))

    @property
    def schema_name(self) -> str:
        """Returns DALI's name of the operator: "readers__File"."""
        return "__".join([*type(self).__module__.split(".")[2:], type(self).__name__])

    def __getattr__(self, name: str) -> NoReturn:
        raise no_member("stoker.ops.Operator", name)

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        given = {name: value for name, value in kwargs.items() if value is not None}
        for name in given:
            if name in self._arguments:
                raise ArgumentError(
                    f"{type(self).__name__} at {users_line()}: argument '{name}' was given before, when the operator was made"
                )
        if self._device is not None:
            given.setdefault("device", self._device)
        return self._function(*inputs, **{**self._arguments, **given})

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{k}={v!r}' for k, v in self._arguments.items())})"


class _Tabled(Operator):
    """An operator from the library's table."""

    _op: ClassVar[Op]

    def _check(self) -> None:
        check_arguments(self._op, self._arguments)

    def _function(self, *inputs: Any, **kwargs: Any) -> Any:
        return call(self._op, inputs, kwargs)


class _Composed(Operator):
    """The class of one operator of DALI that Stoker composes of two operators."""

    _name: ClassVar[str]

    def _check(self) -> None:
        _composed.CHECKS[self._name](self._arguments)

    def _function(self, *inputs: Any, **kwargs: Any) -> Any:
        return _composed.FUNCTIONS[self._name](*inputs, **kwargs)


class ExternalSource(Operator):
    """The class form of fn.external_source, whose samples come from Python. Its arguments may also be given in the call."""

    def __init__(self, source: Any = None, num_outputs: int | None = None, **kwargs: Any) -> None:
        super().__init__(source=source, num_outputs=num_outputs, **kwargs)

    def _function(self, *inputs: Any, **kwargs: Any) -> Any:
        return external_source(*inputs, **kwargs)


class PythonFunction(Operator):
    """The class form of fn.python_function: calls a Python function with NumPy arrays."""

    _call = staticmethod(python_function)

    def __init__(self, function: Callable[..., Any], num_outputs: int = 1, **kwargs: Any) -> None:
        super().__init__(function=function, num_outputs=num_outputs, **kwargs)

    def _function(self, *inputs: Any, **kwargs: Any) -> Any:
        return self._call(*inputs, **kwargs)


class DLTensorPythonFunction(PythonFunction):
    """The class form of fn.dl_tensor_python_function: calls a Python function with DLPack capsules."""

    _call = staticmethod(dl_tensor_python_function)


class Compose:
    """Calls operators in order, each with the results of the previous one: Compose([ops.decoders.Image(), ops.Resize(size=224)]). Keyword arguments go to the
    first operator. Inputs of an operator with device="gpu" are copied to the GPU."""

    def __init__(self, op_list: Sequence[Callable[..., Any]]) -> None:
        self._ops: list[Callable[..., Any]] = [op for given in op_list for op in (given._ops if isinstance(given, Compose) else [given])]

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        values = list(inputs)
        for op in self._ops:
            if getattr(op, "device", None) == "gpu":
                values = [v.gpu() if isinstance(v, DataNode) else v for v in values]
            result = op(*values, **kwargs)
            values = list(result) if isinstance(result, (list, tuple)) else [result]
            kwargs = {}
        return values[0] if len(values) == 1 else values


def _signature(op: Op) -> inspect.Signature:
    """Returns the signature of the constructor of the operator's class: all arguments of the operator, by name, and optional."""
    of_call = _docs.signature(op)
    named = [p.replace(default=None) if p.default is p.empty else p for p in of_call.parameters.values() if p.kind is p.KEYWORD_ONLY]
    return of_call.replace(parameters=named)


@functools.cache
def find(name: str) -> type[Operator] | None:
    """Returns the class of an operator, by DALI's name or a legacy name; None if there is no such operator, or if it is hidden."""
    plain = operator_name(name)
    op = find_operator(plain)
    group, _, last = name.rpartition(".")
    if plain in _composed.FUNCTIONS and class_name(plain) == name:
        made = {"_name": plain, "__doc__": _composed.FUNCTIONS[plain].__doc__, "__module__": "stoker.ops." + group}
        return type(last, (_Composed,), made)
    if op is None or op.hidden or class_name(plain) != name:
        return None
    about = {
        "_op": op,
        "__doc__": _docs.docstring(op),
        "__module__": "stoker.ops" + ("." + group if group else ""),
        "__signature__": _signature(op),
    }
    return type(last, (_Tabled,), about)
