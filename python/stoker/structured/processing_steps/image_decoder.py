# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker import fn, types
from stoker._where import at_path
from stoker.pipeline import Pipeline
from stoker.structured.pipeline.sample_data_group import SampleDataGroup, path_text
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, find_fields

if TYPE_CHECKING:
    from stoker.data_node import DataNode


class ImageDecoder(PipelineStepBase):
    """Decodes all images with the given name to uint8 images (HWC). The field holds the bytes of an image file, or is a frame of a video
    (SampleDataGroup.add_video_frame_field).

    use_device_mixed: whether the results are on the GPU, if the pipeline has one. Image files are then decoded on the GPU; so are frames of videos, if the
    GPU's video decoder supports them, else on the cores. as_bgr: the order of the channels is blue, green, red. hw_decoder_load has no effect. video_decoders:
    how many open decoders each field of video frames keeps. An open decoder can decode the next frame of its video from one packet, without decoding from the
    last key frame again. By default there is one decoder for each sample of a batch, which suits batches that go through videos frame by frame
    (SequenceSampler); for samples in random order, 1 is enough. A decoder needs memory for about 10 frames.
    """

    def __init__(
        self,
        image_name: str,
        use_device_mixed: bool,
        hw_decoder_load: float = 0.65,
        as_bgr: bool = False,
        video_decoders: int | None = None,
    ) -> None:
        self._image_name = image_name
        self._use_device_mixed = use_device_mixed
        self._as_bgr = as_bgr
        self._video_decoders = video_decoders

    def _frame(self, group: SampleDataGroup) -> DataNode:
        pipe = Pipeline.current()
        assert pipe is not None
        video, at = group.get_data()
        device = "gpu" if self._use_device_mixed and pipe.device_id is not None else "cpu"
        image: DataNode = fn.io.video.frame(video, at, decoders=self._video_decoders or pipe.batch_size, device=device)
        return fn.color_space_conversion(image, image_type=types.RGB, output_type=types.BGR) if self._as_bgr else image

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        device, kind = "mixed" if self._use_device_mixed else "cpu", types.BGR if self._as_bgr else types.RGB
        for path in data.find_all_occurrences(self._image_name):
            given = data.get_item_in_path(path)
            with at_path(path_text(path)):
                is_frame = data.get_type_of_item_in_path(path) is SampleDataGroup
                made = self._frame(given) if is_frame else fn.decoders.image(given, device=device, output_type=kind)
            if is_frame:
                data.replace_video_frame_field(path)
            data.set_item_in_path(path, made)
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for path in find_fields(data_empty, self._image_name, "images"):
            kind = data_empty.get_type_of_item_in_path(path)
            if kind is SampleDataGroup and data_empty.get_parent_of_path(path).is_video_frame_field(path[-1]):
                data_empty.replace_video_frame_field(path)
            elif kind != types.UINT8:
                raise ValueError(
                    f"Image data at path '{path_text(path)}' is of {'a group' if kind is SampleDataGroup else kind}: the bytes of a file, of type UINT8, "
                    "or a frame of a video (add_video_frame_field) are decoded"
                )
        return data_empty
