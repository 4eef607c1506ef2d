# SPDX-License-Identifier: Apache-2.0
"""Random transforms through stokerd: torchvision's functional calls with the parameters that stokerd says
it drew give the same pixels, and the parameters have torchvision's distributions."""

import json
import math

import numpy as np
import pytest
from PIL import Image

import make_data
from client import ServerError, all_rows, grayscale, normalize, pb, to_tensor
from reference import folder_samples
from test_tool import run

torch = pytest.importorskip('torch')
T = pytest.importorskip('torchvision.transforms')
F = T.functional
NEAREST, BILINEAR, BICUBIC = (T.InterpolationMode.NEAREST, T.InterpolationMode.BILINEAR,
                              T.InterpolationMode.BICUBIC)
INTERPOLATIONS = {mode: getattr(pb, f'INTERPOLATION_{mode.name}') for mode in T.InterpolationMode}

SIZES = [(40, 60), (61, 40), (33, 33), (20, 90), (64, 48)]


@pytest.fixture(scope='session')
def sizes_folder(data_root):
    """20 files of 5 sizes in 2 classes, grey and RGB."""
    images = [make_data.pixels(1, SIZES[i % 5] + ((3,) if i % 3 else ()), seed=i)[0]
              for i in range(20)]
    return make_data.write_folder(f'{data_root}/sizes', images, 2)


@pytest.fixture(scope='session')
def many_folder(data_root):
    """1,500 pictures of 24 x 32, so that what is drawn for them can be counted."""
    return make_data.write_folder(f'{data_root}/many', make_data.pixels(1500, (24, 32)), 3)


class Step:
    """One transform: the message, and what torchvision's functional call makes of an image with the
    parameters drawn. `kind` is the number in the first place of the parameters."""

    def __init__(self, kind, message, apply, exact=True):
        self.kind, self.message, self.apply, self.exact = kind, message, apply, exact

    def __call__(self, image, drawn):
        if self.kind is None:
            assert np.isnan(drawn).all()
        else:
            assert drawn[0] == self.kind
        return self.apply(image, drawn[1:])


def integers(drawn, count):
    values = [int(v) for v in drawn[:count]]
    assert values == list(drawn[:count]) and np.isnan(drawn[count:]).all()
    return values


def fixed(message, theirs):
    return Step(None, message, lambda image, _: theirs(image))


def crop(size, padding=None, pad_if_needed=False, fill=0, mode='constant'):
    height, width = size

    def apply(image, drawn):
        top, left, h, w = integers(drawn, 4)
        if padding is not None:
            image = F.pad(image, padding, fill, mode)
        if pad_if_needed and image.width < width:
            image = F.pad(image, [width - image.width, 0], fill, mode)
        if pad_if_needed and image.height < height:
            image = F.pad(image, [0, height - image.height], fill, mode)
        assert (h, w) == size and 0 <= top <= image.height - h and 0 <= left <= image.width - w
        return F.crop(image, top, left, h, w)

    return Step(1, pb.Transform(random_crop=pb.RandomCrop(
        size=size, padding=padding, pad_if_needed=pad_if_needed,
        fill=[fill] if isinstance(fill, int) else fill,
        padding_mode=getattr(pb, f'PADDING_MODE_{mode.upper()}'))), apply)


def resized_crop(size, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), interpolation=BILINEAR):
    return Step(2, pb.Transform(random_resized_crop=pb.RandomResizedCrop(
        size=size, scale=scale, ratio=ratio, interpolation=INTERPOLATIONS[interpolation])),
        lambda image, drawn: F.resized_crop(image, *integers(drawn, 4), size, interpolation))


def whether(drawn):
    return integers(drawn, 1) == [1]


def horizontal_flip(p=0.5):
    return Step(3, pb.Transform(random_horizontal_flip=pb.RandomHorizontalFlip(p=p)),
                lambda image, drawn: F.hflip(image) if whether(drawn) else image)


def vertical_flip(p=0.5):
    return Step(4, pb.Transform(random_vertical_flip=pb.RandomVerticalFlip(p=p)),
                lambda image, drawn: F.vflip(image) if whether(drawn) else image)


