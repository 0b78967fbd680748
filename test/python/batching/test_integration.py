# SPDX-License-Identifier: Apache-2.0
"""stoker.batching in torch.compile, in CUDA graphs and over large tensors; CPU against CUDA; and the cost of importing it."""

import subprocess
import sys
import warnings

import pytest
import stoker.batching as sb
import torch
from stoker.batching import losses
from test_losses import criterion, scene
from torch.fx.experimental.proxy_tensor import make_fx


def whole(logits, boxes, label_tensor, box_tensor, sizes):
    labels, targets = sb.RaggedBatch(label_tensor, sample_sizes=sizes), sb.RaggedBatch(box_tensor, sample_sizes=sizes)
    return criterion(logits, boxes, labels, targets)[0]


def tensors(device):
    logits, boxes, labels, targets = scene(device)
    return logits, boxes, labels.tensor, targets.tensor, labels.sample_sizes


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compile_fullgraph(device, backend):
    torch._dynamo.reset()
    arguments = tensors(device)
    want = whole(*arguments)
    want_grads = torch.autograd.grad(want, arguments[:2])
    got = torch.compile(whole, fullgraph=True, backend=backend)(*arguments)
    got_grads = torch.autograd.grad(got, arguments[:2])
    assert torch.allclose(got, want, rtol=1e-5)
    for a, b in zip(got_grads, want_grads, strict=False):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-5)


def index_functions(data, rows, index, sizes, base):
    batch = sb.RaggedBatch(index, sample_sizes=sizes)
    read = sb.batched_indexing_access(data, batch)
    written = sb.batched_indexing_write(rows, batch, base)
    mapped = sb.batched_index_mapping(data, batch, batch, base)
    inverse = sb.batched_inverse_indexing_access(rows, batch, base.shape[1])
    mask = sb.get_mask_from_indices(base.shape[1], batch)
    places = sb.get_indices_from_mask(mask)
    mean = sb.average_over_targets(read.with_padded_set_to(2.0))
    return mean.sum() + (written + mapped * inverse).masked_fill(mask[..., None], 3.0).sum() + places.tensor.sum()


def test_compile_index_functions(device):
    torch._dynamo.reset()
    torch.manual_seed(0)
    data, rows, base = (torch.randn(2, n, 3, device=device, requires_grad=True) for n in (6, 4, 6))
    index = torch.stack([torch.randperm(6)[:4] for _ in range(2)]).to(device)
    arguments = (data, rows, index, torch.tensor([4, 2], device=device), base)
    want = index_functions(*arguments)
    got = torch.compile(index_functions, fullgraph=True, backend="aot_eager", dynamic=True)(*arguments)
    assert torch.allclose(got, want)
    for a, b in zip(torch.autograd.grad(got, (data, rows, base)), torch.autograd.grad(want, (data, rows, base)), strict=False):
        assert torch.allclose(a, b)


def scaled(tensor, mask, sizes):
    return tensor * mask.unsqueeze(-1) / (1 + sizes[:, None, None])


