# SPDX-License-Identifier: Apache-2.0
"""Stoker has every name of DALI's modules, or an error that suggests a replacement. Classes and functions accept DALI's arguments."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

MODULES = (
    "",
    ".fn",
    ".ops",
    ".types",
    ".math",
    ".pipeline",
    ".pipeline.experimental",
    ".data_node",
    ".tensors",
    ".backend",
    ".backend_impl",
    ".experimental",
    ".tfrecord",
    ".plugin",
    ".plugin.base_iterator",
    ".plugin.pytorch",
    ".plugin.pytorch.fn",
    ".auto_aug",
    ".auto_aug.auto_augment",
    ".auto_aug.rand_augment",
    ".auto_aug.trivial_augment",
    ".auto_aug.augmentations",
    ".auto_aug.core",
)
# Methods whose positional parameters Stoker takes as *args, **kwargs.
OTHERWISE = {("Pipeline", "__init__"), ("Pipeline", "save_graph_to_dot_file")}


def of_dali(value: object) -> bool:
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return not isinstance(home, str) or home.startswith("nvidia.dali")


def groups(module: str) -> list[str]:
    """Returns the names, without the leading "nvidia.dali", of a module of operators and of all modules inside it."""
    found = importlib.import_module(f"nvidia.dali{module}")
    nested = [
        n for n, v in sorted(vars(found).items()) if isinstance(v, ModuleType) and v.__name__ == f"{found.__name__}.{n}" and n[0] != "_"
    ]
    return [module, *(g for n in nested for g in groups(f"{module}.{n}"))]


@pytest.mark.parametrize("module", [g for m in MODULES for g in (groups(m) if m in (".fn", ".ops") else [m])])
def test_every_name_of_dali_exists_or_has_advice(module: str) -> None:
    theirs = importlib.import_module(f"nvidia.dali{module}")
    if module.rpartition(".")[2] == "hidden":
        return
    ours = importlib.import_module(f"stoker{module}")
    listed = getattr(theirs, "__all__", None) or [n for n, v in vars(theirs).items() if n[0] != "_" and of_dali(v)]
    assert listed or module in ("", ".plugin", ".experimental", ".auto_aug")
    for name in set(listed) - {"hidden"}:
        try:
            if isinstance(getattr(theirs, name, None), ModuleType) and hasattr(ours, "__path__"):
                importlib.import_module(f"{ours.__name__}.{name}")  # the group may not have been imported yet
            else:
                getattr(ours, name)
        except (AttributeError, ImportError) as e:
            assert "DALI" in str(e), f"stoker{module}.{name}: {e}"


def signatures() -> list[tuple[str, str]]:
    return [
        (c, n) for c in ("Pipeline", "data_node.DataNode", "tensors.TensorCPU", "tensors.TensorListCPU") for n in ("__init__", *methods(c))
    ]


def found(package: str, path: str) -> type:
    module, _, name = path.rpartition(".")
    value: type = getattr(importlib.import_module(f"{package}.{module}" if module else package), name)
    return value


def methods(path: str) -> list[str]:
    return [n for n, v in vars(found("nvidia.dali", path)).items() if n[0] != "_" and inspect.isfunction(v)]


@pytest.mark.parametrize(("cls", "method"), signatures())
def test_methods_take_the_arguments_of_dali(cls: str, method: str) -> None:
    try:
        theirs = inspect.signature(getattr(found("nvidia.dali", cls), method)).parameters
    except (AttributeError, ValueError):
        pytest.skip("made by C++, which tells no arguments")
    ours = inspect.signature(getattr(found("stoker", cls), method)).parameters
    named = [p.name for p in theirs.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if (cls, method) not in OTHERWISE and cls != "data_node.DataNode":  # the first arguments of a DataNode differ on purpose
        assert [n for n in named if n not in ours] == []
        positional = [p.name for p in theirs.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert [n for n in ours if n in positional] == positional


def modules(name: str = "nvidia.dali") -> list[str]:
    """Returns all modules of DALI's package, including those that cannot be imported here."""
    try:
        path = getattr(importlib.import_module(name), "__path__", [])
    except ImportError:  # the module needs a framework that is not installed
        path = []
    inner = [m.name for m in pkgutil.iter_modules(path) if not m.name.startswith(("_", "lib"))]
    return [name, *(m for i in inner for m in modules(f"{name}.{i}"))]


