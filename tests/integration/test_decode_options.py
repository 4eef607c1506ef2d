# SPDX-License-Identifier: Apache-2.0
"""Open.decode through stokerd: pictures turned as their EXIF data say, 16-bit grey clipped; and the
limits of time and bytes for one picture."""

import io
import json
import os
import struct
import tarfile

import numpy as np
import pytest
from PIL import Image, ImageOps

import make_data
from client import ServerError, all_rows, pb
from reference import folder_samples
from test_exif import jpeg, orientation, picture, png
from test_tool import run as stoker
from test_trainer import run as train

TURN = pb.Decode(exif_orientation=True)
CLIP = pb.Decode(grey16_clip=True)


def write(root, files):
    """A class folder with these files, {name: bytes}."""
    for name, file in files.items():
        os.makedirs(os.path.dirname(f'{root}/{name}'), exist_ok=True)
        with open(f'{root}/{name}', 'wb') as out:
            out.write(file)
    return root


def turned_files():
    """Twelve files of 23x9 pixels; turned as they say, all are 9x23."""
    return {f'{i % 2}/{i:02}.{ext}': file(orientation(value)) for i, (ext, file, value) in enumerate(
        (ext, file, value) for value in (6, 5, 7, 8) for ext, file in (
            ('jpg', jpeg), ('png', lambda exif: png([(b'eXIf', exif)])),
            ('jpeg', lambda exif: jpeg(exif, progressive=True))))}


def expected(root, turn=True):
    images = []
    for path, _ in folder_samples(root):
        with Image.open(path) as image:
            images.append(np.asarray((ImageOps.exif_transpose(image) if turn else image)
                                     .convert('RGB')))
    return images


def served(daemon, name='d', **options):
    with daemon.client() as client:
        options.setdefault('dtype', pb.DTYPE_U8)
        stream = client.open(name, layout=pb.LAYOUT_NHWC, batch_size=5, **options)
        return stream.shape, all_rows(stream)[0]


@pytest.mark.parametrize('workers', [0, 2])
def test_pictures_are_turned_on_request(start_daemon, scratch, workers):
    folder = write(f'{scratch}/data', turned_files())
    daemon = start_daemon({'d': folder}, workers=workers)
    for turn in (False, True):
        shape, images = served(daemon, decode=pb.Decode(exif_orientation=turn))
        assert shape == ((23, 9, 3) if turn else (9, 23, 3))
        np.testing.assert_array_equal(images, np.stack(expected(folder, turn)))
    # In front of all transforms.
    crop = pb.Transform(center_crop=pb.CenterCrop(size=[5]))
    shape, images = served(daemon, decode=TURN, transforms=[crop])
    assert shape == (5, 5, 3)
    np.testing.assert_array_equal(images, np.stack(expected(folder))[:, 9:14, 2:7])


def test_sizes_that_differ_only_as_they_lie(start_daemon, scratch):
    """An upright picture among those on their side, and the other way round."""
    folder = write(f'{scratch}/data', {
        'a/0.png': png([(b'eXIf', orientation(6))]), 'a/1.png': png(image=picture(size=(9, 23)))})
    daemon = start_daemon({'d': folder})
    shape, images = served(daemon, decode=TURN)
    assert shape == (23, 9, 3)
    np.testing.assert_array_equal(images, np.stack(expected(folder)))
    with pytest.raises(ServerError, match='1.png: is 9x23, but the first sample is 23x9'):
        served(daemon)


def big_png_turned_at_its_end():
    """More than a MiB, and the EXIF data behind the picture."""
    noise = np.random.RandomState(0).randint(0, 256, (700, 900, 3)).astype(np.uint8)
    file = png(after=[(b'eXIf', orientation(8))], image=Image.fromarray(noise), compress_level=0)
    assert len(file) > 1 << 20
    return file


