# SPDX-License-Identifier: Apache-2.0
"""Runs pipelines: batches, metadata, state, errors, and the lifetimes of objects that depend on each other."""

import gc
import json
import os
import random
import re
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from stoker import Pipeline, Storage, fn, pipeline_def, types
from stoker.errors import InvalidArgumentError, NotFoundError, StateError, StokerError
from stoker.tensors import TensorCPU, TensorListCPU
from support import SEED, run_script


@pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=11)
def labels_of(root, **reader):
    data, label = fn.readers.file(file_root=str(root), name="Reader", **reader)
    return data, label


@pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=11)
def training(root, **reader):
    data, label = fn.readers.file(file_root=str(root), name="Reader", random_shuffle=True, **reader)
    image = fn.resize(fn.decoders.image_random_crop(data), size=[24, 24])
    return fn.crop_mirror_normalize(image, mirror=fn.random.coin_flip()), label


def arrays(outputs):
    return [np.array(o.as_tensor()) for o in outputs]


def test_order_and_labels_without_shuffling(tree, files):
    pipe = labels_of(tree)
    seen = [(bytes(d.at(i)), int(y.at(i)[0]), d[i].source_info()) for _ in range(5) for d, y in [pipe.run()] for i in range(4)]
    for k, (data, label, info) in enumerate(seen):
        assert data == files[k].read_bytes()
        assert label == k // 7
        assert info.endswith(f"{files[k].parent.name}/{files[k].name}")


def test_decoded_pixels_are_pillows(tree, files):
    @pipeline_def(batch_size=21, num_threads=2, device_id=None)
    def decode():
        return fn.decoders.image(fn.readers.file(file_root=str(tree))[0])

    (images,) = decode().run()
    assert not images.is_dense_tensor()
    assert images.layout() == "HWC"
    for image, path in zip(images, files, strict=True):
        np.testing.assert_array_equal(np.asarray(image), np.asarray(Image.open(path).convert("RGB")))


def test_reader_meta(tree):
    pipe = labels_of(tree, num_shards=2, shard_id=1, pad_last_batch=True)
    assert pipe.epoch_size("Reader") == 22  # as in DALI: two padded shards of 11
    assert pipe.epoch_size() == {"Reader": 22}
    meta = pipe.reader_meta("Reader")
    assert meta == pipe.reader_meta()["Reader"]
    assert meta["epoch_size"] == 21 and meta["number_of_shards"] == 2 and meta["shard_id"] == 1
    assert meta["pad_last_batch"] is True and meta["stick_to_shard"] is False
    assert meta["epoch_size_padded"] == 22
    assert labels_of(tree, num_shards=2, shard_id=1).epoch_size("Reader") == 21
    with pytest.raises(LookupError, match="Raeder"):
        pipe.reader_meta("Raeder")


def test_schedule_share_release(tree):
    pipe = labels_of(tree)
    reference = labels_of(tree)
    pipe.schedule_run()
    assert not pipe.empty()
    outputs = pipe.share_outputs()
    assert pipe.empty()
    np.testing.assert_array_equal(outputs[1].as_array(), reference.run()[1].as_array())
    pipe.release_outputs()
    np.testing.assert_array_equal(pipe.outputs()[1].as_array(), reference.run()[1].as_array())


def test_a_reader_never_ends_for_dalis_surface(tree):
    for pad in (False, True):
        pipe = labels_of(tree, pad_last_batch=pad)
        for _ in range(20):
            assert len(pipe.run()[0]) == 4


@pytest.mark.essential
def test_state_at_every_batch(tree):
    pipe = training(tree)
    states, batches = [pipe.checkpoint()], []
    for _ in range(9):
        batches.append(arrays(pipe.run()))
        states.append(pipe.checkpoint())
    for k, state in enumerate(states[:-1]):
        assert len(state) < 1024
        resumed = training(tree, checkpoint=state, read_requests=3)
        for a, b in zip(batches[k], arrays(resumed.run()), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"after batch {k}")
        counters = resumed.counters()
        assert counters["reads_started"] <= (resumed.prefetch_queue_depth + 2) * 4 + 8, "earlier samples were read"