@pytest.mark.parametrize("module", [m.removeprefix("nvidia.dali") for m in [*modules(), "nvidia.dali.backend_impl.types"]])
def test_imports(module: str) -> None:
    """Each module path of DALI can be imported from Stoker, or the error suggests a replacement."""
    try:
        importlib.import_module(f"stoker{module}")
    except ModuleNotFoundError as e:
        assert "only DALI has it; " in str(e), str(e)


def operators(package: str, module: str = "fn") -> dict[str, object]:
    found = {}
    for group in groups(f".{module}"):
        for name, value in vars(importlib.import_module(f"nvidia.dali{group}")).items():
            if callable(value) and name[0] != "_" and of_dali(value) and "hidden" not in group:
                found[f"{group}.{name}"] = value if package == "nvidia.dali" else _ours(group, name)
    return {name: value for name, value in found.items() if value is not None}


def _ours(group: str, name: str) -> object:
    return getattr(importlib.import_module(f"stoker{group}"), name, None)


# LEFT_OUT: arguments of DALI that Stoker lacks, because it cannot read with O_DIRECT. NEEDED: arguments that are optional only in DALI, which can read an index
# in its own format instead.
LEFT_OUT = {"use_o_direct"}
NEEDED = {"annotations_file", "file_root"}


def named(function: object) -> dict[str, inspect.Parameter]:
    return {n: p for n, p in inspect.signature(function).parameters.items() if p.kind is p.KEYWORD_ONLY}  # type: ignore[arg-type]


def test_operators_arguments() -> None:
    """Functions accept DALI's arguments, and require no argument that is optional in DALI."""
    theirs, ours = operators("nvidia.dali"), operators("stoker")
    assert len(ours) > 130
    wrong = []
    for name, function in ours.items():
        takes, has = named(theirs[name]), named(function)
        if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values()):  # type: ignore[arg-type]
            continue
        wrong += [f"{name} has no {n}" for n in takes.keys() - inspect.signature(function).parameters.keys() - LEFT_OUT]  # type: ignore[arg-type]
        required = {n for n, p in has.items() if p.default is p.empty and n in takes and takes[n].default is not p.empty}
        wrong += [f"{name} asks for {n}" for n in required - NEEDED]
    assert not wrong


def test_operators_classes() -> None:
    theirs, ours = operators("nvidia.dali", "ops"), operators("stoker", "ops")
    assert len(ours) > 130
    for name, kind in ours.items():
        if not inspect.isclass(kind) or name.endswith("Compose"):
            continue
        made = kind.__new__(kind)
        for member in [m for m in dir(theirs[name]) if m[0] != "_" and m not in ("preserve", "check_outputs", "current_stream")]:
            if not hasattr(kind, member) and not member.startswith(("function_wrapper", "torch_")):
                with pytest.raises(AttributeError, match="only DALI has it"):
                    getattr(made, member)


@pytest.mark.parametrize("cls", ["TensorCPU", "TensorListCPU", "TensorGPU", "TensorListGPU"])
def test_members_of_tensors(cls: str) -> None:
    theirs, ours = found("nvidia.dali", f"tensors.{cls}"), found("stoker", f"tensors.{cls}")
    made = ours.__new__(ours) if "List" in cls else None
    for member in [m for m in dir(theirs) if m[0] != "_" and not hasattr(ours, m)]:
        if made is None:
            with pytest.raises(AttributeError, match="only DALI has it"):
                ours.__getattr__(None, member)
        else:
            with pytest.raises(AttributeError, match="only DALI has it"):
                getattr(made, member)


def test_members_of_pipelines_and_nodes() -> None:
    for cls in ("Pipeline", "data_node.DataNode"):
        theirs, ours = found("nvidia.dali", cls), found("stoker", cls)
        assert [m for m in dir(theirs) if m[0] != "_" and not hasattr(ours, m)] == []


def test_numba_answers() -> None:
    for path in ("plugin.numba", "plugin.numba.fn", "plugin.numba.fn.experimental", "experimental.numba"):
        with pytest.raises(ModuleNotFoundError, match=r"fn\.python_function takes functions that numba compiled"):
            importlib.import_module(f"stoker.{path}")
