"""More networks for networks.py, of fields zoo.py does not have: each found something, or stands for what others write."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo import Inputs, Network, RMSNorm, SelfAttention, function, normal


class ConformerBlock(nn.Module):
    """Half feed-forward, attention, depthwise convolution over time, half feed-forward."""

    def __init__(self, width: int = 144, heads: int = 4, taps: int = 31):
        super().__init__()
        self.first, self.last = self.feed_forward(width), self.feed_forward(width)
        self.n1, self.n2, self.n3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        self.gated = nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(width, width, taps, padding=taps // 2, groups=width)
        self.norm, self.mix = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)

    @staticmethod
    def feed_forward(width: int) -> nn.Module:
        return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.first(x)
        x = x + self.attention(self.n1(x))
        h = F.glu(self.gated(self.n2(x).transpose(1, 2)), 1)
        x = x + self.mix(F.silu(self.norm(self.depthwise(h)))).transpose(1, 2)
        return self.n3(x + 0.5 * self.last(x))


class ChompedConvolutions(nn.Module):
    """A temporal convolutional network: padded at both ends, cut at one."""

    def __init__(self, channels: tuple[int, ...] = (8, 16, 32, 64, 64)):
        super().__init__()
        pairs = list(zip(channels, channels[1:]))
        layer = lambda i, o, d: nn.Conv1d(i, o, 3, dilation=d, padding=2 * d)
        self.one = nn.ModuleList([layer(i, o, 2**k) for k, (i, o) in enumerate(pairs)])
        self.two = nn.ModuleList([layer(o, o, 2**k) for k, (_, o) in enumerate(pairs)])
        self.skip = nn.ModuleList([nn.Conv1d(i, o, 1) for i, o in pairs])

    def forward(self, x: Tensor) -> Tensor:
        for k, (one, two, skip) in enumerate(zip(self.one, self.two, self.skip)):
            cut = 2 * 2**k
            h = F.relu(two(F.relu(one(x)[..., :-cut]))[..., :-cut])
            x = F.relu(h + skip(x))
        return x[..., -1]


class StateSpace(nn.Module):
    """A selective state space, its recurrence as running sums."""

    def __init__(self, width: int = 64, states: int = 8):
        super().__init__()
        self.states = states
        self.enter, self.leave = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.conv = nn.Conv1d(width, width, 4, padding=3, groups=width)
        self.select, self.step = nn.Linear(width, 2 * states + 1), nn.Linear(1, width)
        self.decay, self.skip = nn.Parameter(torch.rand(width, states)), nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        h, gate = self.enter(x).chunk(2, -1)
        h = F.silu(self.conv(h.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        step, b, c = self.select(h).split((1, self.states, self.states), -1)
        step = F.softplus(self.step(step))
        total = torch.cumsum((-step[..., None] * self.decay.exp()).clamp(min=-0.2), 1)
        terms = step[..., None] * b[:, :, None] * h[..., None]
        state = torch.cumsum(terms * torch.exp(-total), 1) * torch.exp(total)
        return self.leave(((state * c[:, :, None]).sum(-1) + self.skip * h) * F.silu(gate))


class RadianceField(nn.Module):
    """Points along rays, encoded as sines, through a perceptron, blended."""

    def __init__(self, width: int = 128):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(63 if k == 0 else width + 63 * (k == 4), width) for k in range(8)])
        self.density = nn.Linear(width, 1)
        self.colour = nn.Sequential(nn.Linear(width + 27, 64), nn.ReLU(), nn.Linear(64, 3), nn.Sigmoid())

    @staticmethod
    def encoded(x: Tensor, octaves: int) -> Tensor:
        y = (x[..., None, :] * (2.0 ** torch.arange(octaves))[:, None]).flatten(-2)
        return torch.cat((x, y.sin(), y.cos()), -1)

    def forward(self, origin: Tensor, direction: Tensor, depth: Tensor) -> Tensor:
        first = self.encoded(origin[:, None] + direction[:, None] * depth[..., None], 10)
        x = first
        for k, layer in enumerate(self.layers):
            x = F.relu(layer(torch.cat((x, first), -1) if k == 4 else x))
        thick = F.relu(self.density(x))[..., 0] * F.pad(depth[:, 1:] - depth[:, :-1], (0, 1), value=100.0)
        seen = torch.exp(thick - torch.cumsum(thick, 1)) * (1 - torch.exp(-thick))
        view = self.encoded(direction / direction.norm(dim=-1, keepdim=True), 4)
        colour = self.colour(torch.cat((x, view[:, None].expand(-1, depth.shape[1], -1)), -1))
        return (seen[..., None] * colour).sum(1)


class Sines(nn.Module):
    def __init__(self, width: int = 128):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width if k else 2, width) for k in range(4)])
        self.out = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.sin(5 * layer(x))
        return self.out(x)


class Flow(nn.Module):
    """Affine coupling: the log-density of rows."""

    def __init__(self, width: int = 32, steps: int = 6):
        super().__init__()
        self.steps = nn.ModuleList(
            [nn.Sequential(nn.Linear(width // 2, 64), nn.Tanh(), nn.Linear(64, width)) for _ in range(steps)])

    def forward(self, x: Tensor) -> Tensor:
        volume = 0
        for k, step in enumerate(self.steps):
            a, b = x.chunk(2, -1) if k % 2 == 0 else reversed(x.chunk(2, -1))
            scale, shift = step(a).chunk(2, -1)
            scale = torch.tanh(scale)
            b, volume = b * torch.exp(scale) + shift, volume + scale.sum(-1)
            x = torch.cat((a, b) if k % 2 == 0 else (b, a), -1)
        return volume - 0.5 * (x * x).sum(-1)


class EdgeAttention(nn.Module):
    """Graph attention over a list of edges, summed where they end."""

    def __init__(self, width: int = 32, heads: int = 4):
        super().__init__()
        self.w = nn.Linear(width, width * heads, bias=False)
        self.left, self.right = nn.Parameter(torch.randn(heads, width)), nn.Parameter(torch.randn(heads, width))
        self.heads = heads

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        z = self.w(x).view(x.shape[0], self.heads, -1)
        e = F.leaky_relu((z * self.left).sum(-1)[source] + (z * self.right).sum(-1)[target], 0.2).exp()
        total = torch.zeros(x.shape[0], self.heads).index_add(0, target, e)
        return torch.zeros_like(z).index_add(0, target, z[source] * (e / total[target])[..., None]).flatten(1)


class Isomorphism(nn.Module):
    """Sums over neighbours by a scatter, then a perceptron, three times."""

    def __init__(self, width: int = 64):
        super().__init__()
        layer = lambda: nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.layers = nn.ModuleList([layer() for _ in range(3)])

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        for layer in self.layers:
            index = target[:, None].expand(-1, x.shape[1])
            x = layer(x + torch.zeros_like(x).scatter_add(0, index, x[source]))
        return x.mean(0)


class SpectralMixing(nn.Module):
    """Blocks that mix tokens by a Fourier transform."""

    def __init__(self, width: int = 128, layers: int = 2):
        super().__init__()
        mlp = lambda: nn.Sequential(RMSNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.layers = nn.ModuleList([mlp() for _ in range(layers)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + torch.view_as_real(torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2))[..., 0]
            x = x + layer(x)
        return x


class LinearAttention(nn.Module):
    def __init__(self, width: int = 128, heads: int = 4):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x: Tensor) -> Tensor:
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        share = q @ k.sum(-2, keepdim=True).transpose(-1, -2)
        return self.out((q @ (k.transpose(-1, -2) @ v) / share).transpose(1, 2).reshape(b, t, w))


class MaskedSets(nn.Module):
    """Sum and maximum of the members a mask keeps."""

    def __init__(self, width: int = 64):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.all = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        h, mask = self.each(x) * mask[..., None], mask[..., None]
        return self.all(torch.cat((h.sum(1), h.masked_fill(mask == 0, -1e9).amax(1)), -1))


class StyleTransfer(nn.Module):
    """Reflected borders, instance norms."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(width if k else 3, width, 3) for k in range(4)])
        self.norms = nn.ModuleList([nn.InstanceNorm2d(width, affine=True) for _ in range(4)])
        self.out = nn.Conv2d(width, 3, 3)

    def forward(self, x: Tensor) -> Tensor:
        border = lambda v: F.pad(v, (1, 1, 1, 1), mode="reflect")
        for conv, norm in zip(self.convs, self.norms):
            x = F.relu(norm(conv(border(x))))
        return torch.sigmoid(self.out(border(x)))