def test_objects_of_a_users_function_resume(tree, files):
    """A state does not record the source of bytes: a state of local files resumes with a function that fetches them, and vice versa."""

    def training_over(names, **settings):
        @pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=11, **settings)
        def definition():
            data, label = fn.readers.file(
                file_root=names, files=[f"{f.parent.name}/{f.name}" for f in files], name="Reader", random_shuffle=True
            )
            return fn.resize(fn.decoders.image_random_crop(data), size=[24, 24]), label

        return definition()

    def fetch(uri, offset, length):
        assert offset == 0 and length is None
        return (tree / uri.removeprefix("mem://set/")).read_bytes()

    ways = [(str(tree), {}), ("mem://set", {"storage": Storage(fetch=fetch)})]
    for (one, settings), (other, others) in (ways, ways[::-1]):
        pipe = training_over(one, **settings)
        for _ in range(3):
            pipe.run()
        again = training_over(other, **others, checkpoint=pipe.checkpoint())
        for _ in range(4):
            assert all(np.array_equal(a, b) for a, b in zip(arrays(pipe.run()), arrays(again.run()), strict=True))


def test_states_in_files_and_damaged_ones(tree, tmp_path):
    pipe = training(tree)
    pipe.run()
    state = pipe.checkpoint(tmp_path / "state.json")
    again = training(tree, checkpoint=str(tmp_path / "state.json"))
    np.testing.assert_array_equal(arrays(again.run())[0], arrays(pipe.run())[0])
    for damaged in (state[:-5], "{}", b"{" + state, json.dumps({**json.loads(state), "epoch": -1})):
        with pytest.raises(StokerError):
            training(tree, checkpoint=damaged).build()
    with pytest.raises(StateError):
        again._running().restore(state.decode())  # a state cannot be restored after the first batch


def test_a_changed_data_set_is_refused(files):
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def listed(paths):
        return fn.readers.file(files=[str(p) for p in paths])[1]

    pipe = listed(files)
    pipe.run()
    with pytest.raises(
        StokerError, match=r"12 files fewer than when the state was saved \(21, now 9\); the first 9 are the same, up to .*"
    ):
        listed(files[:9], checkpoint=pipe.checkpoint()).build()


def check_message(text, names, was):
    """Checks that the message's statements about equal names and about the first difference are true for the two lists of names. Returns the number of equal
    names that it states."""
    found = re.search(r"the first (\d+) are the same, up to (\S+?)(;|:|$)", text)
    same = int(found[1]) if found else 0
    assert names[:same] == was[:same] and (not found or found[2] == names[same - 1]), text
    change = next((i for i, (a, b) in enumerate(zip(names, was, strict=False)) if a != b), min(len(names), len(was)))
    latest = re.search(r"the first change is at (\S+)( or before it)?(?=: give)", text)
    if latest:
        at = names.index(latest[1])
        assert same <= change <= at and (latest[2] or change == at), text
    else:
        assert len(was) > len(names), text
    if "missing" in text:
        assert names == was[: len(names)], text
    return same


@pytest.mark.parametrize("seed", range(6))
def test_the_message_names_the_first_change_of_a_data_set(seed):
    rng = random.Random(seed)
    was = [f"c{i // 50:03}/{i:05}.jpg" for i in range(rng.choice([1, 5, 32, 33, 700]))]

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def listed(names):
        return fn.readers.file(files=names, labels=[0] * len(names))[1]

    state = listed(was).checkpoint()
    assert len(state) < 1024
    for _ in range(12):
        names = list(was)
        for _ in range(rng.choice([1, 1, 2, 12])):
            kind, at = rng.choice(["remove", "add", "rename", "cut"]), rng.randrange(len(names))
            if kind == "add":
                names.insert(rng.choice([at, len(names)]), f"new{at}")
            elif kind == "rename":
                names[at] += "x"
            elif len(names) > 1:
                del names[at : at + 1 if kind == "remove" else None]
                names = names or ["only"]
        if names == was:
            continue
        with pytest.raises(StateError) as e:
            listed(names, checkpoint=state).build()
        text, gone = str(e.value), len(was) - len(names)
        what = {True: f"{gone} file", False: f"{-gone} file"}[gone > 0] if gone else "as many files"
        assert f"the data set has changed: {what}" in text and (not gone or f"({len(was)}, now {len(names)})" in text)
        same = check_message(text, names, was)
        change = next((i for i, (a, b) in enumerate(zip(names, was, strict=False)) if a != b), min(len(names), len(was)))
        assert change - same <= len(was) / 32 + 1, f"seed {seed}: {text}"