@pytest.mark.parametrize('kind', ['folder', 'manifest', 'tar'])
def test_first_picture_says_so_behind_its_pixels(start_daemon, scratch, kind):
    file = big_png_turned_at_its_end()
    path = write(f'{scratch}/data', {'a/0.png': file, 'a/1.png': file})
    if kind == 'manifest':
        path = f'{scratch}/data/list.csv'
        with open(path, 'w') as out:
            out.write('path,label\na/0.png,x\na/1.png,x\n')
    if kind == 'tar':
        path = f'{scratch}/data.tar'
        with tarfile.open(path, 'w') as archive:
            for i in range(2):
                for name, data in ((f'{i}.png', file), (f'{i}.cls', b'0')):
                    member = tarfile.TarInfo(name)
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
    shape, images = served(start_daemon({'d': path}), decode=TURN)
    assert shape == (900, 700, 3)
    with Image.open(io.BytesIO(file)) as image:
        np.testing.assert_array_equal(images, [np.asarray(ImageOps.exif_transpose(image))] * 2)


GREY16 = 'grey pictures of 16 bits'


def grey16_folder(root):
    """16-bit grey and other pictures; returns (path, high bytes, clipped), N,H,W."""
    ramp = np.linspace(0, 65535, 23 * 9).reshape(9, 23).astype(np.uint16)
    dark = (np.arange(23 * 9).reshape(9, 23) * 2).astype(np.uint16)
    files, high, clip = {}, [], []
    for i, values in enumerate((ramp, dark, ramp[::-1])):
        out = io.BytesIO()
        Image.fromarray(values.astype(np.int32), 'I').save(out, 'PNG')
        files[f'{"aab"[i]}/{i}.png'] = out.getvalue()
        high.append((values >> 8).astype(np.uint8))
        clip.append(np.minimum(values, 255).astype(np.uint8))
    files['b/9.png'] = png(image=picture('L'))
    high.append(np.asarray(picture('L')))
    clip.append(np.asarray(picture('L')))
    return write(root, files), np.stack(high), np.stack(clip)


@pytest.mark.parametrize('workers', [0, 2])
def test_grey16(start_daemon, scratch, workers):
    """By default the high byte, told once; on request what Pillow gives, and nothing to tell."""
    folder, high, clip = grey16_folder(f'{scratch}/data')
    grey = [pb.Transform(grayscale=pb.Grayscale(num_output_channels=1))]
    daemon = start_daemon({'d': folder, 'e': folder}, workers=workers)
    for transforms, channels in (((), 3), (grey, 1)):
        _, images = served(daemon, decode=CLIP, transforms=transforms)
        np.testing.assert_array_equal(images, np.repeat(clip[..., None], channels, axis=3))
    np.testing.assert_array_equal(served(daemon, decode=CLIP)[1], np.stack(expected(folder)))
    assert not daemon.log.matches(GREY16)
    for transforms, channels in (((), 3), (grey, 1), ((), 3)):
        _, images = served(daemon, transforms=transforms)
        np.testing.assert_array_equal(images, np.repeat(high[..., None], channels, axis=3))
    assert len(daemon.log.wait(GREY16)) == 1
    served(daemon, 'e')
    lines = daemon.log.wait(GREY16, count=2)
    assert len(lines) == 2 and 'data set d' in lines[0] and 'data set e' in lines[1]


def test_grey16_of_idx_files(start_daemon, scratch):
    values = np.linspace(0, 65535, 6 * 5 * 4).reshape(6, 5, 4).astype('>u2')
    for name, head, data in (
            ('images-idx3-ubyte', b'\0\0\x0b\3' + struct.pack('>3L', 6, 5, 4), values.tobytes()),
            ('labels-idx1-ubyte', b'\0\0\x08\1' + struct.pack('>L', 6), b'\0\1' * 3)):
        write(scratch, {name: head + data})
    daemon = start_daemon({'d': f'{scratch}/images-idx3-ubyte'})
    for decode, pixels in ((CLIP, np.minimum(values, 255)), (None, values >> 8)):
        assert not daemon.log.matches(GREY16)
        np.testing.assert_array_equal(served(daemon, decode=decode)[1][..., 0], pixels)
    daemon.log.wait(GREY16)


def test_nothing_to_tell_of_other_pictures(start_daemon, mixed_folder):
    daemon = start_daemon({'d': mixed_folder})
    served(daemon)
    daemon.terminate()
    daemon.log.wait_end()
    assert not daemon.log.matches(GREY16)


