# SPDX-License-Identifier: Apache-2.0
"""Helpers for steps: the size of an image without its pixels, transfer to the GPU, lists of names, constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stoker import fn, types
from stoker._build import NodeRef
from stoker._values import ValueKind
from stoker.data_node import DataNode, constant_node


def names_of(names: str | int | Sequence[str | int] | None) -> list[str | int]:
    """Returns a list of names. names: a name, a sequence of names, or None for an empty list."""
    if names is None:
        return []
    return [names] if isinstance(names, (str, int)) else list(names)


def image_size(image: DataNode) -> DataNode:
    """Returns a node with a one-dimensional tensor whose first two elements are the height and width of an image. Ignore further elements.

    The node is a constant if the size is known while the graph is built. If the image comes from a decoder, its size is read from the header of the file, so
    that the decoder stays in one pass with the operators after it and decodes only the part that they need.
    """
    builder = image._builder
    _, ndim, shape, layout = builder.describe(image.ref)
    at = layout.find("H") if layout else 0 if ndim in (2, 3) else -1
    if at >= 0 and shape[at] > 0 and shape[at + 1] > 0:
        return constant_node(np.array(shape[at : at + 2], np.int32))
    record = builder.records[builder.source_of(image.ref).op]
    if record.op == "decoders.image":
        args = {name: bool(value) for name, kind, value in record.args if name == "adjust_orientation" and kind == ValueKind.BOOL}
        peeked: DataNode = fn.peek_image_shape(DataNode(builder, NodeRef(*record.inputs[0]), record.op), **args)
        return peeked
    extents = image.shape()
    return extents if at <= 0 else extents[at : at + 2]


def on_gpu(node: DataNode, wanted: bool) -> DataNode:
    """Returns the node's copy on the GPU if `wanted` and the pipeline has a GPU, else the node itself."""
    return node.gpu() if wanted and node._builder.device_id is not None else node


def typed_constant(value: Any, numpy_type: Any) -> DataNode:
    return constant_node(np.asarray(value, dtype=numpy_type), types.to_dtype(numpy_type))
