# SPDX-License-Identifier: Apache-2.0
"""Automatic augmentations with DALI's names: AutoAugment, RandAugment and TrivialAugment. Each sample gets its own augmentations, so pipelines need
enable_conditionals=True.

from stoker.auto_aug import rand_augment

@pipeline_def(enable_conditionals=True)
def train():
    ...
    images = rand_augment.rand_augment(images, n=2, m=9, shape=shapes)
"""