class Separator(nn.Module):
    """Strided convolutions, an LSTM between, transposed convolutions back: audio."""

    def __init__(self, widths: tuple[int, ...] = (1, 16, 32, 64)):
        super().__init__()
        pairs = list(zip(widths, widths[1:]))
        down = lambda i, o: nn.Sequential(nn.Conv1d(i, o, 8, 4), nn.ReLU(), nn.Conv1d(o, 2 * o, 1), nn.GLU(1))
        up = lambda i, o: nn.Sequential(nn.Conv1d(o, 2 * o, 1), nn.GLU(1), nn.ConvTranspose1d(o, i, 8, 4))
        self.down = nn.ModuleList([down(i, o) for i, o in pairs])
        self.up = nn.ModuleList([up(i, o) for i, o in reversed(pairs)])
        self.lstm, self.mix = nn.LSTM(widths[-1], widths[-1], bidirectional=True), nn.Linear(2 * widths[-1], widths[-1])

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
        x = self.mix(self.lstm(x.permute(2, 0, 1))[0]).permute(1, 2, 0)
        for k, up in enumerate(self.up):
            x = up(x + kept.pop())
            x = F.relu(x) if k + 1 < len(self.up) else x
        return x


class StandardisedWeights(nn.Module):
    """Convolutions without batch norms, whose filters are standardised and scaled in the graph."""

    def __init__(self, channels: tuple[int, ...] = (3, 32, 64, 128, 256)):
        super().__init__()
        pairs = list(zip(channels, channels[1:]))
        self.convs = nn.ModuleList([nn.Conv2d(i, o, 3, 2, 1) for i, o in pairs])
        self.gains = nn.ParameterList([nn.Parameter(torch.ones(o, 1, 1, 1)) for _, o in pairs])

    def forward(self, x: Tensor) -> Tensor:
        for conv, gain in zip(self.convs, self.gains):
            flat = conv.weight.reshape(1, conv.out_channels, -1)
            weights = F.batch_norm(flat, None, None, training=True, eps=1e-6).reshape_as(conv.weight)
            x = 1.7 * F.gelu(F.conv2d(x, weights * gain, conv.bias, 2, 1))
        return x.mean((2, 3))


