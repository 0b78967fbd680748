#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs a NuScenes data set as videos and reads batches of six cameras from them. Needs the ffmpeg program.

usage: from_videos.py NUSCENES VIDEOS [TABLES]        make_nuscenes.py makes a small set to try it with
"""

import subprocess
import sys

from stoker.structured import NuScenes
from stoker.structured.inputs import SamplerInputIterable, SequenceSampler
from stoker.structured.pipeline import DALIStructuredOutputIterator, PipelineDefinition
from stoker.structured.processing_steps import ImageDecoder, ImageMeanStdDevNormalizer

if not 3 <= len(sys.argv) <= 4 or sys.argv[1].startswith("-"):
    sys.exit("usage: from_videos.py NUSCENES VIDEOS [TABLES]")
root, videos, tables = sys.argv[1], sys.argv[2], (sys.argv[3:] or ["v1.0-mini"])[0]
subprocess.run(["stoker", "pack-video", root, "-o", videos, "--tables", tables, "--gop", "10"], check=True)
data = NuScenes(root, tables, fields=["image", "lidar2img", "timestamp"], video_root=videos)
# Reads two scenes at a time, each in the order of its frames.
order = SamplerInputIterable(data, SequenceSampler(2, data.sequence_lengths, seed=1))
steps = [ImageDecoder("image", use_device_mixed=True), ImageMeanStdDevNormalizer("image", [123.7, 116.3, 103.5], [58.4, 57.1, 57.4])]
definition = PipelineDefinition(order, steps)
pipe = definition.get_dali_pipeline(batch_size=2, num_threads=2, device_id=None)
for batch in DALIStructuredOutputIterator(3, pipe, definition.check_and_get_output_data_structure()):
    images = [batch["cameras"][k]["image"] for k in range(6)]
    print(batch["timestamp"].tolist(), tuple(images[0].shape), [round(float(image.mean()), 2) for image in images])