def rotation(degrees, interpolation=NEAREST, expand=False, center=None, fill=0):
    return Step(5, pb.Transform(random_rotation=pb.RandomRotation(
        degrees=degrees, interpolation=INTERPOLATIONS[interpolation], expand=expand, center=center,
        fill=[fill] if isinstance(fill, int) else fill)),
        lambda image, drawn: F.rotate(image, drawn[0], interpolation, expand, center, fill))


def affine(degrees, translate=None, scale=None, shear=None, interpolation=NEAREST, fill=0,
           center=None):
    return Step(6, pb.Transform(random_affine=pb.RandomAffine(
        degrees=degrees, translate=translate, scale=scale, shear=shear, center=center,
        interpolation=INTERPOLATIONS[interpolation],
        fill=[fill] if isinstance(fill, int) else fill)),
        lambda image, drawn: F.affine(image, drawn[0], [int(drawn[1]), int(drawn[2])], drawn[3],
                                      list(drawn[4:6]), interpolation, fill, center))


def jitter(brightness=(), contrast=(), saturation=(), hue=()):
    calls = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue]

    def apply(image, drawn):
        assert sorted(drawn[:4]) == [0, 1, 2, 3]
        for which in drawn[:4].astype(int):
            if not np.isnan(drawn[4 + which]):
                image = calls[which](image, drawn[4 + which])
        return image

    return Step(7, pb.Transform(color_jitter=pb.ColorJitter(
        brightness=brightness, contrast=contrast, saturation=saturation, hue=hue)), apply,
        exact=not hue)


def random_grey(p=0.5):
    return Step(8, pb.Transform(random_grayscale=pb.RandomGrayscale(p=p)),
                lambda image, drawn: F.rgb_to_grayscale(image, len(image.getbands()))
                if whether(drawn) else image)


def blur(kernel_size, sigma=(0.1, 2)):
    return Step(9, pb.Transform(gaussian_blur=pb.GaussianBlur(
        kernel_size=kernel_size, sigma=sigma)),
        lambda image, drawn: F.gaussian_blur(image, list(kernel_size), drawn[0]), exact=False)


def erasing(p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=(0.0,)):
    def apply(tensor, drawn):
        if drawn[0] != 1:
            assert integers(drawn, 1) == [0]
            return tensor
        _, *region = integers(drawn, 5)
        assert region[2] < tensor.shape[1] and region[3] < tensor.shape[2]
        return F.erase(tensor, *region, torch.tensor(value)[:, None, None])

    return Step(10, pb.Transform(random_erasing=pb.RandomErasing(
        p=p, scale=scale, ratio=ratio, value=value)), apply)


def center_crop(size):
    return fixed(pb.Transform(center_crop=pb.CenterCrop(size=size)), T.CenterCrop(size))


def grey(channels=1):
    return fixed(grayscale(channels), T.Grayscale(channels))


def tensor():
    return fixed(to_tensor(), T.ToTensor())


def pil_tensor():
    return fixed(pb.Transform(pil_to_tensor=pb.PilToTensor()), T.PILToTensor())


def convert(dtype):
    number = {torch.uint8: pb.DTYPE_U8, torch.float16: pb.DTYPE_F16,
              torch.bfloat16: pb.DTYPE_BF16, torch.float32: pb.DTYPE_F32}[dtype]
    return fixed(pb.Transform(convert_image_dtype=pb.ConvertImageDtype(dtype=number)),
                 T.ConvertImageDtype(dtype))


def normal(mean, std):
    return fixed(normalize(mean, std), T.Normalize(mean, std))


def read(daemon, steps, **options):
    """(rows, labels, samples) of the pixels or, with dtype F64, of the parameters."""
    options.setdefault('batch_size', 7)
    options.setdefault('seed', 11)
    if options.get('dtype') == pb.DTYPE_F64:
        options['rows'] = pb.ROWS_PARAMETERS
    with daemon.client() as client:
        return all_rows(client.open('train', transforms=[s.message for s in steps], **options))


def parameters(daemon, steps, **options):
    rows, _, samples = read(daemon, steps, dtype=pb.DTYPE_F64, **options)
    assert rows.shape[1:] == (1, len(steps), 16)
    return rows[:, 0], samples


def expected(folder, steps, drawn, samples):
    """What torchvision makes of the files: arrays of H,W,C u8, or tensors."""
    files = folder_samples(folder)
    results = []
    for sample, numbers in zip(samples, drawn):
        with Image.open(files[sample][0]) as image:
            result = image.convert('RGB')
        for step, places in zip(steps, numbers):
            result = step(result, places)
        if isinstance(result, Image.Image):
            result = np.asarray(result)
            result = result[:, :, None] if result.ndim == 2 else result
        results.append(result)
    return results


