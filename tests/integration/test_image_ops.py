# SPDX-License-Identifier: Apache-2.0
"""The operations on pictures, against torchvision's functional calls on PIL images."""

import csv
import math
import os
import random
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from picture_program import run_pictures

F = pytest.importorskip('torchvision.transforms.functional')

ROOT = Path(__file__).resolve().parents[2]
CASES = Path(os.environ.get('STOKER_CASES', ROOT / '../shared/cases'))

(RESIZE, RESIZE_SHORTER, CENTER_CROP, PAD, TO_L, TO_RGB, CROP, FLIP_HORIZONTAL, FLIP_VERTICAL, ROTATE,
 AFFINE, BRIGHTNESS, CONTRAST, SATURATION, HUE, GREY, BLUR) = range(1, 18)
FIELDS = dict(kind=0, filter=0, width=0, height=0, shorter=0, longer_max=0, left=0, top=0, right=0,
              bottom=0, mode=0, fill_0=0, fill_1=0, fill_2=0, expand=0, has_centre=0, centre_x=0.0,
              centre_y=0.0, angle=0.0, translate_x=0, translate_y=0, scale=0.0, shear_x=0.0,
              shear_y=0.0, factor=0.0, kernel_width=0, kernel_height=0, sigma=0.0)
MODES = {'nearest': F.InterpolationMode.NEAREST, 'bilinear': F.InterpolationMode.BILINEAR,
         'bicubic': F.InterpolationMode.BICUBIC}
FILTERS = list(MODES)


class Op:
    """One operation: the call to torchvision, and the numbers that image_op_run reads."""

    def __init__(self, theirs, kind, what='', **fields):
        self.theirs, self.kind, self.what = theirs, kind, what
        self.fields = {**FIELDS, 'kind': kind, **fields}
        assert len(self.fields) == len(FIELDS)

    def numbers(self):
        return ' '.join(v.hex() if isinstance(v, float) else str(v) for v in self.fields.values())

    def __repr__(self):
        changed = {k: v for k, v in self.fields.items() if v != FIELDS[k]}
        return f'{self.what or self.theirs} {changed}'


def crop(top, left, height, width):
    return Op(lambda image: F.crop(image, top, left, height, width), CROP, 'crop', top=top, left=left,
              height=height, width=width)


def hflip():
    return Op(F.hflip, FLIP_HORIZONTAL)


def vflip():
    return Op(F.vflip, FLIP_VERTICAL)


def fills(fill):
    values = fill if isinstance(fill, tuple) else (fill or 0,) * 3
    return {f'fill_{i}': int(v) for i, v in enumerate(values)}


def centres(centre):
    return {} if centre is None else {
        'has_centre': 1, 'centre_x': float(centre[0]), 'centre_y': float(centre[1])}


def rotate(angle, filter='nearest', expand=False, centre=None, fill=None):
    return Op(lambda image: F.rotate(image, angle, MODES[filter], expand, centre, fill), ROTATE, 'rotate',
              angle=float(angle), filter=FILTERS.index(filter) + 1, expand=int(expand),
              **centres(centre), **fills(fill))


def affine(angle, translate, scale, shear, filter='nearest', fill=None, centre=None):
    return Op(lambda image: F.affine(image, angle, list(translate), scale, list(shear), MODES[filter],
                                     fill, centre), AFFINE, 'affine',
              angle=float(angle), translate_x=translate[0], translate_y=translate[1],
              scale=float(scale), shear_x=float(shear[0]), shear_y=float(shear[1]),
              filter=FILTERS.index(filter) + 1, **centres(centre), **fills(fill))


def brightness(factor):
    return Op(lambda image: F.adjust_brightness(image, factor), BRIGHTNESS, factor=float(factor))


def contrast(factor):
    return Op(lambda image: F.adjust_contrast(image, factor), CONTRAST, factor=float(factor))


def saturation(factor):
    return Op(lambda image: F.adjust_saturation(image, factor), SATURATION, factor=float(factor))


def hue(factor):
    return Op(lambda image: F.adjust_hue(image, factor), HUE, factor=float(factor))


def grey():
    return Op(lambda image: F.rgb_to_grayscale(image, len(image.getbands())), GREY)


