# SPDX-License-Identifier: Apache-2.0
"""Files of other kinds in place of images: the message names the kind of file and the remedy. Also tests file:// URIs."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stoker
from PIL import Image
from stoker import _where, fn, pipeline_def
from stoker import transforms as T
from stoker.errors import CorruptError, StokerError, UnsupportedError
from support import tar_of


def _saved(kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (16, 16), (200, 10, 30)).save(out, kind, **options)
    return out.getvalue()


def _zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.jpg", b"pixels")
    return out.getvalue()


def _npy() -> bytes:
    out = io.BytesIO()
    np.save(out, np.zeros(3))
    return out.getvalue()


def _media(brand: str, *others: str) -> bytes:
    """Returns the start of an ISO media file with this major brand. others: its compatible brands."""
    names = b"".join(n.encode() for n in others)
    return (16 + len(names)).to_bytes(4) + b"ftyp" + brand.encode() + bytes(4) + names + b"\0\0\0\x08free"


# kind of file: (its bytes, whether they are a picture or video in a format that is not decoded, the kind's name in the message, the remedy)
FILES: dict[str, tuple[bytes, bool, str, str]] = {
    "gif": (_saved("GIF"), True, "a GIF", "convert it to PNG"),
    "heic": (_media("heic", "mif1", "heic"), True, "a HEIC", "heif-convert"),
    "heif of general brand": (_media("mif1", "heic"), True, "a HEIC", "heif-convert"),
    "avif": (_media("avif", "mif1"), True, "an AVIF", "avifdec"),
    "avif of general brand": (_media("mif1", "miaf", "avif"), True, "an AVIF", "avifdec"),
    "jpeg 2000": (b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(20), True, "a JPEG 2000", "opj_decompress"),
    "jpeg 2000 codestream": (b"\xff\x4f\xff\x51" + bytes(20), True, "a JPEG 2000", "opj_decompress"),
    "jpeg xl": (b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(20), True, "a JPEG XL", "djxl"),
    "jpeg xl codestream": (b"\xff\x0a\xfa\x1f", True, "a JPEG XL", "djxl"),
    "jpeg xr": (b"II\xbc\x01" + bytes(20), True, "a JPEG XR", "JxrDecApp"),
    "mp4": (_media("isom", "mp41"), True, "a video", "ffmpeg"),
    "mov": (_media("qt  "), True, "a video", "ffmpeg"),
    "webm": (b"\x1a\x45\xdf\xa3" + bytes(20), True, "a video", "ffmpeg"),
    "avi": (b"RIFF\0\0\0\0AVI LIST", True, "a video", "ffmpeg"),
    "pdf": (b"%PDF-1.7\n", True, "a PDF", "pdftoppm"),
    "svg": (b'<svg xmlns="http://www.w3.org/2000/svg"/>', True, "an SVG", "rsvg-convert"),
    "svg with a declaration": (b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- made by hand -->\n<svg/>', True, "an SVG", "rsvg-convert"),
    "eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n", True, "(EPS)", "gs "),
    "eps with a preview": (b"\xc5\xd0\xd3\xc6" + bytes(28), True, "(EPS)", "gs "),
    "psd": (b"8BPS\0\1" + bytes(20), True, "(PSD)", "convert it to PNG"),
    "ico": (_saved("ICO"), True, "(ICO)", "convert it to PNG"),
    "gzip": (gzip.compress(b"pixels"), False, "gzip", "gunzip"),
    "bzip2": (bz2.compress(b"pixels"), False, "bzip2", "bunzip2"),
    "xz": (lzma.compress(b"pixels"), False, "xz", "unxz"),
    "zip": (_zip(), False, "a zip", "unzip"),
    "tar": (tar_of([("a.jpg", b"")]), False, "a tar", "readers.webdataset"),
    "npy": (_npy(), False, "NumPy", "readers.numpy"),
    "html": (b"<!DOCTYPE html>\n<html><body>404</body></html>", False, "an HTML page", "download the file again"),
    "html without its type": (b"\n <HTML><HEAD></HEAD></HTML>", False, "an HTML page", "download the file again"),
    "an error of a store": (
        b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>',
        False,
        "an XML text",
        "download the file again",
    ),
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 3\n", False, "a Git LFS pointer", "git lfs pull"),
    "empty": (b"", False, "empty", "again"),
    "zeros": (bytes(4096), False, "zeros", "again"),
}


@pytest.mark.essential
@pytest.mark.parametrize("name", FILES)
def test_what_a_file_is_and_what_to_do(name: str, tmp_path: Path) -> None:
    data, picture, what, remedy = FILES[name]
    path = tmp_path / "some.jpg"
    path.write_bytes(data)
    for read in (lambda: stoker.imread(path), lambda: stoker.imdecode(data)):
        with pytest.raises(UnsupportedError if picture else CorruptError) as error:
            read()
        text = str(error.value)
        assert what in text and remedy in text and "not a JPEG, PNG" in text, text
    for size in range(min(len(data), 40)):  # the first bytes of such a file are an error too, with any message
        with pytest.raises(StokerError):
            stoker.imdecode(data[:size])


@pytest.mark.parametrize("name", ["git lfs", "html", "an error of a store", "zeros", "gzip"])
def test_other_readers_name_them_too(name: str, tmp_path: Path) -> None:
    data, _, what, remedy = FILES[name]
    path = str(tmp_path / "file")
    Path(path).write_bytes(data)
    readers: dict[str, Any] = {
        "npy": lambda: fn.readers.numpy(files=[path]),
        "json": lambda: fn.readers.coco(file_root=str(tmp_path), annotations_file=path)[0],
        "tar": lambda: fn.readers.webdataset(paths=[path], ext=["jpg"])[0],
    }
    if name in ("zeros", "gzip"):  # zeros are an empty tar, and compressed archives have a message of their own
        del readers["tar"]
    for reader in readers.values():
        with pytest.raises(StokerError) as error:
            pipe = pipeline_def(reader, batch_size=1, num_threads=1, device_id=None)()
            pipe.build()
            pipe.run()
        assert what in str(error.value) and remedy in str(error.value), str(error.value)


def test_a_folder_of_pictures_that_are_not_decoded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Loader counts .jp2 files, which DALI's readers.file accepts, and names the remedy: in its error if there are no other files, otherwise in a notice."""
    monkeypatch.setattr(_where, "_shown", set())
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.jp2").write_bytes(FILES["jpeg 2000"][0])
    with pytest.raises(
        StokerError, match=r"endings seen: \.jp2 \(1\); pictures that are called \.jp2 are not decoded: convert them to PNG or JPEG"
    ):
        stoker.Loader(tmp_path, batch_size=1, transforms=[])
    (tmp_path / "one" / "b.png").write_bytes(_saved("PNG"))
    stoker.Loader(tmp_path, batch_size=1, transforms=[])
    assert ".jp2 (1); pictures that are called .jp2 are not decoded" in capsys.readouterr().err