def check(daemon, folder, steps, **options):
    """Pixels against torchvision's, u8 and NHWC."""
    drawn, samples = parameters(daemon, steps, **options)
    rows, _, same = read(daemon, steps, dtype=pb.DTYPE_U8, layout=pb.LAYOUT_NHWC, **options)
    assert (same == samples).all()
    wanted = np.stack(expected(folder, steps, drawn, samples))
    assert rows.shape == wanted.shape
    difference = np.abs(rows.astype(int) - wanted)
    assert difference.max() <= (0 if all(s.exact for s in steps) else 1)
    return drawn


@pytest.mark.parametrize('steps', [
    [crop((16, 18))],
    [crop((16, 18), padding=[3])],
    [crop((16, 18), padding=[30, 1, 2, 40], fill=(9, 80, 200))],
    [crop((16, 18), padding=[5, 7], mode='reflect')],
    [crop((70, 80), pad_if_needed=True, fill=7)],
    [crop((50, 50), padding=[2], pad_if_needed=True, mode='edge')],
    [grey(3), crop((70, 40), pad_if_needed=True, fill=(1, 2, 3))],
    [resized_crop((24, 17))],
    [resized_crop((24, 24), (0.5, 0.5), (0.2, 5), BICUBIC)],
    [resized_crop((9, 9), (2, 3), (1, 1))],
    [resized_crop((9, 9), (0.99, 1), (3, 4), NEAREST)],
    [center_crop((30, 30)), horizontal_flip()],
    [center_crop((30, 30)), vertical_flip()],
    [center_crop((31, 34)), rotation((-45, 45))],
    [center_crop((31, 34)), rotation((-180, 180), BILINEAR, center=(3, 40), fill=(1, 2, 255))],
    [rotation((10, 80), BICUBIC, expand=True, fill=80), center_crop((40, 40))],
    [rotation((10, 80), expand=True), crop((10, 10))],
    [center_crop((31, 34)), affine((-30, 30))],
    [center_crop((31, 34)), affine((0, 0), translate=(0.3, 0.5), fill=(255, 0, 7))],
    [center_crop((31, 34)), affine((-90, 90), (0.1, 0.1), (0.5, 2), (-20, 20), BILINEAR)],
    [center_crop((31, 34)), affine((5, 6), None, (0.9, 1.1), (-20, 20, 10, 30), BICUBIC,
                                   center=(0, 0))],
    [center_crop((30, 30)), jitter((0.2, 1.8), (0.5, 1.5), (0, 2))],
    [center_crop((30, 30)), jitter((0.2, 1.8))],
    [center_crop((30, 30)), jitter(hue=(-0.5, 0.5))],
    [center_crop((30, 30)), jitter((0.6, 1.4), (0.6, 1.4), (0.6, 1.4), (-0.1, 0.1))],
    [center_crop((30, 30)), random_grey()],
    [grey(), center_crop((30, 30)), random_grey(), jitter((0.2, 1.8), (0.5, 1.5), (0, 2))],
    [center_crop((30, 30)), blur((5, 3))],
    [grey(3), center_crop((30, 30)), blur((9, 9), (3, 4))],
    [resized_crop((28, 28)), horizontal_flip(), vertical_flip(0.3), rotation((-9, 9), BILINEAR),
     random_grey(0.2), grey()],
], ids=lambda steps: '-'.join(str(step.message.WhichOneof('transform')) for step in steps))
def test_as_torchvision(start_daemon, sizes_folder, steps):
    daemon = start_daemon({'train': sizes_folder})
    drawn = check(daemon, sizes_folder, steps, epochs=3)
    other = check(daemon, sizes_folder, steps, epochs=1, seed=2**63 + 5, shuffle=True)
    assert not np.array_equal(drawn[:20], other, equal_nan=True)


