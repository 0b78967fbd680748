# SPDX-License-Identifier: Apache-2.0
"""The input pipeline of StreamPETR with stoker.structured. It does the work of reference.py as a list of steps that find their fields by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from reference import MEAN, STD, Config
from stoker import fn, types
from stoker.structured import NuScenes, processing_steps
from stoker.structured.inputs import SamplerInputIterable, SequenceSampler
from stoker.structured.nuscenes import FIELDS
from stoker.structured.pipeline import DALIStructuredOutputIterator, PipelineDefinition, SampleDataGroup
from stoker.structured.processing_steps import PipelineStepBase

# Fields of 2-D and 3-D boxes, under their names in stoker.structured.NuScenes, and the number of dimensions of each field.
BOXES_2D = {"bboxes2d": 2, "centers2d": 2, "depths2d": 1, "labels2d": 1}
BOXES_3D = {"translations": 2, "sizes": 2, "orientations": 1, "velocities": 2, "gt_labels_3d": 1}


# Fields of a batch. STACKED: one tensor for all cameras. LISTED: one ragged tensor for each camera. Both map the sample's names of fields to the batch's. KEPT:
# fields of the sample itself, which keep their names.
STACKED = {
    "image": "img",
    "lidar2img": "lidar2img",
    "intrinsics": "intrinsics",
    "extrinsics": "extrinsics",
    "img_timestamp": "img_timestamp",
}
LISTED = {"bboxes2d": "gt_bboxes", "centers2d": "centers2d", "depths2d": "depths", "labels2d": "gt_labels"}
KEPT = ("ego_pose", "ego_pose_inv", "timestamp", "prev_exists")


def image_steps(of: Any, config: Config, on_gpu: bool = False, images: bool = True) -> list[Any]:
    """Returns the steps that decode, flip, scale, shift, crop, pad and normalise images, and transform matrices, boxes and centres with them.

    images=False: without the images, for frames of a known size.
    """
    affine = of.AffineTransformer
    augment = [
        affine.NonUniformScaling(config.flip, [-1.0, 1.0]),
        affine.UniformScaling(1.0, *config.scale),
        affine.ShiftInsideOriginalImage(1.0, shift_x=True, shift_y=False),
        affine.ShiftToAlignWithOriginalImageBorder(1.0, affine.ShiftToAlignWithOriginalImageBorder.Border.BOTTOM),
    ]
    # Stoker's step knows which fields are boxes, and keeps the corners of a mirrored box in order. ACCV-Lab's step transforms the corners as points.
    corners = {"bbox_field_names": "bboxes2d"} if of is processing_steps else {}
    transform = affine(
        output_hw=list(config.hw),
        resizing_mode=affine.ResizingMode.CROP,
        resizing_anchor=affine.ResizingAnchor.BOTTOM_OR_RIGHT,
        image_field_names=["image"] if images else None,
        image_hw_field_names=None if images else ["image_hw"],
        projection_matrix_field_names=["lidar2img", "intrinsics"],
        point_field_names=["centers2d"] if corners else ["bboxes2d", "centers2d"],
        transformation_steps=augment,
        transform_image_on_gpu=on_gpu,
        **corners,
    )
    if not images:
        return [transform]
    return [
        of.ImageDecoder("image", use_device_mixed=on_gpu),
        transform,
        of.ImageToTileSizePadder("image", config.tile),
        of.ImageMeanStdDevNormalizer("image", list(MEAN), list(STD)),
    ]


def annotation_steps(of: Any, config: Config) -> list[Any]:
    """Returns the steps that select boxes, and rotate, scale and move the 3-D boxes.

    They select visible 2-D boxes, and 3-D boxes of known classes within reach, if a lidar or radar point is in them.
    """
    h, w = config.hw
    seen = of.VisibleBboxSelector(
        bboxes_field_name="bboxes2d",
        resulting_mask_field_path="visible",
        image_hw=[h, w],
        check_for_bbox_occlusion=True,
        check_for_minimum_size=True,
        depths_field_name="depths2d",
        minimum_bbox_size=config.least_box,
    )
    far = 1e6  # in metres: so large that z has no limit
    hit2d = "(num_lidar_points2d >= 1 or num_radar_points2d >= 1)"
    hit = "(num_lidar_points >= 1 or num_radar_points >= 1)"
    return [
        of.DataGroupsWithNameAppliedStep(seen, "boxes_2d"),
        of.PointsInRangeCheck("translations", "near", [-config.reach, -config.reach, -far], [config.reach, config.reach, far]),
        of.AnnotationElementConditionEval("boxes_2d", f"keep = visible and {hit2d}", remove_data_fields_used_in_condition=True),
        of.AnnotationElementConditionEval(
            "boxes_3d", f"keep = near and gt_labels_3d >= 0 and {hit}", remove_data_fields_used_in_condition=False
        ),
        *(
            of.ConditionalElementRemover(group, "keep", list(fields), [0] * len(fields), list(fields.values()), remove_mask_field=True)
            for group, fields in (("boxes_2d", BOXES_2D), ("boxes_3d", BOXES_3D))
        ),
        of.CoordinateCropper("bboxes2d", [0.0] * 4, [float(w), float(h)] * 2),
        of.CoordinateCropper("centers2d", [0.0] * 2, [float(w), float(h)]),
        of.BEVBBoxesTransformer3D(
            data_field_names_points="translations",
            data_field_names_velocities="velocities",
            data_field_names_sizes="sizes",
            data_field_names_orientation="orientations",
            data_field_names_proj_matrices_and_extrinsics=["lidar2img", "extrinsics"],
            data_field_names_ego_to_world="ego_pose",
            data_field_names_world_to_ego="ego_pose_inv",
            rotation_range=config.rotation,
            rotation_axis=2,
            scaling_range=config.bev_scale,
            translation_max_abs=config.translation,
        ),
    ]


def steps(of: Any, config: Config, on_gpu: bool = False, images: bool = True) -> list[Any]:
    """Returns all steps. of: the module that contains the steps, stoker.structured.processing_steps or another one with the same names."""
    return [*image_steps(of, config, on_gpu, images), *annotation_steps(of, config)]


class FrameSizes(PipelineStepBase):
    """Adds `image_hw`, the size of NuScenes' frames, to each camera if images are left out."""

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        data = self._check_and_adjust_data_format_input_to_output(data)
        for path in data.find_all_occurrences("image_hw"):
            data.set_item_in_path(path, fn.constant(idata=[900, 1600], shape=[2], dtype=types.INT32))
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for i in range(len(data_empty["cameras"])):
            data_empty["cameras"][i].add_data_field("image_hw", types.INT32)
        return data_empty


