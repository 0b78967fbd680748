# SPDX-License-Identifier: Apache-2.0
"""AutoAugment (https://arxiv.org/abs/1805.09501): each sample draws one of a policy's sequences of augmentations."""

from __future__ import annotations

from typing import Any

import numpy as np

from stoker import fn, types
from stoker.auto_aug import augmentations as a
from stoker.auto_aug._suites import selected, translations
from stoker.auto_aug.core import Policy, _Augmentation, signed_bin
from stoker.auto_aug.core._arguments import check_used
from stoker.auto_aug.core._augmentation import seed_of
from stoker.data_node import DataNode
from stoker.errors import ArgumentError, InvalidArgumentError


def auto_augment(
    data: DataNode,
    policy_name: str = "image_net",
    shape: Any = None,
    fill_value: int | None = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,
) -> DataNode:
    """Applies one of the policies "image_net", "reduced_image_net", "svhn" and "reduced_cifar10" to uint8 images (HWC) or sequences of images (FHWC).

    shape: height and width of the images, as a node or a tuple. If it is given, translations are at most max_translate_rel (default 1) times the height or
    width; otherwise at most max_translate_abs pixels (default 250). "reduced_image_net" has no translations, and does not accept these three arguments.
    fill_value: value of pixels that a warp takes from outside the image; None repeats the image's border. interp_type: interpolation of warps; default linear.
    seed: seed of all random draws; None: they depend on the pipeline's seed.
    """
    policies: dict[str, Any] = {
        "image_net": get_image_net_policy,
        "reduced_image_net": get_reduced_image_net_policy,
        "svhn": get_svhn_policy,
        "reduced_cifar10": get_reduced_cifar10_policy,
    }
    if not isinstance(policy_name, str) or policy_name not in policies:
        names = ", ".join(f"`{name}`" for name in policies)
        raise InvalidArgumentError(f"The `policy_name` must be a string that takes one of the values: {names}")
    given: dict[str, Any] = {"fill_value": fill_value, "interp_type": interp_type}
    if policy_name == "reduced_image_net":
        of_shape = {"shape": shape, "max_translate_abs": max_translate_abs, "max_translate_rel": max_translate_rel}
        for name, value in of_shape.items():
            if value is not None:
                raise ArgumentError(
                    f"The policy `{policy_name}` does not contain any augmentations that rely on the image shape. The `{name}` argument must not be "
                    "specified in "
                    "that case."
                )
        return apply_auto_augment(get_reduced_image_net_policy(), data, seed, **given)
    if shape is not None:
        given["shape"] = shape
    return apply_auto_augment(policies[policy_name](shape is not None, max_translate_abs, max_translate_rel), data, seed, **given)


def auto_augment_image_net(
    data: DataNode,
    shape: Any = None,
    fill_value: int | None = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,
) -> DataNode:
    """Applies the policy "image_net". The arguments are those of auto_augment."""
    return auto_augment(data, "image_net", shape, fill_value, interp_type, max_translate_abs, max_translate_rel, seed)


def apply_auto_augment(policy: Policy, data: DataNode, seed: int | None = None, **kwargs: Any) -> DataNode:
    """Applies to each sample one of the policy's sequences. The named arguments are passed to the augmentations that take them."""
    if len(policy.sub_policies) == 0:
        raise InvalidArgumentError(f"Cannot run empty policy. Got {policy} in `apply_auto_augment` call.")
    check_used(policy.augmentations.values(), kwargs, "apply_auto_augment")
    stages = max(len(sub_policy) for sub_policy in policy.sub_policies)
    chance, bins, which, suites = _tables(policy, stages)
    drawn = fn.random.uniform(range=[0, 1], shape=(stages,), dtype=types.FLOAT, seed=seed)
    sequence = fn.random.uniform(values=list(range(len(policy.sub_policies))), dtype=types.INT32, seed=seed_of(seed, 1))
    magnitude_bins: Any
    chances, augmentations, magnitude_bins = (types.ConstantNode("cpu", table)[sequence] for table in (chance, which, bins))
    if any(augmentation.randomly_negate for augmentation in policy.augmentations.values()):
        magnitude_bins = signed_bin(magnitude_bins, seed=seed_of(seed, 2), shape=(stages,))
    for stage in range(stages):
        magnitude_bin = magnitude_bins[stage]
        if drawn[stage] < chances[stage]:
            data = selected(
                suites[stage],
                augmentations[stage],
                "apply_auto_augment",
                "get_image_net_policy",
                data=data,
                magnitude_bin=magnitude_bin,
                num_magnitude_bins=policy.num_magnitude_bins,
                **kwargs,
            )
    return data