def test_media_are_expected_and_a_picture_is_there(tmp_path: Path) -> None:
    for kind in ("JPEG", "PNG", "TIFF", "BMP"):
        path = tmp_path / f"picture.{kind}"
        path.write_bytes(_saved(kind))
        with pytest.raises(CorruptError, match=rf"picture\.{kind}: not a sound: it is a {kind} picture, which .*stoker\.imread read"):
            stoker.audioread(path)
        with pytest.raises(
            CorruptError, match=rf"picture\.{kind}: neither a video nor a sound: it is a {kind} picture, which .*stoker\.imread read"
        ):
            stoker.VideoDecoder(path)
    for name, remedy in (("git lfs", "git lfs pull"), ("zip", "unzip"), ("gif", "it is a GIF")):
        (tmp_path / "clip").write_bytes(FILES[name][0])
        for opener in (stoker.audioread, stoker.VideoDecoder):
            with pytest.raises(StokerError, match=remedy):
                opener(tmp_path / "clip")


def test_a_file_whose_name_is_a_word_of_the_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").write_bytes(b"")
    for opener in (stoker.imread, stoker.audioread, stoker.VideoDecoder):
        with pytest.raises(CorruptError, match=r"^empty: .*copy or download it again"):
            opener("empty")
    loader = stoker.Loader(["empty"], batch_size=1, transforms=[T.Resize((8, 8))])
    with pytest.raises(CorruptError, match=r"^empty: not a JPEG.* sample 0 of epoch 0"):
        next(iter(loader))


def test_folders_and_indexes_as_file_uris(tmp_path: Path) -> None:
    """A folder as a file:// URI gives the same samples and errors as its path."""
    (tmp_path / "set" / "one").mkdir(parents=True)
    for k in range(3):
        (tmp_path / "set" / "one" / f"{k}.png").write_bytes(_saved("PNG"))
    (tmp_path / "set" / "one" / "text.png").write_bytes(b"hello")
    small = [T.Resize((8, 8))]
    plain, uri = (
        stoker.Loader(f"{scheme}{tmp_path}/set", batch_size=4, transforms=small, on_error="skip", max_errors=1)
        for scheme in ("", "file://")
    )
    assert uri.classes == plain.classes == ["one"]
    (wanted,), (got,) = list(plain), list(uri)
    assert np.array_equal(got.image, wanted.image) and len(got.label) == 3
    assert "one/text.png: not a JPEG" in str(uri.pipeline.bad_samples()[0])
    with pytest.raises(StokerError, match="a file, not a folder of class folders"):
        stoker.Loader(f"file://{tmp_path}/set/one/0.png", batch_size=1)
    with pytest.raises(StokerError, match=rf"file://{tmp_path}/none: cannot open the folder: No such file"):
        stoker.Loader(f"file://{tmp_path}/none", batch_size=1)


