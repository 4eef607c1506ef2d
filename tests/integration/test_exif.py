# SPDX-License-Identifier: Apache-2.0
"""Orientation by EXIF data, against Pillow's ImageOps.exif_transpose."""

import hashlib
import io
import random
import struct
import warnings
import zlib
from unittest import mock

import numpy as np
import pytest
from PIL import Image, ImageOps

from test_image_corpus import ORIENT, decode

TAG = 0x0112
SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}


def pack(order, kind, value):
    """One value of a TIFF type."""
    letters = {1: 'B', 2: 'B', 3: 'H', 4: 'L', 6: 'b', 7: 'B', 8: 'h', 9: 'l', 11: 'f', 12: 'd',
               13: 'L', 16: 'Q'}
    if kind in (5, 10):
        return struct.pack(order + ('2L' if kind == 5 else '2l'), value * 3, 3)
    return struct.pack(order + letters[kind], value)


def tiff(entries, order='<', header=None, at=8, after=b''):
    """EXIF data: entries are (tag, type, count, bytes), the bytes of all values."""
    head = header or {'<': b'II*\0', '>': b'MM\0*'}[order]
    table, extra = struct.pack(order + 'H', len(entries)), b''
    data_at = at + 2 + 12 * len(entries) + 4
    for tag, kind, count, data in entries:
        if len(data) > 4:
            field = struct.pack(order + 'L', data_at + len(extra))
            extra += data
        else:
            field = data.ljust(4, b'\0')
        table += struct.pack(order + 'HHL', tag, kind, count) + field
    return (head + struct.pack(order + 'L', at) + b'\0' * (at - 8) + table + b'\0' * 4 + extra
            + after)


def orientation(value, order='<', kind=3, **options):
    return tiff([(TAG, kind, 1, pack(order, kind, value))], order, **options)


def picture(mode='RGB', size=(23, 9)):
    """Of an odd size, and without any symmetry."""
    bands = len(Image.new(mode, (1, 1)).getbands())
    rng = np.random.RandomState(bands)
    shape = (size[1], size[0], bands) if bands > 1 else (size[1], size[0])
    return Image.fromarray(rng.randint(0, 256, shape).astype(np.uint8), mode)


def jpeg(exif=None, mode='RGB', size=(23, 9), **options):
    out = io.BytesIO()
    # A resolution, for Pillow would look for one in EXIF data that it may fail on.
    picture(mode, size).save(out, 'JPEG', quality=90, dpi=(72, 72), **options)
    return with_segments(out.getvalue(), [] if exif is None else [b'Exif\0\0' + exif])


def with_segments(file, segments, marker=0xe1):
    """APP1 segments behind JFIF."""
    at = 4 + struct.unpack('>H', file[4:6])[0] if file[2:4] == b'\xff\xe0' else 2
    packed = b''.join(struct.pack('>BBH', 0xff, marker, len(s) + 2) + s for s in segments)
    return file[:at] + packed + file[at:]


def chunk(kind, data):
    return struct.pack('>L', len(data)) + kind + data + struct.pack('>L', zlib.crc32(kind + data))


def png(before=(), after=(), image=None, **options):
    """A PNG with (type, data) chunks before and after its picture."""
    out = io.BytesIO()
    (image or picture()).save(out, 'PNG', **options)
    file = out.getvalue()
    return (file[:33] + b''.join(chunk(*c) for c in before) + file[33:-12]
            + b''.join(chunk(*c) for c in after) + file[-12:])


def interlaced(image):
    """A PNG in Adam7, which Pillow cannot write: L or RGB, all filters None."""
    pixels = np.asarray(image)
    height, width = pixels.shape[:2]
    rows = b''
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                           (1, 0, 2, 2), (0, 1, 1, 2)):
        part = pixels[y0::dy, x0::dx]
        if part.shape[1]:
            rows += b''.join(b'\0' + row.tobytes() for row in part)
    colour = 0 if image.mode == 'L' else 2
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>LLBBBBB', width, height, 8, colour, 0,
                                                             0, 1))
            + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))


def by_pillow(file):
    """(size, sha256) as a user of Pillow has it; data that exif_transpose fails on change nothing."""
    # What Pillow cannot write back is no concern here.
    with warnings.catch_warnings(), mock.patch.object(Image.Exif, 'tobytes', return_value=b''):
        warnings.simplefilter('ignore')
        with Image.open(io.BytesIO(file)) as image:
            try:
                turned = ImageOps.exif_transpose(image)
            except (SyntaxError, ValueError, TypeError, struct.error):
                turned = Image.open(io.BytesIO(file))
            rgb = turned.convert('RGB')
    return f'{rgb.width}x{rgb.height}', hashlib.sha256(rgb.tobytes()).hexdigest()


