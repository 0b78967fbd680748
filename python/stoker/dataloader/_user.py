# SPDX-License-Identifier: Apache-2.0
"""Datasets written by users whose code opens an image, transforms it and returns it with its target.

Their own code runs for each sample, in a copy of the Dataset in which opening an image only remembers its path, and a transform only takes the image's
place. That is done only for code that has no other effect than its result: its syntax tree is read first, and every call in it has to be a known one.
"""

from __future__ import annotations

import ast
import builtins
import collections
import inspect
import os
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from stoker.dataloader._reasons import InPython
from stoker.dataloader._undone import Left, Opaque, Reader, Undone, readable, replaced, same_attributes

_BUILTINS = set(
    "abs bool chr dict enumerate float getattr hasattr int isinstance len list max min open ord range round set sorted str sum super tuple type zip".split()
)
_FUNCTIONS = {
    "PIL.Image": {"open", "fromarray"},
    "math": {"ceil", "floor", "sqrt"},
    "numpy": {"array", "asarray", "float32", "float64", "int32", "int64", "zeros", "ones"},
    "os": {"fspath"},
    "os.path": {"abspath", "basename", "dirname", "join", "normpath", "split", "splitext"},
    "pathlib": {"Path", "PurePath"},
    "posixpath": {"abspath", "basename", "dirname", "join", "normpath", "split", "splitext"},
    "torch": {"FloatTensor", "LongTensor", "Tensor", "as_tensor", "eye", "from_numpy", "is_tensor", "ones", "tensor", "zeros"},
    "torch.nn.functional": {"one_hot"},
}
# Methods of strings, paths, arrays, tensors and tables that change nothing but a new object.
_METHODS = set(
    "as_posix astype clone convert copy double endswith flatten float format get int item items joinpath join keys lower long lstrip numpy relative_to replace "
    "reshape rsplit rstrip split squeeze startswith strip title to tolist to_numpy unsqueeze upper values view with_name with_suffix zfill".split()
)
_CHANGES = {"append", "extend", "update"}  # of containers that the function has made
_STATEMENTS = (
    ast.AnnAssign, ast.Assert, ast.Assign, ast.AugAssign, ast.Expr, ast.For, ast.If, ast.Pass, ast.Raise, ast.Return, ast.With,
)  # fmt: skip
_REFUSED = (ast.Await, ast.GeneratorExp, ast.Lambda, ast.NamedExpr, ast.Yield, ast.YieldFrom)


_PROBES = 8  # samples that are looked at before the first epoch
# Objects of these packages read, or decode, in the thread of the loop what one of several workers would read.
_SLOW = ("datasets", "h5py", "lmdb", "netCDF4", "pyarrow", "sqlite3", "tables", "zarr")


class LazyImage(Opaque):
    """A file that has not been opened, in the place of a PIL image. All that can be done to it is what a Dataset does before its transform."""

    def __init__(self, path: str, rgb: bool) -> None:
        self._path, self._rgb = path, rgb

    def convert(self, mode: Any = None, *others: Any, **named: Any) -> LazyImage:
        if mode != "RGB" or others or named:
            raise Left
        return LazyImage(self._path, True)

    def copy(self) -> LazyImage:
        return self

    def __enter__(self) -> LazyImage:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        raise Left

    def source(self) -> str:
        """Returns the path of an image whose pixels are RGB."""
        if not self._rgb:
            from PIL import Image

            with Image.open(self._path) as image:  # reads the header
                if image.mode != "RGB":
                    raise Left
        return self._path


def _path_of(file: Any) -> str:
    if isinstance(file, (str, os.PathLike)):
        path: str = os.fspath(file)
    else:
        path = getattr(file, "name", None) or ""
    if not isinstance(path, str) or not readable(path):
        raise Left
    return path


def _open(file: Any, mode: str = "r", formats: Any = None) -> LazyImage:
    return LazyImage(_path_of(file), False)


def _load(path: Any) -> LazyImage:
    """Takes the place of torchvision's default_loader and pil_loader."""
    return LazyImage(_path_of(path), True)