def test_file_uris_that_name_this_host(tmp_path: Path) -> None:
    """file://localhost/path, RFC 8089's name of a local file, works for folders, tars, globs and lists. "localhost" is not the name of a folder."""
    (tmp_path / "set" / "one").mkdir(parents=True)
    for k in range(3):
        (tmp_path / "set" / "one" / f"{k}.png").write_bytes(_saved("PNG"))
    (tmp_path / "a.tar").write_bytes(tar_of([("one/0.png", _saved("PNG")), ("one/1.png", _saved("PNG"))]))
    small = [T.Resize((8, 8))]
    for host in ("", "localhost", "LocalHost"):
        at = f"file://{host}{tmp_path}"
        for source, count in (
            (f"{at}/set", 3),
            (f"{at}/a.tar", 2),
            (f"{at}/a*.tar", 2),
            (f"{at}/{{a,a}}.tar", 4),
            ([f"{at}/set/one/0.png"], 1),
        ):
            assert sum(len(batch[0]) for batch in stoker.Loader(source, batch_size=4, transforms=small)) == count, source
        assert stoker.imread(f"{at}/set/one/0.png").shape == (16, 16, 3)


def test_file_uris_of_another_form_are_explained(tmp_path: Path) -> None:
    (tmp_path / "set" / "one").mkdir(parents=True)
    for uri, hint in (
        (f"file://server{tmp_path}/set", "written as in file:///data/train; files of another host are not read"),
        (f"file:{tmp_path}/set", "written as in file:///data/train, in small letters"),
        (f"FILE://{tmp_path}/set", "written as in file:///data/train, in small letters"),
        (f"file://{tmp_path}/my%20set", "not decoded in file:// URIs: write the name as it is"),
    ):
        with pytest.raises(StokerError, match=hint):
            stoker.Loader(uri, batch_size=1)
    with pytest.raises(StokerError, match="files of another host are not read"):
        stoker.imread(f"file://server{tmp_path}/a.png")


def test_paths_that_a_shell_would_expand_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flat").mkdir()
    (tmp_path / "other").mkdir()
    for folder in ("flat", "other"):
        (tmp_path / folder / "a.png").write_bytes(_saved("PNG"))
    monkeypatch.chdir(tmp_path / "flat")
    for source, hint in (
        (["~/a.png"], r"~/a\.png: cannot open it \(only a shell replaces ~.*os\.path\.expanduser"),
        ("*.png", r"patterns of files are not expanded: give the list"),
        (".", r'\. holds 1 image but no class folders .* one of several classes, give "\./\.\."'),
        ("../flat/.", r'one of several classes, give "\.\./flat/\./\.\."'),
    ):
        with pytest.raises(StokerError, match=hint):
            next(iter(stoker.Loader(source, batch_size=1)))


@pytest.mark.parametrize("name", ["a" * 300, "closed"])
def test_a_folder_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    """The message names the folder, and not one of CIFAR's files, for which Loader looks in it."""
    (tmp_path / "closed").mkdir(mode=0)
    if os.geteuid() == 0 and name == "closed":
        pytest.skip("root may read all folders")
    with pytest.raises(StokerError, match=f"{name}: cannot open the folder: (File name too long|Permission denied)"):
        stoker.Loader(tmp_path / name, batch_size=1)


def test_the_bytes_of_a_file_where_a_path_is_expected() -> None:
    with pytest.raises(ValueError, match="imdecode takes the bytes of a file"):
        stoker.imread(_saved("PNG"))
    for pixels in (np.zeros((4, 4, 3), np.uint8), np.zeros(64, np.float32)):
        with pytest.raises(StokerError, match=rf"an array of {pixels.dtype} of {pixels.ndim} dims holds pixels already"):
            stoker.imdecode(pixels)
    column = np.frombuffer(_saved("PNG"), np.uint8)[:, None]
    assert stoker.imdecode(column).shape == (16, 16, 3)
    with pytest.raises(ValueError, match="audiodecode takes the bytes of a file"):
        stoker.audioread(b"RIFF\x24\0\0\0WAVEfmt ")


def test_a_loader_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.jpg").write_bytes(FILES["git lfs"][0])
    loader = stoker.Loader(tmp_path, batch_size=1, transforms=[T.Resize((8, 8))], last_batch="keep")
    with pytest.raises(CorruptError, match=r"a\.jpg: .*a Git LFS pointer.*git lfs pull"):
        next(iter(loader))
