"""torch.compile(backend="xc") against PyTorch itself. Skipped where torch or onnxscript is not installed."""

import copy
import gc
import pathlib
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from torch import nn  # noqa: E402

import xc.dynamo  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    torch._dynamo.reset()
    before = set(xc.dynamo.graphs())
    yield lambda: [graph for graph in xc.dynamo.graphs() if graph not in before]
    torch._dynamo.reset()


def compiled(function, **options):
    return torch.compile(function, backend=xc.dynamo.backend, options={"threads": 1, **options})


def check(function, *arguments, of=None, tolerance=2e-5):
    """The compiled function's results, which must be those of `of` (default: what it was compiled from)."""
    with torch.no_grad():
        wanted = (of or function._torchdynamo_orig_callable)(*arguments)
        given = function(*arguments)
    torch.testing.assert_close(given, wanted, rtol=tolerance, atol=tolerance)
    return given


def sessions(graphs):
    return [len(graph.sessions) for graph in graphs]


def mlp():
    return nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 8), nn.Softmax(-1)).eval()


def test_sizes_that_change_make_one_more_model(fresh):
    net = mlp()
    run = compiled(net)
    for n in (3, 5, 7, 1000):
        check(run, torch.randn(n, 16), of=net)
    assert sessions(fresh()) == [1, 1] and all(graph.eager is None for graph in fresh())
    assert "plan" in fresh()[1].explain()


def test_weights_are_read_again_when_they_change(fresh):
    net = mlp()
    run = compiled(net)
    x = torch.randn(4, 16)
    before = check(run, x, of=net)
    with torch.no_grad():
        net[0].weight.mul_(3)
    after = check(run, x, of=net)
    assert (before - after).abs().max() > 1e-3
    net[0].weight = nn.Parameter(torch.randn(64, 16))
    check(run, x, of=net)
    net.load_state_dict({name: value + 1 for name, value in net.state_dict().items()})
    check(run, x, of=net)


def test_weights_that_lie_in_other_memory_are_read_again(fresh):
    net = nn.Linear(4, 4)
    run = compiled(net)
    x = torch.randn(3, 4)
    check(run, x, of=net)
    first = net.weight.data
    net.weight.data = first * 2
    check(run, x, of=net)
    net.weight.data = first  # what is made next may get the memory of the last
    net.weight.data = first * 3
    check(run, x, of=net)


def test_weights_that_pytorch_is_told_to_have_changed(fresh):
    net = nn.Linear(4, 4)
    run = compiled(net)
    x = torch.randn(3, 4)
    check(run, x, of=net)
    net.weight.data.mul_(2)
    torch.autograd.graph.increment_version(net.weight)
    check(run, x, of=net)


def test_weights_that_keep_changing_are_inputs(fresh):
    net = mlp()
    run = compiled(net)
    x = torch.randn(4, 16)
    for _ in range(8):
        with torch.no_grad():
            net[0].weight.add_(0.1)
        check(run, x, of=net)
    [graph] = fresh()
    assert graph.eager is None and len(graph.sessions) == 1
    assert len(graph.sessions[0].inputs) == 5


def test_layers_that_share_code_have_their_own_weights(fresh):
    layers = [nn.Linear(16, 16).eval() for _ in range(4)]
    step = compiled(lambda layer, x: torch.relu(layer(x)))
    x = torch.randn(3, 16)
    for _ in range(2):
        for layer in layers:
            check(step, layer, x, of=lambda layer, x: torch.relu(layer(x)))
    assert sum(sessions(fresh())) >= 4


def test_buffers_of_a_module(fresh):
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1)).eval()
    net[1].running_mean.normal_()
    check(compiled(net), torch.randn(2, 3, 17, 19), of=net)


@pytest.mark.parametrize(
    "layer, size",
    [
        (nn.BatchNorm1d(4), (6, 4)),
        (nn.BatchNorm2d(4), (2, 4, 5, 3)),
        (nn.BatchNorm3d(4), (2, 4, 3, 2, 3)),
        (nn.InstanceNorm1d(4, track_running_stats=True), (3, 4, 9)),
    ],
)
def test_norms_that_train_use_and_keep_the_statistics_of_the_batch(fresh, layer, size):
    layer = copy.deepcopy(layer).train()
    eager = copy.deepcopy(layer)
    run = compiled(layer)
    for _ in range(3):
        x = torch.randn(size) * 3 + 1
        check(run, x, of=eager)
        for (name, given), wanted in zip(layer.named_buffers(), eager.buffers(), strict=True):
            torch.testing.assert_close(given, wanted, msg=name)
    assert all(graph.eager is None for graph in fresh())


