# SPDX-License-Identifier: Apache-2.0
"""Data sets as they lie on disk: class folders and IDX, whole, broken, missing, unreadable."""

import gzip
import os
import re
import selectors
import shutil
import signal
import subprocess

import numpy as np
import pytest
from PIL import Image

import make_data
from client import FLOAT, GUARD, ServerError, all_rows, grayscale, pb
from daemon import BUILD, children, read_proc
from reference import epoch_order, folder_pixels, folder_samples, nchw, to_float

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason='needs root to become another user')
FASHION = '/usr/share/datasets/fashion-mnist'


@pytest.fixture(scope='session')
def idx_data():
    images = make_data.pixels(130, (14, 15), 5)
    return images, np.arange(130) % 7


def check_idx(daemon, name, images, labels):
    with daemon.client() as client:
        stream = client.open(name, transforms=FLOAT, shuffle=True, seed=2)
        assert stream.opened.classes == 7 and stream.shape == (1, 14, 15)
        got = all_rows(stream)
        order = epoch_order(130, seed=2)
        np.testing.assert_array_equal(got[2], order)
        np.testing.assert_array_equal(got[1], labels[order])
        np.testing.assert_array_equal(got[0], nchw(to_float(images[:, :, :, None]))[order])
        raw = client.open(name, dtype=pb.DTYPE_U8, payload=pb.PAYLOAD_INLINE)
        np.testing.assert_array_equal(all_rows(raw)[0][:, 0], images)
        dataset = {d.name: d for d in client.status().dataset}[name.encode()]
        assert (dataset.kind, dataset.state) == ('idx', pb.DATASET_READY)
        assert (dataset.samples, dataset.classes, dataset.width, dataset.height,
                dataset.channels) == (130, 7, 15, 14, 1)


@pytest.mark.parametrize('workers', [0, 2])
@pytest.mark.parametrize('compress', [False, True], ids=['plain', 'gz'])
def test_idx(start_daemon, scratch, idx_data, compress, workers):
    """By its folder and by its file."""
    path = make_data.write_idx(f'{scratch}/idx', *idx_data, compress=compress)
    daemon = start_daemon({'folder': f'{scratch}/idx', 'file': path}, workers=workers,
                          settle=True)
    check_idx(daemon, 'folder', *idx_data)
    check_idx(daemon, 'file', *idx_data)
    daemon.wait_idle()


BROKEN_IDX = {
    'cut': lambda data: data[:-1], 'header only': lambda data: data[:16],
    'half a header': lambda data: data[:7], 'empty': lambda data: b'',
    'HTML': lambda data: b'<html>Not Found</html>' * 100,
    'wrong type': lambda data: data[:2] + b'\x0d' + data[3:],
    'huge count': lambda data: data[:4] + b'\xff\xff\xff\xff' + data[8:],
    'zero size': lambda data: data[:8] + b'\0' * 8 + data[16:],
    'four dimensions': lambda data: data[:3] + b'\x04' + data[4:],
}


@pytest.mark.parametrize('break_', BROKEN_IDX.values(), ids=BROKEN_IDX.keys())
@pytest.mark.parametrize('compress', [False, True], ids=['plain', 'gz'])
def test_broken_idx(start_daemon, scratch, idx_data, compress, break_):
    path = make_data.write_idx(f'{scratch}/idx', *idx_data, compress=compress)
    opener = gzip.open if compress else open
    with opener(path, 'rb') as file:
        data = file.read()
    with opener(path, 'wb') as file:
        file.write(break_(data))
    check_refused(start_daemon, path, 'train-images')