def image_and_drawn(daemon, steps, **options):
    """{(epoch, sample): (bytes of the pixels, bytes of the parameters)}"""
    pixels, _, samples = read(daemon, steps, dtype=pb.DTYPE_U8, **options)
    drawn, again = parameters(daemon, steps, **options)
    assert (samples == again).all()
    count = len(set(samples.tolist()))
    return {(i // count, sample): (p.tobytes(), d.tobytes())
            for i, (sample, p, d) in enumerate(zip(samples.tolist(), pixels, drawn))}


EVERYTHING = [resized_crop((20, 20)), horizontal_flip(), rotation((-30, 30), BILINEAR),
              affine((-5, 5), (0.1, 0.1)), jitter((0.5, 1.5), (0.5, 1.5), (0.5, 1.5), (-0.2, 0.2)),
              random_grey(0.3), blur((3, 3)), crop((16, 16), [4])]


def test_the_same_by_whatever_way(start_daemon, sizes_folder):
    """Not the number of workers, the size of batches, the order or the shard decides what is drawn."""
    whole = image_and_drawn(start_daemon({'train': sizes_folder}, workers=1), EVERYTHING, epochs=2)
    assert len(whole) == 40
    for workers in (0, 16):
        daemon = start_daemon({'train': sizes_folder}, workers=workers)
        assert image_and_drawn(daemon, EVERYTHING, epochs=2, batch_size=3) == whole
    shuffled = image_and_drawn(daemon, EVERYTHING, epochs=2, shuffle=True)
    assert shuffled == whole and list(shuffled) != list(whole)
    for rank in range(3):
        shard = image_and_drawn(daemon, EVERYTHING, epochs=1, rank=rank, world=3, shard_drop=True)
        assert len(shard) == 6 and all(whole[key] == value for key, value in shard.items())
    other_seed = image_and_drawn(daemon, EVERYTHING, epochs=1, seed=12)
    assert not any(whole[key] == value for key, value in other_seed.items())


def test_each_epoch_and_each_sample_is_drawn_anew(start_daemon, many_folder):
    daemon = start_daemon({'train': many_folder})
    steps = [affine((-180, 180), (0.5, 0.5), (0.5, 2), (-9, 9)), affine((-180, 180))]
    drawn, _ = parameters(daemon, steps, epochs=3, batch_size=500)
    angles = np.concatenate([drawn[:, 0, 1], drawn[:, 1, 1], drawn[:, 0, 4], drawn[:, 0, 5]])
    assert len(set(angles.tolist())) == len(angles) == 3 * 1500 * 4
    # and neighbours have nothing to do with each other
    for first, second in ((drawn[:1500], drawn[1500:3000]), (drawn[:-1], drawn[1:])):
        assert abs(np.corrcoef(first[:, 0, 1], second[:, 0, 1])[0, 1]) < 0.1
        assert abs(np.corrcoef(first[:, 0, 1], second[:, 1, 1])[0, 1]) < 0.1
        assert abs(np.corrcoef(first[:, 0, 1], second[:, 0, 4])[0, 1]) < 0.1


def test_resumed_streams_draw_the_same(start_daemon, sizes_folder):
    daemon = start_daemon({'train': sizes_folder})
    options = {'dtype': pb.DTYPE_U8, 'transforms': [s.message for s in EVERYTHING], 'seed': 3,
               'shuffle': True, 'batch_size': 6, 'epochs': 2}
    with daemon.client() as client:
        batches = list(client.open('train', **options).batches())
        later = list(client.open('train', start=batches[4].cursor, **options).batches())
    assert len(batches) == 8 and len(later) == 3
    for one, two in zip(batches[5:], later):
        assert (one.images == two.images).all() and (one.samples == two.samples).all()


# ---- distributions ----

def ks_distance(one, two):
    """The two-sample statistic of Kolmogorov and Smirnov."""
    everything = np.sort(np.concatenate([one, two]))
    return np.abs(np.searchsorted(np.sort(one), everything, 'right') / len(one)
                  - np.searchsorted(np.sort(two), everything, 'right') / len(two)).max()


def assert_same_distribution(ours, theirs):
    """Two samples of one distribution are further apart than this once in 100,000 times."""
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    bound = math.sqrt(-math.log(1e-5 / 2) / 2 * (1 / len(ours) + 1 / len(theirs)))
    assert ks_distance(ours, theirs) < bound


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
], ids=lambda part: part.message.WhichOneof('transform') if isinstance(part, Step) else '')
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


# ---- behind ToTensor ----

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DTYPES = {pb.DTYPE_U8: torch.uint8, pb.DTYPE_F16: torch.float16, pb.DTYPE_BF16: torch.bfloat16,
          pb.DTYPE_F32: torch.float32}


