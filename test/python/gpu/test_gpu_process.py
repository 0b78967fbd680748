# SPDX-License-Identifier: Apache-2.0
"""Processes that use a GPU: forks, exits during work, wrong devices, memory that is short or must not grow, and the `stoker` command."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import stoker
from both_sides import Output, batches, difference, emulated, make, training
from stoker import Pipeline, fn
from stoker.errors import StokerError
from support import run_script

HEAD = """
import os, sys, threading, time
from stoker import Pipeline, fn, types
from stoker.errors import StokerError
def images(device=0, **kwargs):
    pipe = Pipeline(**{"batch_size": 4, "num_threads": 2, "seed": 1, **kwargs}, device_id=device)
    with pipe:
        data, label = fn.readers.file(file_root=sys.argv[1], random_shuffle=True)
        image = fn.resize(fn.decoders.image(data, device="mixed"), size=[48, 48])
        pipe.set_outputs(fn.crop_mirror_normalize(image), label.gpu())
    return pipe
"""


def ends_well(text: str, tree: Path, **env: str) -> str:
    done = run_script(HEAD + text, str(tree), **env)
    assert done.returncode == 0 and not any(w in done.stderr for w in ("Traceback", "terminate", "Segmentation", "Error")), (
        f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    return done.stdout


@pytest.mark.parametrize("number", [63, 4000])
def test_no_such_gpu(number: int) -> None:
    pipe = Pipeline(batch_size=1, device_id=number)
    with pipe:
        pipe.set_outputs(fn.constant(idata=1).gpu())
    with pytest.raises(StokerError, match=str(number)) as raised:
        pipe.run()
    assert raised.value.code in ("INVALID", "NOT_FOUND", "UNSUPPORTED", "GPU")


def test_a_forked_child(tree: Path) -> None:
    """A process uses the GPU, and then forks. In the child, inherited batches and pipelines are freed without a message, a new pipeline on the GPU gives an
    error that says why, and one on the cores works. The parent continues."""
    out = ends_well(
        """
pipe = images()
held = pipe.run()
pid = os.fork()
if pid == 0:
    code = 1
    try:
        images().run()
    except StokerError as e:
        code = 0 if "fork" in str(e) or "spawn" in str(e) else 2
        print(e, flush=True)
    try:
        pipe.run()
        code = 3
    except Exception:
        pass
    del held, pipe
    assert images(None).run()[0].as_array().shape == (4, 3, 48, 48)
    sys.stdout.flush()
    os._exit(code)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
for _ in range(20):
    pipe.run()
print("parent is fine")
""",
        tree,
    )
    assert "parent is fine" in out


@pytest.mark.parametrize(
    "end",
    [
        "pass",
        "pipe.close()",
        "del pipe",
        "sys.exit(0)",
        "os._exit(0)",
        "held.append(pipe.run()[0][0])",
        "threading.Thread(target=pipe.run).start()",
        "threading.Thread(target=lambda: all(pipe.run() for _ in range(10**6)), daemon=True).start(); time.sleep(0.1)",
        "pipe2 = images(prefetch_queue_depth=6); pipe2.start()",
    ],
)
def test_ends_with_work_in_flight(tree: Path, end: str) -> None:
    ends_well(f"pipe = images(prefetch_queue_depth=4)\nheld = [pipe.run()]\npipe.start()\n{end}\n", tree)


def test_an_exception_ends_it(tree: Path) -> None:
    done = run_script(HEAD + "pipe = images(prefetch_queue_depth=4)\nheld = pipe.run()\nraise ValueError('mine')\n", str(tree))
    assert done.returncode == 1 and done.stderr.rstrip().endswith("ValueError: mine")


def test_interrupt(tree: Path) -> None:
    out = ends_well(
        """
import signal
pipe = images()
pipe.run()
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while True:
        pipe.run()
except KeyboardInterrupt:
    print("interrupted")
