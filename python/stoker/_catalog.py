# SPDX-License-Identifier: Apache-2.0
"""Descriptions of all operators and their arguments, from the library's tables."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from stoker import _core
from stoker import _types as types


class ArgKind(IntEnum):
    """Types of arguments. The numbers are those of enum stk_arg_type."""

    BOOL = 0
    INT = 1
    FLOAT = 2
    STRING = 3
    DTYPE = 4
    IMAGE_TYPE = 5
    INTERP = 6
    INTS = 7
    FLOATS = 8
    STRINGS = 9


_ENUMS = {
    ArgKind.DTYPE: types.DALIDataType,
    ArgKind.IMAGE_TYPE: types.DALIImageType,
    ArgKind.INTERP: types.DALIInterpType,
}


@dataclass(frozen=True)
class Arg:
    """One argument of an operator."""

    name: str
    type: str
    kind: ArgKind
    flags: int
    default_text: str | None
    choices: str | None
    min: float
    max: float
    doc: str

    @property
    def per_sample(self) -> bool:
        return bool(self.flags & 1)

    @property
    def required(self) -> bool:
        return bool(self.flags & 2)

    @property
    def accepted_only(self) -> bool:
        return bool(self.flags & 4)

    @property
    def scalar_ok(self) -> bool:
        return bool(self.flags & 8)

    @property
    def shaped(self) -> bool:
        return bool(self.flags & 16)

    @property
    def per_frame(self) -> bool:
        return bool(self.flags & 32)

    @property
    def infinite(self) -> bool:
        return bool(self.flags & 64)

    @property
    def nan(self) -> bool:
        return bool(self.flags & 128)

    @property
    def default(self) -> Any:
        """Returns the default as a Python value; None if the argument has no default."""
        value = None if self.default_text is None else json.loads(self.default_text)
        enum = _ENUMS.get(self.kind)
        return enum(value) if enum is not None and isinstance(value, int) else value


_HIDDEN = 8  # a flag of an operator that users do not call


@dataclass(frozen=True)
class Op:
    """The library's description of an operator. layouts: those that the first input may have, separated by spaces; "" for no limit."""

    name: str
    alias: str | None
    doc: str
    layouts: str
    tolerance: str | None
    flags: int
    min_inputs: int
    max_inputs: int
    outputs: int
    args: tuple[Arg, ...]

    @property
    def reader(self) -> bool:
        return bool(self.flags & 1)

    @property
    def random(self) -> bool:
        return bool(self.flags & 2)

    @property
    def batch(self) -> bool:
        return bool(self.flags & 4)

    @property
    def hidden(self) -> bool:
        return bool(self.flags & _HIDDEN)

    @functools.cached_property
    def by_name(self) -> dict[str, Arg]:
        return {a.name: a for a in self.args}


def _arg(raw: dict[str, Any]) -> Arg:
    return Arg(
        raw["name"],
        raw["type"],
        ArgKind(raw["kind"]),
        raw["flags"],
        raw["default"],
        raw["choices"],
        raw["min"],
        raw["max"],
        raw["doc"] or "",
    )


@functools.cache
def _tables() -> dict[str, dict[str, Any]]:
    """Returns a dict from operators' names to the library's tables. Making an Op of each would be slow, and a program needs few operators."""
    return {raw["name"]: raw for raw in _core.catalog()}


@functools.cache
def _op(name: str) -> Op:
    raw = _tables()[name]
    return Op(
        name,
        raw["alias"],
        raw["doc"] or "",
        raw["layouts"] or "",
        raw["tolerance"],
        raw["flags"],
        raw["min_inputs"],
        raw["max_inputs"],
        raw["outputs"],
        tuple(_arg(a) for a in raw["args"]),
    )


@functools.cache
def operators() -> dict[str, Op]:
    """Returns all operators by name, including hidden ones."""
    return {name: _op(name) for name in _tables()}


def public_names() -> list[str]:
    """Returns the names of the operators that users call, and their legacy names."""
    return [name for name, raw in _tables().items() if not raw["flags"] & _HIDDEN] + list(aliases())


# Older names of operators that DALI still accepts, in addition to those in the library's tables.
_OLDER = {
    "coco_reader": "readers.coco",
    "experimental.debayer": "debayer",
    "experimental.inflate": "decoders.inflate",
    "experimental.peek_image_shape": "peek_image_shape",
    "experimental.resize": "resize",
    "experimental.tensor_resize": "tensor_resize",
    "fast_resize_crop_mirror": "resize_crop_mirror",
    "numpy_reader": "readers.numpy",
    "tfrecord_reader": "readers.tfrecord",
    "transform_translation": "transforms.translation",
    **{f"experimental.decoders.{name}": f"decoders.{name}" for name in ("image", "image_crop", "image_random_crop", "image_slice")},
}


@functools.cache
def aliases() -> dict[str, str]:
    """Returns a dict from DALI's legacy names to present names, of the operators that Stoker has."""
    tables = _tables()
    older = {alias: name for alias, name in _OLDER.items() if name in tables and alias not in tables}
    return older | {raw["alias"]: name for name, raw in tables.items() if raw["alias"]}


def find(name: str) -> Op | None:
    """Returns the operator with this name or legacy name; None if there is none."""
    known = name if name in _tables() else aliases().get(name)
    return None if known is None else _op(known)
