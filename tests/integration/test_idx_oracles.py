# SPDX-License-Identifier: Apache-2.0
"""IDX files of every form through stokerd, against numpy, torchvision and expected_idx.tsv.

torchvision 0.14 reads u8 of three dimensions only: it turns files of larger elements around value by
value, not byte by byte, and knows no fourth dimension."""

import csv
import gzip
import hashlib
import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image

import make_data
from client import all_rows, grayscale, pb
from test_index import CASES, dump
from test_tool import run as stoker

U8_NHWC = dict(dtype=pb.DTYPE_U8, layout=pb.LAYOUT_NHWC)


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with (gzip.open if path.endswith('.gz') else open)(path, 'wb') as file:
        file.write(data)


# ---- the corpus ----

def corpus():
    path = CASES / 'expected_idx.tsv'
    if not path.is_file():
        pytest.skip(f'no {path}: set STOKER_CASES')
    with open(path, newline='', encoding='utf-8') as lines:
        return list(csv.DictReader(lines, delimiter='\t'))


def test_corpus_images(start_daemon):
    """Every byte that the other reader found, in order."""
    rows = [row for row in corpus() if row['magic'] == '0x00000803']
    assert rows
    for row in rows:
        count, height, width = map(int, row['dims'].split('x'))
        with start_daemon({'train': CASES / row['file']}).client() as client:
            stream = client.open('train', **U8_NHWC, batch_size=500)
            assert stream.shape == (height, width, 1) and stream.opened.dataset_samples == count
            digest = hashlib.sha256()
            for batch in stream.batches():
                digest.update(batch.images.tobytes())
            assert digest.hexdigest() == row['sha256_payload']


def test_corpus_labels(scratch):
    """Each labels file beside images of one pixel that are made for it; the rest is refused."""
    found = 0
    for row in corpus():
        path = CASES / row['file']
        if row['magic'] != '0x00000801':
            continue
        count = int(row['dims'])
        suffix = '.gz' if path.suffix == '.gz' else ''
        folder = f'{scratch}/{found}'
        write(f'{folder}/x-images-idx3-ubyte', make_data.idx_bytes(np.zeros((count, 1, 1))))
        shutil.copy(path, f'{folder}/x-labels-idx1-ubyte{suffix}')
        _, classes, samples = dump(folder)
        labels = [label for label, _ in samples]
        assert hashlib.sha256(bytes(labels)).hexdigest() == row['sha256_payload']
        assert ','.join(map(str, labels[:10])) == row['first10_labels']
        assert len(classes) == max(labels) + 1
        found += 1
    assert found == sum(row['magic'] == '0x00000801' for row in corpus()) > 2


# ---- torchvision ----

def form(kind, bits, count=30):
    """An array as it lies in a file, and its pixels as u8 NHWC."""
    rng = np.random.RandomState(bits)
    shape = {'grey': (count, 6, 7), 'rgb': (count, 6, 7, 3), 'planar': (count, 3, 6, 7)}[kind]
    array = rng.randint(0, 1 << bits, shape).astype(f'u{bits // 8}')
    pixels = (array >> (bits - 8)).astype(np.uint8)
    if kind == 'grey':
        pixels = pixels[:, :, :, None]
    return array, pixels.transpose(0, 2, 3, 1) if kind == 'planar' else pixels


@pytest.mark.parametrize('suffix', ['', '.gz'], ids=['plain', 'gz'])
@pytest.mark.parametrize('bits', [8, 16])
@pytest.mark.parametrize('kind', ['grey', 'rgb', 'planar'])
def test_forms(start_daemon, scratch, kind, bits, suffix):
    array, pixels = form(kind, bits)
    labels = np.arange(30) % 4
    rank = array.ndim
    path = f'{scratch}/x-images-idx{rank}-ubyte{suffix}'
    write(path, make_data.idx_typed(array))
    write(f'{scratch}/x-labels-idx1-ubyte{suffix}', make_data.idx_bytes(labels))
    daemon = start_daemon({'train': path, 'folder': scratch}, settle=True)
    with daemon.client() as client:
        for name in ('train', 'folder'):
            stream = client.open(name, **U8_NHWC, batch_size=8)
            got = all_rows(stream)
            np.testing.assert_array_equal(got[0], pixels)
            np.testing.assert_array_equal(got[1], labels)
        grey = all_rows(client.open('train', **U8_NHWC, transforms=[grayscale()]))[0]
        want = pixels if kind == 'grey' else np.stack(
            [np.asarray(Image.fromarray(p).convert('L'))[:, :, None] for p in pixels])
        np.testing.assert_array_equal(grey, want)
        three = all_rows(client.open('train', **U8_NHWC, transforms=[grayscale(3)]))[0]
        np.testing.assert_array_equal(three, np.repeat(want, 3, axis=3))
        channels = 1 if kind == 'grey' else 3
        assert {d.channels for d in client.status().dataset} == {channels}
    daemon.wait_idle()


