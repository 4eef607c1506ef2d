# SPDX-License-Identifier: Apache-2.0
"""Manifests and tar shards through stokerd, with Python's csv and tarfile as the other side."""

import csv
import io
import os
import tarfile

import numpy as np
import pytest
from PIL import Image

import make_data
from client import ServerError, all_rows, pb
from test_tar_corpus import dump, members


@pytest.fixture(scope='module')
def pictures():
    """(RGB pixels of 60 pictures, the PNG files)"""
    images = make_data.pixels(60, (9, 12, 3), 77)
    files = []
    for image in images:
        file = io.BytesIO()
        Image.fromarray(image).save(file, 'PNG')
        files.append(file.getvalue())
    return images, files


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as file:
        file.write(data)


def check_rows(daemon, name, images, labels, kind, classes):
    with daemon.client() as client:
        stream = client.open(name, dtype=pb.DTYPE_U8, layout=pb.LAYOUT_NHWC, shuffle=True, seed=4,
                             batch_size=7)
        assert stream.opened.classes == classes and stream.shape == (9, 12, 3)
        got = all_rows(stream)
        assert sorted(got[2]) == list(range(len(labels)))
        np.testing.assert_array_equal(got[0], np.asarray(images)[got[2]])
        np.testing.assert_array_equal(got[1], np.asarray(labels)[got[2]])
        dataset = {d.name: d for d in client.status().dataset}[name.encode()]
        assert (dataset.kind, dataset.samples) == (kind, len(labels))


# ---- manifests ----

def write_manifest(root, files, labels, separator=',', end='\n', mark='', **options):
    """Pictures and a manifest of them, as Python's csv module writes it."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator=end, **options)
    writer.writerow(['id', 'path', 'class'])
    for i, data in enumerate(files):
        name = f'deep/{i}, "pic"\tture {i % 3}\n.png' if i % 5 == 0 else f'./{i}.png'
        write(f'{root}/{name}', data)
        writer.writerow([i, name, labels[i]])
    path = f'{root}/train.{"tsv" if separator == chr(9) else "csv"}'
    write(path, (mark + text.getvalue()).encode())
    return path


@pytest.mark.parametrize('workers', [0, 2])
@pytest.mark.parametrize('form', [
    dict(), dict(end='\r\n', mark='\ufeff'), dict(separator='\t', quoting=csv.QUOTE_ALL)],
    ids=['csv', 'spreadsheet', 'tsv'])
def test_manifest(start_daemon, scratch, pictures, form, workers):
    """By names, sorted; the files lie beside the manifest, which is not the data set's folder."""
    images, files = pictures
    names = [('Zebra', 'cat', 'äffin', 'dog')[i % 4] for i in range(60)]
    path = write_manifest(f'{scratch}/data', files, names, **form)
    daemon = start_daemon({'train': path}, workers=workers, settle=True)
    order = sorted(set(names))
    check_rows(daemon, 'train', images, [order.index(name) for name in names], 'manifest', 4)
    daemon.wait_idle()


def test_manifest_of_numbers_elsewhere(start_daemon, scratch, pictures):
    """Absolute paths work with also_read, which the error without it names."""
    images, files = pictures
    labels = [i % 6 for i in range(60)]
    for i, data in enumerate(files):
        write(f'{scratch}/elsewhere/{i}.png', data)
    write(f'{scratch}/lists/train.csv', ''.join(
        f'{scratch}/elsewhere/{i}.png,{label}\n' for i, label in enumerate(labels)).encode())
    config = f'[dataset train]\npath = {scratch}/lists/train.csv\n'
    daemon = start_daemon(config=config + f'also_read = {scratch}/elsewhere\n')
    check_rows(daemon, 'train', images, labels, 'manifest', 6)
    with daemon.client() as client:
        if 'landlock' not in client.status().sandbox:
            pytest.skip('no Landlock here')
    with start_daemon(config=config).client() as client:
        with pytest.raises(ServerError) as caught:
            client.open('train', dtype=pb.DTYPE_U8)
        assert 'also_read' in caught.value.text and '0.png' in caught.value.text


