# SPDX-License-Identifier: Apache-2.0
"""Resize, CenterCrop, Pad and Grayscale, against torchvision's own transforms on PIL images."""

import csv
import itertools
import os
import random
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from picture_program import run_pictures

transforms = pytest.importorskip('torchvision.transforms')
PIL_CONSTANTS = {'nearest': 0, 'lanczos': 1, 'bilinear': 2, 'bicubic': 3, 'box': 4, 'hamming': 5}

ROOT = Path(__file__).resolve().parents[2]
CASES = Path(os.environ.get('STOKER_CASES', ROOT / '../shared/cases'))

GRAYSCALE, RESIZE, CENTER_CROP, PAD = 1, 4, 5, 6
FILTERS = ['nearest', 'bilinear', 'bicubic', 'lanczos', 'box', 'hamming']
MODES = ['constant', 'edge', 'reflect', 'symmetric']


class Step:
    """One transform: for torchvision, and as the numbers that transform_run reads."""

    def __init__(self, theirs, kind, *, channels=0, values=0, op=0, filter=0, width=0, height=0,
                 shorter=0, longer=0, padding=(0, 0, 0, 0), mode=0, fill=(0, 0, 0)):
        self.theirs = theirs
        self.numbers = [kind, channels, values, op, filter, width, height, shorter, longer,
                        *padding, mode, *fill]

    def __repr__(self):
        return repr(self.theirs)


def resize(size, filter='bilinear', max_size=None):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        theirs = transforms.Resize(size, PIL_CONSTANTS[filter], max_size)
    number = FILTERS.index(filter) + 1
    if isinstance(size, int):
        return Step(theirs, RESIZE, op=2, filter=number, shorter=size, longer=max_size or 0)
    return Step(theirs, RESIZE, op=1, filter=number, height=size[0], width=size[1])


def center_crop(height, width):
    return Step(transforms.CenterCrop((height, width)), CENTER_CROP, op=3, height=height,
                width=width)


def pad(left, top, right, bottom, fill=0, mode='constant'):
    fills = (fill,) * 3 if isinstance(fill, int) else fill
    return Step(transforms.Pad((left, top, right, bottom), fill, mode), PAD, op=4,
                padding=(left, top, right, bottom), mode=MODES.index(mode) + 1,
                values=1 if isinstance(fill, int) else 3, fill=fills)


def grayscale(channels=1):
    return Step(transforms.Grayscale(channels), GRAYSCALE, channels=channels)


def run(requests):
    """The answers to (u8 H,W[,3] array, steps) each: an array, or the text of a refusal."""
    return run_pictures('transform_run', [
        (array, [len(steps), *(n for step in steps for n in step.numbers)])
        for array, steps in requests])


def torchvisions(array, steps):
    image = Image.fromarray(array)
    for step in steps:
        image = step.theirs(image)
    return np.asarray(image)


def check(requests):
    wrong = []
    for (array, steps), ours in zip(requests, run(requests)):
        theirs = torchvisions(array, steps)
        if isinstance(ours, str) or ours.shape != theirs.shape or (ours != theirs).any():
            what = ours if isinstance(ours, str) else f'{ours.shape}, not {theirs.shape}' \
                if ours.shape != theirs.shape else f'{(ours != theirs).sum()} bytes differ'
            wrong.append(f'{array.shape} {steps}: {what}')
    assert not wrong, f'{len(wrong)} of {len(requests)}:\n' + '\n'.join(wrong[:20])


def picture(rng, height, width, channels):
    """Noise, and in half of them only black and white, which overshoots the most."""
    shape = (height, width) if channels == 1 else (height, width, 3)
    pixels = rng.integers(0, 256, shape, np.uint8)
    return (pixels & 1) * np.uint8(255) if rng.integers(2) else pixels


EDGES = [1, 2, 3, 5, 7, 16, 31, 64, 100, 255]