def _tables(policy: Policy, stages: int) -> tuple[Any, Any, Any, list[list[_Augmentation]]]:
    """Returns three tables with a row for each sequence and a column for each stage: probability (0 after a sequence's end), bin, and index of the
    augmentation. Also returns, for each stage, the list of the augmentations to which the indices refer."""
    chance = np.zeros((len(policy.sub_policies), stages), np.float32)
    bins = np.zeros(chance.shape, np.int32)
    which = np.zeros(chance.shape, np.int32)
    suites: list[list[_Augmentation]] = [[] for _ in range(stages)]
    for number, sub_policy in enumerate(policy.sub_policies):
        for stage, (augmentation, probability, magnitude_bin) in enumerate(sub_policy):
            if augmentation not in suites[stage]:
                suites[stage].append(augmentation)
            chance[number, stage] = probability
            bins[number, stage] = magnitude_bin or 0
            which[number, stage] = suites[stage].index(augmentation)
    return chance, bins, which, suites


# ---- the policies of the paper ----


def get_image_net_policy(use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None) -> Policy:
    """Returns the policy for ImageNet. use_shape: translations are shares of the image's size, up to max_translate_rel; False: pixels, up to
    max_translate_abs."""
    return _policy("ImageNetPolicy", _IMAGE_NET, translations(use_shape, 250, 1.0, max_translate_abs, max_translate_rel))


def get_reduced_cifar10_policy(use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None) -> Policy:
    """Returns the policy that the paper found on a part of CIFAR-10. The arguments are those of get_image_net_policy."""
    return _policy("ReducedCifar10Policy", _REDUCED_CIFAR10, translations(use_shape, 250, 1.0, max_translate_abs, max_translate_rel))


def get_svhn_policy(use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None) -> Policy:
    """Returns the policy for SVHN. The arguments are those of get_image_net_policy."""
    return _policy("SvhnPolicy", _SVHN, translations(use_shape, 250, 1.0, max_translate_abs, max_translate_rel))


def get_reduced_image_net_policy() -> Policy:
    """Returns the policy that the paper found on a part of ImageNet. It has no translations."""
    return _policy("ReducedImageNetPolicy", _REDUCED_IMAGE_NET, (a.translate_x, a.translate_y))


def _policy(name: str, sequences: str, moves: tuple[_Augmentation, _Augmentation]) -> Policy:
    """Parses a policy. sequences: one in each line, of "augmentation probability bin" separated by commas; without the bin if there is no magnitude.
    moves: the translations along x and y."""
    suite = {
        "translate_x": moves[0],
        "translate_y": moves[1],
        "shear_x": a.shear_x.augmentation((0, 0.3), True),
        "shear_y": a.shear_y.augmentation((0, 0.3), True),
        "rotate": a.rotate.augmentation((0, 30), True),
        "brightness": a.brightness.augmentation((0.1, 1.9), False, None),
        "contrast": a.contrast.augmentation((0.1, 1.9), False, None),
        "color": a.color.augmentation((0.1, 1.9), False, None),
        "sharpness": a.sharpness.augmentation((0.1, 1.9), False, a.sharpness_kernel_shifted),
        "posterize": a.posterize.augmentation((0, 4), False, a.poster_mask_uint8),
        "solarize": a.solarize.augmentation((0, 256), False),
        "solarize_add": a.solarize_add.augmentation((0, 110), False),
        "invert": a.invert,
        "equalize": a.equalize,
        "auto_contrast": a.auto_contrast,
    }
    read = [[step.split() for step in line.split(",")] for line in sequences.strip().splitlines()]
    steps = [[(suite[op], float(chance), int(bins[0]) if bins else None) for op, chance, *bins in line] for line in read]
    return Policy(name, 11, steps)


