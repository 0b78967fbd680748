# SPDX-License-Identifier: Apache-2.0
"""Type checkers, and therefore editors, know the types of nodes, batches and arguments in a program. mypy reads a stub in place of torch, to save time."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import stoker

PACKAGE = Path(stoker.__file__).parent.parent
TORCH = {
    "torch/__init__.pyi": """
        from typing import Any
        class Tensor:
            shape: tuple[int, ...]
            def mean(self) -> Tensor: ...
        class dtype: ...
        class memory_format: ...
        float16: dtype
        def __getattr__(name: str) -> Any: ...
    """,
    "torch/utils/__init__.pyi": "",
    "torch/utils/data/__init__.pyi": """
        from typing import Any, Generic, TypeVar
        T = TypeVar("T", covariant=True)
        class DataLoader(Generic[T]):
            def __init__(self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, num_workers: int = 0) -> None: ...
            def __iter__(self) -> Any: ...
        def __getattr__(name: str) -> Any: ...
    """,
    "torch/utils/data/dataloader.pyi": "from typing import Any\ndef __getattr__(name: str) -> Any: ...",
}
GOOD = """
    from typing import Any, assert_type
    import torch
    from stoker import DataLoader, DataNode, Loader, Pipeline, fn, pipeline_def, types
    from stoker import transforms as T

    @pipeline_def(batch_size=8, num_threads=2, device_id=None)
    def images_of(folder: str) -> tuple[DataNode, DataNode]:
        files, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="reader")
        images = fn.decoders.image_random_crop(files, device="cpu", output_type=types.RGB)
        images = fn.resize(images, size=[224, 224], interp_type=types.INTERP_LINEAR)
        assert_type(images, DataNode)
        resized, sizes = fn.resize(images, resize_shorter=256, save_attrs=True)
        boxes = fn.random_bbox_crop(sizes)
        assert_type(boxes, list[DataNode])
        flip = fn.random.coin_flip(probability=0.5)
        assert_type(flip == 1, DataNode)
        images = fn.crop_mirror_normalize(resized, mirror=flip, mean=[127.0], std=[64.0], dtype=types.FLOAT, output_layout="CHW")
        assert_type(images[:, 0] * 2 + 1, DataNode)
        return images, labels.gpu()

    pipe = images_of("data/train")
    assert_type(pipe, Pipeline)
    for output in pipe.run():
        print(output.at(0), output.layout(), len(output))

    loader = Loader("data/train", 32, shuffle=True, transforms=[T.Resize(256), T.CenterCrop(224)], on_error="skip")
    for images, labels in loader:
        print(images.mean(), labels)
    for batch in loader:
        assert_type(batch.image, torch.Tensor)
        assert_type(batch.path, list[str])
        print(batch.image.shape, batch.label, batch.boxes, batch._asdict())
    loader.load_state_dict(loader.state_dict())
    loader.show(8).save("sheet.png")

    train: DataLoader[Any] = DataLoader([1, 2], batch_size=4, num_workers=2)
    for x, y in train:
        print(x.shape, y.shape)
    print(train.explain())
"""
BAD = """
    from stoker import Loader, fn
    from stoker import transforms as T

    T.Resize("large")                                # Resize
    fn.resize([1], sze=3)                            # sze
    fn.resize([1], size="big")                       # resize
    fn.readers.file(file_root=3)                     # file_root
    (fn.random.coin_flip() + 1).gpuu()               # gpuu
    Loader("data", 3, on_error=4)                    # on_error
    Loader("data", 3, shufle=True)                   # shufle
    Loader("data", 3).shw()                          # shw
    for batch in Loader("data", 3):
        batch.image.mena()                           # mena
"""


@pytest.fixture
def folder(tmp_path):
    for name, text in {**TORCH, "good.py": GOOD, "bad.py": BAD}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    return tmp_path


def faults_of(output, name):
    return {int(line) for line in re.findall(rf"{name}:(\d+)(?::\d+)?:? (?:- )?error", output)}


def wrong_lines():
    return {i for i, line in enumerate(textwrap.dedent(BAD).splitlines(), 1) if "  # " in line}


def test_mypy_accepts_a_program_and_finds_its_mistakes(folder):
    pytest.importorskip("mypy")
    if not (Path(stoker.__file__).parent / "fn/__init__.pyi").exists():
        pytest.skip("the package was not built with its stubs")
    options = ["--strict", "--no-site-packages", "--follow-imports=silent", "--config-file", os.devnull, "--cache-dir", "cache"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "good.py", "bad.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": str(PACKAGE)},
    )
    assert "good.py" not in done.stdout, done.stdout
    assert faults_of(done.stdout, "bad.py") >= wrong_lines(), done.stdout


def test_pyright_accepts_a_program_and_finds_its_mistakes(folder):
    program = shutil.which("pyright")
    if program is None:
        pytest.skip("pyright is not installed")
    (folder / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{PACKAGE}"], "typeCheckingMode": "standard"}}')
    done = subprocess.run([program, "good.py", "bad.py"], cwd=folder, capture_output=True, text=True)
    if "error" not in done.stdout:
        pytest.skip(f"pyright does not run here: {done.stdout[-200:]}{done.stderr[-200:]}")
    assert faults_of(done.stdout, "good.py") == set(), done.stdout
    assert faults_of(done.stdout, "bad.py") >= wrong_lines(), done.stdout
