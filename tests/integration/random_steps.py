# SPDX-License-Identifier: Apache-2.0
"""Transforms in three forms: as messages, as torchvision's functional calls with the parameters that stokerd
says it drew, and what comes of both."""

import math

import numpy as np
import pytest
from PIL import Image

from client import all_rows, grayscale, normalize, pb, to_tensor
from reference import folder_samples

# Whoever imports this is skipped without them.
torch = pytest.importorskip('torch', reason='torch is not installed')
T = pytest.importorskip('torchvision.transforms', reason='torchvision is not installed')
F = T.functional
NEAREST, BILINEAR, BICUBIC = (T.InterpolationMode.NEAREST, T.InterpolationMode.BILINEAR,
                              T.InterpolationMode.BICUBIC)
INTERPOLATIONS = {mode: getattr(pb, f'INTERPOLATION_{mode.name}') for mode in T.InterpolationMode}


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
        brightness=brightness, contrast=contrast, saturation=saturation, hue=hue)), apply)


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


def names(part):
    """A name for a case of pytest's: of a list of steps, or nothing."""
    if isinstance(part, Step):
        part = [part]
    if not isinstance(part, list) or not part or not isinstance(part[0], Step):
        return ''
    return '-'.join(step.message.WhichOneof('transform') for step in part)


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