def check(files, folder):
    """Every file comes out as Pillow has it; returns how many were turned on their side."""
    paths = []
    for i, file in enumerate(files):
        paths.append(f'{folder}/{i}')
        with open(paths[-1], 'wb') as out:
            out.write(file)
    wrong = []
    for file, answer in zip(files, decode(paths, ORIENT)):
        size, sha256 = by_pillow(file)
        if (answer.status, answer.size, answer.sha256) != ('ok', size, sha256):
            wrong.append(f'{answer} Pillow: {size} {sha256[:12]}')
    assert not wrong, f'{len(wrong)} of {len(files)}:\n' + '\n'.join(wrong[:20])
    return [answer.size for answer in decode(paths, ORIENT)].count('9x23')


def test_every_orientation_of_every_kind_of_picture(scratch):
    files = []
    for value in range(10):
        for order in '<>':
            exif = orientation(value, order)
            files += [jpeg(exif), jpeg(exif, 'L'), jpeg(exif, 'CMYK'), jpeg(exif, progressive=True)]
            files += [png([(b'eXIf', exif)], image=picture(mode))
                      for mode in ('L', 'LA', 'RGB', 'RGBA')]
            files += [png([(b'eXIf', exif)], image=picture().convert('P')),
                      png([(b'eXIf', exif)], image=picture('L').convert('1'))]
            files += [file[:33] + chunk(b'eXIf', exif) + file[33:] for file in (
                interlaced(picture(mode)) for mode in ('L', 'RGB'))]
    assert check(files, scratch) == len(files) * 4 // 10


@pytest.mark.parametrize('size', [(1, 1), (1, 40), (40, 1), (2, 3), (200, 150)])
def test_sizes(scratch, size):
    files = [jpeg(orientation(value), mode, size) for value in range(2, 9) for mode in ('RGB', 'L')]
    for value in range(2, 9):
        plain = interlaced(picture('L', size))
        files += [plain[:33] + chunk(b'eXIf', orientation(value)) + plain[33:]]
        files += [png([(b'eXIf', orientation(value))], image=picture('RGB', size))]
    check(files, scratch)


def test_types_and_headers(scratch):
    """Any number will do, and some headers that are no TIFF."""
    exifs = [orientation(6, order, kind) for order in '<>' for kind in SIZES]
    exifs += [orientation(6, '<', header=h) for h in (b'II\0*', b'II+\0', b'II**', b'MM\0*')]
    exifs += [orientation(6, '>', header=h) for h in (b'MM*\0', b'MM\0+', b'MM+\0', b'mm\0*')]
    exifs += [orientation(6, at=9), orientation(6, at=400), tiff([]), b'', b'II*\0', b'II*\0\0\0\0']
    two = [(TAG, 3, 1, pack('<', 3, value)) for value in (6, 8)]
    exifs += [tiff(two), tiff(two[::-1]), tiff([(1, 99, 1, b''), two[0]]),
              tiff([(TAG, 3, 0, b'\6')]), tiff([(TAG, 3, 3, b'\6\0\5\0\4\0')]),
              tiff([two[0], (TAG, 2, 2, b'6\0')]), tiff([(TAG, 5, 1, struct.pack('<2L', 6, 0))]),
              tiff([(TAG, 5, 1, struct.pack('<2L', 13, 2))])]
    outside = struct.pack('<HHLL', 0x0100, 4, 5, 1 << 30)
    for entries in ([outside, two[0]], [two[0], outside]):
        table = b''.join(e if isinstance(e, bytes) else struct.pack('<HHL', *e[:3]) + e[3] + b'\0\0'
                         for e in entries)
        exifs.append(b'II*\0\x08\0\0\0\x02\0' + table + b'\0' * 4)
    files = [jpeg(exif) for exif in exifs] + [png([(b'eXIf', exif)]) for exif in exifs if exif]
    assert check(files, scratch) > 30


def test_which_segment_counts(scratch):
    six, eight = (b'Exif\0\0' + orientation(value) for value in (6, 8))
    plain = jpeg()
    scan = plain.index(b'\xff\xda')
    files = [with_segments(plain, segments) for segments in (
        [six, eight], [eight, six], [b'http://ns.adobe.com/xap/1.0/\0<x/>', six], [b'Exif\0\0', six],
        [b'Exif\0', six], [b'Exif\0\1' + six[6:], eight], [b'Exif', six], [b'', six], [b'E', six],
        [b'exif\0\0' + six[6:]], [six[:9]], [six[:20]], [b'Exif\0\0' + six])]
    # Not of another marker, nor behind the picture.
    files += [with_segments(plain, [six], 0xe2), plain + plain[:2] + with_segments(plain, [six])[2:]]
    # In front of the scan, behind the tables.
    files.append(plain[:scan] + b'\xff\xe1' + struct.pack('>H', len(six) + 2) + six + plain[scan:])
    check(files, scratch)


