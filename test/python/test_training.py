# SPDX-License-Identifier: Apache-2.0
"""Training loops around a Loader, on the CPU and on a GPU if there is one: accumulation, torch.compile, streams, CUDA graphs, several loaders at once."""

import copy
import subprocess
import sys

import pytest
import torch
from stoker import Loader
from stoker import transforms as T

TRANSFORMS = [T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.Normalize([0.5] * 3, [0.25] * 3)]


def needs_gpu():
    if not torch.cuda.is_available():
        pytest.skip("no GPU")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    if request.param == "cuda":
        needs_gpu()
    return request.param


def make(tree, device, batch=3, **kwargs):
    return Loader(tree, batch, device=device, **{"shuffle": True, "transforms": TRANSFORMS, **kwargs})


def reference(tree, batch=3, **kwargs):
    """Returns copies of the CPU's batches, which the batches of other devices must equal."""
    return [(images.clone(), labels.clone()) for images, labels in make(tree, "cpu", batch, **kwargs)]


def equal(batch, expected):
    return torch.equal(batch[0].cpu(), expected[0]) and torch.equal(batch[1].cpu(), expected[1])


def network(device):
    torch.manual_seed(0)
    body = [torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 3)]
    return torch.nn.Sequential(*body).to(device, memory_format=torch.channels_last)


def test_batches_lie_where_and_as_they_should(tree, device):
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        expected = reference(tree, dtype=dtype, memory_format=torch.channels_last)
        for batch, wanted in zip(make(tree, device, dtype=dtype, memory_format=torch.channels_last), expected, strict=True):
            assert batch[0].device.type == batch[1].device.type == device and batch[0].dtype == dtype
            assert batch[0].is_contiguous(memory_format=torch.channels_last) and equal(batch, wanted)


def test_gradient_accumulation(tree, device):
    """The gradients of three batches of three samples add up to those of one batch of nine."""
    one, two = network(device), network(device)
    loss = torch.nn.functional.cross_entropy
    for images, labels in list(make(tree, device, 3, memory_format=torch.channels_last))[:6]:
        (loss(one(images), labels) / 3).backward()
    for images, labels in list(make(tree, device, 9, memory_format=torch.channels_last))[:2]:
        loss(two(images), labels).backward()
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-5)


def test_batches_that_are_kept_stay_as_they_are(tree, device):
    kept = list(make(tree, device))
    assert len(kept) == 7 and all(equal(k, e) for k, e in zip(kept, reference(tree), strict=True))


def test_batches_that_are_written_to_change_no_other(tree, device):
    expected = reference(tree)
    for batch, wanted in zip(make(tree, device), expected, strict=True):
        assert equal(batch, wanted)
        batch[0].fill_(7)


def test_a_compiled_network_is_compiled_once(tree, device):
    plain = network(device)
    compiled = torch.compile(copy.deepcopy(plain), backend="aot_eager")
    torch._dynamo.utils.counters.clear()
    for images, _ in make(tree, device, memory_format=torch.channels_last):
        torch.testing.assert_close(compiled(images), plain(images))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_training_and_validation_at_once(tree, device):
    train, valid = make(tree, device), make(tree, device, 4, shuffle=False, last_batch="pad")
    expected = reference(tree)
    for i, batch in enumerate(train):
        assert equal(batch, expected[i])
        if i in (1, 4):
            assert sum(int(b.valid.sum()) for b in valid) == 21


ADVISED = """
import sys
import torch
from stoker import Loader, advise
from stoker import transforms as T

tree, device = sys.argv[1:]
loader = Loader(tree, 3, device=device, shuffle=True, transforms=[T.RandomResizedCrop(16)])
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 3)).to(device)
watched = advise(loader, steps=3, rounds=2, warmup=1, quiet=True)
while not watched.done:
    for images, labels in watched:
        torch.nn.functional.cross_entropy(model(images), labels).backward()
found = watched.report()
print(found.device, found.step.mean > 0, 0 <= found.wait_share <= 1, sum(len(b.taken) for b in found.blocks))
"""


def test_advise_in_a_training_loop(tree, device):
    """advise watches a training loop to the end of its trial. Runs in its own process: if a process has used CUDA, as other tests do, advise takes CUDA's
    clock."""
    done = subprocess.run([sys.executable, "-c", ADVISED, str(tree), device], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    where, stepped, shared, steps = done.stdout.split()
    assert where == ("cpu" if device == "cpu" else "cuda:0") and (stepped, shared) == ("True", "True")
    assert int(steps) == 12  # advise has made 2 rounds of 3 live and 3 cached steps


@pytest.mark.gpu
def test_a_stream_of_the_users(tree):
    """Work on another stream gets complete batches, and a batch's memory is not reused before that work is done."""
    needs_gpu()
    expected, sums, stream = reference(tree), [], torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for images, _ in make(tree, "cuda"):
            torch.cuda._sleep(20_000_000)  # keeps the stream busy, so that the sum runs after the next batch was taken
            sums.append(images.double().sum())
    stream.synchronize()
    torch.testing.assert_close(torch.stack(sums).cpu(), torch.stack([e[0].double().sum() for e in expected]))


@pytest.mark.gpu
def test_a_cuda_graph_of_the_step(tree):
    needs_gpu()
    model, place = network("cuda"), torch.empty(3, 3, 16, 16, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        model(place.zero_())
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = model(place)
    for images, _ in make(tree, "cuda"):
        place.copy_(images)
        graph.replay()
        torch.testing.assert_close(result, model(images))


@pytest.mark.gpu
def test_two_gpus_in_one_process(tree):
    if torch.cuda.device_count() < 2:
        pytest.skip("fewer than two GPUs")
    expected = reference(tree)
    for i, (one, two) in enumerate(zip(make(tree, "cuda:0"), make(tree, "cuda:1"), strict=True)):
        assert one[0].device.index == 0 and two[0].device.index == 1 and equal(one, expected[i]) and equal(two, expected[i])