def many_members(data, sizes, other):
    """Uses nearly all members of a RaggedBatch that need no transfer to the host."""
    batch = sb.RaggedBatch(data, sample_sizes=sizes)
    factor = 1.5
    results = [
        batch.apply(lambda t: t * factor),
        batch.apply(lambda t, m: t * m.unsqueeze(-1)),
        *batch.apply(lambda t, m, s: (t * m.unsqueeze(-1), t + s[:, None, None])),
        batch.apply(scaled),
        batch.apply(torch.relu),
        batch.with_padded_set_to(2.0),
        batch.create_with_sample_sizes_like_self(data.transpose(1, 2), 2).get_non_uniform_dimension_transposed_to(1),
        batch.unsqueeze_batch_dim(0).squeeze_batch_dim(0),
        batch.unsqueeze_data_dim(1),
        batch.repeat_samples(2).reshape_batch_dims((2, -1)).flatten_batch_dims(),
        batch.unsqueeze_batch_dim(0).broadcast_batch_dims_to_shape((2, len(batch))).flatten_batch_dims(),
        batch.to(torch.float64).to_dtype(torch.float32).to_device(batch.device),
        batch.half().bfloat16().double().float(),
        sb.RaggedBatch.FromFullTensor(data),
        sb.RaggedBatch(data, mask=batch.mask),
        sb.cat([batch, batch]),
        sb.combine_data([data[0], other, data[1]]),
    ]
    mine = batch.as_self_with_cloned_data()
    mine.set_padded_to(3.0)
    mine[0] = 1.0
    results.append(mine)
    batch.set_tensor(batch.tensor + 1)
    total = batch.get_existence_weights().sum() + sb.average_over_targets(batch).sum() + sb.sum_over_targets(batch).sum()
    for r in results:
        weight = r.max_sample_size + r.non_uniform_dim + r.total_num_samples_in_batch + r.dim() + r.shape[0] + r.size(0)
        total = total + (r.tensor * weight).float().sum() + r.mask.sum() + (r.sample_sizes * r.batch_shape[0]).sum()
    return total


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile_many_members(device, backend, grad):
    torch._dynamo.reset()
    torch.manual_seed(0)
    data, other = (torch.randn(*shape, device=device, requires_grad=grad) for shape in ((3, 4, 5), (2, 5)))
    arguments = (data, torch.tensor([4, 0, 2], device=device), other)
    want = many_members(*arguments)
    got = torch.compile(many_members, fullgraph=True, backend=backend)(*arguments)
    assert torch.allclose(got, want, rtol=1e-5)
    if grad:
        for a, b in zip(torch.autograd.grad(got, (data, other)), torch.autograd.grad(want, (data, other)), strict=True):
            assert torch.allclose(a, b, rtol=1e-5)


def test_compile_padding_of_views(device):
    def padded(data, sizes):
        batch = sb.RaggedBatch((data * 1).transpose(1, 2), sample_sizes=sizes)
        batch.set_padded_to(3.0)
        return batch.tensor * 2

    torch._dynamo.reset()
    compiled = torch.compile(padded, fullgraph=True, backend="aot_eager", dynamic=True)
    for shape in ((2, 3, 4), (3, 5, 6)):
        arguments = torch.rand(shape, device=device), torch.arange(shape[0], device=device)
        assert torch.equal(compiled(*arguments), padded(*arguments))


def test_operators_are_well_formed(device):
    data = torch.randn(2, 5, 3, device=device, requires_grad=True)
    index = torch.tensor([[0, 4, -1], [2, 2, 0]], device=device)
    sizes = torch.tensor([3, 2], device=device)
    rows = torch.randn(2, 3, 3, device=device, requires_grad=True)
    ops = torch.ops.stoker
    for op, arguments in [
        (ops.gather.default, (data, index, sizes, None, None, None, 0.0, 1, False, -1)),
        (ops.scatter_add.default, (rows, index, sizes, None, 5, 1, False)),
        (ops.scatter.default, (rows, index, sizes, None, None, data, 0.0, 5, None, 1, -1)),
        (ops.keep.default, (data, sizes, None, 1.0, 1)),
        (ops.mask_to_index.default, (torch.rand(2, 5, device=device) < 0.5, None)),
        (ops.mask_to_rank.default, (torch.rand(2, 5, device=device) < 0.5, sizes)),
        (ops.index_to_mask.default, (index, sizes, 5, -1)),
        (ops.assign.default, (torch.rand(2, 4, 3, device=device), None, None, False)),
        (ops.polyline_points.default, (rows.detach(), sizes, torch.rand(2, 4, device=device), None, True)),
        (ops.polyline_lengths.default, (rows.detach(), sizes)),
    ]:
        torch.library.opcheck(op, arguments)


def indices_of(x):
    return sb.RaggedBatch(torch.tensor([[0, 1, 1], [2, 0, 0]], device=x.device), sample_sizes=torch.tensor([3, 2], device=x.device))


def ragged(x):
    return sb.RaggedBatch(x, sample_sizes=torch.tensor([3, 1], device=x.device))


