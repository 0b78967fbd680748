# SPDX-License-Identifier: Apache-2.0
"""Defining pipelines: arguments, tracing twice, misuse of nodes."""

import pickle
import random

import pytest
from stoker import Pipeline, fn, pipeline_def, types
from stoker.errors import InvalidArgumentError, StateError, StokerError


@pipeline_def
def images(root, side=32, **reader):
    data, label = fn.readers.file(file_root=str(root), name="Reader", **reader)
    return fn.resize(fn.decoders.image(data), size=[side, side]), label


@pytest.mark.essential
def test_arguments_go_where_they_belong(tree):
    pipe = images(tree, side=16, batch_size=4, num_threads=1, device_id=None, seed=5, prefetch_queue_depth=3)
    assert (pipe.batch_size, pipe.max_batch_size, pipe.seed, pipe.prefetch_queue_depth, pipe.device_id) == (4, 4, 5, 3, None)
    data, label = pipe.run()
    assert data.as_array().shape == (4, 16, 16, 3)
    assert label.as_array().shape == (4, 1)
    assert isinstance(pipe.run(), tuple)


def test_decorator_arguments_and_their_override():
    @pipeline_def(
        batch_size=2,
        num_threads=1,
        device_id=None,
        exec_async=True,
        exec_pipelined=True,
        py_start_method="spawn",
        enable_checkpointing=True,
    )
    def define():
        return fn.random.uniform(range=[0, 1])

    assert define().batch_size == 2
    assert define(batch_size=5).batch_size == 5
    assert len(define(batch_size=5).run()[0]) == 5


def test_with_pipeline(tree):
    pipe = Pipeline(3, 1, None, 12)
    with pipe:
        assert Pipeline.current() is pipe
        data, _ = fn.readers.file(file_root=str(tree))
        pipe.set_outputs(fn.decoders.image(data))
    assert Pipeline.current() is None
    assert len(pipe.run()[0]) == 3
    with pytest.raises(StateError, match="is built"), pipe:
        pass


def test_define_graph_in_a_subclass(tree):
    class Mine(Pipeline):
        def define_graph(self):
            data, label = fn.readers.file(file_root=str(tree))
            return fn.decoders.image(data), label

    assert len(Mine(batch_size=2, num_threads=1, device_id=None).run()) == 2


def test_unknown_arguments_of_a_pipeline(tree):
    with pytest.raises(TypeError, match="did you mean 'prefetch_queue_depth'"):
        Pipeline(batch_size=1, num_threads=1, device_id=None, prefetch_queue_dept=2)
    with pytest.raises(TypeError):
        images(tree, batch_size=1, num_thread=2)
    with pytest.raises(InvalidArgumentError, match="batch_size is needed"):
        images(tree)
    with pytest.raises(InvalidArgumentError, match="batch_size is at least 1"):
        Pipeline(batch_size=0)
    with pytest.raises(InvalidArgumentError, match="on_error"):
        Pipeline(batch_size=1, on_error="ignore")


def test_a_gpu_that_is_not_there_is_an_error(tree):
    pipe = images(tree, batch_size=1, num_threads=1, device_id=0)
    with pytest.raises(StokerError):
        pipe.build()


