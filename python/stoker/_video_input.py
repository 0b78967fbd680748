# SPDX-License-Identifier: Apache-2.0
"""experimental.inputs.video: makes sequences of frames from videos that the user feeds."""

from __future__ import annotations

from typing import Any

from stoker import _core, _docs
from stoker._arrays import wait_for
from stoker._build import current_builder
from stoker._catalog import find
from stoker._operator import call
from stoker._sources import FedSource
from stoker._values import ValueKind
from stoker._where import users_line
from stoker.data_node import DataNode, call_operator
from stoker.errors import ArgumentError, InvalidArgumentError, UnknownArgumentError

NAME = "experimental.inputs.video"
_POLICIES = {"partial": "none", "pad": "constant"}  # from last_sequence_policy to the argument pad_mode of decoders.video
_WITHOUT_EFFECT = ("affine", "no_copy")


class VideoSource(FedSource):
    """Receives whole videos by feed_input. Returns batches of two outputs: for each sequence, the video's bytes and the number of its first frame."""

    def __init__(self, sequence_length: int, blocking: bool) -> None:
        self.sequence_length = sequence_length
        super().__init__(blocking=blocking, outputs=2, single=False, layouts=("", ""), dtypes=(None, None), copy=False)

    def feed(self, data: Any, limit: int, layout: str | None = None, stream: Any = None) -> None:
        """Queues all batches of one video, each of at most `limit` sequences. Raises InvalidArgumentError for several videos."""
        import numpy as np  # importing stoker does not import NumPy

        wait_for(stream, data)
        (sample,) = self._samples(_one_video(data), 1, None)
        video = bytes(sample)
        frames = _core.Video(None, video, None, 0, None, -1, True).info()["frames"]
        firsts = range(0, frames, self.sequence_length)
        for k in range(0, len(firsts), limit):
            batch = firsts[k : k + limit]
            self._put(([[video] * len(batch), [np.array(first) for first in batch]], ("", "")))


def _one_video(data: Any) -> Any:
    """Returns the data as a list of one sample. Raises InvalidArgumentError for several samples."""
    if isinstance(data, (bytes, bytearray, memoryview)) or getattr(data, "ndim", 0) == 1:
        return [data]
    if len(data) != 1:
        raise InvalidArgumentError(f"feed_input: {NAME} takes one video in each call, not {len(data)}: call feed_input once for each")
    return [data[0]]


def check(kwargs: dict[str, Any]) -> None:
    """Raises an error for arguments that video_input does not accept."""
    known = {"sequence_length", "last_sequence_policy", "blocking", *_WITHOUT_EFFECT} | _docs.COMMON.keys()
    if unknown := sorted(kwargs.keys() - known):
        raise UnknownArgumentError(f"{NAME} at {users_line()}: there is no argument '{unknown[0]}'; it takes {', '.join(sorted(known))}")
    length, policy = kwargs.get("sequence_length", 1), kwargs.get("last_sequence_policy", "partial")
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise InvalidArgumentError(f"{NAME} at {users_line()}: sequence_length is a number of frames, at least 1, not {length!r}")
    if policy not in _POLICIES:
        raise InvalidArgumentError(f"{NAME} at {users_line()}: last_sequence_policy is 'partial' or 'pad', not {policy!r}")
    if kwargs.get("device") not in (None, "cpu", "mixed"):
        raise InvalidArgumentError(f"{NAME} at {users_line()}: device is 'cpu' or 'mixed', not {kwargs['device']!r}")


def video_input(*inputs: Any, **kwargs: Any) -> DataNode:
    """Cuts videos that the user feeds into sequences.

    Pipeline.feed_input(name, video) passes in the bytes of one video. Each run then returns as many sequences of the video as the batch size; the last batch of
    a video may have fewer. If another video was fed meanwhile, its sequences follow.

    sequence_length: number of frames in a sequence. last_sequence_policy: "partial" gives a last sequence of the frames that are left, "pad" adds black
    frames. blocking: a run waits until another thread feeds a video. device: "cpu", or "mixed" for the GPU's video decoder.

    Outputs sequences of frames, uint8 of layout FHWC, in RGB. Sequences are decoded on all threads of the pipeline. Without effect: affine, no_copy.
    """
    check(kwargs)
    if inputs:
        raise ArgumentError(f"{NAME} at {users_line()}: takes 0 inputs, {len(inputs)} were given (arguments go by name)")
    if "sequence_length" not in kwargs:
        raise ArgumentError(f"{NAME} at {users_line()}: sequence_length is missing: the number of frames in a sequence")
    builder, decoder, name = current_builder(), find("decoders.video"), kwargs.get("name")
    assert decoder is not None
    length = int(kwargs["sequence_length"])
    source = VideoSource(length, bool(kwargs.get("blocking")))
    video, first = call_operator(
        "external_source", [], [("num_outputs", int(ValueKind.INT), 2), ("ndim", int(ValueKind.INTS), [1, 0])], name
    )
    source.title = f"{NAME} at {users_line()}"
    source.uploads = False
    builder.add_source(video.ref.op, name, source)
    arguments = {"start_frame": first, "sequence_length": length, "pad_mode": _POLICIES[kwargs.get("last_sequence_policy", "partial")]}
    made = call(decoder, (video,), arguments | ({"device": kwargs["device"]} if kwargs.get("device") else {}))
    assert isinstance(made, DataNode)
    return made
