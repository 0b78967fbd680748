# SPDX-License-Identifier: Apache-2.0
"""States and their data: a state is refused for other files, another number of files or another order, in mid-epoch and between epochs. Moving the data
to another folder does not matter."""

import itertools
import json
import shutil

import numpy as np
import pytest
import robots
import sound_files
import tables
import torch
import videos
from PIL import Image
from stoker import Audio, DataLoader, Loader, Pipeline, fn
from stoker import transforms as T
from stoker.errors import StateError
from support import import_torchvision, tar_of, write_tree

SMALL = [T.Resize((16, 16))]
CHANGES = ["fewer", "others"]  # "fewer": fewer samples; "others": as many samples, but different ones


FOLDER = []  # the folder of the video that is copied under several names


@pytest.fixture(scope="module", autouse=True)
def folder_of_videos(tmp_path_factory):
    FOLDER[:] = [tmp_path_factory.mktemp("videos")]


def numbers(change):
    return range(11 if change == "fewer" else 13)


def names(change):
    return [f"{'x' if change == 'others' and i == 7 else 'n'}{i:02}" for i in numbers(change)]


def images(root, change):
    for k, name in enumerate(names(change)):
        path = root / "ab"[k % 2] / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((20, 20, 3), k, np.uint8)).save(path)
    return sorted(root.glob("*/*.jpg"))


def folder(root, change):
    images(root, change)
    return Loader(root, 4, transforms=SMALL, shuffle=True, seed=3)


def paths(root, change):
    return Loader([(p, k) for k, p in enumerate(images(root, change))], 4, transforms=SMALL)


def turned(root, change):
    """Returns a Loader of a list; "others" reverses its order."""
    found = images(root, None if change == "others" else change)
    return Loader(found[::-1] if change == "others" else found, 4, transforms=SMALL)


def sampled(root, change):
    images(root, change)
    return Loader(root, 4, transforms=SMALL, sampler=lambda epoch: [(i + epoch) % 11 for i in range(11)])


def bucketed(root, change):
    return Loader([(p, 0) for p in images(root, change)], 4, transforms=SMALL, bucket_by="aspect_ratio", shuffle=True, seed=2)


def tars(root, change):
    members = [(f"{k:04}{name}.{e}", d) for k, name in enumerate(names(change)) for e, d in (("jpg", jpeg(k)), ("cls", b"1"))]
    if change == "others":
        members[4:6] = [(f"0002.{e}", d) for e, d in (("jpg", jpeg(200, 40)), ("cls", b"1"))]
    root.mkdir(parents=True)
    for n in range(2):
        (root / f"{n}.tar").write_bytes(tar_of(members[14 * n : 14 * (n + 1)]))
    return Loader(root, 4, transforms=SMALL, shuffle=True, seed=3)


def jpeg(value, side=20):
    import io

    out = io.BytesIO()
    Image.fromarray(np.full((side, side, 3), value, np.uint8)).save(out, "JPEG")
    return out.getvalue()


def torchvision_folder(root, change):
    images(root, change)
    tv = import_torchvision()
    return Loader(tv.datasets.ImageFolder(root, loader=load), 4, transforms=SMALL, shuffle=True, seed=1)


def load(path):
    with Image.open(path) as image:
        return image.convert("RGB")


def subset(root, change):
    ids = [(5 * i) % 13 for i in range(11 if change == "fewer" else 12)]
    ids = ids[::-1] if change == "others" else ids
    images(root, None)
    tv = import_torchvision()
    return Loader(torch.utils.data.Subset(tv.datasets.ImageFolder(root, loader=load), ids), 4, transforms=SMALL)


