# SPDX-License-Identifier: Apache-2.0
"""Robot data sets in LeRobot's format give the samples that its definition says, in batches that are resumed and divided among ranks."""

import json

import numpy as np
import pytest
import robots
from robots import FPS, TASKS, make
from stoker import Loader
from stoker.errors import CorruptError, InvalidArgumentError, NotFoundError, StateError, UnsupportedError

torch = pytest.importorskip("torch")
DELTAS = {"observation.state": [-0.2, -0.1, 0.0], "action": [k / FPS for k in range(4)], "next.reward": [0.0, 0.1]}


def expected(data, lengths, i, deltas):
    """Sample i by LeRobotDataset's definition: each time is clamped to its episode, and marked if it lay outside of it."""
    ends = np.cumsum(lengths)
    episode = int(np.searchsorted(ends, i, "right"))
    low, high = ends[episode] - lengths[episode], ends[episode]
    item = {}
    for key, column in data.items():
        if key in deltas:
            wanted = [i + round(t * FPS) for t in deltas[key]]
            item[f"{key}_is_pad"] = torch.tensor([w < low or w >= high for w in wanted])
            item[key] = torch.stack([torch.as_tensor(column[min(max(w, low), high - 1)]) for w in wanted])
        elif not isinstance(column, list):
            item[key] = torch.as_tensor(column[i])
    return {**item, "task": TASKS[episode % 3]}


@pytest.mark.essential
@pytest.mark.parametrize("version", [3, 2])
@pytest.mark.parametrize("deltas", [{}, DELTAS], ids=["plain", "deltas"])
def test_samples_equal_the_definition(tmp_path, version, deltas):
    lengths = (7, 12, 5)
    data = make(tmp_path, lengths, version)
    loader = Loader.from_lerobot(tmp_path, 4, delta_timestamps=deltas)
    dataset = loader.dataset
    assert len(dataset) == 24 and dataset.num_episodes == 3 and dataset.fps == FPS
    for i in range(24):
        sample, wanted = dataset[i], expected(data, lengths, i, deltas)
        assert set(sample) == set(wanted)
        for key, value in wanted.items():
            if key == "task":
                assert sample[key] == value
            else:
                assert sample[key].dtype == value.dtype and sample[key].shape == value.shape and torch.equal(sample[key], value), key
    joined = torch.utils.data.default_collate([dataset[i] for i in range(4)])
    batch = next(iter(loader))
    assert set(batch) == set(joined)
    assert all(torch.equal(batch[k], v) if isinstance(v, torch.Tensor) else batch[k] == v for k, v in joined.items())


@pytest.mark.parametrize("version", [3, 2])
def test_chosen_episodes(tmp_path, version):
    data = make(tmp_path, (7, 12, 5, 4), version)
    dataset = Loader.from_lerobot(tmp_path, 4, episodes=[3, 1], delta_timestamps={"action": [-0.1, 0.1]}).dataset
    rows = [*range(7, 19), *range(24, 28)]
    assert [int(dataset[i]["index"]) for i in range(len(dataset))] == rows
    first = dataset[12]
    assert first["action_is_pad"].tolist() == [True, False] and torch.equal(first["action"][0], torch.as_tensor(data["action"][24]))
    with pytest.raises(InvalidArgumentError, match="no episode 9"):
        Loader.from_lerobot(tmp_path, 4, episodes=[9])


@pytest.mark.parametrize("version", [3, 2])
def test_statistics(tmp_path, version):
    data = make(tmp_path, version=version)
    stats = Loader.from_lerobot(tmp_path, 4).stats
    for key in ("action", "observation.state", "grid"):
        for name in ("mean", "std", "min", "max"):
            assert np.allclose(stats[key][name], getattr(data[key], name)(0), atol=1e-6), (key, name)
        assert stats[key]["count"].tolist() == [24]


def test_images_in_tables(tmp_path):
    import io

    from PIL import Image

    data = make(tmp_path, images=1)
    key = "observation.images.still0"
    dataset = Loader.from_lerobot(tmp_path, 4, delta_timestamps={key: [0.0, 0.1]}, image_transforms=lambda x: 1 - x).dataset
    made = dataset[3][key]
    for k, row in enumerate([3, 4]):
        pixels = torch.from_numpy(np.asarray(Image.open(io.BytesIO(data[key][row])))).permute(2, 0, 1) / 255
        assert torch.equal(made[k], 1 - pixels)


@pytest.mark.parametrize("version", [3, 2])
def test_videos(tmp_path, version):
    import videos

    if not videos.can_decode():
        pytest.skip("there is no ffmpeg, or this build has no video")
    lengths = (7, 12, 5)
    make(tmp_path, lengths, version, cameras=1)
    key = "observation.images.cam0"
    dataset = Loader.from_lerobot(tmp_path, 4, delta_timestamps={key: [-0.1, 0.0]}).dataset
    for i in range(24):
        sample = dataset[i]
        assert sample[key].shape == (2, 3, 32, 48) and sample[key].dtype == torch.float32
        begin = 0 if i < 7 else 7 if i < 19 else 19
        place = [max(i - 1, begin), i]
        for frame, at in zip(sample[key], place, strict=True):
            number = at if version == 3 else at - begin
            assert abs(float(frame.mean()) * 255 - (number * 8 + 20)) < 2
        assert sample[f"{key}_is_pad"].tolist() == [i == begin, False]


