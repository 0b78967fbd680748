# SPDX-License-Identifier: Apache-2.0
"""Reads Datasets that users have written: classes whose __getitem__ opens an image, transforms it and returns it with its target.

This __getitem__ runs for each sample, but on a copy of the Dataset in which opening an image only records the image's path, and a transform returns a
placeholder. This is done only for code that has no effects besides its result. The module _code checks that beforehand: it reads the code's syntax tree,
and accepts only calls that it knows.
"""

from __future__ import annotations

import functools
import inspect
import os
import time
import types
from collections.abc import Callable, Collection, Iterator
from typing import Any

from stoker.dataloader._code import Code, cells_of, changes_when_read, is_default_loader, is_known, is_transform, only_computes, stored
from stoker.dataloader._placeholder import (
    NeedsPython,
    Opaque,
    Placeholder,
    Reader,
    readable,
    replaced,
    same_attributes,
    shallow_copy,
    with_target,
)
from stoker.dataloader._reasons import InPython

_PROBES = 8  # the most samples that are read before an epoch
# A Dataset is slow if its Python takes more than _SLOW_S seconds of CPU time for each of the first _SLOW_PROBES samples that are read (or for all, if fewer).
_SLOW_S, _SLOW_PROBES = 0.02, 3
# Datasets that hold an object of these packages stay in torch's workers, which read and decode in parallel. The single thread of the loop would be
# slower.
_SLOW = ("datasets", "h5py", "lmdb", "netCDF4", "pyarrow", "sqlite3", "tables", "zarr")


class LazyImage(Opaque):
    """Stands for a PIL image whose file has not been opened. Any use except convert("RGB"), copy() and `with` raises NeedsPython."""

    def __init__(self, path: str, rgb: bool) -> None:
        self._path, self._rgb = path, rgb

    def convert(self, mode: Any = None, *others: Any, **named: Any) -> LazyImage:
        if mode != "RGB" or others or named:
            raise NeedsPython
        return LazyImage(self._path, True)

    def copy(self) -> LazyImage:
        return self

    def __enter__(self) -> LazyImage:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        raise NeedsPython

    def source(self) -> str:
        """Returns the path of the file if its pixels are RGB. Raises NeedsPython otherwise."""
        if not self._rgb:
            from PIL import Image

            with Image.open(self._path) as image:  # reads only the header
                if image.mode != "RGB":
                    raise NeedsPython
        return self._path


def _path_of(file: Any) -> str:
    if isinstance(file, (str, os.PathLike)):
        path: str = os.fspath(file)
    else:
        path = getattr(file, "name", None) or ""
    if not isinstance(path, str) or not readable(path):
        raise NeedsPython
    return path


def _open(file: Any, mode: str = "r", formats: Any = None) -> LazyImage:
    return LazyImage(_path_of(file), False)


def _load(path: Any) -> LazyImage:
    """Replaces torchvision's default_loader and pil_loader."""
    return LazyImage(_path_of(path), True)