class Batches(PipelineStepBase):
    """The last step: gives fields the names and shapes that the network reads. Stacks the cameras, and joins the values of each 3-D box into a row of nine."""

    def __init__(self, on_gpu: bool = False, images: bool = True) -> None:
        self.on_gpu = on_gpu  # whether to deliver all fields on the GPU, so that the training loop copies nothing
        self.stacked = {name: new for name, new in STACKED.items() if images or name != "image"}

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        made = self._check_and_adjust_data_format_input_to_output(data)
        cameras = [data["cameras"][i] for i in range(len(data["cameras"]))]
        for name, new in self.stacked.items():
            made[new] = fn.stack(*(fn.transpose(camera[name], perm=[2, 0, 1]) if name == "image" else camera[name] for camera in cameras))
        for name, new in LISTED.items():
            for i, camera in enumerate(cameras):
                made[new][i] = camera["boxes_2d"][name]
        for name in KEPT:
            made[name] = data[name]
        space = data["boxes_3d"]
        yaws = fn.expand_dims(space["orientations"], axes=[1])
        made["gt_bboxes_3d"] = fn.cat(space["translations"], space["sizes"], yaws, space["velocities"][:, 0:2], axis=1)
        made["gt_labels_3d"] = space["gt_labels_3d"]
        if self.on_gpu:
            made.set_data([value.gpu() for value in made.get_data()])
        return made

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        made, cameras = SampleDataGroup(), data_empty["cameras"]
        for name, new in self.stacked.items():
            made.add_data_field(new, cameras[0].get_type_of_field(name))
        for name, new in LISTED.items():
            made.add_data_field_array(new, cameras[0]["boxes_2d"].get_type_of_field(name), len(cameras))
        for name in KEPT:
            made.add_data_field(name, data_empty.get_type_of_field(name))
        made.add_data_field("gt_bboxes_3d", types.FLOAT, ragged=True)
        made.add_data_field("gt_labels_3d", types.INT32, ragged=True)
        for name in LISTED.values():
            for i in range(len(cameras)):
                made.set_ragged((name, i))
        return made


class Loader:
    """Endless batches of this rank. No Python code runs for a sample.

    batch: number of samples in a batch of all ranks together.
    state: the result of state() in the run that this one continues. images=False: all fields except images, as if every frame had NuScenes' size.
    video_root: a folder that `stoker pack-video` made, from which to read the cameras' frames.
    """

    def __init__(
        self, root: Path, version: str, config: Config, batch: int, seed: int = 0, *, threads: int | None = None, state: str | None = None,
        rank: int = 0, world: int = 1, device: str | torch.device = "cpu", images: bool = True, video_root: Path | None = None,
    ) -> None:  # fmt: skip
        device = torch.device(device)
        gpu = device.type == "cuda"
        data = NuScenes(root, version, fields=None if images else [name for name in FIELDS if name != "image"], video_root=video_root)
        order = SamplerInputIterable(data, SequenceSampler(batch, data.sequence_lengths, seed), rank, world)
        first = [None if images else FrameSizes()]
        last = [Batches(gpu, images)]
        definition = PipelineDefinition(order, [*first, *steps(processing_steps, config, gpu, images), *last])
        self.pipeline = definition.get_pipeline(
            batch_size=batch // world, num_threads=threads, device_id=(device.index or 0) if gpu else None, seed=seed, checkpoint=state
        )
        self.epoch_length = max(1, data.get_number_of_samples() // batch)
        blueprint = definition.check_and_get_output_data_structure()
        self._batches = DALIStructuredOutputIterator(self.epoch_length, self.pipeline, blueprint, post_process_func=listed)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            yield from self._batches

    def state(self) -> bytes:
        """Returns the position after the last batch that was taken."""
        return self.pipeline.checkpoint()

    @property
    def user_calls(self) -> int:
        """Returns how often Python functions have been called for samples so far."""
        return int(self.pipeline.counters()["user_calls"])


def listed(batch: dict[str, Any]) -> dict[str, Any]:
    """Returns the batch with each dict of per-camera values converted to a list."""
    return {name: list(value.values()) if isinstance(value, dict) else value for name, value in batch.items()}
