# SPDX-License-Identifier: Apache-2.0
"""A program that works until it is stopped, for test_stopping.py: stopping.py KIND WAY SECONDS FOLDER.

KIND is the kind of work, a key of KINDS, and FOLDER holds the files that make_files wrote.

The program prints "ready" when its work begins. WAY says how the work is ended, SECONDS later. "interrupt" and "kill": the parent process sends the signal.
"close": another thread closes the work. "drop": the last reference to the work goes away. "exit": the main thread ends while other threads work.
"stop": a worker process gets SIGSTOP, and then the work is closed.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import queue
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from stoker import Loader, Pipeline, Storage, fn

IMAGES = {
    "jpeg": "scans.jpg",
    "png": "large.png",
    "webp": "noise.webp",
    "lossless": "flat.webp",
    "tiff": "deflate.tif",
    "bmp": "large.bmp",
}
SIZE = 7000


def make_files(folder: Path) -> None:
    """Writes images that take long to decode, small images, a tar of many members, COCO annotations, and the files of make_media."""
    import json
    import tarfile

    from PIL import Image

    image = Image.new("L", (SIZE, SIZE))
    out = io.BytesIO()
    image.save(out, "JPEG", progressive=True)
    data = out.getvalue()
    last = data.rindex(b"\xff\xda")
    (folder / IMAGES["jpeg"]).write_bytes(data[:last] + data[last:-2] * 20 + data[-2:])
    noise = Image.effect_noise((SIZE // 2, SIZE // 2), 90).convert("RGB")
    noise.save(folder / IMAGES["webp"], method=0, quality=80)
    image.convert("RGB").save(folder / IMAGES["lossless"], lossless=True, method=0)
    image.save(folder / IMAGES["tiff"], compression="tiff_adobe_deflate")
    image.convert("RGB").save(folder / IMAGES["bmp"])
    image.save(folder / IMAGES["png"])
    (folder / "tree" / "a").mkdir(parents=True)
    for i in range(24):
        Image.effect_noise((200, 200), 60).convert("RGB").save(folder / "tree" / "a" / f"{i:02}.jpg")
    with tarfile.open(folder / "many.tar", "w") as tar:
        for i in range(6000):
            tar.addfile(tarfile.TarInfo(f"{i:06}.cls"), io.BytesIO())
    wide = 3000
    zigzag = [x for i in range(3000) for x in (i % 2 * (wide - 1), i * 7 % wide)]
    one = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 5, 5], "area": 25, "iscrowd": 0}
    annotations = {
        "images": [{"id": 1, "file_name": "a/00.jpg", "width": wide, "height": wide}],
        "categories": [{"id": 1, "name": "a"}],
        "annotations": [{"id": i, **one, "segmentation": [zigzag]} for i in range(3)],
    }
    (folder / "coco.json").write_text(json.dumps(annotations))
    make_media(folder)


def make_media(folder: Path) -> None:
    """Writes a long sound; and a video of one long group of pictures, a table and a robot's recordings, if this machine has the program or package for them."""
    samples = np.zeros((8000 * 600, 8), "<i2").tobytes()
    form = struct.pack("<IHHIIHH", 16, 1, 8, 8000, 128000, 16, 16)
    head = b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt " + form + b"data" + struct.pack("<I", len(samples))
    (folder / "long.wav").write_bytes(head + samples)
    if shutil.which("ffmpeg"):
        words = "ffmpeg -nostdin -v error -f lavfi -i testsrc2=s=640x480:r=25:d=20 -g 500 -preset ultrafast -pix_fmt yuv420p"
        subprocess.run([*words.split(), str(folder / "long.mp4")], check=True, timeout=100)
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return
    data = (folder / "tree" / "a" / "00.jpg").read_bytes()
    pq.write_table(pa.table({"image": [data] * 400, "label": list(range(400))}), folder / "table.parquet", row_group_size=20)
    import robots

    robots.make(folder / "robot", (40, 60), cameras=int(bool(shutil.which("ffmpeg"))))


# ---- kinds of work ----