def test_manifest_names_what_is_wrong(start_daemon, scratch, pictures):
    """A broken line by its number when opening; a missing file when it is its turn."""
    write(f'{scratch}/a.png', pictures[1][0])
    write(f'{scratch}/broken.csv', b'path,label\na.png,0\na.png\n')
    write(f'{scratch}/missing.csv', b'path,label\na.png,0\nsub/gone.png,0\n')
    daemon = start_daemon({'broken': f'{scratch}/broken.csv', 'missing': f'{scratch}/missing.csv'})
    with daemon.client() as client:
        with pytest.raises(ServerError) as caught:
            client.open('broken', dtype=pb.DTYPE_U8)
        assert caught.value.code == pb.ERROR_DATASET
        assert f'{scratch}/broken.csv: line 3 ' in caught.value.text
        stream = client.open('missing', dtype=pb.DTYPE_U8, batch_size=1)
        with pytest.raises(ServerError) as caught:
            all_rows(stream)
        assert caught.value.code == pb.ERROR_BAD_SAMPLE
        assert f'{scratch}/sub/gone.png' in caught.value.text


# ---- archives ----

def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def write_shards(root, files, labels, count, form=tarfile.USTAR_FORMAT, prefix=''):
    os.makedirs(root, exist_ok=True)
    for shard in range(count):
        with tarfile.open(f'{root}/t-{shard:03}.tar', 'w', format=form) as tar:
            for i in range(shard * len(files) // count, (shard + 1) * len(files) // count):
                add(tar, f'{prefix}{i:05}.cls', b'%d\n' % labels[i])
                add(tar, f'{prefix}{i:05}.json', b'{}')
                add(tar, f'{prefix}{i:05}.png', files[i])


@pytest.mark.parametrize('form,prefix', [
    (tarfile.USTAR_FORMAT, 'x/'), (tarfile.GNU_FORMAT, 'g' * 140 + '/ä/'),
    (tarfile.PAX_FORMAT, 'p' * 300 + '/ö/')], ids=['ustar', 'gnu', 'pax'])
def test_tar(start_daemon, scratch, pictures, form, prefix):
    """As a folder, by a range, by a star, and as one file; with more shards than descriptors."""
    images, files = pictures
    labels = [i % 5 for i in range(60)]
    write_shards(f'{scratch}/data', files, labels, 20, form, prefix)
    data = f'{scratch}/data'
    daemon = start_daemon({'folder': data, 'range': data + '/t-{000..019}.tar',
                           'star': f'{data}/t-*.tar', 'one': f'{data}/t-001.tar'}, settle=True)
    for name in ('folder', 'range', 'star'):
        check_rows(daemon, name, images, labels, 'tar', 5)
    check_rows(daemon, 'one', images[3:6], labels[3:6], 'tar', 5)
    daemon.wait_idle()


def test_tar_without_workers(start_daemon, scratch, pictures):
    images, files = pictures
    labels = [i % 5 for i in range(60)]
    write_shards(f'{scratch}/data', files, labels, 3)
    daemon = start_daemon({'train': f'{scratch}/data'}, workers=0)
    check_rows(daemon, 'train', images, labels, 'tar', 5)


def test_tar_names_what_is_wrong(start_daemon, scratch, pictures):
    images, files = pictures
    write_shards(f'{scratch}/cut', files, [0] * 60, 2)
    os.truncate(f'{scratch}/cut/t-001.tar', 2000)
    write_shards(f'{scratch}/gap', files, [0] * 60, 2)
    with tarfile.open(f'{scratch}/bad.tar', 'w') as tar:
        add(tar, 'a/0.cls', b'0')
        add(tar, 'a/0.png', files[0])
        add(tar, 'a/1.cls', b'0')
        add(tar, 'a/1.png', b'no picture')
    with tarfile.open(f'{scratch}/zipped.tar.gz', 'w:gz') as tar:
        add(tar, 'a/0.png', files[0])
    daemon = start_daemon({
        'cut': f'{scratch}/cut', 'gap': f'{scratch}/gap/' + 't-{000..002}.tar',
        'zipped': f'{scratch}/zipped.tar.gz', 'bad': f'{scratch}/bad.tar'})
    with daemon.client() as client:
        for name, words in (('cut', ('cut/t-001.tar', 'is cut')),
                            ('gap', ('gap/t-002.tar', 'does not exist')),
                            ('zipped', ('zipped.tar.gz', 'compressed (gzip)'))):
            with pytest.raises(ServerError) as caught:
                client.open(name, dtype=pb.DTYPE_U8)
            assert caught.value.code == pb.ERROR_DATASET
            assert all(word in caught.value.text for word in words), caught.value.text
        stream = client.open('bad', dtype=pb.DTYPE_U8, batch_size=1)
        with pytest.raises(ServerError) as caught:
            all_rows(stream)
        assert caught.value.code == pb.ERROR_BAD_SAMPLE
        assert f'{scratch}/bad.tar:a/1.png' in caught.value.text


@pytest.mark.parametrize('change', ['grows', 'shrinks', 'goes', 'is replaced'])
def test_tar_that_changes(start_daemon, scratch, pictures, change):
    """A bad sample that says so; never other bytes, never a crash."""
    path = f'{scratch}/data/t-000.tar'
    write_shards(f'{scratch}/data', pictures[1], [0] * 60, 1)
    daemon = start_daemon({'train': path}, settle=True)
    if change == 'goes':
        os.unlink(path)
    elif change == 'is replaced':
        os.utime(path, ns=(1, 1))
    else:
        os.truncate(path, os.path.getsize(path) + (512 if change == 'grows' else -8192))
    with daemon.client() as client:
        stream = client.open('train', dtype=pb.DTYPE_U8)
        with pytest.raises(ServerError) as caught:
            all_rows(stream)
        assert caught.value.code == pb.ERROR_BAD_SAMPLE and 't-000.tar' in caught.value.text
        assert ('No such file' if change == 'goes' else 'changed') in caught.value.text
        assert client.status().worker_deaths == 0


@pytest.mark.parametrize('form', [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT],
                         ids=['ustar', 'gnu', 'pax'])
def test_members_as_tarfile_reads_them(scratch, form):
    """Names of every length around the formats' limits, links, folders, big numbers."""
    path = f'{scratch}/x.tar'
    limit = 99 if form == tarfile.USTAR_FORMAT else 600
    with tarfile.open(path, 'w', format=form) as tar:
        for length in (*range(1, 100, 7), *range(95, 106), 155, 156, 255, 256, 257, 600):
            if length <= limit:
                add(tar, 'n' * (length - 1) + '.', b'x' * length)
                add(tar, 'd/' + 'ü' * (length // 2), b'')
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE,
                     tarfile.CHRTYPE, tarfile.CONTTYPE):
            info = tarfile.TarInfo(f'kind{kind.decode()}')
            info.type, info.linkname, info.mtime = kind, 'l' * limit, 1
            tar.addfile(info)
        info = tarfile.TarInfo('numbers')
        info.mtime = info.uid = 5 if form == tarfile.USTAR_FORMAT else 1 << 40
        info.mtime += 0.5 if form == tarfile.PAX_FORMAT else 0
        tar.addfile(info)
    found, text = members(path)
    with tarfile.open(path) as tar:
        expected = [(m.name, 'reg' if m.isreg() else 'dir' if m.isdir() else
                     'sym' if m.issym() else 'other', str(m.size)) for m in tar]
    assert not text and [member[:3] for member in found] == expected and len(found) > 40


def test_large_member(scratch, pictures):
    """A member of 9 GB, of which nothing but its header is there: base-256 and pax, in one seek."""
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        path = f'{scratch}/large.tar'
        info = tarfile.TarInfo('a.bin')
        info.size = 9 << 30
        with open(path, 'wb') as file:
            file.write(info.tobuf(form))
            file.seek(info.size, os.SEEK_CUR)
            with tarfile.open(fileobj=file, mode='w', format=form) as tar:
                add(tar, 'b.png', pictures[1][0])
                add(tar, 'b.cls', b'0')
        lines, text = dump('dataset_dump', path)
        assert not text
        sample = next(line for line in lines if line.startswith('sample 0 0 '))
        offset, name = sample.split(' ')[3:]
        assert name == 'b.png' and int(offset.split('+')[0]) > 9 << 30
