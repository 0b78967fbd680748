# SPDX-License-Identifier: Apache-2.0
"""Makes networks: those of torchvision if it is installed, else the same networks from this file. "tiny" is always from this file.

ResNet: He et al., Deep Residual Learning for Image Recognition, 2015, with the stride in the 3x3 convolution. MobileNetV3 small: Howard et al., Searching
for MobileNetV3, 2019, table 2.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

# One row per block: kernel size, expanded channels, channels, squeeze and excitation, hard swish (otherwise ReLU), stride
_MOBILENET_V3_SMALL = (
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 2),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1),
    (5, 576, 96, True, True, 1),
)


def unit(
    inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1, act: nn.Module | None = None, eps: float = 1e-5
) -> nn.Sequential:
    """Returns a convolution with batch normalisation and activation."""
    layers: list[nn.Module] = [
        nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outside, eps=eps, momentum=0.1 if eps == 1e-5 else 0.01),
    ]
    return nn.Sequential(*layers, act) if act is not None else nn.Sequential(*layers)


class Residual(nn.Module):
    """Computes activation(body(x) + shortcut(x))."""

    def __init__(self, body: nn.Module, shortcut: nn.Module, act: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut, self.act = body, shortcut, act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.body(x) + self.shortcut(x))


def _block(inside: int, width: int, stride: int, bottleneck: bool) -> Residual:
    relu = partial(nn.ReLU, inplace=True)
    outside = 4 * width if bottleneck else width
    if bottleneck:
        body = nn.Sequential(unit(inside, width, 1, act=relu()), unit(width, width, 3, stride, act=relu()), unit(width, outside, 1))
    else:
        body = nn.Sequential(unit(inside, width, 3, stride, act=relu()), unit(width, outside, 3))
    nn.init.zeros_(body[-1][1].weight)  # each block starts as the identity
    same = stride == 1 and inside == outside
    return Residual(body, nn.Identity() if same else unit(inside, outside, 1, stride), relu())


def resnet(depths: tuple[int, ...], bottleneck: bool, classes: int = 1000, width: int = 64) -> nn.Sequential:
    """Returns a ResNet of four stages. depths: number of blocks of each stage."""
    layers: list[nn.Module] = [unit(3, width, 7, 2, act=nn.ReLU(inplace=True)), nn.MaxPool2d(3, 2, 1)]
    inside = width
    for stage, depth in enumerate(depths):
        for i in range(depth):
            layers.append(_block(inside, width << stage, 2 if stage and not i else 1, bottleneck))
            inside = (width << stage) * (4 if bottleneck else 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes))


class Excitation(nn.Module):
    """Scales each channel by a factor that is computed from the means of all channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = max(8, int(channels / 4 + 4) // 8 * 8)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(squeezed, channels, 1),
            nn.Hardsigmoid(inplace=True),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(x)


def mobilenet_v3_small(classes: int = 1000) -> nn.Sequential:
    unit_ = partial(unit, eps=1e-3)
    swish = partial(nn.Hardswish, inplace=True)
    layers: list[nn.Module] = [unit_(3, 16, 3, 2, act=swish())]
    inside = 16
    for kernel, wide, outside, excite, swishes, stride in _MOBILENET_V3_SMALL:
        act = swish if swishes else partial(nn.ReLU, inplace=True)
        body: list[nn.Module] = [unit_(inside, wide, 1, act=act())] if wide != inside else []
        body.append(unit_(wide, wide, kernel, stride, groups=wide, act=act()))
        body += [Excitation(wide)] if excite else []
        body.append(unit_(wide, outside, 1))
        whole = nn.Sequential(*body)
        layers.append(Residual(whole, nn.Identity(), nn.Identity()) if stride == 1 and inside == outside else whole)
        inside = outside
    head = [nn.Linear(576, 1024), swish(), nn.Dropout(0.2), nn.Linear(1024, classes)]
    return nn.Sequential(*layers, unit_(inside, 576, 1, act=swish()), nn.AdaptiveAvgPool2d(1), nn.Flatten(), *head)


OWN = {
    "resnet18": partial(resnet, (2, 2, 2, 2), False),
    "resnet50": partial(resnet, (3, 4, 6, 3), True),
    "mobilenet_v3_small": mobilenet_v3_small,
    "tiny": partial(resnet, (1, 1), False, width=8),  # trains on a CPU, to try the loop
}


def make(name: str, classes: int = 1000) -> nn.Module:
    if name != "tiny":
        try:
            from torchvision import models
        except (ImportError, RuntimeError):  # torchvision raises a RuntimeError if it was built for another version of torch
            pass
        else:
            made: nn.Module = models.get_model(name, num_classes=classes)
            return made
    if name not in OWN:
        raise SystemExit(f"there is no network {name!r}: {', '.join(OWN)}, or install torchvision")
    return OWN[name](classes=classes)
