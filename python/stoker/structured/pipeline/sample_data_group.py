# SPDX-License-Identifier: Apache-2.0
"""SampleDataGroup: the fields of a sample as a tree, with their types. "Only in Stoker" marks what NVIDIA ACCV-Lab's class of this name lacks."""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from stoker import fn, types
from stoker._arrays import refuse_masked
from stoker.data_node import DataNode
from stoker.structured.internal_helpers.check_type import check_type
from stoker.structured.internal_helpers.helper_functions import get_mapped

Name = str | int
Path = Name | Sequence[Name]
FieldMapping = Mapping[str | None, Any]


class MissingFieldError(KeyError):
    """Raised if a name or a path leads to no field, a group of another format is assigned, a mapping lacks a text, or an iterator's result lacks a field."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class FieldExistsError(MissingFieldError):
    """Raised by the methods add_* if the group already has a child of this name."""


@dataclass
class _Field:
    """A child of a group."""

    type: Any  # the type of its elements, or SampleDataGroup for a child group
    value: Any = None  # the data, the node, or the child group
    mapping: FieldMapping | None = None  # the numbers that stand for texts, or None
    ragged: bool = False  # whether samples of a batch may differ in their first extent

    @property
    def is_group(self) -> bool:
        return self.type is SampleDataGroup


class SampleDataGroup:
    """A tree of named fields. Data fields are its leaves and have a type; group fields hold further trees. Fields keep the order in which they were added.

    A tree without values is a *blueprint*: it describes the format of samples. A tree with values holds those of one sample (in a DataProvider), the nodes of
    a graph (in a processing step), or the tensors of a batch (in the result of an iterator).

        sample = SampleDataGroup()
        sample.add_data_field("image", types.UINT8)
        sample.add_data_group_field_array("cameras", camera, 6)
        sample["cameras"][0]["image"] = encoded

    Outside of a pipeline, assignment to a data field converts numbers, lists and NumPy arrays to the field's type. If the field has a mapping from texts to
    numbers, it is applied first. While a pipeline is defined, nodes are assigned, whose type must be that of the field. A group field accepts only a tree of
    its format. Only add_*, remove_*, replace_* and change_type_of_data_and_remove_data change the format.

    A group whose children have the names 0, 1, 2, ... in this order is an array. Texts (types.STRING) are uint8 tensors in a pipeline; outside of it,
    reading the field returns a str.
    """

    _type_mapping: ClassVar = {t: types.to_numpy_type(t) if t != types.BOOL else bool for t in types.NUMBERS if t != types.BFLOAT16}

    def __init__(self) -> None:
        self._fields: dict[Name, _Field] = {}
        self._do_apply_mapping = True
        self._do_convert = True
        self._do_check_type = True

    # ---- arrays ----

    @staticmethod
    def create_data_field_array(type: Any, num_fields: int, mapping: FieldMapping | None = None) -> SampleDataGroup:
        """Returns an array of `num_fields` data fields of one type."""
        made = SampleDataGroup()
        for i in range(num_fields):
            made.add_data_field(i, type, mapping)
        return made

    @staticmethod
    def create_data_group_field_array(sample_data_group: SampleDataGroup, num_fields: int) -> SampleDataGroup:
        """Returns an array of `num_fields` groups of the blueprint's format, without values."""
        made = SampleDataGroup()
        for i in range(num_fields):
            made.add_data_group_field(i, sample_data_group)
        return made

    # ---- settings of this group and all groups below it ----

    def set_apply_mapping(self, apply: bool) -> None:
        """Sets whether assignment maps texts to numbers in fields with a mapping."""
        for group in self._groups():
            group._do_apply_mapping = apply

    def set_do_convert(self, convert: bool) -> None:
        """Sets whether assignment outside of a pipeline converts to the field's type."""
        for group in self._groups():
            group._do_convert = convert

    def set_do_check_type(self, check_type: bool) -> None:
        """Sets whether a field accepts only nodes of its type. Types are compared while a pipeline is defined, not when it runs."""
        for group in self._groups():
            group._do_check_type = check_type

    def _groups(self) -> Iterator[SampleDataGroup]:
        yield self
        for field in self._fields.values():
            if field.is_group:
                yield from field.value._groups()

    # ---- copies, comparison ----

    def _copy(self, keep: bool) -> SampleDataGroup:
        made = SampleDataGroup()
        made._do_apply_mapping, made._do_convert, made._do_check_type = self._do_apply_mapping, self._do_convert, self._do_check_type
        for name, field in self._fields.items():
            value = field.value._copy(keep) if field.is_group else field.value if keep else None
            made._fields[name] = replace(field, value=value)
        return made

    def get_empty_like_self(self) -> SampleDataGroup:
        """Returns a blueprint of this format."""
        return self._copy(False)

    def get_copy(self) -> SampleDataGroup:
        """Returns a new tree whose fields refer to the same values. The values are not copied."""
        return self._copy(True)

    def type_matches(self, other: SampleDataGroup) -> bool:
        """Returns whether `other` is a tree with the same names and types of fields, in the same order, at all levels. Mappings are not compared."""
        if not isinstance(other, SampleDataGroup) or list(self._fields) != list(other._fields):
            return False
        for name, field in self._fields.items():
            theirs = other._fields[name]
            if field.type != theirs.type or (field.is_group and not field.value.type_matches(theirs.value)):
                return False
        return True

    def get_flat_index_first_discrepancy_to_other(self, other: SampleDataGroup) -> int:
        """Compares field_names_flat and field_types_flat of both trees. Returns the first index at which they differ, or the number of fields of the smaller
        tree if it is a beginning of the other; -1 if they are equal."""
        mine = list(zip(self.field_names_flat, self.field_types_flat, strict=True))
        theirs = list(zip(other.field_names_flat, other.field_types_flat, strict=True))
        if mine == theirs:
            return -1
        return next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))

    def first_difference(self, other: SampleDataGroup) -> tuple[str, str]:
        """Returns texts for the first data fields at which this tree and another one of a different format differ: (of this tree, of the other one). Only in
        Stoker."""
        at = self.get_flat_index_first_discrepancy_to_other(other)

        def shown(tree: SampleDataGroup) -> str:
            names = tree.field_names_flat
            return f"{names[at]} ({tree.field_types_flat[at]})" if 0 <= at < len(names) else "no further field"

        return shown(self), shown(other)

    # ---- values ----

    def _field(self, name: Name) -> _Field:
        if not isinstance(name, (str, int)):
            raise TypeError(f"the name of a field is a str or an int, not {type(name).__name__}")
        field = self._fields.get(name)
        if field is None:
            raise MissingFieldError(f"No field with name '{name}'; {self._child_names()}")
        return field

    def _child_names(self) -> str:
        return f"there are: {', '.join(map(str, self._fields))}" if self._fields else "there are no fields here"

    def __setitem__(self, name: Name, value: Any) -> None:
        self._set(name, value, str(name))

    def _set(self, name: Name, value: Any, shown: str) -> None:
        """Checks and converts a value and assigns it to a field. shown: the field's name in messages."""
        field = self._field(name)
        if field.is_group and isinstance(value, tuple) and field.value._is_video_frame():
            field.value._set_video_frame(value, shown)
        elif field.is_group:
            self._check_group(name, value, shown)
            field.value = value
        elif field.type == types.STRING and not isinstance(value, DataNode):
            field.value = _text_to_array(shown, value)
        else:
            field.value = self._converted(shown, field, value)

    def _check_group(self, name: Name, value: Any, shown_name: str) -> None:
        if not isinstance(value, SampleDataGroup):
            raise TypeError(f"'{shown_name}' is a group field: it takes a SampleDataGroup, not {type(value).__name__}")
        mine = self._fields[name].value
        if mine.type_matches(value):
            return
        ours, theirs = mine.first_difference(value)
        raise MissingFieldError(
            f"Tried to set the data group field '{shown_name}', but types do not match: it has {ours} where the value has {theirs}; "
            "change_type_of_data_and_remove_data changes its format"
        )

    def _converted(self, name: str, field: _Field, value: Any) -> Any:
        if isinstance(value, DataNode):
            return check_type(value, field.type, name) if self._do_check_type else value
        if self._do_apply_mapping and field.mapping is not None:
            try:
                value = get_mapped(value, field.mapping)
            except KeyError as e:
                known = ", ".join(repr(k) for k in field.mapping)
                raise MissingFieldError(
                    f"field '{name}': its mapping has no {e}; it has {known} (None would stand for all others)"
                ) from None
        if self._do_convert and isinstance(value, (list, tuple, np.ndarray, np.generic, numbers.Number)):
            try:
                return _as_type(value, np.dtype(self._type_mapping[field.type]))
            except (ValueError, TypeError, OverflowError) as e:
                raise ValueError(f"field '{name}' of {field.type}: {e}") from None
        return value

    def __getitem__(self, name: Name) -> Any:
        field = self._field(name)
        if field.type == types.STRING and not isinstance(field.value, DataNode):
            return array_to_text(field.value)
        return field.value

    def _parent_and_name(self, path: Path) -> tuple[SampleDataGroup, Name]:
        names = _names(path)
        if not names:
            raise ValueError("the empty path leads to the tree itself, which has no parent in it")
        group = self
        for depth, name in enumerate(names[:-1]):
            field = group._fields.get(name)
            if field is None or not field.is_group:
                what = "is a data field, without children" if field else f"is not there; {group._child_names()}"
                raise MissingFieldError(f"No field with name '{path_text(names)}': '{path_text(names[: depth + 1])}' {what}")
            group = field.value
        if names[-1] not in group._fields:
            where = f" at '{path_text(names[:-1])}'" if len(names) > 1 else ""
            raise MissingFieldError(f"No field with name '{names[-1]}'{where}; {group._child_names()}")
        return group, names[-1]

    def set_item_in_path(self, path: Path, value: Any) -> None:
        """Assigns to the field at a path: self[path[0]][path[1]]... = value. A path may also be a single name. Raises MissingFieldError if there is no such
        field, and ValueError for the empty path."""
        group, name = self._parent_and_name(path)
        group._set(name, value, path_text(_names(path)))

    def get_item_in_path(self, path: Path) -> Any:
        """Returns the value of the field at a path, self[path[0]][path[1]]...; for the empty path, this tree. Raises MissingFieldError if there is no such
        field."""
        if not _names(path):
            return self
        group, name = self._parent_and_name(path)
        return group[name]

    def get_parent_of_path(self, path: Path) -> SampleDataGroup:
        """Returns the group that contains the field at the path. Raises ValueError for the empty path, and MissingFieldError if there is no such field."""
        return self._parent_and_name(path)[0]

    def get_type_of_item_in_path(self, path: Path) -> Any:
        """Returns the type of the data field at a path; SampleDataGroup for a group field and for the empty path. Raises MissingFieldError if there is no such
        field."""
        if not _names(path):
            return SampleDataGroup
        group, name = self._parent_and_name(path)
        return group._fields[name].type

    @staticmethod
    def path_is_single_name(path: Path) -> bool:
        """Returns whether a path consists of a single name."""
        return isinstance(path, str) or not isinstance(path, Sequence)

    def path_exists(self, path: Path) -> bool:
        """Returns whether the path leads to a field, or is empty."""
        group: Any = self
        for name in _names(path):
            if not isinstance(group, SampleDataGroup) or name not in group._fields:
                return False
            group = group._fields[name].value if group._fields[name].is_group else None
        return True

    def path_exists_and_is_data_group_field(self, path: Path) -> bool:
        """Returns whether the path leads to a group field, or is empty."""
        return self.path_exists(path) and self.get_type_of_item_in_path(path) is SampleDataGroup

    def get_type_of_field(self, name: Name) -> Any:
        """Returns the type of a child's elements (types.STRING for texts), or SampleDataGroup if the child is a group. Raises MissingFieldError if there is no
        child of this name."""
        return self._field(name).type

    # ---- text ----

    def _lines(self, indent: int, details: bool) -> Iterator[str]:
        for name, field in self._fields.items():
            if field.is_group:
                yield f"{' ' * indent}{name}:\n{' ' * indent}{{\n"
                yield from field.value._lines(indent + 2, details)
                yield f"{' ' * indent}}}\n"
            else:
                more = f"  (is set: {field.value is not None}; mapping available: {field.mapping is not None})" if details else ""
                yield f"{' ' * indent}{name}: {field.type}{more}\n"

    def get_string_no_details(self) -> str:
        """Returns a text with a line for each field: its name and type, indented by its depth."""
        return "{\n" + "".join(self._lines(2, False)) + "}\n"

    def __str__(self) -> str:
        return "{\n" + "".join(self._lines(2, True)) + "}\n"

    # ---- children ----

    def __len__(self) -> int:
        return len(self._fields)

    def has_child(self, name: Name) -> bool:
        """Returns whether this group has a child of this name."""
        return name in self._fields

    def is_data_field(self, name: Name) -> bool:
        """Returns whether the child is a data field. Raises MissingFieldError if there is no child of this name."""
        return not self._field(name).is_group

    def is_data_group_field(self, name: Name) -> bool:
        """Returns whether the child is a group. Raises MissingFieldError if there is no child of this name."""
        return self._field(name).is_group

    def _is_array_of(self, field: Name | None, group: bool | None) -> bool:
        if field is not None:
            child = self._field(field)
            return child.is_group and child.value._is_array_of(None, group)
        in_order = list(self._fields) == list(range(len(self._fields)))
        return in_order and all(group is None or f.is_group is group for f in self._fields.values())

    def is_array(self, field: Name | None = None) -> bool:
        """Returns whether the children of this group, or of the child `field`, are named 0, 1, 2, ... in this order. False if `field` is a data field. Raises
        MissingFieldError if there is no child of that name."""
        return self._is_array_of(field, None)

    def is_data_field_array(self, field: Name | None = None) -> bool:
        """Returns whether this group, or the child `field`, is an array whose elements are all data fields. Raises MissingFieldError as is_array does."""
        return self._is_array_of(field, False)

    def is_data_group_field_array(self, field: Name | None = None) -> bool:
        """Returns whether this group, or the child `field`, is an array whose elements are all groups. Raises MissingFieldError as is_array does."""
        return self._is_array_of(field, True)

    @property
    def contained_top_level_field_names(self) -> tuple[Name, ...]:
        """Returns the names of the children, in order."""
        return tuple(self._fields)

    @property
    def field_top_level_types(self) -> tuple[Any, ...]:
        """Returns the types of the children, in order."""
        return tuple(f.type for f in self._fields.values())

    # ---- flat ----

    def _leaves(self, path: tuple[Name, ...] = ()) -> Iterator[tuple[tuple[Name, ...], _Field]]:
        """Yields the path of each data field and the field, depth first."""
        for name, field in self._fields.items():
            if field.is_group:
                yield from field.value._leaves((*path, name))
            else:
                yield (*path, name), field

    @property
    def field_names_flat(self) -> tuple[str, ...]:
        """Returns the names of all data fields, depth first. A name holds the whole path, such as "a.[0].b"."""
        return tuple(path_text(path) for path, _ in self._leaves())

    @property
    def field_types_flat(self) -> tuple[Any, ...]:
        """Returns the types of all data fields, in the order of field_names_flat. The type of a text is UINT8, because texts are passed as bytes."""
        return tuple(types.UINT8 if f.type == types.STRING else f.type for _, f in self._leaves())

    @property
    def field_ragged_flat(self) -> tuple[bool, ...]:
        """Returns for each data field, in the order of field_names_flat, whether an iterator returns a RaggedBatch for it. False for texts, which are returned
        as a list."""
        return tuple(f.ragged and f.type != types.STRING for _, f in self._leaves())

    @property
    def field_strings_flat(self) -> tuple[bool, ...]:
        """Returns for each data field, in the order of field_names_flat, whether it holds texts."""
        return tuple(f.type == types.STRING for _, f in self._leaves())

    def get_data(self, as_list_type: bool = False) -> Any:
        """Returns the values of all data fields as a tuple, or as a list with as_list_type, in the order of field_names_flat. The value of a text is a uint8
        array of its bytes."""
        values = [f.value for _, f in self._leaves()]
        return values if as_list_type else tuple(values)

    def set_data(self, data: Sequence[Any]) -> None:
        """Sets the values of all data fields, without conversion, in the order of get_data. Raises ValueError if their number is wrong."""
        leaves = list(self._leaves())
        if len(data) != len(leaves):
            names = ", ".join(path_text(path) for path, _ in leaves)
            raise ValueError(f"{len(data)} values for {len(leaves)} data fields: {names}")
        for (_, field), value in zip(leaves, data, strict=True):
            field.value = value

    def set_data_from_dali_generic_iterator_output(self, data: Sequence[Mapping[str, Any]], index: int) -> None:
        """Sets the values of all data fields from a result of DALI's generic iterator: `data` has one dict for each pipeline, and data[index] maps the names of
        field_names_flat to values. Raises MissingFieldError if a name is missing."""
        given = data[index]
        if missing := [name for name in self.field_names_flat if name not in given]:
            raise MissingFieldError(f"the iterator gave no '{missing[0]}'; it gave: {', '.join(given)}")
        self.set_data([given[name] for name in self.field_names_flat])

    def to_dictionary(self) -> dict[Name, Any]:
        """Returns the tree as nested dicts. Texts are str."""
        return {name: field.value.to_dictionary() if field.is_group else self[name] for name, field in self._fields.items()}

    # ---- format ----

    def _add(self, name: Name, field: _Field) -> None:
        if not isinstance(name, (str, int)):
            raise TypeError(f"the name of a field is a str or an int, not {type(name).__name__}")
        if name in self._fields:
            raise FieldExistsError(f"Field '{name}' cannot be added as it already exists; {self._child_names()}")
        self._fields[name] = field

    def add_data_field(self, name: Name, type: Any, mapping: FieldMapping | None = None, ragged: bool = False) -> None:
        """Adds a data field. Raises FieldExistsError if there is a child of this name.

        type: the type of its elements; types.STRING for a text. mapping: a dict from texts to numbers. It is applied if a text, or nested sequences of texts,
        are assigned outside of a pipeline; texts without an entry get the value of the key None. ragged (only in Stoker): samples of a batch may differ in
        their first extent, and the iterator always returns a RaggedBatch for the field.
        """
        if isinstance(type, SampleDataGroup) or type is SampleDataGroup:
            raise AssertionError(f"field '{name}': add_data_group_field adds groups; add_data_field takes the type of elements")
        kind = types.to_dtype(type)
        if kind == types.STRING and mapping is not None:
            raise AssertionError(f"field '{name}': a text is kept as it is; a field with a mapping has the type that texts are mapped to")
        if kind != types.STRING and kind not in self._type_mapping:
            raise ValueError(f"field '{name}': NumPy has no type for {kind}")
        self._add(name, _Field(kind, mapping=mapping, ragged=ragged))

    def add_data_group_field(self, name: Name, blueprint_sample_data_group: SampleDataGroup) -> None:
        """Adds a group of the blueprint's format, without values. Raises FieldExistsError if there is a child of this name."""
        if not isinstance(blueprint_sample_data_group, SampleDataGroup):
            raise TypeError(f"field '{name}': a group field takes a SampleDataGroup, not {type(blueprint_sample_data_group).__name__}")
        group = blueprint_sample_data_group.get_empty_like_self()
        group.set_apply_mapping(self._do_apply_mapping)
        group.set_do_convert(self._do_convert)
        self._add(name, _Field(SampleDataGroup, group))

    def add_video_frame_field(self, name: Name, by_time: bool = False) -> None:
        """Adds a field for a frame of a video, which ImageDecoder decodes to an image. Only in Stoker.

        The field is a group with the fields "video", a path, and "frame", the index of the frame, from 0 on. With by_time, the second field is "seconds", the
        time at which the frame is shown. A tuple can be assigned to the group: sample["image"] = ("walk.mp4", 17).
        """
        group = SampleDataGroup()
        group.add_data_field("video", types.STRING)
        group.add_data_field(*(("seconds", types.FLOAT64) if by_time else ("frame", types.INT32)))
        self.add_data_group_field(name, group)

    def is_video_frame_field(self, name: Name) -> bool:
        """Returns whether a child is a group like those that add_video_frame_field adds. Only in Stoker."""
        field = self._field(name)
        return field.is_group and field.value._is_video_frame()

    def _is_video_frame(self) -> bool:
        kinds = [(name, field.type) for name, field in self._fields.items()]
        return kinds in ([("video", types.STRING), ("frame", types.INT32)], [("video", types.STRING), ("seconds", types.FLOAT64)])

    def _set_video_frame(self, value: tuple[Any, ...], shown: str) -> None:
        _, at = self._fields
        if len(value) != 2 or not isinstance(value[0], (str, os.PathLike)) or isinstance(value[1], bool):
            raise TypeError(f"field '{shown}' takes a path of a video and {'a frame' if at == 'frame' else 'a time'}, not {value!r}")
        if at == "frame" and not isinstance(value[1], numbers.Integral):
            raise TypeError(
                f"field '{shown}' takes the number of a frame, not {value[1]!r}; add_video_frame_field(by_time=True) makes a field for times"
            )
        self["video"] = os.fspath(value[0])
        self[at] = value[1]

    def replace_video_frame_field(self, path: Path) -> None:
        """Replaces a video frame field by a data field of type UINT8 for the frame's image, at the same position among the fields. Only in Stoker."""
        group, name = self._parent_and_name(path)
        if not group.is_video_frame_field(name):
            raise AssertionError(f"'{path_text(_names(path))}' is not a frame of a video")
        group._fields[name] = _Field(types.UINT8)

    def add_data_field_array(self, name: Name, type: Any, num_fields: int, mapping: FieldMapping | None = None) -> None:
        """Adds a group of `num_fields` data fields of one type, with the names 0, 1, 2, ..."""
        self.add_data_group_field(name, self.create_data_field_array(type, num_fields, mapping))

    def add_data_group_field_array(self, name: Name, blueprint_sample_data_group: SampleDataGroup, num_fields: int) -> None:
        """Adds a group of `num_fields` groups of the blueprint's format, with the names 0, 1, 2, ..."""
        self.add_data_group_field(name, self.create_data_group_field_array(blueprint_sample_data_group, num_fields))

    def remove_field(self, name: Name) -> None:
        """Removes a child. Raises MissingFieldError if there is no child of this name."""
        if name not in self._fields:
            raise MissingFieldError(f"Cannot delete field '{name}' as it is not present; {self._child_names()}")
        del self._fields[name]

    def remove_all_occurrences(self, name_to_remove: Name) -> None:
        """Removes all fields with this name from this group and all groups below it."""
        for group in list(self._groups()):
            group._fields.pop(name_to_remove, None)

    def find_all_occurrences(self, name_to_find: Name) -> list[tuple[Name, ...]]:
        """Returns the paths of all fields with this name, in this group and all groups below it."""
        found: list[tuple[Name, ...]] = [(name_to_find,)] if name_to_find in self._fields else []
        for name, field in self._fields.items():
            if field.is_group:
                found += [(name, *path) for path in field.value.find_all_occurrences(name_to_find)]
        return found

    def get_num_occurrences(self, name_to_find: Name) -> int:
        """Returns the number of fields with this name, in this group and all groups below it."""
        return len(self.find_all_occurrences(name_to_find))

    def change_type_of_data_and_remove_data(self, path: Path, new_type: Any, new_mapping: FieldMapping | None = None) -> None:
        """Changes the type of a field and removes its values. new_type: for a data field, the type of its elements; for a group, a blueprint of its format.
        new_mapping: the mapping of a data field; see add_data_field."""
        group, name = self._parent_and_name(path)
        field = group._fields[name]
        if isinstance(new_type, SampleDataGroup) != field.is_group:
            raise AssertionError(f"'{path_text(_names(path))}': a data field stays a data field, and a group field a group field")
        if not field.is_group:
            made = SampleDataGroup()
            made.add_data_field(name, new_type, new_mapping, field.ragged)
            group._fields[name] = made._fields[name]
            return
        if new_mapping is not None:
            raise AssertionError(f"'{path_text(_names(path))}' is a group field: mappings are those of data fields")
        blueprint = new_type.get_empty_like_self()
        blueprint.set_apply_mapping(group._do_apply_mapping)
        blueprint.set_do_convert(group._do_convert)
        blueprint.set_do_check_type(group._do_check_type)
        field.value = blueprint

    def set_ragged(self, path: Path, ragged: bool = True) -> None:
        """Sets whether samples of a batch may differ in the first extent of a field: the argument `ragged` of add_data_field. Only in Stoker."""
        group, name = self._parent_and_name(path)
        group._fields[name].ragged = ragged

    def is_ragged(self, path: Path) -> bool:
        """Returns whether samples of a batch may differ in the first extent of a field. Only in Stoker."""
        group, name = self._parent_and_name(path)
        return group._fields[name].ragged

    def take_ragged(self, other: SampleDataGroup) -> None:
        """Copies the flag `ragged` of each data field from another tree of the same format. Only in Stoker."""
        for (_, field), (_, theirs) in zip(self._leaves(), other._leaves(), strict=True):
            field.ragged = theirs.ragged

    # ---- in a definition ----

    def ensure_uniform_size_in_batch(self, fill_value: float) -> None:
        """Pads the values of all data fields with fill_value, and texts with zeros, to the largest extents in the batch, as fn.pad does. Call while a pipeline is
        defined."""
        for _, field in self._leaves():
            field.value = fn.pad(field.value, fill_value=0 if field.type == types.STRING else fill_value)
            field.ragged = False

    def ensure_uniform_size_in_batch_for_all_strings(self) -> None:
        """Pads all texts with zeros to the length of the longest one in the batch. Reading a text outside of the pipeline removes the zeros."""
        for _, field in self._leaves():
            if field.type == types.STRING:
                field.value = fn.pad(field.value, fill_value=0)

    @staticmethod
    def get_numpy_type_for_dali_type(dali_type: Any) -> Any:
        """Returns the NumPy type of a DALI type. Raises ValueError if NumPy has none."""
        kind = types.to_dtype(dali_type)
        if kind not in SampleDataGroup._type_mapping:
            raise ValueError(f"The DALI type ({kind}) does not have a corresponding numpy type")
        return SampleDataGroup._type_mapping[kind]

    def check_has_children(
        self,
        data_field_children: Sequence[Name] | Name | None = None,
        data_group_field_children: Sequence[Name] | Name | None = None,
        data_field_array_children: Sequence[Name] | Name | None = None,
        data_group_field_array_children: Sequence[Name] | Name | None = None,
        current_name: str | None = None,
    ) -> None:
        """Raises ValueError unless this group has all of these children, and each is a data field, a group, an array of data fields or an array of groups, as
        the argument's name says. current_name: the name of this group in the message."""
        here = f"Data group field '{current_name}'" if current_name is not None else "The data group field"
        wanted = (
            (data_field_children, self.is_data_field, "a data field"),
            (data_group_field_children, self.is_data_group_field, "a data group field"),
            (data_field_array_children, self.is_data_field_array, "a data field array"),
            (data_group_field_array_children, self.is_data_group_field_array, "a data group field array"),
        )
        for children, is_one, what in wanted:
            for name in [children] if isinstance(children, (str, int)) else children or []:
                if not self.has_child(name):
                    raise ValueError(f"{here} does not have child '{name}'; {self._child_names()}")
                if not cast(Any, is_one)(name):
                    raise ValueError(f"{here}: child '{name}' is not {what}")


