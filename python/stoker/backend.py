# SPDX-License-Identifier: Apache-2.0
"""The classes of tensors that pipelines return, under the name of DALI's module for them."""

from typing import NoReturn

from stoker._elsewhere import no_attribute
from stoker.tensors import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU

__all__ = ["TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU"]


def __getattr__(name: str) -> NoReturn:
    raise no_attribute(__name__, name)
