# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

from stoker import fn
from stoker.structured.pipeline.sample_data_group import SampleDataGroup
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, change_fields, find_fields, require_data_field


class AxesLayoutSetter(PipelineStepBase):
    """Sets the layout, the names of the axes ("HWC", "CHW", ...), of all fields with the given name or names. Their values do not change."""

    def __init__(self, names_fields_to_set: str | int | Sequence[str | int], layout_to_set: str) -> None:
        names = names_fields_to_set
        self._names = [names] if isinstance(names, (str, int)) else list(names)
        self._layout = layout_to_set

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        change_fields(data, self._names, lambda field: fn.reshape(field, layout=self._layout))
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for name in self._names:
            for path in find_fields(data_empty, name, "fields"):
                require_data_field(data_empty, path, "a data field")
        return data_empty
