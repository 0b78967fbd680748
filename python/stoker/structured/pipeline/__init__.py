# SPDX-License-Identifier: Apache-2.0
"""The definition of a pipeline, the tree of its samples, and the iterator over its batches."""

from stoker.structured.pipeline.dali_structured_output_iterator import DALIStructuredOutputIterator
from stoker.structured.pipeline.pipeline import PipelineDefinition
from stoker.structured.pipeline.sample_data_group import SampleDataGroup

__all__ = ["DALIStructuredOutputIterator", "PipelineDefinition", "SampleDataGroup"]
