"""Networks of many fields for networks.py: how to make each, and what to feed it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Inputs = tuple[Tensor, ...]


@dataclass
class Network:
    make: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]


class Lambda(nn.Module):
    """A function of tensors, as a module without weights."""

    def __init__(self, function: Callable[..., object]):
        super().__init__()
        self.function = function

    def forward(self, *x: Tensor) -> object:
        return self.function(*x)


def normal(*dims: int) -> Callable[[], Inputs]:
    return lambda: (torch.randn(dims),)


class SelfAttention(nn.Module):
    """Written by hand: scores, a mask given or causal, softmax."""

    def __init__(self, width: int, heads: int, causal: bool = False, groups: int = 0):
        super().__init__()
        self.heads, self.causal, self.groups = heads, causal, groups or heads
        self.size = width // heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * self.groups * self.size)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, w = x.shape
        q = self.q(x).view(b, t, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(x).view(b, t, 2, self.groups, self.size).unbind(2)
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        if self.groups != self.heads:
            k = k.repeat_interleave(self.heads // self.groups, 1)
            v = v.repeat_interleave(self.heads // self.groups, 1)
        s = q @ k.transpose(-1, -2) / math.sqrt(self.size)
        if self.causal:
            s = s + torch.triu(torch.full((t, t), torch.finfo(x.dtype).min, dtype=x.dtype), 1)
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, w))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool = False, act: Callable[[Tensor], Tensor] = F.gelu, groups: int = 0):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads, causal, groups)
        self.up, self.down, self.act = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), act

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.n1(x))
        return x + self.down(self.act(self.up(self.n2(x))))


class GPT(nn.Module):
    def __init__(self, layers: int = 4, width: int = 384, heads: int = 6):
        super().__init__()
        self.words, self.places = nn.Embedding(5000, width), nn.Embedding(512, width)
        self.blocks = nn.Sequential(*[Block(width, heads, True, lambda v: F.gelu(v, approximate="tanh")) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 5000, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


class RMSNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class LlamaBlock(nn.Module):
    """Grouped keys, rotary embedding by halves, gated SiLU."""

    def __init__(self, width: int = 512, heads: int = 8, groups: int = 2, hidden: int = 1376):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.n1, self.n2 = RMSNorm(width), RMSNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, groups * self.size, bias=False)
        self.v = nn.Linear(width, groups * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = (nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False),
                                         nn.Linear(hidden, width, bias=False))

    @staticmethod
    def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    def forward(self, x: Tensor) -> Tensor:
        b, t, w = x.shape
        angle = torch.arange(t)[:, None] / 10000 ** (torch.arange(self.size // 2) * 2 / self.size)
        angle = torch.cat((angle, angle), -1)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        h = self.n1(x)
        q = self.rotate(self.q(h).view(b, t, self.heads, -1).transpose(1, 2), cos, sin)
        k = self.rotate(self.k(h).view(b, t, self.groups, -1).transpose(1, 2), cos, sin)
        v = self.v(h).view(b, t, self.groups, -1).transpose(1, 2)
        k, v = (u[:, :, None].expand(-1, -1, self.heads // self.groups, -1, -1).reshape(b, self.heads, t, self.size) for u in (k, v))
        s = q @ k.transpose(-1, -2) * self.size ** -0.5
        s = s.masked_fill(torch.triu(torch.ones(t, t), 1).bool(), float("-inf"))
        x = x + self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, w))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Mixer(nn.Module):
    def __init__(self, tokens: int = 64, width: int = 256, layers: int = 4):
        super().__init__()
        mlp = lambda n, k: nn.Sequential(nn.LayerNorm(n), nn.Linear(n, k), nn.GELU(), nn.Linear(k, n))
        self.a, self.b = (nn.ModuleList([mlp(tokens, 128) for _ in range(layers)]),
                          nn.ModuleList([mlp(width, 1024) for _ in range(layers)]))

    def forward(self, x: Tensor) -> Tensor:
        for a, b in zip(self.a, self.b):
            x = x + a(x.transpose(1, 2)).transpose(1, 2)
            x = x + b(x)
        return x


class WaveNet(nn.Module):
    """Dilated causal convolutions, gated."""

    def __init__(self, channels: int = 64, layers: int = 8):
        super().__init__()
        self.first = nn.Conv1d(1, channels, 1)
        self.dilated = nn.ModuleList([nn.Conv1d(channels, 2 * channels, 2, dilation=2**k) for k in range(layers)])
        self.mix = nn.ModuleList([nn.Conv1d(channels, channels, 1) for _ in range(layers)])
        self.last = nn.Conv1d(channels, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        x, skip = self.first(x), 0
        for k, (dilated, mix) in enumerate(zip(self.dilated, self.mix)):
            a, b = dilated(F.pad(x, (2**k, 0))).chunk(2, 1)
            h = mix(torch.tanh(a) * torch.sigmoid(b))
            x, skip = x + h, skip + h
        return self.last(F.relu(skip))


class Recommender(nn.Module):
    """Embeddings, pairwise products, towers."""

    def __init__(self, fields: int = 26, size: int = 16):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(1000, size) for _ in range(fields)])
        self.bottom = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, size), nn.ReLU())
        n = fields + 1
        self.register_buffer("pairs", torch.tensor([i * n + j for i in range(n) for j in range(i)]))
        self.top = nn.Sequential(nn.Linear(size + n * (n - 1) // 2, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense: Tensor, ids: Tensor) -> Tensor:
        d = self.bottom(dense)
        e = torch.stack([d] + [t(ids[:, k]) for k, t in enumerate(self.tables)], 1)
        z = (e @ e.transpose(1, 2)).flatten(1)[:, self.pairs]
        return torch.sigmoid(self.top(torch.cat((d, z), 1)))


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        layer = lambda i, o: nn.Sequential(nn.Conv1d(i, o, 1), nn.BatchNorm1d(o), nn.ReLU())
        self.points = nn.Sequential(layer(3, 64), layer(64, 128), layer(128, 512))
        self.head = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 40))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.points(x).amax(2)).log_softmax(-1)


class GraphConv(nn.Module):
    """Two layers over a dense adjacency, normalised here."""

    def __init__(self, width: int = 64):
        super().__init__()
        self.w1, self.w2 = nn.Linear(width, width), nn.Linear(width, 7)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        a = adjacency + torch.eye(adjacency.shape[0])
        d = a.sum(1).rsqrt()
        a = d[:, None] * a * d[None, :]
        return (a @ self.w2(F.elu(a @ self.w1(x)))).softmax(-1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(2000, 100)
        self.lstm = nn.LSTM(100, 128, 2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(256, 20)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.lstm(self.words(ids))[0]).log_softmax(-1)


class Denoiser(nn.Module):
    """Convolution, GRU, convolution: audio frames."""

    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv1d(65, 96, 3, padding=1), nn.ELU(), nn.BatchNorm1d(96))
        self.gru = nn.GRU(96, 96, 2, batch_first=True)
        self.mask = nn.Linear(96, 65)

    def forward(self, x: Tensor) -> Tensor:
        p = torch.log1p(x * x)
        h = self.gru(self.enc(p).transpose(1, 2))[0]
        return x * torch.sigmoid(self.mask(h)).transpose(1, 2)


class Experts(nn.Module):
    """All experts, weighted by their gates."""

    def __init__(self, width: int = 128, experts: int = 8):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.w1 = nn.Parameter(torch.randn(experts, width, 256) * 0.05)
        self.w2 = nn.Parameter(torch.randn(experts, 256, width) * 0.05)

    def forward(self, x: Tensor) -> Tensor:
        g = self.gate(x).softmax(-1)
        h = F.silu(torch.einsum("td,edh->eth", x, self.w1))
        return torch.einsum("te,etd->td", g, torch.einsum("eth,ehd->etd", h, self.w2))


class Decoder2d(nn.Module):
    def __init__(self):
        super().__init__()
        up = lambda i, o: nn.Sequential(nn.ConvTranspose2d(i, o, 4, 2, 1), nn.BatchNorm2d(o), nn.LeakyReLU(0.2))
        self.first = nn.Linear(64, 128 * 4 * 4)
        self.body = nn.Sequential(up(128, 64), up(64, 32), up(32, 16), nn.Conv2d(16, 3, 3, padding=1), nn.Tanh())

    def forward(self, z: Tensor) -> Tensor:
        return self.body(self.first(z).view(-1, 128, 4, 4))


class SuperResolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(),
                                  nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class Speech(nn.Module):
    """Convolutions over frames in front of transformer blocks."""

    def __init__(self, width: int = 256):
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(80, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, padding=1)
        self.blocks = nn.Sequential(*[Block(width, 4) for _ in range(3)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.c2(F.gelu(self.c1(x)))).transpose(1, 2)
        return self.norm(self.blocks(x))


def relu_margin(x: Tensor, w: Tensor, y: Tensor) -> object:
    """Gradient and value of an L2 support vector machine."""
    out = torch.relu(1 - y * (x @ w))
    return 0.5 * (out * out).sum() + 0.5 * (w * w).sum(), w - x.t() @ (out * y)


def poisson(x: Tensor, w: Tensor, y: Tensor) -> object:
    """Gradient and diagonal of the Hessian of Poisson regression."""
    mu = torch.exp(x @ w)
    return x.t() @ (mu - y), ((x * x) * mu).sum(0)


def standardise(x: Tensor) -> object:
    m = x.mean(0)
    c = x - m
    return c / torch.sqrt((c * c).sum(0) / (x.shape[0] - 1) + 1e-6)


def cosine(x: Tensor, y: Tensor) -> object:
    return F.normalize(x, dim=-1) @ F.normalize(y, dim=-1).t()


def factorisation(x: Tensor, u: Tensor, v: Tensor) -> object:
    """Gradient of weighted factorisation: (W * (U V' - X)) V."""
    return ((x != 0) * (u @ v.t() - x)) @ v


def black_scholes(s: Tensor, k: Tensor, t: Tensor) -> object:
    n = lambda v: 0.5 * (1 + torch.erf(v / math.sqrt(2)))
    d1 = (torch.log(s / k) + (0.03 + 0.02) * t) / (0.2 * torch.sqrt(t))
    return s * n(d1) - k * torch.exp(-0.03 * t) * n(d1 - 0.2 * torch.sqrt(t))


def boxes(deltas: Tensor, anchors: Tensor, scores: Tensor) -> object:
    """Boxes of a detector from what it predicts, as corners, cut to the image, with scores."""
    a, d = anchors, deltas
    w, h = a[:, 2] - a[:, 0], a[:, 3] - a[:, 1]
    x, y = a[:, 0] + 0.5 * w + d[..., 0] * w, a[:, 1] + 0.5 * h + d[..., 1] * h
    w, h = w * d[..., 2].clamp(max=4.1).exp(), h * d[..., 3].clamp(max=4.1).exp()
    out = torch.stack((x - 0.5 * w, y - 0.5 * h, x + 0.5 * w, y + 0.5 * h), -1).clamp(0, 1)
    return out, scores.sigmoid()


def mel(x: Tensor, bank: Tensor) -> object:
    """Log-mel features of spectra given as pairs, per-utterance normalised."""
    power = (x * x).sum(-1)
    m = torch.log(power @ bank + 1e-6)
    return (m - m.mean(1, keepdim=True)) / (m.std(1, keepdim=True) + 1e-5)


def vision(name: str, size: int = 224, channels: int = 3) -> Network:
    def make() -> nn.Module:
        import torchvision
        return getattr(torchvision.models, name)(weights=None)
    return Network(make, normal(1, channels, size, size))


def function(f: Callable[..., object], inputs: Callable[[], Inputs]) -> Network:
    return Network(lambda: Lambda(f), inputs)


def labels(*dims: int) -> Tensor:
    return torch.sign(torch.randn(dims))


NETWORKS: dict[str, Network] = {
    "squeezenet1_1": vision("squeezenet1_1"),
    "shufflenet_v2_x1_0": vision("shufflenet_v2_x1_0"),
    "mobilenet_v3_small": vision("mobilenet_v3_small"),
    "mnasnet0_5": vision("mnasnet0_5"),
    "efficientnet_b0": vision("efficientnet_b0"),
    "regnet_y_400mf": vision("regnet_y_400mf"),
    "resnet18": vision("resnet18"),
    "densenet121": vision("densenet121"),
    "googlenet": vision("googlenet"),
    "convnext_tiny": vision("convnext_tiny"),
    "swin_t": vision("swin_t"),
    "vit_b_16": vision("vit_b_16"),
    "gpt 1": Network(GPT, lambda: (torch.randint(0, 5000, (1, 1)),)),
    "gpt 64": Network(GPT, lambda: (torch.randint(0, 5000, (1, 64)),)),
    "gpt 256": Network(GPT, lambda: (torch.randint(0, 5000, (1, 256)),)),
    "llama block 1": Network(LlamaBlock, normal(1, 1, 512)),
    "llama block 100": Network(LlamaBlock, normal(1, 100, 512)),
    "speech encoder": Network(Speech, normal(1, 80, 300)),
    "mixer": Network(Mixer, normal(2, 64, 256)),
    "experts": Network(Experts, normal(48, 128)),
    "wavenet": Network(WaveNet, normal(1, 1, 1000)),
    "recommender 1": Network(Recommender, lambda: (torch.randn(1, 13), torch.randint(0, 1000, (1, 26)))),
    "recommender 128": Network(Recommender, lambda: (torch.randn(128, 13), torch.randint(0, 1000, (128, 26)))),
    "pointnet": Network(PointNet, normal(1, 3, 1024)),
    "graph convolution": Network(GraphConv, lambda: (torch.randn(500, 64), (torch.rand(500, 500) < 0.02).float())),
    "tagger": Network(Tagger, lambda: (torch.randint(0, 2000, (4, 30)),)),
    "denoiser": Network(Denoiser, normal(1, 65, 100)),
    "decoder 2d": Network(Decoder2d, normal(4, 64)),
    "super resolution": Network(SuperResolution, normal(1, 1, 96, 96)),
    "l2svm 200x50": function(relu_margin, lambda: (torch.randn(200, 50), torch.randn(50, 1) * 0.1, labels(200, 1))),
    "l2svm 50000x50": function(relu_margin, lambda: (torch.randn(50000, 50), torch.randn(50, 1) * 0.1, labels(50000, 1))),
    "poisson 20000x64": function(poisson, lambda: (torch.randn(20000, 64), torch.randn(64, 1) * 0.1, torch.rand(20000, 1))),
    "standardise 5000x100": function(standardise, normal(5000, 100)),
    "cosine 64x256x300": function(cosine, lambda: (torch.randn(64, 256), torch.randn(300, 256))),
    "factorisation 1000x800": function(factorisation, lambda: (F.dropout(torch.randn(1000, 800), 0.9), torch.randn(1000, 16), torch.randn(800, 16))),
    "black-scholes 100": function(black_scholes, lambda: (1 + torch.rand(100), 1 + torch.rand(100), 0.1 + torch.rand(100))),
    "black-scholes 100000": function(black_scholes, lambda: (1 + torch.rand(100000), 1 + torch.rand(100000), 0.1 + torch.rand(100000))),
    "boxes 3000": function(boxes, lambda: (torch.randn(1, 3000, 4) * 0.1, torch.rand(3000, 4), torch.randn(1, 3000, 20))),
    "mel 300": function(mel, lambda: (torch.randn(1, 300, 201, 2), torch.rand(201, 80))),
}
