# SPDX-License-Identifier: Apache-2.0
"""The site's gallery and menu leave out nothing that they should show. `make site` builds the site, and fails if it has a dead link."""

import importlib.util
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from support import SEED

pytest.importorskip("skimage")
pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def gallery():
    spec = importlib.util.spec_from_file_location("stoker_gallery", ROOT / "site/gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_gallery_shows_every_transform(gallery):
    from stoker import transforms

    without = [name for names in gallery.WITHOUT.values() for name in names]
    assert sorted([*gallery.TRANSFORMS, *without]) == sorted(transforms.__all__)


def test_the_gallery_shows_every_operator_on_images(gallery):
    """The gallery has every operator whose first input may have a layout of images, except cast, which does not change the picture."""
    table = (ROOT / "doc/operator-table.md").read_text()
    on_images = {name for name, layouts in re.findall(r"^\| \[([\w.]+)\][^|]*\|[^|]*\|[^|]*\|([^|]*)\|", table, re.M) if layouts.strip()}
    assert len(on_images) > 30 and on_images - {*gallery.OPERATORS} == {"cast"}


def test_calls_give_pictures_that_differ_from_the_photograph(gallery):
    image = gallery.photograph()
    draw = random.Random(SEED)
    chosen = [(gallery.of_transform, call) for call in draw.sample([c for calls in gallery.TRANSFORMS.values() for c in calls], 8)]
    chosen += [(gallery.of_operator, call) for call in draw.sample([c for calls in gallery.OPERATORS.values() for c in calls], 8)]
    same = []
    for make, call in chosen:
        made = make(call, image)
        assert made.dtype == np.uint8 and made.ndim == 3 and made.shape[2] == 3, call
        if np.array_equal(made, image):
            same.append(call)
    assert len(same) <= 1, same  # at most one policy may have drawn "change nothing"


def test_headers_become_paragraphs_and_code(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(ROOT / "site"))
    spec = importlib.util.spec_from_file_location("stoker_make_site", ROOT / "site/make_site.py")
    site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site)
    for header in sorted((ROOT / "include/stoker").glob("*.h")):
        blocks = site._blocks(header.read_text())
        code = "\n".join(block for block in blocks if block.startswith("```c"))
        assert code.count("{") == code.count("}"), (header.name, "a brace of C++ is left")
        assert "`" not in "".join(block.strip("`") for block in blocks if not block.startswith("```c")), header.name
    watch = "".join(site._blocks((ROOT / "include/stoker/watch.h").read_text()))
    assert "<code>stoker top</code>" in watch and re.search(r'<pre>  \[\{"pid"[^<]*\n[^<]*</pre>', watch)


def test_every_page_of_doc_is_in_the_menu():
    text = (ROOT / "site/make_site.py").read_text()
    menu = set(re.findall(r'"([a-z-]+)"', text.split("GUIDES = {")[1].split("}")[0]))
    assert {path.stem for path in (ROOT / "doc").glob("*.md")} <= menu


@pytest.fixture(scope="module")
def samples(gallery):
    sys.modules["gallery"] = gallery
    spec = importlib.util.spec_from_file_location("stoker_gallery_samples", ROOT / "site/gallery_samples.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["gallery"]


def test_boxes_and_pipelines_are_drawn(samples):
    draw = random.Random(SEED)
    for call in draw.sample(samples.LOADER, 3):
        picture = samples.of_loader(call)
        assert (picture == (255, 64, 64)).all(2).any(), call  # the outline of a box
    picture = samples.of_structured(draw.choice(samples.STRUCTURED))
    assert (picture == (255, 64, 64)).all(2).any()
    for title, program in samples.PIPELINES.items():
        assert "level 0" in samples.of_program(program).svg, title
