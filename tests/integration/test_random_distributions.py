# SPDX-License-Identifier: Apache-2.0
"""What random transforms draw has the distributions of torchvision's get_params."""

import math

import numpy as np
import pytest

from random_steps import (
    T, affine, assert_same_distribution, blur, crop, erasing, horizontal_flip,
    jitter, names, parameters, random_grey, resized_crop, rotation, tensor, torch,
    vertical_flip)


def test_the_comparison_can_fail():
    values = np.random.default_rng(0).uniform(0, 1, 3000)
    assert_same_distribution(values[:1500], values[1500:])
    with pytest.raises(AssertionError):
        assert_same_distribution(values[:1500], values[1500:] ** 1.3)


PICTURE = torch.zeros(1, 24, 32)


def their_erasing(scale, ratio):
    t = T.RandomErasing(0.5, scale, ratio)
    if torch.rand(1) >= t.p:
        return (0, *[math.nan] * 4)
    *region, value = t.get_params(PICTURE, scale, ratio, [0.0])
    # no place found: torchvision puts the whole picture back
    return (0, *[math.nan] * 4) if value.shape == PICTURE.shape else (1, *region)


@pytest.mark.parametrize('step,theirs', [
    (crop((20, 20), padding=[4]),
     lambda: T.RandomCrop.get_params(torch.zeros(1, 32, 40), (20, 20))),
    (resized_crop((8, 8)),
     lambda: T.RandomResizedCrop.get_params(PICTURE, (0.08, 1.0), (3 / 4, 4 / 3))),
    (resized_crop((8, 8), (0.5, 1.5), (0.5, 2)),
     lambda: T.RandomResizedCrop.get_params(PICTURE, (0.5, 1.5), (0.5, 2))),
    (horizontal_flip(0.3), lambda: (float(torch.rand(1) < 0.3),)),
    (vertical_flip(0.9), lambda: (float(torch.rand(1) < 0.9),)),
    (random_grey(0.1), lambda: (float(torch.rand(1) < 0.1),)),
    (rotation((-30, 70)), lambda: (T.RandomRotation.get_params([-30, 70]),)),
    (affine((-30, 70), (0.1, 0.4), (0.5, 2), (-5, 10, 3, 4)),
     lambda: [v for part in T.RandomAffine.get_params(
         [-30, 70], (0.1, 0.4), (0.5, 2), [-5.0, 10.0, 3.0, 4.0], [32, 24])
         for v in (part if isinstance(part, tuple) else (part,))]),
    (jitter((0.2, 1.8), (0.5, 1.5), (0, 2), (-0.1, 0.3)),
     lambda: [float(v) for part in T.ColorJitter.get_params(
         [0.2, 1.8], [0.5, 1.5], [0, 2], [-0.1, 0.3])
         for v in (part.tolist() if isinstance(part, torch.Tensor) else (part,))]),
    (blur((3, 3), (0.1, 2)), lambda: (T.GaussianBlur.get_params(0.1, 2),)),
    (erasing(0.5, (0.02, 0.33), (0.3, 3.3)), lambda: their_erasing((0.02, 0.33), (0.3, 3.3))),
    (erasing(0.5, (0.4, 1), (0.3, 3.3)), lambda: their_erasing((0.4, 1), (0.3, 3.3))),
], ids=names)
def test_distributions(start_daemon, many_folder, step, theirs):
    """6,000 draws of ours against as many of torchvision's get_params, each number on its own and the
    sums and products of two."""
    torch.manual_seed(0)
    steps = [tensor(), step] if step.kind == 10 else [step]
    drawn, _ = parameters(start_daemon({'train': many_folder}), steps, epochs=4, batch_size=500)
    ours = drawn[:, -1, 1:]
    reference = np.array([theirs() for _ in range(len(ours))], float)
    ours = ours[:, :reference.shape[1]]
    assert np.isnan(drawn[:, -1, 1 + reference.shape[1]:]).all()
    ours, reference = np.nan_to_num(ours, nan=-1), np.nan_to_num(reference, nan=-1)
    for i in range(reference.shape[1]):
        assert_same_distribution(ours[:, i], reference[:, i])
        for k in range(i):
            assert_same_distribution(ours[:, i] + ours[:, k], reference[:, i] + reference[:, k])
            assert_same_distribution(ours[:, i] * ours[:, k], reference[:, i] * reference[:, k])


