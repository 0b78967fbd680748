# SPDX-License-Identifier: Apache-2.0
"""stoker.imread, stoker.imdecode and fn.eager: one image, or one operator, without a pipeline."""

import io
import threading

import numpy as np
import pytest
import stoker
from PIL import Image, ImageOps
from stoker import fn, types
from stoker.errors import CorruptError, NotFoundError, ReadError, ShapeError, StokerError
from support import photograph

pytestmark = pytest.mark.filterwarnings("error")


def file_of(image, kind, **kwargs):
    out = io.BytesIO()
    image.save(out, kind, **kwargs)
    return out.getvalue()


@pytest.mark.essential
def test_images_are_those_of_pillow(rng, tmp_path):
    picture = Image.fromarray(photograph(rng, 61, 83))
    exif = Image.Exif()
    exif[0x0112] = 6
    kinds = {
        "baseline": file_of(picture, "JPEG", quality=90),
        "progressive": file_of(picture, "JPEG", quality=80, progressive=True, subsampling=0),
        "gray": file_of(picture.convert("L"), "JPEG"),
        "cmyk": file_of(picture.convert("CMYK"), "JPEG"),
        "turned": file_of(picture, "JPEG", exif=exif),
        "png": file_of(picture, "PNG"),
    }
    for name, data in kinds.items():
        want = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
        path = tmp_path / f"{name}.JPEG"  # a wrong ending on purpose, since the bytes determine the format
        path.write_bytes(data)
        for got in (stoker.imread(path), stoker.imdecode(data), stoker.imdecode(np.frombuffer(data, np.uint8)), stoker.imread(str(path))):
            assert got.dtype == np.uint8 and got.shape == want.shape, name
            assert np.abs(got.astype(int) - want).max() <= (2 if name == "cmyk" else 0), name
        stored = stoker.imread(path, adjust_orientation=False)
        assert stored.shape == ((61, 83, 3) if name == "turned" else want.shape)
    assert stoker.imread(tmp_path / "gray.JPEG", output_type="any_data").shape == (61, 83, 1)
    assert stoker.imdecode(kinds["png"], output_type=types.GRAY).shape == (61, 83, 1)
    np.testing.assert_array_equal(stoker.imdecode(kinds["png"], output_type="BGR")[..., ::-1], np.asarray(picture))


def test_out_is_filled_and_returned(files):
    torch = pytest.importorskip("torch")
    want = stoker.imread(files[0])
    array, tensor = np.zeros_like(want), torch.zeros(want.shape, dtype=torch.uint8)
    assert stoker.imread(files[0], array) is array and stoker.imread(files[0], out=tensor) is tensor
    np.testing.assert_array_equal(array, want)
    np.testing.assert_array_equal(tensor.numpy(), want)
    assert torch.equal(torch.from_numpy(stoker.imdecode(torch.from_numpy(np.fromfile(files[0], np.uint8)))), tensor)
    for wrong, error in ((array[:-1], ShapeError), (array.astype(np.float32), TypeError), (array[:, ::-1], ShapeError), ([1], TypeError)):
        with pytest.raises(error, match="out "):
            stoker.imread(files[0], wrong)
    with pytest.raises(TypeError, match="output_type is one of"):
        stoker.imread(files[0], output_type="sepia")


def test_damage_and_missing_files_are_named(files, tmp_path):
    data = files[0].read_bytes()
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(CorruptError, match=rf"cut\.jpg: a truncated JPEG: .* {len(data) * 2 // 3} bytes"):
        stoker.imread(cut)
    assert stoker.imread(cut, strict=False).shape == stoker.imread(files[0]).shape  # missing rows are gray, as in libjpeg-turbo
    (tmp_path / "text.jpg").write_text("hello")
    with pytest.raises(CorruptError, match=r'text\.jpg: not a .*"hello"'):
        stoker.imread(tmp_path / "text.jpg")
    with pytest.raises((NotFoundError, ReadError), match=r"none\.jpg"):
        stoker.imread(tmp_path / "none.jpg")
    for empty in (b"", b"\xff\xd8", np.zeros(0, np.uint8)):
        with pytest.raises(StokerError):
            stoker.imdecode(empty)
    with pytest.raises(TypeError):
        stoker.imdecode("a name")
    np.testing.assert_array_equal(stoker.imdecode(data), stoker.imread(files[0]))  # the decoder still works after these errors


