# SPDX-License-Identifier: Apache-2.0
"""The classes of tensors that pipelines return, under the name of DALI's extension module."""

import sys
from typing import NoReturn

from stoker import tfrecord, types
from stoker._elsewhere import no_attribute
from stoker.backend import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU

__all__ = ["TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU", "tfrecord", "types"]

sys.modules[f"{__name__}.types"] = types
sys.modules[f"{__name__}.tfrecord"] = tfrecord


def __getattr__(name: str) -> NoReturn:
    raise no_attribute(__name__, name)