def _names(path: Path) -> tuple[Name, ...]:
    if isinstance(path, (str, int)):
        return (path,)
    if not isinstance(path, (tuple, list)):
        raise TypeError(f"a path is a name, or a tuple or list of names, not {type(path).__name__}")
    return tuple(path)


def path_text(path: Sequence[Name]) -> str:
    """Returns a path as text, such as "a.[0].b"."""
    return ".".join(name if isinstance(name, str) else f"[{name}]" for name in path)


def _as_type(value: Any, wanted: np.dtype[Any]) -> Any:
    """Returns np.asarray(value, wanted). Raises ValueError if the type cannot hold a number: NumPy would silently convert it to another number."""
    refuse_masked(value)
    given = np.asarray(value)
    if given.dtype.kind == "c":
        raise ValueError(f"{wanted} cannot hold complex numbers: store their real and imaginary parts, as np.stack((x.real, x.imag), -1)")
    if np.can_cast(given.dtype, wanted) or not given.size:
        return np.asarray(value, dtype=wanted)
    if wanted.kind == "b":
        return _as_bools(given)
    if given.dtype.kind == "O" and wanted.kind in "iu":
        return _whole(given, given.astype(wanted), wanted)
    if given.dtype.kind not in "iuf":
        return np.asarray(value, dtype=wanted)
    bounds: Any = np.finfo(wanted) if wanted.kind == "f" else np.iinfo(wanted)
    if wanted.kind == "f":
        bad = np.isfinite(given) & (np.abs(given) > bounds.max)
    elif given.dtype.kind == "f":  # a negated comparison, because it is true for NaN too, which no integer type can hold
        wide = given.astype(np.promote_types(given.dtype, np.float64))  # bounds of 64 bits are infinite in float16, so that -inf would pass
        bad = ~((wide >= float(bounds.min)) & (wide < float(int(bounds.max) + 1)))
    else:
        bad = (given < bounds.min) | (given > bounds.max)
    if bad.any():
        raise ValueError(f"{given[bad].flat[0]} is outside of what {wanted} can hold, {bounds.min} to {bounds.max}")
    made = given.astype(wanted)
    return _whole(given, made, wanted) if given.dtype.kind == "f" and wanted.kind in "iu" else made


