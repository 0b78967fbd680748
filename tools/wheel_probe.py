# SPDX-License-Identifier: Apache-2.0
"""Tests an installed stoker without other packages: runs a pipeline over six files for two epochs, and checks numbers, shapes and pixels.

usage: wheel_probe.py [MODULE...]     first imports these modules, in this order (they may load other copies of the same libraries)
       wheel_probe.py --write FILE    writes only the image
       wheel_probe.py --read URI      reads this image from URI
       wheel_probe.py --media FILE... decodes videos and sounds, and prints which FFmpeg did so (needs NumPy)
"""

import base64
import ctypes
import importlib
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

what = sys.argv[1] if sys.argv[1:] and sys.argv[1].startswith("--") else None
for module in [] if what else sys.argv[1:]:
    try:
        importlib.import_module(module)
    except ImportError:
        print(f"wheel_probe: no {module} here")

# A baseline gray JPEG of 8x8 pixels, all of them 128.
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAxNDQ0Hyc5PTgyPC4zNDL/wAALCAAIAA"
    "gBAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkK"
    "FhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1N"
    "XW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/ACv/2Q=="
)


def check_gray(images: Any, shape: tuple[int, int, int]) -> None:
    """Checks that all images of a batch have this shape, and that all of their pixels are 128."""
    for image in images:
        assert tuple(image.shape()) == shape, image.shape()
        assert ctypes.string_at(image.data_ptr(), math.prod(shape)) == b"\x80" * math.prod(shape)


def read(uri: str) -> None:
    from stoker import fn, pipeline_def

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def program():
        data, _ = fn.readers.file(files=[uri], name="Reader")
        return fn.decoders.image(data)

    pipeline = program()
    pipeline.build()
    (images,) = pipeline.run()
    check_gray(images, (8, 8, 3))
    print("wheel_probe: read", uri)


def decode(names: list[str]) -> None:
    import stoker

    for name in names:
        try:
            shape = tuple(stoker.VideoDecoder(name)[:].shape)
        except stoker.StokerError as e:
            if "has no video stream" not in str(e):
                raise
            shape = stoker.audioread(name)[0].shape
        assert shape[0] > 1, (name, shape)
        print("wheel_probe: decoded", name, *shape)
    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libavcodec" in line}
    print("wheel_probe: by", *loaded)


def main() -> None:
    from stoker import fn, pipeline_def

    with tempfile.TemporaryDirectory() as folder:
        for i in range(6):
            path = Path(folder) / f"class{i % 2}" / f"{i}.jpg"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(JPEG)

        @pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=1)
        def program():
            data, labels = fn.readers.file(file_root=folder, name="Reader")
            images = fn.decoders.image(data)
            return fn.resize(images, size=(5, 4)), labels

        pipeline = program()
        pipeline.build()
        assert pipeline.epoch_size("Reader") == 6, pipeline.epoch_size("Reader")
        for _ in range(4):
            images, labels = pipeline.run()
            assert len(images) == len(labels) == 3
            check_gray(images, (5, 4, 3))
    print("wheel_probe: a pipeline runs", *sys.argv[1:])


if what == "--write":
    Path(sys.argv[2]).write_bytes(JPEG)
elif what == "--read":
    read(sys.argv[2])
elif what == "--media":
    decode(sys.argv[2:])
else:
    main()
