# SPDX-License-Identifier: Apache-2.0
"""index_dir: an index is saved, used again while the data set is as it was, and else made anew.

What stokerd's log says at the end of indexing tells which of these it was.
"""

import ctypes
import io
import os
import random
import shutil
import stat
import struct
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest

import make_data
from client import ServerError, all_rows, pb
from reference import folder_pixels

SAVED, REUSED, BUILT = ', the index is saved', ', from the saved index', ''


def age(*roots):
    """Let everything there have been modified a while ago, as data sets usually have."""
    long_ago = time.time() - 1000
    for root in roots:
        for directory, _, names in os.walk(root):
            for name in names:
                os.utime(os.path.join(directory, name), (long_ago, long_ago),
                         follow_symlinks=False)
        for directory, _, _ in os.walk(root):
            os.utime(directory, (long_ago, long_ago))
        os.utime(root, (long_ago, long_ago))


class Indexing:
    """Starts one daemon after the other on the same data set and index_dir."""

    def __init__(self, start_daemon, scratch):
        self.start_daemon = start_daemon
        self.directory = Path(scratch) / 'indexes'
        self.saved = self.directory / 'train.index'

    def start(self, path, **options):
        daemon = self.start_daemon({'train': path}, workers=1,
                                   args=['--index-dir', str(self.directory)], **options)
        self.line = daemon.log.wait(r'data set train: (.* samples in |/)')[0]
        return daemon

    def origin(self, path, **options):
        """Index the data set and end the daemon; what became of the saved index, and the log."""
        daemon = self.start(path, **options)
        with daemon.client() as client:
            self.samples = client.open('train', dtype=pb.DTYPE_U8,
                                       batch_size=1).opened.dataset_samples
        daemon.terminate()
        daemon.log.wait_end()
        self.log = daemon.log.text()
        assert sorted(os.listdir(self.directory)) in ([], ['train.index'])
        return self.line.partition(')')[2]


@pytest.fixture
def indexing(start_daemon, scratch):
    return Indexing(start_daemon, scratch)


@pytest.fixture
def folder(scratch):
    """60 files in 3 classes, one of which has a folder of its own."""
    path = make_data.write_folder(f'{scratch}/data', make_data.pixels(60), 3)
    os.mkdir(f'{path}/class1/more')
    os.rename(f'{path}/class1/1.png', f'{path}/class1/more/1.png')
    age(path)
    return path


def test_reused(indexing, folder):
    """By a later daemon and on reload; the batches are those of the first."""
    images, labels = folder_pixels(folder, True)
    assert indexing.origin(folder) == SAVED
    assert stat.S_IMODE(indexing.saved.stat().st_mode) == 0o600
    assert stat.S_IMODE(indexing.directory.stat().st_mode) == 0o700
    assert indexing.origin(folder) == REUSED
    assert '60 samples in 3 classes' in indexing.line and '(folder)' in indexing.line
    daemon = indexing.start(folder)
    daemon.reload('')
    daemon.log.wait(REUSED, count=2)
    with daemon.client() as client:
        got = all_rows(client.open('train', dtype=pb.DTYPE_U8))
    np.testing.assert_array_equal(got[1], labels)
    np.testing.assert_array_equal(got[0].transpose(0, 2, 3, 1), images.repeat(3, axis=3))


def test_off_by_default(start_daemon, scratch, folder):
    daemon = start_daemon({'train': folder}, settle=True)
    assert 'saved' not in daemon.log.text()


def rewrite(path):
    """Another picture of the same size in place of this one."""
    shutil.copy(sorted(Path(path).parent.glob('*.png'))[-1], path)


CHANGES = {
    'added file': lambda p: shutil.copy(f'{p}/class0/0.png', f'{p}/class0/new.png'),
    'added deep': lambda p: shutil.copy(f'{p}/class0/0.png', f'{p}/class1/more/new.png'),
    'removed': lambda p: os.unlink(f'{p}/class2/5.png'),
    'renamed file': lambda p: os.rename(f'{p}/class2/5.png', f'{p}/class2/5b.png'),
    'renamed folder': lambda p: os.rename(f'{p}/class2', f'{p}/class9'),
    'renamed deep': lambda p: os.rename(f'{p}/class1/more', f'{p}/class1/less'),
    'new class': lambda p: shutil.copytree(f'{p}/class0', f'{p}/class4'),
    'first picture': lambda p: rewrite(f'{p}/class0/0.png'),
}