def test_cut_gzip(start_daemon, scratch, idx_data):
    path = make_data.write_idx(f'{scratch}/idx', *idx_data, compress=True)
    os.truncate(path, os.path.getsize(path) // 2)
    check_refused(start_daemon, path, 'train-images')


def test_labels_missing_or_of_another_length(start_daemon, scratch, idx_data):
    images, labels = idx_data
    path = make_data.write_idx(f'{scratch}/a', images, labels[:-1])
    check_refused(start_daemon, path, 'label')
    path = make_data.write_idx(f'{scratch}/b', images, labels)
    os.unlink(path.replace('images-idx3', 'labels-idx1'))
    check_refused(start_daemon, path, 'label')


def check_refused(start_daemon, path, word, **options):
    """Open says why in one line; the daemon and its other data sets go on."""
    daemon = start_daemon({'bad': path}, **options)
    with daemon.client() as client:
        for _ in range(2):
            with pytest.raises(ServerError) as caught:
                client.open('bad', transforms=FLOAT)
            error = caught.value
            assert error.code == pb.ERROR_DATASET and not error.closing, error
            assert word in error.text and '\n' not in error.text, error
        dataset, = client.status().dataset
        assert dataset.state == pb.DATASET_FAILED and word in dataset.error
    return daemon


def test_missing(start_daemon, scratch):
    daemon = check_refused(start_daemon, f'{scratch}/nothing', 'nothing')
    # It is looked at again: once it is there it works, without a restart.
    make_data.write_folder(f'{scratch}/nothing', make_data.pixels(10), 2)
    with daemon.client() as client:
        assert len(all_rows(client.open('bad', transforms=FLOAT))[2]) == 10


def test_empty_folder(start_daemon, scratch):
    os.mkdir(f'{scratch}/empty')
    check_refused(start_daemon, f'{scratch}/empty', 'empty')


def test_class_without_images(start_daemon, scratch):
    """An error that names the class: torchvision's labels would shift otherwise."""
    root = make_data.write_folder(f'{scratch}/data', make_data.pixels(10), 2)
    os.mkdir(f'{root}/hollow')
    check_refused(start_daemon, root, 'hollow')


def test_folder_without_classes(start_daemon, scratch):
    root = make_data.write_folder(f'{scratch}/data', make_data.pixels(10), 1)
    check_refused(start_daemon, f'{root}/class0', 'class')


def test_a_file_that_is_no_data_set(start_daemon, scratch):
    with open(f'{scratch}/text', 'w') as file:
        file.write('hello\n')
    check_refused(start_daemon, f'{scratch}/text', 'text')


@needs_root
def test_unreadable(start_daemon, scratch, grey_folder):
    """Run as nobody: a folder, and a single file, that only root may read."""
    closed = make_data.write_folder(f'{scratch}/closed', make_data.pixels(10), 2)
    partly = make_data.write_folder(f'{scratch}/partly', make_data.pixels(10), 2)
    os.chmod(closed, 0o700)
    os.chmod(f'{partly}/class1/9.png', 0o600)
    os.mkdir(f'{scratch}/run')
    os.chmod(f'{scratch}/run', 0o777)
    daemon = start_daemon({'closed': closed, 'partly': partly, 'good': grey_folder},
                          as_nobody=True, socket_path=f'{scratch}/run/s')
    assert b'\nUid:\t65534' in read_proc(daemon.pid, 'status')
    with daemon.client() as client:
        with pytest.raises(ServerError) as caught:
            client.open('closed', transforms=FLOAT)
        assert caught.value.code == pb.ERROR_DATASET and 'closed' in caught.value.text
        assert 'ermission' in caught.value.text
        stream = client.open('partly', transforms=FLOAT, batch_size=2)
        with pytest.raises(ServerError) as caught:
            for batch in stream.batches():
                pass
        assert caught.value.code == pb.ERROR_BAD_SAMPLE and '9.png' in caught.value.text
        assert 'ermission' in caught.value.text
        assert len(all_rows(client.open('good', transforms=FLOAT))[2]) == 300


def test_folder_rules(start_daemon, scratch):
    """Class order by code point, nested folders, extensions of any case, hidden entries skipped,
    links followed, other files ignored, names that are no UTF-8."""
    root = f'{scratch}/data'
    pictures = iter(make_data.pixels(40, (6, 6), 8))

    def picture(name):
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as file:
            Image.fromarray(next(pictures)).save(file, 'PNG')

    for name in ('1/b.png', '1/a.PNG', '10/x.png', '11/deep/er/y.png', '11/deep/z.png', '11/a.png',
                 '2/k.png', 'B/upper.png', 'a/lower.png', 'a/b/c.png', 'a/b.png', 'a/b0.png',
                 b'\xff\xfe/\x80.png'):
        picture(name)
    for name in ('readme.txt', '1/notes.txt', '1/c.npy'):
        with open(f'{root}/{name}', 'w') as file:
            file.write('not a sample')
    picture('.hidden/h.png')
    picture('1/._a.png')
    os.symlink('../.hidden', f'{root}/2/linked')
    os.symlink('../1/b.png', f'{root}/2/l.png')
    expected = folder_samples(root)
    images, labels = folder_pixels(root, grey=True)
    daemon = start_daemon({'train': root})
    with daemon.client() as client:
        stream = client.open('train', dtype=pb.DTYPE_U8, layout=pb.LAYOUT_NHWC,
                             transforms=[grayscale()])
        assert stream.opened.classes == 7 and stream.opened.dataset_samples == len(expected) == 15
        got = all_rows(stream)
        np.testing.assert_array_equal(got[0], images)
        np.testing.assert_array_equal(got[1], labels)


def test_link_loops_end(start_daemon, scratch):
    root = make_data.write_folder(f'{scratch}/data', make_data.pixels(10), 2)
    os.symlink('..', f'{root}/class0/loop')
    os.symlink('.', f'{root}/class1/self')
    daemon = start_daemon({'train': root})
    with daemon.client() as client:
        stream = client.open('train', dtype=pb.DTYPE_U8)
        assert stream.opened.classes == 2
        assert len(all_rows(stream)[2]) >= 10


def test_folder_that_moves_away(start_daemon, scratch):
    """The whole folder disappears under a stream: a bad sample, as with one file."""
    root = make_data.write_folder(f'{scratch}/data', make_data.pixels(200), 2)
    daemon = start_daemon({'train': root}, settle=True)
    with daemon.client() as client:
        stream = client.open('train', dtype=pb.DTYPE_U8, batch_size=4, depth=2, epochs=0)
        stream.release(stream.next())
        shutil.rmtree(root)
        with pytest.raises(ServerError) as caught:
            while True:
                kind, event = stream.event()
                if kind == 'batch':
                    stream.release(event)
        assert caught.value.code == pb.ERROR_BAD_SAMPLE
    daemon.wait_idle()


def test_idx_that_shrinks(start_daemon, scratch, idx_data):
    """An IDX file cut under the reader: a bad sample, never SIGBUS."""
    path = make_data.write_idx(f'{scratch}/idx', *idx_data)
    daemon = start_daemon({'train': path}, settle=True)
    os.truncate(path, 1000)
    with daemon.client() as client:
        stream = client.open('train', dtype=pb.DTYPE_U8, batch_size=2)
        with pytest.raises(ServerError) as caught:
            while True:
                stream.release(stream.next())
        assert caught.value.code == pb.ERROR_BAD_SAMPLE and 'train-images' in caught.value.text
        assert client.status().worker_deaths == 0
    daemon.wait_idle()


@pytest.mark.skipif(not os.path.isdir(FASHION), reason='no dataset-fashion-mnist')
def test_fashion_mnist(start_daemon):
    """Debian's package, as it lies there: its sample 0 is an ankle boot, label 9."""
    name = 't10k-images-idx3-ubyte'
    path = next(f'{FASHION}/{name}{suffix}' for suffix in ('', '.gz')
                if os.path.exists(f'{FASHION}/{name}{suffix}'))
    daemon = start_daemon({'test': path})
    with daemon.client() as client:
        stream = client.open('test', dtype=pb.DTYPE_U8, batch_size=1000)
        images, labels, _ = all_rows(stream)
        assert images.shape == (10000, 1, 28, 28) and labels[0] == 9
        assert np.bincount(labels).tolist() == [1000] * 10


@pytest.fixture(scope='session')
def slow_idx(data_root):
    """400 MB of pixels in a small .gz: indexing it takes a good part of a second."""
    os.makedirs(f'{data_root}/slow-idx')
    path = f'{data_root}/slow-idx/train-images-idx3-ubyte.gz'
    images = np.zeros((400, 1000, 1000), np.uint8)
    images[:, 0, 0] = np.arange(400) % 251
    with gzip.open(path, 'wb', compresslevel=1) as file:
        file.write(make_data.idx_bytes(images))
    with gzip.open(path.replace('images-idx3', 'labels-idx1'), 'wb') as file:
        file.write(make_data.idx_bytes(np.arange(400) % 3))
    return path


def open_slow(client):
    return client.send_open('slow', dtype=pb.DTYPE_U8, batch_size=1)


@pytest.mark.xdist_group('slow index')
def test_clients_wait_for_the_index(start_daemon, slow_idx, grey_folder):
    """They hear Indexing meanwhile; one that leaves and a data set that is ready are not held up."""
    daemon = start_daemon({'slow': slow_idx, 'train': grey_folder})
    with daemon.client() as client, daemon.client() as leaving:
        request = open_slow(client)
        open_slow(leaving)
        leaving.close()
        assert client.wait(lambda kind, _: kind == 'indexing')[1].request == request
        with daemon.client() as other:
            assert len(all_rows(other.open('train', transforms=FLOAT))[2]) == 300
        opened = client.answer(request, 'opened')
        assert opened.dataset_samples == 400 and opened.classes == 3
    daemon.wait_until(lambda status: status.clients == 1 and not status.stream, 'clients are left')


@pytest.mark.xdist_group('slow index')
def test_killed_index_worker(start_daemon, slow_idx):
    """Who waits hears why; the next Open tries again."""
    daemon = start_daemon({'slow': slow_idx}, workers=0)
    indexer, = children(daemon.pid)
    with daemon.client() as client:
        request = open_slow(client)
        client.wait(lambda kind, _: kind == 'indexing')
        os.kill(indexer, signal.SIGKILL)
        with pytest.raises(ServerError) as caught:
            client.answer(request, 'opened')
        assert caught.value.code == pb.ERROR_DATASET and 'slow' in caught.value.text
        assert client.answer(open_slow(client), 'opened').dataset_samples == 400


def wait_for_text(fd, words):
    """What comes from `fd`, up to the end of these words."""
    text = ''
    while words not in text:
        with selectors.DefaultSelector() as selector:
            selector.register(fd, selectors.EVENT_READ)
            assert selector.select(GUARD), text
        text += os.read(fd, 4096).decode()
    return text


@pytest.mark.xdist_group('slow index')
@pytest.mark.parametrize('terminal', [False, True], ids=['log', 'terminal'])
@pytest.mark.parametrize('tool', ['bench', 'train'])
def test_tools_tell_that_they_wait(start_daemon, slow_idx, terminal, tool):
    """A line on a terminal, written over; in a log a line after a second."""
    daemon = start_daemon({'slow': slow_idx}, workers=0)
    indexer, = children(daemon.pid)
    os.kill(indexer, signal.SIGSTOP)
    command = {'bench': [BUILD / 'client/cli/stoker', 'bench', 'slow', '--dtype', 'u8',
                         '--batch-size', '1', '--epochs', '1'],
               'train': [BUILD / 'trainer/stoker-train', '--dataset', 'slow', '--epochs', '1']}[tool]
    ours, theirs = os.openpty() if terminal else os.pipe()
    process = subprocess.Popen([*command, '--socket', daemon.socket_path],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    try:
        text = wait_for_text(ours, ' images so far')
        assert re.search(r'indexing, \d+ images so far', text)
        assert terminal or re.match(r'stoker[ -]\w+: indexing', text)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.kill(indexer, signal.SIGCONT)


@pytest.mark.xdist_group('slow index')
def test_stop_while_indexing(start_daemon, slow_idx):
    daemon = start_daemon({'slow': slow_idx})
    with daemon.client() as client:
        open_slow(client)
        client.wait(lambda kind, _: kind == 'indexing')
        daemon.terminate()
    assert daemon.process.returncode == 0
