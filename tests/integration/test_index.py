# SPDX-License-Identifier: Apache-2.0
"""Folders list what torchvision's ImageFolder lists; IDX files hold what their readers say."""

import base64
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get('STOKER_BUILD', ROOT / 'build/tests'))
CASES = Path(os.environ.get('STOKER_CASES', ROOT.parent / 'shared/cases'))
FASHION = Path('/usr/share/datasets/fashion-mnist')

# 1x1 grey
PNG = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5E'
                       'rkJggg==')


def unescape(text):
    return re.sub(rb'\\x([0-9a-f]{2})', lambda m: bytes.fromhex(m[1].decode()), text)


def dump(path, options=''):
    """What dataset_open makes of a path: (facts, class names, [(label, name)])."""
    run = subprocess.run([BUILD / 'tests/unit/dataset_dump', path, str(1 << 30), options],
                         capture_output=True)
    assert run.returncode == 0, run.stderr.decode()
    facts, classes, samples = {}, [], []
    for line in run.stdout.splitlines():
        key, _, value = line.partition(b' ')
        if key == b'class':
            classes.append(unescape(value))
        elif key == b'sample':
            label, _, name = value.partition(b' ')
            samples.append((int(label), unescape(name)))
        else:
            facts[key.decode()] = value.decode()
    return facts, classes, samples


def make_tree(root, names):
    for name in names:
        path = os.path.join(os.fsencode(root), name if isinstance(name, bytes) else name.encode())
        if path.endswith(b'/'):
            os.makedirs(path)
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as file:
            file.write(PNG)


TREES = {
    'digits': [f'{c}/{i}.png' for c in range(12) for i in (9, 10, 1, 100)],
    'extensions': ['a/' + n for n in (
        '1.jpg 2.JPEG 3.Png 4.ppm 5.bmp 6.pgm 7.tif 8.TIFF 9.webp 10.gif 11.txt png 12.png.txt '
        '13.tar.png 14. 15.jpg~ 16.jpe').split()],
    'nested': ['c/z.png', 'c/a/2.png', 'c/a/b/1.png', 'c/a-b/3.png', 'c/a b/4.png', 'c/a0/5.png',
               'c/a/b-c/6.png', 'c/A/7.png', 'd/e/f/g/h/8.png', 'c/empty/', 'c/a.png/9.png'],
    'case': ['B/1.png', 'a/1.png', 'A/1.png', 'b/x.png', 'b/X.png', 'b/Y.png', '_/1.png'],
    'unicode': ['é/1.png', 'e\u0301/1.png', 'z/1.png', '日本/二.png', '日本/一.png', '\U0001f600/1.png',
                '\ufffd/1.png', '\ud7ff/a.png'],
    'odd names': ['a b/ 1.png', 'a\nb/x\ny.png', "a'b/\"q\".png", 'back\\slash/\\x41.png',
                  '\x01/\x7f.png', '-/--.png', '~/1.png', 'a.png/1.png'],
    'not utf-8': [b'\xe9t\xe9/1.png', b'ascii/\xff.png', b'ascii/\x80.png', b'ascii/a.png'],
    'files beside classes': ['top.png', 'labels.csv', 'a/1.png', 'b/1.png'],
    'long': ['/'.join(['d' * 200] * 15) + '/' + 'n' * 200 + '.png', 'x' * 255 + '/1.png'],
}


@pytest.mark.parametrize('name', TREES)
def test_folder_as_torchvision(tmp_path, name):
    datasets = pytest.importorskip('torchvision.datasets', reason='torchvision is not installed')
    make_tree(tmp_path, TREES[name])
    compare(datasets, tmp_path)


def compare(datasets, root, options=''):
    theirs = datasets.ImageFolder(root)
    facts, classes, samples = dump(root, options)
    assert facts['kind'] == 'folder' and facts['size'] == '1x1x3' and facts['hidden'] == '0'
    assert classes == [os.fsencode(c) for c in theirs.classes]
    assert samples == [(label, os.path.relpath(os.fsencode(path), os.fsencode(root)))
                       for path, label in theirs.samples]


HIDDEN = [
    'dog/1.png', 'dog/._1.png', 'dog/.2.jpg', 'dog/.png', 'dog/.DS_Store', 'dog/.cache/3.png',
    'dog/.cache/.deep/4.png', '.ipynb_checkpoints/1-checkpoint.png', '__MACOSX/dog/._1.png',
    '.hidden.png/5.png', '..odd/6.png', 'zebra/1.png', '.top.png', '.DS_Store']