def test_norms_that_do_not_train_are_folded_into_convolutions(fresh):
    def function(x, count):
        count.add_(1)  # by AOTAutograd
        return net(x)

    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
    net[1].running_mean.normal_()
    check(compiled(function), torch.randn(2, 3, 9, 9), torch.zeros(3), of=lambda x, count: net(x))
    [graph] = fresh()
    assert "Conv+Relu" in graph.explain() and "BatchNorm" not in graph.explain()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + torch.rand(4, 6),
        lambda x: x * torch.randn_like(x),
        lambda x: torch.bernoulli(torch.sigmoid(x)),
        lambda x: torch.multinomial(torch.softmax(x, -1), 3),
        lambda x: nn.functional.dropout(x, 0.4) + 1,
        lambda x: nn.functional.dropout(x.exp_(), 0.4),
        lambda x: nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.4),
    ],
)
def test_random_numbers_are_those_of_manual_seed(fresh, function):
    run = compiled(function)
    x = torch.randn(4, 6)
    with torch.no_grad():
        for seed in (1, 2, 1):
            torch.manual_seed(seed)
            wanted = function(x.clone()), torch.rand(())
            torch.manual_seed(seed)
            torch.testing.assert_close((run(x.clone()), torch.rand(())), wanted, rtol=0, atol=0)
    [graph] = fresh()
    assert "random numbers" in graph.eager


def test_what_could_draw_random_numbers_and_does_not(fresh):
    net = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.4), nn.AlphaDropout(0.4)).eval()

    def function(x):
        return nn.functional.scaled_dot_product_attention(net(x), x, nn.functional.dropout(x, 0.0))

    check(compiled(function), torch.randn(1, 2, 4, 6), of=function)
    assert fresh()[0].eager is None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 2).t(),
        lambda x: (x * 2, (x + 1).view(3, 2, -1).permute(2, 0, 1)),
        lambda x: x.exp_().t() * 2,
        lambda x: ((x + 1)[:, None].transpose(0, 1), (x * 2).t().contiguous()),
    ],
)
def test_results_have_the_strides_of_pytorch(fresh, function):
    run = compiled(function)

    def strides(result):  # of one element they say nothing
        results = result if isinstance(result, tuple) else (result,)
        return [[stride for stride, size in zip(y.stride(), y.shape, strict=True) if size > 1] for y in results]

    for n in (4, 5, 7):
        x = torch.randn(6, n)
        with torch.no_grad():
            given, wanted = run(x.clone()), function(x.clone())
        torch.testing.assert_close(given, wanted)
        assert strides(given) == strides(wanted)
    assert all(graph.eager is None for graph in fresh())


def test_results_in_channels_last(fresh):
    net = nn.Conv2d(3, 8, 3).eval().to(memory_format=torch.channels_last)
    y = check(compiled(net), torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last), of=net)
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_views_of_results_behind_a_graph_break(fresh):
    def function(x):
        y = (x * 2).t()
        torch._dynamo.graph_break()
        return y.t().view(-1)

    check(compiled(function), torch.randn(4, 16), of=function)


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}])
def test_transformer_layers(fresh, options):
    """PyTorch runs them by one function of its own when they do not train."""
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **options).eval()
    x = torch.randn(2, 5, 16)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    causal = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    for masks in ({}, {"src_key_padding_mask": padding}, {"src_mask": causal},
                  {"src_mask": causal, "src_key_padding_mask": padding}):  # fmt: skip
        function = lambda x, masks=masks: layer(x, **masks)  # noqa: E731
        check(compiled(function), x, of=function)
    check(compiled(layer), torch.randn(3, 7, 16), of=layer)
    assert all(graph.eager is None for graph in fresh())


def test_reasons_are_of_the_operator_and_without_colours(fresh):
    function = lambda x: torch.linalg.qr(x)[1].abs()  # noqa: E731
    check(compiled(function), torch.randn(4, 4), of=function, tolerance=1e-4)
    [reason] = [graph.eager for graph in fresh() if graph.eager]
    assert "aten.linalg_qr" in reason and "\x1b" not in reason