class _PillowImage:
    """Replaces the module PIL.Image. It has open and fromarray; other attributes raise NeedsPython."""

    open = staticmethod(_open)

    @staticmethod
    def fromarray(*arguments: Any, **named: Any) -> Any:
        from PIL import Image

        return Image.fromarray(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        raise NeedsPython


class _Pillow:
    """Replaces the module PIL."""

    Image = _PillowImage()


class _Call:
    """Collects the images of one call of the Dataset. transform: the transform of all of them; NeedsPython is raised if one has another transform."""

    def __init__(self) -> None:
        self.undone: list[Placeholder] = []
        self.transform: Any = None

    def take(self, source: Any, transform: Any) -> Placeholder:
        if self.transform is None:
            self.transform = transform
        if transform is not self.transform:
            raise NeedsPython
        undone = Placeholder(source)
        self.undone.append(undone)
        return undone


class _Transform(Opaque):
    """Replaces a transform of the Dataset. Returns a placeholder for the result, or raises NeedsPython if it gets something else than one image. It is as true
    as the transform; all other uses raise NeedsPython."""

    __slots__ = ("_stoker_call", "_stoker_transform")

    def __init__(self, call: _Call, transform: Any) -> None:
        self._stoker_call, self._stoker_transform = call, transform

    def __bool__(self) -> bool:
        return bool(self._stoker_transform)

    def __getattr__(self, name: str) -> Any:
        raise NeedsPython

    def __call__(self, image: Any, *others: Any, **named: Any) -> Any:
        if others or named:
            raise NeedsPython
        if isinstance(image, LazyImage):
            return self._stoker_call.take(image.source(), self._stoker_transform)
        if type(image).__module__.startswith("PIL.") and image.mode in ("RGB", "L"):
            import numpy as np

            pixels = np.asarray(image)
            return self._stoker_call.take(pixels if pixels.ndim == 3 else pixels[..., None], self._stoker_transform)
        raise NeedsPython


class _Inner(Opaque):
    """Replaces an inner Dataset, one that the user's Dataset holds. Its samples hold placeholders for images, or LazyImages where it does not transform
    them. It gives the Dataset's length and attributes; all other uses raise NeedsPython."""

    __slots__ = ("_stoker_call", "_stoker_dataset", "_stoker_reader", "_stoker_targets")

    def __init__(self, call: _Call, dataset: Any, reader: Reader, targets: dict[Any, Any]) -> None:
        """targets: for the target_transforms of the reader, functions that have the same result and no effects."""
        self._stoker_call, self._stoker_dataset, self._stoker_reader, self._stoker_targets = call, dataset, reader, targets

    def __bool__(self) -> bool:
        return bool(self._stoker_dataset)

    def __len__(self) -> int:
        return len(self._stoker_dataset)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stoker_dataset, name)

    def __getitem__(self, index: Any) -> Any:
        sample, undone = self._stoker_reader.sample(index)
        sample = with_target(sample, self._stoker_targets)
        transform = self._stoker_reader.transform
        for one in undone:
            if transform is None:
                sample = replaced(sample, lambda found, one=one: _raw(one) if found is one else found)
            else:
                own = self._stoker_call.take(one.source, transform)
                sample = replaced(sample, lambda found, one=one, own=own: own if found is one else found)
        return sample


def _raw(undone: Placeholder) -> Any:
    if isinstance(undone.source, str):
        return LazyImage(undone.source, True)
    from PIL import Image

    pixels = undone.source
    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)


