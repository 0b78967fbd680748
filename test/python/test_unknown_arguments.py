# SPDX-License-Identifier: Apache-2.0
"""Named arguments that do not exist: the error suggests the most similar one that does."""

import importlib
import inspect

import numpy as np
import pytest
import stoker
from stoker import DataLoader, Loader, Pipeline, Storage, fn
from stoker import transforms as T
from stoker.loader._options import _OF_METHODS

MODULES = ["stoker", "stoker.transforms", "stoker.metrics", "stoker.structured", "stoker.plugin.pytorch", "stoker.loader"]
# The tests leave out names that need a positional argument first, take no named arguments, or are made by Python's own classes.
OTHERS = {"DataNode", "do_not_convert", "Loader", "feed_ndarray", "TorchPythonFunction", "Metric", "newaxis"}


def public():
    """Yields public classes and functions whose last argument can be given by name and has more than three letters, and that argument's name."""
    for module in map(importlib.import_module, MODULES):
        for name in getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]:
            thing = getattr(module, name)
            enum = type(thing).__name__ == "EnumType"
            if name in OTHERS or enum or not callable(thing) or not getattr(thing, "__module__", "").startswith("stoker"):
                continue
            if isinstance(thing, type) and issubclass(thing, BaseException):
                continue
            names = [p.name for p in inspect.signature(thing).parameters.values() if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
            if names and len(names[-1]) > 3:
                yield pytest.param(thing, names[-1], id=f"{module.__name__}.{name}")


@pytest.mark.parametrize("method", ["from_csv", "from_tars", "from_parquet", "from_lerobot"])
def test_arguments_of_a_class_method_name_it(method, tmp_path):
    own = set(_OF_METHODS[f"Loader.{method}"])
    assert own <= {*inspect.signature(getattr(Loader, method)).parameters} - {*inspect.signature(Loader).parameters}
    for name in own:
        with pytest.raises(TypeError, match=f"no argument '{name}'; it is an argument of Loader.{method}$"):
            Loader(tmp_path, 4, **{name: "x"})


@pytest.mark.parametrize(("thing", "name"), public())
def test_the_nearest_argument_is_named(thing, name):
    wrong = name[:-1]
    with pytest.raises(TypeError, match=f"'{wrong}'; did you mean '{name}'") as e:
        thing(**{wrong: 1})
    assert str(e.value).count("did you mean") == 1


def build(make):
    pipe = Pipeline(2, 1, None)
    with pipe:
        pipe.set_outputs(make())


CALLS = {
    "retries": lambda: Storage(retires=3),
    "num_threads": lambda: Pipeline(2, num_thread=2),
    "random_shuffle": lambda: build(lambda: fn.readers.file(files=["a"], random_shufle=True)[0]),
    "sequence_length": lambda: build(lambda: fn.readers.video_resize(filenames=["a"], sequence_lenght=2)),
    "no_copy": lambda: build(lambda: fn.external_source(lambda: 1, no_copi=True)),
    "output_layouts": lambda: build(lambda: fn.python_function(np.zeros(1), function=abs, output_layout="HW")),
    "batch_size": lambda: DataLoader([1, 2], batchsize=2),
    "snapshot_every_n_steps": lambda: DataLoader([1, 2], snapshot_every_n_step=2),
    "steps": lambda: Loader.mix({}, step=3),
    "shuffle": lambda: Loader(["a.jpg"], 1, shufle=True),
    "components": lambda: Loader.from_tars("a.tar", 1, component={}),
    "delta_timestamps": lambda: Loader.from_lerobot("a", 1, delta_timestamp={}),
    "path": lambda: Loader.from_csv("a.csv", 1, paths="p"),
    "nulls": lambda: Loader.from_parquet("a.parquet", 1, null={}),
    "clips": lambda: stoker.loader.Video(3, clip=2),
    "is_pinned": lambda: stoker.tensors.TensorListCPU([np.zeros(2)], is_pined=True),
}


@pytest.mark.parametrize("name", CALLS)
def test_mistakes_in_calls(name):
    with pytest.raises(Exception, match=f"did you mean '{name}'") as e:
        CALLS[name]()
    assert isinstance(e.value, (TypeError, stoker.StokerError))


def test_names_that_are_near_to_none():
    with pytest.raises(TypeError, match="'zzz'; it takes endpoint, region"):
        Storage(zzz=1)
    with pytest.raises(TypeError, match=r"'colour'; it takes .*interpolation"):
        T.Resize(3, colour=2)


def test_errors_of_functions_that_are_called_inside_stay_as_they_are():
    """If a user's function raises an error with the same words, the error is about another call, and gets no suggestion."""

    def fetch(uri, offset, length):
        return bytes(stop=3)

    class Folder:
        def __fspath__(self):
            return fetch("a", 0, None)

    with pytest.raises(TypeError) as e:
        Storage(ca_bundle=Folder(), fetch=fetch)
    assert "bytes" in str(e.value)
    assert "did you mean" not in str(e.value)


def test_signatures_stay_as_they_are():
    assert list(inspect.signature(Storage).parameters)[:3] == ["endpoint", "region", "access_key"]
    assert next(iter(inspect.signature(stoker.imread).parameters)) == "path"
    assert stoker.imread.__module__ == "stoker._image"


def test_each_argument_of_torchs_dataloader_has_an_effect():
    """The table of the effects has all of torch's arguments, and those that Loader itself lacks are typed in Arguments."""
    from stoker.loader._options import Arguments
    from stoker.loader._refused import OF_TORCH

    torch = pytest.importorskip("torch")
    of_torch = {*inspect.signature(torch.utils.data.DataLoader.__init__).parameters, "in_order"}  # which older versions lack
    of_samples = {"self", "batch_size", "shuffle", "sampler", "batch_sampler", "collate_fn", "drop_last"}
    assert set(OF_TORCH) == of_torch - of_samples
    assert {name for name, of in OF_TORCH.items() if of.effect != "own"} <= set(Arguments.__annotations__)
    assert {name for name, of in OF_TORCH.items() if of.effect == "own"} == {"pin_memory", "timeout"}
    for name, of in OF_TORCH.items():
        assert bool(of.why) == (of.effect in ("ignored", "refused")), name
