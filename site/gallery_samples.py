# SPDX-License-Identifier: Apache-2.0
"""Makes two pages of the gallery: samples whose boxes follow their image, and pipelines as diagrams."""

from __future__ import annotations

import html
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import stoker
from gallery import figure, photograph
from PIL import Image
from stoker import transforms as T
from stoker.structured.inputs import DataProvider, ShuffledShardedInputCallable
from stoker.structured.pipeline import DALIStructuredOutputIterator, PipelineDefinition, SampleDataGroup
from stoker.structured.processing_steps import AffineTransformer

BOXES = np.float32([[48, 50, 104, 108], [192, 66, 250, 112], [112, 95, 178, 198]])  # the cat's eyes and nose: left, top, right, bottom

# Transforms that are shown in a Loader with fields={"image": "Image", "boxes": "BoundingBoxes"}.
LOADER = [
    "T.Resize((120, 280))",
    "T.CenterCrop((160, 200))",
    "T.RandomHorizontalFlip(1.0)",
    "T.RandomResizedCrop(160, scale=(0.4, 0.6))",
    "T.RandomRotation((-15, -15), expand=True)",
    "T.RandomAffine(0, shear=(20, 20))",
    "T.RandomPerspective(0.4, p=1.0)",
    "T.RandomZoomOut(fill=(60, 60, 60), p=1.0)",
    "T.RandomIoUCrop()",
]

# Steps of stoker.structured that are shown.
STRUCTURED = [
    "A((150, 400), A.ResizingMode.STRETCH, None, 'image', bbox_field_names='boxes')",
    "A((200, 300), A.ResizingMode.CROP, A.ResizingAnchor.CENTER, 'image', bbox_field_names='boxes',"
    " transformation_steps=[A.UniformScaling(1.0, 1.4, 1.4)])",
    "A((200, 300), A.ResizingMode.CROP, A.ResizingAnchor.CENTER, 'image', bbox_field_names='boxes',"
    " transformation_steps=[A.NonUniformScaling(1.0, (1.3, 0.8))])",
]

# Programs whose pipelines are drawn. FOLDER holds photographs, a folder for each class.
PIPELINES = {
    "Training on photographs": """
        with Pipeline(256, 2, None) as pipe:
            files, labels = fn.readers.file(file_root=FOLDER, random_shuffle=True)
            images = fn.decoders.image_random_crop(files)
            images = fn.resize(images, size=[224, 224])
            flip = fn.random.coin_flip(probability=0.5)
            images = fn.crop_mirror_normalize(images, mirror=flip, mean=[124.0, 117.0, 104.0], std=[58.0, 57.0, 57.0])
            pipe.set_outputs(images, labels)
    """,
    "The same, by a Loader": """
        loader = Loader(FOLDER, 1, transforms=[T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor()])
        pipe = loader.pipeline
    """,
    "A branch for some samples": """
        @pipeline_def(batch_size=256, num_threads=2, device_id=None, enable_conditionals=True)
        def definition():
            files, _ = fn.readers.file(file_root=FOLDER)
            images = fn.resize(fn.decoders.image(files), size=[224, 224])
            if fn.random.coin_flip(probability=0.3, dtype=types.BOOL):
                images = fn.rotate(images, angle=10.0, keep_size=True)
            return images
        pipe = definition()
    """,
    "A function in Python, and padding to the largest image of a batch": """
        with Pipeline(256, 2, None) as pipe:
            files, _ = fn.readers.file(file_root=FOLDER)
            images = fn.python_function(fn.decoders.image(files), function=lambda image: image[::2])
            pipe.set_outputs(fn.pad(images))
    """,
}


class _Sample(DataProvider):
    """One photograph with its boxes."""

    @property
    def sample_data_structure(self) -> SampleDataGroup:
        sample = SampleDataGroup()
        sample.add_data_field("image", stoker.types.UINT8)
        sample.add_data_field("boxes", stoker.types.FLOAT)
        return sample

    def get_number_of_samples(self) -> int:
        return 1

    def get_data(self, sample_index: int) -> SampleDataGroup:
        sample = self.sample_data_structure
        sample["image"] = photograph()
        sample["boxes"] = BOXES
        return sample


