# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

from stoker import fn
from stoker._where import at_path
from stoker.structured.pipeline.sample_data_group import SampleDataGroup, path_text
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, find_fields, place_of


class ConditionalElementRemover(PipelineStepBase):
    """Removes the elements for which a mask is false from the annotations with the given name.

    An annotation is a group of fields. mask_field_name: its field with a bool for each element. field_names_to_process: its fields from which elements are
    removed; field_dims_to_process: for each of these fields, the dim along which its elements lie; fields_to_process_num_dims: for each, its number of dims.
    remove_mask_field: whether to remove the mask after the step.
    """

    def __init__(
        self,
        annotation_field_name: str | int,
        mask_field_name: str | int,
        field_names_to_process: Sequence[str | int],
        field_dims_to_process: Sequence[int],
        fields_to_process_num_dims: Sequence[int],
        remove_mask_field: bool,
    ) -> None:
        for name, values in (("field_dims_to_process", field_dims_to_process), ("fields_to_process_num_dims", fields_to_process_num_dims)):
            if len(values) != len(field_names_to_process):
                raise AssertionError(
                    f"Number of elements in `field_names_to_process` and `{name}` do not match: {len(field_names_to_process)} and {len(values)}"
                )
        for field, dim, dims in zip(field_names_to_process, field_dims_to_process, fields_to_process_num_dims, strict=True):
            if not 0 <= dim < dims:
                raise AssertionError(f"field '{field}' has {dims} dims by fields_to_process_num_dims, and elements along dim {dim}")
        self._annotation = annotation_field_name
        self._mask = mask_field_name
        self._names, self._dims = list(field_names_to_process), [int(d) for d in field_dims_to_process]
        self._num_dims = list(fields_to_process_num_dims)
        self._remove_mask = remove_mask_field

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        for path in data.find_all_occurrences(self._annotation):
            group = data.get_item_in_path(path)
            for name, dims in zip(self._names, self._num_dims, strict=True):
                known = group[name]._builder.describe(group[name].ref)[1]
                if known not in (-1, dims):
                    raise ValueError(f"'{path_text((*path, name))}' has {known} dims, and {dims} by fields_to_process_num_dims")
            dims_of = dict(zip(self._names, self._dims, strict=True))
            for device in dict.fromkeys(group[name].device for name in self._names):  # one call per device, so that no field is copied
                names = [name for name in self._names if group[name].device == device]
                with at_path(place_of(path, [self._mask, *names])):
                    kept = fn.boolean_mask(group[self._mask], *(group[name] for name in names), axes=[dims_of[name] for name in names])
                for name, value in zip(names, kept if isinstance(kept, list) else [kept], strict=True):
                    group[name] = value
            if self._remove_mask:
                group.remove_field(self._mask)
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for path in find_fields(data_empty, self._annotation, "annotations"):
            group = data_empty.get_item_in_path(path)
            if not isinstance(group, SampleDataGroup):
                raise ValueError(f"'{path_text(path)}' is a data field, where an annotation is a group of fields")
            for name in [*self._names, self._mask]:
                if not group.has_child(name):
                    known = ", ".join(map(str, group.contained_top_level_field_names))
                    raise KeyError(f"No field '{name}' in annotation at path '{path_text(path)}'; there are: {known}")
            for name, dim in zip(self._names, self._dims, strict=True):
                group.set_ragged(name, dim == 0)
            if self._remove_mask:
                group.remove_field(self._mask)
        return data_empty