class Silent:
    """A server that accepts connections but never answers."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"


def piped(outputs: Any, batch: int = 2, **settings: Any) -> Pipeline:
    pipe = Pipeline(batch, 2, None, **settings)
    with pipe:
        pipe.set_outputs(outputs())
    return pipe


class Work:
    """Work to be stopped. The program calls step() repeatedly, on any thread, and close() to end the work. thing: a Pipeline, of which step() runs a batch;
    with `iterate` a Loader, of which step() runs an epoch."""

    def __init__(self, thing: Any, iterate: bool = False) -> None:
        self.thing, self.iterate = thing, iterate

    def step(self) -> None:
        if self.iterate:
            for _ in self.thing:
                pass
        else:
            try:
                self.thing.run()
            except StopIteration:
                self.thing.reset()

    def close(self) -> None:
        self.thing.close()


def hang(*_: Any) -> Any:
    queue.SimpleQueue[Any]().get()


class Hangs:
    """A source of fn.external_source, or a Dataset, that hangs at its tenth sample."""

    def __len__(self) -> int:
        return 64

    def __call__(self, info: Any) -> Any:
        return hang() if info.idx_in_epoch == 9 else np.zeros(3)

    def __getitem__(self, i: int) -> Any:
        return hang() if i == 9 else (np.zeros((8, 8, 3), np.uint8), i)


def decode(folder: Path, name: str) -> Work:
    data = np.frombuffer((folder / IMAGES[name]).read_bytes(), np.uint8)
    return Work(piped(lambda: fn.decoders.image(fn.external_source(lambda: [data])), 1))


def remote(folder: Path, **more: Any) -> Work:
    server = Silent()
    work = Work(piped(lambda: fn.readers.file(files=[f"{server.url}/{i}" for i in range(8)])[0], storage=Storage(**more)))
    work.server = server
    return work


def named(folder: Path) -> Work:
    server = Silent()
    name = np.frombuffer(f"{server.url}/a".encode(), np.uint8)
    work = Work(piped(lambda: fn.io.file.read(fn.external_source(lambda: [name] * 2))))
    work.server = server
    return work


class Reading:
    """Reads or lists files of a store by one call of a function or constructor, which no other thread can end."""

    def __init__(self, kind: str = "imread") -> None:
        self.server, self.kind = Silent(), kind

    def run(self) -> None:
        import stoker

        url = self.server.url
        if self.kind == "table of a store":
            Loader(f"{url}/a.parquet", 4)
        elif self.kind == "bucket of Google's":
            os.environ["STORAGE_EMULATOR_HOST"] = url
            Loader("gs://bucket/train", 4)
        else:
            getattr(stoker, self.kind)(f"{url}/a.mp4")

    def close(self) -> None:
        pass


def listing(folder: Path) -> Work:
    server = Silent()
    storage = Storage(endpoint=server.url, anonymous=True)
    work = Work(piped(lambda: fn.readers.file(file_root="s3://bucket/train")[0], storage=storage))
    work.server = server
    return work


def listed(folder: Path) -> Work:
    storage = Storage(fetch=lambda uri, offset, length: b"x", list=hang, fetch_schemes="my")
    return Work(piped(lambda: fn.readers.file(file_root="my://train")[0], storage=storage))


def survey(folder: Path) -> Work:
    server = Silent()
    storage = Storage(endpoint=server.url, anonymous=True)
    work = Work(piped(lambda: fn.readers.webdataset(paths=["s3://bucket/a.tar"], ext=["cls"]), storage=storage))
    work.server = server
    return work


def fetched(folder: Path) -> Work:
    storage = Storage(fetch=lambda uri, offset, length: hang() if uri.endswith("5") else b"x" * 100)
    return Work(piped(lambda: fn.readers.file(files=[f"my://{i}" for i in range(8)])[0], storage=storage))


def external(folder: Path, method: str = "fork") -> Work:
    source = fn.external_source
    return Work(piped(lambda: source(Hangs(), parallel=True, batch=False), py_num_workers=2, py_start_method=method))


def remote_loader(folder: Path) -> Work:
    from stoker import transforms as T

    server = Silent()
    storage = Storage(answer_timeout=60)
    work = Work(
        Loader([(f"{server.url}/{i}.jpg", i) for i in range(8)], 2, storage=storage, transforms=[T.Resize((8, 8))], num_threads=2), True
    )
    work.server = server
    return work


def local_loader(folder: Path, **more: Any) -> Work:
    from stoker import transforms as T

    return Work(Loader(str(folder / "tree"), 4, shuffle=True, transforms=[T.Resize((64, 64))], num_threads=2, **more), True)


def plugin(folder: Path) -> Work:
    from stoker.plugin.pytorch import DALIGenericIterator

    pipe = piped(lambda: fn.readers.file(file_root=str(folder / "tree"), name="r")[1], 4)
    work = Work(DALIGenericIterator([pipe], ["label"], reader_name="r", auto_reset=True), True)
    work.close = pipe.close
    return work


def masks(folder: Path) -> Work:
    reader = fn.readers.coco
    return Work(
        piped(lambda: reader(file_root=str(folder / "tree"), annotations_file=str(folder / "coco.json"), pixelwise_masks=True)[3], 1)
    )


def photographs(folder: Path) -> Work:
    decoded = fn.decoders.image
    return Work(piped(lambda: fn.resize(decoded(fn.readers.file(file_root=str(folder / "tree"))[0]), size=(64, 64)), 8))


class Fed(Work):
    """A step runs a batch of fn.experimental.inputs.video; every 20th step first feeds it the video."""

    def __init__(self, video: Path) -> None:
        super().__init__(piped(lambda: fn.experimental.inputs.video(name="video", sequence_length=8)))
        self.thing.build()
        self.video, self.left = video.read_bytes(), 0

    def step(self) -> None:
        if not self.left:
            self.thing.feed_input("video", self.video)
            self.left = 20
        self.left -= 1
        self.thing.run()


class Drawn:
    """A Dataset whose samples need no file. No sample hangs, because torch's DataLoader needs 5 s to end a worker whose sample hangs. The Dataset is so long
    that its epoch does not end, because CPython loses a KeyboardInterrupt that arrives while it forks the workers of the next epoch."""

    def __len__(self) -> int:
        return 10**7

    def __getitem__(self, i: int) -> Any:
        return np.full((64, 64, 3), i % 256, np.uint8), i


class OfTorch(Work):
    """Iterates over a stoker.DataLoader, which has no close(): close() of this class ends the iteration at the next batch."""

    closed = False

    def step(self) -> None:
        for _ in self.thing:
            if self.closed:
                raise StopIteration

    def close(self) -> None:
        self.closed = True


def arrays(samples: list[Any]) -> Any:
    """Collates to NumPy arrays, because a worker sends a tensor as a file descriptor over a socket. If the main process stops while it receives one, a
    thread of the worker prints a traceback, with torch's own DataLoader too."""
    return [np.stack(part) for part in zip(*samples, strict=True)]