class _PillowImage:
    """Takes the place of the module PIL.Image."""

    open = staticmethod(_open)

    @staticmethod
    def fromarray(*arguments: Any, **named: Any) -> Any:
        from PIL import Image

        return Image.fromarray(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        raise Left


class _Pillow:
    """Takes the place of the module PIL."""

    Image = _PillowImage()


class _Call:
    """The images of one call of the Dataset. transform: of all of them, from the first one on."""

    def __init__(self) -> None:
        self.undone: list[Undone] = []
        self.transform: Any = None

    def take(self, source: Any, transform: Any) -> Undone:
        if self.transform is None:
            self.transform = transform
        if transform is not self.transform:
            raise Left
        undone = Undone(source)
        self.undone.append(undone)
        return undone


class _Transform:
    """Takes the place of a transform."""

    def __init__(self, call: _Call, transform: Any) -> None:
        self._call, self._transform = call, transform

    def __call__(self, image: Any, *others: Any, **named: Any) -> Any:
        if others or named:
            raise Left
        if isinstance(image, LazyImage):
            return self._call.take(image.source(), self._transform)
        if type(image).__module__.startswith("PIL.") and image.mode in ("RGB", "L"):
            import numpy as np

            pixels = np.asarray(image)
            return self._call.take(pixels if pixels.ndim == 3 else pixels[..., None], self._transform)
        raise Left


class _Inner:
    """Takes the place of a Dataset that the Dataset holds."""

    def __init__(self, call: _Call, dataset: Any, reader: Reader) -> None:
        self._call, self._dataset, self._reader = call, dataset, reader

    def __len__(self) -> int:
        return len(self._dataset)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def __getitem__(self, index: Any) -> Any:
        sample, undone = self._reader.sample(index)
        transform = self._reader.transform
        for one in undone:
            if transform is None:
                sample = replaced(sample, lambda found, one=one: self._raw(one) if found is one else found)
            else:
                own = self._call.take(one.source, transform)
                sample = replaced(sample, lambda found, one=one, own=own: own if found is one else found)
        return sample

    @staticmethod
    def _raw(undone: Undone) -> Any:
        if isinstance(undone.source, str):
            return LazyImage(undone.source, True)
        from PIL import Image

        pixels = undone.source
        return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)


