# SPDX-License-Identifier: Apache-2.0
"""Inputs of structured pipelines: providers of samples, samplers that choose their order, and the classes that join the two."""

from stoker.structured.inputs.callable_base import CallableBase
from stoker.structured.inputs.data_provider import DataProvider
from stoker.structured.inputs.iterable_base import IterableBase
from stoker.structured.inputs.sampler_base import SamplerBase
from stoker.structured.inputs.sampler_input_callable import SamplerInputCallable
from stoker.structured.inputs.sampler_input_iterable import SamplerInputIterable
from stoker.structured.inputs.sequence_sampler import SequenceSampler
from stoker.structured.inputs.shuffled_sharded_input_callable import ShuffledShardedInputCallable

__all__ = [
    "CallableBase",
    "DataProvider",
    "IterableBase",
    "SamplerBase",
    "SamplerInputCallable",
    "SamplerInputIterable",
    "SequenceSampler",
    "ShuffledShardedInputCallable",
]