def test_threads_decode_side_by_side(files):
    want = [stoker.imread(f) for f in files]
    wrong = []

    def work():
        for _ in range(5):
            wrong.extend(f for f, w in zip(files, want, strict=True) if not np.array_equal(stoker.imread(f), w))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


# ---- fn.eager ----


def test_the_limit_that_the_environment_sets(rng, monkeypatch):
    """Errors name STOKER_MAX_IMAGE_SIZE, which also applies without a pipeline. A thread reads the limit when it first decodes, so each value is tested in
    a new thread."""
    data, results = file_of(Image.fromarray(photograph(rng, 61, 83)), "JPEG"), []

    def decode():
        try:
            results.append(stoker.imdecode(data).shape)
        except StokerError as e:
            results.append(str(e))

    for value in ("5062", "5063", "5000px"):
        monkeypatch.setenv("STOKER_MAX_IMAGE_SIZE", value)
        thread = threading.Thread(target=decode)
        thread.start()
        thread.join()
    assert "83x61 pixels are over the limit of 5062" in results[0] and results[1] == (61, 83, 3)
    assert 'STOKER_MAX_IMAGE_SIZE is "5000px"; it is a whole number' in results[2]


def test_operators_over_lists_of_arrays(files):
    images = [stoker.imread(f) for f in files[:3]]
    small = fn.eager.resize(images, size=(20, 30))
    assert [s.shape for s in small] == [(20, 30, 3)] * 3 and all(isinstance(s, np.ndarray) for s in small)
    np.testing.assert_array_equal(fn.eager.flip(np.stack(small), horizontal=1)[2], small[2][:, ::-1])
    data, labels = fn.eager.readers.file(files=[str(f) for f in files[:2]], labels=[4, 5], batch_size=2)
    assert [x.tolist() for x in labels] == [[4], [5]] and data[1].tobytes() == files[1].read_bytes()
    decoded = fn.eager.decoders.image(data)
    np.testing.assert_array_equal(decoded[0], images[0])
    shift = stoker.tensors.TensorListCPU(np.float32([0, 1, 1]))
    cropped = fn.eager.crop(images, crop=(10, 10), crop_pos_x=shift, crop_pos_y=0.0)
    for image, x, got in zip(images, (0, 1, 1), cropped, strict=True):
        np.testing.assert_array_equal(got, image[:10, -10:] if x else image[:10, :10])
    assert fn.eager.python_function(images, function=lambda x: x.sum())[1] == images[1].sum()
    assert len(fn.eager.random.uniform(range=[0, 1], batch_size=5)) == 5
    named = stoker.tensors.TensorListCPU(np.zeros((2, 3, 8, 8), np.uint8), "CHW")
    assert fn.eager.resize(named, size=4)[0].shape == (3, 4, 4)


def test_what_eager_refuses():
    from stoker.fn import eager

    assert "resize" in dir(eager) and "readers" in dir(eager) and "size" in eager.resize.__doc__
    with pytest.raises(TypeError, match="input 0 is a list of arrays"):
        eager.resize(3, size=4)
    with pytest.raises(ValueError, match="batches of one size"):
        eager.crop([np.zeros((4, 4, 3), np.uint8)], crop=(2, 2), crop_pos_x=stoker.tensors.TensorListCPU(np.zeros(2, np.float32)))
    with pytest.raises(AttributeError, match="did you mean"):
        eager.resise  # noqa: B018
    with pytest.raises(TypeError, match="no argument 'siez'"):
        eager.resize([np.zeros((4, 4, 3), np.uint8)], siez=4)
