# SPDX-License-Identifier: Apache-2.0
"""Data that changes while a stream reads it: bad samples that say so, never a crash, never the pixels
of something else."""

import csv
import io
import os
import tarfile

import numpy as np
import pytest
from PIL import Image

import make_data
from client import ServerError, pb
from test_bad_samples import directory, fifo, other_size, replace_by, truncated

COUNT = 120
MASK, ERROR = pb.ON_BAD_SAMPLE_MASK, pb.ON_BAD_SAMPLE_ERROR


@pytest.fixture(scope='module')
def pictures():
    return make_data.pixels(COUNT, (9, 12, 3), 6)


def png(picture):
    file = io.BytesIO()
    Image.fromarray(picture).save(file, 'PNG')
    return file.getvalue()


class Changing:
    """A stream of a data set with one class, stopped behind its first batches; then it goes on."""

    def __init__(self, client, pictures, policy, batches=3):
        self.client, self.pictures, self.policy = client, pictures, policy
        self.stream = client.open('train', dtype=pb.DTYPE_U8, layout=pb.LAYOUT_NHWC, batch_size=4,
                                  depth=2, epochs=0, on_bad_sample=policy)
        for _ in range(batches):
            self.stream.release(self.stream.next())

    def check(self, bad, says):
        """From now on the samples `bad` are masked, or the first of them ends the stream; all others
        are as they were. What was rendered before the change does not count."""
        left, seen = 2, set()  # epochs after the first
        if self.policy == ERROR:
            with pytest.raises(ServerError) as caught:
                while True:
                    kind, event = self.stream.event()
                    if kind == 'batch':
                        self.check_rows(event, set())
                        self.stream.release(event)
            assert caught.value.code == pb.ERROR_BAD_SAMPLE and says in caught.value.text, caught
            assert '\n' not in caught.value.text
        while self.policy == MASK and left > 0:
            kind, event = self.stream.event()
            if kind == 'batch':
                seen |= self.check_rows(event, bad)
                self.stream.release(event)
            elif event.epoch > 0:
                left -= 1
        if self.policy == MASK:
            assert seen == bad
            status = self.client.status().dataset[0]
            assert status.bad_sample and all(says in s.text for s in status.bad_sample), status
        self.stream.close() if self.policy == MASK else self.stream.unmap()
        assert self.client.status().worker_deaths == 0

    def check_rows(self, batch, bad):
        """The samples of this batch that are masked."""
        masked = set()
        for image, sample, status in zip(batch.images, batch.samples, batch.statuses):
            if status == pb.ROW_OK:
                np.testing.assert_array_equal(image, self.pictures[sample])
                # Only the first epoch may have rows from before the change.
                assert batch.epoch == 0 or int(sample) not in bad
            else:
                assert status == pb.ROW_MASKED and int(sample) in bad and not image.any()
                masked.add(int(sample))
        return masked


def grown(path):
    """The picture stays first; what stands behind it is ignored."""
    with open(path, 'ab') as file:
        file.write(b'more' * 1000)


def outside(path):
    os.unlink(path)
    os.symlink('/etc/hostname', path)


FILE_CHANGES = {
    'removed': (os.unlink, 'No such file'), 'truncated': (truncated, 'cut short'),
    'emptied': (replace_by(b''), 'empty'), 'directory': (directory, 'is a directory'),
    'FIFO': (fifo, 'is a FIFO'), 'link outside': (outside, ''), 'another size': (other_size, '28x27'),
    'text': (replace_by(b'hello'), 'not PNG or JPEG'),
}

POLICIES = pytest.mark.parametrize('policy', [ERROR, MASK], ids=['error', 'mask'])
WORKERS = pytest.mark.parametrize('workers', [0, 2])


def write_files(root, pictures):
    os.makedirs(f'{root}/class')
    for i, picture in enumerate(pictures):
        with open(f'{root}/class/{i:04}.png', 'wb') as file:
            file.write(png(picture))


