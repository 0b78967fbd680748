# SPDX-License-Identifier: Apache-2.0
"""The output of help() for the package's main classes and functions fits a terminal, and documents every argument."""

import inspect
import pydoc
import re
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import stoker  # noqa: E402
from stoker import fn  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def shown(thing):
    return pydoc.plain(pydoc.render_doc(thing)).splitlines()


def test_help_of_the_loader_fits_in_two_screens():
    lines = shown(stoker.Loader)
    assert len(lines) <= (100 if sys.version_info < (3, 13) else 110) and max(map(len, lines)) <= 80
    private = [line for line in lines if re.match(r" \|  _(?!_)", line) or "stoker._" in line.replace("stoker._storage", "")]
    assert private == []
    attributes = stoker.Loader.__doc__.split("Attributes")[1]
    assert all(name in attributes for name in ("batch_size", "classes", "class_to_idx", "epoch", "pipeline", "step"))
    first_argument = next(i for i, line in enumerate(lines) if "source, dataset:" in line)
    assert any("train = Loader(" in line for line in lines[:first_argument]), "an example comes first"


def test_every_argument_of_the_loader_is_in_its_help_and_on_its_page():
    page = (ROOT / "doc/loader.md").read_text()
    for name in inspect.signature(stoker.Loader).parameters:
        if name != "dataloader_arguments":
            assert re.search(rf"(?m)^\s+.*\b{name}\b.*: ", stoker.Loader.__doc__) or f"Or {name}" in stoker.Loader.__doc__, name
            assert f"`{name}`" in page, name
    for method in ("from_csv", "from_tars", "from_parquet", "from_lerobot", "mix"):
        shared = {*inspect.signature(stoker.Loader).parameters, "arguments", "source"}
        text = page.split(f"`Loader.{method}(")[1].split("\n- ")[0].split("\n\n")[0]
        for name in {*inspect.signature(getattr(stoker.Loader, method)).parameters} - shared:
            assert name in text, (method, name)


def test_short_signatures_keep_all_parameters():
    signature = inspect.signature(stoker.Loader)
    assert "bucket_by" in signature.parameters and signature.parameters["prefetch"].default == 2
    assert "bucket_by" not in str(signature) and str(signature).endswith("...)")
    signature.bind("folder", 8, pad="zeros")
    resize = inspect.signature(fn.resize)
    assert "bytes_per_sample_hint" in resize.parameters and "bytes_per_sample_hint" not in str(resize)
    assert str(resize).startswith("(data, /, *, resize_x=None")
    assert "nulls" in inspect.signature(stoker.Loader.from_parquet).parameters


@pytest.mark.parametrize(
    "thing", [stoker.Pipeline, fn.resize, fn.readers.file, fn.crop_mirror_normalize, stoker.ops.Resize], ids=lambda t: t.__name__
)
def test_help_fits_the_width_of_a_terminal(thing):
    assert [line for line in shown(thing) if len(line) > 82 and " -> " not in line] == []


def test_help_of_the_package_begins_with_an_overview():
    lines = shown(stoker)
    until = next(i for i, line in enumerate(lines) if line.startswith("PACKAGE CONTENTS"))
    assert until < 45
    text = "\n".join(lines[:until])
    for name in ("Loader", "DataLoader", "Pipeline", "fn.", "transforms", "advise", "metrics", "view("):
        assert name in text
    assert max(map(len, lines[:until])) <= 80


def test_a_loader_may_also_be_of_an_abstract_class():
    import abc

    class Abstract(abc.ABC):
        @abc.abstractmethod
        def more(self): ...

    class Both(stoker.Loader, Abstract):
        pass

    assert "state_dict" in dir(Both) and "__enter__" not in dir(Both) and hasattr(Both, "__enter__")