def test_arguments_changed_in_place(fresh):
    def update(cache, x, at):
        cache.index_copy_(1, at, x * 2)
        return cache.sum(-1) + 1

    cache, wanted_cache = torch.zeros(2, 6, 4), torch.zeros(2, 6, 4)
    run = compiled(update)
    for k in range(3):
        x, at = torch.randn(2, 1, 4), torch.tensor([k])
        with torch.no_grad():
            given = run(cache, x, at)
        torch.testing.assert_close(given, update(wanted_cache, x, at))
        torch.testing.assert_close(cache, wanted_cache)
    assert all(graph.eager is None for graph in fresh())


def test_results_in_the_memory_of_arguments(fresh):
    def views(x):
        return x.view(4, 3), x, x[1:].exp()

    x = torch.randn(3, 4)
    with torch.no_grad():
        turned, same, other = compiled(views)(x)
    x[0, 0] = 77
    assert same is x and turned[0, 0] == 77
    torch.testing.assert_close(other, x[1:].exp())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool])
def test_types(fresh, dtype):
    def function(a, b):
        return torch.where(a > b, a, b), a == b

    a = (torch.randn(5, 7) * 3).to(dtype)
    b = (torch.randn(5, 7) * 3).to(dtype)
    if dtype is torch.bool:
        function = lambda a, b: (a & b, a | ~b)  # noqa: E731
    check(compiled(function), a, b, of=function)
    assert all(graph.eager is None for graph in fresh())


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_float8(fresh, dtype):
    function = lambda a, b: ((a.float() + b).to(dtype), b)  # noqa: E731
    run = compiled(function)
    for a in (torch.randn(5, 7), torch.randn(7, 5).t()):
        with torch.no_grad():
            given, wanted = run(a.to(dtype), a)[0], function(a.to(dtype), a)[0]
        assert given.dtype == dtype
        torch.testing.assert_close(given.float(), wanted.float(), rtol=0, atol=0)
    assert all(graph.eager is None for graph in fresh())


def test_bfloat16_weights(fresh):
    net = mlp().to(torch.bfloat16)
    check(compiled(net), torch.randn(4, 16).to(torch.bfloat16), of=net, tolerance=2e-2)
    assert all(graph.eager is None for graph in fresh())


def test_strided_arguments(fresh):
    function = lambda x, y: x @ y + 1  # noqa: E731
    check(compiled(function), torch.randn(6, 5).t(), torch.randn(12, 8)[::2, 1::3], of=function)


def test_numbers(fresh):
    def function(x, scale, times):
        for _ in range(times):
            x = x * scale
        return x, times, x.shape[0]

    run = compiled(function)
    for scale, times in ((0.5, 2), (1.5, 2), (1.5, 3)):
        for n in (2, 3, 4):
            check(run, torch.randn(n, 3), scale, times, of=function)


def test_positions_are_inputs(fresh):
    def write(cache, x, at):
        cache[at : at + 1] = x
        return cache[: at + 1].softmax(0) @ x.t() * at

    run = compiled(write)
    for at in (2, 3, 5, 30, 62):
        cache, x = torch.randn(64, 4), torch.randn(1, 4)
        wanted_cache = cache.clone()
        wanted = write(wanted_cache, x, at)
        with torch.no_grad():
            torch.testing.assert_close(run(cache, x, at), wanted)
        torch.testing.assert_close(cache, wanted_cache)
    assert sessions(fresh()) == [1, 1]  # the first number is taken for a constant


def test_numbers_below_zero(fresh):
    function = lambda x, k: x * (k % 3) + k // 2  # noqa: E731
    run = compiled(function)
    for k in (2, 3, 4, -5, -3, 7, 2**62):
        check(run, torch.randn(3, 4), k, of=function)
    assert sum(sessions(fresh())) <= 4


def test_models_of_single_sizes_are_few(fresh, monkeypatch):
    monkeypatch.setattr(xc.dynamo.Graph, "_SIZES", 2)
    function = lambda x, scale: x * scale  # noqa: E731
    run = compiled(function)
    for k in (2, 3, -2, -3, -4, -5, -3):
        check(run, torch.randn(3, 4), k, of=function)
    assert sum(sessions(fresh())) <= 4 and all(graph.eager is None for graph in fresh())