@pytest.mark.parametrize('change', CHANGES)
@pytest.mark.parametrize('hidden', [False, True], ids=['', 'with its old times'])
def test_changes_are_noticed(indexing, folder, change, hidden):
    """Also when the modification times are put back, as tar and rsync do."""
    assert indexing.origin(folder) == SAVED
    CHANGES[change](folder)
    if hidden:
        age(folder)
    assert indexing.origin(folder) in (SAVED, BUILT)
    assert 'saved index is not used: ' + folder in indexing.log and 'has changed' in indexing.log
    age(folder)
    assert indexing.origin(folder) == SAVED
    assert indexing.origin(folder) == REUSED
    assert indexing.samples == {'added file': 61, 'added deep': 61, 'removed': 59,
                                'new class': 80}.get(change, 60)


@pytest.mark.parametrize('link', ['class9', 'class1/more/most'])
def test_link_that_leads_nowhere_yet(indexing, folder, link):
    """As to a disk that is not mounted: once it leads to a directory, that belongs to the data set."""
    place = f'{folder}/.place'
    os.mkdir(place)
    os.symlink(f'{place}/pictures', f'{folder}/{link}')
    age(folder)
    assert indexing.origin(folder) == SAVED
    assert indexing.origin(folder) == REUSED
    assert indexing.samples == 60
    shutil.copytree(f'{folder}/class0', f'{place}/pictures')
    age(place)
    assert indexing.origin(folder) == SAVED
    assert f'saved index is not used: {folder}/{link} has changed' in indexing.log
    assert indexing.samples == 80


def test_content_does_not_matter(indexing, folder):
    """Only names and labels are in an index: but for the first, files may change."""
    assert indexing.origin(folder) == SAVED
    Path(folder, 'class2/5.png').write_bytes(b'no picture any more')
    assert indexing.origin(folder) == REUSED


def test_mended_pictures_are_noticed(indexing, folder):
    """An index of a data set without a picture that can be read is used only while that is so."""
    paths = sorted(Path(folder).rglob('*.png'))
    good = paths[3].read_bytes()
    for path in paths:
        path.write_bytes(b'no picture')
    age(folder)
    for line in (SAVED, REUSED):
        daemon = indexing.start(folder)
        daemon.log.wait(line)
        with daemon.client() as client, pytest.raises(ServerError, match='can be read'):
            client.open('train', dtype=pb.DTYPE_U8)
        daemon.terminate()
    paths[3].write_bytes(good)
    age(folder)
    daemon = indexing.start(folder)
    daemon.log.wait(f'the saved index is not used: {folder}.* has changed')
    with daemon.client() as client:
        assert client.open('train', dtype=pb.DTYPE_U8, batch_size=60,
                           on_bad_sample=pb.ON_BAD_SAMPLE_MASK).shape == (3, 28, 28)


def test_young_data_sets_are_not_saved(indexing, folder):
    """What was modified just now may be once more without a trace in its times."""
    os.utime(f'{folder}/class1/more')
    assert indexing.origin(folder) == BUILT
    assert f'{folder}/class1/more has changed within the last 2 seconds' in indexing.log
    future = time.time() + 1000
    age(folder)
    os.utime(f'{folder}/class0', (future, future))
    assert indexing.origin(folder) == BUILT
    assert not indexing.saved.exists()


def test_links(indexing, folder, scratch):
    """A class that is a link: what it leads to is watched."""
    other = make_data.write_folder(f'{scratch}/other', make_data.pixels(9), 1)
    os.symlink(f'{scratch}/by', f'{folder}/linked')
    os.symlink(f'{other}/class0', f'{scratch}/by')
    age(folder, other)
    config = f'[dataset train]\npath = {folder}\nalso_read = {other}\n'

    def origin():
        daemon = indexing.start_daemon(workers=1, config=config,
                                       args=['--index-dir', str(indexing.directory)])
        line = daemon.log.wait(r'data set train: .* samples in ')[0]
        daemon.terminate()
        return line.partition(')')[2]

    assert [origin(), origin()] == [SAVED, REUSED]
    os.rename(f'{other}/class0', f'{other}/old')
    shutil.copytree(f'{other}/old', f'{other}/class0')
    age(other)
    assert [origin(), origin()] == [SAVED, REUSED]
    # What may be read besides is part of what was asked for.
    config = config.replace(f'also_read = {other}', f'also_read = {other};/usr/share')
    assert [origin(), origin()] == [SAVED, REUSED]