def test_changed_folders_are_named(tmp_path, files):
    for i in range(64):
        path = tmp_path / f"class{i // 16}" / f"{i:02}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(files[0].read_bytes())

    @pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=1)
    def folder():
        return fn.readers.file(file_root=tmp_path)[1]

    state = folder().checkpoint()
    (tmp_path / "class1" / "20.jpg").unlink()
    with pytest.raises(
        StateError, match=r"1 file fewer .*the first 20 are the same, up to \S*class1/19.jpg; .* at \S*class1/22.jpg or before"
    ):
        folder(checkpoint=state).build()
    (tmp_path / "class1" / "20.jpg").write_bytes(files[0].read_bytes())
    folder(checkpoint=state).build()
    (tmp_path / "class9").mkdir()
    with pytest.raises(StateError, match=r"names or labels changed"):
        folder(checkpoint=state).build()
    (tmp_path / "class9").rmdir()
    (tmp_path / "class0a").mkdir()
    # The first 16 labels are equal, the others differ.
    with pytest.raises(StateError, match=r"as many files .*\(64\).*the first 16 are the same"):
        folder(checkpoint=state).build()


def test_a_deserialised_pipeline_gives_the_same_batches(tree, tmp_path):
    pipe = training(tree)
    data = pipe.serialize(filename=tmp_path / "p.json")
    assert isinstance(data, bytes)
    from stoker import Pipeline

    copies = [Pipeline.deserialize(data), Pipeline.deserialize(filename=tmp_path / "p.json"), Pipeline.deserialize(data, num_threads=1)]
    want = arrays(pipe.run())
    for copy in copies:
        for a, b in zip(want, arrays(copy.run()), strict=True):
            np.testing.assert_array_equal(a, b)
    assert len(Pipeline.deserialize(data, batch_size=2).run()[0]) == 2
    with pytest.raises(InvalidArgumentError):
        Pipeline.deserialize(data[:40])
    with pytest.raises(InvalidArgumentError):
        Pipeline.deserialize()


@pytest.mark.essential
def test_batches_outlive_their_pipeline(tree):
    import torch

    pipe = training(tree)
    kept = [torch.from_dlpack(pipe.run()[0].as_tensor()) for _ in range(4)]
    copies = [k.clone() for k in kept]
    view = memoryview(pipe.run()[0].as_tensor())
    before = bytes(view.cast("B"))
    for _ in range(6):
        pipe.run()
    pipe.close()
    del pipe
    gc.collect()
    for k, c in zip(kept, copies, strict=True):
        assert torch.equal(k, c)
    assert bytes(view.cast("B")) == before


def test_a_slot_is_not_reused_while_anything_over_it_lives(tree):
    import torch

    pipe = training(tree)
    held = torch.from_dlpack(pipe.run()[0].as_tensor())[0]
    want = held.clone()
    for _ in range(12):
        pipe.run()
    assert torch.equal(held, want)


def test_keeping_every_batch_is_an_error_that_says_so(tree):
    pipe = training(tree, max_batches=5)
    kept = []
    with pytest.raises(StokerError, match=r"5|hold"):
        for _ in range(50):
            kept.append(pipe.run())
    kept.clear()
    pipe.run()


def test_outputs_are_lists_of_tensors(tree):
    import torch

    pipe = training(tree)
    data, label = pipe.run()
    assert isinstance(data, TensorListCPU) and isinstance(data, types.TensorListCPU) and isinstance(data[0], TensorCPU)
    assert len(data) == 4 and data.shape() == [(3, 24, 24)] * 4 and data.ndim() == 3
    assert data.dtype is types.FLOAT and data.layout() == "CHW" and data[1].layout() == "CHW"
    assert data.is_dense_tensor() and data.as_cpu() is data
    whole = data.as_tensor()
    assert whole.shape() == [4, 3, 24, 24] and whole.layout() == "NCHW" and whole.dtype is types.FLOAT
    array = np.asarray(whole)
    assert array.flags.writeable and array.ctypes.data == whole.data_ptr()
    np.testing.assert_array_equal(array[2], data.at(2))
    np.testing.assert_array_equal(np.array(data), array)
    np.testing.assert_array_equal(np.frombuffer(whole, np.float32).reshape(array.shape), array)
    assert torch.from_dlpack(whole).data_ptr() == whole.data_ptr()
    assert torch.from_dlpack(data).shape == (4, 3, 24, 24)
    assert torch.utils.dlpack.from_dlpack(data[3].__dlpack__()).data_ptr() == data[3].data_ptr()
    assert np.from_dlpack(data[1]).shape == (3, 24, 24)
    assert data[-1].data_ptr() == data[3].data_ptr()
    target = np.empty((4, 3, 24, 24), np.float32)
    data.copy_to_external(target.ctypes.data)
    np.testing.assert_array_equal(target, array)
    assert data[0].get_property("source_info") == data[0].source_info() == data.source_info()[0]
    assert data[0].get_property("index") >= 0 and data[0].get_property("nothing") is None
    assert "num_samples=4" in repr(data) and "HW" in repr(data[0])
    with pytest.raises(IndexError):
        data[4]
    copied = torch.from_dlpack(whole, copy=True)
    assert copied.data_ptr() != whole.data_ptr() and np.array_equal(copied.numpy(), array)
    with pytest.raises(BufferError):
        whole.__dlpack__(dl_device=(2, 0))
    assert not hasattr(whole, "__cuda_array_interface__")
    assert label.as_array().dtype == np.int32


