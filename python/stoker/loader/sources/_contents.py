# SPDX-License-Identifier: Apache-2.0
"""Finds out whether a Dataset was changed since worker processes got a copy of it."""

from __future__ import annotations

import contextlib
import copyreg
import itertools
import math
import pickle
import re
import sys
import types
from collections.abc import Collection
from typing import Any

from stoker._used_globals import globals_used_by

# Types of attributes of classes that are compared. Others, such as descriptors, belong to the class's code.
_DATA = (bool, int, float, complex, str, bytes, type(None), list, tuple, dict, set, frozenset, types.FunctionType)
_PLAIN = {bool, int, float, complex, str, bytes, type(None)}
_LONG = 1000  # elements; longer containers of plain values are copied and compared, which takes a hundredth of the time of pickle
_CONTAINERS = (list, dict, set, frozenset)
_OBJECT = 256  # number of bytes that can be read in the time that pickle takes for an object
_SPREAD = 4096  # elements that are compared of a larger array or text than may be read
_LEVELS, _FEW = 8, 32  # limits of a search for objects that pickle cannot read: depth, number of elements and of such objects
_SMALL = (*_PLAIN, bytearray, tuple, types.ModuleType, types.FunctionType, type)  # objects that are always read


class Contents:
    """A record of an object and of all that it holds: attributes, arrays, and with `code` also the variables that its functions use, and the attributes of
    classes of the program.

    Objects that cannot be pickled, such as locks, open files and long chains of objects, are compared by their ids only. So are objects after the first `most` /
    256, and their lengths. Of arrays that exceed `most` bytes together, the address and some of the numbers are compared. digest: None if something cannot be
    read at all. Such contents equal no others.
    """

    def __init__(self, thing: Any, most: int, code: bool = True) -> None:
        digester = _Digester(most, code)
        self.digest: bytes | None = None
        try:
            self.digest = digester.digest_of(thing)
        except Exception:  # pickle and the user's methods for it raise errors of any kind
            with contextlib.suppress(Exception):
                digester = _Digester(most, code, _unreadable_in(thing, most, code))
                self.digest = digester.digest_of(thing)
        self._copies = digester.copies
        self._kept = digester.kept  # the objects whose ids are in the digest, so that Python gives these ids to no other objects

    def __eq__(self, other: object) -> bool:
        try:
            return isinstance(other, Contents) and self.digest is not None and self.digest == other.digest and self._copies == other._copies
        except Exception:  # an element was replaced by an array, whose comparison has no single result
            return False

    __hash__ = None  # type: ignore[assignment]


class _Hash:
    """A file to write to, of which only a digest remains. left: how many bytes are left to read of those that were allowed; below 0 after that."""

    def __init__(self, most: int) -> None:
        import hashlib

        self._hash, self.left = hashlib.blake2b(digest_size=16), most

    def write(self, data: Any) -> None:
        self.left -= len(data)
        self._hash.update(data)

    def digest(self) -> bytes:
        return self._hash.digest()