pipe.run()
""",
        tree,
    )
    assert "interrupted" in out


def test_break_and_start_over(tree: Path) -> None:
    """Skips the rest of an epoch after its first batch, five times in each of 20 pipelines. Fails if this raises an error, crashes or hangs."""
    for _ in range(20):
        pipe = make(tree, prefetch_queue_depth=3)
        for _ in range(5):
            pipe.run()
            pipe._running().skip_epoch()
        pipe.close()


def test_too_many_held_batches(tree: Path) -> None:
    pipe = make(tree, max_batches=5, timeout=60)
    held = []
    with pytest.raises(StokerError) as raised:
        for _ in range(8):
            held.append(pipe.run())
            pipe.release_outputs()
    assert len(held) >= 4 and "held" in str(raised.value)
    want = list(batches(lambda: training(tree), None, len(held), batch_size=4))
    for a, b in zip(want, held, strict=True):
        assert not any(difference(x, Output.of(y)) for x, y in zip(a, b, strict=True))
    held.clear()
    del raised
    pipe.run()


def test_two_pipelines(tree: Path) -> None:
    want = [list(batches(lambda s=s: training(tree, size=s), None, 10, batch_size=4)) for s in (40, 72)]
    pipes = [make(tree, graph={"size": s}) for s in (40, 72)]
    for step in range(10):
        for k, pipe in enumerate(pipes):
            assert not any(difference(x, Output.of(y)) for x, y in zip(want[k][step], pipe.run(), strict=True))


def test_two_devices(two_gpus, tree: Path) -> None:
    want = list(batches(lambda: training(tree), None, 10, batch_size=4))
    pipes = [make(tree, d) for d in (0, 1)]
    for step in range(10):
        for device, pipe in enumerate(pipes):
            images, labels = pipe.run()
            assert images.device_id() == labels.device_id() == device
            assert not difference(want[step][0], Output.of(images))


def fill(torch: Any, leave: int) -> list[Any]:
    """Allocates memory of GPU 0 until at most `leave` bytes are free. Collects garbage first; otherwise unused pipelines of other tests could free memory
    later."""
    gc.collect()
    torch.cuda.empty_cache()
    held = []
    while (free := torch.cuda.mem_get_info(0)[0]) > leave:
        held.append(torch.empty(max(free - leave, 2 << 20), dtype=torch.uint8, device="cuda:0"))
    return held


def test_no_memory_for_batches(torch_cuda: Any, tree: Path) -> None:
    """If the GPU is full, an error says so. When memory is free again, a new pipeline works. A batch takes 6 GiB, many times the free memory."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        pytest.skip("fills the GPU, so that tests in other processes would fail: run it without -n")
    torch = torch_cuda
    leave, size, batch_size = 192 << 20, 1024, 512
    held = fill(torch, leave)
    try:
        assert 4 * 3 * size * size * batch_size > 16 * torch.cuda.mem_get_info(0)[0]
        with pytest.raises(StokerError, match=r"(?i)memory") as raised:
            pipe = make(tree, batch_size=batch_size, graph={"size": size})
            pipe.run()
            pytest.fail(f"a batch of {pipe.batch_size} was made, with {torch.cuda.mem_get_info(0)[0]} bytes free")
        assert raised.value.code in ("NO_MEMORY", "GPU")
    finally:
        del held
        torch.cuda.empty_cache()
    assert make(tree).run()[0].shape() == [(3, 64, 64)] * 4


only_emulated = pytest.mark.skipif(not emulated(), reason="makes calls of the emulated driver fail")


@only_emulated
def test_errors_name_the_memory_that_is_short(tree: Path) -> None:
    """A batch for which the GPU has no memory is not blamed on main memory, and another failure of the driver is not blamed on memory."""
    out = ends_well(
        """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
for words in ("memory=2M", "fail=cuMemAlloc:1", *(f"fail=cuCtxPushCurrent:{n}" for n in range(1, 8))):
    os.environ["STOKER_EMULATED_CUDA"] = words
    driver.cuInit(0)
    pipe = images()
    try:
        pipe.run()
        print(f"{words}: fine")
    except StokerError as e:
        print(f"{words}: {e}")
    pipe.close()
""",
        tree,
    )
    lines = dict(line.split(": ", 1) for line in out.splitlines())
    for words in ("memory=2M", "fail=cuMemAlloc:1"):
        assert lines[words].startswith("out of memory on the GPU for a batch: its largest output, of 4 times 3x48x48, takes "), lines
        assert "MB of the GPU's memory are free" in lines[words], lines
    failed = [line for words, line in lines.items() if "cuCtxPushCurrent" in words and line != "fine"]
    assert failed and all("cuCtxPushCurrent: CUDA_ERROR_UNKNOWN" in line for line in failed), lines


