# SPDX-License-Identifier: Apache-2.0
"""PipelineStepBase: base class of processing steps, and functions that steps use to find and change fields."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stoker import types
from stoker._branches import converted
from stoker._build import current_builder
from stoker._where import at_path, in_step
from stoker.structured.pipeline.sample_data_group import SampleDataGroup, path_text


class PipelineStepBase(ABC):
    """A step receives the tree of a sample and returns the tree for the next step. Users subclass this class to write their own steps.

    A subclass defines two methods. _process is called once, while the pipeline is defined: it finds fields by their names and adds operators (stoker.fn) to the
    graph. When the pipeline runs, only these operators run. _check_and_adjust_data_format_input_to_output makes the same changes to a tree without values.

    A step that draws random numbers draws them once for all fields that it finds. To draw separately for each part of the tree, wrap the step in a subclass of
    GroupToApplyToSelectedStepBase.
    """

    def __call__(self, data: SampleDataGroup) -> SampleDataGroup:
        """Applies the step. Raises an error if the result does not have the format that _check_and_adjust_data_format_input_to_output returned."""
        wanted = self.check_input_data_format_and_set_output_data_format(data)
        process = converted(self._process) if current_builder().conditionals else self._process
        with in_step(type(self).__name__):
            processed = self._returned("_process", process(data))
        if not processed.type_matches(wanted):
            announced, returned = wanted.first_difference(processed)
            raise AssertionError(
                f"{type(self).__name__}: _process returned a tree that is not of the format that "
                f"_check_and_adjust_data_format_input_to_output announced: {returned} in place of {announced}\n"
                f"announced:\n{wanted.get_string_no_details()}returned:\n{processed.get_string_no_details()}"
            )
        processed.take_ragged(wanted)
        return processed

    @abstractmethod
    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        """Adds the step's operators to the graph, and returns the tree with the results. It may change `data`."""

    def check_input_data_format_and_set_output_data_format(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        """Returns the format of the step's output for the input format data_empty, which it does not change. Raises an error if the step cannot be applied."""
        name = "_check_and_adjust_data_format_input_to_output"
        return self._returned(name, self._check_and_adjust_data_format_input_to_output(data_empty.get_empty_like_self()))

    def _returned(self, method: str, value: Any) -> SampleDataGroup:
        """Returns the value that a method of a derived class has returned. Raises TypeError if it is not a tree."""
        if not isinstance(value, SampleDataGroup):
            raise TypeError(
                f"{type(self).__name__}.{method} returned {type(value).__name__}: it has to return the tree, as by `return data`"
            )
        return value

    @abstractmethod
    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        """Checks that the step can be applied to this format, and returns the format after it. It may change `data_empty`."""


def change_fields(
    data: SampleDataGroup, names: Iterable[str | int], change: Callable[[Any], Any], new_type: types.DALIDataType | None = None
) -> None:
    """Replaces the value of each field with one of these names by change(value). new_type: the type of the results, if it differs from the fields'. Errors of
    the operators that `change` adds name the path of the field."""
    for path in dict.fromkeys(path for name in names for path in data.find_all_occurrences(name)):
        with at_path(path_text(path)):
            made = change(data.get_item_in_path(path))
        if new_type is not None:
            data.change_type_of_data_and_remove_data(path, new_type)
        data.set_item_in_path(path, made)


def place_of(path: Sequence[str | int], names: Iterable[str | int]) -> str:
    """Returns the text by which at_path names the inputs of an operator in errors: "path (name, name)". path: the path of a group. names: the fields of the
    group that the operator reads, in the order of its inputs."""
    return f"{path_text(path) or 'the top'} ({', '.join(map(str, names))})"


def find_fields(data: SampleDataGroup, name: str | int, what: str, error: type[Exception] = KeyError) -> list[tuple[str | int, ...]]:
    """Returns the paths of all fields with this name. If no field has it, raises `error` with a message that lists all fields. what: a plural that describes
    the fields in this message."""
    paths = data.find_all_occurrences(name)
    if not paths:
        known = ", ".join(data.field_names_flat) or "none"
        raise error(f"No occurrences of {what} found under the name '{name}', as specified in the constructor. The fields are: {known}")
    return paths


def require_data_field(data: SampleDataGroup, path: tuple[str | int, ...], what: str) -> None:
    """Raises ValueError if the field at a path is a group. what: the field that is expected instead, for the message."""
    if data.get_type_of_item_in_path(path) is SampleDataGroup:
        raise ValueError(f"'{path_text(path)}' is a group of fields, where {what} is expected")