def check_tensors(daemon, folder, steps, dtype, **options):
    """The rows are, bit for bit, torchvision's tensors turned into the dtype asked for."""
    drawn, samples = parameters(daemon, steps, **options)
    wanted = torch.stack(expected(folder, steps, drawn, samples)).to(DTYPES[dtype])
    rows, _, _ = read(daemon, steps, dtype=dtype, **options)
    interleaved, _, _ = read(daemon, steps, dtype=dtype, layout=pb.LAYOUT_NHWC, **options)
    bits = np.dtype(f'u{rows.dtype.itemsize}')
    wanted = wanted.view(torch.int16).numpy() if bits.itemsize == 2 else wanted.numpy()
    np.testing.assert_array_equal(rows.view(bits), wanted.view(bits))
    np.testing.assert_array_equal(interleaved.view(bits),
                                  wanted.view(bits).transpose(0, 2, 3, 1))
    return drawn


FLOATS = [pb.DTYPE_F16, pb.DTYPE_BF16, pb.DTYPE_F32]


@pytest.mark.parametrize('steps,dtypes', [
    ([tensor()], FLOATS),
    ([tensor(), normal(MEAN, STD)], FLOATS),
    ([grey(), tensor(), normal((0.5,), (0.5,))], FLOATS),
    ([grey(3), tensor(), normal(MEAN, STD), normal((0.1,), (3,))], FLOATS),
    ([pil_tensor()], [pb.DTYPE_U8]),
    ([grey(3), pil_tensor()], [pb.DTYPE_U8]),
    ([pil_tensor(), convert(torch.float32), normal(MEAN, STD)], FLOATS),
    ([pil_tensor(), convert(torch.float16), normal(MEAN, STD)], FLOATS),
    ([pil_tensor(), convert(torch.bfloat16), normal(MEAN, STD)], FLOATS),
    ([tensor(), convert(torch.float16)], FLOATS),
    ([tensor(), normal(MEAN, STD), convert(torch.bfloat16), normal((0.3,), (0.7,))], FLOATS),
    ([tensor(), convert(torch.float16), convert(torch.float32), normal(MEAN, STD)], FLOATS),
    ([tensor(), convert(torch.uint8)], [pb.DTYPE_U8]),
    ([tensor(), normal((1,), (-1,)), convert(torch.uint8)], [pb.DTYPE_U8]),
    ([grey(3), tensor(), normal((0, 1, -0.5), (1, -1, 2)), convert(torch.uint8)], [pb.DTYPE_U8]),
    ([tensor(), convert(torch.uint8), convert(torch.bfloat16)], FLOATS),
], ids=lambda part: '-'.join(s.message.WhichOneof('transform') for s in part)
    if isinstance(part[0], Step) else '')
def test_dtypes(start_daemon, rgb_folder, steps, dtypes):
    daemon = start_daemon({'train': rgb_folder})
    for dtype in dtypes:
        check_tensors(daemon, rgb_folder, steps, dtype)


@pytest.mark.parametrize('steps,dtypes', [
    ([tensor(), erasing(0.7)], FLOATS),
    ([tensor(), erasing(0.7, value=(0.25, 1.0, -3.0))], FLOATS),
    ([tensor(), erasing(1, (0.02, 0.9), (0.1, 9)), erasing(0.5, value=(7.0,))], FLOATS),
    ([tensor(), erasing(0.7, value=(0.3, 0.2, 0.1)), normal(MEAN, STD)], FLOATS),
    ([grey(3), tensor(), normal(MEAN, STD), erasing(0.7)], FLOATS),
    ([grey(), tensor(), erasing(0.7, value=(0.123,)), convert(torch.float16)], FLOATS),
    ([pil_tensor(), erasing(0.7, value=(3.0, 200.0, 255.0))], [pb.DTYPE_U8]),
    ([pil_tensor(), erasing(0.7, value=(77.9,)), convert(torch.float32), normal(MEAN, STD)], FLOATS),
    ([tensor(), erasing(0.7, value=(0.3,)), convert(torch.uint8)], [pb.DTYPE_U8]),
], ids=lambda part: '-'.join(s.message.WhichOneof('transform') for s in part)
    if isinstance(part[0], Step) else '')