def blur(kernel_width, kernel_height, sigma):
    return Op(lambda image: F.gaussian_blur(image, [kernel_width, kernel_height], sigma), BLUR, 'blur',
              kernel_width=kernel_width, kernel_height=kernel_height, sigma=float(sigma))


def resize(height, width):
    return Op(lambda image: F.resize(image, [height, width]), RESIZE, filter=2, width=width,
              height=height)


def pad(sides, fill):
    return Op(lambda image: F.pad(image, sides, fill), PAD, mode=1, left=sides[0], top=sides[1],
              right=sides[2], bottom=sides[3], **fills(fill))


def run(requests):
    """The answers to (u8 H,W[,3] array, operations) each: an array, or the text of a refusal."""
    return run_pictures('image_op_run', [
        (array, [len(ops), *(op.numbers() for op in ops)]) for array, ops in requests])


def torchvisions(array, ops):
    image = Image.fromarray(array)
    for op in ops:
        image = op.theirs(image)
    return np.asarray(image)


def difference(ours, theirs, tolerance):
    if isinstance(ours, str):
        return ours
    if ours.shape != theirs.shape:
        return f'{ours.shape}, not {theirs.shape}'
    apart = np.abs(ours.astype(int) - theirs)
    if apart.size and apart.max() > tolerance:
        return f'{(apart > tolerance).sum()} bytes differ, by {apart.max()} at most'
    return None


def check(requests, tolerance=0):
    """With a tolerance, one byte in a thousand may use it."""
    wrong, size, apart = [], 0, 0
    for (array, ops), ours in zip(requests, run(requests)):
        theirs = torchvisions(array, ops)
        what = difference(ours, theirs, tolerance)
        if what is not None:
            wrong.append(f'{array.shape} {ops}: {what}')
        else:
            size += theirs.size
            apart += (ours != theirs).sum()
    assert not wrong, f'{len(wrong)} of {len(requests)}:\n' + '\n'.join(wrong[:20])
    assert apart <= size / 1000