@only_emulated
@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_failures_of_the_gpu_are_no_bad_samples(tree: Path, policy: str) -> None:
    """If a call of the driver fails while a sample is prepared, the run ends with that error. No intact file is left out or replaced."""
    out = ends_well(
        """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
raised = 0
for n in range(1, 13):
    os.environ["STOKER_EMULATED_CUDA"] = f"fail=cuCtxPushCurrent:{n}"
    driver.cuInit(0)
    pipe = images(on_error=sys.argv[2], max_errors=1e9, num_threads=1)
    try:
        for _ in range(4):
            assert len(pipe.run()[0]) == 4 and not pipe.bad_samples()
    except StokerError as e:
        raised += "sample " in str(e)
    pipe.close()
print("raised", raised)
""".replace("sys.argv[2]", repr(policy)),
        tree,
    )
    assert int(out.split()[1]) > 0  # some of the calls are made for a sample


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def gpu_free() -> int:
    """Returns the number of free bytes on GPU 0, or 0 if torch is not installed or has no CUDA."""
    try:
        import torch

        return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else 0
    except ImportError:
        return 0


def test_ten_thousand_batches_do_not_grow(tree: Path) -> None:
    """Memory may grow at first: more batches are in flight if the consumer waits, and pinned memory grows until the largest files have been in one batch. This
    growth ends, although late if other programs use the GPU. A leak would make memory grow for ever. So the test runs several stretches of batches, and
    passes as soon as memory does not grow in one of them."""

    def define(root: Any) -> Any:
        data, label = fn.readers.file(file_root=str(root), random_shuffle=True)
        image = fn.decoders.image_random_crop(data, device="mixed", random_area=[0.02, 0.05])
        return fn.crop_mirror_normalize(fn.resize(image, size=[8, 8]), mirror=fn.random.coin_flip()), label.gpu()

    gpu_free()  # imports torch, if it is installed, before memory is measured
    alone = "PYTEST_XDIST_WORKER" not in os.environ  # other workers of pytest also allocate GPU memory
    # A batch takes longer with the emulated driver, so the test runs fewer batches there.
    warm, count, stretches = (300, 700, 5) if emulated() else (2000, 8000, 5)
    # What still counts as no growth. The pipeline frees idle memory and allocates it again later, more often if other programs use the GPU.
    most = {"allocations": count // (20 if alone else 5), "resident": 256 * count, "on the GPU": 4 << 20}
    pipe = make(tree, define=define, batch_size=2)

    def figures() -> dict[str, int]:
        return {
            "allocations": int(pipe.counters()["allocations"]),
            "resident": resident(),
            "on the GPU": -gpu_free() if alone else 0,
        }

    for _ in range(warm):
        pipe.run()
    grown = []
    for _ in range(stretches):
        before = figures()
        for _ in range(count):
            pipe.run()
        grown.append({what: now - before[what] for what, now in figures().items()})
        if all(grown[-1][what] < most[what] for what in most):
            return
    pytest.fail(f"each {count} batches take more memory: {grown}")


def command() -> list[str]:
    """Returns the words that run the `stoker` command of the build folder, or else of the installed package. Skips the test if the package has none."""
    if build := os.environ.get("STOKER_BUILD"):
        return [str(Path(build) / "cli" / "stoker")]
    if not (program := Path(stoker.__file__).with_name("_bin") / "stoker").exists():
        pytest.skip(f"the command is not part of this installation: there is no {program}")
    return [sys.executable, "-m", "stoker"]


def test_the_command(tree: Path, tmp_path: Path) -> None:
    """The command prints the same checksum for the cores and for the GPU, and its subcommands view and explain run."""
    program = command()
    sums = []
    for device in ("cpu", "0", "cuda:0"):
        done = subprocess.run([*program, "run", str(tree), "-b", "5", "--device", device, "--checksum"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        sums.append(done.stdout.split()[-1])
    assert len(set(sums)) == 1
    explained = subprocess.run([*program, "explain", str(tree), "--device", "0"], capture_output=True, text=True)
    assert explained.returncode == 0 and "gpu" in explained.stdout.lower()
    pictures = []
    for device in ("cpu", "0"):
        target = tmp_path / f"{device}.png"
        done = subprocess.run(
            [*program, "view", str(tree), "-b", "6", "-o", str(target), "--device", device], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        pictures.append(target.read_bytes())
    assert pictures[0] == pictures[1]
    wrong = subprocess.run([*program, "run", str(tree), "--device", "99"], capture_output=True, text=True)
    assert wrong.returncode == 1 and "99" in wrong.stderr
