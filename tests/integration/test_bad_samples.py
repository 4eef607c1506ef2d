# SPDX-License-Identifier: Apache-2.0
"""Samples that cannot be decoded: their stream ends with their name; nothing else does."""

import os
import shutil

import numpy as np
import pytest
from PIL import Image

import make_data
from client import FLOAT, ServerError, all_rows, grayscale, pb, to_tensor
from reference import folder_samples

COUNT = 40


def truncated(path):
    data = open(path, 'rb').read()
    with open(path, 'wb') as file:
        file.write(data[:len(data) // 2])


def flipped_crc(path):
    data = bytearray(open(path, 'rb').read())
    data[data.index(b'IDAT') + 10] ^= 0xff
    with open(path, 'wb') as file:
        file.write(data)


def replace_by(data):
    def spoil(path):
        with open(path, 'wb') as file:
            file.write(data)
    return spoil


def other_size(path):
    Image.fromarray(make_data.pixels(1, (27, 28))[0]).save(path)


def bomb(path):
    """100,000 x 100,000 pixels declared by a file of some hundred bytes."""
    replace_by(make_data.png_file((100000, 100000, 8, 0, 0, 0, 0), b'\0' * 1000))(path)


def fifo(path):
    os.unlink(path)
    os.mkfifo(path)


def directory(path):
    os.unlink(path)
    os.mkdir(path)


def dangling(path):
    os.unlink(path)
    os.symlink('/nowhere/at/all', path)


def outside(path):
    """A link out of the data set: the sandbox or the decoder must not follow it to a device."""
    os.unlink(path)
    os.symlink('/dev/zero', path)


SPOILERS = {
    'truncated': truncated, 'flipped bits': flipped_crc, 'empty': replace_by(b''),
    'text': replace_by(b'This is no picture.\n'), 'signature only': replace_by(b'\x89PNG\r\n\x1a\n'),
    'HTML': replace_by(b'<!DOCTYPE html><html>404</html>'), 'BMP': replace_by(b'BM' + b'\0' * 100),
    'another size': other_size, 'decompression bomb': bomb, 'FIFO': fifo, 'directory': directory,
    'dangling link': dangling, 'removed': os.unlink, 'link to a device': outside,
}


@pytest.fixture
def folder(scratch):
    return make_data.write_folder(f'{scratch}/data', make_data.pixels(COUNT), 4)


def check_stream_ends(stream, name):
    """Batches may come first, complete ones; then the Error that names the file."""
    with pytest.raises(ServerError) as caught:
        while True:
            kind, event = stream.event()
            assert kind == 'batch', 'the epoch ended without the bad sample'
            stream.release(event)
    error = caught.value
    assert error.code == pb.ERROR_BAD_SAMPLE and error.stream == stream.id, error
    assert not error.closing and name in error.text, error
    return error


@pytest.mark.parametrize('workers', [0, 2])
@pytest.mark.parametrize('spoil', SPOILERS.values(), ids=SPOILERS.keys())
def test_bad_sample(start_daemon, folder, grey_folder, spoil, workers):
    """Spoiled after indexing, as files do that change under the reader."""
    daemon = start_daemon({'bad': folder, 'good': grey_folder}, workers=workers, settle=True)
    spoil(f'{folder}/class1/25.png')
    with daemon.client() as client, daemon.client() as other:
        good = client.open('good', transforms=FLOAT)
        for payload in (pb.PAYLOAD_SHARED, pb.PAYLOAD_INLINE):
            stream = client.open('bad', transforms=FLOAT, batch_size=4, payload=payload)
            error = check_stream_ends(stream, 'class1/25.png')
            # The stream has ended; a Release or Close that crossed the Error does no harm.
            client.send(release=pb.Release(stream=stream.id, slot=0, generation=1))
            stream.close()
        assert len(error.text) > len('class1/25.png') + 20, 'no reason given'
        assert len(all_rows(good)[2]) == 300
        assert len(all_rows(other.open('good', transforms=FLOAT))[2]) == 300
        assert other.status().worker_deaths == 0
    daemon.wait_idle()


def jpeg_with_huge_frame(path):
    """65,500 x 65,500 pixels declared by an ordinary file."""
    data = bytearray(open(path, 'rb').read())
    frame = data.index(b'\xff\xc2' if b'\xff\xc2' in data else b'\xff\xc0')
    data[frame + 5:frame + 9] = b'\xff\xdc' * 2
    replace_by(bytes(data))(path)


def cut_by(count):
    def spoil(path):
        data = open(path, 'rb').read()
        replace_by(data[:len(data) + count if count < 0 else count])(path)
    return spoil


JPEG_SPOILERS = {
    'cut in half': (truncated, 'cut short'), 'no end': (cut_by(-20), 'cut short'),
    'header only': (cut_by(200), 'cut short'), 'signature only': (cut_by(3), 'cut short'),
    'bomb': (jpeg_with_huge_frame, 'larger than the limit'),
    'BMP': (replace_by(b'BM' + b'\0' * 100), 'not PNG or JPEG'),
    'another size': (lambda path: Image.new('L', (30, 37)).save(path), '30x37'),
}


@pytest.mark.parametrize('workers', [0, 2])
@pytest.mark.parametrize('spoil, says', JPEG_SPOILERS.values(), ids=JPEG_SPOILERS.keys())
def test_bad_jpeg(start_daemon, scratch, spoil, says, workers):
    """A baseline and a progressive one."""
    folder = make_data.write_jpeg_folder(f'{scratch}/data')
    daemon = start_daemon({'bad': folder}, workers=workers, settle=True)
    with daemon.client() as client:
        for name in ('even/32.jpg', 'odd/33.jpg'):
            path = f'{folder}/{name}'
            whole = open(path, 'rb').read()
            spoil(path)
            stream = client.open('bad', dtype=pb.DTYPE_U8, batch_size=4)
            assert says in check_stream_ends(stream, name).text
            stream.unmap()
            replace_by(whole)(path)
        assert len(all_rows(client.open('bad', dtype=pb.DTYPE_U8))[2]) == 55
        assert client.status().worker_deaths == 0
    daemon.wait_idle()


def test_error_comes_in_order(start_daemon, folder):
    """Every batch before the bad one is delivered, none after it; the bad one is not."""
    daemon = start_daemon({'bad': folder}, workers=3, settle=True)
    path = f'{folder}/class2/30.png'
    place = [sample for sample, _ in folder_samples(folder)].index(path)
    truncated(path)
    with daemon.client() as client:
        for _ in range(5):
            stream = client.open('bad', dtype=pb.DTYPE_U8, batch_size=3, depth=2)
            steps = []
            with pytest.raises(ServerError) as caught:
                while True:
                    batch = stream.next()
                    steps.append(batch.step)
                    stream.release(batch)
            assert caught.value.code == pb.ERROR_BAD_SAMPLE
            assert steps == list(range(place // 3))
            stream.unmap()
    daemon.wait_idle()


def test_many_bad_samples(start_daemon, folder):
    """Every file bad, many streams: each ends, and the log does not grow without bound."""
    daemon = start_daemon({'bad': folder}, settle=True)
    for directory, _, files in os.walk(folder):
        for name in files:
            replace_by(b'no')(os.path.join(directory, name))
    with daemon.client() as client:
        for seed in range(50):
            stream = client.open('bad', dtype=pb.DTYPE_U8, shuffle=True, seed=seed)
            check_stream_ends(stream, '.png')
            stream.unmap()
    daemon.wait_idle()
    assert len(daemon.log.text()) < 64 << 10


def test_first_sample_is_bad(start_daemon, folder):
    """The size of a data set comes from its first sample: without it the data set is unusable."""
    replace_by(b'nothing')(f'{folder}/class0/0.png')
    daemon = start_daemon({'bad': folder})
    with daemon.client() as client:
        with pytest.raises(ServerError) as caught:
            stream = client.open('bad', dtype=pb.DTYPE_U8)
            check_stream_ends(stream, 'class0/0.png')
            raise ServerError(pb.Error(code=pb.ERROR_DATASET, text='class0/0.png'))
        assert caught.value.code == pb.ERROR_DATASET and 'class0/0.png' in caught.value.text


def test_name_with_escapes(start_daemon, folder):
    """Bytes of a file name that are no text reach people escaped."""
    path = os.fsencode(folder) + b'/class3/z\xff\x1b[2J\n.png'
    shutil.copy(f'{folder}/class3/3.png', path)
    daemon = start_daemon({'bad': folder}, settle=True)
    with daemon.client() as client:
        stream = client.open('bad', dtype=pb.DTYPE_U8, transforms=[grayscale()])
        assert len(all_rows(stream)[2]) == COUNT + 1
        replace_by(b'')(path)
        stream = client.open('bad', dtype=pb.DTYPE_U8)
        error = check_stream_ends(stream, r'\xff\x1b[2J')
        assert '\x1b' not in error.text and '\n' not in error.text
    assert '\x1b' not in daemon.log.text()


def test_jpeg_and_png_by_signature(start_daemon, scratch):
    """A PNG named .jpg decodes: the signature decides, not the name."""
    pictures = make_data.pixels(4, (10, 12, 3))
    os.makedirs(f'{scratch}/data/a')
    for i, picture in enumerate(pictures):
        Image.fromarray(picture).save(f'{scratch}/data/a/{i}.png')
    os.rename(f'{scratch}/data/a/2.png', f'{scratch}/data/a/2.JPG')
    daemon = start_daemon({'train': f'{scratch}/data'})
    with daemon.client() as client:
        stream = client.open('train', dtype=pb.DTYPE_U8, layout=pb.LAYOUT_NHWC)
        np.testing.assert_array_equal(all_rows(stream)[0], pictures)


def test_bad_sample_does_not_stop_float_streams_elsewhere(start_daemon, folder, rgb_folder):
    """Two data sets in the same pool, one of them bad, side by side for several epochs."""
    daemon = start_daemon({'bad': folder, 'good': rgb_folder}, settle=True)
    truncated(f'{folder}/class0/4.png')
    with daemon.client() as client, daemon.client() as other:
        good = other.open('good', transforms=[to_tensor()], epochs=5, batch_size=8)
        for _ in range(5):
            stream = client.open('bad', dtype=pb.DTYPE_U8, batch_size=8)
            check_stream_ends(stream, 'class0/4.png')
            stream.unmap()
        assert len(all_rows(good)[2]) == 5 * 67
    daemon.wait_idle()
