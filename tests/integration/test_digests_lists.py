# SPDX-License-Identifier: Apache-2.0
"""Rows of digests, reasons of bad rows, and lists of classes and samples, over Google's protobuf."""

import gzip
import io
import os
import signal
import struct
import tarfile

import numpy as np
import pytest
import xxhash
from PIL import Image

import make_data
from client import ServerError, grayscale, pb, to_tensor
from reference import epoch_order
from test_bad_samples import fifo, other_size, replace_by, truncated
from test_workers import NO_HANDLERS, wait_decoding

MASK, REPLACE = pb.ON_BAD_SAMPLE_MASK, pb.ON_BAD_SAMPLE_REPLACE
PAYLOADS = (pb.PAYLOAD_SHARED, pb.PAYLOAD_INLINE)
DIGEST = np.dtype([('xxh3', '<u8'), ('width', '<u4'), ('height', '<u4'), ('bytes', '<u8')])


def open_digests(client, dataset, **options):
    options = {'batch_size': 16, 'rows': pb.ROWS_DIGESTS, 'on_bad_sample': MASK, **options}
    return client.open(dataset, **options)


def digests(batch):
    return np.ascontiguousarray(batch.images).view(DIGEST).reshape(-1)


def expected_digest(encoded):
    """What a good picture's row holds, by Pillow and xxhash."""
    with Image.open(io.BytesIO(encoded)) as image:
        rgb = image.convert('RGB')
        return (xxhash.xxh3_64_intdigest(rgb.tobytes()), rgb.width, rgb.height, len(encoded))


def files_of(root):
    """Paths in ImageFolder's order."""
    return sorted((os.path.join(d, n) for d, _, names in os.walk(root) for n in names),
                  key=lambda f: (os.path.dirname(f), os.path.basename(f)))


@pytest.fixture
def odd_folder(scratch):
    """Pictures of every size and format that there is, one class each."""
    root = f'{scratch}/odd'
    make_data.write_mixed_folder(root)
    make_data.write_jpeg_folder(f'{root}-jpeg')
    for i, name in enumerate(os.listdir(f'{root}-jpeg')):
        os.rename(f'{root}-jpeg/{name}', f'{root}/jpeg{i}')
    os.makedirs(f'{root}/large')
    make = make_data.pixels(1, (700, 500, 3))[0]
    Image.fromarray(make).save(f'{root}/large/rgb.png')
    Image.fromarray(make[:, :, 0]).save(f'{root}/large/grey.png')
    return root


@pytest.mark.parametrize('payload', PAYLOADS, ids=['shared', 'inline'])
@pytest.mark.parametrize('workers', [0, 3])
def test_digests_of_files(start_daemon, odd_folder, payload, workers):
    """Of every size, in any order; shape and dtype are told."""
    daemon = start_daemon({'odd': odd_folder}, workers=workers)
    want = []
    for path in files_of(odd_folder):
        with open(path, 'rb') as file:
            want.append(expected_digest(file.read()))
    with daemon.client() as client:
        stream = open_digests(client, 'odd', payload=payload, shuffle=True, seed=3, batch_size=7)
        assert stream.shape == (1, 1, 24) and stream.opened.dtype == pb.DTYPE_U8
        got = np.concatenate([digests(b) for b in stream.batches()])
    order = epoch_order(len(want), seed=3)
    assert [tuple(int(v) for v in row) for row in got] == [want[i] for i in order]
    daemon.wait_idle()


def test_digests_of_idx_and_tar(start_daemon, scratch):
    """L pixels are hashed as RGB; `bytes` is the size of what is encoded."""
    pictures = make_data.pixels(20, (9, 5))
    with gzip.open(f'{scratch}/t-images-idx3-ubyte.gz', 'wb') as file:
        file.write(struct.pack('>IIII', 0x803, 20, 9, 5) + pictures.tobytes())
    with open(f'{scratch}/t-labels-idx1-ubyte', 'wb') as file:
        file.write(struct.pack('>II', 0x801, 20) + bytes(range(10)) * 2)
    encoded = []
    with tarfile.open(f'{scratch}/t.tar', 'w') as tar:
        for i, picture in enumerate(pictures):
            out = io.BytesIO()
            Image.fromarray(picture).save(out, 'PNG')
            encoded.append(out.getvalue())
            for name, data in ((f'{i}.png', encoded[-1]), (f'{i}.cls', b'0')):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    daemon = start_daemon({'idx': f'{scratch}/t-images-idx3-ubyte.gz', 'tar': f'{scratch}/t.tar'})
    with daemon.client() as client:
        for name in ('idx', 'tar'):
            got = np.concatenate([digests(b) for b in open_digests(client, name).batches()])
            want = [expected_digest(e) for e in encoded]
            if name == 'idx':
                want = [(*w[:3], 45) for w in want]
            assert [tuple(int(v) for v in row) for row in got] == want


