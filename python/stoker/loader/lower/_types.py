# SPDX-License-Identifier: Apache-2.0
"""Rules of the transforms that set the type, normalize, call the user's function, or mix the images of a batch."""

from __future__ import annotations

from dataclasses import replace

from stoker import transforms as T
from stoker import types
from stoker.errors import InvalidArgumentError, UnsupportedError
from stoker.loader._kinds import BOXES, MASK, POINTS
from stoker.loader.lower._functions import call, name_of
from stoker.loader.lower._rules import FLOATS, Gate, Image, Parts, Rule, rule_for
from stoker.loader.lower._tail import Normalized, Tail
from stoker.loader.lower._views import Views, views_of


@rule_for(T.PILToTensor, of_subclasses=True, gives_tensor=True)
class _ToBytes(Rule):
    def add_to(self, parts: Parts) -> None:
        parts.dtype = types.UINT8
        parts.image_kind = "Image" if isinstance(self.t, T.ToImage) else "Tensor"


@rule_for(T.ToDtype, of_subclasses=True)
class _ToDtype(Rule):
    def add_to(self, parts: Parts) -> None:
        t = self.t
        if not parts.pure:
            parts.dtypes |= {kind: to for kind in (MASK, BOXES, POINTS) if (to := T.dtype_for(t.dtype, kind)) is not None}
        dtype = T.dtype_for(t.dtype, "Tensor" if parts.image_kind == "Tensor" else "Image")
        if T.dtype_for(t.dtype, "Video") != dtype:
            parts.images_only = t
        if parts.image_kind == "PIL" and isinstance(t.dtype, dict) and t.dtype.get("Tensor", t.dtype.get("others")) != dtype:
            parts.note_other_for_tensors(t)
        if dtype is None:
            parts.leaves = t
            return
        from_float = parts.dtype in FLOATS
        if dtype not in (*FLOATS, types.UINT8):
            raise InvalidArgumentError(f"{t!r}: images are float32, float16, bfloat16 or uint8")
        if dtype == types.UINT8 and from_float and t.scale != parts.unit:
            raise InvalidArgumentError(f"{t!r} would cut values on the scale 0..1 to whole numbers: use scale=True")
        if not from_float:
            parts.unit = t.scale or dtype == types.UINT8
        parts.dtype = types.DALIDataType(dtype)


@rule_for(T.ToPureTensor, takes_floats=True, takes_clips=True, keeps_places=True, does_nothing=True)
class _ToPureTensor(Rule):
    def lowered(self, image: Image, gate: Gate) -> Image:
        return image

    def add_to(self, parts: Parts) -> None:
        if parts.image_kind == "Image":
            parts.image_kind = "Tensor"
        parts.pure = True


@rule_for(T.ToTensor, gives_tensor=True)
class _ToTensor(_ToDtype):
    def add_to(self, parts: Parts) -> None:
        super().add_to(parts)
        parts.image_kind = "Tensor"


@rule_for(T.Normalize, of_subclasses=True)
class _Normalize(Rule):
    def add_to(self, parts: Parts) -> None:
        if parts.normalize is not None:
            raise InvalidArgumentError("two Normalize in one list of transforms: put them into one")
        if parts.dtype == types.UINT8:
            raise InvalidArgumentError("Normalize comes while the images are uint8: put ToDtype(torch.float32, scale=True) before it")
        if any(e.noise for e in parts.erasings):
            raise InvalidArgumentError(
                f"Normalize comes after {parts.erasings[0]!r}: put it before that one, as torchvision's references do"
            )
        if parts.unit and not parts.floats and any(abs(m) > 3 for m in self.t.mean):
            raise InvalidArgumentError(
                f"Normalize: mean {self.t.mean} is on the scale 0..255; here it is 0..1, as in torchvision: divide mean and std by 255. Images of floats of "
                "another scale are declared: fields={'image': 'FloatMap', ...}"
            )
        parts.normalize = self.t

    def begins_tail(self, parts: Parts) -> bool:
        return parts.normalize is None and parts.dtype != types.UINT8 and any(e.noise for e in parts.erasings)

    def tail(self) -> Tail:
        own = hasattr(self.t, "_own")
        return super().tail() if own else Tail(Normalized(self.t.mean, self.t.std), "Normalize")


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@rule_for(T.Lambda, of_subclasses=True, knows_size=False, calls_function=True)
class _Lambda(Rule):
    def lowered(self, image: Image, gate: Gate) -> Image:
        if image.followers is not None:
            raise UnsupportedError(
                f"{self.t!r}: masks, boxes, points and further images cannot follow a function: do it in the Dataset, for all of them"
            )
        made = image.moved(call(image.node, self.t, gate), None)
        made.channels = None
        return made

    def stand_after(self, parts: Parts) -> None:
        super().stand_after(parts)
        classes = self.t._classes
        if classes == (object,):
            return
        import torch
        from PIL import Image as pil
        from torchvision import tv_tensors

        kind = {"PIL": pil.Image, "Image": tv_tensors.Image, "Tensor": torch.Tensor}[parts.image_kind]
        if not issubclass(kind, classes):
            wanted, found = ", ".join(map(_full_name, classes)), _full_name(kind)
            tensors = " (if the data set gives tensors, put ToImage() before it)" if parts.image_kind == "PIL" else ""
            raise InvalidArgumentError(
                f"Lambda({name_of(self.t.lambd)}, {wanted}): a Loader calls functions only for images, and at this place, torchvision does not call this one for "
                f"an image, which is a {found}{tensors}: leave out the Lambda or its types, or do its work in the Dataset"
            )
        if parts.image_kind == "PIL":
            if not issubclass(torch.Tensor, classes):
                parts.note_other_for_tensors(self.t)
            if not issubclass(tv_tensors.Image, classes):
                parts.other_for.setdefault("Image", self.t)

    def add_to(self, parts: Parts) -> None:
        if parts.steps and parts.steps[-1].images > 1:
            raise InvalidArgumentError(f"{self.t!r} comes after {parts.steps[-1].t!r}: leave it out, the crops come as a list: batch.image")
        super().add_to(parts)

    def tail(self) -> Tail:
        name = name_of(self.t.lambd)
        if self.t._classes == (object,):
            return Tail(self.t.lambd, name)
        return replace(super().tail(), name=name)  # torchvision's own, which looks at the type that a function before it has returned

    def views(self, dtype: types.DALIDataType | None) -> Views | None:
        return views_of(self.t, dtype)


@rule_for(T.Mixing, of_subclasses=True)
class _Mixing(Rule):
    def add_to(self, parts: Parts) -> None:
        raise InvalidArgumentError(f"{self.t!r} changes a batch, and not one image: give batch_transforms=[{type(self.t).__name__}(...)]")
