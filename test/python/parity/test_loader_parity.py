# SPDX-License-Identifier: Apache-2.0
"""Loader with transforms, compared with torchvision on PIL images. Values differ by at most 1 of 255."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import RECORDS, Record, rng_of
from PIL import Image
from samples import smooth
from support import import_torchvision

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def torchvision() -> Any:
    return import_torchvision().transforms


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, rng = tmp_path_factory.mktemp("photographs"), rng_of("loader")
    for i in range(12):
        height, width = (int(v) for v in rng.integers(70, 200, 2))
        path = root / f"class{i % 3}" / f"{i:02d}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(smooth(rng, (height, width, 3))).save(path, quality=92)
    return root


MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def _chains(t: Any) -> dict[str, list[Any]]:
    """Returns lists of transforms without random draws. t: the module of either library's transforms."""
    return {
        "Resize(64, 48)": [t.Resize((64, 48))],
        "Resize, CenterCrop": [t.Resize(72), t.CenterCrop(64)],
        "Resize up": [t.Resize((256, 230))],
        "CenterCrop": [t.CenterCrop(50)],
        "CenterCrop larger than the image": [t.CenterCrop((210, 190))],
        "flips": [t.Resize((40, 60)), t.RandomHorizontalFlip(p=1.0), t.RandomVerticalFlip(p=1.0)],
    }


@pytest.mark.parametrize("name", list(_chains(__import__("stoker.transforms").transforms)))
@pytest.mark.parametrize("normalize", (False, True))
def test_as_torchvision(torchvision: Any, folder: Path, name: str, normalize: bool) -> None:
    from stoker import Loader, transforms

    ours = [*_chains(transforms)[name], *([transforms.Normalize(MEAN, STD)] if normalize else [])]
    peer = [*_chains(torchvision)[name], torchvision.ToTensor(), *([torchvision.Normalize(MEAN, STD)] if normalize else [])]
    files = sorted(folder.glob("*/*.jpg"))
    expected = torch.stack([torchvision.Compose(peer)(Image.open(f).convert("RGB")) for f in files])
    loader = Loader(str(folder), batch_size=len(files), shuffle=False, transforms=ours, dtype=torch.float32)
    images, labels = next(iter(loader))
    assert labels.tolist() == [int(f.parent.name[-1]) for f in files]
    assert images.shape == expected.shape and images.dtype == expected.dtype
    scale = 255 * (torch.tensor(STD).view(3, 1, 1) if normalize else 1)
    gaps = ((images - expected).abs() * scale).numpy()
    case = f"{name}{', Normalize' if normalize else ''}"
    RECORDS.append(Record("Loader (torchvision)", case, float(gaps.max()), float(np.mean(gaps < 1e-3)), 1.0, False, "at most 1", ""))
    assert gaps.max() <= 1 + 1e-3, f"largest difference {gaps.max()} of 255"


def test_targets_follow_image_folder(torchvision: Any, folder: Path) -> None:
    from stoker import Loader, transforms
    from torchvision.datasets import ImageFolder

    loader = Loader(str(folder), batch_size=5, shuffle=False, last_batch="keep", transforms=[transforms.Resize((8, 8))])
    assert [int(y) for _, labels in loader for y in labels] == ImageFolder(str(folder)).targets