def indices(batches):
    return [batch["index"].tolist() for batch in batches]


@pytest.mark.essential
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_frame_once_and_states_continue(tmp_path, shuffle):
    make(tmp_path)
    whole = Loader.from_lerobot(tmp_path, 5, shuffle=shuffle, seed=2)
    epochs = [indices(whole), indices(whole)]
    assert all(sorted(i for batch in e for i in batch) == list(range(24)) for e in epochs)
    assert (epochs[0] == epochs[1]) == (not shuffle)
    for taken in range(6):
        first = Loader.from_lerobot(tmp_path, 5, shuffle=shuffle, seed=2)
        batches = iter(first)
        begun = [next(batches)["index"].tolist() for _ in range(taken)]
        second = Loader.from_lerobot(tmp_path, 5, shuffle=shuffle, seed=7)
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        rest = indices(second)
        assert begun + rest == epochs[0] if taken < 5 else rest == epochs[1]


@pytest.mark.parametrize("before, after", [(2, 1), (1, 2), (2, 3)])
def test_other_numbers_of_ranks_continue(tmp_path, before, after):
    make(tmp_path)

    def run(world, state, steps):
        taken, states = [], []
        for rank in range(world):
            loader = Loader.from_lerobot(tmp_path, 2, shuffle=True, seed=2, shard=(rank, world), last_batch="drop")
            if state:
                loader.load_state_dict(state)
            batches = iter(loader)
            taken += (
                [i for _ in range(steps) for i in next(batches)["index"].tolist()] if steps else [i for b in indices(batches) for i in b]
            )
            states.append(loader.state_dict())
        return taken, states[0]

    first, state = run(before, None, 3)
    second, _ = run(after, state, 0)
    assert len({*first, *second}) == len(first) + len(second) and 24 - len(first) - len(second) < 2 * after


def test_padded_batches(tmp_path):
    make(tmp_path)
    loaders = [Loader.from_lerobot(tmp_path, 5, shard=(r, 2), last_batch="pad") for r in range(2)]
    seen = [i for loader in loaders for b in loader for i, v in zip(b["index"].tolist(), b["valid"].tolist(), strict=True) if v]
    assert sorted(seen) == list(range(24)) and all(len(loader) == 3 for loader in loaders)


def test_mixtures_of_robots(tmp_path):
    make(tmp_path / "a")
    make(tmp_path / "b", seed=9)
    mixed = Loader.mix([(Loader.from_lerobot(tmp_path / n, 4), 0.5) for n in "ab"], steps=8)
    assert len(indices(mixed)) == 8


def test_what_is_refused(tmp_path):
    with pytest.raises(NotFoundError, match=r"info.json: it does not exist"):
        Loader.from_lerobot(tmp_path, 4)
    make(tmp_path)
    for more, said in [
        ({"delta_timestamps": {"action": [0.05]}}, "not a multiple of the 0.1 s"),
        ({"delta_timestamps": {"acton": [0.1]}}, "no 'acton'"),
        ({"columns": ["acton"]}, "no 'acton'"),
        ({"batch_size": 100, "last_batch": "drop"}, "not one batch"),
    ]:
        with pytest.raises(InvalidArgumentError, match=said):
            Loader.from_lerobot(tmp_path, **{"batch_size": 4, **more})
    with pytest.raises(UnsupportedError, match="local folders"):
        Loader.from_lerobot("s3://bucket/set", 4)
    state = Loader.from_lerobot(tmp_path, 4).state_dict()
    with pytest.raises(StateError, match="give the episodes"):
        Loader.from_lerobot(tmp_path, 4, episodes=[0]).load_state_dict(state)
    with pytest.raises(StateError, match="damaged"):
        Loader.from_lerobot(tmp_path, 4).load_state_dict({**state, "consumed": "x"})
    info = json.loads((tmp_path / "meta" / "info.json").read_text())
    (tmp_path / "meta" / "info.json").write_text(json.dumps({**info, "codebase_version": "v1.6"}))
    with pytest.raises(UnsupportedError, match=r"v1\.6"):
        Loader.from_lerobot(tmp_path, 4)


@pytest.mark.parametrize("what", ["rows", "shape", "cut"])
def test_tables_that_contradict_the_metadata(tmp_path, what):
    make(tmp_path)
    path = tmp_path / "data" / "chunk-000" / "file-000.parquet"
    if what == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        table = robots.pq.read_table(path)
        if what == "rows":
            table = table.slice(1)
        else:
            short = robots.pa.array([[0.0]] * table.num_rows, robots.pa.list_(robots.pa.float32()))
            table = table.set_column(table.schema.get_field_index("action"), "action", short)
        robots.pq.write_table(table, path)
    with pytest.raises(CorruptError):
        Loader.from_lerobot(tmp_path, 4)
