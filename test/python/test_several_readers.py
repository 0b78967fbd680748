# SPDX-License-Identifier: Apache-2.0
"""Several readers in one pipeline: images and masks, cameras, sets of unequal size. One reader determines the length of an epoch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import stoker
from PIL import Image
from stoker import fn, types
from support import SEED

N, M = 11, 4  # N: number of images, and of masks; M: number of samples in the smaller set


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    """Writes images and masks with the same names and sizes, each of one colour that encodes its number, and a smaller set of masks."""
    root = tmp_path_factory.mktemp("several")
    rng = np.random.default_rng(SEED)
    for i in range(N):
        h, w = rng.integers(40, 60, 2)
        for kind, value in (("images", i), ("masks", 100 + i)):
            (root / kind / "all").mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (int(w), int(h)), (value * 2, 0, 0)).save(root / kind / "all" / f"{i:02}.png")
    for i in range(M):
        (root / "small" / "all").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (50 + i, 0, 0)).save(root / "small" / "all" / f"{i}.png")
    return root


def pipeline(root, kinds, *, batch=3, seed=7, device="cpu", lead_options=None, **options):
    pipe = stoker.Pipeline(batch_size=batch, num_threads=3, seed=seed, **options)
    with pipe:
        outputs = []
        for kind in kinds:
            shuffle = {"random_shuffle": True, "shuffle_seed": 5} | (lead_options or {})
            data, _ = fn.readers.file(file_root=str(root / kind), name=kind, **shuffle)
            image = fn.decoders.image(data, device="mixed" if device == "gpu" else "cpu")
            outputs.append(fn.crop(image, crop=(1, 1), crop_pos_x=0.0, crop_pos_y=0.0))
        pipe.set_outputs(*outputs)
    return pipe


def test_each_value_tells_its_own_source(roots):
    pipe = stoker.Pipeline(batch_size=3, num_threads=2, seed=7)
    with pipe:
        found = []
        for kind in ("images", "small"):
            data, _label = fn.readers.file(file_root=str(roots / kind), name=kind, random_shuffle=True, shuffle_seed=5)
            found += [data.source_info(), fn.crop(fn.decoders.image(data), crop=(1, 1)).property("source_info"), data]
        pipe.set_outputs(*found, fn.random.uniform().source_info())
    for _ in range(5):
        images, cropped, bytes_, small, cropped_small, small_bytes, drawn = ([np.asarray(s).tobytes() for s in o] for o in pipe.run())
        assert images == cropped == drawn and small == cropped_small
        for names, contents in ((images, bytes_), (small, small_bytes)):
            assert [Path(n.decode()).read_bytes() for n in names] == contents


def values(outputs):
    """Returns the red value of each sample, by output."""
    return [
        [int(np.asarray(o.at(i)).ravel()[0]) for i in range(len(o))] for o in (o.as_cpu() if hasattr(o, "as_cpu") else o for o in outputs)
    ]


@pytest.mark.essential
@pytest.mark.parametrize("fuse", [True, False])
def test_images_and_masks_stay_together(roots, fuse, monkeypatch):
    monkeypatch.setenv("STOKER_FUSE", str(int(fuse)))
    pipe = pipeline(roots, ["images", "masks"])
    seen = []
    for _ in range(11):  # eleven batches are three epochs
        images, masks = values(pipe.run())
        assert [m - i for i, m in zip(images, masks, strict=True)] == [200] * 3
        seen += images
    assert all(sorted(seen[k : k + N]) == [2 * i for i in range(N)] for k in (0, N, 2 * N))
    assert seen[:N] != seen[N : 2 * N]
    assert sorted(pipe.reader_meta()) == ["images", "masks"]


def test_a_shorter_reader_goes_round(roots):
    pipe = pipeline(roots, ["images", "small"], lead_options={"random_shuffle": False})
    images, small = [], []
    for _ in range(8):
        i, s = values(pipe.run())
        images += i
        small += s
    assert images == [2 * (k % N) for k in range(24)]
    assert small == [50 + k % M for k in range(24)]


def test_the_iterator_names_the_leading_reader(roots):
    torch_plugin = pytest.importorskip("stoker.plugin.pytorch")
    pipe = pipeline(roots, ["images", "small"], lead_options={"random_shuffle": False})
    loader = torch_plugin.DALIGenericIterator(
        [pipe], ["image", "small"], reader_name="small", last_batch_policy=torch_plugin.LastBatchPolicy.PARTIAL
    )
    steps = [[int(x) for x in b[0]["small"].flatten()[::3]] for b in loader]
    assert steps == [[50, 51, 52], [53]]
    loader.reset()
    batch = next(loader)[0]
    images = [int(x) for x in batch["image"].flatten()[::3]]
    assert images == [12, 14, 16]  # the other reader continues in the next epoch
    with pytest.raises(stoker.errors.StokerError, match='no reader "nobody"; it has "images", "small"'):
        torch_plugin.DALIGenericIterator([pipeline(roots, ["images", "small"])], ["a", "b"], reader_name="nobody")
    begun = pipeline(roots, ["images", "small"])
    begun.run()
    with pytest.raises(stoker.errors.StateError, match='epochs of this run are those of reader "images", and it has begun'):
        torch_plugin.DALIGenericIterator([begun], ["a", "b"], reader_name="small")


@pytest.mark.parametrize("kinds", [["images", "masks"], ["small", "images"]])
def test_a_state_goes_on_with_all_readers(roots, kinds):
    whole = pipeline(roots, kinds)
    expected = [values(whole.run()) for _ in range(10)]
    for stop in (1, 4, 7):
        first = pipeline(roots, kinds, enable_checkpointing=True)
        got = [values(first.run()) for _ in range(stop)]
        second = pipeline(roots, kinds, enable_checkpointing=True, checkpoint=first.checkpoint())
        got += [values(second.run()) for _ in range(10 - stop)]
        assert got == expected, stop


def test_states_of_other_readers_are_refused(roots):
    state = pipeline(roots, ["images", "masks"], enable_checkpointing=True).checkpoint()
    options = {"enable_checkpointing": True, "checkpoint": state}
    with pytest.raises(stoker.errors.StateError, match="run with 2 readers; this pipeline has 1"):
        pipeline(roots, ["images"], **options).run()
    with pytest.raises(stoker.errors.StateError, match=r'no reader "images"|with reader "masks", where this pipeline has "small"'):
        pipeline(roots, ["images", "small"], **options).run()


def test_ranks_see_the_same_pairs(roots):
    pairs = []
    for rank in range(3):
        pipe = pipeline(roots, ["images", "masks", "small"], lead_options={"num_shards": 3, "shard_id": rank})
        for _ in range(4):
            pairs += list(zip(*values(pipe.run()), strict=True))
    assert all(m - i == 200 for i, m, _ in pairs)
    assert len({i for i, _, _ in pairs}) == N
    with pytest.raises(stoker.errors.StokerError, match="give all readers of a pipeline the same shard_id and num_shards"):
        pipe = stoker.Pipeline(batch_size=2, num_threads=1)
        with pipe:
            a, _ = fn.readers.file(file_root=str(roots / "images"), name="a", num_shards=2)
            b, _ = fn.readers.file(file_root=str(roots / "masks"), name="b")
            pipe.set_outputs(a, b)
        pipe.build()


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_a_bad_mask_takes_its_image_along(roots, tmp_path, policy):
    for kind in ("images", "masks"):
        (tmp_path / kind / "all").mkdir(parents=True)
        for f in sorted((roots / kind / "all").iterdir()):
            (tmp_path / kind / "all" / f.name).write_bytes(f.read_bytes())
    (tmp_path / "masks" / "all" / "04.png").write_bytes(b"no image")
    (tmp_path / "images" / "all" / "07.png").unlink()
    (tmp_path / "images" / "all" / "07.png").symlink_to("nowhere")
    pipe = pipeline(tmp_path, ["images", "masks"], on_error=policy, max_errors=10)
    seen = []
    for _ in range(4):
        images, masks = values(pipe.run())
        assert [m - i for i, m in zip(images, masks, strict=True)] == [200] * len(images)
        seen += images
    assert not {8, 14} & set(seen)
    names = {str(b.uri).split("several")[-1].split("/")[-3] + "/" + str(b.uri).split("/")[-1] for b in pipe.bad_samples()}
    assert names == {"masks/04.png", "images/07.png"}
    assert all("masks" in str(b) for b in pipe.bad_samples() if "04.png" in str(b.uri))


def test_one_chain_of_two_readers(roots):
    """One operator takes outputs of two readers, so it waits for the bytes of both."""
    pipe = stoker.Pipeline(batch_size=4, num_threads=3)
    with pipe:
        a, _ = fn.readers.file(file_root=str(roots / "small"), name="a")
        b, _ = fn.readers.file(file_root=str(roots / "small"), name="b")
        image, other = fn.decoders.image(a), fn.decoders.image(b)
        pipe.set_outputs(fn.cast(image, dtype=types.INT16) - fn.cast(other, dtype=types.INT16), fn.stack(image, other))
    for _ in range(3):
        difference, both = pipe.run()
        assert not any(np.asarray(difference.at(i)).any() for i in range(4))
        assert [int(np.asarray(both.at(i))[1, 0, 0, 0]) for i in range(4)] == [50, 51, 52, 53]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_reader_that_two_chains_share(roots, threads):
    """One chain of operators needs the first reader, the other one both. A chain must not wait for a read that has not begun."""
    pipe = stoker.Pipeline(batch_size=8, num_threads=threads, timeout=20)
    with pipe:
        files = [str(roots / "images" / "all" / f"{i:02}.png") for i in range(N)]
        a, label = fn.readers.file(files=files, name="a")
        _, other = fn.readers.file(files=files, labels=range(100, 100 + N), name="b")
        pipe.set_outputs(fn.decoders.image(a), fn.cat(label, other))
    for step in range(30):
        images, labels = pipe.run()
        for i in range(8):
            number = (8 * step + i) % N
            assert np.asarray(labels.at(i)).tolist() == [number, 100 + number]
            assert int(np.asarray(images.at(i))[0, 0, 0]) == 2 * number


def test_readers_that_are_not_paired_are_reported(roots, capfd):
    """Readers of unequal sizes or orders cause one notice. Sets of the same size and order are paired without a notice."""
    pipeline(roots, ["images", "masks"]).build()
    assert "readers" not in capfd.readouterr().err
    for _ in range(2):
        pipeline(roots, ["masks", "small"]).build()
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "readers" in line]
    assert "'masks' 11, 'small' 4" in line and "the epochs of the pipeline are those of 'masks'" in line
    pipe = stoker.Pipeline(batch_size=2, num_threads=1)
    with pipe:
        data = [
            fn.readers.file(file_root=str(roots / kind), name=kind, random_shuffle=True, seed=k)[0]
            for k, kind in enumerate(("images", "masks"), 5)
        ]
        pipe.set_outputs(*data)
    pipe.build()
    assert "'images', 'masks' are in different orders" in capfd.readouterr().err
