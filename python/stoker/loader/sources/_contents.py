# SPDX-License-Identifier: Apache-2.0
"""Finds out whether a Dataset was changed since worker processes got a copy of it."""

from __future__ import annotations

import itertools
import pickle
import re
import sys
import types
from typing import Any

from stoker._by_value import names_in

# Types of attributes of classes that are compared. Others, such as descriptors, belong to the class's code.
_DATA = (bool, int, float, complex, str, bytes, type(None), list, tuple, dict, set, frozenset, types.FunctionType)
_PLAIN = {bool, int, float, complex, str, bytes, type(None)}
_LONG = 1000  # elements; longer lists of plain values are copied and compared, which takes a hundredth of the time of pickle
_OBJECT = 256  # number of bytes that can be read in the time that pickle takes for an object


class Contents:
    """A record of an object and of all that it holds: attributes, arrays, the variables that its functions use, and the attributes of classes of the program.

    digest: None if the object cannot be pickled, if it holds tensors on a GPU, or if more than `most` bytes, or an object for each 256 of them, would have to
    be read. Such contents equal no others.
    """

    def __init__(self, thing: Any, most: int | None) -> None:
        digester = _Digester(most)
        self.digest: bytes | None = None
        self._lists = digester.lists
        self._kept = digester.kept  # the objects whose ids are in the digest, so that Python gives these ids to no other objects
        try:
            digester.dump(thing)
            self.digest = digester.digest()
        except Exception:  # pickle and the user's methods for it raise errors of any kind
            pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Contents) and self.digest is not None and self.digest == other.digest and self._lists == other._lists

    __hash__ = None  # type: ignore[assignment]


class _Hash:
    """A file to write to, of which only a digest remains. spend() raises ValueError after `most` bytes; None: there is no limit."""

    def __init__(self, most: int | None) -> None:
        import hashlib

        self._hash, self._left = hashlib.blake2b(digest_size=16), most

    def spend(self, size: int) -> None:
        if self._left is not None:
            self._left -= size
            if self._left < 0:
                raise ValueError("there is too much to compare")

    def write(self, data: Any) -> None:
        self.spend(len(data))
        self._hash.update(data)

    def digest(self) -> bytes:
        return self._hash.digest()


class _Digester(pickle.Pickler):
    """Pickles an object to a digest. Arrays are not copied, functions and classes are known by their ids and by the data that they use, and long lists of plain
    values are copied to `lists`. Such lists are mostly those of paths and labels."""

    def __init__(self, most: int | None) -> None:
        self._out = _Hash(most)
        self.lists: list[list[Any]] = []
        self.kept: list[Any] = []
        self._seen: set[int] = set()
        # By the id of a long list or dict: what stands for it, and the list itself, whose id no other object can have meanwhile.
        self._stand_ins: dict[int, Any] = {}
        super().__init__(self._out, protocol=5)

    def digest(self) -> bytes:
        return self._out.digest()

    def persistent_id(self, thing: Any) -> Any:
        """Returns what stands for a long list or dict of plain values; None for other objects. Pickle calls this for all objects."""
        self._out.spend(_OBJECT)
        kind = type(thing)
        if kind not in (list, dict) or len(thing) < _LONG:
            return None
        if id(thing) not in self._stand_ins:
            lists = [list(thing)] if kind is list else [list(thing), list(thing.values())]
            if not all(map(_is_plain, lists)):
                return None
            self.lists += lists
            self._stand_ins[id(thing)] = (kind.__name__, len(self.lists)), thing
        return self._stand_ins[id(thing)][0]

    def reducer_override(self, thing: Any) -> Any:
        """Returns what stands for an object in the pickle. Pickle calls this for all but the simplest objects."""
        if thing is tuple:  # which makes the objects below, so it is pickled by its name
            return NotImplemented
        if isinstance(thing, types.ModuleType):
            return tuple, ((thing.__name__,),)
        if isinstance(thing, (type, types.FunctionType)):
            return tuple, (self._of_code(thing),)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(thing, torch.Tensor) and thing.device.type != "cpu":
            raise TypeError("tensors on a GPU are not compared")
        if not is_plain_array(thing):
            return NotImplemented
        self._out.spend(thing.nbytes)
        own = _Hash(None)
        own.write(memory_of(thing))
        return tuple, ((type(thing).__name__, str(thing.dtype), tuple(thing.shape), own.digest()),)

    def _of_code(self, thing: Any) -> tuple[Any, ...]:
        """Returns the id of a class or function, and at the first call for one that the user wrote also the data that it uses."""
        if id(thing) in self._seen:
            return (id(thing),)
        self._seen.add(id(thing))
        self.kept.append(thing)
        if not _is_users(thing.__module__):
            return (id(thing),)
        if isinstance(thing, type):
            held = {name: _function_in(value) for name, value in vars(thing).items() if not name.startswith("__") or callable(value)}
            held = {name: value for name, value in held.items() if isinstance(value, _DATA) or hasattr(value, "dtype")}
            return id(thing), thing.__bases__, held
        used = {name: thing.__globals__[name] for name in names_in(thing.__code__) if name in thing.__globals__}
        cells = [_cell(cell) for cell in thing.__closure__ or ()]
        return id(thing), cells, thing.__defaults__, thing.__kwdefaults__, vars(thing), used


def _is_users(module: str | None) -> bool:
    """Returns whether a module belongs to the program itself, and not to Python or to an installed package."""
    package = (module or "").partition(".")[0]
    if package == "stoker" or (package != "__main__" and package in sys.stdlib_module_names):
        return False
    file = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    return re.search(r"[/\\](site|dist)-packages[/\\]", file) is None


def _is_plain(values: list[Any]) -> bool:
    """Returns whether all values are plain or tuples of plain values, which never change."""
    kinds = set(map(type, values))
    if tuple in kinds:
        tuples = values if len(kinds) == 1 else [value for value in values if type(value) is tuple]
        kinds = kinds - {tuple} | set(map(type, itertools.chain.from_iterable(tuples)))
    return kinds <= _PLAIN


def _function_in(value: Any) -> Any:
    """Returns the function of a method or property; other attributes of a class unchanged."""
    return value.fget if isinstance(value, property) else getattr(value, "__func__", value)


def _cell(cell: Any) -> Any:
    try:
        return (cell.cell_contents,)
    except ValueError:  # the variable has no value yet
        return ()


def is_plain_array(thing: Any) -> bool:
    """Returns whether an object is an array or a tensor of numbers in main memory."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and type(thing) in (torch.Tensor, torch.nn.Parameter):
        return bool(thing.device.type == "cpu" and thing.layout == torch.strided and not thing.is_quantized)
    return numpy is not None and type(thing) in (numpy.ndarray, numpy.memmap) and not thing.dtype.hasobject


def memory_of(array: Any) -> Any:
    """Returns the bytes of a plain array, without a copy where they lie in one piece."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(array, torch.Tensor):
        return array.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy().data
    assert numpy is not None
    return numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8).data