def test_options(indexing, folder, scratch):
    """They are part of what was asked for; a list of classes is watched as the data set is."""
    def origin(options=''):
        daemon = indexing.start_daemon(workers=1, args=['--index-dir', str(indexing.directory)],
                                       config=f'[dataset train]\npath = {folder}\n{options}')
        line = daemon.log.wait(r'data set train: .* samples in ')[0]
        daemon.terminate()
        return line.partition(')')[2]

    names = Path(scratch) / 'classes.txt'
    names.write_text('class0\nclass1\nclass2\n')
    os.utime(names, (5000, 5000))
    for options in ('', 'hidden = take\n', 'allow_empty = yes\n', f'classes = {names}\n'):
        assert [origin(options), origin(options)] == [SAVED, REUSED]
    names.write_text('class2\nclass1\nclass0\n')
    os.utime(names, (5000, 5000))
    assert [origin(options), origin(options)] == [SAVED, REUSED]


def test_manifest(indexing, folder, scratch):
    manifest = Path(scratch) / 'data' / 'train.csv'
    lines = [f'class{i % 3}/{i}.png,{i % 3}' for i in range(60) if i != 1]
    manifest.write_text('\n'.join(lines))
    age(folder)
    assert [indexing.origin(manifest) for _ in range(2)] == [SAVED, REUSED]
    shutil.copy(f'{folder}/class0/0.png', f'{folder}/class0/new.png')  # not in the manifest
    assert indexing.origin(manifest) == REUSED
    manifest.write_text('\n'.join(lines[:-1]))
    age(folder)
    assert [indexing.origin(manifest) for _ in range(2)] == [SAVED, REUSED]
    assert indexing.samples == 58
    manifest.write_text('\n'.join(lines[:-2] + [lines[-1]]))  # as long as before
    age(folder)
    assert indexing.origin(manifest) == SAVED


def write_tar(path, folder, numbers):
    with tarfile.open(path, 'w') as archive:
        for i in numbers:
            archive.add(f'{folder}/class{i % 3}/{i}.png', f'{i}.png')
            info = tarfile.TarInfo(f'{i}.cls')
            info.size = 1
            archive.addfile(info, io.BytesIO(b'%d' % (i % 3)))


def test_tar(indexing, folder, scratch):
    shards = Path(scratch) / 'shards'
    shards.mkdir()
    for n in range(3):
        write_tar(shards / f'{n}.tar', folder, range(3 + 10 * n, 13 + 10 * n))
    age(shards)
    pattern = f'{shards}/' + '{0..2}.tar'
    for path in (shards, shards / '*.tar', pattern, shards / '1.tar'):
        assert indexing.origin(path) == SAVED
        assert indexing.origin(path) == REUSED
        os.utime(shards / '1.tar', (5000, 5000))
        assert indexing.origin(path) == SAVED
        assert indexing.origin(path) == REUSED
    write_tar(shards / '3.tar', folder, range(33, 43))
    age(shards)
    assert [indexing.origin(shards) for _ in range(2)] == [SAVED, REUSED]
    assert indexing.samples == 40
    shutil.copy(shards / '3.tar', shards / '4.tar')
    age(shards)
    assert indexing.origin(shards / '*.tar') == SAVED
    assert indexing.samples == 50


def test_idx(indexing, scratch):
    images = make_data.pixels(30)
    root = Path(scratch) / 'idx'
    path = make_data.write_idx(root, images, np.arange(30) % 3)
    age(root)
    for named in (path, root):
        assert [indexing.origin(named) for _ in range(2)] == [SAVED, REUSED]
        make_data.write_idx(root, images, np.arange(30) % 2)
        age(root)
        assert [indexing.origin(named) for _ in range(2)] == [SAVED, REUSED]
    os.rename(root / 'train-labels-idx1-ubyte', root / 'train-labels.idx1-ubyte')
    age(root)
    assert [indexing.origin(path) for _ in range(2)] == [SAVED, REUSED]
    shutil.copy(root / 'train-labels.idx1-ubyte', root / 'train-labels-idx1-ubyte')  # comes first
    age(root)
    assert indexing.origin(path) == SAVED


def test_gzipped_idx_is_not_saved(indexing, scratch):
    """The index of packed pixels is nothing without them."""
    path = make_data.write_idx(f'{scratch}/idx', make_data.pixels(30), np.arange(30) % 3,
                               compress=True)
    age(f'{scratch}/idx')
    assert indexing.origin(path) == BUILT
    assert 'the index is not saved: gunzip' in indexing.log
    assert os.listdir(indexing.directory) == []


def test_another_path_under_the_name(indexing, folder, scratch):
    other = make_data.write_folder(f'{scratch}/other', make_data.pixels(9), 1)
    age(other)
    assert indexing.origin(folder) == SAVED
    assert indexing.origin(other) == SAVED
    assert 'another path or with other options' in indexing.log and indexing.samples == 9
    assert indexing.origin(folder) == SAVED


