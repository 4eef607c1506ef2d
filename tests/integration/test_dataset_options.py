# SPDX-License-Identifier: Apache-2.0
"""hidden, allow_empty and classes, from the config file through the sandboxed index worker."""

import io
import os
import subprocess
import tarfile

import numpy as np
import pytest
from PIL import Image

import make_data
from client import ServerError, all_rows, pb
from daemon import STOKERD

U8 = dict(dtype=pb.DTYPE_U8)


def picture(path, value=0):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Image.new('L', (4, 3), value).save(path, 'PNG')


def group(name, **keys):
    return f'[dataset {name}]\n' + ''.join(f'{key} = {value}\n' for key, value in keys.items())


def labels_and_classes(client, name):
    stream = client.open(name, **U8)
    return all_rows(stream)[1].tolist(), stream.opened.classes


def test_hidden(start_daemon, scratch):
    """Side by side: what torchvision takes, and what is left out by default."""
    for name in ('cat/1.png', 'cat/._1.png', '.ipynb_checkpoints/1.png', '__MACOSX/._2.png'):
        picture(f'{scratch}/data/{name}')
    path = f'{scratch}/data'
    daemon = start_daemon(config=group('skip', path=path) + group('take', path=path, hidden='take'))
    with daemon.client() as client:
        assert labels_and_classes(client, 'skip') == ([0], 1)
        assert labels_and_classes(client, 'take') == ([0, 1, 2, 2], 3)
    daemon.log.wait('skip: 3 hidden entries were left out')
    assert not daemon.log.matches('take: .* hidden')


def test_allow_empty(start_daemon, scratch):
    """An error that names the class and the option; then the class keeps its number."""
    picture(f'{scratch}/data/b/1.png')
    os.mkdir(f'{scratch}/data/a')
    path = f'{scratch}/data'
    daemon = start_daemon(config=group('train', path=path))
    with daemon.client() as client:
        with pytest.raises(ServerError) as caught:
            client.open('train', **U8)
        assert caught.value.code == pb.ERROR_DATASET
        assert "class 'a'" in caught.value.text and 'allow_empty' in caught.value.text
        daemon.reload(group('train', path=path, allow_empty='yes'))
        daemon.log.wait('train: 1 of 2 classes have no samples')
        assert labels_and_classes(client, 'train') == ([1], 2)


@pytest.mark.parametrize('kind', ['folder', 'manifest', 'tar'])
def test_classes(start_daemon, scratch, kind):
    """A validation set that lacks classes has the labels of the list, which lies elsewhere."""
    names = ['zebra', 'ant', 'great white shark', 'cat']
    have = ['cat', 'great white shark', 'cat']
    os.mkdir(f'{scratch}/lists, all')
    with open(f'{scratch}/lists, all/names.txt', 'w', encoding='utf-8') as file:
        file.write('\n'.join(names))
    for i, name in enumerate(have):
        picture(f'{scratch}/val/{name}/{i}.png', i)
    path = f'{scratch}/val'
    if kind == 'manifest':
        path = f'{scratch}/val.csv'
        with open(path, 'w', encoding='utf-8') as file:
            file.writelines(f'val/{name}/{i}.png,{name}\n' for i, name in enumerate(have))
    elif kind == 'tar':
        path = f'{scratch}/val.tar'
        with tarfile.open(path, 'w') as tar:
            for i, name in enumerate(have):
                tar.add(f'{scratch}/val/{name}/{i}.png', f'{i}.png')
                info = tarfile.TarInfo(f'{i}.cls')
                info.size = len(name)
                tar.addfile(info, io.BytesIO(name.encode()))
    classes = f'{scratch}/lists, all/names.txt'
    daemon = start_daemon(config=group('val', path=path, classes=classes))
    with daemon.client() as client:
        labels, count = labels_and_classes(client, 'val')
        order = sorted(have) if kind == 'folder' else have
        assert labels == [names.index(name) for name in order] and count == 4
        with open(classes, 'w', encoding='utf-8') as file:
            file.write('cat\ncat\n')
        daemon.reload(group('val', path=path, classes=classes))
        daemon.log.wait('names.txt: line 2 names a class that stands above it too')
        with pytest.raises(ServerError) as caught:
            client.open('val', **U8)
        assert caught.value.code == pb.ERROR_DATASET and 'line 2' in caught.value.text


def test_manifest_of_numbers_with_gaps(start_daemon, scratch):
    """Numbers are classes as they are, in a training set and in a validation set that has few."""
    picture(f'{scratch}/1.png')
    for name, labels in (('train', range(10)), ('val', (2, 9))):
        with open(f'{scratch}/{name}.csv', 'w', encoding='utf-8') as file:
            file.writelines(f'1.png,{label}\n' for label in labels)
    daemon = start_daemon({name: f'{scratch}/{name}.csv' for name in ('train', 'val')})
    with daemon.client() as client:
        assert labels_and_classes(client, 'train') == (list(range(10)), 10)
        assert labels_and_classes(client, 'val') == ([2, 9], 10)
    daemon.log.wait('val: 8 of 10 classes have no samples')


def test_names_for_idx(start_daemon, scratch):
    images = make_data.pixels(6, (4, 4))
    path = make_data.write_idx(f'{scratch}/idx', images, np.array([0, 2, 1, 0, 0, 1]))
    for name, count in (('few', 2), ('enough', 5)):
        with open(f'{scratch}/{name}.txt', 'w', encoding='utf-8') as file:
            file.writelines(f'class number {i}\n' for i in range(count))
    daemon = start_daemon(config=''.join(
        group(name, path=path, classes=f'{scratch}/{name}.txt') for name in ('few', 'enough')))
    with daemon.client() as client:
        assert labels_and_classes(client, 'enough') == ([0, 2, 1, 0, 0, 1], 5)
        with pytest.raises(ServerError) as caught:
            client.open('few', **U8)
        assert 'has the label 2, but the list has 2 classes' in caught.value.text


def test_check_config(scratch):
    """What is in effect is printed as a config file that says the same."""
    config = f'{scratch}/stokerd.conf'
    with open(config, 'w', encoding='utf-8') as file:
        file.write(group('train', path='data', hidden='take', allow_empty='yes', classes='n.txt'))
    for _ in range(2):
        printed = subprocess.run(
            [STOKERD, '--config', config, '--socket', f'{scratch}/s', '--check-config'],
            capture_output=True, check=True, text=True).stdout
        assert (f'path = {scratch}/data\nhidden = take\nallow_empty = yes\n'
                f'classes = {scratch}/n.txt\n') in printed
        with open(config, 'w', encoding='utf-8') as file:
            file.write(printed)
