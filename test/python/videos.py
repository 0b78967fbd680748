# SPDX-License-Identifier: Apache-2.0
"""Videos that ffmpeg makes for tests, and their frames as FFmpeg decodes them, converted by the rule of src/media/convert.h."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import stoker

SOURCE = "testsrc2=size=176x144:rate=25:duration={}"
H264 = "-c:v libx264 -preset fast -bf 2 -g 12"
X265 = "-c:v libx265 -preset ultrafast -x265-params log-level=error:bframes=3:keyint=12"
# name of the file: (seconds, arguments of ffmpeg)
KINDS = {
    "h264.mp4": (2, H264),
    "h264_open.mp4": (2, "-c:v libx264 -bf 3 -x264-params open-gop=1:keyint=12:min-keyint=12:scenecut=0"),
    "hevc_open.mp4": (2, X265 + ":open-gop=1"),
    "hevc10.mkv": (1, "-pix_fmt yuv420p10le " + X265),
    "vp9.webm": (1, "-c:v libvpx-vp9 -g 12 -deadline realtime -cpu-used 8"),
    "vp8_hidden.webm": (1, "-c:v libvpx -auto-alt-ref 1 -lag-in-frames 16 -g 12 -deadline realtime -cpu-used 8"),
    "av1.mp4": (1, "-c:v libsvtav1 -preset 12 -g 12"),
    "h264.ts": (2, H264),
    "annex_b.h264": (2, H264),
    "annex_b.hevc": (1, X265),
    "mpeg4.avi": (2, "-c:v mpeg4 -g 12 -bf 2"),
    "mpeg4.mp4": (1, "-c:v mpeg4 -g 12 -bf 2"),
    "h264.avi": (2, H264),
    "mjpeg.avi": (1, "-c:v mjpeg -q:v 3"),
    "vfr.mp4": (3, "-vf select='not(mod(n\\,3))+gt(n\\,40)' -vsync vfr " + H264),
    "odd444.mp4": (1, "-vf scale=175:143 -pix_fmt yuv444p -c:v libx264 -g 12"),
    "odd420.mkv": (1, "-vf scale=175:143 -pix_fmt yuv420p -c:v libvpx-vp9 -g 12 -deadline realtime -cpu-used 8"),
    "422_10.mp4": (1, "-pix_fmt yuv422p10le -c:v libx264 -g 12"),
    "full709.mp4": (1, "-pix_fmt yuvj420p -colorspace bt709 " + H264),
    "rgb.mkv": (1, "-c:v libx264rgb -pix_fmt rgb24 -g 12"),
    "gray.mp4": (1, "-pix_fmt gray -c:v libx264 -g 12"),
    "gray.mkv": (1, "-pix_fmt gray -c:v ffv1"),
    "h263.3gp": (1, "-c:v h263 -g 12"),
    "h264_small.mp4": (1, "-vf scale=128:96 " + H264),
    "hevc444.mp4": (1, "-pix_fmt yuv444p " + X265),
    "mpeg2.ts": (1, "-c:v mpeg2video -g 12 -bf 2 -q:v 4"),
    "sound.mp4": (2, "-f lavfi -i sine=duration=2 -c:a aac " + H264),
}
# name of the file: (file to copy from, arguments of ffmpeg); made without encoding
COPIES = {
    "edit.mp4": ("h264.mp4", "-ss 0.6 -i {} -c copy"),
    "rotated.mp4": ("h264.mp4", "-i {} -c copy -metadata:s:v rotate=90"),
    "rotated180.mp4": ("h264.mp4", "-i {} -c copy -metadata:s:v rotate=180"),
    "fragments.mp4": ("h264.mp4", "-i {} -c copy -movflags frag_keyframe+empty_moov"),
    "front.mp4": ("h264.mp4", "-i {} -c copy -movflags faststart"),
    "colours_disagree.mp4": ("h264.mp4", "-i {} -c copy -colorspace bt709 -color_primaries bt709 -color_trc bt709 -movflags +write_colr"),
    "late.mkv": ("h264.mp4", "-itsoffset 5 -i {} -c copy"),
}
NAMES = [*KINDS, *COPIES]
# Folder of ready-made videos, for machines without ffmpeg.
READY = Path(os.environ["STOKER_TEST_VIDEOS"]) if os.environ.get("STOKER_TEST_VIDEOS") else None

_FORMATS = {
    "yuv420p": (8, 1, 1),
    "yuv444p": (8, 0, 0),
    "yuv422p10le": (10, 1, 0),
    "yuv420p10le": (10, 1, 1),
    "gray": (8, 0, 0),
    "gbrp": (8, 0, 0),
}
_WEIGHTS = {"bt709": (0.2126, 0.0722), "bt2020nc": (0.2627, 0.0593)}


def can_decode() -> bool:
    """Returns whether the videos can be made or are ready, and this build has video."""
    if not all(map(shutil.which, ("ffmpeg", "ffprobe"))) and not READY:
        return False
    try:
        stoker.VideoDecoder(b"")
    except stoker.StokerError as e:
        return "has no video" not in str(e) and "needs FFmpeg" not in str(e)
    return True


needs_video = pytest.mark.skipif(not can_decode(), reason="needs the programs ffmpeg and ffprobe, and a build with video")


def ffmpeg(*arguments: object) -> bytes:
    words = [w for a in arguments for w in (a.split() if isinstance(a, str) else [str(a)])]
    done = subprocess.run(["ffmpeg", "-y", "-nostdin", "-v", "error", *words], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def make(folder: Path, name: str) -> Path:
    """Returns the path of the video with this name, and makes the video at its first use."""
    path = folder / name
    if path.exists():
        return path
    if name.startswith("damaged_"):
        damage(make(folder, name.removeprefix("damaged_")), path)
    elif name in COPIES:
        origin, arguments = COPIES[name]
        ffmpeg(arguments.format(make(folder, origin)), path)
    else:
        seconds, arguments = KINDS[name]
        ffmpeg("-f lavfi -i", SOURCE.format(seconds), arguments, path)
    return path


def damage(path: Path, to: Path, frame: int = 14) -> None:
    """Copies a video, and sets the second half of a frame's packet to zeros."""
    words = ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pts,pos,size", "-of", "json", str(path)]
    packets = json.loads(subprocess.run(words, capture_output=True, check=True, timeout=60).stdout)["packets"]
    packet = sorted(packets, key=lambda p: int(p["pts"]))[frame]
    data, at, size = bytearray(path.read_bytes()), int(packet["pos"]), int(packet["size"])
    data[at + size // 2 : at + size] = bytes(size - size // 2)
    to.write_bytes(data)


def probe(path: Path) -> dict:
    entries = "stream=pix_fmt,width,height,color_space,color_range:stream_side_data=rotation"
    words = ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", entries, "-of", "json", str(path)]
    return json.loads(subprocess.run(words, capture_output=True, check=True, timeout=60).stdout)["streams"][0]


def _to_rgb(frame: np.ndarray, facts: dict) -> np.ndarray:
    w, h, name = facts["width"], facts["height"], facts["pix_fmt"]
    full = name.startswith("yuvj") or facts.get("color_range") == "pc" or (name == "gray" and facts.get("color_range") != "tv")
    bits, sx, sy = _FORMATS[name.replace("yuvj", "yuv")]
    cw, ch = -(-w // (1 << sx)), -(-h // (1 << sy))
    planes = (
        np.split(frame.astype(np.int64), np.cumsum([w * h, cw * ch][: 2 if name != "gray" else 0]))
        if name != "gray"
        else [frame.astype(np.int64)]
    )
    if name == "gbrp":
        g, b, r = (p.reshape(h, w) for p in planes)
        return np.stack([r, g, b], -1).astype(np.uint8)
    red, blue = _WEIGHTS.get(facts.get("color_space", ""), (0.299, 0.114))
    green = 1 - red - blue
    y_scale, c_scale = (1, 1) if full else (255 / 219, 255 / 224)

    def fixed(v: float) -> int:
        return int(np.rint(v * 65536))

    s = 16 + bits - 8
    y = fixed(y_scale) * (planes[0].reshape(h, w) - (0 if full else 16 << (bits - 8))) + (1 << (s - 1))
    if name == "gray":
        return np.repeat(np.clip(y >> s, 0, 255).astype(np.uint8)[..., None], 3, -1)
    u, v = (p.reshape(ch, cw).repeat(1 << sx, 1)[:, :w].repeat(1 << sy, 0)[:h] - (128 << (bits - 8)) for p in planes[1:])
    r = y + fixed(c_scale * 2 * (1 - red)) * v
    g = y - fixed(c_scale * 2 * (1 - blue) * blue / green) * u - fixed(c_scale * 2 * (1 - red) * red / green) * v
    b = y + fixed(c_scale * 2 * (1 - blue)) * u
    return np.clip(np.stack([r, g, b], -1) >> s, 0, 255).astype(np.uint8)


def frames(path: Path) -> np.ndarray:
    """Returns all frames of a video as RGB (N, H, W, 3). FFmpeg decodes them, and this function converts their planes."""
    facts = probe(path)
    bits, sx, sy = _FORMATS[facts["pix_fmt"].replace("yuvj", "yuv")]
    w, h = facts["width"], facts["height"]
    size = w * h * (1 if facts["pix_fmt"] == "gray" else 3) if not sx and not sy else w * h + 2 * -(-w // (1 << sx)) * -(-h // (1 << sy))
    data = ffmpeg("-noautorotate -i", path, "-map 0:v:0 -vsync passthrough -f rawvideo -pix_fmt", facts["pix_fmt"], "-")
    planes = np.frombuffer(data, "<u2" if bits > 8 else np.uint8).reshape(-1, size)
    rgb = np.stack([_to_rgb(p, facts) for p in planes])
    turned = next((s["rotation"] for s in facts.get("side_data_list", ()) if "rotation" in s), 0)
    return np.ascontiguousarray(np.rot90(rgb, turned // 90, axes=(1, 2)))


def times(path: Path) -> list[float]:
    """Returns the time in seconds at which each frame begins, as FFmpeg reports it."""
    words = ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "frame=pts_time", "-of", "csv=p=0", str(path)]
    return [float(t.strip(",")) for t in subprocess.run(words, capture_output=True, check=True, timeout=60, text=True).stdout.split()]


def packet_times(path: Path) -> list[float | None]:
    """Returns the time of presentation in seconds that FFmpeg reports for each packet, or None."""
    words = ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pts_time", "-of", "csv=p=0", str(path)]
    lines = subprocess.run(words, capture_output=True, check=True, timeout=60, text=True).stdout.split()
    return [None if "N/A" in t else float(t.strip(",")) for t in lines]
