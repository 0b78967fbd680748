# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of examples/streampetr in NVIDIA ACCV-Lab's dali_pipeline_framework, which runs on DALI and whose names stoker.structured uses.

The package accvlab has to be importable, with DALI, numba and cupy (without a GPU, it uses only get_array_module of cupy).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pipeline
import reference
import streaming
import tables

COUNTS = ("num_lidar_points", "num_radar_points")
CAMERA = ("lidar2img", "intrinsics", "extrinsics", "img_timestamp")


class Today:
    """Wraps DALI's fn for ACCV-Lab's AffineTransformer, which expects an older DALI: in the current one, matrices of fn.transforms have a layout, and both
    branches of an `if` must have the same types."""

    def __getattr__(self, name: str) -> Any:
        from nvidia.dali import fn

        return getattr(fn, name)

    def constant(self, **given: Any) -> Any:
        return self.__getattr__("constant")(**given, **({"layout": "**"} if given.get("shape") == [2, 3] else {}))


def compile_once() -> None:
    """Makes numba reuse a compiled function if code, constants and types are the same. Otherwise it compiles each of 121 operators, which takes minutes."""
    from nvidia.dali.plugin import numba as plugin

    of: Any = plugin.NumbaFunction
    compiled: dict[Any, Any] = {}

    def code(function: Any) -> Any:
        if function is None:
            return None
        cells = tuple(repr(cell.cell_contents) for cell in function.__closure__ or ())
        return function.__code__, cells, repr(function.__defaults__)

    def once(name: str) -> None:
        original = getattr(of, name)

        def compile(self: Any, function: Any, *types: Any) -> Any:
            key = (name, code(function), repr(types))
            if key not in compiled:
                compiled[key] = original(self, function, *types)
            return compiled[key]

        setattr(of, name, compile)

    once("_get_run_fn_cpu")
    once("_get_setup_fn_cpu")


def framework() -> Any:
    """Imports ACCV-Lab's package, patched for current versions of NumPy and DALI. Returns its modules for inputs, pipelines and steps."""
    if not hasattr(np, "float"):
        np.float = float  # type: ignore[attr-defined]  # ShiftInsideOriginalImage uses np.float, which NumPy has removed
    compile_once()
    from accvlab.dali_pipeline_framework import inputs, processing_steps
    from accvlab.dali_pipeline_framework import pipeline as pipelines
    from accvlab.dali_pipeline_framework.processing_steps import affine_transformer

    affine_transformer.fn = Today()
    return inputs, pipelines, processing_steps


def structure(group: Any, types: Any, cameras: int) -> Any:
    """Builds the tree of a sample. `group` and `types`: SampleDataGroup, and the module that has the types of elements."""

    def boxes(fields: dict[str, int], ending: str) -> Any:
        made = group()
        for name in fields:
            made.add_data_field(name, types.INT32 if "labels" in name else types.FLOAT)
        for name in COUNTS:
            made.add_data_field(name + ending, types.INT32)
        return made

    camera = group()
    camera.add_data_field("image", types.UINT8)
    for name in CAMERA:
        camera.add_data_field(name, types.FLOAT64 if name == "img_timestamp" else types.FLOAT)
    camera.add_data_group_field("boxes_2d", boxes(pipeline.BOXES_2D, "2d"))
    sample = group()
    sample.add_data_group_field_array("cameras", camera, cameras)
    for name in pipeline.KEPT:
        sample.add_data_field(name, types.FLOAT64 if name == "timestamp" else types.FLOAT)
    sample.add_data_group_field("boxes_3d", boxes(pipeline.BOXES_3D, ""))
    return sample


def provider(inputs: Any, pipelines: Any, types: Any, data: tables.Tables) -> Any:
    """Returns a DataProvider over the tables. The rows of the tables are read once, and not in each epoch."""
    rows = [data.sample(i) for i in range(len(data))]

    class Provider(inputs.DataProvider):
        def get_number_of_samples(self) -> int:
            return len(rows)

        @property
        def sample_data_structure(self) -> Any:
            return structure(pipelines.SampleDataGroup, types.DALIDataType, len(data.cameras))

        def get_data(self, sample_index: int) -> Any:
            row, made = rows[sample_index], self.sample_data_structure
            made["ego_pose"], made["ego_pose_inv"] = row.ego_pose.astype(np.float32), np.linalg.inv(row.ego_pose).astype(np.float32)
            made["timestamp"], made["prev_exists"] = np.float64(row.timestamp), np.float32(row.prev_exists)
            for i, camera in enumerate(row.cameras):
                target = made["cameras"][i]
                target["image"] = np.fromfile(camera.file, np.uint8)
                target["img_timestamp"] = np.float64(camera.timestamp)
                for name, value in (  # the framework expects projections with three rows
                    ("lidar2img", camera.lidar2img[:3]),
                    ("intrinsics", camera.intrinsics[:3, :3]),
                    ("extrinsics", camera.extrinsics),
                ):
                    target[name] = np.ascontiguousarray(value, np.float32)
                seen = camera.seen
                self._boxes(target["boxes_2d"], (seen.boxes, seen.centers, seen.depths, seen.labels), seen, pipeline.BOXES_2D, "2d")
            self._boxes(made["boxes_3d"], (row.centers, row.sizes, row.yaws, row.velocities, row.labels), row, pipeline.BOXES_3D, "")
            return made

        @staticmethod
        def _boxes(target: Any, columns: tuple[np.ndarray, ...], row: Any, names: Iterable[str], ending: str) -> None:
            for name, values in zip(names, columns, strict=True):
                target[name] = np.ascontiguousarray(values, np.int32 if values.dtype == np.int32 else np.float32)
            target[f"num_lidar_points{ending}"], target[f"num_radar_points{ending}"] = row.lidar_points, row.radar_points

    return Provider()


def sampler(inputs: Any, data: tables.Tables, batch: int, seed: int) -> Any:
    """Returns a sampler with the order of examples/streampetr/streaming.py, which the other sides use too."""

    class Sampler(inputs.SamplerBase):
        def __init__(self) -> None:
            self._rows = iter(streaming.StreamingSampler(data.lengths, batch, seed))

        length = property(lambda self: None)
        is_epoch_based = property(lambda self: False)

        def reset(self) -> None:
            raise RuntimeError("there are no epochs")

        def get_next_batch_indices(self) -> list[int]:
            return [item.sample for item in next(self._rows)]

    return Sampler()


def batches(root: Path, version: str, config: reference.Config, batch: int, threads: int, seed: int = 0, gpu: bool = False) -> Any:
    """Returns the framework's iterator over batches, which are nested dicts of torch tensors."""
    inputs, pipelines, of = framework()
    from nvidia.dali import types

    data = tables.Tables(root, version)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = pipelines.PipelineDefinition(
            inputs.SamplerInputIterable(provider(inputs, pipelines, types, data), sampler(inputs, data, batch, seed)),
            [
                *pipeline.steps(of, config, gpu),
                of.UnneededFieldRemover(["near", *COUNTS]),
                of.PaddingToUniform([*pipeline.BOXES_2D, *pipeline.BOXES_3D]),
            ],
            check_data_format=False,
            use_parallel_external_source=False,
            copy_external_source_passthrough_outputs=False,
        )
        built = made.get_dali_pipeline(
            batch_size=batch, num_threads=threads, device_id=0 if gpu else None, seed=seed, enable_conditionals=True, prefetch_queue_depth=2
        )
        blueprint = made.check_and_get_output_data_structure()
    return iter(pipelines.DALIStructuredOutputIterator(1 << 30, built, blueprint))