def test_grey16_turned(start_daemon, scratch):
    folder, _, clip = grey16_folder(f'{scratch}/data')
    for path, _ in folder_samples(folder):
        with open(path, 'rb') as file:
            data = file.read()
        write(folder, {os.path.relpath(path, folder): data[:33] + png([(b'eXIf', orientation(6))])[33:33 + 38]
                       + data[33:]})
    both = pb.Decode(exif_orientation=True, grey16_clip=True)
    shape, images = served(start_daemon({'d': folder}), decode=both)
    assert shape == (23, 9, 3)
    np.testing.assert_array_equal(images[..., 0], np.rot90(clip, -1, (1, 2)))


def test_options_of_the_tools(start_daemon, scratch):
    folder = write(f'{scratch}/turned', turned_files())
    grey, high, clip = grey16_folder(f'{scratch}/grey')
    daemon = start_daemon({'t': folder, 'g': grey}, settle=True)
    u8 = ('--dtype', 'u8', '--layout', 'NHWC')

    def dump(name, *options):
        stoker('dump', name, '-o', f'{scratch}/out', *u8, *options, daemon=daemon)
        return np.load(f'{scratch}/out/images.npy')

    np.testing.assert_array_equal(dump('t', '--exif-orientation'), np.stack(expected(folder)))
    np.testing.assert_array_equal(dump('t'), np.stack(expected(folder, turn=False)))
    for how, pixels in (('high', high), ('clip', clip)):
        np.testing.assert_array_equal(dump('g', '--grey16', how)[..., 0], pixels)
    result = json.loads(stoker('bench', 't', '--exif-orientation', '--grey16', 'clip', '--json',
                               daemon=daemon))
    assert result['images'] == 12
    for command in ('bench', 'dump'):
        assert 'high or clip' in stoker(command, 'g', '--grey16', 'low', daemon=daemon, status=2)
        help_text = stoker(command, '--help')
        assert '--exif-orientation' in help_text and '--grey16' in help_text


def test_options_of_the_trainer(start_daemon, scratch):
    """A crop that is right only of turned pictures, and a loss that only clipping gives."""
    folder = write(f'{scratch}/turned', turned_files())
    grey, _, clip = grey16_folder(f'{scratch}/grey')
    daemon = start_daemon({'t': folder, 'g': grey, 'c': write(f'{scratch}/clipped', {
        f'{"aabb"[i]}/{i}.png': png(image=Image.fromarray(pixels)) for i, pixels in enumerate(clip)})})

    def losses(name, *options):
        lines = train(daemon, '--json', '--epochs', 1, '--no-shuffle', *options, data=name).stdout
        return [json.loads(line).get('loss') for line in lines.splitlines()]

    assert losses('g', '--grey16', 'clip') == losses('c') != losses('g')
    assert losses('t', '--exif-orientation') != losses('t')
    assert 'expected high or clip' in train(daemon, '--grey16', 'no', data='g', status=2).stderr


# ---- limits ----

def of_many_scans(scans, edge):
    """A progressive grey JPEG with its last scan over and over: each is another pass over the
    coefficients of the whole picture."""
    out = io.BytesIO()
    Image.new('L', (edge, edge), 99).save(out, 'JPEG', progressive=True)
    file = out.getvalue()
    last = file.rindex(b'\xff\xda')
    return file[:last] + file[last:-2] * (scans - file.count(b'\xff\xda') + 1) + file[-2:]


@pytest.mark.parametrize('policy', [pb.ON_BAD_SAMPLE_ERROR, pb.ON_BAD_SAMPLE_MASK],
                         ids=['error', 'mask'])
def test_time_for_one_picture(start_daemon, scratch, policy):
    """A picture that takes too long costs two workers, is a bad sample, and holds nothing up."""
    folder = write(f'{scratch}/data', {'a/0.png': png(), 'a/1.jpg': of_many_scans(499, 9000)})
    daemon = start_daemon({'d': folder}, workers=1, config='[stokerd]\nimage_timeout = 1\n')
    crop = pb.Transform(center_crop=pb.CenterCrop(size=[9]))
    with daemon.client() as client:
        stream = client.open('d', dtype=pb.DTYPE_U8, batch_size=1, transforms=[crop],
                             on_bad_sample=policy)
        if policy == pb.ON_BAD_SAMPLE_ERROR:
            with pytest.raises(ServerError, match='1.jpg: .*longer than image_timeout'):
                list(stream.batches())
        else:
            assert [b.statuses[0] for b in stream.batches()] == [pb.ROW_OK, pb.ROW_MASKED]
    lines = daemon.log.wait('has made no progress for 1 s at .*1.jpg; it is replaced', count=2)
    assert len(lines) == 2
    status = daemon.wait_idle()
    assert status.worker_deaths == 2 and len(status.worker) == 1
    assert [bad.reason for bad in status.dataset[0].bad_sample] == [pb.BAD_KILLER]


