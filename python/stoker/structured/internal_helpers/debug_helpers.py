# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from stoker import fn
from stoker.data_node import DataNode


def print_tensor_op(tensor_list: DataNode, name: str) -> DataNode:
    """Prints the samples of each batch while the pipeline runs, and returns the input. It prints only if the pipeline uses the returned node."""
    return _printing(tensor_list, name, False)


def print_tensor_size_op(tensor_list: DataNode, name: str) -> DataNode:
    """Prints the shapes of the samples of each batch while the pipeline runs, and returns the input. It prints only if the pipeline uses the returned
    node."""
    return _printing(tensor_list, name, True)


def _printing(node: DataNode, name: str, shapes: bool) -> DataNode:
    def show(samples: list[Any]) -> list[Any]:
        lines = [f"-----{name}-----", f"size: {len(samples)}"]
        lines += [f"{name}[{i}]{'.shape' if shapes else ''}: {s.shape if shapes else s}" for i, s in enumerate(samples)]
        print("\n".join([*lines, "-----"]))
        return samples

    printed: DataNode = fn.python_function(node, function=show, batch_processing=True)
    return printed
