# SPDX-License-Identifier: Apache-2.0
"""The PyTorch iterators: the batches that each policy delivers over several epochs."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from harness import RECORDS, Record, libraries

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("numbers")
    paths = [root / f"{i}.bin" for i in range(1, 8)]
    for i, path in enumerate(paths, 1):
        path.write_bytes(bytes([i]))
    return [str(p) for p in paths]


def _epochs(lib: Any, files: list[str], policy: str, padded: bool, shards: int, by_name: bool, auto_reset: bool, epochs: int) -> list[Any]:
    torch_side = importlib.import_module(f"{lib.package}.plugin.pytorch")
    pipes = []
    for shard in range(shards):
        pipe = lib.Pipeline(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
        with pipe:
            data, label = lib.fn.readers.file(
                files=files, num_shards=shards, shard_id=shard, pad_last_batch=padded, stick_to_shard=False, name="Reader"
            )
            pipe.set_outputs(data, label)
        pipes.append(pipe)
    where = {"reader_name": "Reader"} if by_name else {"size": len(files), "last_batch_padded": padded}
    policy_ = getattr(torch_side.LastBatchPolicy, policy)
    loader = torch_side.DALIGenericIterator(pipes, ["data", "label"], last_batch_policy=policy_, auto_reset=auto_reset, **where)
    made = []
    for _ in range(epochs):
        made.append([[one["data"].flatten().tolist() for one in batch] for batch in loader])
        made.append(len(loader))
        if not auto_reset:
            loader.reset()
    return made


@pytest.mark.parametrize("by_name", (True, False))
@pytest.mark.parametrize("auto_reset", (True, False))
@pytest.mark.parametrize("padded", (True, False))
@pytest.mark.parametrize("policy", ("FILL", "PARTIAL", "DROP"))
def test_policies_give_the_batches_of_dali(numbers: list[str], policy: str, padded: bool, by_name: bool, auto_reset: bool) -> None:
    dali, ours = (_epochs(lib, numbers, policy, padded, 1, by_name, auto_reset, 4) for lib in libraries())
    assert ours == dali
    RECORDS.append(Record("iterators", f"{policy}, padded={padded}, reader_name={by_name}", 0, 1, 1, True, "equal", ""))


@pytest.mark.parametrize("shards", (2, 3))
@pytest.mark.parametrize("padded", (True, False))
@pytest.mark.parametrize("policy", ("FILL", "PARTIAL", "DROP"))
def test_several_pipelines(numbers: list[str], policy: str, padded: bool, shards: int) -> None:
    dali, ours = (_epochs(lib, numbers, policy, padded, shards, True, True, 3) for lib in libraries())
    case = f"{policy}, padded={padded}, {shards} pipelines"
    if (policy, padded, shards) == ("DROP", True, 3):
        first, second, third = [[1, 2], [3, 4], [5, 6]], [[3, 4], [5, 6], [1, 2]], [[5, 6], [1, 2], [3, 4]]
        assert ours == [[first], 1, [second], 1, [third], 1]  # only the full batches of each epoch's shards
        assert dali == [[first], 1, [[[2, 2], [4, 4], [7, 7]]], 1, [second], 1]
        why = (
            "with LastBatchPolicy.DROP and pad_last_batch, where the shortest shard is a whole number of batches, DALI leaves the longer ones' "
            "padded batch for the next epoch, which then begins with repeats; ours drops it"
        )
        RECORDS.append(Record("iterators", case, 0, 1, 1, True, "equal", why))
        return
    assert ours == dali
    RECORDS.append(Record("iterators", case, 0, 1, 1, True, "equal", ""))


def test_classification_iterator(numbers: list[str]) -> None:
    found = []
    for lib in libraries():
        torch_side = importlib.import_module(f"{lib.package}.plugin.pytorch")
        pipe = lib.Pipeline(batch_size=3, num_threads=1, device_id=None)
        with pipe:
            data, label = lib.fn.readers.file(files=numbers, labels=[5, 4, 3, 2, 1, 0, 9], name="Reader")
            pipe.set_outputs(data, label)
        batches = list(torch_side.DALIClassificationIterator(pipe, reader_name="Reader"))
        assert all(b[0]["label"].dtype == torch.int32 for b in batches)
        found.append([np.concatenate([b[0]["data"].numpy(), b[0]["label"].numpy()], 1).tolist() for b in batches])
    assert found[1] == found[0]


@pytest.mark.parametrize("arguments", ({"size": 4, "reader_name": "Reader"}, {"reader_name": "Reader", "last_batch_padded": True}))
def test_arguments_that_do_not_go_together(numbers: list[str], arguments: dict[str, Any]) -> None:
    for lib in libraries():
        pipe = lib.Pipeline(batch_size=2, num_threads=1, device_id=None)
        with pipe:
            pipe.set_outputs(*lib.fn.readers.file(files=numbers, name="Reader"))
        iterators = importlib.import_module(f"{lib.package}.plugin.pytorch")
        with pytest.raises(AssertionError):
            iterators.DALIGenericIterator(pipe, ["data", "label"], **arguments)


@pytest.mark.parametrize("auto_reset", (True, False))
@pytest.mark.parametrize("by", ("sample", "list"))
@pytest.mark.parametrize("steps", (1, 2, 3))
def test_a_loop_that_stops_at_the_last_batch_of_a_source(by: str, auto_reset: bool, steps: int) -> None:
    """The next loop begins the next epoch. If the loop stopped before the last batch, the next one continues."""

    def sample(info: Any) -> Any:
        if info.idx_in_epoch >= 4:
            raise StopIteration
        return np.array([info.idx_in_epoch + 10 * info.epoch_idx], np.int32)

    found = []
    for lib in libraries():
        torch_side = importlib.import_module(f"{lib.package}.plugin.pytorch")
        pipe = lib.Pipeline(batch_size=2, num_threads=1, device_id=None)
        with pipe:
            batches = [[np.array([2 * i], np.int32), np.array([2 * i + 1], np.int32)] for i in range(2)]
            pipe.set_outputs(
                lib.fn.external_source(sample, batch=False) if by == "sample" else lib.fn.external_source(batches, cycle="raise")
            )
        loader, loops = torch_side.DALIGenericIterator(pipe, ["x"], auto_reset=auto_reset), []
        for _ in range(4):
            loop: list[Any] = []
            for (one,) in loader:
                loop.append(one["x"].flatten().tolist())
                if len(loop) == steps:
                    break
            loops.append(loop)
            if not auto_reset:
                loader.reset()
        found.append(loops)
    assert found[1] == found[0]


@pytest.mark.parametrize("stops", (True, False))
@pytest.mark.parametrize("fed_first", (True, False))
def test_a_batch_that_was_fed_when_another_source_ended(fed_first: bool, stops: bool) -> None:
    """That batch begins the next epoch, whether the loop stops at the last batch or runs to the end."""
    found = []
    for lib in libraries():

        class Fed(lib.Pipeline):  # type: ignore[misc, name-defined]
            count = 0

            def iter_setup(self) -> None:
                self.feed_input("fed", [np.array([self.count], np.int32)])
                self.count += 1

        torch_side = importlib.import_module(f"{lib.package}.plugin.pytorch")
        pipe = Fed(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1)
        with pipe:
            makes = {
                "fed": lambda lib=lib: lib.fn.external_source(name="fed"),
                "own": lambda lib=lib: lib.fn.external_source([[np.array([i], np.int32)] for i in range(2)], cycle="raise"),
            }
            names = list(makes) if fed_first else list(makes)[::-1]
            pipe.set_outputs(*(makes[name]() for name in names))
        loader, loops = torch_side.DALIGenericIterator(pipe, names), []
        for _ in range(4):
            loop: list[Any] = []
            for (one,) in loader:
                loop.append([one["fed"].item(), one["own"].item()])
                if stops and len(loop) == 2:
                    break
            loops.append(loop)
            loader.reset()
        found.append(loops)
    assert found[1] == found[0] == [[[2 * e, 0], [2 * e + 1, 1]] for e in range(4)]
