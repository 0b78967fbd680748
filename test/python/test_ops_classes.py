# SPDX-License-Identifier: Apache-2.0
"""stoker.ops: operators as classes, operators that are called outside of a pipeline definition, and DALI's older interfaces such as iter_setup."""

import gc
import inspect

import numpy as np
import pytest
import stoker
from stoker import Pipeline, fn, ops, pipeline_def, types
from stoker._catalog import public_names
from stoker._classes import class_name, operator_name
from stoker.errors import InvalidArgumentError, StateError

pytestmark = pytest.mark.filterwarnings("error")


def make(**kwargs):
    return Pipeline(batch_size=3, num_threads=2, device_id=None, seed=7, **kwargs)


def arrays(outputs):
    return [[np.array(t) for t in o] for o in outputs]


def assert_same(a, b):
    for x, y in zip(arrays(a), arrays(b), strict=True):
        for s, t in zip(x, y, strict=True):
            np.testing.assert_array_equal(s, t)


@pytest.mark.essential
def test_a_pipeline_of_classes_gives_what_functions_give(tree):
    class Classes(Pipeline):
        def __init__(self):
            super().__init__(3, 2, None, 7)
            self.input = ops.readers.File(file_root=str(tree), name="Reader")
            self.decode = ops.ImageDecoder(device="cpu", output_type=types.RGB)
            self.coin = ops.random.CoinFlip(probability=0.5)
            self.resize = ops.Resize(size=[20, 30])
            self.finish = ops.CropMirrorNormalize(dtype=types.FLOAT, mean=[1, 2, 3])

        def define_graph(self):
            files, labels = self.input()
            images = self.resize(self.decode(files), interp_type=types.INTERP_CUBIC)
            return self.finish(images, mirror=self.coin()), labels

    @pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=7)
    def functions():
        files, labels = fn.readers.file(file_root=str(tree), name="Reader")
        images = fn.decoders.image(files, output_type=types.RGB)
        flip = fn.random.coin_flip(probability=0.5)
        images = fn.resize(images, size=[20, 30], interp_type=types.INTERP_CUBIC)
        return fn.crop_mirror_normalize(images, dtype=types.FLOAT, mean=[1, 2, 3], mirror=flip), labels

    a, b = Classes(), functions()
    for _ in range(3):
        assert_same(a.run(), b.run())
    assert a.epoch_size("Reader") == 21


def test_every_operator_has_its_class():
    names = public_names()
    assert {operator_name(class_name(n)) for n in names} == set(names)
    assert (
        class_name("readers.coco") == "readers.COCO"
        and class_name("random_bbox_crop") == "RandomBBoxCrop"
        and class_name("bb_flip") == "BbFlip"
    )
    for name in map(class_name, names):
        found = ops
        for part in name.split("."):
            found = getattr(found, part)
        assert inspect.isclass(found) and found.__doc__ and f"{found.__module__}.{found.__name__}" == f"stoker.ops.{name}", name
    assert "Resize" in dir(ops) and "readers" in dir(ops) and "File" in dir(ops.readers)
    assert fn.experimental.decoders.image.__doc__ == fn.decoders.image.__doc__ and ops.experimental.Resize._op is ops.Resize._op
    import stoker.ops.readers as readers

    assert readers.File is ops.readers.File and ops.FileReader is not ops.Resize


def test_arguments_of_classes_are_checked_early_and_given_once():
    with pytest.raises(TypeError, match=r"resize at test_ops_classes.py:\d+: there is no argument 'siez'; did you mean 'size'"):
        ops.Resize(siez=3)
    with pytest.raises(TypeError, match="'interp_type' takes one of"):
        ops.Resize(size=3, interp_type="none of these")
    with pytest.raises(ValueError, match="'size' was given before"), make():
        ops.Resize(size=3)(np.zeros((4, 4, 3), np.uint8), size=4)
    with pytest.raises(AttributeError, match="did you mean"):
        ops.Resiez  # noqa: B018


def test_compose_and_external_source():
    source = ops.ExternalSource(lambda info: np.full((8, 8, 3), info.idx_in_epoch, np.uint8), batch=False)
    chain = ops.Compose([ops.Crop(crop=(4, 2)), ops.Compose([ops.Cast(dtype=types.FLOAT), lambda x: x + 0.5])])
    pipe = make()
    with pipe:
        pipe.set_outputs(chain(source(layout="HWC")))
    (out,) = pipe.run()
    assert out.layout() == "HWC"
    np.testing.assert_array_equal(out.as_array(), np.broadcast_to(np.arange(3)[:, None, None, None] + np.float32(0.5), (3, 4, 2, 3)))


# ---- outside of a definition ----


@pytest.mark.essential
def test_operators_outside_of_a_scope(tree):
    def define():
        files, labels = fn.readers.file(file_root=str(tree), name="Reader", random_shuffle=True, shuffle_after_epoch=False)
        images = fn.resize(fn.decoders.image(files), size=[20, 30])
        shift = fn.random.uniform(range=[0.0, 1.0])
        return fn.crop(images, crop=(10, 10), crop_pos_x=shift), labels + 1, fn.stack(shift, 2 * shift)

    loose, scoped = make(), make()
    loose.set_outputs(*define())
    with scoped:
        scoped.set_outputs(*define())
    for _ in range(2):
        assert_same(loose.run(), scoped.run())
    assert loose.epoch_size("Reader") == 21


