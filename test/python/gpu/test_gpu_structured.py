# SPDX-License-Identifier: Apache-2.0
"""Steps of structured samples give the same values on a GPU as on the cores, for images and for boxes that were copied to the GPU."""

from __future__ import annotations

import numpy as np
from stoker.structured.inputs import ShuffledShardedInputCallable
from stoker.structured.pipeline import PipelineDefinition
from stoker.structured.processing_steps import (
    ConditionalElementRemover,
    DataGroupArrayInPathElementsAppliedStep,
    ImageDecoder,
    ImageMeanStdDevNormalizer,
    ImageToTileSizePadder,
    PhotoMetricDistorter,
    PipelineStepBase,
    VisibleBboxSelector,
)
from support import SEED, photograph
from test_structured_steps import A, Given, boxes, jpeg


class ToGpu(PipelineStepBase):
    def _process(self, data):
        for path in data.find_all_occurrences("boxes"):
            data.set_item_in_path(path, data.get_item_in_path(path).gpu())
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty):
        return data_empty


def test_cameras_on_a_gpu_are_those_of_the_cores():
    rng = np.random.default_rng(SEED)
    samples = []
    for _ in range(4):
        cameras = []
        for _ in range(2):
            n = int(rng.integers(1, 6))
            ann = {"boxes": boxes(rng, n, 96, 64), "depths": rng.random(n).astype(np.float32)}
            cameras.append({"image": jpeg(photograph(rng, 64, 96)), "p": rng.normal(size=(4, 4)).astype(np.float32), "ann": ann})
        samples.append({"cams": cameras})
    affine = A(
        (40, 60),
        A.ResizingMode.CROP,
        A.ResizingAnchor.CENTER,
        "image",
        None,
        "p",
        "boxes",
        [A.Rotation(1, -20, 20), A.UniformScaling(1, 0.8, 1.3)],
    )
    each = [
        affine,
        VisibleBboxSelector("boxes", ("ann", "keep"), "image", depths_field_name="depths", minimum_bbox_size=2.0),
        ToGpu(),
        ConditionalElementRemover("ann", "keep", ["boxes", "depths"], [0, 0], [2, 1], True),
        PhotoMetricDistorter("image", (-30, 30), (-20, 20), (0.7, 1.4), (0.6, 1.5)),
        ImageToTileSizePadder("image", 32),
        ImageMeanStdDevNormalizer("image", (120, 115, 100), (58, 57, 57)),
    ]
    got = {}
    for device in (None, 0):
        steps = [ImageDecoder("image", device == 0), *(DataGroupArrayInPathElementsAppliedStep(step, "cams") for step in each)]
        definition = PipelineDefinition(ShuffledShardedInputCallable(Given(samples), 4), steps, use_parallel_external_source=False)
        names = definition.check_and_get_output_data_structure().field_names_flat
        lists = definition.get_dali_pipeline(batch_size=4, num_threads=2, device_id=device, seed=SEED).run()
        got[device] = {name: [np.asarray(sample.as_cpu()) for sample in data] for name, data in zip(names, lists, strict=True)}
        on_gpu = {name for name, data in zip(names, lists, strict=True) if data.__dlpack_device__()[0] == 2}
        assert on_gpu == ({f"cams.[{c}].{name}" for c in range(2) for name in ("image", "ann.boxes")} if device == 0 else set())
    for name, values in got[None].items():
        for i, (cpu, gpu) in enumerate(zip(values, got[0][name], strict=True)):
            np.testing.assert_array_equal(cpu, gpu, err_msg=f"{name} of sample {i}")
    assert got[0]["cams.[1].image"][0].shape == (64, 64, 3)
