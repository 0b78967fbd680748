# SPDX-License-Identifier: Apache-2.0
"""Every sample is delivered once in an epoch, also in a resumed one, for each kind of source, number of ranks and way to end an epoch."""

import io
import json
import shutil
import struct
import subprocess
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import videos
from PIL import Image
from stoker import Audio, Loader, Pipeline, fn, tfrecord, types
from stoker import transforms as T
from storage import BUILD
from support import tar_of
from test_tfrecord import example, write

COUNT = 23


def picture(i):
    out = io.BytesIO()
    Image.new("RGB", (8, 8), (i, i, i)).save(out, "PNG")
    return out.getvalue()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Writes the same samples in every form into one folder."""
    root = tmp_path_factory.mktemp("forms")
    (root / "files").mkdir()
    for i in range(COUNT):
        (root / "files" / f"{i:03}.png").write_bytes(picture(i))
    for k, ids in enumerate((range(9), range(9, 10), range(10, COUNT))):
        (root / f"{k}.tar").write_bytes(tar_of((f"{i:03}.{e}", d) for i in ids for e, d in (("png", picture(i)), ("cls", str(i).encode()))))
    write(root / "a.tfrecord", [example({"image": ("s", [picture(i)])}) for i in range(COUNT)])
    images = [{"id": i + 1, "file_name": f"{i:03}.png", "width": 8, "height": 8} for i in range(COUNT)]
    notes = [{"id": i + 1, "image_id": i + 1, "category_id": 1, "bbox": [0, 0, 4, 4], "area": 16, "iscrowd": 0} for i in range(COUNT)]
    (root / "coco.json").write_text(json.dumps({"images": images, "annotations": notes, "categories": [{"id": 1, "name": "a"}]}))
    (root / "classes" / "a").mkdir(parents=True)
    for i in range(COUNT):
        (root / "classes" / "a" / f"{i:03}.png").write_bytes(picture(i))
    command = [BUILD / "cli" / "stoker", "pack", root / "classes", "-o", root / "packed", "--shard-size", "10kB", "--quiet"]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    return root


@pytest.fixture(scope="module")
def url(data):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            body = (data / self.path[1:]).read_bytes()
            size, asked = len(body), self.headers.get("Range")
            self.send_response(206 if asked else 200)
            if asked:
                first, _, last = asked[6:].partition("-")
                body = body[int(first) : int(last or size) + 1]
                self.send_header("Content-Range", f"bytes {first}-{int(first) + len(body) - 1}/{size}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # closed pipelines reset their connections, which is not reported
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setenv("XDG_CACHE_HOME", str(data / "caches"))
        yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def read(form, data, url, **order):
    if form in ("files", "http"):
        place = url if form == "http" else data
        return fn.readers.file(files=[f"{place}/files/{i:03}.png" for i in range(COUNT)], **order)[0]
    if form == "coco":
        return fn.readers.coco(file_root=str(data / "files"), annotations_file=str(data / "coco.json"), **order)[0]
    if form == "tfrecord":
        features = {"image": tfrecord.FixedLenFeature((), tfrecord.string, "")}
        return fn.readers.tfrecord(path=[str(data / "a.tfrecord")], features=features, **order)["image"]
    tars = sorted((data / "packed").glob("*.tar")) if form == "packs" else [data / f"{k}.tar" for k in range(3)]
    return fn.readers.webdataset(paths=[f"{url}/{t.name}" if form == "tars over http" else str(t) for t in tars], ext=["png"], **order)


def pipeline(form, data, url, rank, ranks, tail, state=None):
    pipe = Pipeline(4, 2, None, checkpoint=state)
    with pipe:
        encoded = read(form, data, url, name="R", tail=tail, random_shuffle=True, shuffle_seed=7, num_shards=ranks, shard_id=rank)
        pipe.set_outputs(fn.decoders.image(encoded, output_type=types.GRAY))
    pipe.build()
    return pipe


def taken(pipe, steps):
    """Returns the samples of `steps` batches as (epoch, picture's number), without repeats that fill a batch."""
    found = []
    for _ in range(steps):
        (batch,) = pipe.run()
        for i in range(len(batch)):
            sample = batch[i]
            number = int(np.asarray(sample)[0, 0, 0])
            if not sample.get_property("padded"):
                found.append((sample.get_property("epoch"), number))
    return found


@pytest.mark.parametrize("form", ["files", "http", "tars", "tars over http", "packs", "tfrecord", "coco"])
@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("tail", ["wrap", "fill", "keep", "drop"])
def test_every_sample_comes_once_an_epoch(data, url, form, ranks, tail):
    steps = {"drop": COUNT // (4 * ranks)}.get(tail, -(-COUNT // (4 * ranks)))
    enough = 3 * steps if tail != "wrap" else -(-3 * COUNT // (4 * ranks))
    whole = Counter()
    for rank in range(ranks):
        pipe = pipeline(form, data, url, rank, ranks, tail)
        whole.update(taken(pipe, enough))
        pipe.close()
    for epoch in range(2):
        numbers = Counter({n: c for (e, n), c in whole.items() if e == epoch})
        assert set(numbers.values()) == {1}, (epoch, numbers)
        assert len(numbers) == (COUNT if tail != "drop" else steps * 4 * ranks)
    again = Counter()
    for rank in range(ranks):  # each rank is restored from a state after the first step of the second epoch
        pipe = pipeline(form, data, url, rank, ranks, tail)
        again.update(taken(pipe, steps + 1))
        state = pipe.checkpoint()
        pipe.close()
        pipe = pipeline(form, data, url, rank, ranks, tail, state)
        again.update(taken(pipe, enough - steps - 1))
        pipe.close()
    assert again == whole


# ---- sources that only a Loader has ----


def sound_of(i):
    samples = np.full(80, i, "<i2").tobytes()
    form = struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
    return b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt " + form + b"data" + struct.pack("<I", len(samples)) + samples


@pytest.fixture(scope="module")
def newer(data):
    """Writes the samples in more forms: sounds, clips, tables, a robot's recordings. Returns a dict from the form to its samples, without forms whose package
    or program is missing."""
    forms = {"sounds": []}
    for i in range(COUNT):
        (data / f"{i:03}.wav").write_bytes(sound_of(i))
        forms["sounds"].append((str(data / f"{i:03}.wav"), i))
    if shutil.which("ffmpeg") and videos.can_decode():
        make = f"ffmpeg -nostdin -v error -f lavfi -i color=s=32x32:r=10:d=0.4 -pix_fmt yuv420p {data}/one.mp4"
        subprocess.run(make.split(), check=True, timeout=60)
        forms["clips"] = [(str(data / "one.mp4"), i) for i in range(COUNT)]
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return forms
    (data / "tables").mkdir()
    for k, ids in enumerate((range(9), range(9, 10), range(10, COUNT))):
        pq.write_table(
            pa.table({"label": list(ids), "image": [picture(i) for i in ids]}), data / "tables" / f"{k}.parquet", row_group_size=4
        )
    forms["table"] = forms["table, exact"] = str(data / "tables")
    import robots

    robots.make(data / "robot", (7, 12, COUNT - 19))
    forms["robot"] = data / "robot"
    return forms


def load(form, newer, rank, ranks, last):
    if form not in newer:
        pytest.skip("a package or a program is missing")
    how = {"shard": (rank, ranks), "last_batch": last, "shuffle": True, "seed": 7}
    if form == "robot":
        return Loader.from_lerobot(newer[form], 2, **how)
    if form == "sounds":
        return Loader(newer[form], 2, fields={"audio": Audio(rate=8000, duration=0.01), "label": None}, **how)
    if form == "clips":
        return Loader(newer[form], 2, frames=2, **how)
    if form == "table":
        how["shuffle"] = "groups"
    return Loader(newer[form], 2, fields=("image", "label"), transforms=[T.Resize((8, 8))], **how)


def numbers_of(form, batch):
    numbers = (batch["index"] if form == "robot" else batch.label).tolist()
    if form == "sounds":
        assert [round(float(s.max()) * 32768) for s in batch.audio] == numbers
    if form in ("table", "table, exact"):
        assert [round(float(image[0, 0, 0]) * 255) for image in batch.image] == numbers
    valid = getattr(batch, "valid", None)
    return (
        numbers
        if valid is None
        else numbers[: int(valid)]
        if np.ndim(valid) == 0
        else [n for n, v in zip(numbers, valid, strict=True) if v]
    )


@pytest.mark.parametrize("form", ["sounds", "clips", "table", "table, exact", "robot"])
@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("last", ["keep", "drop"])
def test_every_sample_of_a_loader_comes_once_an_epoch(newer, form, ranks, last):
    want = [Counter(), Counter()]
    states = []
    for rank in range(ranks):
        loader = load(form, newer, rank, ranks, last)
        for epoch in range(2):
            for step, batch in enumerate(loader):
                want[epoch].update(numbers_of(form, batch))
                if (epoch, step) == (1, 0):
                    states.append((rank, loader.state_dict()))
        getattr(loader, "close", lambda: None)()
    for numbers in want:
        assert set(numbers.values()) == {1}, numbers
        assert len(numbers) == COUNT if last == "keep" else len(numbers) >= COUNT - 2 * ranks
    resumed = Counter()
    for rank, state in states:  # the resumed loader gives the second epoch without its first step
        loader = load(form, newer, rank, ranks, last)
        loader.load_state_dict(state)
        for batch in loader:
            resumed.update(numbers_of(form, batch))
        getattr(loader, "close", lambda: None)()
    assert set(resumed.values()) <= {1} and sum((want[1] - resumed).values()) == 2 * ranks and not resumed - want[1]