def of_torch(workers: int) -> Work:
    from stoker import DataLoader

    return OfTorch(DataLoader(Drawn(), 4, num_workers=workers, collate_fn=arrays))


def media(folder: Path, kind: str) -> Work:
    """Returns the work of a Loader or a Pipeline over sounds, videos, tables, a robot's recordings or mixtures. If the files of the kind are missing,
    because this machine cannot make them, returns a Loader over a folder of images instead."""
    from stoker import Audio
    from stoker import transforms as T

    small, audio = [T.Resize((64, 64))], {"audio": Audio(rate=16000, duration=300.0, crop="random"), "label": None}
    video, table = folder / "long.mp4", folder / "table.parquet"
    if kind == "sounds":
        return Work(Loader([(str(folder / "long.wav"), i) for i in range(64)], 4, fields=audio, num_threads=2), True)
    if kind == "mixture of media":
        parts = {name: (media(folder, name).thing, 1 / 3) for name in ("sounds", "clips", "robot")}
        return Work(Loader.mix(parts, steps=10_000), True)
    if kind == "frames of a robot" and (folder / "robot" / "videos").exists():
        times = {"observation.images.cam0": [k / 10 for k in range(16)]}
        return Work(Loader.from_lerobot(folder / "robot", 4, shuffle=True, delta_timestamps=times), True)
    if kind == "video that is fed" and video.exists():
        return Fed(video)
    if kind == "mixture":
        return Work(Loader.mix({k: (local_loader(folder).thing, share) for k, share in (("a", 0.7), ("b", 0.3))}, steps=10_000), True)
    if kind == "clips" and video.exists():
        return Work(Loader([(str(video), i) for i in range(64)], 4, frames=8, stride=30, transforms=small, num_threads=2), True)
    if kind == "reader of videos" and video.exists():
        return Work(piped(lambda: fn.readers.video(filenames=[str(video)], sequence_length=4, stride=50, device="cpu")))
    if kind == "table" and table.exists():
        return Work(Loader(str(table), 4, shuffle="groups", transforms=small, num_threads=2), True)
    if kind == "robot" and table.exists():
        return Work(
            Loader.from_lerobot(folder / "robot", 4, shuffle=True, delta_timestamps={"action": [0.0, 0.1]}, columns=["action"]), True
        )
    return local_loader(folder)


def remote_media(folder: Path, ending: str) -> Work:
    from stoker import Audio

    server = Silent()
    given: dict[str, Any] = {"frames": 2} if ending == "mp4" else {"fields": {"audio": Audio(rate=8000), "label": None}}
    files = [(f"{server.url}/{i}.{ending}", i) for i in range(8)]
    work = Work(Loader(files, 2, storage=Storage(answer_timeout=60), num_threads=2, **given), True)
    work.server = server
    return work