@pytest.mark.parametrize('options, word', [
    ({'transforms': [grayscale()]}, 'transforms'), ({'dtype': pb.DTYPE_F32}, 'U8'), ({'rows': 77}, 'rows')])
def test_digests_refused(start_daemon, grey_folder, options, word):
    daemon = start_daemon({'train': grey_folder})
    with daemon.client() as client, pytest.raises(ServerError) as caught:
        open_digests(client, 'train', **options)
    assert caught.value.code == pb.ERROR_BAD_REQUEST and word in caught.value.text


# ---- why rows are bad ----

def spoil(root):
    """Ways of being bad: {sample: (reason, word)}."""
    files = files_of(root)
    replace_by(b'no picture')(files[3])
    truncated(files[4])
    other_size(files[20])
    fifo(files[21])
    os.unlink(files[22])
    replace_by(b'')(files[59])
    return {3: (pb.BAD_PICTURE, 'not PNG or JPEG'), 4: (pb.BAD_PICTURE, 'cut'),
            20: (pb.BAD_SIZE, '28x27'), 21: (pb.BAD_UNREADABLE, 'FIFO'),
            22: (pb.BAD_UNREADABLE, 'No such file'), 59: (pb.BAD_PICTURE, 'empty')}


@pytest.mark.parametrize('policy', [MASK, REPLACE], ids=['mask', 'replace'])
@pytest.mark.parametrize('payload', PAYLOADS, ids=['shared', 'inline'])
@pytest.mark.parametrize('workers', [0, 3])
def test_bad_rows(start_daemon, scratch, payload, policy, workers):
    """The sample that the row was meant for, also where another stands in, in every epoch."""
    root = make_data.write_folder(f'{scratch}/data', make_data.pixels(60), 3)
    daemon = start_daemon({'train': root}, workers=workers, settle=True)
    bad = spoil(root)
    with daemon.client() as client:
        stream = client.open('train', batch_size=16, shuffle=True, seed=9, epochs=2,
                             transforms=[grayscale()], dtype=pb.DTYPE_U8, payload=payload,
                             on_bad_sample=policy)
        for epoch in range(2):
            order = epoch_order(60, seed=9, epoch=epoch)
            found = {}
            for step in range(4):
                batch = stream.next()
                for row in batch.message.bad_row:
                    assert order[16 * step + row.row] == row.sample
                    found[row.sample] = (row.reason, row.text)
                stream.release(batch)
            assert stream.event()[0] == 'epoch_end'
            assert {s: r for s, (r, _) in found.items()} == {s: r for s, (r, _) in bad.items()}
            assert all(word in found[s][1] for s, (_, word) in bad.items())
    daemon.wait_idle()


@pytest.mark.parametrize('payload', PAYLOADS, ids=['shared', 'inline'])
def test_bad_rows_are_bounded(start_daemon, scratch, payload):
    """Of 600 bad rows the first 256 are explained, whichever worker was first; see client.Batch."""
    root = make_data.write_folder(f'{scratch}/data', make_data.pixels(600, (4, 4)), 2)
    daemon = start_daemon({'train': root}, workers=4, settle=True)
    for path in files_of(root):
        replace_by(b'x')(path)
    with daemon.client() as client:
        stream = open_digests(client, 'train', batch_size=600, payload=payload, epochs=2)
        for batch in stream.batches():
            assert batch.message.bad == 600 and len(batch.message.bad_row) == 256
            assert [r.sample for r in batch.message.bad_row] == list(range(256))
    daemon.wait_idle()


@pytest.mark.xdist_group('slow picture')
def test_bad_row_of_a_killer(start_daemon, slow_folder):
    """A sample that has killed two workers is explained as one."""
    daemon = start_daemon({'slow': slow_folder}, workers=1, env={'ASAN_OPTIONS': NO_HANDLERS})
    with daemon.client() as client:
        stream = open_digests(client, 'slow', batch_size=1, depth=1)
        victims = []
        for _ in range(2):
            victims.append(wait_decoding(daemon, victims))
            os.kill(victims[-1], signal.SIGSEGV)
        row, = stream.next().message.bad_row
        assert (row.row, row.sample, row.reason) == (0, 0, pb.BAD_KILLER) and 'twice' in row.text


def test_bad_rows_of_a_seek(start_daemon, scratch):
    """Reasons of batches that are dropped go with them; those after the seek are complete."""
    root = make_data.write_folder(f'{scratch}/data', make_data.pixels(90, (4, 4)), 2)
    daemon = start_daemon({'train': root}, settle=True)
    for path in files_of(root):
        replace_by(b'x')(path)
    with daemon.client() as client:
        stream = open_digests(client, 'train', batch_size=8, epochs=9, depth=4)
        for _ in range(5):
            batch = stream.next()
            cursor = batch.cursor
            stream.release(batch)
            stream.seek(cursor)
        batch = stream.next()
        assert [row.sample for row in batch.message.bad_row] == list(range(40, 48))
    daemon.wait_idle()


