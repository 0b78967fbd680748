# SPDX-License-Identifier: Apache-2.0
"""Runs the programs and commands of README.md, and the programs of some pages of doc/, on a small folder. test_pages.py runs the other pages."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import torch
from support import import_torchvision

ROOT = Path(__file__).resolve().parents[2]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


def small(code, tree):
    """Returns the same program for the folder `tree`, with small batches and few epochs."""
    code = re.sub(r"\"(/?data/train|train)\"", repr(str(tree)), code)
    return (
        re.sub(r"batch_size=\d+", "batch_size=4", code)
        .replace("train.epoch, 90", "train.epoch, 2")
        .replace('device="cuda"', 'device="cpu"')
    )


def run(page, tree, folder, monkeypatch, given=None):
    """Runs the page's blocks in order, in one namespace, on the small folder `tree`. Returns the arguments of each call of step(), and the names that
    the blocks have defined. given: names that exist before the first block."""
    steps = []
    names = {"step": lambda *batch: steps.append(batch), **(given or {})}
    monkeypatch.chdir(folder)
    for i, block in enumerate(blocks(page, "python")):
        exec(compile(small(block, tree), f"{page}, block {i}", "exec"), names)
    return steps, names


def test_programs_of_the_readme_run(tree, tmp_path, monkeypatch):
    import_torchvision()
    _steps, names = run("README.md", tree, tmp_path, monkeypatch)
    assert names["images"].shape[1:] == (3, 224, 224) and names["images"].dtype is torch.float32 and names["labels"].dtype is torch.int64
    assert names["train"].__class__.__name__ == "Loader"
    assert len(json.dumps(names["state"])) < 1024


def test_from_dali(tree, tmp_path, monkeypatch):
    _steps, names = run("doc/from-dali.md", tree, tmp_path, monkeypatch)
    assert names["batch"][0]["data"].shape == (1, 3, 224, 224)  # the last of 21 images, in batches of 4
    pipe = names["training"](str(tree), 0, 1)
    batches = list(names["DALIClassificationIterator"](pipe, reader_name="Reader", last_batch_policy=names["LastBatchPolicy"].PARTIAL))
    assert sum(len(b[0]["label"]) for b in batches) == 21 and batches[0][0]["data"].shape == (4, 3, 224, 224)


def test_from_torchvision(tree, tmp_path, monkeypatch):
    torchvision = import_torchvision()
    monkeypatch.setattr(torch.utils.data.DataLoader, "__init__", _without_workers(torch.utils.data.DataLoader.__init__))
    given = {"MEAN": [0.5] * 3, "STD": [0.5] * 3, "T": torchvision.transforms}
    given |= {"DataLoader": torch.utils.data.DataLoader, "ImageFolder": torchvision.datasets.ImageFolder}
    _steps, names = run("doc/from-torchvision.md", tree, tmp_path, monkeypatch, given)
    images, labels = next(iter(names["train"]))
    assert images.shape == (4, 3, 224, 224) and labels.shape == (4,) and names["train"].__class__.__name__ == "Loader"


def test_programs_of_the_audio_page_run(tree, tmp_path, monkeypatch):
    _steps, names = run("doc/audio.md", tree, tmp_path, monkeypatch)
    assert names["samples"].shape == (12000, 1) and names["mono"].shape == (12000,) and names["rate"] == 16000
    assert [type(b.audio).__name__ for b in names["ragged"]] == ["RaggedBatch"] * 2
    assert names["features"].as_array().shape == (4, 40, 51)
    first = next(b for b in blocks("doc/audio.md", "python"))
    assert len(first.splitlines()) <= 20 and {tuple(b.audio.shape) for b in names["train"]} == {(4, 8000)}


def test_programs_of_the_structured_page_run(tree, tmp_path, monkeypatch):
    _steps, names = run("doc/structured.md", tree, tmp_path, monkeypatch)
    first = next(b for b in blocks("doc/structured.md", "python"))
    assert "for batch in train" in first
    assert names["image"].shape == (4, 64, 96, 3) and names["boxes"].tensor.shape[::2] == (4, 4)
    # Right and bottom are not less than left and top, even in flipped images.
    assert (names["boxes"].tensor[..., 2:] >= names["boxes"].tensor[..., :2]).all()
    boxes, areas = names["areas"][0][0], names["areas"][2][0]
    assert boxes.shape() == [3, 4] and areas.shape() == [3]


def _without_workers(init):
    return lambda self, *args, num_workers=0, **kwargs: init(self, *args, **kwargs)


def recipes():
    """Yields (heading, block) of each recipe. The first block is code that all recipes need."""
    parts = re.split(r"^#+ (.*)\n", (ROOT / "doc/recipes.md").read_text(), flags=re.M)[1:]
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        yield from ((heading, block) for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))


def few(code):
    return re.sub(r"batch_size=\d+", "batch_size=4", code)


# Recipes that need packages which the tests do not install: heading and package.
ELSEWHERE = {"Hugging Face datasets": "datasets", "Lightning": "lightning"}


@pytest.fixture
def desk(tree, tmp_path, monkeypatch):
    """Writes the files that the recipes read, and returns their folder."""
    import numpy as np
    from PIL import Image

    (tmp_path / "data").mkdir()
    for name in ("train", "val"):
        (tmp_path / "data" / name).symlink_to(tree)
    lines = [f"data/train/class{c}/{k:03d}.jpg,{c},{20 + k / 2}" for c in range(3) for k in range(7)]
    (tmp_path / "table.csv").write_text("\n".join(["path,label,age", *lines]))
    captions = [f'data/train/class{c}/{k:03d}.jpg,"a picture, number {k}"' for c in range(3) for k in range(7)]
    (tmp_path / "captions.csv").write_text("\n".join(["filepath,caption", *captions]))
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    for k, path in enumerate(sorted(tree.glob("*/*.jpg"))[:8]):
        (tmp_path / "images" / f"{k}.jpg").write_bytes(path.read_bytes())
        width, height = Image.open(path).size
        Image.fromarray(np.full((height, width), k, np.uint8)).save(tmp_path / "masks" / f"{k}.png")
    tifffile = pytest.importorskip("tifffile")
    (tmp_path / "data" / "bands").mkdir()
    rng = np.random.default_rng(0)
    for folder in ("left", "right", "depth"):
        (tmp_path / folder).mkdir()
    for k in range(2):
        bands = rng.integers(0, 4000, (80, 90, 13)).astype(np.uint16)
        tifffile.imwrite(tmp_path / "data" / "bands" / f"{k}.tif", bands, photometric="minisblack", planarconfig="contig")
        for folder in ("left", "right"):
            Image.fromarray(rng.integers(0, 256, (240, 250, 3), np.uint8)).save(tmp_path / folder / f"{k}.png")
        Image.fromarray(rng.integers(0, 65536, (240, 250)).astype(np.uint16)).save(tmp_path / "depth" / f"{k}.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_recipes_run_in_order(desk):
    """Runs all recipes in order, and checks the variables that each one sets."""
    import_torchvision()
    names, count = {}, 0
    for heading, block in recipes():
        if heading in ELSEWHERE:
            continue
        exec(compile(few(block), f"doc/recipes.md, {heading}", "exec"), names)
        count += 1
        left = {
            "A part for validation": lambda n: len(n["part"]) + len(n["rest"]) == 21 and len(list(n["train"])) == -(-len(n["part"]) // 4),
            "Several images": lambda n: n["left"].shape == n["right"].shape == (2, 3, 224, 224) and n["depth"].max() > 255,
            "A CSV file": lambda n: n["ages"].dtype is torch.float32 and n["labels"].dtype is torch.int64,
            "Captions": lambda n: (
                n["tokens"].shape == (4, 16) and n["images"].shape == (4, 3, 224, 224) and n["tokens"][:, 0].eq(ord("a")).all()
            ),
            "torchvision's references": lambda n: (
                next(iter(n["train"]))[1].shape == (4, 3) and n["train"].pipeline.counters().get("user_calls", 0) == 0
            ),
            "Arrays": lambda n: next(iter(n["train"])).image.shape == (4, 3, 32, 32),
            "Tensors": lambda n: n["images"].shape == (4, 31, 32, 32) and n["images"].dtype is torch.float32,
            "Regression": lambda n: n["values"].dtype is torch.float32,
            "Several labels an image": lambda n: n["labels"].shape == (2, 3) and n["loss"] > 0,
            "Segmentation": lambda n: n["masks"].shape[1:] == n["images"].shape[2:] and all(len(m.unique()) == 1 for m in n["masks"]),
            "Images of their own sizes": lambda n: "sizes" not in n or n["images"].shape[2] == n["sizes"][:, 0].max(),
            "Detection": lambda n: all(t["boxes"].shape == (2, 4) and t["boxes"].max() <= 256 for t in n["targets"]),
            "Classes that are rare": lambda n: len(n["weights"]) == 21 and len(list(n["train"])) == 6,
            "k-fold": lambda n: len(list(n["val"])) == 2 and len(list(n["train"])) == 4,
            "Two views": lambda n: n["both"].shape[1:] == (3, 224, 224) and not torch.equal(n["first"], n["second"]),
            "Many crops": lambda n: n["sizes"] == [224] * 2 + [96] * 6,
            "MixUp and CutMix": lambda n: next(iter(n["train"]))[1].shape == (4, 3),
            "A transform in Python": lambda n: next(iter(n["train"])).image.shape == (4, 3, 224, 224),
            "Test-time augmentation": lambda n: n["scores"].shape[1] == 10 and torch.allclose(n["scores"].sum(1), torch.ones(())),
            "channels_last and bfloat16": lambda n: (
                n["images"].dtype is torch.bfloat16 and n["images"].is_contiguous(memory_format=torch.channels_last)
            ),
            "Several GPUs": lambda n: n["count"] == 1,
            "Going on after a crash": lambda n: len(n["rest"]) == 3,
            "Keeping outputs": lambda n: len(n["kept"]) == 6 and n["everything"].shape[0] == 21,
            "Who waits for whom": lambda n: (desk / "trace.json").stat().st_size > 100 and n["counters"]["batches_delivered"] == 6,
        }
        assert heading == "Recipes" or left[heading](names), heading
    assert count + len(ELSEWHERE) >= 23


@pytest.mark.parametrize("heading", ELSEWHERE)
def test_recipes_for_other_packages(desk, heading):
    pytest.importorskip(ELSEWHERE[heading])
    given = dict(recipes())
    names = {}
    for part in ("Recipes", heading):
        exec(compile(few(given[part]), f"doc/recipes.md, {part}", "exec"), names)
    loader = names["Data"]().train_dataloader() if "Data" in names else names["train"]
    batch = next(iter(loader))
    assert (batch["pixel_values"] if isinstance(batch, dict) else batch.image).shape == (4, 3, 224, 224)


def test_the_table_of_transforms_is_torchvisions():
    """The table lists all of torchvision's transforms, and describes each as the code does."""
    import enum
    import inspect

    from stoker import _transforms_elsewhere as elsewhere
    from stoker import transforms as T

    torchvision = import_torchvision()
    rows = dict(re.findall(r"^\| `(\w+)` \| (C|Python|no|batch) \|", (ROOT / "doc/transforms.md").read_text(), re.M))
    classes = {
        name
        for module in (torchvision.transforms, torchvision.transforms.v2)
        for name, thing in vars(module).items()
        if inspect.isclass(thing) and thing.__module__.startswith("torchvision.transforms") and not issubclass(thing, enum.Enum)
    }
    assert set(rows) >= classes - {"Transform"}, classes - set(rows)
    for name, where in rows.items():
        if where == "no":
            assert name not in T.__all__ and elsewhere.INSTEAD[name].replace("|", "\\|") in (ROOT / "doc/transforms.md").read_text()
            with pytest.raises(AttributeError, match=name):
                getattr(T, name)
        elif where == "Python":
            assert name in ("Lambda", "LinearTransformation")
        else:
            assert name in T._TRANSLATE or name == "Compose"
    with pytest.raises(AttributeError, match="did you mean 'RandomResizedCrop'"):
        T.RandomResizeCrop  # noqa: B018
    with pytest.raises(TypeError, match=r"SanitizeKeyPoints has no counterpart.*on the batch"):
        T.flatten([torchvision.transforms.v2.SanitizeKeyPoints()])


