# SPDX-License-Identifier: Apache-2.0
"""Makes the gallery: what each transform and each operator on images does to one photograph."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import stoker
import torch
from skimage import data  # the photographs of skimage.data that are used here are in the public domain (CC0)
from stoker import fn, types
from stoker import transforms as T

WIDTH = 200  # width of a picture on a page, in pixels

# For each transform, the calls that the gallery shows, with different values of its main argument. The text of each call is evaluated.
TRANSFORMS: dict[str, list[str]] = {
    "Resize": ["T.Resize(40)", "T.Resize((100, 250))", "T.Resize(40, interpolation=T.InterpolationMode.NEAREST_EXACT)"],
    "CenterCrop": ["T.CenterCrop(120)", "T.CenterCrop((80, 160))"],
    "RandomCrop": ["T.RandomCrop(120)", "T.RandomCrop(220, padding=30)"],
    "RandomResizedCrop": ["T.RandomResizedCrop(120)", "T.RandomResizedCrop(120, scale=(0.05, 0.1))"],
    "FixedSizeCrop": ["T.FixedSizeCrop((150, 350))"],
    "FiveCrop": ["T.FiveCrop(80)"],
    "TenCrop": ["T.TenCrop(80)"],
    "RandomResize": ["T.RandomResize(60, 200)"],
    "RandomShortestSize": ["T.RandomShortestSize([60, 120])"],
    "ScaleJitter": ["T.ScaleJitter((200, 200))"],
    "Pad": ["T.Pad(20)", "T.Pad(40, padding_mode='reflect')"],
    "RandomZoomOut": ["T.RandomZoomOut(p=1.0)"],
    "RandomHorizontalFlip": ["T.RandomHorizontalFlip(1.0)"],
    "RandomVerticalFlip": ["T.RandomVerticalFlip(1.0)"],
    "RandomRotation": ["T.RandomRotation((15, 15))", "T.RandomRotation((45, 45), expand=True)"],
    "RandomAffine": ["T.RandomAffine(30, translate=(0.1, 0.1))", "T.RandomAffine(0, shear=(20, 20))"],
    "RandomPerspective": ["T.RandomPerspective(0.5, p=1.0)"],
    "ElasticTransform": ["T.ElasticTransform(50.0)", "T.ElasticTransform(200.0)"],
    "ColorJitter": ["T.ColorJitter(brightness=0.5)", "T.ColorJitter(saturation=0.9)", "T.ColorJitter(hue=0.4)"],
    "RandomPhotometricDistort": ["T.RandomPhotometricDistort(p=1.0)"],
    "RandomChannelPermutation": ["T.RandomChannelPermutation()"],
    "Grayscale": ["T.Grayscale(3)"],
    "RandomGrayscale": ["T.RandomGrayscale(1.0)"],
    "RandomInvert": ["T.RandomInvert(1.0)"],
    "RandomPosterize": ["T.RandomPosterize(2, 1.0)", "T.RandomPosterize(4, 1.0)"],
    "RandomSolarize": ["T.RandomSolarize(128, 1.0)"],
    "RandomAdjustSharpness": ["T.RandomAdjustSharpness(0, 1.0)", "T.RandomAdjustSharpness(8, 1.0)"],
    "RandomAutocontrast": ["T.RandomAutocontrast(1.0)"],
    "RandomEqualize": ["T.RandomEqualize(1.0)"],
    "GaussianBlur": ["T.GaussianBlur(9, 2.0)", "T.GaussianBlur(23, 8.0)"],
    "GaussianNoise": ["T.GaussianNoise(sigma=0.1)", "T.GaussianNoise(sigma=0.3)"],
    "JPEG": ["T.JPEG(5)", "T.JPEG(30)"],
    "RandomErasing": ["T.RandomErasing(1.0)", "T.RandomErasing(1.0, value='random')"],
    "RandAugment": ["T.RandAugment()", "T.RandAugment(3, 20)"],
    "AutoAugment": ["T.AutoAugment()"],
    "TrivialAugmentWide": ["T.TrivialAugmentWide()"],
    "AugMix": ["T.AugMix()", "T.AugMix(severity=10)"],
}
# The other names of stoker.transforms, grouped by the reason why they have no picture.
WITHOUT = {
    "types and dtypes, the same pixels": ["ConvertImageDtype", "Normalize", "PILToTensor", "RGB", "ToDtype", "ToImage", "ToTensor"],
    "what other transforms or functions make of it": ["Compose", "Identity", "Lambda", "RandomApply", "RandomChoice", "RandomOrder"],
    "two images of a batch": ["CutMix", "MixUp"],
    "crops by boxes, and boxes": ["RandomIoUCrop", "SanitizeBoundingBoxes"],
    "no transforms": ["AutoAugmentPolicy", "InterpolationMode", "Transform"],
}

Call = Callable[[Any], Any]
# For each operator, the calls that the gallery shows. `image` is the photograph as a node, uint8 (height, width, 3).
OPERATORS: dict[str, list[str]] = {
    "resize": ["fn.resize(image, size=40)", "fn.resize(image, size=[100, 250])", "fn.resize(image, resize_shorter=90)"],
    "crop": ["fn.crop(image, crop=[120, 120])", "fn.crop(image, crop=[120, 120], crop_pos_x=0.0, crop_pos_y=0.0)"],
    "slice": ["fn.slice(image, [0.2, 0.1], [0.6, 0.5])"],
    "random_resized_crop": ["fn.random_resized_crop(image, size=[120, 120])"],
    "crop_mirror_normalize": ["fn.crop_mirror_normalize(image, crop=[120, 120], mirror=1, dtype=types.UINT8, output_layout='HWC')"],
    "resize_crop_mirror": ["fn.resize_crop_mirror(image, size=[150, 150], crop=[120, 120], mirror=1)"],
    "flip": ["fn.flip(image)", "fn.flip(image, horizontal=0, vertical=1)"],
    "rotate": ["fn.rotate(image, angle=20, fill_value=0)", "fn.rotate(image, angle=20, keep_size=True)"],
    "warp_affine": ["fn.warp_affine(image, matrix=[1, 0.4, -30, 0, 1, 0], fill_value=0)"],
    "transpose": ["fn.transpose(image, perm=[1, 0, 2])"],
    "pad": ["fn.pad(image, axes=[0, 1], shape=[220, 230], fill_value=90)"],
    "paste": ["fn.paste(image, ratio=1.5, fill_value=(90, 60, 30))"],
    "brightness": ["fn.brightness(image, brightness=1.6)", "fn.brightness(image, brightness=0.5)"],
    "contrast": ["fn.contrast(image, contrast=1.8)", "fn.contrast(image, contrast=0.4)"],
    "brightness_contrast": ["fn.brightness_contrast(image, brightness=1.2, contrast=1.5)"],
    "saturation": ["fn.saturation(image, saturation=2.5)", "fn.saturation(image, saturation=0.0)"],
    "hue": ["fn.hue(image, hue=90)", "fn.hue(image, hue=200)"],
    "hsv": ["fn.hsv(image, hue=40, saturation=1.5, value=1.1)"],
    "color_twist": ["fn.color_twist(image, brightness=1.2, contrast=1.3, hue=20, saturation=1.5)"],
    "color_space_conversion": ["fn.color_space_conversion(image, image_type=types.RGB, output_type=types.GRAY)"],
    "gaussian_blur": ["fn.gaussian_blur(image, sigma=2.0)", "fn.gaussian_blur(image, sigma=6.0)"],
    "laplacian": ["fn.laplacian(image, window_size=5, dtype=types.UINT8)"],
    "equalize": ["fn.equalize(image)"],
    "clahe": ["fn.clahe(image, tiles_x=4, tiles_y=4, clip_limit=1.5)", "fn.clahe(image, tiles_x=4, tiles_y=4, clip_limit=8.0)"],
    "autocontrast": ["fn.autocontrast(image)"],
    "adjust_sharpness": ["fn.adjust_sharpness(image, factor=6.0)"],
    "erase": ["fn.erase(image, anchor=[40, 60], shape=[60, 80], axes=[0, 1], fill_value=0)"],
    "grid_mask": ["fn.grid_mask(image, tile=40, ratio=0.5)", "fn.grid_mask(image, tile=60, ratio=0.4, angle=0.5)"],
    "jitter": ["fn.jitter(image, nDegree=8)"],
    "sphere": ["fn.sphere(image)"],
    "water": ["fn.water(image)"],
    "jpeg_compression_distortion": [
        "fn.jpeg_compression_distortion(image, quality=3)",
        "fn.jpeg_compression_distortion(image, quality=20)",
    ],
    "noise.gaussian": ["fn.noise.gaussian(image, stddev=30.0)"],
    "noise.salt_and_pepper": ["fn.noise.salt_and_pepper(image, prob=0.1)"],
    "noise.shot": ["fn.noise.shot(image, factor=30.0)"],
    "experimental.dilate": ["fn.experimental.dilate(image, mask_size=[5, 5])"],
    "experimental.erode": ["fn.experimental.erode(image, mask_size=[5, 5])"],
    "experimental.median_blur": ["fn.experimental.median_blur(image, window_size=[7, 7])"],
    "augment": ["fn.augment(image, operation=5, magnitude=25.0)", "fn.augment(image, operation=7, magnitude=2.5)"],
    "color_jitter": ["fn.color_jitter(image, brightness=1.3, saturation=2.0)", "fn.color_jitter(image, hue=0.3)"],
    "photometric_distortion": [
        "fn.photometric_distortion(image, fn.photometric_augmentation(hue=[60, 120], p_hue=1.0, contrast=[1.4, 1.6], p_contrast=1.0))"
    ],
    "cutout": ["fn.cutout(image, anchor=[40, 60], shape=[60, 80], fill_value=[128])"],
    "erase_noise": ["fn.erase_noise(image, anchor=[40, 60], shape=[60, 80], mean=128, stddev=60)"],
    "multi_paste": [
        "fn.multi_paste(image, image, output_size=[200, 300], shapes=[[100, 150], [100, 150]], out_anchors=[[0, 0], [90, 140]])"
    ],
    "random_crop": ["fn.random_crop(image, size=120)", "fn.random_crop(image, size=220, padding=30)"],
    "filter": ["fn.filter(image, np.float32([[-1, 0, 0], [0, 1, 0], [0, 0, 1]]))", "fn.filter(image, np.full((9, 9), 1 / 81, np.float32))"],
    "lookup_table": ["fn.lookup_table(image, keys=range(256), values=range(255, -1, -1), dtype=types.UINT8)"],
    "normalize": ["fn.normalize(image, axes=[0, 1], scale=60, shift=128, dtype=types.UINT8)"],
    "debayer": ["fn.debayer(image[:, :, 1], blue_position=[0, 0])"],
    "tensor_resize": ["fn.tensor_resize(image, sizes=[100, 250, 3])"],
    "experimental.remap": ["fn.experimental.remap(image, 40 * np.sin(np.mgrid[:200, :300][0] / 20), np.zeros((200, 300)), relative=True)"],
    "experimental.warp_perspective": ["fn.experimental.warp_perspective(image, matrix=[1, 0.2, 0, 0, 1.1, 0, 0, 0.002, 1])"],
}


def photograph() -> np.ndarray:
    """Returns a photograph of a cat, uint8 (200, 300, 3)."""
    return np.ascontiguousarray(data.chelsea()[40:240, 90:390])


def of_transform(call: str, image: np.ndarray) -> np.ndarray:
    """Returns what the call makes of the image. Several pictures, as those of FiveCrop, lie side by side."""
    torch.manual_seed(7)
    made = eval(call, {"T": T})(image)  # the calls are those of the table above
    return stoker.view(list(made), columns=len(made)).pixels if isinstance(made, tuple) else as_bytes(made)


def of_operator(call: str, image: np.ndarray) -> np.ndarray:
    """Returns what the call makes of the image."""
    with stoker.Pipeline(1, num_threads=1, device_id=None, seed=7) as pipe:
        node = fn.external_source(lambda: image[None], layout="HWC")
        pipe.set_outputs(eval(call, {"fn": fn, "np": np, "types": types, "image": node}))  # the calls are those of the table above
    pipe.build()
    made = np.array(pipe.run()[0].as_cpu()[0])
    pipe.close()
    return as_bytes(made)


def as_bytes(made: np.ndarray) -> np.ndarray:
    """Returns an image as uint8 (height, width, 3); floats are on the scale 0..1."""
    made = np.asarray(made)
    if made.dtype != np.uint8:
        made = (made.clip(0, 1) * 255 + 0.5).astype(np.uint8)
    return np.repeat(made, 3, 2) if made.shape[2] == 1 else made


def pages(out: Path) -> None:
    """Writes the gallery: pictures into out/_static/gallery, and the pages out/gallery-*.md."""
    pictures = out / "_static/gallery"
    pictures.mkdir(parents=True)
    image = photograph()
    stoker.view(image).save(pictures / "original.png")
    _page(out, "transforms", "What each transform does", TRANSFORMS, of_transform, image)
    _page(out, "operators", "What each operator does", OPERATORS, of_operator, image)


def _page(
    out: Path, name: str, title: str, calls: dict[str, list[str]], make: Callable[[str, np.ndarray], np.ndarray], image: np.ndarray
) -> None:
    lines = [
        f"# {title}",
        "",
        f"One photograph, and what each call makes of it. The pictures are made by Stoker {stoker.__version__} with this page.",
        "",
    ]
    lines += ["```{raw} html", '<div class="gallery">', figure("original.png", "the photograph"), "</div>", "```", ""]
    for what, shown in calls.items():
        lines += [f"## {what}", "", "```{raw} html", '<div class="gallery">']
        for i, call in enumerate(shown):
            file = f"{name}-{what.replace('.', '-')}-{i}.png"
            stoker.view(make(call, image)).save(out / "_static/gallery" / file)
            lines.append(figure(file, call))
        lines += ["</div>", "```", ""]
    (out / f"gallery-{name}.md").write_text("\n".join(lines))


def figure(file: str, call: str) -> str:
    text = html.escape(call)
    return f'<figure><img src="_static/gallery/{file}" alt="{text}" loading="lazy"><figcaption><code>{text}</code></figcaption></figure>'