@pytest.mark.parametrize('workers', [0, 1])
def test_pixels_of_one_picture(start_daemon, scratch, workers):
    """By the header: a larger picture is a bad sample, and no size to promise."""
    for name, edge in ('a/0', 101), ('a/1', 100), ('a/2', 101), ('a/3', 3):
        os.makedirs(f'{scratch}/data/a', exist_ok=True)
        Image.new('L', (edge, 100)).save(f'{scratch}/data/{name}.png')
    make_data.write_idx(f'{scratch}/idx', np.zeros((1, 101, 100), np.uint8), np.zeros(1, int))
    daemon = start_daemon({'d': f'{scratch}/data', 'idx': f'{scratch}/idx'}, workers=workers,
                          config='[stokerd]\nmax_pixels = 10000\n')
    crop = pb.Transform(center_crop=pb.CenterCrop(size=[9]))
    with daemon.client() as client:
        stream = client.open('d', dtype=pb.DTYPE_U8, transforms=[crop],
                             on_bad_sample=pb.ON_BAD_SAMPLE_MASK)
        batch, = stream.batches()
        assert list(batch.statuses) == [pb.ROW_MASKED, pb.ROW_OK, pb.ROW_MASKED, pb.ROW_OK]
        with pytest.raises(ServerError, match='over the limit of 10000 pixels'):
            client.open('idx', dtype=pb.DTYPE_U8)
    dataset, = (d for d in daemon.status().dataset if d.name == b'd')
    assert (dataset.width, dataset.height) == (100, 100)
    assert all('limit of 10000 pixels (max_pixels)' in bad.text for bad in dataset.bad_sample)


def test_bytes_for_one_picture(start_daemon, scratch):
    """A file that is too large for its picture is refused before it is read."""
    text = b'Comment\0' + b'x' * (30 << 20)
    profile = b'\xff\xe2\xff\xff' + b'ICC_PROFILE\0\1\1' + b'x' * (65533 - 14)
    small = jpeg()
    large = Image.new('RGB', (3000, 2000), (1, 2, 3))
    files = {
        'a/0.png': png([(b'tEXt', text)]),                        # 30 MiB for 207 pixels
        'a/1.jpg': small[:2] + profile * 500 + small[2:],         # 31 MiB, the size at their end
        'a/2.jpg': small[:2] + profile * 300 + small[2:],         # 18 MiB are read
        'a/3.png': png([(b'tEXt', text)], image=large),           # as are 30 for 6 million pixels
        'a/4.jpg': small + b'x' * (25 << 20),
    }
    folder = write(f'{scratch}/data', files)
    with open(f'{folder}/a/5.jpg', 'wb') as out:  # sparse
        out.write(small)
        out.truncate((256 << 20) + 1)
    daemon = start_daemon({'d': folder}, workers=1)
    crop = pb.Transform(center_crop=pb.CenterCrop(size=[9]))
    with daemon.client() as client:
        stream = client.open('d', dtype=pb.DTYPE_U8, batch_size=6, transforms=[crop],
                             on_bad_sample=pb.ON_BAD_SAMPLE_MASK)
        batch, = stream.batches()
        ok = [status == pb.ROW_OK for status in batch.statuses]
        assert ok == [False, False, True, True, False, False]
        reasons = [bad.text for bad in client.status().dataset[0].bad_sample]
    assert reasons[0] == '30 MiB are too much for a picture of 23 x 9 pixels'
    assert 'cut short' in reasons[1] and reasons[1].endswith('(in the first 24 of its 31 MiB)')
    assert reasons[2] == '25 MiB are too much for a picture of 23 x 9 pixels'
    assert reasons[3] == 'is larger than 256 MiB'
