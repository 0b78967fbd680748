# SPDX-License-Identifier: Apache-2.0
"""The classes of delivered data, under the name that DALI has for their module."""

from stoker.tensors import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU

__all__ = ["TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU"]