def of_loader(call: str) -> np.ndarray:
    """Returns the picture of a sample with its boxes after a transform."""

    class Samples:
        def __len__(self) -> int:
            return 1

        def __getitem__(self, i: int) -> dict[str, Any]:
            return {"image": photograph(), "boxes": BOXES}

    with stoker.Loader(
        Samples(), 1, seed=7, dtype="uint8", fields={"image": "Image", "boxes": "BoundingBoxes"}, transforms=[eval(call, {"T": T})]
    ) as loader:
        return stoker.view(next(iter(loader)), columns=1).pixels


def of_structured(step: str) -> np.ndarray:
    """Returns the picture of a sample with its boxes after a step of stoker.structured."""
    order = ShuffledShardedInputCallable(_Sample(), batch_size=1, shuffle=False)
    made = eval(step, {"A": AffineTransformer})
    definition = PipelineDefinition(order, [made])
    pipe = definition.get_dali_pipeline(batch_size=1, num_threads=1, device_id=None, seed=1)
    train = DALIStructuredOutputIterator(order.length, pipe, definition.check_and_get_output_data_structure())
    return stoker.view(next(iter(train)), columns=1).pixels


def of_program(program: str) -> Any:
    """Returns the drawing of the pipeline that a program makes."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cat").mkdir()
        Image.fromarray(photograph()).save(Path(folder) / "cat" / "0.jpg")
        names = {name: getattr(stoker, name) for name in ("Loader", "Pipeline", "fn", "pipeline_def", "types")}
        found: dict[str, Any] = {**names, "T": T, "FOLDER": folder}
        source = Path(folder) / "program.py"  # a file, since stoker rewrites conditionals from the program's source text
        source.write_text(textwrap.dedent(program))
        exec(compile(source.read_text(), str(source), "exec"), found)
        pipe = found["pipe"]
        pipe.build()
        drawing = stoker.view(pipe)
        pipe.close()
        return drawing


def pages(out: Path) -> None:
    """Writes pictures into out/_static/gallery, and out/gallery-samples.md and out/gallery-pipelines.md."""
    lines = ["# Boxes that follow their image", "", "A sample with three boxes, and what each call makes of image and boxes."]
    lines += ["Pictures are those of `stoker.view(batch)`.", ""]
    stoker.view(photograph()[None], boxes=[BOXES]).save(out / "_static/gallery/sample.png")
    lines += ["```{raw} html", '<div class="gallery">', figure("sample.png", "the sample"), "</div>", "```", ""]
    parts = [
        ('Loader(..., fields={"image": "Image", "boxes": "BoundingBoxes"}, transforms=[...])', "loader", LOADER, of_loader),
        ("stoker.structured (`A` is `AffineTransformer`)", "structured", STRUCTURED, of_structured),
    ]
    for title, name, calls, make in parts:
        lines += [f"## {title}" if name == "structured" else f"## `{title}`", "", "```{raw} html", '<div class="gallery">']
        for i, call in enumerate(calls):
            file = f"samples-{name}-{i}.png"
            Image.fromarray(make(call)).save(out / "_static/gallery" / file)
            lines.append(figure(file, call))
        lines += ["</div>", "```", ""]
    (out / "gallery-samples.md").write_text("\n".join(lines))
    lines = ["# Pipelines as drawings", ""]
    lines += [
        "`stoker.view(pipeline)` draws what `pipeline.explain()` says: a chain is what one worker does for one sample in one go, a pass is one"
    ]
    lines += [
        "trip over the image, and a level ends where an operator needs the whole batch. `save()` writes the drawing as SVG; notebooks show it.",
        "",
    ]
    lines += ["Yellow boxes read, blue ones run on the cores, green ones on the GPU, and violet ones in Python.", ""]
    for title, program in PIPELINES.items():
        lines += [f"## {title}", "", "```python", textwrap.dedent(program).strip(), "```", ""]
        svg = "\n".join(line for line in of_program(program).svg.splitlines() if line)
        lines += ["```{raw} html", f'<div class="drawing" role="img" aria-label="{html.escape(title)}">', svg, "</div>", "```", ""]
    (out / "gallery-pipelines.md").write_text("\n".join(lines))
