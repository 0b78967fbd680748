# SPDX-License-Identifier: Apache-2.0
"""The classes of delivered data, under the name of DALI's extension module."""

from stoker import types
from stoker.backend import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU

__all__ = ["TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU", "types"]
