# SPDX-License-Identifier: Apache-2.0
"""Every name of DALI's modules is here, or says what to do instead; arguments of classes and functions are DALI's."""

from __future__ import annotations

import importlib
import inspect
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
# Parameters in another spelling: positional ones that Stoker takes as *args, **kwargs.
OTHERWISE = {("Pipeline", "__init__"), ("Pipeline", "save_graph_to_dot_file")}


def of_dali(value: object) -> bool:
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return not isinstance(home, str) or home.startswith("nvidia.dali")


def groups(module: str) -> list[str]:
    """A module of operators, and the groups in it."""
    found = importlib.import_module(f"nvidia.dali{module}")
    nested = [
        n for n, v in sorted(vars(found).items()) if isinstance(v, ModuleType) and v.__name__ == f"{found.__name__}.{n}" and n[0] != "_"
    ]
    return [module, *(g for n in nested for g in groups(f"{module}.{n}"))]


@pytest.mark.parametrize("module", [g for m in MODULES for g in (groups(m) if m in (".fn", ".ops") else [m])])
def test_names(module: str) -> None:
    theirs = importlib.import_module(f"nvidia.dali{module}")
    if module.rpartition(".")[2] == "hidden":
        return
    ours = importlib.import_module(f"stoker{module}")
    listed = getattr(theirs, "__all__", None) or [n for n, v in vars(theirs).items() if n[0] != "_" and of_dali(v)]
    assert listed or module in ("", ".plugin", ".experimental", ".auto_aug")
    for name in set(listed) - {"hidden"}:
        try:
            getattr(ours, name)
        except AttributeError as e:
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
def test_arguments(cls: str, method: str) -> None:
    try:
        theirs = inspect.signature(getattr(found("nvidia.dali", cls), method)).parameters
    except (AttributeError, ValueError):
        pytest.skip("made by C++, which tells no arguments")
    ours = inspect.signature(getattr(found("stoker", cls), method)).parameters
    named = [p.name for p in theirs.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if (cls, method) not in OTHERWISE and cls != "data_node.DataNode":  # its first arguments are its own
        assert [n for n in named if n not in ours] == []
        positional = [p.name for p in theirs.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert [n for n in ours if n in positional] == positional
