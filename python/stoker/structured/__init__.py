# SPDX-License-Identifier: Apache-2.0
"""Structured samples: trees of named fields that travel through a pipeline as one object, with the names of NVIDIA ACCV-Lab's dali_pipeline_framework.

    from stoker.structured.inputs import DataProvider, ShuffledShardedInputCallable
    from stoker.structured.pipeline import DALIStructuredOutputIterator, PipelineDefinition, SampleDataGroup
    from stoker.structured.processing_steps import ImageDecoder, ImageMeanStdDevNormalizer

The tree exists while a pipeline is defined; when it runs there are only the tensors of its fields. doc/structured.md shows how.
"""

from stoker.structured import inputs, internal_helpers, lane_helpers, multi_tensor_copier, pipeline, processing_steps
from stoker.structured.nuscenes import NuScenes

__all__ = ["NuScenes", "inputs", "internal_helpers", "lane_helpers", "multi_tensor_copier", "pipeline", "processing_steps"]
