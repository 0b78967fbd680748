# SPDX-License-Identifier: Apache-2.0
"""Structured samples: trees of named fields that a pipeline's definition handles as one object. Names are those of NVIDIA ACCV-Lab's
dali_pipeline_framework.

    from stoker.structured.inputs import DataProvider, ShuffledShardedInputCallable
    from stoker.structured.pipeline import DALIStructuredOutputIterator, PipelineDefinition, SampleDataGroup
    from stoker.structured.processing_steps import ImageDecoder, ImageMeanStdDevNormalizer

A definition works on the tree; the running pipeline only has the tensors of its fields, and the iterator puts their batches into a tree again.
doc/structured.md has examples.
"""

from stoker.structured import inputs, internal_helpers, lane_helpers, multi_tensor_copier, pipeline, processing_steps
from stoker.structured.nuscenes import NuScenes

__all__ = ["NuScenes", "inputs", "internal_helpers", "lane_helpers", "multi_tensor_copier", "pipeline", "processing_steps"]