class UserReader(Reader):
    """A Dataset that the user has written."""

    def __init__(self, dataset: Any, reader_of: Callable[[Any], Reader]) -> None:
        self._call = _Call()
        kind = type(dataset)
        if not hasattr(dataset, "__dict__") or not hasattr(dataset, "__len__"):
            raise InPython(f"{kind.__name__} has no attributes or no length")
        self.summary = f"{len(dataset)} samples of {kind.__name__}"
        self.python = f"{kind.__name__}.__getitem__ but for its images"
        self._dataset, self._attributes = dataset, dict(vars(dataset))
        copy = _Copy(self._call, reader_of)
        self._copy, self._inner, self._globals = copy.of(dataset), copy.inner, copy.globals
        self._first: Any = None  # the source of the first image
        length = len(dataset)
        try:
            for index in sorted({k * (length - 1) // (_PROBES - 1) for k in range(_PROBES)} if length else ()):
                _, (undone, *_) = self.sample(index)
                self._first = undone.source
        except (Left, ValueError) as e:
            hint = (
                f" ({type(e.__cause__).__name__}: {e.__cause__})"
                if isinstance(e.__cause__, Exception) and not isinstance(e.__cause__, Left)
                else ""
            )
            raise InPython(f"{kind.__name__}.__getitem__ does more with an image than to open and transform it{hint}") from None
        if self._first is None:
            raise InPython("there are no samples")
        self.transform = self._call.transform
        self.files = isinstance(self._first, str)
        self.channels = 3 if self.files else self._first.shape[-1]

    def unchanged(self) -> bool:
        same = all(space.get(name) is value for space, name, value in self._globals)
        return same and same_attributes(self._dataset, self._attributes) and all(reader.unchanged() for reader in self._inner)

    def sample(self, index: Any) -> tuple[Any, list[Undone]]:
        self._call.undone = []
        try:
            sample = self._copy[index]
        except Exception as e:  # the Dataset itself raises it again, or gives the sample
            raise Left from e
        undone = list(_found(sample))
        if {id(u) for u in undone} != {id(u) for u in self._call.undone} or len(undone) != len(self._call.undone):
            raise Left
        if self._first is not None and not all(self._fits(u.source) for u in undone):
            raise Left
        return sample, undone

    def _fits(self, source: Any) -> bool:
        """Whether an image is of the same sort as the first one."""
        return type(source) is type(self._first) and (isinstance(source, str) or source.shape[-1] == self._first.shape[-1])


def _found(sample: Any) -> Iterator[Undone]:
    """Yields the Undone of a sample, in order."""
    if type(sample) is LazyImage:
        raise Left
    if type(sample) is Undone:
        yield sample
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
        self.inner: list[Reader] = []  # of Datasets that the Dataset holds
        self.globals: list[tuple[dict[str, Any], str, Any]] = []  # that its code reads: where, the name, and the value
        self._functions: dict[Any, Any] = {}
        self._spaces: dict[int, dict[str, Any]] = {}

    def of(self, dataset: Any) -> Any:
        from torch.utils.data import Dataset

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
        self._methods: dict[str, Any] = {}
        self._held: set[str] = set()
        self._method("__getitem__", method)
        copied = types.new_class(kind.__name__, (kind,), exec_body=lambda space: space.update(self._methods))
        made: Any = object.__new__(copied)
        for name, value in vars(dataset).items():
            if type(value).__module__.partition(".")[0] in _SLOW or type(value).__name__ == "memmap":
                raise InPython(f"{kind.__name__}.{name} is a {type(value).__name__}, which workers read side by side")
            if _changes_when_read(value):
                raise InPython(f"{kind.__name__}.{name} is a {type(value).__name__}, which reading changes")
            if isinstance(value, Dataset):
                self.inner.append(self._reader_of(value))
                value = _Inner(self._call, value, self.inner[-1])
            elif (name == "loader" or name in self._held) and isinstance(value, types.FunctionType) and self._stand_in(value) is value:
                value = self._function(value)
            vars(made)[name] = self._stand_in(value)
        return made

    def _method(self, name: str, function: types.FunctionType) -> None:
        if name not in self._methods:
            self._methods[name] = function  # it may call itself
            self._methods[name] = self._function(function)

    def _stand_in(self, value: Any) -> Any:
        """Returns the object that takes the place of `value` in the copy."""
        import PIL
        import PIL.Image

        if value is PIL.Image:
            return _Pillow.Image
        if value is PIL:
            return _Pillow
        if value is PIL.Image.open:
            return _open
        if (
            isinstance(value, types.FunctionType)
            and value.__module__ == "torchvision.datasets.folder"
            and value.__name__ in ("default_loader", "pil_loader")
        ):
            return _load
        if type(value).__module__.startswith("torchvision.transforms.") and callable(value) and not isinstance(value, type):
            return _Transform(self._call, value)
        return value

    def _function(self, function: types.FunctionType) -> types.FunctionType:
        if function in self._functions:
            return self._functions[function]
        if function.__module__ == "torchvision.datasets.folder":
            return function
        self._functions[function] = function
        code = _Code(function, self._dataset)
        space = self._spaces.setdefault(id(function.__globals__), dict(function.__globals__))
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for name in code.names:
            if name in cells:
                cells[name] = types.CellType(self._named(cells[name].cell_contents, name, code))
            elif name in space:
                value = function.__globals__[name]
                if _changes_when_read(value):
                    raise InPython(f"{name} is a {type(value).__name__}, which reading changes")
                self.globals.append((function.__globals__, name, value))
                space[name] = self._named(value, name, code)
        self._held |= code.held
        for name in code.methods:
            self._method(name, inspect.getattr_static(type(self._dataset), name))
        closure = tuple(cells[name] for name in function.__code__.co_freevars)
        made = types.FunctionType(function.__code__, space, function.__name__, function.__defaults__, closure)
        made.__kwdefaults__ = function.__kwdefaults__
        self._functions[function] = made
        return made

    def _named(self, value: Any, name: str, code: _Code) -> Any:
        stand_in = self._stand_in(value)
        return self._function(value) if stand_in is value and name in code.functions and isinstance(value, types.FunctionType) else stand_in


# ---- reading code ----


def _changes_when_read(value: Any) -> bool:
    """Whether an object is an iterator, or adds keys that it is asked for, as a defaultdict does."""
    return hasattr(type(value), "__next__") or (hasattr(type(value), "__missing__") and type(value) is not collections.Counter)


def _is_users(function: types.FunctionType) -> bool:
    home = function.__code__.co_filename
    return "site-packages" not in home and not home.startswith(os.path.dirname(os.__file__))


class _Code:
    """Reads the source of a function. Raises InPython if the function may have an effect, or calls something unknown.

    names: of globals and of enclosing functions' variables. functions: those of them that are called and are the user's. methods: of the Dataset.
    held: attributes of the Dataset that hold functions of the user and are called.
    """

    def __init__(self, function: types.FunctionType, dataset: Any) -> None:
        self._function, self._dataset = function, dataset
        self.names: set[str] = set()
        self.functions: set[str] = set()
        self.methods: set[str] = set()
        self.held: set[str] = set()
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        except (OSError, TypeError, SyntaxError, IndexError):
            raise InPython(f"the source of {function.__qualname__} cannot be read") from None
        if not isinstance(tree, ast.FunctionDef) or tree.decorator_list:
            raise InPython(f"{function.__qualname__} is decorated")
        arguments = tree.args.posonlyargs + tree.args.args
        self._self = arguments[0].arg if arguments and inspect.getattr_static(type(dataset), function.__name__, None) is function else ""
        self._locals = {name.id for name in ast.walk(tree) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)} | {
            a.arg for a in arguments
        }
        self._made, self._values = self._own_containers(tree), self._own_values(tree)
        for statement in tree.body:
            self._visit(statement)

    def _refuse(self, node: ast.AST, what: str) -> NoReturn:
        line = self._function.__code__.co_firstlineno + getattr(node, "lineno", 1) - 1
        file = os.path.basename(self._function.__code__.co_filename)
        raise InPython(f"{self._function.__qualname__} {what} ({file}:{line})")

    def _own_containers(self, tree: ast.FunctionDef) -> set[str]:
        """Returns the names of variables that only ever hold lists and dicts that the function makes."""
        made: dict[str, bool] = {}
        for node in ast.walk(tree):
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name):
                        fresh = isinstance(node.value, (ast.Dict, ast.List, ast.ListComp, ast.DictComp)) or (
                            isinstance(node.value, ast.Call)
                            and isinstance(node.value.func, ast.Name)
                            and node.value.func.id in ("dict", "list")
                        )
                        made[target.id] = made.get(target.id, True) and fresh
                    else:  # several names may get what exists already
                        made.update(
                            (name.id, False) for name in ast.walk(target) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
                        )
            elif isinstance(node, (ast.For, ast.withitem)):
                other = node.target if isinstance(node, ast.For) else node.optional_vars
                made.update((name.id, False) for name in (ast.walk(other) if other is not None else ()) if isinstance(name, ast.Name))
        arguments = {argument.arg for argument in ast.walk(tree) if isinstance(argument, ast.arg)}
        return {name for name, fresh in made.items() if fresh} - arguments

    def _own_values(self, tree: ast.FunctionDef) -> set[str]:
        """Returns the names of variables that only hold results of arithmetic and the like. `+=` changes an array or a list where it stands, which the Dataset
        may hold."""
        stores = [name.id for name in ast.walk(tree) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]
        fresh: list[str] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                fresh.append(node.target.id)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                value = node.value
                if isinstance(value, ast.Call):
                    made = isinstance(value.func, ast.Name) and value.func.id in ("abs", "float", "int", "len", "round", "str")
                else:
                    made = isinstance(value, (ast.BinOp, ast.Compare, ast.Constant, ast.JoinedStr))
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if made and len(targets) == 1 and isinstance(targets[0], ast.Name):
                    fresh.append(targets[0].id)
        arguments = {argument.arg for argument in ast.walk(tree) if isinstance(argument, ast.arg)}
        return {name for name in fresh if stores.count(name) == fresh.count(name)} - arguments

    def _check_read(self, node: ast.AST, name: str) -> None:
        """Refuses properties and the like, whose code runs when they are read."""
        found = inspect.getattr_static(type(self._dataset), name, None)
        if hasattr(type(found), "__get__") and not isinstance(found, (types.FunctionType, types.GetSetDescriptorType)):
            self._refuse(node, f"reads the {type(found).__name__} {name}")

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS):
            self._refuse(node, f"has a statement {type(node).__name__.lower()}")
        if isinstance(node, _REFUSED):
            self._refuse(node, f"has a {type(node).__name__}")
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            own = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in self._made
            if not own:
                self._refuse(node, f"changes {ast.unparse(node)}")
        if isinstance(node, ast.AugAssign) and not (
            isinstance(node.target, ast.Name)
            and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult))
            and node.target.id in self._made | self._values
        ):
            self._refuse(node, f"changes {ast.unparse(node.target)}")
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in self._locals:
            self.names.add(node.id)
        if isinstance(node, ast.Attribute):
            self._check_read(node, node.attr)
        if isinstance(node, ast.Call):
            self._check_call(node)
        for child in ast.iter_child_nodes(node):
            self._visit(child)

    def _value(self, name: str) -> Any:
        """Returns the object of a global name, or of an enclosing function's."""
        cells = dict(zip(self._function.__code__.co_freevars, self._function.__closure__ or (), strict=True))
        if name in cells:
            return cells[name].cell_contents
        return self._function.__globals__.get(name, getattr(builtins, name, None))

    def _object(self, node: ast.expr) -> Any:
        """Returns the object that a dotted name of modules leads to; None for others."""
        if isinstance(node, ast.Name) and node.id not in self._locals:
            return self._value(node.id)
        if isinstance(node, ast.Attribute):
            parent = self._object(node.value)
            return getattr(parent, node.attr, None) if isinstance(parent, types.ModuleType) else None
        return None

    def _check_call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Name) and called.id not in self._locals:
            return self._check_named(node, called.id)
        if not isinstance(called, ast.Attribute):
            self._refuse(node, f"calls {ast.unparse(called)}")
        owner = self._object(called.value)
        if isinstance(owner, types.ModuleType):
            if called.attr not in _FUNCTIONS.get(owner.__name__, ()):
                self._refuse(node, f"calls {ast.unparse(called)}")
        elif isinstance(called.value, ast.Name) and called.value.id == self._self and self._self:
            self._check_own(node, called.attr)
        elif isinstance(called.value, ast.Call) and isinstance(called.value.func, ast.Name) and called.value.func.id == "super":
            if called.attr != "__getitem__" or self._next_item().__module__ != "torchvision.datasets.folder":
                self._refuse(node, f"calls {ast.unparse(called)}")
        elif called.attr in _CHANGES:
            if not (isinstance(called.value, ast.Name) and called.value.id in self._made):
                self._refuse(node, f"changes {ast.unparse(called.value)}")
        elif called.attr not in _METHODS:
            self._refuse(node, f"calls .{called.attr}()")

    def _next_item(self) -> Any:
        """Returns the __getitem__ that super() finds."""
        cell = dict(zip(self._function.__code__.co_freevars, self._function.__closure__ or (), strict=True)).get("__class__")
        kinds = type(self._dataset).__mro__
        after = kinds[kinds.index(cell.cell_contents) + 1 :] if cell is not None else ()
        return next((vars(kind)["__getitem__"] for kind in after if "__getitem__" in vars(kind)), None)

    def _check_named(self, node: ast.Call, name: str) -> None:
        value = self._value(name)
        if value is getattr(builtins, name, self):
            if name in ("getattr", "hasattr"):
                attribute = node.args[1] if len(node.args) > 1 else None
                if not isinstance(attribute, ast.Constant):
                    self._refuse(node, f"calls {name} with a name that is not written out")
                self._check_read(node, str(attribute.value))
            error = isinstance(value, type) and issubclass(value, Exception)
            if name not in _BUILTINS and not error:
                self._refuse(node, f"calls {name}")
        elif isinstance(value, types.FunctionType) and not self._is_known(value):
            if not _is_users(value):
                self._refuse(node, f"calls {name}")
            self.functions.add(name)
        elif not self._is_known(value) and not (isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")):
            self._refuse(node, f"calls {name}")

    @staticmethod
    def _is_known(value: Any) -> bool:
        """Whether a function or an object may be called: it is in the tables, a loader of torchvision, or one of its transforms."""
        if getattr(value, "__module__", "") == "torchvision.datasets.folder" and getattr(value, "__name__", "") in (
            "default_loader",
            "pil_loader",
        ):
            return True
        if type(value).__module__.startswith("torchvision.transforms."):
            return True
        return getattr(value, "__name__", None) in _FUNCTIONS.get(getattr(value, "__module__", ""), ())

    def _check_own(self, node: ast.Call, name: str) -> None:
        """Checks a call of the Dataset's method, or of what its attribute holds."""
        method = inspect.getattr_static(type(self._dataset), name, None)
        if name in vars(self._dataset):
            held = vars(self._dataset)[name]
            if isinstance(held, types.FunctionType) and name != "target_transform" and not self._is_known(held) and _is_users(held):
                self.held.add(name)
            elif held is not None and not self._is_known(held) and name != "target_transform":
                self._refuse(node, f"calls {ast.unparse(node.func)}")
        elif isinstance(method, types.FunctionType):
            self.methods.add(name)
        else:
            self._refuse(node, f"calls {ast.unparse(node.func)}")
