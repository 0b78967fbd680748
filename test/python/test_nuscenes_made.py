# SPDX-License-Identifier: Apache-2.0
"""make_nuscenes: its tables are consistent, their files exist, and images and lidar show the objects at the annotated positions."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import SEED, make_nuscenes

structured = pytest.importorskip("stoker.structured")
SIZE = (320, 180)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nuscenes")
    return make_nuscenes(folder, scenes=2, samples=3, seed=SEED, size=SIZE, objects=12, points=800)


def table(root, name):
    return json.loads((root / "v1.0-mini" / f"{name}.json").read_text())


def digest(root):
    files = sorted(p for p in Path(root).rglob("*") if p.is_file())
    return hashlib.sha256(b"".join(str(p.relative_to(root)).encode() + p.read_bytes() for p in files)).hexdigest()


def test_references_and_chains(root):
    rows = {p.stem: json.loads(p.read_text()) for p in (root / "v1.0-mini").glob("*.json")}
    tokens = {name: {row["token"] for row in rows[name]} for name in rows}
    assert len(rows) == 13 and all(len(tokens[name]) == len(rows[name]) for name in rows)
    for name, found in rows.items():
        for row in found:
            for key, value in row.items():
                target = key.removesuffix("_token").removeprefix("first_").removeprefix("last_")
                target = {"sample": "sample_annotation"}.get(target, target) if name == "instance" else target
                target = "sample_annotation" if target == "annotation" else target
                if key.endswith("_token") and key != "token":
                    assert value in tokens[target], (name, key)
        if "prev" in found[0]:
            by_token = {row["token"]: row for row in found}
            assert all(not row["next"] or by_token[row["next"]]["prev"] == row["token"] for row in found)
            starts = [row for row in found if not row["prev"]]
            seen = 0
            for row in starts:
                while row:
                    seen += 1
                    row = by_token.get(row["next"])
            assert seen == len(found)
    assert len(rows["sample"]) == 6 and sum(row["is_key_frame"] for row in rows["sample_data"]) == 6 * 7
    assert all((root / row["filename"]).is_file() for row in rows["sample_data"] + rows["map"])


def test_images_and_points(root):
    data = table(root, "sample_data")
    for row in data:
        if row["fileformat"] == "jpg":
            with Image.open(root / row["filename"]) as image:
                assert image.size == SIZE == (row["width"], row["height"])
        else:
            points = np.fromfile(root / row["filename"], "<f4").reshape(-1, 5)
            assert len(points) == 800 and np.isfinite(points).all()


def test_same_seed_same_files(root, tmp_path):
    same = make_nuscenes(tmp_path / "same", scenes=2, samples=3, seed=SEED, size=SIZE, objects=12, points=800)
    assert digest(same) == digest(root)
    other = make_nuscenes(tmp_path / "other", scenes=1, samples=1, seed=SEED + 1, size=SIZE, cameras=["CAM_BACK"])
    assert table(other, "scene")[0]["token"] != table(root, "scene")[0]["token"]
    assert {row["channel"] for row in table(other, "sensor")} == {"CAM_BACK", "LIDAR_TOP"}


def test_wrong_arguments_are_refused(tmp_path):
    with pytest.raises(ValueError, match="CAM_TOP is not a camera of NuScenes; there are CAM_FRONT"):
        make_nuscenes(tmp_path, cameras=["CAM_TOP"])
    with pytest.raises(ValueError, match="holds no photographs"):
        make_nuscenes(tmp_path, images=tmp_path)
    with pytest.raises(ValueError, match="samples is 0: it must be at least 1"):
        make_nuscenes(tmp_path, samples=0)