def test_unused_capsules_are_freed(tree):
    pipe = training(tree, max_batches=4)
    for _ in range(30):
        whole = pipe.run()[0].as_tensor()
        whole.__dlpack__()
        whole.__dlpack__(max_version=(1, 0))


def test_unequal_shapes_name_both(tree):
    @pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def decode():
        return fn.decoders.image(fn.readers.file(file_root=str(tree))[0])

    (images,) = decode().run()
    with pytest.raises(ValueError, match=r"000.jpg.*00\d.jpg|shape"):
        images.as_tensor()
    with pytest.raises(ValueError):
        np.array(images)


def test_bfloat16_goes_to_torch(tree):
    import torch

    @pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def half():
        image = fn.resize(fn.decoders.image(fn.readers.file(file_root=str(tree))[0]), size=[8, 8])
        return fn.crop_mirror_normalize(image, dtype=torch.bfloat16), fn.crop_mirror_normalize(image)

    low, full = half().run()
    assert low.dtype is types.BFLOAT16
    tensor = torch.from_dlpack(low.as_tensor())
    assert tensor.dtype is torch.bfloat16
    torch.testing.assert_close(tensor.float(), torch.from_dlpack(full.as_tensor()), rtol=2**-8, atol=0)
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(low.as_tensor())


@pytest.mark.essential
def test_bad_files_by_policy(tmp_path, files):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"hello, I am no image")
    paths = [str(p) for p in files[:3]] + [str(bad)] + [str(p) for p in files[3:7]]

    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def listed():
        data, label = fn.readers.file(files=paths)
        return fn.resize(fn.decoders.image(data), size=[8, 8]), label

    pipe = listed()
    with pytest.raises(StokerError, match=r"bad.jpg") as caught:
        pipe.run()
    error = caught.value
    assert error.uri.endswith("bad.jpg") and "decoders.image" in error.op and "test_pipeline.py:" in error.op
    assert error.sample == 3 and error.epoch == 0
    assert len(pipe.run()[0]) == 4  # the pipeline continues with the next batch after the error

    skipping = listed(on_error="skip", max_errors=10)
    assert [int(y[0]) for y in map(np.asarray, skipping.run()[1])] == [0, 1, 2]
    kept = skipping.bad_samples()[0]
    assert kept.uri.endswith("bad.jpg") and isinstance(kept, StokerError)

    replacing = listed(on_error="replace", max_errors=10)
    data, label = replacing.run()
    assert len(data) == 4 and int(np.asarray(label[3])[0]) != 3
    assert data[3].get_property("replaced") >= 1


@pytest.mark.parametrize("kind", ["loop", "long name", "directory", "forbidden"])
def test_a_file_that_cannot_be_opened_is_a_bad_sample(files, tmp_path, kind):
    """One file that cannot be opened is a bad sample. Many in a row are a failure of the source, unless their paths lead to no file: then only max_errors ends
    the run."""
    bad = tmp_path / "bad.jpg"
    if kind == "loop":
        bad.symlink_to("bad.jpg")
    elif kind == "long name":
        bad = tmp_path / ("x" * 300 + ".jpg")
    elif kind == "directory":
        bad.mkdir()
    else:
        bad.write_bytes(files[0].read_bytes())
        bad.chmod(0)
        if os.access(bad, os.R_OK):
            pytest.skip("root may read all files")

    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def listed(paths):
        return fn.resize(fn.decoders.image(fn.readers.file(files=[str(p) for p in paths])[0]), size=[8, 8])

    with pytest.raises(StokerError, match=re.escape(str(tmp_path))):
        listed([*files[:3], bad]).run()
    skipping = listed([*files[:3], bad, *files[3:7]], on_error="skip", max_errors=10)
    assert [len(skipping.run()[0]) for _ in range(2)] == [3, 4]
    assert {e.uri for e in skipping.bad_samples()} == {str(bad)}
    assert len(listed([*files[:3], bad], on_error="replace", max_errors=10).run()[0]) == 4
    lost = listed([bad] * 400, on_error="skip", max_errors=300 if kind in ("loop", "long name") else 1000)
    with pytest.raises(StokerError, match=re.escape(str(tmp_path))):
        for _ in range(100):
            lost.run()


