# SPDX-License-Identifier: Apache-2.0
"""Perspective, elastic displacement, random sizes, FiveCrop and TenCrop, padding modes and noise, compared with torchvision for the same draws."""

import itertools

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import Loader, fn, pipeline_def
from stoker import transforms as T
from stoker.errors import InvalidArgumentError, UnsupportedError
from stoker.loader.lower import _geometry
from support import SEED, import_torchvision, photograph
from test_transforms_more import PICTURES, made, pairs_of

tv = import_torchvision().transforms
v2 = tv.v2.functional
HEIGHT, WIDTH = PICTURES[0].shape[:2]
PLAIN = torch.from_numpy(PICTURES).permute(0, 3, 1, 2)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_perspective_moves_corners_inwards(mode):
    t = T.RandomPerspective(0.6, 1, mode, fill=9)

    @pipeline_def(batch_size=20, seed=SEED % 1000)
    def define():
        image = fn.external_source(lambda: [PICTURES[k % 5] for k in range(20)])
        matrix = _geometry.corners(t, (HEIGHT, WIDTH), None)
        return _geometry.perspective(image, matrix, t.interpolation, 9.0), matrix

    images, matrices = (o.as_array() for o in define().run())
    start = np.array([[0, 0], [WIDTH - 1, 0], [WIDTH - 1, HEIGHT - 1], [0, HEIGHT - 1]])
    inside, near = set(), []
    for k, (image, matrix) in enumerate(zip(images, matrices.reshape(-1, 3, 3), strict=True)):
        points = np.c_[start, np.ones(4)] @ matrix.T
        end = points[:, :2] / points[:, 2:]
        assert abs(end - end.round()).max() < 1e-3
        moved = abs(end.round() - start)
        assert (moved <= [0.6 * (WIDTH // 2), 0.6 * (HEIGHT // 2)]).all()
        inside.update(map(tuple, moved))
        arguments = (start.tolist(), end.round().astype(int).tolist(), tv.InterpolationMode(mode))
        want = v2.perspective(Image.fromarray(PICTURES[k % 5]), *arguments, fill=9)
        near.append((abs(np.asarray(want).astype(int) - image) <= 1).mean())
    # Pixels on the border of the fill may differ if the filter is bilinear.
    assert np.mean(near) > (0.99 if mode == "nearest" else 0.999) and len(inside) > 60, near


def test_elastic_displacements_are_those_of_torchvision():
    """The displacements have torchvision's spread. With the same displacements, torchvision makes the same image."""
    large = np.stack([photograph(np.random.default_rng(SEED), 120, 140)] * 4)
    t, shape = T.ElasticTransform((60, 30), 3.0, fill=20), large.shape[1:3]

    @pipeline_def(batch_size=4, seed=5)
    def define():
        moved = _geometry.displacements(t, shape, False)
        return _geometry.elastic(fn.external_source(lambda: large), moved, t.interpolation, [20.0]), *moved

    images, x, y = (o.as_array() for o in define().run())
    theirs = tv.v2.ElasticTransform([60.0, 30.0], [3.0, 3.0]).make_params([torch.zeros(3, *shape)])["displacement"][0]
    for ours, axis in ((x, 0), (y, 1)):
        spread = (theirs[..., axis] * shape[1 - axis] / 2).std().item()
        assert ours.shape[1:] == shape and abs(ours.std() / spread - 1) < 0.2, (ours.std(), spread)
    for picture, image, dx, dy in zip(large, images, x, y, strict=True):
        moved = torch.from_numpy(np.stack([dx * 2 / shape[1], dy * 2 / shape[0]], -1))[None]
        want = v2.elastic(torch.from_numpy(picture).permute(2, 0, 1), moved, fill=20.0).permute(1, 2, 0).numpy()
        assert abs(want.astype(int) - image).max() <= 1


def test_masks_boxes_and_points_follow():
    """Each pixel of the mask stores its own number, which shows how it moved. Pixels of the image, boxes and points must move in the same way."""
    names = np.arange(1, HEIGHT * WIDTH + 1, dtype=np.int32).reshape(HEIGHT, WIDTH)
    boxes, points = np.array([[5, 6, 30, 29]], np.float32), np.array([[20.0, 20.0]], np.float32)
    source = pairs_of([(p, names, boxes, points) for p in PICTURES] * 4)
    kinds = {"image": "Image", "mask": "Mask", "boxes": "BoundingBoxes", "points": "KeyPoints"}
    for transform in (
        T.RandomPerspective(0.3, 0.5, "nearest"),
        T.RandomZoomOut({"Image": 7, "Mask": 0}),
        T.RandomApply([T.RandomPerspective(0.3, 1, "nearest")]),
    ):
        changed = 0
        for batch, picture in zip(Loader(source, 1, transforms=[transform], fields=kinds, dtype=torch.uint8), itertools.cycle(PICTURES)):
            mask, image = batch.mask[0].numpy(), batch.image[0].permute(1, 2, 0).numpy()
            seen = mask > 0
            assert np.array_equal(image[seen], picture.reshape(-1, 3)[mask[seen] - 1]), transform
            changed += mask.shape != names.shape or not np.array_equal(mask, names)
            at = np.argwhere(mask == names[20, 20])
            assert len(at) == 0 or abs(at - batch.points[0].numpy()[0, ::-1]).max() <= 3.5
            box = np.isin(mask, names[6:29, 5:30])
            rows, columns = (np.flatnonzero(box.any(axis)) for axis in (1, 0))
            edges = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
            assert abs(batch.boxes[0].numpy()[0] - edges).max() <= 2.5, (transform, edges, batch.boxes)
        assert 3 < changed < 17
    masks = pairs_of([(p, names) for p in PICTURES])
    for transform in (
        T.ElasticTransform(9.0, 2.0, "nearest"),
        T.Pad(9, padding_mode="reflect"),
        T.RandomCrop(50, 8, True, padding_mode="edge"),
    ):
        for batch, picture in zip(
            Loader(masks, 1, transforms=[transform], fields={"image": "Image", "mask": "Mask"}, dtype=torch.uint8), PICTURES, strict=True
        ):
            mask = batch.mask[0].numpy()
            image = np.where(mask[..., None] > 0, picture.reshape(-1, 3)[mask - 1], 0)
            assert np.array_equal(batch.image[0].permute(1, 2, 0).numpy(), image), transform
        with pytest.raises(UnsupportedError, match="neither boxes nor points"):
            next(iter(Loader(source, 1, transforms=[transform], fields=kinds)))


def test_random_extents():
    extents = {}
    many = np.stack([PICTURES[0]] * 60)
    for t in (T.ScaleJitter((30, 40), (0.5, 2)), T.RandomShortestSize([20, 30], 50), T.RandomResize(20, 24), T.RandomZoomOut(7, (1, 2), 1)):
        images = [batch.image[0] for batch in Loader((many,), 1, transforms=[t], dtype=torch.uint8)]
        extents[type(t).__name__] = {tuple(i.shape[1:]) for i in images}
        for image in images[:9]:
            if not isinstance(t, T.RandomZoomOut):
                want = tv.functional.resize(Image.fromarray(PICTURES[0]), image.shape[1:])
                assert abs(np.asarray(want).astype(int) - image.permute(1, 2, 0).numpy()).max() <= 1
    assert extents["RandomShortestSize"] == {(20, 26), (30, 40)}
    assert extents["RandomResize"] == {tuple(tv.functional._compute_resized_output_size((HEIGHT, WIDTH), [s])) for s in range(20, 24)}
    jittered = np.array(sorted(extents["ScaleJitter"]))
    r = min(40 / HEIGHT, 30 / WIDTH)
    assert (
        len(jittered) > 20
        and (jittered >= np.floor([0.5 * r * HEIGHT, 0.5 * r * WIDTH])).all()
        and (jittered <= [2 * r * HEIGHT, 2 * r * WIDTH]).all()
    )
    zoomed = np.array(sorted(extents["RandomZoomOut"]))
    assert len(zoomed) > 30 and (zoomed >= [HEIGHT, WIDTH]).all() and (zoomed <= [2 * HEIGHT, 2 * WIDTH]).all()


def test_crops_in_fives_and_tens():
    """FiveCrop and TenCrop give torchvision's crops as a list; all crops of an image share the draw of the transform before them. Masks, functions after the
    crops, and RandomApply around them are refused."""
    for t, theirs in (
        (T.FiveCrop((20, 30)), tv.FiveCrop((20, 30))),
        (T.TenCrop(21), tv.TenCrop(21)),
        (tv.TenCrop(21, True), tv.TenCrop(21, True)),
    ):
        whole, crops = made([T.RandomHorizontalFlip()]), made([T.RandomHorizontalFlip(), t])
        assert isinstance(crops, list)
        for k, image in enumerate(whole):
            for crop, want in zip((c[k] for c in crops), theirs(Image.fromarray(image.permute(1, 2, 0).numpy())), strict=True):
                assert np.array_equal(crop.permute(1, 2, 0), np.asarray(want))
    images, labels = next(iter(Loader((PICTURES, np.arange(5)), 5, transforms=[T.FiveCrop(20), T.ToTensor(), T.Normalize([0.5], [0.5])])))
    assert torch.stack(images).shape == (5, 5, 3, 20, 20) and labels.tolist() == list(range(5))
    with pytest.raises(UnsupportedError, match="views of an image"):
        next(
            iter(
                Loader(
                    pairs_of([(p, p[..., 0]) for p in PICTURES]), 2, transforms=[T.FiveCrop(20)], fields={"image": "Image", "mask": "Mask"}
                )
            )
        )
    with pytest.raises(InvalidArgumentError, match="come as a list"):
        made([T.FiveCrop(20), torch.stack])
    for group in (T.RandomApply, T.RandomOrder):
        with pytest.raises(UnsupportedError, match="inside RandomApply"):
            made([group([T.FiveCrop(20)])])


def test_random_crops_of_images_that_are_continued_outside():
    for mode in ("edge", "reflect", "symmetric"):
        padded = [np.pad(p, ((4, 4), (4, 4), (0, 0)), mode) for p in PICTURES]
        for image, p in zip(made([T.RandomCrop((45, 60), 4, padding_mode=mode)]), padded, strict=True):
            assert any(np.array_equal(p[y : y + 45, x : x + 60], image.permute(1, 2, 0)) for y in range(9) for x in range(9)), mode


def test_noise_and_channels():
    gray = np.full((4, 60, 60, 3), 100, np.uint8)
    noise = made([T.GaussianNoise(0.1, 0.05)], gray).double()
    assert abs(noise.mean() - 125.5) < 1 and abs(noise.std() - 12.75) < 0.7
    many = np.stack([PICTURES[0]] * 60)
    orders = [
        torch.equal(image, PLAIN[0][list(p)])
        for image in made([T.RandomChannelPermutation()], many)
        for p in itertools.permutations(range(3))
    ]
    seen = np.array(orders).reshape(60, 6)
    assert (seen.sum(1) == 1).all() and (seen.sum(0) > 0).all()


def test_photometric_distort():
    """Each part is applied to about half of the samples. If only the brightness has a factor other than 1, only it changes. With p=1 all parts are applied,
    in either order of contrast and saturation."""
    many = np.stack([PICTURES[0]] * 200)
    images = made([T.RandomPhotometricDistort((0.5, 0.5), (1, 1), (1, 1), (0, 0))], many)
    dark = np.asarray(v2.adjust_brightness(Image.fromarray(PICTURES[0]), 0.5)).astype(int).sum()
    assert {int(i.int().sum()) for i in images} == {int(dark), int(PICTURES[0].astype(int).sum())}
    assert abs(sum(int(i.int().sum()) == dark for i in images) - 100) < 36
    both = made([T.RandomPhotometricDistort((1, 1), (1.5, 1.5), (0, 0), (0, 0), p=1)], many)
    color, contrast = (lambda i: v2.adjust_saturation(i, 0)), (lambda i: v2.adjust_contrast(i, 1.5))
    picture = Image.fromarray(PICTURES[0])
    wanted = {np.asarray(b(a(picture))).tobytes() for a, b in ((color, contrast), (contrast, color))}
    assert {i.permute(1, 2, 0).numpy().tobytes() for i in both} == wanted  # the image is gray, so permuting channels changes nothing