def test_the_program_of_the_losses_page_runs():
    """Runs the only block that is a whole program. The other blocks show code that it replaces, or need a package that is not installed."""
    code = next(b for b in blocks("doc/batching.md", "python") if "detection_cost(" in b)
    names = {}
    exec(compile(code, "doc/batching.md", "exec"), names)
    assert names["loss"].isfinite() and names["logits"].grad.abs().sum() > 0


def test_commands_of_the_readme_run(tree, tmp_path):
    command = Path(os.environ.get("STOKER_BUILD", "build")).resolve() / "cli" / "stoker"
    lines = [x.split("#")[0].split() for block in blocks("README.md", "sh") for x in block.splitlines() if x.startswith("stoker ")]
    lines = [x for x in lines if not any("://" in a for a in x)]  # the tests cannot reach addresses in a store
    assert {x[1] for x in lines} >= {"inspect", "bench", "view", "doctor"}
    pipeline = tmp_path / "pipeline.json"
    pipeline.write_text(_pipeline(tree))
    for line in lines:
        arguments = [{"/data/train": str(tree), "pipeline.json": str(pipeline)}.get(a, a) for a in line[1:]]
        done = subprocess.run([command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 or line[1] == "doctor", f"{line}: {done.stderr}"
        assert done.stdout, line


def _pipeline(tree):
    from stoker import fn, pipeline_def

    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def define():
        data, label = fn.readers.file(file_root=str(tree))
        return fn.resize(fn.decoders.image(data), size=(8, 8)), label

    return define().serialize().decode()


def test_figures_of_the_readme_are_those_of_the_benchmarks():
    """Looks for both numbers of each row of the README's figures in benchmarks.md, and computes their ratio again."""
    rows = re.findall(r"^\| (.+) \| (.+) \| (.+) \| (.*)\|$", (ROOT / "README.md").read_text().split("## Figures")[1].split("##")[0], re.M)[
        1:
    ]
    measured = re.sub(r"(?<=\d) (?=\d{3}\b)", "", (ROOT / "doc" / "benchmarks.md").read_text())
    assert len(rows) >= 5
    for what, *numbers, times in rows:
        values = []
        for number in numbers:
            (value,) = re.findall(r"^[\d.]+", number.replace(" ", ""))
            unit = next((u for u in ("%", " ms") if u in number), "")
            assert re.search(rf"(?<![\d.]){re.escape(value + unit)}(?![\d.]\d)", measured), f"{what}: {number}"
            values.append(float(value))
        if times.strip():
            assert min(values) and abs(max(values) / min(values) / float(times) - 1) < 0.02, f"{what}: {times}"


@pytest.mark.parametrize("page", sorted(p.name for p in (ROOT / "doc").glob("*.md")) + ["../README.md"])
def test_names_of_files_in_the_papers_exist(page):
    text = (ROOT / "doc" / page).read_text()
    for name in re.findall(r"`((?:doc|examples|bench|tools|test|src|include)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), f"{page}: {name}"