class UserReader(Reader):
    """Reads a Dataset that the user has written. Raises InPython if its code may have effects or does something unknown. reader_of: returns the Reader of a
    Dataset that is an attribute of the user's Dataset."""

    def __init__(self, dataset: Any, reader_of: Callable[[Any], Reader]) -> None:
        self._call = _Call()
        kind = type(dataset)
        if isinstance(dataset, str):
            raise InPython(
                "a str is no Dataset, and each of its characters is taken for a sample; stoker.Loader takes the path of a folder"
            )
        if not hasattr(dataset, "__dict__"):
            raise InPython(f"the data set is a {kind.__name__}, not an object of a class of yours")
        if not hasattr(dataset, "__len__"):
            raise InPython(f"{kind.__name__} has no __len__")
        self.summary = f"{len(dataset)} samples of {kind.__name__}"
        self.python = f"{kind.__name__}.__getitem__ but for its images"
        self._dataset, self._attributes = dataset, dict(vars(dataset))
        copy = _Copy(self._call, reader_of)
        self._copy, self._inner, self._watched = copy.of(dataset), copy.inner, copy.watched
        self._cells, self._spaces = copy.cells, copy.spaces
        self._first: Any = None  # the source of the first image
        self._looked_at: dict[int, tuple[Any, list[Placeholder]]] = {}  # samples that were read before the epoch and are still to be used
        length = len(dataset)
        quickest = float("inf")
        try:
            for index in sorted({k * (length - 1) // (_PROBES - 1) for k in range(_PROBES)} if length else ()):
                began = time.thread_time()
                sample, undone = self.sample(index)
                quickest = min(quickest, time.thread_time() - began)
                self._first = undone[0].source
                self._looked_at[index] = sample, undone
                self.slow = quickest > _SLOW_S
                if self.slow and len(self._looked_at) == _SLOW_PROBES:
                    break
        except (NeedsPython, IndexError) as e:
            name = self._name_of_held_datasets() if isinstance(e, IndexError) else None  # a sample has no image that was replaced
            if name is not None:
                raise InPython(
                    f"{name} holds Datasets in a container, and only the images of Datasets that are attributes of their own, or parts of a ConcatDataset, are "
                    "made in C"
                ) from None
            hint = (
                f" ({type(e.__cause__).__name__}: {e.__cause__})"
                if isinstance(e.__cause__, Exception) and not isinstance(e.__cause__, NeedsPython)
                else ""
            )
            raise InPython(f"{kind.__name__}.__getitem__ does more with an image than to open and transform it{hint}") from None
        if self._first is None:
            raise InPython("there are no samples")
        self.transform = self._call.transform
        self.files = isinstance(self._first, str)
        self.channels = 3 if self.files else self._first.shape[-1]

    def _name_of_held_datasets(self) -> str | None:
        """Returns the name of the first attribute or variable that holds Datasets in a list, tuple or dict; None if no such attribute exists."""
        from torch.utils.data import Dataset

        named = {f"{type(self._dataset).__name__}.{name}": value for name, value in vars(self._dataset).items()}
        named |= {name: space[name] for space, names in self._spaces for name in names}
        for name, value in named.items():
            if isinstance(value, (list, tuple, dict)) and any(
                isinstance(v, Dataset) for v in (value.values() if isinstance(value, dict) else value)
            ):
                return name
        return None

    def forget(self) -> None:
        self._looked_at.clear()
        for reader in self._inner:
            reader.forget()

    def keep_copies(self) -> None:
        _copy_lists([(vars(self._copy), set(vars(self._copy))), *self._spaces], self._cells)
        for reader in self._inner:
            reader.keep_copies()

    def unchanged(self) -> bool:
        same = all(read() is value for read, value in self._watched)
        return same and same_attributes(self._dataset, self._attributes) and all(reader.unchanged() for reader in self._inner)

    def sample(self, index: Any) -> tuple[Any, list[Placeholder]]:
        if type(index) is int and index in self._looked_at:
            return self._looked_at.pop(index)
        self._call.undone = []
        try:
            sample = self._copy[index]
        except Exception as e:  # the Dataset's own Python raises the error again, or makes the sample
            raise NeedsPython from e
        undone = list(_found(sample))
        if {id(u) for u in undone} != {id(u) for u in self._call.undone} or len(undone) != len(self._call.undone):
            raise NeedsPython
        if self._first is not None and not all(self._fits(u.source) for u in undone):
            raise NeedsPython
        return sample, undone

    def _fits(self, source: Any) -> bool:
        """Returns whether an image can be in a batch with the first image: both are paths, or both are arrays with equally many channels."""
        return type(source) is type(self._first) and (isinstance(source, str) or source.shape[-1] == self._first.shape[-1])


def _copy_lists(spaces: list[tuple[dict[str, Any], set[str]]], cells: list[types.CellType]) -> None:
    """Replaces lists and dicts by copies: those that variables of the spaces have, of which the names are given, and those in the cells."""
    copies: dict[int, Any] = {}

    def kept(value: Any) -> Any:  # a list that several variables hold gets one copy
        if id(value) not in copies:
            copies[id(value)] = shallow_copy(value)
        return copies[id(value)]

    for space, names in spaces:
        space.update((name, kept(space[name])) for name in names)
    for cell in cells:
        cell.cell_contents = kept(cell.cell_contents)


def _found(sample: Any) -> Iterator[Placeholder]:
    """Yields the Placeholder objects of a sample, in order. Raises NeedsPython if the sample contains an image without a transform, or a transform."""
    if type(sample) is Placeholder:
        yield sample
    elif issubclass(type(sample), Opaque):
        raise NeedsPython
    elif type(sample) in (list, tuple) or (isinstance(sample, tuple) and hasattr(sample, "_fields")):
        for part in sample:
            yield from _found(part)
    elif type(sample) is dict:
        for part in sample.values():
            yield from _found(part)


# ---- the copy ----


class _Copy:
    """Makes the copy of a Dataset, and of the functions that its __getitem__ calls."""

    def __init__(self, call: _Call, reader_of: Callable[[Any], Reader]) -> None:
        self._call, self._reader_of = call, reader_of
        self.inner: list[Reader] = []  # readers of the Datasets that are attributes of the user's Dataset
        # Variables, and attributes of classes, modules and other objects, that the code reads: a function that returns the value of now, and that of before.
        self.watched: list[tuple[Callable[[], Any], Any]] = []
        # Copies of the variables that the code reads: the cells of those of enclosing functions, and for each module a namespace with the names of globals.
        self.cells: list[types.CellType] = []
        self.spaces: list[tuple[dict[str, Any], set[str]]] = []
        self._functions: dict[Any, Any] = {}
        # By the id of the transform or Dataset that is replaced. Each object has one stand-in, so that `is` gives the same result.
        self._stand_ins: dict[int, Any] = {}
        self._space_of: dict[int, tuple[dict[str, Any], set[str]]] = {}  # the elements of `spaces`, by the id of the module's namespace

    def of(self, dataset: Any) -> Any:
        kind = type(dataset)
        if getattr(dataset, "__getitems__", None):
            raise InPython(f"{kind.__name__} has __getitems__")
        own = {name for base in kind.__mro__ if not base.__module__.startswith(("torch.", "typing", "builtins")) for name in vars(base)}
        if special := own & {"__getattribute__", "__getattr__", "__del__", "__init_subclass__", "__slots__"}:
            raise InPython(f"{kind.__name__} has {min(special)}")
        method = inspect.getattr_static(kind, "__getitem__", None)
        if not isinstance(method, types.FunctionType):
            raise InPython(f"{kind.__name__}.__getitem__ is no Python function")
        self._dataset = dataset
        self._methods: dict[str, Any] = {"__class__": property(lambda _: kind)}
        self._called_attributes: set[str] = set()
        self._method("__getitem__", method)
        copied = types.new_class(kind.__name__, (kind,), exec_body=lambda space: space.update(self._methods))
        self._copied = copied
        made: Any = object.__new__(copied)
        for name, value in vars(dataset).items():
            if type(value).__module__.partition(".")[0] in _SLOW or type(value).__name__ == "memmap":
                raise InPython(f"{kind.__name__}.{name} is a {type(value).__name__}, which workers read side by side")
            if changes_when_read(value):
                raise InPython(f"{kind.__name__}.{name} is a {type(value).__name__}, which reading changes")
            called = name in self._called_attributes or name == "loader"
            if called and name == "target_transform" and value is not None:
                value = self._pure(value)
            elif called and isinstance(value, types.FunctionType) and self._stand_in(value) is value:
                value = self._function(value)
            vars(made)[name] = self._stand_in(value)
        return made

    def _inner_of(self, dataset: Any) -> _Inner:
        if id(dataset) not in self._stand_ins:
            self.inner.append(self._reader_of(dataset))
            targets = {function: self._pure(function) for function in self.inner[-1].target_transforms}
            self._stand_ins[id(dataset)] = _Inner(self._call, dataset, self.inner[-1], targets)
        return self._stand_ins[id(dataset)]

    def _pure(self, function: Any) -> Any:
        """Returns a function that has the same result as a target_transform and no effects. Raises InPython if it may have effects."""
        if is_known(function) and not is_transform(function):
            return function
        if not isinstance(function, types.FunctionType):
            name = getattr(function, "__qualname__", None) or type(function).__name__
            raise InPython(f"the target_transform {name} may have effects: its code is not read, because it is not a function made by def")
        if function.__name__ == "<lambda>" and only_computes(function):
            return self._frozen(function, {*function.__code__.co_names, *function.__code__.co_freevars})
        return self._function(function)

    def _type(self, value: Any, *others: Any) -> Any:
        """Replaces the builtin `type` in the copy."""
        if others or issubclass(type(value), Opaque):
            raise NeedsPython
        return type(self._dataset) if type(value) is self._copied else type(value)

    def _method(self, name: str, function: types.FunctionType) -> None:
        if name not in self._methods:
            self._methods[name] = function  # set before the copy is made, because the function may call itself
            self._methods[name] = self._function(function)

    def _stand_in(self, value: Any) -> Any:
        """Returns the object that replaces `value` in the copy."""
        import PIL
        import PIL.Image
        from torch.utils.data import Dataset

        if value is PIL.Image:
            return _Pillow.Image
        if value is PIL:
            return _Pillow
        if value is PIL.Image.open:
            return _open
        if is_default_loader(value):
            return _load
        if isinstance(value, Dataset):
            return self._inner_of(value)
        if is_transform(value):
            return self._stand_ins.setdefault(id(value), _Transform(self._call, value))
        return value

    def _function(self, function: types.FunctionType) -> types.FunctionType:
        if function in self._functions:
            return self._functions[function]
        if function.__module__ == "torchvision.datasets.folder":
            self._called_attributes.add("target_transform")
            return function
        self._functions[function] = function
        code = Code(function, self._dataset)
        for owner, name in code.attributes:
            self._watch(functools.partial(stored, owner, name))
            value = stored(owner, name)
            if owner is type(self._dataset) and not hasattr(type(value), "__get__"):
                self._methods.setdefault(name, value)
        self._called_attributes |= code.called_attributes
        for name in code.methods:
            self._method(name, inspect.getattr_static(type(self._dataset), name))
        made = self._frozen(function, code.names, code.functions)
        self._functions[function] = made
        return made

    def _frozen(self, function: types.FunctionType, names: set[str], called: Collection[str] = ()) -> types.FunctionType:
        """Returns a copy of a function that keeps the values which variables have now. names: the variables that it reads. called: those among them that hold
        functions of the program, which it calls."""
        if id(function.__globals__) not in self._space_of:
            self.spaces.append((dict(function.__globals__), set()))
            self._space_of[id(function.__globals__)] = self.spaces[-1]
        space, copied = self._space_of[id(function.__globals__)]
        cells = cells_of(function)
        for name in names:
            if name in cells:
                self._watch(functools.partial(_contents, cells[name]))
                cells[name] = types.CellType(self._named(cells[name].cell_contents, name, called))
                self.cells.append(cells[name])
            elif name in function.__globals__:
                value = function.__globals__[name]
                if changes_when_read(value):
                    raise InPython(f"{name} is a {type(value).__name__}, which reading changes")
                self._watch(functools.partial(function.__globals__.get, name))
                space[name] = self._named(value, name, called)
                copied.add(name)
            elif name == "type":
                space[name] = self._type
        closure = tuple(cells[name] for name in function.__code__.co_freevars)
        made = types.FunctionType(function.__code__, space, function.__name__, function.__defaults__, closure)
        made.__kwdefaults__ = function.__kwdefaults__
        return made

    def _watch(self, read: Callable[[], Any]) -> None:
        self.watched.append((read, read()))

    def _named(self, value: Any, name: str, called: Collection[str]) -> Any:
        stand_in = self._stand_in(value)
        return self._function(value) if stand_in is value and name in called and isinstance(value, types.FunctionType) else stand_in


def _contents(cell: types.CellType) -> Any:
    """Returns the value of a variable of an enclosing function; `...` if it has none any more."""
    try:
        return cell.cell_contents
    except ValueError:
        return ...


def _no_reader(dataset: Any) -> Reader:
    raise InPython(f"a target_transform uses a {type(dataset).__name__}")


class _TargetCopy(_Copy):
    """Makes copies of target_transforms that get no placeholders, so that nothing they use is replaced."""

    _type: Any = type

    def __init__(self, dataset: Any) -> None:
        super().__init__(_Call(), _no_reader)
        self._dataset, self._methods, self._called_attributes = dataset, {}, set()

    def _stand_in(self, value: Any) -> Any:
        if super()._stand_in(value) is not value:
            raise InPython("the target_transform uses what a copy of a Dataset replaces")
        return value


def frozen_target(function: Any, dataset: Any) -> Any:
    """Returns a copy of a target_transform that keeps the values and lists which its variables have now. Returns the function itself if its code may have
    effects or is not read: then its variables stay those of the loop."""
    copy = _TargetCopy(dataset)
    try:
        made = copy._pure(function)
    except Exception:  # InPython, or any error of the user's objects, whose attributes are read
        return function
    _copy_lists(copy.spaces, copy.cells)
    return made