def test_a_trace_that_cannot_be_written_is_reported(files, tmp_path, capfd):
    """If a trace cannot be written, because the disk is full or the folder does not exist, this is reported, and the run continues. A full disk may be
    noticed only when the file is closed."""

    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def labels():
        return fn.readers.file(files=[str(p) for p in files])[1]

    for where, reason in (("/dev/full", "No space left"), (tmp_path / "no folder" / "trace.json", "No such file")):
        for batches in (1, 400):  # 400 batches fill the buffer of stdio, so that writes fail during the run
            pipe = labels(trace=str(where))
            for _ in range(batches):
                pipe.run()
            pipe.close()
            printed = capfd.readouterr().err
            assert f"stoker: the trace can't be written to {where}" in printed and reason in printed, (where, batches, printed)


def test_paths_of_traces(files, tmp_path):
    for where in (tmp_path / "a.json", str(tmp_path / "b.json"), os.fsencode(tmp_path / "c.json")):
        with Pipeline(1, 1, None, trace=where) as pipe:
            pipe.set_outputs(fn.readers.file(files=[str(files[0])])[0])
        pipe.run()
        pipe.close()
        assert json.loads(Path(os.fsdecode(where)).read_text())["traceEvents"]
    with pytest.raises(InvalidArgumentError, match="trace is the path of a file, and this one is empty"):
        Pipeline(1, 1, None, trace="")


@pytest.mark.parametrize("length", [20, 200, 320, 480, 700])
def test_a_long_path_does_not_hide_what_is_wrong_with_it(length):
    """The message contains the path, the reason and the sample, however long the path is."""
    path = "/" + "/".join(["folder" * 6] * (length // 37)) + "/image.jpg"

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def define():
        return fn.readers.file(files=[path])

    with pytest.raises(NotFoundError) as caught:
        define().run()
    assert re.search(
        rf"^{re.escape(path)}: .*No such file or directory; sample 0 of epoch 0, readers.file at test_pipeline.py:\d+$", str(caught.value)
    )


def test_a_path_that_no_file_can_have_is_a_bad_sample(tmp_path):
    (tmp_path / "a").write_bytes(b"a")

    @pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def define():
        return fn.readers.file(files=[str(tmp_path / "a"), "/" + "x" * 5000, str(tmp_path / "a")])

    with pytest.raises(InvalidArgumentError, match=r"a path of 5001 bytes: up to 4095 can be read; sample 1 of epoch 0, readers.file at "):
        define().run()
    assert len(define(on_error="skip", max_errors=1).run()[0]) == 2


def test_missing_and_empty_folders(tmp_path):
    with pytest.raises(StokerError, match="nowhere"):
        labels_of(tmp_path / "nowhere").build()
    (tmp_path / "class").mkdir()
    with pytest.raises(StokerError):
        labels_of(tmp_path).build()


def test_a_list_may_begin_with_a_byte_order_mark(files, tmp_path):
    (tmp_path / "list.txt").write_text(f"{files[0]} 4\n{files[1]} 5\n", encoding="utf-8-sig")

    @pipeline_def(batch_size=2, num_threads=2, device_id=None)
    def define():
        return fn.readers.file(file_list=str(tmp_path / "list.txt"))

    data, labels = define().run()
    assert np.array(data.at(0)).tobytes() == files[0].read_bytes() and labels.as_array().ravel().tolist() == [4, 5]


def test_one_thread_at_a_time(tree):
    pipe = training(tree)
    pipe.build()
    errors, stop = [], threading.Event()

    def use():
        while not stop.is_set():
            try:
                pipe.run()
            except RuntimeError as e:
                errors.append(str(e))

    threads = [threading.Thread(target=use, daemon=True) for _ in range(3)]
    for t in threads:
        t.start()
    try:
        stop.wait(0.5)
    finally:
        stop.set()
    for t in threads:
        t.join(20)
    assert all("another thread" in e for e in errors), errors[:3]
    pipe.run()


def test_a_closed_pipeline_refuses_calls(tree):
    pipe = training(tree)
    pipe.run()
    pipe.close()
    pipe.close()
    with pytest.raises(RuntimeError, match="closed"):
        pipe.run()


def test_explain_and_counters_describe_the_run(tree, tmp_path):
    pipe = training(tree, trace=str(tmp_path / "trace.json"))
    pipe.run()
    assert "decoders.image_random_crop" in pipe.explain()
    assert isinstance(pipe.explain(as_json=True), (dict, list))
    assert pipe.counters()["batches_delivered"] == 1
    assert pipe._running().spans()
    pipe.close()
    json.loads((tmp_path / "trace.json").read_text())


def test_a_trace_is_json_where_numbers_have_a_decimal_comma(tmp_path):
    """Numbers in a trace have a decimal point, even if the program has set a German locale, as programs with a graphical interface do."""
    made = shutil.which("localedef") and subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "UTF-8", tmp_path / "de_DE.UTF-8"], capture_output=True, check=False
    )
    if not (tmp_path / "de_DE.UTF-8").is_dir():
        pytest.skip(f"no locale could be made: {made.stderr.decode() if made else 'localedef is not installed'}")
    run = run_script(
        """
        import locale, sys
        from stoker import Pipeline, fn
        locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
        assert locale.localeconv()["decimal_point"] == ","
        pipe = Pipeline(2, 1, None, trace=sys.argv[1])
        with pipe:
            pipe.set_outputs(fn.random.uniform(range=[0.0, 1.0]))
        pipe.run()
        pipe.close()
        """,
        str(tmp_path / "trace.json"),
        LOCPATH=str(tmp_path),
    )
    assert run.returncode == 0, run.stderr
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    times = [event["ts"] for event in events if event["ph"] == "X"]
    assert times and all(isinstance(time, float) and time > 0 for time in times)