def _whole(given: Any, made: Any, wanted: np.dtype[Any]) -> Any:
    """Returns `made`, whole numbers that NumPy made of `given`. Raises ValueError if it cut fractions off."""
    cut = made != given
    if cut.any():
        raise ValueError(
            f"{given[cut].flat[0]} is no whole number, and {wanted} holds only these: round it, or make it a field of types.FLOAT"
        )
    return made


def _as_bools(given: Any) -> Any:
    """Returns an array of numbers or objects as bool. Raises ValueError unless all are 0, 1, True or False: NumPy makes True of 2, of NaN and of "no"."""
    fits = (given == 0) | (given == 1) if given.dtype.kind in "iufO" else np.zeros(given.shape, bool)
    if not fits.all():
        raise ValueError(f"{given[~fits].flat[0]!r} is none of True, False, 1 and 0: give `value != 0` if other numbers mean True")
    return given.astype(bool)


def _text_to_array(name: str, value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"field '{name}' takes a str, not {type(value).__name__}")
    try:
        return np.frombuffer(value.encode(), dtype=np.uint8)
    except UnicodeEncodeError:  # as in the path of a file whose name is not UTF-8
        raise ValueError(f"field '{name}' takes a str that can be encoded as UTF-8, not {value!r}") from None


def array_to_text(value: Any) -> Any:
    """Converts an array of bytes to a str, and an array with more dims to nested lists of str. Drops zeros at the end, which are padding."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return [array_to_text(v) for v in value]
    if not isinstance(value, np.ndarray):  # a tensor of torch, which has cpu(), or of CuPy, which has get()
        value = np.asarray(value.cpu() if hasattr(value, "cpu") else value.get() if hasattr(value, "get") else value)
    if value.ndim > 1:
        return [array_to_text(v) for v in value]
    return value.tobytes().rstrip(b"\0").decode()
