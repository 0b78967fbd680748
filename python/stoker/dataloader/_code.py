# SPDX-License-Identifier: Apache-2.0
"""Reads the source of a Dataset's functions, to find out whether they have effects besides their result."""

from __future__ import annotations

import ast
import builtins
import collections
import dis
import enum
import inspect
import itertools
import os
import sys
import textwrap
import types
from collections.abc import Iterable
from typing import Any, NoReturn

from stoker.dataloader._reasons import InPython
from stoker.loader.sources._known import _default_loader

_BUILTINS = set(
    "abs bool chr dict enumerate float getattr hasattr int isinstance len list max min open ord range round set sorted str sum super tuple type zip".split()
)
_CONVERSIONS = (bool, float, int, str)
PLAIN = (*_CONVERSIONS, type(None))  # types of values that no code can change
_WITHOUT_EFFECTS = (*_CONVERSIONS, abs, len, max, min, round)
# Beginnings of the names of bytecodes that may have effects.
_EFFECTS = tuple("STORE_ DELETE_ IMPORT_ MAKE_ YIELD SEND SETUP_ BEFORE_ LOAD_NAME LOAD_BUILD".split())
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
# Methods of strings, paths, arrays, tensors and tables that return a new object and do not change an existing one.
_METHODS = set(
    "as_posix astype clone convert copy double endswith flatten float format get int item items joinpath join keys lower long lstrip numpy relative_to replace "
    "reshape rsplit rstrip split squeeze startswith strip title to tolist to_numpy unsqueeze upper values view with_name with_suffix zfill".split()
)
_CHANGES = {"append", "extend", "update"}  # methods that a function may call on containers that it made itself
_STATEMENTS = (
    ast.AnnAssign, ast.Assert, ast.Assign, ast.AugAssign, ast.Expr, ast.For, ast.If, ast.Pass, ast.Raise, ast.Return, ast.With,
)  # fmt: skip
_REFUSED = (ast.Await, ast.GeneratorExp, ast.Lambda, ast.NamedExpr, ast.Yield, ast.YieldFrom)
_FIRST = 8  # number of elements of a container that are examined


def changes_when_read(value: Any) -> bool:
    """Returns whether reading an object may change it. True for iterators, and for dicts with __missing__: a defaultdict adds the keys that are looked up, but
    a Counter does not."""
    return hasattr(type(value), "__next__") or (hasattr(type(value), "__missing__") and type(value) is not collections.Counter)


def _is_users(function: types.FunctionType | types.MethodType) -> bool:
    home = function.__code__.co_filename
    return "site-packages" not in home and not home.startswith(os.path.dirname(os.__file__))


_UNKNOWN: Any = object()
# Special methods that run only when an object or a class is made, shown or deleted. All others, such as __add__, may run in any expression or `with`
# statement.
_MAKING = {"__class_getitem__", "__del__", "__init__", "__init_subclass__", "__new__", "__post_init__", "__repr__", "__set_name__"}


def is_default_loader(value: Any) -> bool:
    return isinstance(value, types.FunctionType) and _default_loader(value)


def is_transform(value: Any) -> bool:
    """Returns whether a value is a transform of torchvision, for which a copy of a Dataset (_user.py) has another object."""
    return type(value).__module__.startswith("torchvision.transforms.") and callable(value) and not isinstance(value, type)


def _is_replaced(value: Any) -> bool:
    """Returns whether a copy of a Dataset (_user.py) has another object in the place of this one."""
    from torch.utils.data import Dataset

    return is_transform(value) or isinstance(value, Dataset) or is_default_loader(value)


def is_known(value: Any) -> bool:
    """Returns whether a function or an object may be called: _CONVERSIONS has it, _FUNCTIONS has its name, or it is a loader or a transform of torchvision."""
    if is_default_loader(value) or is_transform(value) or any(value is conversion for conversion in _CONVERSIONS):
        return True
    return getattr(value, "__name__", None) in _FUNCTIONS.get(getattr(value, "__module__", ""), ())


