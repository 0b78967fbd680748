# SPDX-License-Identifier: Apache-2.0
"""Lists of files at URLs with signatures: a run is resumed with URLs that were signed again. test_table_urls.py does this for tables."""

import io
import itertools
import json
import re

import numpy as np
import pytest
import sound_files
import videos
from PIL import Image
from stoker import Audio, Loader, Pipeline, fn
from stoker import transforms as T
from stoker.errors import StateError
from support import tar_of
from tables import served

SMALL = [T.Resize((8, 8))]
NAMES = [f"{'ab'[k % 2]}/{k:02}" for k in range(7)]


def jpeg(value):
    out = io.BytesIO()
    Image.fromarray(np.full((20, 20, 3), 9 * value, np.uint8)).save(out, "JPEG")
    return out.getvalue().ljust(2000, b"\0")  # each version of Pillow makes files of this size


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    rng = np.random.default_rng(1)
    for k, name in enumerate(NAMES):
        for ending, data in (
            ("jpg", jpeg(k)),
            ("wav", sound_files.pcm16(rng, 400)),
            ("tar", tar_of([("0.jpg", jpeg(k)), ("0.cls", b"1")])),
        ):
            file = folder / f"{name}.{ending}"
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(data)
    if videos.can_decode():
        for name in NAMES[:3]:
            (folder / f"{name}.mp4").write_bytes(videos.make(folder, "h264_small.mp4").read_bytes())
    with served(folder) as url:
        yield url


def signed(url, signature, ending, names=NAMES):
    """Returns URLs in the forms of two stores, whose signatures may hold slashes."""
    of_s3 = f"X-Amz-Credential=a/{signature}&X-Amz-Signature={signature}"
    of_google = f"Expires={len(signature)}&versionId=3&Signature={signature}/b"
    return [f"{url}/{name}.{ending}?{(of_s3, of_google)[k % 3 == 1]}" for k, name in enumerate(names)]


def paths(url, signature, names=NAMES):
    return Loader([(p, k) for k, p in enumerate(signed(url, signature, "jpg", names))], 2, transforms=SMALL, shuffle=True, seed=3)


def tars(url, signature, names=NAMES):
    return Loader(signed(url, signature, "tar", names), 2, transforms=SMALL)


def indexed(url, signature, names=NAMES):
    """Returns a Loader of tars whose indexes an earlier epoch has kept."""
    for _ in (loader := tars(url, signature, names)):
        pass
    loader.close()
    return Loader.from_tars(signed(url, signature, "tar", names), 2, transforms=SMALL, shuffle=True, seed=3)


def sounds(url, signature, names=NAMES):
    return Loader([(p, 0) for p in signed(url, signature, "wav", names)], 2, fields={"audio": Audio(rate=16000), "label": None})


def pipeline(url, signature, names=NAMES):
    pipe = Pipeline(4, 2, None, seed=7)
    with pipe:
        data, label = fn.readers.file(files=signed(url, signature, "jpg", names), random_shuffle=True, name="A")
        more, _ = fn.readers.file(files=signed(url, signature, "jpg", names[:5]), name="B")
        pipe.set_outputs(fn.decoders.image(data), label, fn.decoders.image(more))
    return Loader(pipe, fields=["image", "label", "more"])


def clips(url, signature, names=NAMES):
    return Loader([(p, 0) for p in signed(url, signature, "mp4", names[:3])], 1, frames=2, transforms=SMALL)


KINDS = [paths, tars, indexed, sounds, pipeline, pytest.param(clips, marks=videos.needs_video)]


@pytest.fixture(autouse=True)
def no_indexes(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def plain(batch):
    return [part.tolist() if hasattr(part, "tolist") else [p.tolist() for p in part] for part in batch]


def take(loader, count):
    return [plain(batch) for batch in itertools.islice(loader, count)]


@pytest.mark.parametrize("where", ["begin", "inside"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_resumed_with_urls_that_were_signed_again(url, kind, where):
    with kind(url, "one") as loader:
        batches = iter(loader)
        if where == "inside":
            next(batches)
        state = json.loads(json.dumps(loader.state_dict()))
        rest = take(batches, 2)
    assert rest
    with kind(url, "other/key") as loader:
        loader.load_state_dict(state)
        assert take(loader, 2) == rest
    with kind(url, "one", NAMES[::-1]) as loader, pytest.raises(StateError, match=r"other names|data set|tars"):
        loader.load_state_dict(state)


# Fingerprints in states of the version before, in which signatures counted. They are of the signature "one".
OLD = {
    "paths": ["4a43fd2ab5ec6f4d"],
    "tars": ["ea5ed925ccfd4fbf"],
    "indexed": ["c58ee8e16c96ecdd"],
    "sounds": ["c0a6f976619ece3e"],
    "pipeline": ["4a43fd2ab5ec6f4d", "046b2daead384336"],
    "clips": ["60c5fd978fbe4565"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_states_of_the_version_before_are_resumed(url, kind):
    with kind(url, "one") as loader:
        next(batches := iter(loader))
        state, rest = json.dumps(loader.state_dict()), take(batches, 2)
    prints = re.findall('(?<="fingerprint": ")[0-9a-f]{16}', state)
    for now, old in zip(prints, OLD[kind.__name__], strict=True):
        assert now != old
        state = state.replace(now, old)
    with kind(url, "one") as loader:
        loader.load_state_dict(json.loads(state))
        assert take(loader, 2) == rest
    with kind(url, "two") as loader, pytest.raises(StateError, match=r"data set|tars"):
        loader.load_state_dict(json.loads(state))