def test_erasing(start_daemon, rgb_folder, steps, dtypes):
    daemon = start_daemon({'train': rgb_folder})
    for dtype in dtypes:
        drawn = check_tensors(daemon, rgb_folder, steps, dtype)
        erased = [drawn[:, i, 1] for i, step in enumerate(steps) if step.kind == 10]
        assert 0.3 < np.mean(erased) <= 1


def random_erasing(p=1.0):
    return pb.Transform(random_erasing=pb.RandomErasing(p=p, random_value=True))


def test_erasing_with_noise(start_daemon, rgb_folder):
    """The rectangle has normally distributed values, other ones in each channel and sample, carried
    through what follows; everything else is as it was."""
    daemon = start_daemon({'train': rgb_folder})
    plain, _, _ = read(daemon, [tensor()])
    head = [to_tensor(), random_erasing()]
    tails = [[], [normalize((0.5,), (2,))],
             [pb.Transform(convert_image_dtype=pb.ConvertImageDtype(dtype=pb.DTYPE_F16)),
              normalize((0.5,), (2,))]]
    with daemon.client() as client:
        drawn = all_rows(client.open('train', transforms=head, rows=pb.ROWS_PARAMETERS,
                                     seed=11))[0][:, 0]
        rows = [all_rows(client.open('train', transforms=head + tail, seed=11))[0]
                for tail in tails]
    noise = []
    for picture, erased, places in zip(plain, rows[0], drawn):
        top, left, height, width = places[1, 2:6].astype(int)
        inside = np.zeros(picture.shape, bool)
        inside[:, top:top + height, left:left + width] = True
        assert (picture == erased)[~inside].all()
        noise.append(erased[inside].reshape(3, -1))
    flat = np.concatenate([n.ravel() for n in noise])
    assert len(set(flat.tolist())) > 0.99 * len(flat) > 5000
    assert_same_distribution(flat, np.random.default_rng(1).normal(size=100_000))
    half = ((torch.from_numpy(rows[0]) - 0.5) / 2).numpy()
    assert (rows[1] == half).all()
    f16 = T.Normalize((0.5,), (2,))(torch.from_numpy(rows[0]).to(torch.float16)).float().numpy()
    assert (rows[2] == f16).all()


# ---- refusals ----

@pytest.mark.parametrize('steps,dtype,says', [
    ([tensor()], pb.DTYPE_U8, 'leave ToTensor out'),
    ([pil_tensor(), convert(torch.float16)], pb.DTYPE_U8, 'end in floats'),
    ([], pb.DTYPE_F16, 'f16 needs ToTensor'),
    ([crop((9, 9))], pb.DTYPE_BF16, 'bf16 needs ToTensor'),
    ([pil_tensor()], pb.DTYPE_F32, 'ConvertImageDtype(torch.float32)'),
    ([pil_tensor()], pb.DTYPE_F16, 'ask for dtype u8'),
    ([pil_tensor(), normal(MEAN, STD)], pb.DTYPE_F32, 'Normalize needs floats'),
    ([tensor(), pil_tensor()], pb.DTYPE_F32, 'PILToTensor stands after ToTensor'),
    ([convert(torch.float16)], pb.DTYPE_F32, 'ConvertImageDtype stands before ToTensor'),
    ([tensor(), normal(MEAN, STD), convert(torch.uint8)], pb.DTYPE_U8, 'outside of 0 .. 1'),
    ([tensor(), convert(torch.float16), convert(torch.uint8)], pb.DTYPE_U8, 'white in f16'),
    ([tensor(), convert(torch.float16), normal((0.5,), (1e-9,))], pb.DTYPE_F32, 'std is 0 in f16'),
    ([tensor(), crop((9, 9))], pb.DTYPE_F32, 'RandomCrop stands after ToTensor'),
    ([erasing()], pb.DTYPE_U8, 'RandomErasing stands before ToTensor'),
    ([pil_tensor(), erasing(value=(300.0,))], pb.DTYPE_U8, 'value 300 does not fit'),
    ([grey(), tensor(), erasing(value=(1.0, 2.0, 3.0))], pb.DTYPE_F32, '3 values for 1 channel'),
    ([rotation((0, 90), expand=True)], pb.DTYPE_U8, 'put CenterCrop'),
    ([rotation((0, 90), expand=True), horizontal_flip()], pb.DTYPE_U8, 'many sizes'),
    ([grey(), rotation((0, 90), fill=(1, 2, 3))], pb.DTYPE_U8, 'fill of 3 values'),
    ([crop((9, 9))], pb.DTYPE_F64, 'PARAMETERS'),
])
def test_refusals(start_daemon, rgb_folder, steps, dtype, says):
    daemon = start_daemon({'train': rgb_folder})
    with daemon.client() as client:
        with pytest.raises(ServerError) as refusal:
            client.open('train', transforms=[s.message for s in steps], dtype=dtype)
    assert refusal.value.code == pb.ERROR_BAD_REQUEST and says in refusal.value.text


