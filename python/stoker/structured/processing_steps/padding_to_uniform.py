# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

from stoker import fn, types
from stoker._where import at_path
from stoker.structured.pipeline.sample_data_group import SampleDataGroup, path_text
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, find_fields


class PaddingToUniform(PipelineStepBase):
    """Pads fields at the end of their dims to the largest extents of the batch.

    field_names: the fields to pad; None: all. If a name is that of a group, all fields in the group are padded. fill_value: the value of the padding. Texts
    are padded with zeros, which are removed when they are read.
    """

    def __init__(self, field_names: str | int | Sequence[str | int] | None = None, fill_value: float = 0.0) -> None:
        self._names = [field_names] if isinstance(field_names, (str, int)) else field_names
        self._fill_value = fill_value

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        if self._names is None:
            data.ensure_uniform_size_in_batch(self._fill_value)
        for name in self._names or []:
            for path in data.find_all_occurrences(name):
                field = data.get_item_in_path(path)
                if isinstance(field, SampleDataGroup):
                    field.ensure_uniform_size_in_batch(self._fill_value)
                else:
                    fill_value = 0 if data.get_type_of_item_in_path(path) == types.STRING else self._fill_value
                    with at_path(path_text(path)):
                        data.set_item_in_path(path, fn.pad(field, fill_value=fill_value))
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for name in self._names or []:
            find_fields(data_empty, name, "fields to be padded", ValueError)
        names = set(self._names or [])
        for path, field in data_empty._leaves():
            field.ragged &= not (self._names is None or names & set(path))
        return data_empty