def profile(exif, name='exif'):
    digits = exif.hex()
    lines = '\n'.join(digits[i:i + 72] for i in range(0, len(digits), 72))
    return f'\n{name}\n{len(exif):8}\n{lines}\n'.encode()


def test_chunks_that_count(scratch):
    six, eight, none = orientation(6), orientation(8), tiff([(1, 3, 1, b'\1\0')])
    key = b'Raw profile type exif\0'
    xmp = b'XML:com.adobe.xmp\0'
    packet = b'<x tiff:Orientation="6"/>'
    deflated = zlib.compress(packet)
    files = [
        png(after=[(b'eXIf', six)]),
        png([(b'eXIf', eight)], [(b'eXIf', six)]),
        png([(b'eXIf', eight), (b'eXIf', six)]),
        png(after=[(b'eXIf', eight), (b'eXIf', six)]),
        png([(b'eXIf', b'Exif\0\0' + six)]),
        png([(b'tEXt', key + profile(six))]),
        png([(b'tEXt', key + profile(b'Exif\0\0' + six))]),
        png(after=[(b'zTXt', key + b'\0' + zlib.compress(profile(b'Exif\0\0' + six)))]),
        png([(b'iTXt', key + b'\0\0\0\0' + profile(six))]),
        png([(b'iTXt', key + b'\1\0en\0x\0' + zlib.compress(profile(six)))]),
        png([(b'tEXt', key + profile(six))], [(b'eXIf', eight)]),
        png([(b'tEXt', key + profile(six)[:-2] + b'g')]),
        png([(b'tEXt', key + profile(six)[:-2])]),
        png([(b'tEXt', key + profile(six).replace(b'0', b' 0'))]),
        png([(b'tEXt', key + b'no lines')]),
        png([(b'tEXt', key + profile(none)), (b'iTXt', xmp + b'\0\0\0\0' + packet)]),
        png([(b'iTXt', xmp + b'\0\0\0\0' + packet)]),
        png([(b'iTXt', xmp + b'\1\0\0\0' + deflated)]),
        png([(b'iTXt', xmp + b'\1\1\0\0' + deflated)]),
        png([(b'iTXt', xmp + b'\0\0\0\0' + packet.replace(b'="', b'>'))]),
        png([(b'iTXt', xmp + b'\0\0\0\0' + b'tiff:Orientation tiff:Orientation=6' + packet)]),
        png([(b'iTXt', xmp + b'\0\0\0\0' + packet[:19])]),
        png([(b'iTXt', xmp + b'\0\0\0\0' + packet.replace(b'6', b'9'))]),
        png([(b'tEXt', xmp + packet)]), png([(b'zTXt', xmp + b'\0' + deflated)]),
        png([(b'eXIf', eight), (b'iTXt', xmp + b'\0\0\0\0' + packet)]),
        png([(b'eXIf', none), (b'iTXt', xmp + b'\0\0\0\0' + packet)]),
        png([(b'eXIf', none)], [(b'iTXt', xmp + b'\0\0\0\0' + packet)]),
        png([(b'iTXt', xmp)]), png([(b'iTXt', xmp + b'\0')]), png([(b'iTXt', xmp + b'\0\0')]),
        png([(b'zTXt', xmp)]), png([(b'zTXt', xmp + b'\0')]), png([(b'zTXt', xmp + b'\0' + b'x' * 9)]),
    ]
    assert check(files, scratch) >= 19


def test_damaged_data(scratch):
    """Thousands of files with some bytes changed or missing."""
    rng = random.Random(7)
    files = []
    for i in range(3000):
        order = rng.choice('<>')
        entries = []
        for _ in range(rng.randrange(1, 6)):
            kind, count = rng.choice(list(SIZES)), rng.choice((1, 1, 1, 2))
            value = pack(order, kind, rng.randrange(10)) * count
            if rng.random() < 0.2:
                value = bytes(rng.randrange(9) for _ in range(rng.choice((4, 8, 16))))
            entries.append((rng.choice((TAG, TAG, 0x0100, 0x8769)), kind, count, value))
        exif = bytearray(tiff(entries, order, at=rng.choice((8, 8, 9, 30))))
        for _ in range(rng.randrange(3)):
            exif[rng.randrange(len(exif))] = rng.choice((0, 1, 6, 8, 255, rng.randrange(256)))
        exif = bytes(exif[:rng.choice((len(exif), rng.randrange(1, len(exif))))])
        files.append(jpeg(exif) if i % 2 else png([(b'eXIf', exif)]))
    assert check(files, scratch) > 200