class Numbers:
    """A Dataset whose list of samples is unknown to the Loader."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        return np.full((4, 4, 3), i, np.uint8), i


def dataset(root, change):
    return Loader(Numbers(len(numbers(change))), 4, shuffle=True, seed=5)


def arrays(root, change):
    n = len(numbers(change))
    return Loader((np.zeros((n, 8, 8, 3), np.uint8), np.arange(n)[:: -1 if change == "others" else 1]), 4)


def table(root, change, **more):
    rng = np.random.default_rng(1)
    sizes = {"fewer": (25, 8), "others": (8, 25, 31)}.get(change, (25, 31, 8))
    return Loader(tables.write_table(root, rng, sizes), 4, transforms=SMALL, **more)


def groups(root, change):
    return table(root, change, shuffle="groups", seed=3)


def clips(root, change):
    video = videos.make(FOLDER[0], "h264_small.mp4").read_bytes()
    for k, name in enumerate(names(change)):
        path = root / "ab"[k % 2] / f"{name}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(video)
    return Loader(root, 4, frames=2, transforms=SMALL)


def sounds(root, change):
    rng = np.random.default_rng(1)
    found = []
    root.mkdir(parents=True)
    for name in names(change):
        found.append(root / f"{name}.wav")
        found[-1].write_bytes(sound_files.pcm16(rng, 400))
    return Loader([(p, 0) for p in found], 4, fields={"audio": Audio(rate=16000), "label": None})


def pipeline(root, change):
    found = images(root, change)
    pipe = Pipeline(4, 2, None, seed=7)
    with pipe:
        data, label = fn.readers.file(files=[str(p) for p in found], random_shuffle=True, name="Reader")
        pipe.set_outputs(fn.decoders.image(data), label)
    return Loader(pipe, fields=["image", "label"])


def several_readers(root, change):
    found = images(root, change)
    pipe = Pipeline(4, 2, None, seed=7)
    with pipe:
        data, label = fn.readers.file(files=[str(p) for p in found[:10]], name="A")
        more, _ = fn.readers.file(files=[str(p) for p in found], name="B")
        pipe.set_outputs(fn.decoders.image(data), label, fn.decoders.image(more))
    return Loader(pipe, fields=["image", "label", "more"])


def video_pipeline(root, change):
    clips(root, change).close()
    pipe = Pipeline(4, 2, None, seed=7)
    with pipe:
        pipe.set_outputs(fn.readers.video(filenames=[str(p) for p in sorted(root.glob("*/*.mp4"))], sequence_length=10))
    return Loader(pipe, fields=["image"])


def hub(root, change):
    datasets = pytest.importorskip("datasets")
    rows = numbers(change)
    made = datasets.Dataset.from_dict({"image": [{"bytes": jpeg(k), "path": None} for k in rows], "k": list(rows)})
    made = made.cast_column("image", datasets.Image())
    return Loader(made.shuffle(seed=2 if change == "others" else 1), 4, transforms=SMALL)


def robot(root, change):
    lengths = {"fewer": (7, 12), "others": (12, 7, 5)}.get(change, (7, 12, 5))
    robots.make(root, lengths)
    return Loader.from_lerobot(root, 4, shuffle=True, seed=2)


def mixture(root, change):
    parts = {"files": (folder(root / "f", change), 2), "numbers": (Loader(Numbers(9), 4), 1)}
    return Loader.mix(parts, epoch="files")


def loader_of_torch(root, change):
    images(root, change)
    tv = import_torchvision()
    data = tv.datasets.ImageFolder(root, transform=tv.transforms.v2.Compose([tv.transforms.v2.Resize((8, 8)), tv.transforms.v2.ToImage()]))
    return DataLoader(data, 4, shuffle=True, generator=torch.Generator().manual_seed(3))


KINDS = [folder, paths, turned, sampled, bucketed, tars, torchvision_folder, subset, dataset, arrays, table, groups, sounds, pipeline]
KINDS += [several_readers, hub, robot, mixture, loader_of_torch, pytest.param(clips, marks=videos.needs_video)]
KINDS += [pytest.param(video_pipeline, marks=videos.needs_video)]


def take(loader, count):
    return [plain(batch) for batch in itertools.islice(loader, count)]


def plain(batch):
    """Converts the parts of a batch to plain lists, for comparisons."""
    parts = batch.values() if isinstance(batch, dict) else batch
    return [p.tolist() if hasattr(p, "tolist") else p for p in parts]


def state_after(loader, where):
    """Returns a state and the two batches after it. where: before the first batch, in mid-epoch, or between two epochs."""
    if where == "between":
        take(loader, None)
    running = iter(loader) if where == "inside" else loader
    if where == "inside":
        next(running)
    state = json.loads(json.dumps(loader.state_dict()))
    return state, take(running, 2)


def close(loader):
    if hasattr(loader, "close"):
        loader.close()


@pytest.mark.parametrize("where", ["begin", "inside", "between"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_other_data_is_refused(tmp_path, kind, where):
    loader = kind(tmp_path / "old" / "data", None)
    state, rest = state_after(loader, where)
    close(loader)
    for change in CHANGES:
        if kind is dataset and change == "others":
            continue  # the samples of a Dataset are unknown without reading them
        other = kind(tmp_path / change / "data", change)
        before = other.state_dict()
        with pytest.raises(StateError, match=r"give the (data|sampler|episodes)|other ids|as many samples"):
            other.load_state_dict(state)
        # Loaders of these two kinds cannot run before they get the ids of the saved run.
        if kind not in (sampled, bucketed):
            assert other.state_dict() == before
            assert take(other, 1)
        close(other)
    moved = kind(tmp_path / "moved" / "to" / "data", None)
    moved.load_state_dict(state)
    assert take(moved, 2) == rest
    close(moved)


@pytest.mark.parametrize("where", ["begin", "inside", "between"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_is_saved_again_at_once_continues(tmp_path, kind, where):
    loader = kind(tmp_path / "old", None)
    state, rest = state_after(loader, where)
    close(loader)
    for name in ("once", "twice"):
        loader = kind(tmp_path / name, None)
        loader.load_state_dict(state)
        state = json.loads(json.dumps(loader.state_dict()))
        close(loader)
        assert loader.state_dict() == state
    last = kind(tmp_path / "last", None)
    last.load_state_dict(state)
    assert take(last, 2) == rest
    close(last)


@pytest.mark.parametrize("kind", ["shuffle", "random_split", "transform", "concatenated", "DataLoader"])
@pytest.mark.parametrize("where", ["begin", "inside", "between"])
def test_rows_of_datasets_in_an_order_that_is_made_anew_are_refused(kind, where):
    """Without a seed, shuffle() and random_split() give other rows at each start of a program."""
    datasets = pytest.importorskip("datasets")
    given = datasets.Dataset.from_dict({"image": [{"bytes": jpeg(k), "path": None} for k in range(30)], "k": list(range(30))})
    given = given.cast_column("image", datasets.Image())

    def transform(rows):
        return {"image": [np.asarray(image) for image in rows["image"]], "k": rows["k"]}

    def made():
        if kind == "random_split":
            return Loader(torch.utils.data.random_split(given, [24, 6])[0], 4)
        if kind == "transform":
            return Loader(given.shuffle().with_transform(transform), 4)
        if kind == "concatenated":
            return DataLoader(torch.utils.data.ConcatDataset([given.remove_columns("image").shuffle()]), 4)
        if kind == "DataLoader":
            return DataLoader(given.remove_columns("image").shuffle(), 4)
        return Loader(given.shuffle(), 4)

    first = made()
    state, _ = state_after(first, where)
    second = made()
    with pytest.raises(StateError, match="other names, labels or indices, or another order"):
        second.load_state_dict(state)
    close(first)
    close(second)


def test_a_map_of_datasets_keeps_the_place_of_rows():
    """The fingerprint of `datasets` is random after map() of a function that cannot be pickled, and the rows are the same."""
    datasets = pytest.importorskip("datasets")
    from stoker._same_data import digest_of

    given = datasets.Dataset.from_dict({"k": list(range(9000)), "text": ["x"] * 9000})
    generator = iter(k for k in range(3))  # cannot be pickled

    def function(row):
        return {"k": row["k"] if generator is None else row["k"] + 1}

    made = [given.select(range(20)).map(function) for _ in range(2)]
    assert made[0]._fingerprint != made[1]._fingerprint
    assert digest_of(made[0]) == digest_of(made[1])
    orders = [given, given.shuffle(seed=1), given.shuffle(seed=2), given.select(range(8000)), given.filter(lambda row: row["k"] % 2)]
    orders += [given.remove_columns("text"), given.rename_column("text", "t"), given.cast_column("k", datasets.Value("int32"))]
    assert len({digest_of(rows) for rows in orders}) == len(orders)
    assert digest_of(given.shuffle(seed=1)) == digest_of(orders[1]) and None not in map(digest_of, orders)


@pytest.mark.parametrize("around", ["nothing", "subset", "sum"])
def test_states_read_the_rows_of_datasets_once(around, monkeypatch):
    datasets = pytest.importorskip("datasets")
    from stoker import _same_data

    calls = []
    read = _same_data._some_of_chunks
    monkeypatch.setattr(_same_data, "_some_of_chunks", lambda column: calls.append(column) or read(column))
    given = datasets.Dataset.from_dict({"k": list(range(30))}).shuffle(seed=1)
    wrapped = {
        "nothing": given,
        "subset": torch.utils.data.Subset(given, [*range(29, -1, -1)]),
        "sum": torch.utils.data.ConcatDataset([given]),
    }[around]
    loader = DataLoader(wrapped, 4)
    states = [loader.state_dict()["data_digest"] for _ in range(3)]
    assert len(calls) == 1 and len(set(states)) == 1
    given._indices = given.shuffle(seed=2)._indices
    assert loader.state_dict()["data_digest"] != states[0] and len(calls) == 2


@pytest.mark.parametrize("chunks", [[0], [1], [5000], [0, 3, 0, 4096, 0], [1] * 700, [1000] * 9, [3, 20000, 1]])
def test_digests_of_lists_in_chunks_cover_the_entries_of_whole_lists(chunks):
    from stoker._same_data import _some_of_chunks, some_of

    values = np.random.default_rng(1).integers(0, 2**60, sum(chunks)).tolist()
    ends = np.cumsum(chunks).tolist()
    column = tables.pa.chunked_array([tables.pa.array(values[e - n : e], "uint64") for n, e in zip(chunks, ends, strict=True)])
    assert _some_of_chunks(column) == some_of(values)


def rows_of(folder, source, change):
    """Makes a Loader over three files with targets that the library does not know: floats or strings in a list, or columns of a table."""
    folder.mkdir(parents=True)
    paths = [str(folder / f"{k}.png") for k in range(3)]
    for path in paths:
        Image.new("RGB", (8, 8)).save(path)
    values = [0.5, 1.5, 3.5 if change else 2.5]
    if source == "columns":
        (folder / "rows.csv").write_text("path,a,b\n" + "".join(f"{k}.png,{k},{v}\n" for k, v in enumerate(values)))
        return Loader.from_csv(folder / "rows.csv", 1, shuffle=True)
    return Loader(list(zip(paths, values if source == "floats" else map(str, values), strict=True)), 1, shuffle=True)


@pytest.mark.parametrize("where", ["begin", "inside", "between"])
@pytest.mark.parametrize("source", ["floats", "strings", "columns"])
def test_a_state_of_other_targets_is_refused(tmp_path, source, where):
    state, rest = state_after(rows_of(tmp_path / "old", source, False), where)
    other = rows_of(tmp_path / "other", source, True)
    before = other.state_dict()
    with pytest.raises(StateError, match=r"the same files with other values of '(b|label)': give the data"):
        other.load_state_dict(state)
    assert other.state_dict() == before and take(other, 1)
    moved = rows_of(tmp_path / "moved", source, False)
    moved.load_state_dict({name: value for name, value in state.items() if name != "targets"})  # as from an older version
    moved.load_state_dict(state)
    assert take(moved, 2) == rest
    with pytest.raises(StateError, match='"targets" is'):
        moved.load_state_dict({**state, "targets": {"b": 3}})


@pytest.mark.parametrize("where", ["inside", "between"])
@pytest.mark.parametrize("kind", [folder, paths, dataset, arrays, table, robot, loader_of_torch])
def test_a_state_without_facts_about_the_data_is_loaded(tmp_path, kind, where):
    """A state of an earlier version, without facts about its data, is loaded and continues."""
    loader = kind(tmp_path / "data", None)
    state, rest = state_after(loader, where)
    for name in ("data", "digest", "data_size", "data_digest"):
        # The "digest" of a DataLoader's state is a digest of its order, and is not removed.
        if kind is not loader_of_torch or name != "digest":
            state.pop(name, None)
        state.get("dataset", {}).pop(name, None) if isinstance(state.get("dataset"), dict) else None
    shutil.rmtree(tmp_path / "data", ignore_errors=True)
    again = kind(tmp_path / "data", None)
    again.load_state_dict(state)
    assert take(again, 2) == rest
    close(loader)
    close(again)


def test_a_refused_state_leaves_a_loader_where_it_is(tmp_path):
    """A program that catches the error of a refused state continues with the next batch, and with its own seed."""
    state, _ = state_after(folder(tmp_path / "a", "fewer"), "inside")
    write_tree(tmp_path / "b", np.random.default_rng(2), 2, 9)
    loader, twin = (Loader(tmp_path / "b", 4, transforms=SMALL, shuffle=True, seed=9) for _ in range(2))
    assert take(loader, 2) == take(twin, 2)
    place = loader.state_dict()
    with pytest.raises(StateError, match="more than when the state was saved"):
        loader.load_state_dict(state)
    assert loader.state_dict() == place
    twin.load_state_dict(place)
    assert take(loader, None) == take(twin, None)


@pytest.mark.parametrize(
    "change", [{"data": 3}, {"data": {}}, {"data": {"fingerprint": 3}}, {"data": {"fingerprint": "0" * 16, "size": float("nan")}}]
)
def test_damaged_facts_about_the_data_are_refused(tmp_path, change):
    loader = folder(tmp_path / "a", None)
    with pytest.raises(StateError, match="damaged"):
        loader.load_state_dict({**loader.state_dict(), **change})
    assert take(loader, 1)