MEDIA = ("sounds", "mixture", "clips", "reader of videos", "table", "robot", "frames of a robot", "mixture of media", "video that is fed")
READS = ("imread", "audioread", "VideoDecoder", "table of a store", "bucket of Google's")
KINDS = {
    **{f"decode {name}": lambda folder, name=name: decode(folder, name) for name in IMAGES},
    "local files": photographs,
    "silent server": remote,
    "filling a cache": lambda folder: remote(folder, cache=folder / f"cache-{os.getpid()}"),
    "files by name": named,
    **{kind: lambda folder, kind=kind: Work(Reading(kind)) for kind in READS},
    "listing": listing,
    "listing by a function that hangs": listed,
    "survey of tars": survey,
    "index of a tar": lambda folder: Work(piped(lambda: fn.readers.webdataset(paths=[str(folder / "many.tar")], ext=["cls"]))),
    "masks": masks,
    "external_source by fork": external,
    "external_source by forkserver": lambda folder: external(folder, "forkserver"),
    "external_source by spawn": lambda folder: external(folder, "spawn"),
    "python_workers": lambda folder: Work(Loader(Hangs(), 4, python_workers=2, num_threads=2), True),
    "dataset on threads": lambda folder: Work(Loader(Hangs(), 4, num_threads=2), True),
    "source hangs": lambda folder: Work(piped(lambda: fn.external_source(lambda info: Hangs()(info), batch=False))),
    "function hangs": lambda folder: Work(piped(lambda: fn.python_function(fn.random.uniform(), function=hang))),
    "fetch hangs": fetched,
    "loader": local_loader,
    "loader of a silent server": remote_loader,
    "iterator of the plugin": plugin,
    **{kind: lambda folder, kind=kind: media(folder, kind) for kind in MEDIA},
    "DataLoader": lambda folder: of_torch(2),
    "clips of a silent server": lambda folder: remote_media(folder, "mp4"),
    "sounds of a silent server": lambda folder: remote_media(folder, "wav"),
}
PROCESSES = ("external_source by fork", "external_source by forkserver", "external_source by spawn", "python_workers")
WAYS = ("interrupt", "close", "drop", "exit", "kill")


def ways_of(kind: str) -> tuple[str, ...]:
    """Returns the values of WAY for a kind of work. A DataLoader is never left running at the program's end: if a daemon thread calls torch while the
    interpreter exits, torch's C++ may abort the process, also without Stoker."""
    return tuple(way for way in WAYS if kind != "DataLoader" or way not in ("drop", "exit"))


# ---- ways to stop ----


def descendants(pid: int) -> set[int]:
    """Returns the ids of the processes that pid has started, and of their descendants."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in found | {pid}} - found:
        found |= more
    return found


def run(work: list[Work]) -> None:
    """Repeats work[0].step() until another thread closes the work, which makes step() raise an exception, or until another thread empties the list."""
    try:
        while work:
            work[0].step()
    except Exception as e:
        print(f"ended by {type(e).__name__}", flush=True)


def main(kind: str, way: str, seconds: float, folder: Path) -> None:
    if way == "exit":  # finalizers of torch print errors if a thread imports torch while the interpreter ends
        with contextlib.suppress(ImportError):
            import torch  # noqa: F401
    work = [KINDS[kind](folder)]
    if way in ("interrupt", "kill"):
        try:
            print("ready", flush=True)
            while True:
                work[0].step()
        except KeyboardInterrupt:
            work[0].close()
            sys.exit(0)
    thread = threading.Thread(target=run, args=(work,), daemon=True)
    thread.start()
    print("ready", flush=True)
    time.sleep(seconds)
    if way == "stop":
        # Stops the workers, but not the processes that multiprocessing starts for itself: at exit, multiprocessing waits for these.
        for worker in multiprocessing.active_children():
            os.kill(worker.pid, signal.SIGSTOP)
    if way in ("close", "stop"):
        work[0].close()
        thread.join(30)
        print("the thread works on" if thread.is_alive() else "closed", flush=True)
    elif way == "drop":
        work.clear()


def add_in_place(batch: Any) -> Any:
    """A collate_fn that changes the batch it gets."""
    batch.label.add_(100)
    return batch


def add_to_labels(images: Any, labels: Any) -> tuple[Any, Any]:
    """A function for batch_transforms that changes the labels it gets."""
    labels.add_(100)
    return images, labels


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]))