def page_rank(links: Tensor, rank: Tensor) -> object:
    share = (links / links.sum(1, keepdim=True).clamp(min=1)).t()
    for _ in range(20):
        rank = 0.85 * (share @ rank) + 0.15 / links.shape[0]
    return rank


def logistic_steps(x: Tensor, w: Tensor, y: Tensor) -> object:
    for _ in range(10):
        w = w - 0.1 * (x.t() @ (torch.sigmoid(x @ w) - y)) / x.shape[0]
    return w


def poisson_factors(x: Tensor, w: Tensor, h: Tensor) -> object:
    w = w * ((x / (w @ h + 1e-6)) @ h.t()) / h.sum(1)
    return w, h * (w.t() @ (x / (w @ h + 1e-6))) / w.sum(0)[:, None]


def heat(u: Tensor) -> object:
    for _ in range(10):
        p = F.pad(u, (1, 1, 1, 1))
        u = u + 0.1 * (p[..., :-2, 1:-1] + p[..., 2:, 1:-1] + p[..., 1:-1, :-2] + p[..., 1:-1, 2:] - 4 * u)
    return u


def mixture_step(x: Tensor, mean: Tensor, log_deviation: Tensor, weight: Tensor) -> object:
    """One step of expectation and maximisation for Gaussians with diagonal covariances."""
    d = x[:, None] - mean
    log = weight.log_softmax(0) - 0.5 * (d * d * torch.exp(-2 * log_deviation)).sum(-1) - log_deviation.sum(-1)
    share = log.softmax(1)
    n = share.sum(0)
    return n / x.shape[0], (share.t() @ x) / n[:, None], torch.logsumexp(log, 1).mean()


def overlaps(a: Tensor, b: Tensor) -> object:
    """Intersection over union of all pairs of boxes."""
    low, high = torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])
    size = lambda v: (v[..., 2] - v[..., 0]) * (v[..., 3] - v[..., 1])
    common = (high - low).clamp(min=0).prod(-1)
    return common / (size(a)[:, None] + size(b)[None] - common)