class _Digester(pickle.Pickler):
    """Pickles an object to a digest. Arrays are not copied, functions and classes are known by their ids and by the data that they use, and long containers of
    plain values are copied to `copies`. Such containers are mostly lists of paths and labels. code: whether to read the data that functions and classes use.
    unreadable: ids of objects that pickle cannot read, and that are known by these ids."""

    def __init__(self, most: int, code: bool, unreadable: Collection[int] = ()) -> None:
        self._out = _Hash(most)
        self._code, self._unreadable = code, unreadable
        self._objects = most // _OBJECT  # how many objects are left to read; below 0 after that
        self.copies: list[Any] = []
        self.kept: list[Any] = []
        self._seen: set[int] = set()
        self._long: list[Any] = []  # long containers
        self._numbers: dict[int, int] = {}  # by the id of a long container: its index in `_long`
        super().__init__(self._out, protocol=5)

    def digest_of(self, thing: Any) -> bytes:
        """Returns a digest. Reads long containers after all else, because their elements may be more than is left to read."""
        self.dump(thing)
        for long in self._long:  # which may add containers inside of it
            self._read_long(long)
        return self._out.digest()

    def _read_long(self, thing: Any) -> None:
        """Copies a long container of plain values, or of more elements than may be read. Reads the elements of others."""
        values = [*thing, *thing.values()] if isinstance(thing, dict) else thing.copy()
        if not _is_plain(values):
            self.dump(tuple(itertools.islice(values, max(0, self._objects))))
            if self._objects >= 0:
                return
        self.copies.append(values)

    def persistent_id(self, thing: Any) -> Any:
        """Returns the replacement in the pickle for a long container, or for an object that is larger than may still be read; None for other objects. Pickle
        calls this for all objects."""
        self._objects -= 1
        if self._unreadable and id(thing) in self._unreadable:
            return self._identity(thing)
        kind = type(thing)
        if kind in (str, bytes, bytearray):
            return self._of_text(thing) if len(thing) > max(_SPREAD, self._out.left) else None
        if kind is pickle.PickleBuffer:
            raw = thing.raw()
            return self._of_text(raw) if len(raw) > max(_SPREAD, self._out.left) else None
        if kind in _CONTAINERS and len(thing) >= _LONG:
            if id(thing) not in self._numbers:
                self._numbers[id(thing)] = len(self._long)
                self._long.append(thing)
            return kind.__name__, self._numbers[id(thing)], len(thing)
        if self._objects < 0 and not isinstance(thing, _SMALL) and not is_plain_array(thing):
            return self._identity(thing)
        return None

    def _identity(self, thing: Any) -> tuple[Any, ...]:
        self.kept.append(thing)
        return "id", id(thing), len(thing) if type(thing) in _CONTAINERS else 0

    @staticmethod
    def _of_text(text: Any) -> tuple[Any, ...]:
        part = text[:: len(text) // _SPREAD + 1]
        return type(text).__name__, len(text), part if isinstance(part, str) else bytes(part)

    def reducer_override(self, thing: Any) -> Any:
        """Returns what stands for an object in the pickle. Pickle calls this for all but the simplest objects."""
        if thing is tuple:  # which makes the objects below, so it is pickled by its name
            return NotImplemented
        if isinstance(thing, types.ModuleType):
            return tuple, ((thing.__name__,),)
        if isinstance(thing, (type, types.FunctionType)):
            return tuple, (self._of_code(thing),)
        if is_plain_array(thing):
            return tuple, (self._of_array(thing),)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(thing, torch.Tensor):
            plain = thing.as_subclass(torch.Tensor)
            about = self._of_array(plain) if is_plain_array(plain) else (*self._identity(thing), _version_of(thing))
            return tuple, ((about, type(thing), getattr(thing, "__dict__", None)),)
        try:
            made = copyreg.dispatch_table[type(thing)](thing) if type(thing) in copyreg.dispatch_table else thing.__reduce_ex__(5)
        except Exception:
            made = None
        return made if isinstance(made, tuple) else (tuple, (self._identity(thing),))

    def _of_array(self, array: Any) -> tuple[Any, ...]:
        """Returns an array's type, its shape, and a digest of its numbers; for a larger array than may be read its address, and a digest of some numbers. For a
        tensor in memory that the processes share with this one: its address."""
        about = type(array).__name__, str(array.dtype), tuple(array.shape)
        torch = sys.modules.get("torch")
        tensor = torch is not None and isinstance(array, torch.Tensor)
        shared = tensor and array.is_shared()
        if not shared and array.nbytes <= self._out.left:
            self._out.left -= array.nbytes
            return (*about, _digest_of(array))
        self.kept.append(array)
        address = array.data_ptr() if tensor else array.__array_interface__["data"][0]
        if shared:
            return (*about, address)
        in_one_piece = array.is_contiguous() if tensor else array.flags.c_contiguous and _owns_memory(array)
        spread = array.reshape(-1)[:: math.prod(array.shape) // _SPREAD + 1] if in_one_piece else None
        return (*about, address, _version_of(array) if tensor else 0, None if spread is None else _digest_of(spread))

    def _of_code(self, thing: Any) -> tuple[Any, ...]:
        """Returns the id of a class or function, and at the first call for one that the user wrote also the data that it uses."""
        if id(thing) in self._seen:
            return (id(thing),)
        self._seen.add(id(thing))
        self.kept.append(thing)
        if not self._code or not _is_users(thing.__module__):
            return (id(thing),)
        if isinstance(thing, type):
            held = {name: _function_in(value) for name, value in vars(thing).items() if not name.startswith("__") or callable(value)}
            held = {name: value for name, value in held.items() if isinstance(value, _DATA) or hasattr(value, "dtype")}
            return id(thing), thing.__bases__, held
        cells = [_cell(cell) for cell in thing.__closure__ or ()]
        return id(thing), cells, thing.__defaults__, thing.__kwdefaults__, vars(thing), globals_used_by(thing)


def _unreadable_in(thing: Any, most: int, code: bool) -> set[int]:
    """Returns the ids of objects inside of `thing` that pickle cannot read, mostly because they are links of a chain of a thousand objects and more. Looks for
    them in attributes and elements, so that the rest of `thing` can be read."""
    found: set[int] = set()
    seen, level = {id(thing)}, [thing]
    for _ in range(_LEVELS):
        inner: list[Any] = []
        for one in level:
            parts = {id(part): part for part in _parts_of(one) if id(part) not in seen and not _is_readable(part, most, code)}
            seen.update(parts)
            inner += parts.values()
            if not parts:
                found.add(id(one))
        if len(inner) > _FEW:
            break
        level = inner
    return found.union(map(id, level))


def _parts_of(thing: Any) -> list[Any]:
    if isinstance(thing, (list, tuple, dict)):
        parts = thing.values() if isinstance(thing, dict) else thing
        return list(parts) if len(parts) <= _FEW else []
    if isinstance(thing, types.FunctionType):
        return [
            *globals_used_by(thing).values(),
            *itertools.chain.from_iterable(map(_cell, thing.__closure__ or ())),
            *vars(thing).values(),
        ]
    return [type(thing), *map(_function_in, getattr(thing, "__dict__", {}).values())]


def _is_readable(thing: Any, most: int, code: bool) -> bool:
    try:
        _Digester(most, code).digest_of(thing)
    except Exception:
        return False
    return True


def _digest_of(array: Any) -> bytes:
    import hashlib

    return hashlib.blake2b(memory_of(array), digest_size=16).digest()


def _version_of(tensor: Any) -> int:
    """Returns the number of times that torch has changed a tensor in place. Returns 0 for tensors of torch.inference_mode, of which torch does not count it."""
    return 0 if tensor.is_inference() else tensor._version


def _owns_memory(array: Any) -> bool:
    """Returns whether a numpy array is, or is a view of, an array with memory of its own; not of a file, where reading some numbers would read much of it."""
    while array is not None and hasattr(array, "base"):
        array = array.base
    return array is None


def _is_users(module: str | None) -> bool:
    """Returns whether a module belongs to the program itself, and not to Python or to an installed package."""
    package = (module or "").partition(".")[0]
    if package == "stoker" or (package != "__main__" and package in sys.stdlib_module_names):
        return False
    file = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    return re.search(r"[/\\](site|dist)-packages[/\\]", file) is None


def _is_plain(values: Collection[Any]) -> bool:
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