def test_damaged_files_are_made_anew(indexing, folder):
    assert indexing.origin(folder) == SAVED
    good = indexing.saved.read_bytes()
    draw = random.Random(5)
    flips = sorted({0, 8, 12, 40, len(good) - 1, *(draw.randrange(len(good)) for _ in range(6))})
    for damaged in (b'', good[:30], good[:-1], good + b'\0', b'\xff' * 5000,
                    *(good[:i] + bytes([good[i] ^ 0x10]) + good[i + 1:] for i in flips)):
        indexing.saved.write_bytes(damaged)
        assert indexing.origin(folder) == SAVED, damaged
        assert 'the saved index is not used: ' in indexing.log and indexing.samples == 60
        assert indexing.saved.read_bytes()[64:] == good[64:]
    assert indexing.origin(folder) == REUSED


def xxh3(data):
    library = ctypes.CDLL('libxxhash.so.0')
    library.XXH3_64bits.restype = ctypes.c_uint64
    return library.XXH3_64bits(data, ctypes.c_size_t(len(data)))


HEADER = struct.Struct('<QIIQQQQQQ')  # struct saved_header


@pytest.mark.parametrize('what', ['samples', 'root', 'data', 'nothing'])
def test_forged_files_are_made_anew(indexing, folder, what):
    """A file with the right checksums whose index is none, or of something else."""
    assert indexing.origin(folder) == SAVED
    file = indexing.saved.read_bytes()
    fields = list(HEADER.unpack_from(file))
    witnesses = file[HEADER.size:HEADER.size + fields[4]]
    index = bytearray(file[HEADER.size + fields[4]:])
    if what == 'samples':
        struct.pack_into('<Q', index, 16, 61)
    elif what == 'root':
        index[-1] ^= 1
    elif what == 'data':
        struct.pack_into('<I', index, 8, 2)  # IDX
        struct.pack_into('<I', index, 36, 1)
    else:
        index = bytearray()
    fields[5:8] = len(index), xxh3(witnesses), xxh3(bytes(index))
    fields[8] = xxh3(HEADER.pack(*fields)[:-8])
    indexing.saved.write_bytes(HEADER.pack(*fields) + witnesses + index)
    assert indexing.origin(folder) == SAVED
    assert 'the saved index is not used: ' in indexing.log and indexing.samples == 60
    assert indexing.origin(folder) == REUSED


def test_what_is_no_file_of_ours(indexing, folder, scratch):
    """Links, folders, FIFOs and files that others may write are not read."""
    assert indexing.origin(folder) == SAVED
    good = Path(scratch) / 'good'
    indexing.saved.rename(good)
    indexing.saved.symlink_to(good)
    assert indexing.origin(folder) == SAVED and not indexing.saved.is_symlink()
    indexing.saved.chmod(0o622)
    assert indexing.origin(folder) == SAVED
    indexing.saved.unlink()
    os.mkfifo(indexing.saved)
    assert indexing.origin(folder) == SAVED
    assert indexing.origin(folder) == REUSED
    (indexing.directory / '.train.new').symlink_to(good)  # as a daemon that was killed may leave
    before = good.read_bytes()
    os.utime(folder, (7000, 7000))
    assert indexing.origin(folder) == SAVED
    assert good.read_bytes() == before
    indexing.saved.unlink()
    indexing.saved.mkdir()
    assert indexing.origin(folder) == BUILT
    assert 'the index cannot be saved: Is a directory' in indexing.log


def test_no_folder_to_save_in(start_daemon, scratch, folder):
    """It works without, and says so."""
    daemon = start_daemon({'train': folder}, args=['--index-dir', '/nowhere/at/all'], settle=True)
    daemon.log.wait('its index cannot be saved: /nowhere/at/all: No such file')


def test_failed_data_set_leaves_nothing(indexing, scratch):
    os.mkdir(f'{scratch}/empty')
    daemon = indexing.start(f'{scratch}/empty')
    daemon.log.wait('the directory is empty')
    assert os.listdir(indexing.directory) == []


def test_config_file(start_daemon, scratch, folder):
    """The key is relative to the file, and follows reloads."""
    config = '[stokerd]\nindex_dir = saved\n[dataset train]\npath = ' + folder + '\n'
    daemon = start_daemon(config=config)
    daemon.log.wait(SAVED)
    assert os.listdir(daemon.directory / 'saved') == ['train.index']
    daemon.reload(config.replace('index_dir = saved', ''))
    daemon.log.wait('data set train: .* samples', count=2)
    daemon.reload(config)
    daemon.log.wait(REUSED)
    assert len(daemon.log.matches('the index is saved')) == 1
