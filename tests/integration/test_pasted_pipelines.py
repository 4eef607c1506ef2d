# SPDX-License-Identifier: Apache-2.0
"""Pasted pipelines through stokerd. Their random transforms leave nothing to chance, so that torchvision
makes the same tensors of the same text."""

import warnings

import numpy as np
import PIL
import pytest
from PIL import Image

import make_data
from reference import folder_samples
from test_tool import run

torch = pytest.importorskip('torch')
torchvision = pytest.importorskip('torchvision')
T = torchvision.transforms
PYTHON = {name: getattr(T, name) for name in dir(T) if name[0].isupper()} | {
    'T': T, 'transforms': T, 'torchvision': torchvision, 'torch': torch, 'Image': Image, 'PIL': PIL}

SIZES = [(40, 60), (60, 40), (33, 33), (44, 31)]


@pytest.fixture(scope='session')
def pictures(data_root):
    """12 files of 4 sizes in 2 classes, grey and RGB."""
    images = [make_data.pixels(1, SIZES[i % 4] + ((3,) if i % 3 else ()), seed=i)[0]
              for i in range(12)]
    return make_data.write_folder(f'{data_root}/pasted', images, 2)


def expected(folder, text):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        pipeline = eval(f'Compose([{text}\n])', dict(PYTHON))  # noqa: S307
        images = []
        for path, _ in folder_samples(folder):
            with Image.open(path) as image:
                images.append(np.asarray(pipeline(image.convert('RGB'))))
    return np.stack(images)


def served(daemon, scratch, text, images):
    """What stokerd makes of it, in the form of `images`."""
    dtype = {'uint8': 'u8', 'float32': 'f32', 'float16': 'f16'}[images.dtype.name]
    layout = 'NCHW' if images.shape[1] in (1, 3) else 'NHWC'
    run('dump', 'train', '-o', f'{scratch}/out', '--batch-size', '5', '--dtype', dtype, '--layout',
        layout, '--transform', text, daemon=daemon)
    return np.load(f'{scratch}/out/images.npy')


EXACT = [
    '''transforms.Compose([
        transforms.CenterCrop((24, 22)),
        transforms.RandomCrop((30, 26), padding=(2, 3), fill=(7, 8, 9), padding_mode='constant'),
        transforms.RandomHorizontalFlip(p=1.0),  # always
        transforms.ToTensor(),
        transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
    ])''',
    'T.Compose([T.Resize((30, 30)), T.RandomCrop(size=[30, 30]), T.RandomVerticalFlip(1)]),'
    'T.Compose([T.PILToTensor()])',
    'Resize((48, 32), interpolation=Image.BICUBIC), RandomVerticalFlip(p=0), RandomGrayscale(1),'
    'PILToTensor(), ConvertImageDtype(torch.float), Normalize([125.3 / 255] * 3, [1/4, 0.25, .25])',
    'CenterCrop(int(28 / 0.875)), RandomRotation((30, 30), fill=(255, 128, 0)), ToTensor()',
    'RandomRotation(degrees=[-90.5, -90.5], interpolation=InterpolationMode.BILINEAR, '
    'center=(10, 12.5)), CenterCrop(24), ToTensor()',
    'CenterCrop(30), RandomRotation((45, 45), Image.BICUBIC, expand=True), CenterCrop((44, 44)), Grayscale(), ToTensor()',
    'Resize((32, 32)), RandomAffine((20, 20), scale=(1.5, 1.5), shear=(5, 5, -3, -3), '
    'interpolation=transforms.InterpolationMode.BILINEAR, fill=64, center=[16, 8]), ToTensor()',
    'CenterCrop(28), RandomAffine(0, (0, 0), (2/3, 2/3)), ToTensor()',
    'CenterCrop(28), ColorJitter(brightness=(1.5, 1.5)), ToTensor()',
    'CenterCrop(28), ColorJitter(contrast=[1/3, 1/3]), ColorJitter(0, 0, saturation=(2, 2)), ToTensor()',
    'CenterCrop(28), ColorJitter(), ColorJitter(hue=(0, 0)), ToTensor()',
    'Grayscale(3), CenterCrop(20), ToTensor(), ConvertImageDtype(torch.half)',
    'CenterCrop(20), ToTensor(), RandomErasing(p=0, value="random")',
]


@pytest.mark.parametrize('text', EXACT)
def test_exactly_as_torchvision(start_daemon, pictures, scratch, text):
    images = expected(pictures, text)
    daemon = start_daemon({'train': pictures})
    np.testing.assert_array_equal(served(daemon, scratch, text, images), images)


@pytest.mark.parametrize('text', [
    'CenterCrop(28), GaussianBlur(5, sigma=1.5), ToTensor()',
    'CenterCrop(28), GaussianBlur(kernel_size=(3, 7), sigma=(0.5, 0.5)), ToTensor()',
    'CenterCrop(28), ColorJitter(hue=(0.25, 0.25)), ToTensor()',
])
def test_as_torchvision_within_a_step(start_daemon, pictures, scratch, text):
    """Blurs and hues are computed in floats there: within 1/255."""
    images = expected(pictures, text)
    daemon = start_daemon({'train': pictures})
    difference = np.abs(served(daemon, scratch, text, images) - images)
    assert difference.max() <= 1.001 / 255