def cells_of(function: types.FunctionType) -> dict[str, types.CellType]:
    """Returns a dict from the names of variables of enclosing functions to their cells."""
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def is_users_class(kind: type) -> bool:
    """Returns whether a class belongs to the user's program, not to Python or an installed package."""
    if kind.__module__.partition(".")[0] in {"stoker", *sys.stdlib_module_names} - {"__main__"}:
        return False
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return file is None or "site-packages" not in file


def is_users_object(value: Any) -> bool:
    """Returns whether a value is an object of one of the program's own classes. False for enum members and named tuples, which are plain values, and for
    Datasets, which UserReader in _user.py checks."""
    from torch.utils.data import Dataset

    kind = type(value)
    plain = isinstance(value, (type, Dataset, enum.Enum, types.ModuleType)) or (isinstance(value, tuple) and hasattr(kind, "_fields"))
    return not plain and is_users_class(kind)


def overloads(kind: type) -> bool:
    """Returns whether the program's own code in a class or its bases defines special methods other than those in _MAKING and those that dataclass generates."""
    for base in filter(is_users_class, kind.__mro__):
        for name, found in vars(base).items():
            code = getattr(found, "__code__", None)
            special = name.startswith("__") and name.endswith("__") and name not in _MAKING
            if special and code is not None and code.co_filename != "<string>":  # "<string>": dataclass has generated the method
                return True
    return False


def _runs_code(kind: type, name: str) -> bool:
    """Returns whether reading attribute `name` of an object of class `kind` may run Python code or return a method."""
    if hasattr(kind, "__getattr__") or kind.__getattribute__ is not object.__getattribute__:
        return True
    found = inspect.getattr_static(kind, name, None)
    return hasattr(type(found), "__get__") and not isinstance(found, (types.GetSetDescriptorType, types.MemberDescriptorType))


def types_of_elements(values: Iterable[Any], depth: int = 2) -> set[type]:
    """Returns the program's own classes among the classes of the first _FIRST elements of each container. values: containers; other values are skipped. depth:
    levels of nested containers to search."""
    from torch.utils.data import Dataset

    found: set[type] = set()
    for value in values:
        if not isinstance(value, (list, tuple, set, frozenset, dict, collections.deque)):
            continue
        first = list(itertools.islice(value.values() if isinstance(value, dict) else value, _FIRST))
        found |= {type(e) for e in first if is_users_object(e) or (isinstance(e, Dataset) and is_users_class(type(e)))}
        if depth > 1:
            found |= types_of_elements(first, depth - 1)
    return found


def stored(owner: Any, name: str) -> Any:
    """Returns an attribute of a class, a module or another object as it is stored, so that no descriptor is called; `...` if it is missing."""
    for holder in owner.__mro__ if isinstance(owner, type) else (owner,):
        found = getattr(holder, "__dict__", {}).get(name, ...)
        if found is not ...:
            return found
    return ...


def _role(node: ast.AST, child: ast.AST) -> str:
    """Returns how an expression uses its part `child`: "called", "attribute" (reads an attribute of it), "tested" (for truth), "compared" (by identity or
    type, or asked whether it has an attribute), or "" for any other use."""
    if isinstance(node, ast.Call):
        asks = isinstance(node.func, ast.Name) and node.func.id in ("hasattr", "getattr", "isinstance", "type")
        return "called" if child is node.func else "compared" if asks else ""
    if isinstance(node, ast.Attribute):
        return "attribute"
    if isinstance(node, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
        return "compared"
    tests = isinstance(node, (ast.If, ast.IfExp)) and child is node.test
    return "tested" if tests or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)) else ""


def _only_reads(node: ast.Call) -> bool:
    """Returns whether a call of open() has no mode, or a constant one that only reads."""
    modes = [*node.args[1:2], *(word.value for word in node.keywords if word.arg in ("mode", None))]
    return all(isinstance(mode, ast.Constant) and mode.value in ("r", "rb", "rt") for mode in modes)


