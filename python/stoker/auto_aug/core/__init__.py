# SPDX-License-Identifier: Apache-2.0
"""The building blocks of augmentations and policies."""

from stoker.auto_aug.core._augmentation import Augmentation as _Augmentation
from stoker.auto_aug.core._augmentation import augmentation, signed_bin
from stoker.auto_aug.core._policy import Policy
from stoker.auto_aug.core._select import select

__all__ = ["Policy", "_Augmentation", "augmentation", "select", "signed_bin"]