def adam(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> object:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-3 * (m / 0.1) / (torch.sqrt(v / 0.001) + 1e-8) - 1e-5 * p, m, v


def revenue(quantity: Tensor, price: Tensor, discount: Tensor, shipped: Tensor) -> object:
    """A filter and two sums over columns, in f64."""
    keep = (shipped >= 100) & (shipped < 465) & (discount >= 0.05) & (discount <= 0.07) & (quantity < 24)
    return torch.where(keep, price * discount, torch.zeros_like(price)).sum(), keep.to(torch.int64).sum()


def thumbnails(x: Tensor) -> object:
    y = F.interpolate(x.permute(0, 3, 1, 2).float() / 255, size=(224, 224), mode="bilinear", align_corners=False)
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return (y - mean[:, None, None]) / deviation[:, None, None]


def segments(x: Tensor) -> object:
    y = F.interpolate(x, scale_factor=4, mode="bilinear", align_corners=False)
    return y.argmax(1), y.softmax(1).amax(1)


def edges(nodes: int, width: int, count: int) -> Inputs:
    """Every node to itself, and `count` at random."""
    ends = lambda: torch.cat((torch.arange(nodes), torch.randint(0, nodes, (count,))))
    return torch.randn(nodes, width), ends(), ends()


FIELDS: dict[str, Network] = {
    "conformer": Network(lambda: nn.Sequential(*[ConformerBlock() for _ in range(4)]), normal(1, 200, 144)),
    "temporal convolutions": Network(ChompedConvolutions, normal(8, 8, 400)),
    "state space": Network(StateSpace, normal(1, 64, 64)),
    "radiance field": Network(RadianceField, lambda: (torch.randn(32, 3), torch.randn(32, 3), torch.rand(32, 32).sort(1)[0])),
    "sines": Network(Sines, normal(4096, 2)),
    "flow 1": Network(Flow, normal(1, 32)),
    "flow 512": Network(Flow, normal(512, 32)),
    "edge attention": Network(EdgeAttention, lambda: edges(300, 32, 2000)),
    "graph isomorphism": Network(Isomorphism, lambda: edges(200, 64, 1300)),
    "spectral mixing": Network(SpectralMixing, normal(1, 64, 128)),
    "linear attention": Network(LinearAttention, normal(1, 512, 128)),
    "masked sets": Network(MaskedSets, lambda: (torch.randn(32, 50, 8), (torch.rand(32, 50) > 0.3).float())),
    "style transfer": Network(StyleTransfer, normal(1, 3, 96, 96)),
    "separator": Network(Separator, normal(1, 1, 3924)),
    "standardised weights": Network(StandardisedWeights, normal(1, 3, 64, 64)),
    "page rank 400": function(page_rank, lambda: ((torch.rand(400, 400) < 0.02).float(), torch.full((400, 1), 1 / 400))),
    "logistic steps": function(logistic_steps, lambda: (torch.randn(1000, 32), torch.zeros(32, 1), (torch.rand(1000, 1) > 0.5).float())),
    "poisson factors": function(poisson_factors, lambda: (torch.rand(500, 400), torch.rand(500, 10), torch.rand(10, 400))),
    "heat 128": function(heat, lambda: (torch.rand(1, 1, 128, 128),)),
    "mixture step": function(mixture_step, lambda: (torch.randn(5000, 8), torch.randn(16, 8), torch.zeros(16, 8), torch.zeros(16))),
    "overlaps 200x300": function(overlaps, lambda: (torch.rand(200, 4), torch.rand(300, 4))),
    "adam 1000000": function(adam, lambda: tuple(torch.rand(1000000) for _ in range(4))),
    "revenue 60000": function(revenue, lambda: (torch.rand(60000, dtype=torch.float64) * 50, torch.rand(60000, dtype=torch.float64) * 1e5,
                                                torch.rand(60000, dtype=torch.float64) * 0.1, torch.randint(0, 1000, (60000,)))),
    "thumbnails": function(thumbnails, lambda: (torch.randint(0, 256, (1, 480, 640, 3), dtype=torch.uint8),)),
    "segments": function(segments, normal(1, 21, 64, 64)),
}