def test_only_chains_and_operators_have_numbers_in_a_trace(tmp_path):
    """A trace names a user's callback "callback" and a consumer's wait "wait"; numbers follow only the names of chains and operators."""
    pipe = Pipeline(2, 1, None, trace=str(tmp_path / "trace.json"))
    with pipe:
        pipe.set_outputs(fn.external_source(lambda: [np.zeros(3, np.uint8)] * 2))
    for _ in range(3):
        pipe.run()
    stages = {name: stage for name, stage, *_ in pipe._running().spans()}
    pipe.close()
    names = {event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if event["ph"] == "X"}
    assert {"callback", "wait"} <= names and stages["callback"] == stages["wait"] == -1, (names, stages)


def test_operators_with_one_seed_draw_the_same():
    """As in DALI, operators with the same seed crop and rotate an image and its mask equally."""
    rng = np.random.default_rng(SEED)
    pictures = [rng.integers(0, 255, (int(h), int(w), 3), dtype=np.uint8) for h, w in rng.integers(20, 60, (6, 2))]

    @pipeline_def(batch_size=6, num_threads=2, device_id=None, seed=5)
    def define():
        image = fn.external_source(lambda: pictures, layout="HWC")
        crops = [fn.random_resized_crop(image, size=[16, 16], seed=s) for s in (7, 7, 8, None)]
        windows = [fn.random_crop(image, size=[16, 16], seed=7, name=n) for n in ("first", "second")]
        return (*crops, *windows, fn.random.uniform(range=[0, 1], seed=3), fn.random.uniform(range=[0, 2], seed=3))

    pipe = define()
    for _ in range(2):
        a, b, other, own, first, second, one, two = (o.as_array() for o in pipe.run())
        assert np.array_equal(a, b) and np.array_equal(first, second) and np.array_equal(2 * one, two)
        assert not np.array_equal(a, other) and not np.array_equal(a, own)


def test_a_definition_that_another_thread_ends():
    """A definition block that is never left may be collected on any thread. That thread must not search its own list of blocks for it."""
    from stoker._build import GraphBuilder, building

    scope, errors = building(GraphBuilder(device_id=None)), []
    scope.__enter__()

    def end():
        try:
            scope.gen.close()
        except ValueError as e:
            errors.append(e)

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    assert not errors
