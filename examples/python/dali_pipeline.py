# SPDX-License-Identifier: Apache-2.0
"""A program in DALI's style: dali_pipeline.py FOLDER. It also runs if its imports name nvidia.dali instead of stoker."""

import sys
import time

from stoker import fn, pipeline_def, types
from stoker.plugin.pytorch import DALIClassificationIterator, LastBatchPolicy


@pipeline_def(batch_size=128, num_threads=4, device_id=None, seed=12)
def training(folder, shard_id=0, num_shards=1):
    data, label = fn.readers.file(
        file_root=folder, random_shuffle=True, shard_id=shard_id, num_shards=num_shards, pad_last_batch=True, name="Reader"
    )
    image = fn.decoders.image_random_crop(data, output_type=types.RGB)
    image = fn.resize(image, size=224, interp_type=types.INTERP_LINEAR)
    image = fn.crop_mirror_normalize(
        image,
        dtype=types.FLOAT,
        output_layout="CHW",
        mean=[0.485 * 255, 0.456 * 255, 0.406 * 255],
        std=[0.229 * 255, 0.224 * 255, 0.225 * 255],
        mirror=fn.random.coin_flip(probability=0.5),
    )
    return image, label


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: dali_pipeline.py FOLDER")
    iterator = DALIClassificationIterator(
        training(sys.argv[1]), reader_name="Reader", last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True
    )
    for epoch in range(2):
        start, seen = time.perf_counter(), 0
        for (batch,) in iterator:
            seen += len(batch["data"])
        print(f"epoch {epoch}: {seen} images, {seen / (time.perf_counter() - start):.0f} a second")


if __name__ == "__main__":
    main()