def _is_data(value: Any) -> bool:
    """Returns whether a value is a number or a text, or a list, tuple or dict of these."""
    if type(value) is dict:
        value = [*value, *value.values()]
    return type(value) in PLAIN or (type(value) in (list, tuple) and all(type(v) in PLAIN for v in value))


def global_of(function: types.FunctionType, name: str) -> Any:
    """Returns what a global name means in the code of a function, also if it is a builtin; `...` if there is no such name."""
    return function.__globals__.get(name, getattr(builtins, name, ...))


def only_computes(function: types.FunctionType) -> bool:
    """Returns whether a function (a lambda, whose source is not read) only computes with its arguments, with data, and with builtins that have no effects, as
    its bytecode shows."""
    try:
        data = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # a variable that has no value yet
        return False
    for instruction in dis.get_instructions(function):
        name = instruction.opname
        if name == "LOAD_GLOBAL":
            value = global_of(function, instruction.argval)
            data += [] if any(value is f for f in _WITHOUT_EFFECTS) else [value]
        elif name != "STORE_FAST" and ("ATTR" in name or "METHOD" in name or name.startswith(_EFFECTS)):
            return False
    return all(map(_is_data, [*data, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]))


class Code:
    """Reads the source of a function. Raises InPython if the function may have an effect, calls something unknown, is decorated or not made by def, or if its
    source cannot be read.

    names: the global variables, and variables of enclosing functions, that the source reads. functions: those among them that are called and are functions of
    the program. methods: the Dataset's methods that are called. called_attributes: the Dataset's attributes that are called and hold functions of the program, and
    target_transform if a method of torchvision calls it. attributes: (owner, name) of attributes that the source reads and that a loop may replace: those of the
    Dataset's class, and of other classes, modules and objects that the source names.
    """

    def __init__(self, function: types.FunctionType, dataset: Any) -> None:
        self._function, self._dataset = function, dataset
        self.names: set[str] = set()
        self.functions: set[str] = set()
        self.methods: set[str] = set()
        self.attributes: list[tuple[Any, str]] = []
        self.called_attributes: set[str] = set()
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        except (OSError, TypeError, SyntaxError, IndexError):
            raise InPython(f"the source of {function.__qualname__} cannot be read") from None
        if not isinstance(tree, ast.FunctionDef):  # for a lambda, getsource returns the whole statement that contains it
            raise InPython(f"{function.__qualname__} is not made by def, and only such functions are read")
        if tree.decorator_list:
            raise InPython(f"{function.__qualname__} is decorated")
        arguments = tree.args.posonlyargs + tree.args.args
        self._self = arguments[0].arg if arguments and inspect.getattr_static(type(dataset), function.__name__, None) is function else ""
        stored = {name.id for name in ast.walk(tree) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
        self._arguments = {argument.arg for argument in ast.walk(tree) if isinstance(argument, ast.arg)}
        self._locals = stored | self._arguments
        self._cells = cells_of(function)
        self._elements = types_of_elements(vars(dataset).values())
        self._made, self._values = self._own_containers(tree), self._own_values(tree)
        for statement in tree.body:
            self._visit(statement)

    def _refuse(self, node: ast.AST, what: str) -> NoReturn:
        line = self._function.__code__.co_firstlineno + getattr(node, "lineno", 1) - 1
        file = os.path.basename(self._function.__code__.co_filename)
        raise InPython(f"{self._function.__qualname__} {what} ({file}:{line})")

    def _own_containers(self, tree: ast.FunctionDef) -> set[str]:
        """Returns the names of variables that only ever hold lists and dicts made by the function itself."""
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
                    else:  # the target is a tuple of names: these get elements of the value, which may be objects that the function did not make
                        made.update(
                            (name.id, False) for name in ast.walk(target) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
                        )
            elif isinstance(node, (ast.For, ast.comprehension, ast.withitem)):
                other = node.optional_vars if isinstance(node, ast.withitem) else node.target
                made.update((name.id, False) for name in (ast.walk(other) if other is not None else ()) if isinstance(name, ast.Name))
        return {name for name, fresh in made.items() if fresh} - self._arguments

    def _own_values(self, tree: ast.FunctionDef) -> set[str]:
        """Returns the names of variables that only hold constants, results of operators, and results of functions such as int() and len(). A function may use
        `+=` on these. It would change other values, such as arrays and lists, in place, and the Dataset may hold the same object."""
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
        return {name for name in fresh if stores.count(name) == fresh.count(name)} - self._arguments

    def _check_read(self, node: ast.AST, name: str) -> None:
        """Raises InPython for an attribute that is a property or another descriptor: reading it runs code."""
        found = inspect.getattr_static(type(self._dataset), name, None)
        if hasattr(type(found), "__get__") and not isinstance(found, (types.FunctionType, types.GetSetDescriptorType)):
            self._refuse(node, f"reads the {type(found).__name__} {name}")

    def _note_attribute(self, owner: Any, name: str) -> None:
        if stored(type(self._dataset), name) is not ...:
            self.attributes.append((type(self._dataset), name))
        if (isinstance(owner, (type, types.ModuleType)) or is_users_object(owner)) and stored(owner, name) is not ...:
            self.attributes.append((owner, name))

    def _check_object(self, node: ast.Name | ast.Attribute, role: str) -> None:
        """Raises InPython for a use of an object that may run code which this class does not read: operators, methods and properties of objects of other
        classes, and functions that are passed on as arguments. role: the result of _role."""
        value = self._static(node)
        if value is _UNKNOWN:
            if isinstance(node, ast.Attribute) and any(_runs_code(kind, node.attr) for kind in self._elements):
                self._refuse(node, f"reads .{node.attr}, which objects of the Dataset compute")
        elif is_default_loader(value):
            if role == "attribute":
                self._refuse(node, f"reads an attribute of {ast.unparse(node)}")
        elif isinstance(value, (types.FunctionType, types.MethodType)):
            if role not in ("called", "compared", "tested") and _is_users(value):
                self._refuse(node, f"hands on the function {ast.unparse(node)}")
        elif is_users_object(value):
            if role not in ("attribute", "called", "compared") and (role != "tested" or overloads(type(value))):
                self._refuse(node, f"uses {ast.unparse(node)}, an object of the class {type(value).__name__}, whose code may have effects")
        elif kind := next((kind for kind in types_of_elements([value]) if overloads(kind)), None):
            self._refuse(node, f"uses objects of the class {kind.__name__}, whose code may have effects")

    def _static(self, node: ast.expr) -> Any:
        """Returns the object to which an expression of names and attributes always evaluates; _UNKNOWN if it depends on the sample or cannot be found out."""
        if isinstance(node, ast.Name):
            return _UNKNOWN if node.id in self._locals else self._value(node.id)
        if not isinstance(node, ast.Attribute):
            return _UNKNOWN
        if isinstance(node.value, ast.Name) and node.value.id == self._self and self._self:
            return vars(self._dataset).get(node.attr, inspect.getattr_static(type(self._dataset), node.attr, _UNKNOWN))
        owner = self._static(node.value)
        if isinstance(owner, types.ModuleType):
            return getattr(owner, node.attr, _UNKNOWN)
        if owner is _UNKNOWN or not is_users_object(owner):
            return _UNKNOWN
        if _runs_code(type(owner), node.attr):
            self._refuse(node, f"reads {ast.unparse(node)}, which is computed")
        return vars(owner).get(node.attr, _UNKNOWN) if hasattr(owner, "__dict__") else _UNKNOWN

    def _visit(self, node: ast.AST, role: str = "") -> None:
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
            self._note_attribute(self._static(node.value), node.attr)
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            self._check_object(node, role)
        if isinstance(node, ast.Call):
            self._check_call(node)
        if isinstance(node, ast.Compare) and any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            self._check_identity(node)
        for child in ast.iter_child_nodes(node):
            self._visit(child, _role(node, child))

    def _check_identity(self, node: ast.Compare) -> None:
        """Raises InPython if an object that the copy replaces is compared by `is`, with something else than a constant."""
        sides = [node.left, *node.comparators]
        if any(_is_replaced(self._static(side)) for side in sides) and not any(isinstance(side, ast.Constant) for side in sides):
            self._refuse(node, f"compares objects by `is`: {ast.unparse(node)}")

    def _check_asked(self, node: ast.Call, name: str) -> None:
        """Raises InPython if a builtin function gets an object that the copy replaces, and could tell the difference."""
        for asked in node.args:
            value = self._static(asked)
            same = {"bool", "getattr", "hasattr", "len"} if hasattr(value, "__getitem__") else {"bool"}
            if _is_replaced(value) and name not in same:
                self._refuse(
                    node, f"calls {name} with {ast.unparse(asked)}, and would see the stand-in that it has while Stoker reads samples"
                )

    def _value(self, name: str) -> Any:
        """Returns the value of a variable of an enclosing function, of a global variable or of a builtin; None if the name is not defined."""
        if name in self._cells:
            return self._cells[name].cell_contents
        return self._function.__globals__.get(name, getattr(builtins, name, None))

    def _object(self, node: ast.expr) -> Any:
        """Returns the object to which a name, or an attribute of a module, refers; None for other expressions."""
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
            self.called_attributes.add("target_transform")
        elif called.attr in _CHANGES:
            if not (isinstance(called.value, ast.Name) and called.value.id in self._made):
                self._refuse(node, f"changes {ast.unparse(called.value)}")
        elif called.attr not in _METHODS or _is_replaced(self._static(called.value)):
            self._refuse(node, f"calls .{called.attr}()")

    def _next_item(self) -> Any:
        """Returns the __getitem__ to which super() refers; None if no base class has one."""
        cell = self._cells.get("__class__")
        kinds = type(self._dataset).__mro__
        after = kinds[kinds.index(cell.cell_contents) + 1 :] if cell is not None else ()
        return next((vars(kind)["__getitem__"] for kind in after if "__getitem__" in vars(kind)), None)

    def _check_named(self, node: ast.Call, name: str) -> None:
        value = self._value(name)
        if value is getattr(builtins, name, self):
            self._check_asked(node, name)
            if name in ("getattr", "hasattr"):
                attribute = node.args[1] if len(node.args) > 1 else None
                if not isinstance(attribute, ast.Constant):
                    self._refuse(node, f"calls {name} with a name that is not written out")
                self._check_read(node, str(attribute.value))
                self._note_attribute(self._static(node.args[0]), str(attribute.value))
            if name == "open" and not _only_reads(node):
                self._refuse(node, "opens a file to write")
            error = isinstance(value, type) and issubclass(value, Exception)
            if name not in _BUILTINS and not error:
                self._refuse(node, f"calls {name}")
        elif isinstance(value, types.FunctionType) and not is_known(value):
            if not _is_users(value):
                self._refuse(node, f"calls {name}")
            self.functions.add(name)
        elif not is_known(value) and not (isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")):
            self._refuse(node, f"calls {name}")

    def _check_own(self, node: ast.Call, name: str) -> None:
        """Checks a call of self.NAME(), a method of the Dataset or a function in one of its attributes. Raises InPython for other callables."""
        method = inspect.getattr_static(type(self._dataset), name, None)
        if name in vars(self._dataset):
            attribute = vars(self._dataset)[name]
            if isinstance(attribute, types.FunctionType) and not is_known(attribute) and _is_users(attribute):
                self.called_attributes.add(name)
            elif attribute is not None and not is_known(attribute):
                self._refuse(node, f"calls {ast.unparse(node.func)}")
        elif isinstance(method, types.FunctionType):
            self.methods.add(name)
        else:
            self._refuse(node, f"calls {ast.unparse(node.func)}")