def test_a_loose_node_may_go_to_several_pipelines_and_into_their_scopes():
    number = fn.random.uniform(range=[0.0, 1.0], name="draw")
    twice = number * 2
    first, second = make(), make()
    first.set_outputs(number, twice)
    with second:
        second.set_outputs(number, fn.cast(twice, dtype=types.FLOAT64), twice)
    a, b = first.run(), second.run()
    np.testing.assert_array_equal(a[0].as_array(), b[0].as_array())
    np.testing.assert_array_equal(2 * a[0].as_array(), b[2].as_array())
    assert len(second._builder.records) == len(first._builder.records) + 1  # each operator is recorded once

    @pipeline_def(batch_size=3, num_threads=1, device_id=None, seed=7)
    def third():
        return number + 1

    np.testing.assert_array_equal(third().run()[0].as_array(), a[0].as_array() + 1)


def test_operators_over_nodes_of_a_pipeline_go_to_it(tree):
    pipe, other = make(), make()
    with pipe:
        files, labels = fn.readers.file(file_root=str(tree))
    image = fn.decoders.image(files)
    pipe.set_outputs(fn.resize(image[0:10], size=5), labels)
    assert pipe.run()[0].as_array().shape == (3, 5, 5, 3)
    with pytest.raises(StateError, match="the pipeline is built"):
        fn.resize(image, size=4)
    with other, pytest.raises(InvalidArgumentError, match="node of another pipeline"):
        fn.resize(image, size=4)
    with other, pytest.raises(InvalidArgumentError, match="node of another pipeline"):  # the node may also be an argument
        fn.crop(np.zeros((4, 4, 3), np.uint8), crop=(2, 2), crop_pos_x=labels)


def test_loose_sources_are_fed_by_name_and_node():
    named, by_node = fn.external_source(name="in"), fn.external_source()
    pipe = make()
    pipe.set_outputs(named, by_node, fn.external_source(lambda i: np.full((3, 1), i)))
    for k in range(3):
        pipe.feed_input("in", np.full((3, 2), k))
        pipe.feed_input(by_node, np.full((3, 2), 10 * k))
        a, b, c = pipe.run()
        assert (a.at(0)[0], b.at(1)[0], c.at(2)[0]) == (k, 10 * k, k)


def test_loose_graphs_die_with_their_nodes():
    from stoker import _build

    node = fn.random.uniform() + 1
    pipe = make()
    pipe.set_outputs(node)
    pipe.run()
    assert _build._stack.loose() is not None
    del node
    gc.collect()
    assert _build._stack.loose() is None
    pipe.run()


# ---- DALI's older interfaces ----


def test_iter_setup_feeds_and_ends_epochs():
    class Fed(Pipeline):
        def __init__(self):
            super().__init__(2, 1, None)
            self.input = ops.ExternalSource()
            self.left = 3

        def define_graph(self):
            self.data = self.input()
            return self.data + 1

        def iter_setup(self):
            if self.left == 0:
                self.left = 3
                raise StopIteration
            self.left -= 1
            self.feed_input(self.data, np.full((2, 1), self.left))

    pipe = Fed()
    for _ in range(2):
        assert [pipe.run()[0].as_array().ravel().tolist() for _ in range(3)] == [[3, 3], [2, 2], [1, 1]]
        with pytest.raises(StopIteration):
            pipe.run()
        pipe.reset()


def test_names_that_only_dali_has_raise_advice():
    for ask, match in [
        (lambda: fn.optical_flow, "compute the flow .*external_source"),
        (lambda: ops.readers.Caffe2, "readers.file"),
        (lambda: ops.OpticalFlow, "optical_flow exists in DALI"),
        (lambda: fn.experimental.numba_function, "python_function takes"),
        (lambda: stoker.plugin_manager, "external_source"),
        (lambda: stoker.plugin.tf, "DLPack"),
        (lambda: stoker.types.PYTHON_OBJEKT, "no attribute"),
    ]:
        with pytest.raises(AttributeError, match=match):
            ask()
    with pytest.raises(ImportError, match="compute the flow"):
        from stoker.fn import optical_flow  # noqa: F401
    with pytest.raises(ImportError, match=r"readers\.file"):
        from stoker.ops import Caffe2Reader  # noqa: F401
    with pytest.raises(ImportError, match=r"io\.file\.write"):
        from stoker.fn.io.file import write  # noqa: F401
    with pytest.raises(ImportError, match="only DALI has it"):
        from stoker.plugin import paddle  # noqa: F401
    with pytest.raises(ImportError, match="only DALI has it"):
        from stoker import plugin_manager  # noqa: F401
    assert not hasattr(fn, "optical_flow") and not hasattr(stoker, "plugin_manager")
    from stoker.fn import io, reductions, transforms
    from stoker.pipeline import experimental

    assert experimental.pipeline_def is pipeline_def and io.__name__ == "stoker.fn.io" and transforms and reductions