@WORKERS
@POLICIES
@pytest.mark.parametrize('change, says', FILE_CHANGES.values(), ids=FILE_CHANGES.keys())
def test_file(start_daemon, scratch, pictures, change, says, policy, workers):
    write_files(f'{scratch}/data', pictures)
    daemon = start_daemon({'train': f'{scratch}/data'}, workers=workers, settle=True)
    with daemon.client() as client:
        changing = Changing(client, pictures, policy)
        for i in (3, 77, COUNT - 1):
            change(f'{scratch}/data/class/{i:04}.png')
        changing.check({3, 77, COUNT - 1}, says)
    daemon.wait_idle()


@WORKERS
def test_files_that_grow_or_come(start_daemon, scratch, pictures, workers):
    """Bytes behind a picture, and new files, change nothing until the configuration is read again."""
    write_files(f'{scratch}/data', pictures)
    daemon = start_daemon({'train': f'{scratch}/data'}, workers=workers, settle=True)
    with daemon.client() as client:
        changing = Changing(client, pictures, MASK)
        for i in (3, 77):
            grown(f'{scratch}/data/class/{i:04}.png')
        write_files(f'{scratch}/data/sub', pictures[:3])
        for _ in range(COUNT):
            kind, event = changing.stream.event()
            if kind == 'batch':
                assert not changing.check_rows(event, set())
                changing.stream.release(event)
        assert not client.status().dataset[0].bad_sample
    daemon.wait_idle()


@WORKERS
@POLICIES
def test_folder_that_goes(start_daemon, scratch, pictures, policy, workers):
    write_files(f'{scratch}/data', pictures)
    daemon = start_daemon({'train': f'{scratch}/data'}, workers=workers, settle=True)
    with daemon.client() as client:
        changing = Changing(client, pictures, policy)
        os.rename(f'{scratch}/data', f'{scratch}/away')
        os.symlink('/etc', f'{scratch}/data')
        # A stream keeps the folder that it has opened; one that opens now finds none of its files.
        for _ in range(COUNT):
            kind, event = changing.stream.event()
            if kind == 'batch':
                assert not changing.check_rows(event, set())
                changing.stream.release(event)
        changing.stream.close()
        Changing(client, pictures, policy, 0).check(
            set(range(COUNT)), 'No such file')
    daemon.wait_idle()


# ---- IDX ----

def write_idx(root, pictures):
    os.makedirs(root, exist_ok=True)
    with open(f'{root}/x-images-idx4-ubyte', 'wb') as file:
        file.write(make_data.idx_bytes(pictures))
    with open(f'{root}/x-labels-idx1-ubyte', 'wb') as file:
        file.write(make_data.idx_bytes(np.zeros(len(pictures))))
    return f'{root}/x-images-idx4-ubyte'


def resize(change):
    return lambda path: os.truncate(path, os.path.getsize(path) + change)


def rewritten(path):
    """Another file's pixels under the same inode and of the same size."""
    with open(path, 'r+b') as file:
        file.seek(20)
        file.write(bytes(1000))
    os.utime(path, ns=(5, 5))


IDX_CHANGES = {'shrunk': resize(-1000), 'emptied': lambda path: os.truncate(path, 0),
               'grown': resize(1), 'rewritten': rewritten}


@WORKERS
@POLICIES
@pytest.mark.parametrize('change', IDX_CHANGES.values(), ids=IDX_CHANGES.keys())
def test_idx(start_daemon, scratch, pictures, change, policy, workers):
    path = write_idx(f'{scratch}/data', pictures)
    daemon = start_daemon({'train': path}, workers=workers, settle=True)
    with daemon.client() as client:
        changing = Changing(client, pictures, policy)
        change(path)
        changing.check(set(range(COUNT)), 'has changed since it was indexed')
    daemon.wait_idle()


