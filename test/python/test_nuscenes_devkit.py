# SPDX-License-Identifier: Apache-2.0
"""readers.nuscenes and make_nuscenes, compared with NuScenes' own devkit if it is installed. The devkit needs NumPy below 2, and thus its own environment.

python -m venv /tmp/devkit && /tmp/devkit/bin/pip install "numpy<2" nuscenes-devkit pytest
PYTHONPATH=build/python STOKER_BUILD=build /tmp/devkit/bin/python -m pytest test/python/test_nuscenes_devkit.py
"""

from __future__ import annotations

import numpy as np
import pytest
from stoker import fn, pipeline_def
from support import SEED, make_nuscenes

devkit = pytest.importorskip("nuscenes.nuscenes")
structured = pytest.importorskip("stoker.structured")

CAMERAS = ["CAM_FRONT", "CAM_FRONT_RIGHT", "CAM_FRONT_LEFT", "CAM_BACK", "CAM_BACK_LEFT", "CAM_BACK_RIGHT"]
CLASSES = ["car", "truck", "construction_vehicle", "bus", "trailer", "barrier", "motorcycle", "bicycle", "pedestrian", "traffic_cone"]
OF_CAMERAS = ["img_timestamp", "intrinsics", "extrinsics", "lidar2img", "bboxes2d", "labels2d", "centers2d", "depths2d"]
OF_SAMPLES = ["ego_pose", "gt_bboxes_3d", "gt_labels_3d", "num_lidar_points", "points"]


def camera_values(nusc, sample, channel, lidar_to_world):
    from nuscenes.eval.detection.utils import category_to_detection_name
    from nuscenes.utils.geometry_utils import transform_matrix, view_points
    from pyquaternion import Quaternion
    from shapely.geometry import MultiPoint
    from shapely.geometry import box as rectangle

    data = nusc.get("sample_data", sample["data"][channel])
    calibrated = nusc.get("calibrated_sensor", data["calibrated_sensor_token"])
    pose = nusc.get("ego_pose", data["ego_pose_token"])
    k = np.eye(4)
    k[:3, :3] = calibrated["camera_intrinsic"]
    world = transform_matrix(calibrated["translation"], Quaternion(calibrated["rotation"]), inverse=True) @ transform_matrix(
        pose["translation"], Quaternion(pose["rotation"]), inverse=True
    )
    seen = []
    for token in sample["anns"]:
        found = nusc.get_box(token)
        found.translate(-np.array(pose["translation"]))
        found.rotate(Quaternion(pose["rotation"]).inverse)
        found.translate(-np.array(calibrated["translation"]))
        found.rotate(Quaternion(calibrated["rotation"]).inverse)
        corners = found.corners()
        flat = view_points(corners[:, corners[2] > 0], np.array(calibrated["camera_intrinsic"]), True).T[:, :2]
        hull = MultiPoint(flat.tolist()).convex_hull
        image = rectangle(0, 0, data["width"], data["height"])
        name = category_to_detection_name(found.name)
        if not hull.intersects(image) or name is None or found.center[2] <= 0:
            continue
        left, top, right, bottom = hull.intersection(image).bounds
        if right - left < 1 or bottom - top < 1:
            continue
        middle = view_points(found.center[:, None], np.array(calibrated["camera_intrinsic"]), True)[:2, 0]
        seen.append((left, top, right, bottom, CLASSES.index(name), *middle, found.center[2]))
    table = np.array(seen).reshape(-1, 8)
    return [
        data["timestamp"] / 1e6,
        k,
        world @ lidar_to_world,
        k @ world @ lidar_to_world,
        table[:, :4],
        table[:, 4],
        table[:, 5:7],
        table[:, 7],
    ]


def test_against_the_devkit(tmp_path):
    from nuscenes.eval.detection.utils import category_to_detection_name
    from nuscenes.utils.data_classes import LidarPointCloud
    from nuscenes.utils.geometry_utils import points_in_box, transform_matrix
    from pyquaternion import Quaternion

    root = make_nuscenes(tmp_path, scenes=4, samples=6, seed=SEED, size=(1600, 900), objects=40, points=3000)
    nusc = devkit.NuScenes(version="v1.0-mini", dataroot=str(root), verbose=False)

    @pipeline_def(batch_size=1, num_threads=1)
    def graph():
        return tuple(fn.readers.nuscenes(root=str(root), version="v1.0-mini", fields=OF_CAMERAS + OF_SAMPLES))

    pipe = graph()
    boxes = 0
    for sample in sorted(nusc.sample, key=lambda s: s["timestamp"]):
        found = [np.asarray(o[0]) for o in pipe.run()]
        lidar = nusc.get("sample_data", sample["data"]["LIDAR_TOP"])
        calibrated = nusc.get("calibrated_sensor", lidar["calibrated_sensor_token"])
        pose = nusc.get("ego_pose", lidar["ego_pose_token"])
        turns = Quaternion(pose["rotation"]).rotation_matrix @ Quaternion(calibrated["rotation"]).rotation_matrix
        world = transform_matrix(pose["translation"], Quaternion(pose["rotation"])) @ transform_matrix(
            calibrated["translation"], Quaternion(calibrated["rotation"])
        )
        for k, channel in enumerate(CAMERAS):
            for i, right in enumerate(camera_values(nusc, sample, channel, world)):
                value = found[6 * i + k]
                assert value.shape == np.shape(right) and np.allclose(value, right, rtol=3e-7, atol=3e-4), (OF_CAMERAS[i], channel)
            boxes += len(found[6 * 4 + k])
        path, objects, _ = nusc.get_sample_data(sample["data"]["LIDAR_TOP"])
        velocities = np.nan_to_num([np.linalg.inv(turns) @ [*nusc.box_velocity(o.token)[:2], 0] for o in objects])
        rows = [
            [*o.center, o.wlh[1], o.wlh[0], o.wlh[2], o.orientation.yaw_pitch_roll[0], *v[:2]]
            for o, v in zip(objects, velocities, strict=True)
        ]
        names = [category_to_detection_name(o.name) for o in objects]
        assert np.allclose(found[48], world, rtol=3e-7)
        assert np.allclose(found[49], rows, atol=1e-4), np.abs(found[49] - rows).max()
        assert found[50].tolist() == [CLASSES.index(n) if n else -1 for n in names]
        points = LidarPointCloud.from_file(path).points
        assert np.array_equal(points.T, found[52][:, :4])
        counts = np.array([points_in_box(o, points[:3]).sum() for o in objects])
        assert np.abs(counts - found[51]).max() <= 2  # some points of the ground lie on the border of a box
    assert boxes > 200
    print(boxes, "boxes in images")