# ---- a data set without a sample that can be read ----

def test_nothing_can_be_decoded(start_daemon, scratch):
    """It is indexed and has digests, but no pixels until a file is mended."""
    root = f'{scratch}/data/only'
    os.makedirs(root)
    for i in range(5):
        replace_by(b'no picture')(f'{root}/{i}.png')
    daemon = start_daemon({'train': f'{scratch}/data'})
    with daemon.client() as client:
        stream = open_digests(client, 'train')
        assert all(batch.message.bad == 5 for batch in stream.batches())
        status, = client.status().dataset
        assert status.state == pb.DATASET_READY and status.samples == 5
        assert status.width == status.height == 0
        assert 'only/0.png: not PNG or JPEG (and no other of the first 5' in status.error
        for _ in range(2):
            with pytest.raises(ServerError) as caught:
                client.open('train', transforms=[to_tensor()])
            assert caught.value.code == pb.ERROR_DATASET
            assert 'data set train: ' in caught.value.text
            assert 'only/0.png: not PNG or JPEG (and no other of the first 5' in caught.value.text
        assert len(daemon.log.matches('5 samples in|no other of the first 5')) == 2  # said once
        Image.fromarray(make_data.pixels(1)[0]).save(f'{root}/3.png')
        again = client.open('train', transforms=[to_tensor()], batch_size=5, on_bad_sample=MASK)
        assert list(again.next().statuses) == [1, 1, 1, 0, 1]
        status, = client.status().dataset
        assert (status.width, status.height, status.error) == (28, 28, '')
        daemon.log.wait('data set train: 5 samples in', count=2)
        # The stream that was there keeps what it had.
        stream.seek(pb.Cursor(world=1, fingerprint=stream.opened.fingerprint))
        assert stream.next().message.bad == 4
    daemon.wait_idle()


# ---- lists ----

def test_lists_of_a_folder(start_daemon, scratch):
    """Class i has label i; names and paths are bytes as they are."""
    root = os.fsencode(f'{scratch}/data')
    counts = {b'a\nb': 1, b'b\xff': 3, b'c': 2}
    for name, count in counts.items():
        os.makedirs(root + b'/' + name)
        for i in range(count):
            Image.fromarray(make_data.pixels(1)[0]).save(
                os.fsdecode(root + b'/' + name + b'/%d\xfe.png' % i))
    daemon = start_daemon({'train': f'{scratch}/data'})
    with daemon.client() as client:
        stream = client.open('train', dtype=pb.DTYPE_U8, batch_size=2)
        classes = client.list_classes(b'train')
        assert [(c.name, c.samples) for c in classes.entry] == list(counts.items())
        assert (classes.first, classes.total) == (0, 3)
        samples = client.list_samples(b'train')
        want = [root + b'/' + n + b'/%d\xfe.png' % i for n, c in counts.items() for i in range(c)]
        assert [s.path for s in samples.entry] == want
        assert [s.label for s in samples.entry] == [0, 1, 1, 1, 2, 2]
        assert [s.sample for s in samples.entry] == list(range(6))
        assert classes.fingerprint == samples.fingerprint == stream.opened.fingerprint
        part = client.list_samples(b'train', first=2, count=3)
        assert (part.first, part.total) == (2, 6)
        assert [s.path for s in part.entry] == want[2:5]
        assert [c.name for c in client.list_classes(b'train', first=1).entry] == [b'b\xff', b'c']
        for first in (6, 7, 2**63):
            assert not client.list_samples(b'train', first=first).entry
        assert not client.list_classes(b'train', first=3).entry


def test_pages(start_daemon, scratch):
    """Long names: pages below 1 MiB that together are the whole, once each."""
    deep = '/'.join(['d' * 250] * 14)
    root = f'{scratch}/data'
    folder = f'{root}/k/{deep}'
    os.makedirs(folder)
    picture = make_data.pixels(1, (2, 2))[0]
    Image.fromarray(picture).save(f'{folder}/{"x" * 200}.png')
    # A manifest names one file many times, in absolute paths of some 3,700 bytes.
    with open(f'{scratch}/m.csv', 'w') as manifest:
        for i in range(1000):
            manifest.write(f'{folder}/{"x" * 200}.png,{"n" * 900}{i:04}\n')
    daemon = start_daemon({'m': f'{scratch}/m.csv'},
                          config=f'[dataset m]\npath={scratch}/m.csv\nalso_read={root}\n')
    with daemon.client() as client:
        samples, pages = [], 0
        while True:
            page = client.list_samples(b'm', first=len(samples))
            assert page.ByteSize() < 1 << 20 and page.first == len(samples) and page.total == 1000
            if not page.entry:
                break
            samples += page.entry
            pages += 1
        assert pages >= 4 and [s.sample for s in samples] == list(range(1000))
        classes = []
        while len(classes) < 1000:
            page = client.list_classes(b'm', first=len(classes))
            assert page.ByteSize() < 1 << 20 and page.total == 1000 and page.entry
            classes += page.entry
        assert [c.name for c in classes] == [b'n' * 900 + b'%04d' % i for i in range(1000)]
        assert all(c.samples == 1 for c in classes)