def test_no_gpu_is_one_notice(tree, script):
    done = script(
        """
        import sys
        from stoker import fn, pipeline_def
        @pipeline_def(batch_size=2, num_threads=1, device_id=None)
        def define():
            data, label = fn.readers.file(file_root=sys.argv[1])
            image = fn.resize(fn.decoders.image(data, device="mixed"), size=20, device="gpu")
            return image.gpu(), label.gpu()
        define().run(); define().run()
        """,
        str(tree),
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == len(set(lines)) and len(lines) <= 3 and all("no GPU" in line for line in lines), done.stderr


@pytest.mark.essential
def test_pythons_random_numbers_are_refused_at_their_line(tree):
    def define():
        data, _ = fn.readers.file(file_root=str(tree))
        image = fn.decoders.image(data)
        return fn.crop_mirror_normalize(image, crop=[10, 10], crop_pos_x=random.random(), dtype=types.UINT8)

    with pytest.raises(InvalidArgumentError, match=r"crop_mirror_normalize at test_definition.py:\d+: argument 'crop_pos_x' was 0\.\d+"):
        pipeline_def(batch_size=2, num_threads=1, device_id=None)(define)()


def test_a_definition_that_takes_another_way(tree):
    calls = []

    def define():
        calls.append(1)
        data, _ = fn.readers.file(file_root=str(tree))
        image = fn.decoders.image(data)
        return fn.flip(image) if len(calls) == 1 else fn.resize(image, size=10)

    with pytest.raises(InvalidArgumentError, match="added another operator the second time"):
        pipeline_def(batch_size=2, num_threads=1, device_id=None)(define)()


def test_nodes_have_no_truth_value():
    def define():
        flip = fn.random.coin_flip()
        return fn.random.uniform(range=[0, 1]) if flip else fn.random.uniform(range=[2, 3])

    with pytest.raises(TypeError, match=r"test_definition.py:\d+: a DataNode has no truth value"):
        pipeline_def(batch_size=2, num_threads=1, device_id=None)(define)()


def test_nodes_are_not_sequences():
    def iterate():
        return list(fn.random.uniform(range=[0, 1]))

    def measure():
        return len(fn.random.uniform(range=[0, 1]))

    for define in (iterate, measure):
        with pytest.raises(TypeError, match="DataNode"):
            pipeline_def(batch_size=2, num_threads=1, device_id=None)(define)()


@pytest.mark.parametrize(("result", "match"), [(None, "returned nothing"), ("text", "output 0 is str"), ((), "no outputs")])
def test_wrong_results_of_a_definition(result, match):
    with pytest.raises(InvalidArgumentError, match=match):
        pipeline_def(batch_size=2, num_threads=1, device_id=None)(lambda: result)().build()


def test_nodes_of_another_pipeline():
    kept = []

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def first():
        kept.append(fn.random.uniform(range=[0, 1]))
        return kept[0]

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def second():
        return kept[0]

    first()
    with pytest.raises(InvalidArgumentError, match="another pipeline"):
        second()


def test_declared_outputs_are_checked(tree):
    ok = images(tree, batch_size=2, num_threads=1, device_id=None, output_dtype=[types.UINT8, types.INT32], output_ndim=[3, 1])
    ok.run()
    assert ok.output_dtype() == [types.UINT8, types.INT32]
    assert ok.output_ndim() == [3, 1]
    wrong = images(tree, batch_size=2, num_threads=1, device_id=None, output_dtype=[types.FLOAT, types.INT32])
    with pytest.raises(InvalidArgumentError, match="output 0: type"):
        wrong.build()
    for kwargs, kind in (
        ({"output_ndim": -1}, ValueError),
        ({"output_ndim": [2, -1]}, ValueError),
        ({"output_ndim": "2"}, TypeError),
        ({"output_dtype": types.NO_TYPE}, ValueError),
        ({"output_dtype": [types.FLOAT, types.NO_TYPE]}, ValueError),
    ):
        with pytest.raises(kind, match=next(iter(kwargs))):
            images(tree, batch_size=2, num_threads=1, device_id=None, **kwargs)


def test_pickling_is_refused(tree):
    pipe = images(tree, batch_size=2, num_threads=1, device_id=None)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(pipe)


def test_nan_is_no_random_number(tree):
    """A definition is traced twice, and draws of Python's random numbers are found by a comparison. NaN, which is not equal to itself, is accepted."""

    def define():
        _, label = fn.readers.file(file_root=str(tree))
        return fn.constant(fdata=[float("nan"), 1.0]), fn.pad(fn.cast(label, dtype=types.FLOAT), fill_value=float("nan"))

    pipe = pipeline_def(batch_size=2, num_threads=1, device_id=None)(define)()
    assert str(pipe.run()[0].as_array()[0].tolist()) == "[nan, 1.0]"


def test_what_analysis_finds_tells_the_operator_and_its_line(tree):
    def define():
        _, label = fn.readers.file(file_root=str(tree))
        return fn.transpose(label, perm=[0, 1])

    with pytest.raises(InvalidArgumentError, match=r"perm has 2 values .*; transpose at test_definition.py:[0-9]+$"):
        pipeline_def(batch_size=2, num_threads=1, device_id=None)(define)().build()


@pytest.mark.parametrize("settings", ["null", "5", "[]", '"x"'])
def test_serialised_settings_that_are_none(settings):
    text = f'{{"stoker_graph": 1, "operators": [], "outputs": [], "pipeline": {settings}}}'
    with pytest.raises(InvalidArgumentError, match="no serialised pipeline"):
        Pipeline.deserialize(text)


def test_a_readers_own_seed_is_the_orders(files):
    def order(**arguments):
        reader = {"files": [str(f) for f in files], "labels": list(range(len(files))), "random_shuffle": True, **arguments}
        pipe = pipeline_def(batch_size=len(files), num_threads=1, device_id=None, seed=9)(lambda: fn.readers.file(**reader)[1])()
        return pipe.run()[0].as_array().ravel().tolist()

    assert order() == order(seed=-1) == order(seed=0) == order(shuffle_seed=0)
    assert order(seed=7) == order(shuffle_seed=7) == order(shuffle_seed=7, seed=8) != order(seed=8)
    with pytest.raises(InvalidArgumentError, match="stick_to_shard and shuffle_after_epoch exclude each other"):
        order(stick_to_shard=True, shuffle_after_epoch=True)


@pytest.mark.parametrize("wrong", [{"output_ndim": -1}, {"output_ndim": [2, -1]}, {"output_dtype": types.NO_TYPE}], ids=str)
def test_outputs_are_declared_as_what_can_be(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Pipeline(batch_size=1, num_threads=1, device_id=None, **wrong)