def picture(rng, height, width, channels):
    """Noise, and in a third of them each only black and white, or flat parts."""
    shape = (height, width) if channels == 1 else (height, width, 3)
    pixels = rng.integers(0, 256, shape, np.uint8)
    kind = rng.integers(3)
    if kind == 0:
        return (pixels & 1) * np.uint8(255)
    return pixels if kind == 1 else np.sort(pixels // 64 * 85, axis=1)


def pictures(seed, count, most=120):
    rng = np.random.default_rng(seed)
    draw = random.Random(seed)
    for _ in range(count):
        height, width = (draw.choice([1, 2, 3, 4, 5, 16, 31, 64, draw.randrange(1, most)])
                         for _ in range(2))
        yield draw, picture(rng, height, width, draw.choice([1, 3]))


def test_crop_and_flips():
    requests = []
    for draw, array in pictures(1, 300):
        height, width = array.shape[:2]
        requests.append((array, [crop(*(draw.randrange(0, 2 * n) for n in (height, width)),
                                      *(draw.randrange(1, 2 * n + 2) for n in (height, width)))]))
        requests.append((array, [hflip()]))
        requests.append((array, [vflip()]))
        requests.append((array, [hflip(), vflip(), pad([1, 2, 3, 4], 7), crop(1, 2, height, width)]))
    check(requests)


def test_a_crop_of_a_resized_picture():
    """Only the pixels that the crop leaves are made, if it leaves only pixels."""
    requests = []
    for draw, array in pictures(2, 300):
        height, width = draw.randrange(1, 60), draw.randrange(1, 60)
        requests.append((array, [resize(height, width), crop(
            draw.randrange(0, height), draw.randrange(0, width),
            draw.randrange(1, height + 2), draw.randrange(1, width + 2))]))
    check(requests)


def random_fill(draw, array):
    if draw.randrange(3) == 0:
        return None
    if array.ndim == 2 or draw.randrange(2):
        return draw.randrange(256)
    return (draw.randrange(256), draw.randrange(256), draw.randrange(256))


def random_centre(draw, array):
    kind = draw.randrange(4)
    height, width = array.shape[:2]
    if kind == 0:
        return [draw.randrange(-5, width + 5), draw.randrange(-5, height + 5)]
    if kind == 1:
        return [draw.uniform(-50, 150), draw.uniform(-50, 150)]
    return None


def random_angle(draw):
    kind = draw.randrange(4)
    if kind == 0:
        return draw.choice([0, 45, 90, 180, 270, 360, -90, -180, -270, -45, 30, 450, 1e-9, -1e-20, 720])
    if kind == 1:
        return draw.uniform(-0.5, 0.5)
    return draw.uniform(-400, 400)


@pytest.mark.parametrize('filter', FILTERS)
def test_rotate(filter):
    check([(array, [rotate(random_angle(draw), filter, draw.randrange(2), random_centre(draw, array),
                           random_fill(draw, array))])
           for draw, array in pictures(3, 1200)])


@pytest.mark.parametrize('filter', FILTERS)
def test_every_angle_of_expanded_pictures(filter):
    rng = np.random.default_rng(4)
    draw = random.Random(5)
    check([(picture(rng, draw.randrange(1, 40), draw.randrange(1, 40), 1),
            [rotate(degrees, filter, True)]) for degrees in range(-360, 721)])


@pytest.mark.parametrize('filter', FILTERS)
def test_affine(filter):
    requests = []
    for draw, array in pictures(6, 1200):
        height, width = array.shape[:2]
        kind = draw.randrange(6)
        shear = [0, 0] if kind == 0 else [draw.uniform(-80, 80), 0] if kind == 1 else [
            draw.uniform(-60, 60), draw.uniform(-60, 60)]
        requests.append((array, [affine(
            0 if draw.randrange(4) == 0 else random_angle(draw),
            [draw.randrange(-width, width + 1), draw.randrange(-height, height + 1)],
            draw.choice([1, 0.5, 2, draw.uniform(0.05, 1), draw.uniform(1, 10)]), shear, filter,
            random_fill(draw, array), random_centre(draw, array))]))
    check(requests)


def test_affine_of_pictures_only_scaled():
    """Pillow adds up doubles then, in place of 16 bits behind the point."""
    check([(array, [affine(0, [draw.randrange(-3, 4), 0], draw.choice([
        draw.randrange(1, 40) / draw.randrange(1, 40), draw.uniform(0.5, 2)]), [0, 0], 'nearest', 9,
        draw.choice([None, [0, 0], [0.5, 0.5]]))]) for draw, array in pictures(16, 600, 700)])


@pytest.mark.parametrize('filter', FILTERS)
def test_affine_far_away(filter):
    """Points beyond 16 bits, where Pillow goes another way, and shears of nearly a quarter turn."""
    requests = []
    for draw, array in pictures(7, 300):
        angle, scale, shear = draw.uniform(-180, 180), draw.choice([1e-6, 1e-3, 0.01, 1, 1e6]), [
            draw.choice([0, 10, 89.999, 90, -90]), draw.choice([0, 5, 89.99, 90])]
        translate = [draw.choice([0, 1, 40000, -(1 << 28)]), draw.choice([0, -1, 1 << 28])]
        centre = draw.choice([None, [1e5, -1e5], [40000.5, 2], [-3e7, 1e8]])
        requests.append((array, [affine(angle, translate, scale, shear, filter, 9, centre)]))
        requests.append((array, [affine(angle, [0, 0], scale, [0, 0], filter, 9, None)]))
        requests.append((array, [rotate(angle, filter, False, centre, 9)]))
    long = np.random.default_rng(8).integers(0, 256, (3, 40000), np.uint8)
    for angle in (0.001, -0.001, 1, 90, 180.001):
        requests.append((long, [rotate(angle, filter)]))
        requests.append((long, [affine(angle, [3, 0], 1.01, [0, 0], filter)]))
    check(requests)


FACTORS = [0, 1, 0.5, 2, 1e-3, 0.999999999, 1.0000001, 255, 1e6, -1, -0.25]


@pytest.mark.parametrize('adjust', [brightness, contrast, saturation])
def test_factors(adjust):
    check([(array, [adjust(draw.choice([*FACTORS, draw.uniform(0, 1), draw.uniform(0, 2.5)]))])
           for draw, array in pictures(9, 600, 300)])


def test_contrast_of_every_mean():
    """Also means that lie in the middle between two values."""
    check([(np.array([[v, v + d]], np.uint8), [contrast(factor)])
           for v in range(255) for d in (0, 1) for factor in (0, 0.5)])


def test_hue():
    check([(array, [hue(draw.choice([0, 0.5, -0.5, draw.uniform(-0.5, 0.5)]))])
           for draw, array in pictures(10, 400)])


def colours(step):
    """Each `step`th of all colours, in one picture."""
    codes = np.arange(0, 1 << 24, step, dtype=np.uint32)
    codes = codes[:len(codes) // 1000 * 1000]
    return np.stack([codes >> 16, codes >> 8 & 255, codes & 255], -1).astype(np.uint8).reshape(
        -1, 1000, 3)


@pytest.mark.parametrize('factor', [0, 0.013, 1 / 6, 0.5, -0.31])
def test_hue_of_colours(factor):
    check([(colours(23), [hue(factor)])])


def test_every_byte_of_hue():
    array = colours(5003)
    check([(array, [hue(i / 255)]) for i in range(-127, 128)])


@pytest.mark.parametrize('adjust', [saturation, contrast, brightness])
def test_factors_of_colours(adjust):
    check([(colours(101), [adjust(factor)]) for factor in (0, 0.3, 1, 1.7)])


def test_grey():
    check([(array, [grey()]) for _, array in pictures(11, 100)] + [(colours(23), [grey()])])


def test_blur():
    requests = []
    for draw, array in pictures(12, 400):
        height, width = array.shape[:2]
        kernel = [2 * draw.randrange(0, min(n, 12)) + 1 for n in (width, height)]
        requests.append((array, [blur(*kernel, draw.choice([
            0.1, 1, 2, 1e-6, 1e6, draw.uniform(0.1, 2), draw.uniform(2, 30)]))]))
    rng = np.random.default_rng(13)
    for height, width in [(130, 1000), (200, 171), (513, 128)]:
        requests += [(picture(rng, height, width, c), [blur(kernel, 255, 40)])
                     for c in (1, 3) for kernel in (1, 5)]
    # torch takes seconds for the largest kernel
    requests.append((picture(rng, 128, 129, 1), [blur(255, 255, 40)]))
    check(requests, tolerance=1)


def test_blur_of_a_flat_picture_changes_nothing():
    for value in (0, 1, 128, 254, 255):
        flat = np.full((40, 700, 3), value, np.uint8)
        for ours in run([(flat, [blur(k, 7, sigma)]) for k in (1, 3, 23, 255) for sigma in (0.5, 9)]):
            assert (ours == value).all()


def test_pictures_too_small_to_be_blurred():
    assert run([(np.zeros((3, 9), np.uint8), [blur(5, 7, 1)]),
                (np.zeros((9, 2, 3), np.uint8), [blur(5, 7, 1)]),
                (np.zeros((1, 1), np.uint8), [blur(1, 3, 1)])]) == [
        'bad is 9x3, and GaussianBlur with a kernel of 5x7 takes pictures of at least 3x4',
        'bad is 2x9, and GaussianBlur with a kernel of 5x7 takes pictures of at least 3x4',
        'bad is 1x1, and GaussianBlur with a kernel of 1x3 takes pictures of at least 1x2']
    assert run([(np.zeros((4, 3), np.uint8), [blur(5, 7, 1)])])[0].shape == (4, 3)


def test_results_too_large():
    wide = np.zeros((1, 60000), np.uint8)
    turned = run([(wide, [rotate(45, 'nearest', True), crop(0, 0, 1, 1)]),
                  (wide, [crop(0, 0, 1 << 28, 1 << 28), crop(0, 0, 1, 1)]),
                  (wide, [rotate(90, 'nearest', True)])])
    assert turned[0] == ('bad is 60000x1, and making 42428x42429 of it takes too much memory: make it '
                         'smaller before, for example with Resize')
    assert 'takes too much memory' in turned[1]
    assert turned[2].shape == (60000, 1)


def random_op(draw, array):
    filter = draw.choice(FILTERS)
    height, width = array.shape[:2]
    return draw.choice([
        lambda: hflip(), lambda: vflip(), lambda: grey(),
        lambda: rotate(random_angle(draw), filter, draw.randrange(2), None, random_fill(draw, array)),
        lambda: affine(random_angle(draw), [draw.randrange(-9, 10), draw.randrange(-9, 10)],
                       draw.uniform(0.5, 1.5), [draw.uniform(-20, 20), 0], filter,
                       random_fill(draw, array)),
        lambda: brightness(draw.uniform(0, 2)), lambda: contrast(draw.uniform(0, 2)),
        lambda: saturation(draw.uniform(0, 2)), lambda: hue(draw.uniform(-0.5, 0.5)),
        lambda: crop(draw.randrange(height), draw.randrange(width), draw.randrange(1, 60),
                     draw.randrange(1, 60)),
        lambda: resize(draw.randrange(1, 80), draw.randrange(1, 80))])()


def test_several_in_any_order():
    check([(array, [random_op(draw, array) for _ in range(draw.randrange(1, 8))])
           for draw, array in pictures(14, 600)])


@pytest.fixture(scope='module')
def corpus():
    table = CASES / 'expected.tsv'
    if not table.is_file():
        pytest.skip(f'no {table}; STOKER_CASES names the folder of odd files')
    with open(table, newline='') as lines:
        return [CASES / row['file'] for row in csv.DictReader(
            lines, delimiter='\t', quoting=csv.QUOTE_NONE) if row['class'][0] == 'A']


@pytest.mark.parametrize('mode', ['L', 'RGB'])
def test_the_corpus(corpus, mode):
    """Each file that decodes, in pieces of at most 300 x 300; a few operations on each."""
    draw = random.Random(15)
    requests, blurred = [], []
    for i, name in enumerate(corpus):
        with Image.open(name) as image:
            pixels = np.asarray(image.convert('RGB').convert(mode))
        height, width = pixels.shape[:2]
        top, left = (draw.randrange(max(n - 300, 0) + 1) for n in (height, width))
        pixels = np.ascontiguousarray(pixels[top:top + 300, left:left + 300])
        filter = FILTERS[i % 3]
        requests.append((pixels, [rotate(draw.uniform(-180, 180), filter, i % 2)]))
        requests.append((pixels, [affine(
            draw.uniform(-30, 30), [draw.randrange(-9, 10), draw.randrange(-9, 10)],
            draw.uniform(0.7, 1.4), [draw.uniform(-10, 10), 0], FILTERS[i // 3 % 3])]))
        requests.append((pixels, [brightness(draw.uniform(0.5, 1.5)), contrast(draw.uniform(0.5, 1.5)),
                                  saturation(draw.uniform(0, 2)), hue(draw.uniform(-0.5, 0.5)),
                                  hflip()]))
        if min(pixels.shape[:2]) > 2:
            blurred.append((pixels, [blur(5, 5, draw.uniform(0.1, 2))]))
    assert len(requests) > 1500
    check(requests)
    check(blurred, tolerance=1)


def invalid(op, **fields):
    """The same operation with some other numbers."""
    changed = Op(op.theirs, op.kind, op.what)
    changed.fields = {**op.fields, **fields}
    return changed


def test_numbers_out_of_range_are_refused():
    """Also those that only a stranger on the socket would send."""
    array = np.zeros((5, 5, 3), np.uint8)
    turned, moved = rotate(10), affine(10, [1, 1], 1, [0, 0])
    bad = [invalid(turned, **{name: value}) for name in ('angle',)
           for value in (math.nan, math.inf, -math.inf)]
    bad += [invalid(moved, **{name: value}) for name in ('angle', 'shear_x', 'shear_y', 'scale')
            for value in (math.nan, math.inf, -math.inf)]
    bad += [invalid(adjust(1), factor=value) for adjust in (brightness, contrast, saturation)
            for value in (math.nan, math.inf, 1e7, -1e7)]
    assert run([(array, [op]) for op in bad]) == ['invalid'] * len(bad)
