# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from stoker import fn, types
from stoker._where import at_path
from stoker.structured.pipeline.sample_data_group import SampleDataGroup, path_text
from stoker.structured.processing_steps._images import image_size
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, find_fields, require_data_field


class TensorSizeAdder(PipelineStepBase):
    """Adds a field with height and width next to each image (HWC) with the given name. The field's name is that of the image with size_postfix appended.
    store_size_as_type: the type of the field."""

    def __init__(self, tensor_name: str, size_postfix: str, store_size_as_type: Any = types.DALIDataType.INT32) -> None:
        self._tensor_name = tensor_name
        self._size_name = tensor_name + size_postfix
        self._type = types.to_dtype(store_size_as_type)

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        for path in data.find_all_occurrences(self._tensor_name):
            group = data.get_parent_of_path(path)
            with at_path(path_text(path)):
                size = image_size(group[self._tensor_name])
                hw = fn.stack(size[0], size[1])  # unlike a slice, an index is refused for a tensor of one dim, such as the bytes of a file
            group.add_data_field(self._size_name, self._type)
            group[self._size_name] = fn.cast(hw, dtype=self._type)
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for path in find_fields(data_empty, self._tensor_name, "tensors"):
            require_data_field(data_empty, path, "an image")
            data_empty.get_parent_of_path(path).add_data_field(self._size_name, self._type)
        return data_empty
