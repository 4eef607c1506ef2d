# SPDX-License-Identifier: Apache-2.0
"""Resize, CenterCrop and Pad through stokerd: the text that torchvision evaluates gives its tensors."""

import subprocess

import numpy as np
import pytest
from PIL import Image

import make_data
from client import GUARD, ServerError, all_rows, grayscale, pb, to_tensor
from reference import folder_samples
from test_tool import STOKER, run

T = pytest.importorskip('torchvision.transforms')
PYTHON = {name: getattr(T, name) for name in (
    'Compose', 'Resize', 'CenterCrop', 'Pad', 'Grayscale', 'ToTensor', 'Normalize',
    'InterpolationMode')} | {'T': T, 'transforms': T, 'Image': Image}

SIZES = [(40, 60), (60, 40), (33, 33), (20, 90), (7, 5), (64, 48), (1, 1)]


@pytest.fixture(scope='session')
def sized_folder(data_root):
    """28 files of 7 sizes in 2 classes, grey and RGB."""
    images = [make_data.pixels(1, SIZES[i % 7] + ((3,) if i % 3 else ()), seed=i)[0]
              for i in range(28)]
    return make_data.write_folder(f'{data_root}/sized', images, 2)


def expected(folder, text):
    pipeline = eval(f'Compose([{text}])', dict(PYTHON))
    images = []
    for path, _ in folder_samples(folder):
        with Image.open(path) as image:
            images.append(np.asarray(pipeline(image.convert('RGB'))))
    images = np.stack(images)
    if images.dtype == np.uint8:
        return images if images.ndim == 4 else images[..., None]
    return images


@pytest.mark.filterwarnings("ignore:Argument 'interpolation' of type int")
@pytest.mark.parametrize('text', [
    'Resize((24, 17)), ToTensor()',
    'T.Resize(32), T.CenterCrop(28), T.ToTensor(), T.Normalize((0.485, 0.456, 0.406), [0.229, 0.224, 0.225])',
    'transforms.Resize(size=(9, 50), interpolation=transforms.InterpolationMode.BICUBIC), ToTensor()',
    'Grayscale(), Resize((28, 28), Image.LANCZOS, None, True), ToTensor()',
    'Resize((28, 28), 4), Grayscale(num_output_channels=3), ToTensor(), Normalize((0.5,), (0.5,))',
    'CenterCrop((30, 41)), Pad((1, 2, 3, 4), fill=(9, 8, 7)), ToTensor()',
    'CenterCrop([16])',
    'Resize(20, interpolation=InterpolationMode.NEAREST), CenterCrop(24), Grayscale()',
    'Resize(20, max_size=23, interpolation=InterpolationMode.HAMMING), CenterCrop(30)',
    "CenterCrop(12), Pad(4, padding_mode='reflect'), Pad((1, 2), 0, \"symmetric\")",
    "Resize((11, 13), interpolation=InterpolationMode.BOX), Pad([2], 200, 'constant'), "
    "Pad(3, padding_mode='edge')",
])
def test_as_torchvision(start_daemon, sized_folder, scratch, text):
    images = expected(sized_folder, text)
    dtype = 'u8' if images.dtype == np.uint8 else 'f32'
    daemon = start_daemon({'train': sized_folder})
    run('dump', 'train', '-o', f'{scratch}/out', '--batch-size', '5', '--dtype', dtype, '--layout',
        'NHWC' if dtype == 'u8' else 'NCHW', '--transform', text, daemon=daemon)
    np.testing.assert_array_equal(np.load(f'{scratch}/out/images.npy'), images)


@pytest.mark.parametrize('text,sizes', [
    ('ToTensor()', ('is 60x40', 'first sample is 40x60', 'CenterCrop(224)')),
    ('Resize(8), ToTensor()', ('make 12x8', 'but 8x12 of the first', 'CenterCrop(224)')),
])
def test_sizes_that_differ(start_daemon, scratch, text, sizes):
    """The first such sample ends the stream, by name, with both sizes and the way out."""
    root = make_data.write_folder(f'{scratch}/data', [
        make_data.pixels(1, size)[0] for size in [(60, 40), (40, 60)]], 1)
    daemon = start_daemon({'train': root})
    answer = run('dump', 'train', '-o', f'{scratch}/out', '--transform', text, daemon=daemon,
                 status=1)
    assert 'class0/1.png' in answer
    for words in sizes:
        assert words in answer


@pytest.mark.parametrize('transforms,words', [
    ([pb.Transform(resize=pb.Resize())], 'size'),
    ([pb.Transform(resize=pb.Resize(size=[0]))], '1 to 65535'),
    ([pb.Transform(resize=pb.Resize(size=[2**32 - 1, 1]))], '1 to 65535'),
    ([pb.Transform(resize=pb.Resize(size=[65535, 65535]))], 'too large'),
    ([pb.Transform(resize=pb.Resize(size=[8], interpolation=9))], 'interpolation'),
    ([pb.Transform(center_crop=pb.CenterCrop(size=[1, 2, 3]))], 'size'),
    ([pb.Transform(pad=pb.Pad(padding=[1], fill=[256]))], 'fill'),
    ([pb.Transform(pad=pb.Pad(padding=[1, 2, 3]))], 'padding'),
    ([to_tensor(), pb.Transform(pad=pb.Pad(padding=[1]))], 'Pad stands after ToTensor'),
    ([pb.Transform(pad=pb.Pad(padding=[0]))] * 17, 'more than 16'),
    ([grayscale(), pb.Transform(pad=pb.Pad(padding=[0], fill=[1, 2, 3]))], 'fill'),
])
def test_refused(start_daemon, grey_folder, transforms, words):
    daemon = start_daemon({'train': grey_folder})
    with daemon.client() as client:
        with pytest.raises(ServerError, match=words):
            client.open(dtype=pb.DTYPE_F32 if to_tensor() in transforms else pb.DTYPE_U8,
                        transforms=transforms)
        client.open(dtype=pb.DTYPE_U8)