@WORKERS
@pytest.mark.parametrize('other', ['another file', 'FIFO', 'directory', 'nothing'])
def test_idx_that_is_replaced(start_daemon, scratch, pictures, other, workers):
    """A stream that runs keeps its file; one that opens afterwards is not given another's pixels."""
    path = write_idx(f'{scratch}/data', pictures)
    daemon = start_daemon({'train': path}, workers=workers, settle=True)
    with daemon.client() as client:
        changing = Changing(client, pictures, MASK)
        os.rename(path, f'{path}.old')
        if other == 'another file':
            write_idx(f'{scratch}/data', pictures[::-1])
            os.utime(path, ns=(7, 7))
        elif other == 'FIFO':
            os.mkfifo(path)
        elif other == 'directory':
            os.mkdir(path)
        for _ in range(2 * COUNT // 4):
            kind, event = changing.stream.event()
            if kind == 'batch':
                assert not changing.check_rows(event, set())
                changing.stream.release(event)
        changing.stream.close()
        stream = client.open('train', dtype=pb.DTYPE_U8, on_bad_sample=MASK)
        for batch in stream.batches():
            assert (batch.statuses == pb.ROW_MASKED).all() and not batch.images.any()
        said = client.status().dataset[0].bad_sample[0].text
        assert ('reload stokerd' if workers else {
            'another file': 'has changed', 'FIFO': 'is in a FIFO', 'directory': 'in a directory',
            'nothing': 'No such file'}[other]) in said
        assert client.status().worker_deaths == 0
        stream.close()
    daemon.wait_idle()


def test_labels_and_gzip_may_go(start_daemon, scratch, pictures):
    """What was read when indexing is needed no more."""
    path = make_data.write_idx(f'{scratch}/data', pictures[:, :, :, 0], np.arange(COUNT) % 7,
                               compress=True)
    daemon = start_daemon({'train': path}, settle=True)
    for name in os.listdir(f'{scratch}/data'):
        os.unlink(f'{scratch}/data/{name}')
    with daemon.client() as client:
        stream = client.open('train', dtype=pb.DTYPE_U8)
        assert sum((b.statuses == pb.ROW_OK).sum() for b in stream.batches()) == COUNT
        stream.close()
    daemon.wait_idle()


# ---- tar ----

def write_shard(path, pictures):
    with tarfile.open(path, 'w') as tar:
        for i, picture in enumerate(pictures):
            for extension, data in (('png', png(picture)), ('cls', b'0')):
                info = tarfile.TarInfo(f'{i:04}.{extension}')
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return path


SHARD_CHANGES = {
    'removed': (os.unlink, 'No such file'), 'shrunk': (resize(-8192), 'has changed'),
    'grown': (resize(512), 'has changed'), 'touched': (lambda p: os.utime(p, ns=(1, 1)), 'has changed'),
    'directory': (directory, 'is a directory'), 'FIFO': (fifo, 'is a FIFO'),
}


@WORKERS
@POLICIES
@pytest.mark.parametrize('change, says', SHARD_CHANGES.values(), ids=SHARD_CHANGES.keys())
def test_shard(start_daemon, scratch, pictures, change, says, policy, workers):
    """One of two shards changes: its samples are bad, the other's are not."""
    os.makedirs(f'{scratch}/data')
    half = COUNT // 2
    write_shard(f'{scratch}/data/x-0.tar', pictures[:half])
    write_shard(f'{scratch}/data/x-1.tar', pictures[half:])
    daemon = start_daemon({'train': f'{scratch}/data'}, workers=workers, settle=True)
    with daemon.client() as client:
        changing = Changing(client, pictures, policy)
        change(f'{scratch}/data/x-1.tar')
        changing.check(set(range(half, COUNT)), says)
    daemon.wait_idle()


# ---- manifests ----

@WORKERS
@POLICIES
@pytest.mark.parametrize('change', [os.unlink, replace_by(b'x.png,1\n'), fifo],
                         ids=['removed', 'rewritten', 'FIFO'])
def test_manifest(start_daemon, scratch, pictures, change, policy, workers):
    """The list was read when indexing; only the files that it names matter."""
    write_files(f'{scratch}/data', pictures)
    path = f'{scratch}/data/train.csv'
    with open(path, 'w', newline='') as file:
        csv.writer(file).writerows((f'class/{i:04}.png', 0) for i in range(COUNT))
    daemon = start_daemon({'train': path}, workers=workers, settle=True)
    with daemon.client() as client:
        changing = Changing(client, pictures, policy)
        change(path)
        os.unlink(f'{scratch}/data/class/0050.png')
        changing.check({50}, 'No such file')
    daemon.wait_idle()
