# SPDX-License-Identifier: Apache-2.0
"""The order of samples equals torch's DistributedSampler, number for number."""

import os
import random
import subprocess
from pathlib import Path

import pytest

torch_data = pytest.importorskip('torch.utils.data', reason='torch is not installed')

ROOT = Path(__file__).resolve().parents[2]
DUMP = Path(os.environ.get('STOKER_BUILD', ROOT / 'build' / 'tests')) / 'tests/unit/order_dump'


def torch_order(samples, world, rank, seed, epoch, shuffle, drop):
    sampler = torch_data.DistributedSampler(
        range(samples), world, rank, shuffle=bool(shuffle), seed=seed, drop_last=bool(drop))
    sampler.set_epoch(epoch)
    return list(sampler)


def stoker_orders(cases):
    lines = ''.join(' '.join(map(str, case)) + '\n' for case in cases)
    run = subprocess.run([DUMP], input=lines, stdout=subprocess.PIPE, text=True, check=True)
    answers = run.stdout.splitlines()
    assert len(answers) == len(cases)
    return [[] if answer == 'refused' else [int(word) for word in answer.split()]
            for answer in answers]


def check(cases):
    for case, order in zip(cases, stoker_orders(cases)):
        # torch's sampler is empty where stoker refuses: shard_drop with fewer samples than ranks
        assert order == torch_order(*case), f'samples world rank seed epoch shuffle drop = {case}'


def test_small_everything():
    """Every rank of every small world, padded and cut, shuffled and not."""
    check([(samples, world, rank, seed, epoch, shuffle, drop)
           for samples in (1, 2, 3, 7, 16)
           for world in (1, 2, 3, 5, 16, 40)
           for rank in range(world)
           for seed, epoch in ((0, 0), (3, 1))
           for shuffle in (0, 1)
           for drop in (0, 1)])


@pytest.mark.parametrize('seed', [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 5,
                                  2**63 - 1, 2**63, 2**64 - 20])
def test_seeds(seed):
    check([(1000, 1, 0, seed, epoch, 1, 0) for epoch in (0, 1, 2, 19)])


def test_random_combinations():
    draw = random.Random(20)
    cases = []
    for _ in range(300):
        world = draw.choice([1, 1, 2, 3, 4, 8, 64])
        cases.append((draw.randint(1, 5000), world, draw.randrange(world), draw.getrandbits(40),
                      draw.randint(0, 1000), draw.randint(0, 1), draw.randint(0, 1)))
    check(cases)


def test_large():
    """Across refills of the generator and with places that take more than 16 bits."""
    check([(60000, 1, 0, 0, 19, 1, 0), (60000, 7, 6, 123, 4, 1, 0), (1000003, 2, 1, 5, 1, 1, 1)])
