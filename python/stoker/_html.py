# SPDX-License-Identifier: Apache-2.0
"""HTML that notebooks show for batches, Loaders and Pipelines."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from stoker import _drawing, _sheet
from stoker.errors import InvalidArgumentError, StateError

_IMAGES = 16  # the most images of a batch that are shown


def of_batch(batch: Any) -> str:
    """Returns the first images of a batch as a contact sheet, and a table of its fields."""
    import base64  # only notebooks ask for these pages
    from html import escape

    try:
        picture = base64.b64encode(_sheet.view(batch, _IMAGES)._repr_png_()).decode()
        sheet = f'<img src="data:image/png;base64,{picture}" alt="the first images of the batch">'
    except InvalidArgumentError:  # the batch holds no images
        sheet = ""
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(_form(value))}</td></tr>" for name, value in zip(batch._fields, batch, strict=True)
    )
    return f"{sheet}<table><thead><tr><th>field</th><th>values</th></tr></thead><tbody>{rows}</tbody></table>"


def _form(value: Any) -> str:
    """Returns a line about a value: dtype, shape and device of a tensor, length and first elements of a list, the repr of any other value."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        device = getattr(value, "device", None)
        return f"{value.dtype} {tuple(value.shape)}" + (f" on {device}" if device is not None and str(device) != "cpu" else "")
    if isinstance(value, (list, tuple)):
        first = ", ".join(_form(item) for item in value[:2]) + (", ..." if len(value) > 2 else "")
        return f"{len(value)} in a {type(value).__name__}: {first}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def of_pipeline(title: str, pipe: Any = None) -> str:
    """Returns the title and, for a built Pipeline, an element that can be unfolded: a drawing and a text that show how the pipeline runs."""
    from html import escape

    details = ""
    if pipe is not None:
        with suppress(StateError):  # it is closed, in use by another thread, or belongs to a parent process
            svg = _drawing.of_pipeline(pipe.explain(as_json=True), title).svg
            details = f"<details><summary>how it runs</summary>{svg}<pre>{escape(pipe.explain())}</pre></details>"
    return f"<code>{escape(title)}</code>{details}"