def test_hidden_entries_as_torchvision(tmp_path):
    """hidden = take: torchvision's exact set; by default none of it, but counted."""
    datasets = pytest.importorskip('torchvision.datasets', reason='torchvision is not installed')
    make_tree(tmp_path, HIDDEN)
    compare(datasets, tmp_path, 'take_hidden,')
    facts, classes, samples = dump(tmp_path)
    assert classes == [b'dog', b'zebra'] and facts['hidden'] == '11'
    assert samples == [(0, b'dog/1.png'), (1, b'zebra/1.png')]
    for name in TREES:
        make_tree(tmp_path / name.replace(' ', ''), TREES[name])
        compare(datasets, tmp_path / name.replace(' ', ''), 'take_hidden,')


def test_classes_as_torchvision(tmp_path):
    """A subset with a list of all classes has the labels of an ImageFolder that is told the same."""
    datasets = pytest.importorskip('torchvision.datasets', reason='torchvision is not installed')
    names = ['wolf', 'ant', 'bee', 'cat']
    (tmp_path / 'names.txt').write_text(''.join(f'{name}\r\n' for name in names))
    make_tree(tmp_path / 'data', ['bee/1.png', 'wolf/2.png', 'bee/deep/3.png', 'cat/1.png'])

    class Listed(datasets.ImageFolder):
        def find_classes(self, directory):
            return names, {name: names.index(name) for name in ('bee', 'cat', 'wolf')}

    theirs = Listed(tmp_path / 'data')
    facts, classes, samples = dump(tmp_path / 'data', f'classes={tmp_path}/names.txt')
    assert [os.fsdecode(c) for c in classes] == theirs.classes and facts['empty'] == '1'
    assert samples == [(label, os.path.relpath(os.fsencode(path), os.fsencode(tmp_path / 'data')))
                       for path, label in theirs.samples]


def test_links_as_torchvision(tmp_path):
    """Links to files, to directories and to nothing, inside the data set and out of it."""
    datasets = pytest.importorskip('torchvision.datasets', reason='torchvision is not installed')
    root, other = tmp_path / 'root', tmp_path / 'other'
    make_tree(other, ['class/1.png', 'more/2.png', 'more/deep/3.png', 'single.png'])
    make_tree(root, ['a/1.png', 'c/sub/1.png'])
    (root / 'b').symlink_to(other / 'class')
    (root / 'a/more').symlink_to('../../other/more')
    (root / 'a/single.png').symlink_to(other / 'single.png')
    (root / 'a/nothing.png').symlink_to('nowhere')
    (root / 'c/no-image').symlink_to('nowhere')
    (root / 'c/named.png').symlink_to('sub2')
    make_tree(root, ['c/sub2/9.png'])
    (root / 'nothing').symlink_to('nowhere')
    os.mkfifo(root / 'a/fifo.png')
    facts, _, samples = dump(root)
    # torchvision enters c/sub2 a second time, by its link
    assert (2, b'c/named.png/9.png') in samples and (2, b'c/sub2/9.png') not in samples
    (root / 'c/named.png').unlink()
    compare(datasets, root)


def test_idx_files():
    """The corpus, whose expected values come from another reader."""
    if not (CASES / 'expected_idx.tsv').exists():
        pytest.skip(f'no {CASES}: set STOKER_CASES')
    rows = [line.split('\t') for line in (CASES / 'expected_idx.tsv').read_text().splitlines()[1:]]
    expected = {row[0]: row for row in rows}
    images = [name for name, row in expected.items() if row[2] == '0x00000803']
    assert images
    for name in images:
        count, height, width = map(int, expected[name][4].split('x'))
        facts, classes, samples = dump(CASES / name)
        labels = expected[name.replace('images-idx3', 'labels-idx1')][7].split(',')
        assert facts['kind'] == 'idx' and facts['size'] == f'{width}x{height}x1'
        assert classes == [str(i).encode() for i in range(10)]
        assert [str(label) for label, _ in samples[:10]] == labels
        assert [span for _, span in samples] == [
            f'{16 + i * height * width}+{height * width}'.encode() for i in range(count)]
    for name, row in expected.items():
        if row[2] != '0x00000803':
            run = subprocess.run([BUILD / 'tests/unit/dataset_dump', CASES / name],
                                 capture_output=True, text=True)
            assert run.returncode == 1
            assert ('empty' if 'ERROR' in row[6] else 'labels') in run.stderr


@pytest.mark.parametrize('part, samples', [('train', 60000), ('t10k', 10000)])
def test_fashion_mnist(part, samples):
    path = FASHION / f'{part}-images-idx3-ubyte.gz'
    if not path.exists():
        pytest.skip('dataset-fashion-mnist is not installed')
    facts, classes, table = dump(path)
    assert facts['kind'] == 'idx' and facts['size'] == '28x28x1'
    assert len(table) == samples and len(classes) == 10
    assert all(sum(label == c for label, _ in table) == samples // 10 for c in range(10))
