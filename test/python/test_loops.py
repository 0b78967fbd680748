# SPDX-License-Identifier: Apache-2.0
"""Memory, threads and descriptors do not grow over 50 epochs of one Loader, or 50 Loaders, of sounds, videos, tables, robots' recordings and mixtures."""

import io
import json
import subprocess
import sys
import wave

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")
pytest.importorskip("pyarrow")
import robots  # noqa: E402
import tables  # noqa: E402
import videos  # noqa: E402

# The batches of an epoch take at least 4 MiB, so that a loop that held the batches of all epochs would grow by more than ROOM in 30 rounds.
ROOM = 32  # in MiB
LOOP = """
import gc, json, os, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from stoker import Audio, Loader, Pipeline, fn
from stoker import transforms as T
kind, loop, root = sys.argv[1], sys.argv[2], Path(sys.argv[3])

def measured():
    gc.collect()
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return [int(status["VmRSS"].split()[0]) >> 10, int(status["Threads"]), len(os.listdir("/proc/self/fd"))]

def sounds():
    return Loader(sorted(root.glob("*.wav")), 4, fields={"audio": Audio(rate=16000)}, num_threads=2)

def clips():
    return Loader(sorted(root.glob("*.mp4")), 4, frames=8, transforms=[T.Resize((96, 128))], shuffle=True, num_threads=2)

def table(**more):
    return Loader(sorted(root.glob("**/a.parquet")), 8, transforms=[T.Resize((128, 128))], num_threads=2, **more)

class Videos:
    # An iteration is one epoch of fn.readers.video.

    def __init__(self):
        self.pipe = Pipeline(4, 2, None)
        with self.pipe:
            files = [str(f) for f in sorted(root.glob("*.mp4"))]
            self.pipe.set_outputs(fn.readers.video(filenames=files, sequence_length=8, step=8, device="cpu", name="r"))
        self.pipe.build()
        self.steps = -(-self.pipe.epoch_size("r") // 4)
        self.close = self.pipe.close

    def __iter__(self):
        for _ in range(self.steps):
            yield self.pipe.run()

def robot():
    times = {key: [k / 10 for k in range(16)] for key in ("observation.images.cam0", "observation.state")}
    return Loader.from_lerobot(root / "robot", 8, shuffle=True, delta_timestamps=times if (root / "robot" / "videos").exists() else None)

def mixture():
    return Loader.mix({"table": (table(), 0.5), "sounds": (sounds(), 0.5)})

make = {
    "sounds": sounds,
    "clips": clips,
    "table": table,
    "groups": lambda: table(shuffle="groups"),
    "reader": Videos,
    "robot": robot,
    "mixture": mixture,
}[kind]

def epoch(loader):
    count = sum(1 for batch in loader)
    assert count >= 1, count

def opened():
    loader = make()
    if loop == "openings":
        epoch(loader)
    elif loop == "left":  # an iteration that ends in mid-epoch, and no call of close()
        next(iter(loader))
        return
    elif loop == "states":
        next(iter(loader))
        state = loader.state_dict()
        loader.close()
        loader = make()
        loader.load_state_dict(state)
        next(iter(loader))
    loader.close()

seen = []
if loop == "epochs":
    loader = make()
    for _ in range(50):
        epoch(loader)
        seen.append(measured())
    loader.close()
else:
    for _ in range(50):
        opened()
        seen.append(measured())
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    """Makes a folder of sounds and, if this machine can make them, videos, with subfolders for a table and for a robot's recordings."""
    root = tmp_path_factory.mktemp("media")
    rng = np.random.default_rng(1)
    for i in range(8):
        with wave.open(str(root / f"{i}.wav"), "wb") as sound:
            sound.setnchannels(1)
            sound.setsampwidth(2)
            sound.setframerate(16000)
            sound.writeframes(rng.integers(-9999, 9999, 16000 * 8, dtype=np.int16).tobytes())
    if videos.can_decode():
        data = videos.make(tmp_path_factory.mktemp("video"), "h264_small.mp4").read_bytes()
        for i in range(4):
            (root / f"{i}.mp4").write_bytes(data)
    picture = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (128, 128, 3), dtype=np.uint8)).save(picture, "JPEG")
    table = {
        "image": tables.pa.array([{"bytes": picture.getvalue(), "path": None}] * 64, tables.IMAGES),
        "label": tables.pa.array(range(64)),
    }
    tables.write(root / "table" / "a.parquet", table)
    robots.make(root / "robot", (16, 24), cameras=int(videos.can_decode()))
    return root


CASES = {
    "epochs": ["sounds", "clips", "table", "reader", "robot", "mixture"],
    "openings": ["sounds", "clips", "groups", "reader", "robot", "mixture"],
    "left": ["sounds", "robot", "mixture"],
    "states": ["sounds", "robot", "mixture"],
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("loop", "kind"), [(loop, kind) for loop, kinds in CASES.items() for kind in kinds])
def test_loops_stay_flat(media, kind, loop):
    if kind in ("clips", "reader") and not videos.can_decode():
        pytest.skip("needs the ffmpeg program, and a build with video")
    command = [sys.executable, "-c", LOOP, kind, loop, str(media)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=390, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert len(seen) == 50
    # Takes the minimum of ten rounds, because threads of one round may not have ended when the next one begins; on a slow machine, this may be so in each
    # round. A thread or descriptor that stays open in every tenth round would add three.
    early, late = (np.min(seen[i : i + 10], axis=0).tolist() for i in (10, 40))
    assert late[0] <= early[0] + ROOM, seen
    assert late[1] <= early[1] + 2, seen
    assert late[2] <= early[2] + 2, seen
