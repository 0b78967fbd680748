# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of a StreamPETR-like sample without its images: six cameras with matrices, boxes, centres and depths, boxes of the scene, ego poses.

    PYTHONPATH=build/python python bench/structured/steps.py [--batches N] [--batch N]

The program prints the processor time per sample. The fields are constants of the graph, so that the time includes no source. For comparison, it also prints the
time of a graph that returns the fields unchanged.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from stoker import types
from stoker.data_node import constant_node
from stoker.structured.inputs import DataProvider, ShuffledShardedInputCallable
from stoker.structured.pipeline import PipelineDefinition, SampleDataGroup
from stoker.structured.processing_steps import (
    AffineTransformer,
    AnnotationElementConditionEval,
    BEVBBoxesTransformer3D,
    ConditionalElementRemover,
    CoordinateCropper,
    DataGroupArrayInPathElementsAppliedStep,
    PointsInRangeCheck,
    VisibleBboxSelector,
)

OBJECTS, HW, OUT = 18, (900, 1600), (256, 704)


class Constant(DataProvider):
    """Provides the same sample again and again. Its fields are constants of the graph."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        camera: dict = {
            "hw": np.array(HW, np.int32),
            "lidar2img": rng.normal(size=(4, 4)),
            "intrinsics": rng.normal(size=(4, 4)),
            "extrinsics": np.eye(4),
        }
        low = rng.uniform(0, 1, (OBJECTS, 2)) * [1500, 800]
        boxes = np.hstack([low, low + rng.uniform(5, 300, (OBJECTS, 2))])
        camera["boxes2d"] = {
            "bboxes": boxes,
            "centers": low,
            "depths": rng.uniform(1, 60, OBJECTS),
            "categories": rng.integers(-1, 10, OBJECTS),
        }
        camera["boxes2d"] |= {"lidar": rng.integers(0, 9, OBJECTS), "radar": rng.integers(0, 3, OBJECTS)}
        scene: dict = {"centers3d": rng.uniform(-60, 60, (40, 3)), "sizes": rng.uniform(1, 5, (40, 3)), "yaws": rng.uniform(-3, 3, 40)}
        scene |= {"speeds": rng.normal(size=(40, 3)), "labels": rng.integers(-1, 10, 40), "points": rng.integers(0, 9, 40)}
        self.sample = {
            "cameras": {c: camera for c in range(6)},
            "scene": scene,
            "ego": np.eye(4),
            "ego_inverse": np.eye(4),
            "time": np.float64(1),
        }

    def _leaves(self, value, group):
        for name, child in value.items():
            if isinstance(child, dict):
                below = SampleDataGroup()
                self._leaves(child, below)
                group.add_data_group_field(name, below)
            else:
                group.add_data_field(name, types.FLOAT if child.dtype == np.float64 and name != "time" else types.to_dtype(child.dtype))

    @property
    def sample_data_structure(self):
        group = SampleDataGroup()
        self._leaves(self.sample, group)
        return group

    def get_number_of_samples(self):
        return 1 << 20

    def get_data(self, sample_index):
        raise NotImplementedError

    def get_data_nodes(self, order):
        group = self.sample_data_structure
        values: list = []

        def collect(value):
            for child in value.values():
                if isinstance(child, dict):
                    collect(child)
                else:
                    values.append(child)

        collect(self.sample)
        return [
            constant_node(np.asarray(v, SampleDataGroup.get_numpy_type_for_dali_type(t)))
            for v, t in zip(values, group.field_types_flat, strict=True)
        ]


def steps():
    A = AffineTransformer
    border = A.ShiftToAlignWithOriginalImageBorder
    affine = A(
        OUT, A.ResizingMode.CROP, A.ResizingAnchor.BOTTOM_OR_RIGHT, None, "hw", ["lidar2img", "intrinsics"], ["bboxes", "centers"],
        [A.UniformScaling(1, 1.0, 1.2), A.NonUniformScaling(0.5, (-1, 1)), border(1, border.Border.BOTTOM)],
    )  # fmt: skip
    each = [
        VisibleBboxSelector("bboxes", ("boxes2d", "visible"), None, "hw", depths_field_name="depths", minimum_bbox_size=4.0),
        AnnotationElementConditionEval("boxes2d", "keep = visible and categories >= 0 and (lidar >= 1 or radar >= 1)", False),
        ConditionalElementRemover("boxes2d", "keep", ["bboxes", "centers", "depths", "categories"], [0] * 4, [2, 2, 1, 1], True),
        CoordinateCropper("bboxes", (0, 0, 0, 0), (OUT[1], OUT[0], OUT[1], OUT[0])),
    ]
    fields3d = ["centers3d", "sizes", "yaws", "speeds", "labels"]
    return [
        affine,
        *(DataGroupArrayInPathElementsAppliedStep(step, "cameras") for step in each),
        PointsInRangeCheck("centers3d", "inside", (-51.2, -51.2, -5), (51.2, 51.2, 3)),
        AnnotationElementConditionEval("scene", "keep = inside and labels >= 0 and points >= 1", False),
        ConditionalElementRemover("scene", "keep", fields3d, [0] * 5, [2, 2, 1, 2, 1], True),
        BEVBBoxesTransformer3D(
            "centers3d",
            "speeds",
            "sizes",
            "yaws",
            ["lidar2img", "extrinsics"],
            "ego",
            "ego_inverse",
            (-0.39, 0.39),
            2,
            (0.95, 1.05),
            (0, 0, 0),
        ),
    ]


def seconds(definition: PipelineDefinition, batch: int, batches: int) -> tuple[float, int]:
    pipe = definition.get_dali_pipeline(batch_size=batch, num_threads=2)
    for _ in range(10):
        pipe.run()
    begun = time.process_time()
    for _ in range(batches):
        pipe.run()
    return (time.process_time() - begun) / batches / batch, len(pipe._builder.records)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8)
    asked = parser.parse_args()
    order = ShuffledShardedInputCallable(Constant(), asked.batch)
    for what, made in (("fields as they are", []), ("with all steps", steps())):
        cost, count = seconds(PipelineDefinition(order, made), asked.batch, asked.batches)
        print(f"{what}: {1e6 * cost:.1f} us of processor time a sample ({count} operators in the graph)")
