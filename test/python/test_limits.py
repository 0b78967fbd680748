# SPDX-License-Identifier: Apache-2.0
"""memory_limit and memory that runs out, as a user of Python sees them. test/c/test_limits.c has the other tests."""

import struct
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import pytest
import stoker
from PIL import Image
from stoker import transforms as T
from stoker.errors import LimitError
from support import png_chunk, run_script


def test_unpacking_a_png_keeps_to_the_limit(tmp_path):
    """PNGs with 100 MiB of text or a profile, packed into 100 KB, are bad samples. The process stays within memory_limit and 16 MiB. libspng unpacks both."""

    packed = zlib.compress(bytes(100 << 20), 9)
    pixels = zlib.compress(b"".join(b"\0" + bytes(3 * 16) for _ in range(16)))
    (tmp_path / "a").mkdir()
    for name, inside in (("text", png_chunk(b"zTXt", b"Comment\0\0" + packed)), ("profile", png_chunk(b"iCCP", b"icc\0\0" + packed))):
        head = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0))
        (tmp_path / "a" / f"{name}.png").write_bytes(
            b"\x89PNG\r\n\x1a\n" + head + inside + png_chunk(b"IDAT", pixels) + png_chunk(b"IEND", b"")
        )
    done = run_script(
        """
        import re, sys
        from pathlib import Path
        from stoker import Pipeline, fn
        status = Path("/proc/self/status")
        settings = {"memory_limit": 8 << 20, "read_bytes": 1 << 20}  # where reads block, as on a tmpfs, 32 MiB are read ahead by default
        pipe = Pipeline(batch_size=2, num_threads=1, device_id=None, on_error="skip", max_errors=9, **settings)
        with pipe:
            data, label = fn.readers.file(file_root=sys.argv[1])
            pipe.set_outputs(fn.decoders.image(data), label)
        pipe.build()
        Path("/proc/self/clear_refs").write_text("5")
        before = int(re.search(r"VmRSS:\\s+(\\d+)", status.read_text())[1])
        images, labels = pipe.run()
        assert len(images) == 0, images
        peak = int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1])
        messages = [str(e) for e in pipe.bad_samples() if e.epoch == 0]
        assert len(messages) == 2 and all("memory_limit" in t for t in messages), messages
        print(peak - before)
        """,
        str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < (8 + 16) << 10, done.stdout  # KiB: memory_limit, and 16 MiB for everything else


@pytest.mark.parametrize("transform", [T.CenterCrop(10**7), T.RandomResizedCrop(10**7), T.Resize((10**7, 10**7))])
def test_an_image_over_the_limit_names_its_size_and_the_limit(tmp_path: Path, transform: object) -> None:
    """The message names the image. The memory of the batch is allocated first, but here not even a batch of one image would fit."""
    Image.new("RGB", (50, 40)).save(tmp_path / "a.jpg")
    loader = stoker.Loader([str(tmp_path / "a.jpg")], batch_size=2, transforms=[transform])
    with pytest.raises(
        LimitError, match=r"a\.jpg: it takes at least \d{15,16} bytes of memory, over memory_limit, 2147483648 bytes; raise that"
    ):
        next(iter(loader))


def test_a_batch_for_which_memory_is_short_names_what_it_takes(tmp_path: Path) -> None:
    Image.new("RGB", (50, 40)).save(tmp_path / "a.jpg")
    done = run_script(
        """
        import resource, sys
        import stoker
        from stoker import transforms as T
        loader = stoker.Loader([sys.argv[1]] * 64, batch_size=64, transforms=[T.CenterCrop(5000), T.ToTensor()], num_threads=1)
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # the batch takes 19.2 GB of address space
        try:
            next(iter(loader))
        except stoker.errors.OutOfMemoryError as e:
            print(e)
        """,
        str(tmp_path / "a.jpg"),
    )
    assert done.returncode == 0, done.stderr
    assert "out of memory for a batch: its largest output, of 64 times 3x5000x5000, takes 19200 MB" in done.stdout, done.stdout
    assert "make samples or batches smaller" in done.stdout, done.stdout


def test_workers_with_small_stacks():
    """Threads have stacks of 128 KiB with `ulimit -s 128`, and with musl. Kernels keep large buffers in scratch memory instead."""
    program = """
        import numpy as np
        from stoker import fn, pipeline_def

        values = np.arange(300 * 200 * 3, dtype=np.uint8).reshape(1, 300, 200, 3)

        @pipeline_def(batch_size=1, num_threads=2)
        def reduced():
            given = fn.external_source(lambda: values)
            mean = fn.reductions.mean(given, axes=[0, 1])
            return fn.reductions.max(given, axes=[0, 1]), mean, fn.reductions.std_dev(given, mean, axes=[0, 1])

        most, mean, deviation = (np.asarray(output.at(0)) for output in reduced().run())
        pixels = values[0].astype(np.float64)
        assert most.tolist() == [255] * 3
        assert np.allclose(mean, pixels.mean((0, 1))) and np.allclose(deviation, pixels.std((0, 1)))
        print("fine")
    """
    command = ["sh", "-c", 'ulimit -c 0; ulimit -s 128; exec "$@"', "-", sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
