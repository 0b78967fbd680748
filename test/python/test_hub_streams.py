# SPDX-License-Identifier: Apache-2.0
"""Streams of the package `datasets` over Parquet files: a Loader takes the stream's rows in its order, and resumes at each position."""

import io
import json

import numpy as np
import pytest
import stoker
from stoker import Loader
from stoker import transforms as T

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = 60
STREAMS = {
    "plain": lambda s: s,
    "shuffle": lambda s: s.shuffle(seed=3, buffer_size=20),
    "filter": lambda s: s.filter(lambda r: r["label"] % 3 == 0),
    "map": lambda s: s.map(lambda r: {"image": r["image"], "label": 2 * r["label"]}),
    "batched_map": lambda s: s.map(lambda r: {"image": r["image"], "label": [x + 5 for x in r["label"]]}, batched=True, batch_size=9),
    "skip_and_take": lambda s: s.skip(10).take(25),
    "shard": lambda s: s.shard(num_shards=3, index=1),
    "torch": lambda s: s.with_format("torch"),
    "all": lambda s: (
        s.shuffle(seed=3, buffer_size=20).filter(lambda r: r["label"] % 2 == 0).map(lambda r: {**r, "label": r["label"] + 1000})
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread_a_pool():
    """Limits each of Arrow's thread pools to one thread, which the main thread starts. A thread inherits the name of its starter: a thread of Arrow that a
    Loader's thread started would never end, and look like one that the library has left."""
    before = pa.cpu_count(), pa.io_thread_count()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    yield
    pa.set_cpu_count(before[0])
    pa.set_io_thread_count(before[1])


@pytest.fixture(scope="module")
def stream(tmp_path_factory, _one_thread_a_pool):
    """Returns a function that makes a stream over six files of ten images each."""
    from PIL import Image

    root, kind = tmp_path_factory.mktemp("stream"), pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    features = {"image": {"_type": "Image"}, "label": {"dtype": "int64", "_type": "Value"}}
    datasets.disable_progress_bars()
    for f in range(6):
        images = []
        for i in range(10):
            out = io.BytesIO()
            Image.fromarray(np.full((8, 8, 3), 10 * f + i, np.uint8)).save(out, "PNG")
            images.append({"bytes": out.getvalue(), "path": None})
        table = pa.table({"image": pa.array(images, kind), "label": pa.array(range(10 * f, 10 * f + 10), pa.int64())})
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        pq.write_table(table, root / f"{f}.parquet", row_group_size=4)
    files = [str(root / f"{f}.parquet") for f in range(6)]

    def made():
        return datasets.load_dataset("parquet", data_files=files, split="train", streaming=True, cache_dir=str(root / "cache"))

    assert len(list(made())) == ROWS  # starts the threads of Arrow and `datasets`
    return made


def loader_of(source, **more):
    return Loader(source, 8, transforms=[T.Resize((4, 4))], fields={"image": "Image", "label": None}, last_batch="keep", **more)


def labels(batches):
    return [label for batch in batches for label in batch.label.tolist()]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_gives_each_row_once_and_continues(stream, name):
    def made():
        return loader_of(STREAMS[name](stream()))

    wanted = [int(row["label"]) for row in STREAMS[name](stream())]
    with made() as loader:
        assert labels(loader) == wanted
        assert sorted(labels(loader)) == sorted(wanted)  # the next epoch; a shuffled stream has another order in it
    for steps in range(0, -(-len(wanted) // 8), 3):
        with made() as first:
            batches = iter(first)
            begun = labels(next(batches) for _ in range(steps))
            state = json.loads(json.dumps(first.state_dict()))
        with made() as second:
            second.load_state_dict(state)
            assert begun + labels(second) == wanted, steps


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_a_stream_that_is_split_by_node(stream, world):
    from datasets.distributed import split_dataset_by_node

    found = []
    for rank in range(world):
        with loader_of(split_dataset_by_node(stream(), rank=rank, world_size=world), shard=(rank, world)) as loader:
            found += labels(loader)
        with loader_of(split_dataset_by_node(stream(), rank=rank, world_size=world), shard=None) as loader:
            assert loader.state_dict()["dataset"]["ranks"] == world
    assert sorted(found) == list(range(ROWS))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ["plain", "filter", "all"])
def test_a_dataloader_gives_the_batches_of_torch(stream, name, workers):
    """`datasets` divides the stream's files among the workers, which give batches in turn."""
    torch = pytest.importorskip("torch")

    def batches(kind):
        numbers = STREAMS[name](stream().select_columns(["label"]) if name == "plain" else stream()).select_columns(["label"])
        made = kind(numbers.with_format("torch"), batch_size=8, num_workers=workers)
        return [[batch["label"].tolist() for batch in made] for _ in range(2)]

    assert batches(stoker.DataLoader) == batches(torch.utils.data.DataLoader)


def test_a_dataloader_decodes_the_images_of_a_stream(stream):
    images = stream().map(lambda r: {"image": T.Resize((4, 4))(r["image"]), "label": r["label"]})
    made = stoker.DataLoader(images.with_format("torch"), batch_size=8)
    found = [(batch["image"].shape[0], batch["label"].tolist()) for batch in made]
    assert [label for _, labels in found for label in labels] == list(range(ROWS)) and found[0][0] == 8