def test_refusals_of_noise_and_parameters(start_daemon, rgb_folder):
    daemon = start_daemon({'train': rgb_folder})
    u8 = pb.Transform(convert_image_dtype=pb.ConvertImageDtype(dtype=pb.DTYPE_U8))
    for transforms, options, says in [
            ([pil_tensor().message, random_erasing()], {'dtype': pb.DTYPE_U8}, 'needs floats'),
            ([to_tensor(), random_erasing(), u8], {'dtype': pb.DTYPE_U8}, "value='random'"),
            ([to_tensor(), random_erasing()] + [normalize()] * 9, {}, 'more than 8'),
            ([to_tensor()] + [random_erasing()] * 5, {}, 'more than 4 RandomErasing'),
            ([], {'rows': pb.ROWS_PARAMETERS}, 'no parameters'),
            ([to_tensor()], {'rows': pb.ROWS_PARAMETERS, 'dtype': pb.DTYPE_F32}, 'F64'),
            ([to_tensor(), horizontal_flip().message], {'rows': pb.ROWS_PARAMETERS},
             'stands after ToTensor')]:
        with daemon.client() as client:
            with pytest.raises(ServerError) as refusal:
                client.open('train', transforms=transforms, **options)
        assert refusal.value.code == pb.ERROR_BAD_REQUEST and says in refusal.value.text


# ---- bad samples ----

@pytest.mark.parametrize('step,says', [
    (crop((34, 20)), 'is 33x33 where RandomCrop takes 20x34 of it'),
    (crop((38, 20), padding=[2]), 'is 37x37 where RandomCrop takes 20x38 of it'),
])
def test_pictures_that_are_too_small(start_daemon, scratch, step, says):
    root = make_data.write_folder(f'{scratch}/data', [
        make_data.pixels(1, size)[0] for size in [(60, 40), (33, 33), (80, 80)]], 1)
    daemon = start_daemon({'train': root})
    for dtype in (pb.DTYPE_U8, pb.DTYPE_F64):
        with pytest.raises(ServerError) as error:
            read(daemon, [step], dtype=dtype)
        assert error.value.code == pb.ERROR_BAD_SAMPLE
        assert 'class0/1.png' in error.value.text and says in error.value.text
        assert 'pad_if_needed=True' in error.value.text
    whole, _ = parameters(daemon, [step], on_bad_sample=pb.ON_BAD_SAMPLE_MASK)
    assert (whole[1] == 0).all() and not (whole[0] == 0).all()
    # what stands in is drawn under its own index
    replaced, samples = parameters(daemon, [step], on_bad_sample=pb.ON_BAD_SAMPLE_REPLACE)
    assert samples[1] in (0, 2)
    np.testing.assert_array_equal(replaced[1], replaced[samples[1]])


# ---- the tool ----

PIPELINE = ("RandomCrop((20, 24), padding=4), RandomHorizontalFlip(), RandomAffine(30, (0.1, 0.2)), "
            "Grayscale(3), ColorJitter(0.5, contrast=0.2), RandomGrayscale(), ToTensor(), "
            "RandomErasing(0.7, value=0.5)")
PIPELINE_STEPS = [
    crop((20, 24), padding=[4]), horizontal_flip(), affine((-30, 30), (0.1, 0.2)), grey(3),
    jitter((0.5, 1.5), (0.8, 1.2)), random_grey(0.1), tensor(), erasing(0.7, value=(0.5,))]


def dump(daemon, directory, *args):
    run('dump', 'train', '-o', directory, '--batch-size', '7', '--params', *args, daemon=daemon)
    with open(f'{directory}/params.jsonl') as lines:
        return np.load(f'{directory}/images.npy'), [json.loads(line) for line in lines]


