# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

from stoker.structured.pipeline.sample_data_group import SampleDataGroup
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase


class UnneededFieldRemover(PipelineStepBase):
    """Removes all fields with these names from the tree. Operators whose results are needed only for removed fields do not run."""

    def __init__(self, unneeded_field_names: Sequence[str | int]) -> None:
        if not isinstance(unneeded_field_names, (tuple, list)):
            raise AssertionError(f"unneeded_field_names has to be a tuple or a list, not {type(unneeded_field_names).__name__}")
        self._names = unneeded_field_names

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        for name in self._names:
            data.remove_all_occurrences(name)
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        return self._process(data_empty)