@pytest.mark.parametrize('type_', ['u1', 'i2', 'i4'])
def test_label_types(scratch, type_):
    ending = {'u1': 'ubyte', 'i2': 'short', 'i4': 'int'}[type_]
    labels = (np.arange(200) * {'u1': 1, 'i2': 163, 'i4': 5021}[type_]).astype(type_)
    path = f'{scratch}/x-labels-idx1-{ending}'
    write(path, make_data.idx_typed(labels))
    write(f'{scratch}/x-images-idx3-ubyte', make_data.idx_bytes(np.zeros((200, 1, 1))))
    _, classes, samples = dump(scratch)
    assert [label for label, _ in samples] == labels.tolist()
    assert len(classes) == labels.max() + 1


def test_mnist_and_emnist_as_torchvision(start_daemon, scratch):
    """The folders that torchvision leaves behind, under its names; EMNIST's letters start at 1."""
    datasets = pytest.importorskip('torchvision.datasets', reason='no torchvision')
    names = {'MNIST': 'train', 'FashionMNIST': 'train',
             'EMNIST': 'emnist-letters-train'}
    images = make_data.pixels(60, (28, 28), 4)
    labels = {'MNIST': np.arange(60) % 10, 'FashionMNIST': np.arange(60) % 10,
              'EMNIST': np.arange(60) % 26 + 1}
    paths = {}
    for kind, prefix in names.items():
        raw = f'{scratch}/{kind}/raw'
        paths[kind] = make_data.write_idx(raw, images, labels[kind], prefix=prefix)
        for part in ('images-idx3', 'labels-idx1'):  # it looks for the other half too
            other = prefix.replace('train', 'test' if kind == 'EMNIST' else 't10k')
            write(f'{raw}/{other}-{part}-ubyte', b'')
    daemon = start_daemon(paths)
    with daemon.client() as client:
        for kind in names:
            options = {'split': 'letters'} if kind == 'EMNIST' else {}
            theirs = getattr(datasets, kind)(scratch, train=True, **options)
            stream = client.open(kind, **U8_NHWC)
            got = all_rows(stream)
            np.testing.assert_array_equal(got[0][:, :, :, 0], theirs.data.numpy())
            np.testing.assert_array_equal(got[1], theirs.targets.numpy())
            assert stream.opened.classes == len(theirs.classes)
    assert daemon.log.wait('EMNIST: 1 of 27 classes have no samples')


# ---- stoker convert ----

@pytest.mark.parametrize('bits', [8, 16])
@pytest.mark.parametrize('kind', ['grey', 'rgb', 'planar'])
def test_convert(scratch, kind, bits):
    array, pixels = form(kind, bits, 12)
    write(f'{scratch}/x-images-idx{array.ndim}-ubyte.gz', make_data.idx_typed(array))
    write(f'{scratch}/x-labels-idx1-ubyte.gz', make_data.idx_bytes(np.arange(12) % 3))
    summary = json.loads(stoker('convert', f'{scratch}/x-images-idx{array.ndim}-ubyte.gz',
                                f'{scratch}/png', '--json'))
    assert summary['images'] == 12 and summary['channels'] == pixels.shape[3]
    assert summary['empty_classes'] == 0
    for i in range(12):
        with Image.open(f'{scratch}/png/{i % 3}/{i:05}.png') as image:
            assert image.mode == ('L' if kind == 'grey' else 'RGB')
            np.testing.assert_array_equal(np.asarray(image).reshape(pixels[i].shape), pixels[i])


def test_convert_says_what_shifts(scratch):
    """EMNIST's letters start at 1; in class folders the first would be 0."""
    path = make_data.write_idx(f'{scratch}/idx', make_data.pixels(4, (5, 5)), [1, 2, 4, 1])
    text = stoker('convert', path, f'{scratch}/png')
    assert '4 PNG files of 5x5 grey in 5 classes' in text
    assert '2 of the classes have no images' in text
    assert sorted(os.listdir(f'{scratch}/png')) == ['1', '2', '4']