def test_dumped_parameters(start_daemon, sizes_folder, scratch):
    """params.jsonl has the numbers of the stream, exactly, under torchvision's names."""
    daemon = start_daemon({'train': sizes_folder})
    images, lines = dump(daemon, f'{scratch}/out', '--transform', PIPELINE, '--seed', '9',
                         '--epoch', '2')
    options = {'seed': 9, 'shuffle': True, 'first_epoch': 2}
    drawn, samples = parameters(daemon, PIPELINE_STEPS, **options)
    pixels, _, _ = read(daemon, PIPELINE_STEPS, **options)
    assert (images == pixels).all()
    assert (images == torch.stack(expected(sizes_folder, PIPELINE_STEPS, drawn, samples)).numpy()
            ).all()
    assert [line['sample'] for line in lines] == samples.tolist()
    assert all(line['epoch'] == 2 and 'status' not in line for line in lines)
    for line, numbers in zip(lines, drawn):
        assert [(t['place'], t['name']) for t in line['transforms']] == [
            (0, 'RandomCrop'), (1, 'RandomHorizontalFlip'), (2, 'RandomAffine'),
            (4, 'ColorJitter'), (5, 'RandomGrayscale'), (7, 'RandomErasing')]
        for transform in line['transforms']:
            values = []
            for key, value in transform.items():
                if key not in ('place', 'name'):
                    values += value if isinstance(value, list) else [value]
            values = [math.nan if v is None else float(v) for v in values]
            np.testing.assert_array_equal(values, numbers[transform['place'], 1:1 + len(values)])
            assert np.isnan(numbers[transform['place'], 1 + len(values):]).all()
    first = lines[0]['transforms']
    assert list(first[0]) == ['place', 'name', 'top', 'left', 'height', 'width']
    assert list(first[1]) == ['place', 'name', 'flipped'] and isinstance(first[1]['flipped'], bool)
    assert list(first[2])[2:] == ['angle', 'translate_x', 'translate_y', 'scale', 'shear_x', 'shear_y']
    assert list(first[3])[2:] == ['order', 'brightness', 'contrast', 'saturation', 'hue']
    assert first[3]['hue'] is None and sorted(first[3]['order']) == [0, 1, 2, 3]
    assert list(first[4])[2:] == ['grey']
    assert list(first[5])[2:] == ['erased', 'top', 'left', 'height', 'width']


@pytest.mark.parametrize('dtype', ['f16', 'bf16', 'f32'])
def test_dumped_dtypes(start_daemon, sizes_folder, scratch, dtype):
    daemon = start_daemon({'train': sizes_folder})
    images, _ = dump(daemon, f'{scratch}/out', '--transform', PIPELINE, '--dtype', dtype)
    drawn, samples = parameters(daemon, PIPELINE_STEPS, seed=0)
    wanted = torch.stack(expected(sizes_folder, PIPELINE_STEPS, drawn, samples))
    if dtype == 'bf16':
        assert images.dtype == np.uint16
        images = torch.from_numpy(images.view(np.int16)).view(torch.bfloat16)
        assert (images == wanted.to(torch.bfloat16)).all()
    else:
        assert images.dtype == {'f16': np.float16, 'f32': np.float32}[dtype]
        assert (images == wanted.numpy().astype(images.dtype)).all()
    answer = run('bench', 'train', '--transform', PIPELINE, '--dtype', dtype, '--json', daemon=daemon)
    assert json.loads(answer)['dtype'] == dtype and json.loads(answer)['images'] == 20


def test_dumped_in_the_data_sets_order(start_daemon, sizes_folder, scratch):
    """A seed of its own without shuffling; bad samples say so."""
    daemon = start_daemon({'train': sizes_folder})
    _, lines = dump(daemon, f'{scratch}/out', '--transform', 'RandomCrop((34, 20))', '--dtype', 'u8',
                    '--seed', '5', '--no-shuffle', '--on-bad-sample', 'mask')
    drawn, samples = parameters(daemon, [crop((34, 20))], seed=5,
                                on_bad_sample=pb.ON_BAD_SAMPLE_MASK)
    assert [line['sample'] for line in lines] == samples.tolist() == list(range(20))
    masked = [line.get('status') == 'masked' for line in lines]
    assert masked == (drawn[:, 0, 0] == 0).tolist() and 0 < sum(masked) < 20
    assert all((line['transforms'] == []) == bad for line, bad in zip(lines, masked))