@pytest.mark.parametrize('channels', [1, 3])
@pytest.mark.parametrize('filter', FILTERS)
def test_resize_to_both_edges(filter, channels):
    rng = np.random.default_rng(1)
    sizes = random.Random(2)
    requests = []
    for _ in range(300):
        h, w, new_h, new_w = (sizes.choice(EDGES + [sizes.randrange(1, 300)]) for _ in range(4))
        kept = sizes.randrange(6)
        requests.append((picture(rng, h, w, channels), [resize(
            (h if kept in (0, 1) else new_h, w if kept in (0, 2) else new_w), filter)]))
    for h, w, size in [(1, 1, (300, 400)), (1, 3000, (7, 5)), (3000, 1, (5, 7)), (1, 5000, (1, 1)),
                       (999, 1001, (1, 1)), (2000, 3, (3, 2000)), (3, 2000, (2000, 3))]:
        requests.append((picture(rng, h, w, channels), [resize(size, filter)]))
    check(requests)


@pytest.mark.parametrize('filter', FILTERS)
def test_every_small_size(filter):
    rng = np.random.default_rng(3)
    check([(picture(rng, 2, n, 1), [resize((3, m), filter)])
           for n in range(1, 40) for m in range(1, 40)])


def test_resize_of_the_shorter_edge():
    rng = np.random.default_rng(4)
    sizes = random.Random(5)
    requests = []
    for _ in range(400):
        h, w, size = (sizes.randrange(1, 200) for _ in range(3))
        # torchvision refuses sizes that max_size brings down to 0
        longest = size + sizes.randrange(1, 50) if sizes.randrange(2) else None
        if longest and longest * min(h, w) < 2 * max(h, w):
            longest = None
        if size * max(h, w) / min(h, w) < 4000:
            requests.append((picture(rng, h, w, sizes.choice([1, 3])),
                             [resize(size, sizes.choice(FILTERS), longest)]))
    assert len(requests) > 300
    check(requests)


def test_center_crop():
    rng = np.random.default_rng(6)
    check([(picture(rng, h, w, 3 if (h + w) % 2 else 1), [center_crop(new_h, new_w)])
           for h in (1, 2, 5, 6) for w in (1, 4, 7) for new_h in range(1, 12)
           for new_w in range(1, 12)])


@pytest.mark.parametrize('mode', MODES)
def test_pad(mode):
    rng = np.random.default_rng(7)
    sizes = random.Random(8)
    requests = []
    for i in range(300):
        h, w = sizes.randrange(1, 9), sizes.randrange(1, 9)
        # numpy's reflection of paddings beyond the picture itself is for another test
        most = 12 if mode in ('constant', 'edge') else min(h, w) - 1 if mode == 'reflect' else \
            min(h, w)
        sides = [sizes.randrange(0, most + 1) for _ in range(4)]
        fill = 0 if mode != 'constant' else 200 if i % 2 else (1, 128, 255)
        requests.append((picture(rng, h, w, 1 if isinstance(fill, int) and i % 4 == 1 else 3),
                         [pad(*sides, fill, mode)]))
    check(requests)


def mirrored(size, before, after, mode):
    """Indices of a row that is mirrored again and again. np.pad loses its place before numpy 2.0 when
    the paddings of both sides are longer than the row and different."""
    at = np.arange(-before, size + after)
    if size == 1:
        return at * 0
    period = 2 * size - 2 if mode == 'reflect' else 2 * size
    at %= period
    return np.where(at < size, at, period - at - (mode == 'symmetric'))


@pytest.mark.parametrize('mode', ['reflect', 'symmetric'])
def test_pad_by_several_pictures(mode):
    rng = np.random.default_rng(9)
    requests = [(picture(rng, h, w, 1 + 2 * (w % 2)), [pad(*sides, 0, mode)])
                for h in (1, 2, 3, 5) for w in (1, 2, 3, 4) for sides in itertools.product(
                    (0, 1, 5, 9), (0, 7), (0, 2, 11), (0, 13))]
    for (array, steps), ours in zip(requests, run(requests)):
        left, top, right, bottom = steps[0].theirs.padding
        rows = mirrored(array.shape[0], top, bottom, mode)
        columns = mirrored(array.shape[1], left, right, mode)
        assert (ours == array[rows][:, columns]).all(), f'{array.shape} {steps}'