def test_lists_of_tar_and_idx(start_daemon, scratch):
    with tarfile.open(f'{scratch}/t.tar', 'w') as tar:
        for name, data in (('a/1.cls', b'2'), ('a/1.png', None)):
            if data is None:
                out = io.BytesIO()
                Image.fromarray(make_data.pixels(1)[0]).save(out, 'PNG')
                data = out.getvalue()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    with open(f'{scratch}/t-images-idx3-ubyte', 'wb') as file:
        file.write(struct.pack('>IIII', 0x803, 3, 1, 1) + b'abc')
    with open(f'{scratch}/t-labels-idx1-ubyte', 'wb') as file:
        file.write(struct.pack('>II', 0x801, 3) + b'\1\0\1')
    daemon = start_daemon({'tar': f'{scratch}/t.tar', 'idx': f'{scratch}/t-images-idx3-ubyte'})
    with daemon.client() as client:
        sample, = client.list_samples(b'tar').entry
        assert sample.path == os.fsencode(f'{scratch}/t.tar:a/1.png') and sample.label == 2
        assert [c.samples for c in client.list_classes(b'tar').entry] == [0, 0, 1]
        paths = [s.path.decode() for s in client.list_samples(b'idx').entry]
        assert paths == [f'{scratch}/t-images-idx3-ubyte#{i}' for i in range(3)]
        assert [c.samples for c in client.list_classes(b'idx').entry] == [1, 2]


def test_lists_refused(start_daemon, grey_folder, scratch):
    """As an Open of the same name is."""
    daemon = start_daemon({'train': grey_folder, 'gone': f'{scratch}/gone'})
    with daemon.client() as client:
        for ask in (client.list_classes, client.list_samples):
            with pytest.raises(ServerError) as caught:
                ask(b'tra\xff')
            assert caught.value.code == pb.ERROR_UNKNOWN_DATASET and 'train' in caught.value.text
            with pytest.raises(ServerError) as caught:
                ask(b'gone')
            assert caught.value.code == pb.ERROR_DATASET and 'data set gone: ' in caught.value.text
        os.makedirs(f'{scratch}/gone')
        make_data.write_folder(f'{scratch}/gone', make_data.pixels(4), 2)
        assert client.list_samples(b'gone').total == 4


def test_lists_wait_for_the_index(start_daemon, scratch):
    """A FIFO keeps the index worker busy: Indexing comes, and at most 16 may wait."""
    path = f'{scratch}/slow-images-idx3-ubyte.gz'
    with open(path, 'wb') as file:
        file.write(gzip.compress(struct.pack('>IIII', 0x803, 3, 1, 1) + b'abc'))
    with open(f'{scratch}/slow-labels-idx1-ubyte', 'wb') as file:
        file.write(struct.pack('>II', 0x801, 3) + b'\1\0\1')
    daemon = start_daemon({'slow': path}, settle=True)
    stopped = f'{scratch}/stopped'
    os.mkfifo(stopped)
    # An index worker that is stopped before it begins.
    wrapper = f'{scratch}/worker'
    with open(wrapper, 'w') as script:
        script.write(f'#!/bin/sh\ncase " $* " in *" index "*) read -r line < {stopped};; esac\n'
                     f'exec {daemon.env["STOKER_WORKER"]} "$@"\n')
    os.chmod(wrapper, 0o755)
    late = start_daemon({'slow': path}, env={'STOKER_WORKER': wrapper})
    with late.client() as client, late.client() as other:
        requests = []
        for i in range(17):
            requests.append(client.next_request())
            client.send(list_classes=pb.ListClasses(request=requests[-1], dataset=b'slow'))
        assert client.wait(lambda k, m: k == 'indexing')[1].request in requests
        _, error = client.wait(lambda k, m: k == 'error')
        assert error.code == pb.ERROR_LIMIT and error.request == requests[-1]
        other.send(list_samples=pb.ListSamples(request=1, dataset=b'slow'))
        other.wait(lambda k, m: k == 'indexing' and m.request == 1)
        other.close()  # what it waits for is forgotten
        with open(stopped, 'w') as fifo_end:
            fifo_end.write('\n')
        for request in requests[:-1]:
            assert client.answer(request, 'classes').total == 2