def test_numbers_that_are_computed(fresh):
    function = lambda x: (x * 2, x.shape[0] + 1, x.shape[0] > 3)  # noqa: E731
    run = torch.compile(function, backend="xc", dynamic=True, options={"threads": 1})
    for n in (3, 5):
        _, longer, many = check(run, torch.randn(n, 2), of=function)
        assert type(longer) is int and type(many) is bool
    assert fresh()[0].eager is None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.fft.rfft(x),
        lambda x: torch.view_as_complex(torch.stack([x, x + 1], -1)),
        lambda x: torch.complex(x, x) * 2,
    ],
)
def test_complex_results_are_left_to_torch(fresh, function):
    run = compiled(function)
    for _ in range(2):
        assert check(run, torch.randn(3, 4), of=function).is_complex()
    assert "complex" in fresh()[0].eager


def test_complex_arguments_are_left_to_torch(fresh):
    function = lambda x: torch.view_as_real(x * x)  # noqa: E731
    run = compiled(function)
    for _ in range(2):
        check(run, torch.randn(3, dtype=torch.complex64), of=function)
    assert "complex" in fresh()[0].eager


def test_complex_numbers_inside(fresh):
    function = lambda x: torch.fft.rfft(x).abs()  # noqa: E731
    check(compiled(function), torch.randn(3, 8), of=function)
    assert fresh()[0].eager is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_around_a_call(fresh, dtype):
    net = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 8)).eval()
    run = compiled(net)
    x = torch.randn(4, 16)
    for enabled in (False, True, False):
        with torch.autocast("cpu", dtype, enabled=enabled):
            y = check(run, x, of=net, tolerance=2e-2 if enabled else 2e-5)
        assert y.dtype == (dtype if enabled else torch.float32)
    assert all(graph.eager is None for graph in fresh())


def test_gradients_are_left_to_torch(fresh):
    net = mlp()
    run = compiled(net)
    x = torch.randn(4, 16)
    run(x).sum().backward()
    assert net[0].weight.grad is not None
    [graph] = fresh()
    assert "gradients" in graph.eager and "gradients" in graph.explain()
    check(run, x, of=net)
    assert fresh()[1].eager is None


def test_what_has_no_form_in_onnx_is_left_to_torch(fresh):
    function = lambda x: torch.linalg.qr(x)[1].abs()  # noqa: E731
    check(compiled(function), torch.randn(4, 4), of=function, tolerance=1e-4)
    assert any(graph.eager for graph in fresh())


def test_inference_mode(fresh):
    net = mlp()
    run = compiled(net)
    with torch.inference_mode():
        x = torch.randn(4, 16)
        torch.testing.assert_close(run(x), net(x), rtol=2e-5, atol=2e-5)
    assert all(graph.eager is None for graph in fresh())


def test_options_reach_the_session(fresh):
    net = mlp()
    for wrong in ({"no_such_option": 1}, {"jit": "no_such_mode"}):
        with pytest.raises(Exception, match="no_such"):
            check(compiled(net, **wrong), torch.randn(4, 16), of=net)
        torch._dynamo.reset()
    check(compiled(net, jit="off"), torch.randn(4, 16), of=net)


def test_graphs_share_threads(fresh):
    def workers():
        return sum("xc-w" in (task / "comm").read_text() for task in pathlib.Path("/proc/self/task").iterdir())

    before = workers()
    for function in (lambda x: x @ x, lambda x: x @ x.t(), lambda x: x.t() @ x):
        check(compiled(function, threads=4), torch.randn(200, 200), of=function, tolerance=1e-3)
    assert len(fresh()) == 3 and workers() - before <= 3


def test_threads_at_once(fresh):
    net = mlp()
    run = compiled(net)
    x = torch.randn(32, 16)
    with torch.no_grad():
        wanted = net(x)
    wrong = []

    def work():
        for _ in range(20):
            with torch.no_grad():
                if not torch.allclose(run(x), wanted, atol=1e-5):
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_graphs_go_with_what_holds_them(fresh):
    net = mlp()
    run = compiled(net)
    check(run, torch.randn(4, 16), of=net)
    assert len(fresh()) == 1
    torch._dynamo.reset()
    del net, run
    gc.collect()
    assert fresh() == []


def test_a_plan_gets_faster_kernels(fresh):
    function = lambda x: torch.tanh(x * 3 + 1) * torch.sigmoid(x) - x.abs()  # noqa: E731
    x = torch.randn(64, 1000)
    run = compiled(function, jit="sync")
    check(run, x, of=function)
    profile = fresh()[0].sessions[0].profile()
    assert any(region["state"] == "live" for region in profile["regions"])
    assert np.isfinite(profile["net_saved_ms"])