def random_steps(sizes, channels):
    steps, now = [], channels
    for _ in range(sizes.randrange(1, 6)):
        kind = sizes.randrange(7)
        if kind < 2:
            steps.append(resize(sizes.randrange(1, 60), sizes.choice(FILTERS)))
        elif kind == 2:
            steps.append(resize((sizes.randrange(1, 60), sizes.randrange(1, 60)),
                                sizes.choice(FILTERS)))
        elif kind < 5:
            steps.append(center_crop(sizes.randrange(1, 60), sizes.randrange(1, 60)))
        elif kind == 5:
            fill = (sizes.randrange(256), 7, 99) if now == 3 and sizes.randrange(2) else 40
            steps.append(pad(*(sizes.randrange(9) for _ in range(4)), fill))
        else:
            now = sizes.choice([1, 3])
            steps.append(grayscale(now))
    return steps


def test_several_in_any_order():
    rng = np.random.default_rng(10)
    sizes = random.Random(11)
    requests = []
    for _ in range(600):
        channels = sizes.choice([1, 3])
        h, w = sizes.randrange(4, 80), sizes.randrange(4, 80)
        requests.append((picture(rng, h, w, channels), random_steps(sizes, channels)))
    requests = [(array, steps) for array, steps in requests
                if sum(s.numbers[0] != GRAYSCALE for s in steps) <= 4]
    check(requests)


def test_the_usual_pipeline():
    rng = np.random.default_rng(12)
    check([(picture(rng, h, w, c), [resize(256, f), center_crop(224, 224)])
           for h, w in [(375, 500), (500, 375), (256, 256), (224, 300), (100, 2000), (2000, 100),
                        (257, 1001), (28, 28)] for c in (1, 3) for f in FILTERS])


def test_pictures_that_cannot_be_resized():
    flat = np.zeros((1, 60000), np.uint8)
    answers = run([(flat, [resize(2, 'bilinear', 3)]), (flat, [resize(3000)]),
                   (flat, [resize((8, 8)), resize(2000), center_crop(224, 224)]),
                   (flat, [resize(3000), center_crop(224, 224)])])
    assert answers[0].startswith('refused') and "too large" in answers[1] or answers[1].startswith('refused')
    assert answers[2].shape == answers[3].shape == (224, 224)


@pytest.fixture(scope='module')
def corpus():
    table = CASES / 'expected.tsv'
    if not table.is_file():
        pytest.skip(f'no {table}; STOKER_CASES names the folder of odd files')
    with open(table, newline='') as lines:
        return [CASES / row['file'] for row in csv.DictReader(
            lines, delimiter='\t', quoting=csv.QUOTE_NONE)
                if row['class'][0] == 'A' and row['magic'] == 'png']


@pytest.mark.parametrize('grey', [False, True])
def test_the_corpus(corpus, grey):
    """Each PNG file that decodes; that it decodes to these pixels is for test_png_corpus.py."""
    requests = []
    for i, name in enumerate(corpus):
        with Image.open(name) as image:
            pixels = np.asarray(image.convert('RGB').convert('L' if grey else 'RGB'))
        if pixels.size > 6_000_000:
            continue
        size = (i * 37 % 200 + 1, i * 53 % 250 + 1)
        requests.append((pixels, [resize(size, FILTERS[i % 6])]))
        if max(pixels.shape[:2]) < 50 * min(pixels.shape[:2]):
            requests.append((pixels, [resize(64, FILTERS[i // 6 % 6]), center_crop(56, 56)]))
    assert len(requests) > 500
    check(requests)