_IMAGE_NET = """
equalize 0.8, shear_y 0.8 4
color 0.4 9, equalize 0.6
color 0.4 1, rotate 0.6 8
solarize 0.8 3, equalize 0.4
solarize 0.4 2, solarize 0.6 2
color 0.2 0, equalize 0.8
equalize 0.4, solarize_add 0.8 3
shear_x 0.2 9, rotate 0.6 8
color 0.6 1, equalize 1.0
invert 0.4, rotate 0.6 0
equalize 1.0, shear_y 0.6 3
color 0.4 7, equalize 0.6
posterize 0.4 6, auto_contrast 0.4
solarize 0.6 8, color 0.6 9
solarize 0.2 4, rotate 0.8 9
rotate 1.0 7, translate_y 0.8 9
solarize 0.8 4
shear_y 0.8 0, color 0.6 4
color 1.0 0, rotate 0.6 2
equalize 0.8
equalize 1.0, auto_contrast 0.6
shear_y 0.4 7, solarize_add 0.6 7
posterize 0.8 2, solarize 0.6 10
solarize 0.6 8, equalize 0.6
color 0.8 6, rotate 0.4 5
"""

_REDUCED_CIFAR10 = """
invert 0.1, contrast 0.2 6
rotate 0.7 2, translate_x 0.3 9
sharpness 0.8 1, sharpness 0.9 3
shear_y 0.5 8, translate_y 0.7 9
auto_contrast 0.5, equalize 0.9
shear_y 0.2 7, posterize 0.3 7
color 0.4 3, brightness 0.6 7
sharpness 0.3 9, brightness 0.7 9
equalize 0.6, equalize 0.5
contrast 0.6 7, sharpness 0.6 5
color 0.7 7, translate_x 0.5 8
equalize 0.3, auto_contrast 0.4
translate_y 0.4 3, sharpness 0.2 6
brightness 0.9 6, color 0.2 8
solarize 0.5 2
equalize 0.2, auto_contrast 0.6
equalize 0.2, equalize 0.6
color 0.9 9, equalize 0.6
auto_contrast 0.8, solarize 0.2 8
brightness 0.1 3, color 0.7 0
solarize 0.4 5, auto_contrast 0.9
translate_y 0.9 9, translate_y 0.7 9
auto_contrast 0.9, solarize 0.8 3
equalize 0.8, invert 0.1
translate_y 0.7 9, auto_contrast 0.9
"""

_SVHN = """
shear_x 0.9 4, invert 0.2
shear_y 0.9 8, invert 0.7
equalize 0.6, solarize 0.6 6
invert 0.9, equalize 0.6
equalize 0.6, rotate 0.9 3
shear_x 0.9 4, auto_contrast 0.8
shear_y 0.9 8, invert 0.4
shear_y 0.9 5, solarize 0.2 6
invert 0.9, auto_contrast 0.8
equalize 0.6, rotate 0.9 3
shear_x 0.9 4, solarize 0.3 3
shear_y 0.8 8, invert 0.7
equalize 0.9, translate_y 0.6 6
invert 0.9, equalize 0.6
contrast 0.3 3, rotate 0.8 4
invert 0.8
shear_y 0.7 6, solarize 0.4 8
invert 0.6, rotate 0.8 4
shear_y 0.3 7, translate_x 0.9 3
shear_x 0.1 6, invert 0.6
solarize 0.7 2, translate_y 0.6 7
shear_y 0.8 4, invert 0.8
shear_x 0.7 9, translate_y 0.8 3
shear_y 0.8 5, auto_contrast 0.7
shear_x 0.7 2, invert 0.1
"""

_REDUCED_IMAGE_NET = """
posterize 0.4 8, rotate 0.6 9
solarize 0.6 5, auto_contrast 0.6
equalize 0.8, equalize 0.6
posterize 0.6 7, posterize 0.6 6
equalize 0.4, solarize 0.2 4
equalize 0.4, rotate 0.8 8
solarize 0.6 3, equalize 0.6
posterize 0.8 5, equalize 1.0
rotate 0.2 3, solarize 0.6 8
equalize 0.6, posterize 0.4 6
rotate 0.8 8, color 0.4 0
rotate 0.4 9, equalize 0.6
equalize 0.8
invert 0.6, equalize 1.0
color 0.6 4, contrast 1.0 8
rotate 0.8 8, color 1.0 2
color 0.8 8, solarize 0.8 7
sharpness 0.4 7, invert 0.6
shear_x 0.6 5, equalize 1.0
color 0.4 0, equalize 0.6
equalize 0.4, solarize 0.2 4
solarize 0.6 5, auto_contrast 0.6
invert 0.6, equalize 1.0
color 0.6 4, contrast 1.0 8
equalize 0.8, equalize 0.6
"""