# Each takes data (2, 3, 3).
RECORDED = {
    "access": lambda x: sb.batched_indexing_access(x, indices_of(x)).tensor,
    "write": lambda x: sb.batched_indexing_write(x, indices_of(x), torch.zeros(2, 4, 3, device=x.device)),
    "average": lambda x: sb.average_over_targets(ragged(x)),
    "combine": lambda x: sb.combine_data([x[0], x[1, :1]]).tensor,
    "mask": lambda x: sb.batched_bool_indexing_write(ragged(x), ragged(x).mask, x + 1),
    "heatmap": lambda x: sb.draw_heatmap_batched(
        x.clone(), *(torch.ones(2, 1, *n, dtype=torch.int64, device=x.device) for n in ((2,), ()))
    ),
    "assignment": lambda x: sb.linear_sum_assignment(x).cols.tensor,
    "cost": lambda x: sb.detection_cost(boxes=x, target_boxes=torch.ones(2, 2, 3, device=x.device)).tensor,
    "points": lambda x: sb.polylines.interpolate(x, x[..., 0].contiguous()),
    "ragged points": lambda x: sb.polylines.interpolate_var_size_batch(ragged(x), ragged(x[..., 0].contiguous()), relative=True).tensor,
    "lengths": lambda x: sb.polylines.lengths(x),
    "ragged lengths": lambda x: sb.polylines.lengths_var_size_batch(ragged(x)),
}


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:`torch.jit.trace")
def test_recorded_calls_compute_with_the_values_of_later_calls(device, name):
    function, first, later = RECORDED[name], torch.rand(2, 3, 3, device=device), torch.rand(2, 3, 3, device=device) * 3
    with torch.no_grad():
        traced = torch.jit.trace(function, first, check_trace=False)
        for recorded in (traced, make_fx(function)(first)):
            torch.testing.assert_close(recorded(later), function(later), equal_nan=True)


def test_polylines_in_code_that_needs_the_dispatcher(device):
    lanes, at = torch.rand(4, 1, 3, 2, device=device), torch.rand(4, 1, 2, device=device)
    for function in (lambda lane, _: sb.polylines.lengths(lane), sb.polylines.interpolate):
        want = torch.stack([function(*pair) for pair in zip(lanes, at, strict=True)])
        assert torch.equal(torch.func.functionalize(function)(lanes[0], at[0]), want[0])
        torch._dynamo.reset()
        assert torch.equal(torch.compile(function, fullgraph=True, backend="aot_eager")(lanes[0], at[0]), want[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # vmap says that it calls the operator in a loop
            assert torch.equal(torch.vmap(function)(lanes, at), want)


@pytest.mark.parametrize("mode", ["torch._subclasses.fake_tensor.FakeTensorMode()", "torch.inference_mode()"])
def test_calls_after_a_first_one_in_a_mode(mode):
    # A process of its own, because the state that calls share is made by the first call.
    code = f"""
import torch, torch._subclasses.fake_tensor
from stoker import batching as sb
with {mode}:
    torch.zeros(1, 3, 2)
    sb.polylines.lengths(torch.zeros(1, 3, 2))
    sb._native.device_of(torch.zeros(1))
index = lambda i: sb.RaggedBatch(torch.full((1, 2), i), sample_sizes=torch.tensor([2]))
data = torch.tensor([[5.0, 6.0]])
for _ in range(2):
    try:
        sb.batched_indexing_access(data, index(9))
        raise AssertionError("accepted")
    except IndexError:
        pass
    assert sb.batched_indexing_access(data, index(1)).tensor.tolist() == [[6, 6]]
sb.linear_sum_assignment(torch.tensor([[float("nan")]]))
try:
    sb.check()
    raise AssertionError("not counted")
except IndexError:
    sb.check()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_compiled_heatmap(device):
    torch._dynamo.reset()
    heatmap = torch.zeros(2, 8, 9, device=device)
    centers, radii = torch.randint(0, 8, (2, 3, 2), device=device), torch.randint(1, 4, (2, 3), device=device)
    want = sb.draw_heatmap_batched(heatmap.clone(), centers, radii) * 2
    got = torch.compile(lambda h: sb.draw_heatmap_batched(h, centers, radii) * 2, fullgraph=True, backend="aot_eager")(heatmap)
    assert torch.allclose(got, want)


def test_import_needs_neither_torch_nor_numpy():
    code = "import sys, stoker; assert not {'torch', 'numpy'} & set(sys.modules), 'imported'"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.gpu
def test_cuda_graph_of_a_criterion(cuda):
    """The forward pass, the matching and the backward pass are captured, and replayed with other data. Capturing fails if any of them waits for the device."""
    logits, boxes, labels, targets, sizes = tensors(cuda)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            logits.grad = boxes.grad = None
            whole(logits, boxes, labels, targets, sizes).backward()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    logits.grad = boxes.grad = None
    with torch.cuda.graph(graph):
        loss = whole(logits, boxes, labels, targets, sizes)
        loss.backward()
    for seed in range(3):
        other = scene(cuda, seed=seed + 5, sizes=[(4, 0, 7), (1, 7, 2), (0, 0, 0)][seed])
        with torch.no_grad():
            logits.copy_(other[0]), boxes.copy_(other[1])
            labels.zero_(), targets.zero_()
            labels[:, : other[2].max_sample_size] = other[2].tensor
            targets[:, : other[3].max_sample_size] = other[3].tensor
            sizes.copy_(other[2].sample_sizes)
        graph.replay()
        want = criterion(other[0], other[1], sb.RaggedBatch(labels, sample_sizes=sizes), sb.RaggedBatch(targets, sample_sizes=sizes))[0]
        want.backward()
        assert torch.allclose(loss, want, rtol=1e-5)
        assert torch.allclose(logits.grad, other[0].grad, rtol=1e-4, atol=1e-5) and torch.allclose(
            boxes.grad, other[1].grad, rtol=1e-4, atol=1e-5
        )


@pytest.mark.gpu
def test_nothing_waits(cuda):
    """Runs the whole criterion in torch's sync debug mode, which raises if any call synchronises."""
    arguments = tensors(cuda)
    whole(*arguments).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        whole(*arguments).backward()
        sb.combine_data([torch.zeros(3, 2), torch.zeros(1, 2)], device=cuda)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
def test_cpu_and_cuda_agree(cuda):
    loss, matches = criterion(*scene("cpu"))
    arguments = scene("cpu")
    moved = (arguments[0].detach().cuda(), arguments[1].detach().cuda(), arguments[2].to_device(cuda), arguments[3].to_device(cuda))
    loss_cuda, matches_cuda = criterion(*moved)
    assert torch.equal(matches.rows.tensor, matches_cuda.rows.tensor.cpu()) and torch.allclose(loss, loss_cuda.cpu(), rtol=1e-5)
    assert losses.l1(moved[1], moved[3], matches_cuda).device.type == "cuda"


@pytest.mark.gpu
def test_more_than_two_billion_elements(cuda):
    if torch.cuda.mem_get_info()[0] < 24 << 30:
        pytest.skip("needs 24 GiB of free GPU memory")
    items, inner = 3, (1 << 31) // 2 + 5
    data = torch.zeros(2, items, inner // 2, dtype=torch.uint8, device=cuda)  # the tensor has 3.2e9 elements
    data[1, 2, -1], data[0, 1, -1] = 9, 4
    index = sb.RaggedBatch(torch.tensor([[1, 0, 2], [2, 1, 0]], device=cuda), sample_sizes=torch.tensor([3, 3], device=cuda))
    out = sb.batched_indexing_access(data, index).tensor
    assert int(out[1, 0, -1]) == 9 and int(out[0, 0, -1]) == 4 and out.numel() > 1 << 31
    back = sb.batched_inverse_indexing_access(out, index, items)
    assert torch.equal(back, data)
    del out, back
    narrow = torch.zeros(1, (1 << 31) // 1024 + 3, 1024, dtype=torch.uint8, device=cuda)
    narrow[0, -1, 5] = 3
    last = sb.RaggedBatch(torch.full((1, 1), -1, device=cuda), sample_sizes=torch.ones(1, dtype=torch.int64, device=cuda))
    assert int(sb.batched_indexing_access(narrow, last).tensor[0, 0, 5]) == 3


def test_the_example_agrees_with_its_loop(device, monkeypatch, capsys):
    folder = __file__.rsplit("/", 4)[0] + "/examples/detr_loss"
    monkeypatch.syspath_prepend(folder)
    import run

    monkeypatch.setattr(torch.cuda, "is_available", lambda: device == "cuda")
    run.main()
    assert capsys.readouterr().out.count("gradients differ") == 2
