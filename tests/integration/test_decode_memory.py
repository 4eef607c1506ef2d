# SPDX-License-Identifier: Apache-2.0
"""No file costs more memory than its own pixels, a JPEG's coefficients and 64 MiB: DECODE_FILE_EXTRA
of its bytes are read whatever its picture's size, and decoding may take DECODE_MEMORY_EXTRA besides.
The heap is counted byte by byte, in a build with AddressSanitizer."""

import struct
import zlib

import pytest
from PIL import Image

from test_decode_options import of_many_scans
from test_exif import chunk, interlaced, jpeg, orientation, picture, png, profile
from test_image_corpus import GREY16_CLIP, ORIENT, corpus, decode  # noqa: F401

MEMORY_EXTRA = 32 << 20
SLACK = 1 << 20


def allowed(answer):
    width, height = map(int, answer.size.split('x'))
    with open(answer.name, 'rb') as file:
        is_jpeg = file.read(2) == b'\xff\xd8'
    coefficients = 4 * 2 if is_jpeg else 0  # of up to four components
    return width * height * (3 + coefficients) + MEMORY_EXTRA + SLACK


def check(answers):
    assert any(answer.peak for answer in answers) or pytest.skip('needs AddressSanitizer')
    wrong = [f'{answer.peak >> 20} MiB: {answer}' for answer in answers
             if answer.peak > allowed(answer)]
    assert not wrong, '\n'.join(wrong)


@pytest.mark.parametrize('flags', [0, ORIENT | GREY16_CLIP])
def test_corpus(corpus, flags):  # noqa: F811
    check(decode([answer.name for _, answer in corpus], flags))


def ihdr(width, height, depth, colour, interlace=0):
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack(
        '>LLBBBBB', width, height, depth, colour, 0, 0, interlace))


def png_of_zeros(width, height, depth, colour, interlace=0):
    bits = depth * {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    squeeze = zlib.compressobj(9)
    data = b''
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
              (0, 1, 1, 2)] if interlace else [(0, 0, 1, 1)]
    for x0, y0, dx, dy in passes:
        columns = (width - x0 + dx - 1) // dx
        row = bytes(1 + (columns * bits + 7) // 8)
        for _ in range((height - y0 + dy - 1) // dy if columns else 0):
            data += squeeze.compress(row)
    return (ihdr(width, height, depth, colour, interlace)
            + chunk(b'IDAT', data + squeeze.flush()) + chunk(b'IEND', b''))


def with_size(file, width, height):
    """A JPEG whose header says another size."""
    for marker in (b'\xff\xc0', b'\xff\xc2'):
        if marker in file:
            at = file.index(marker) + 5
            return file[:at] + struct.pack('>HH', height, width) + file[at + 4:]
    raise ValueError


def segments(marker, body, count):
    return (struct.pack('>BBH', 0xff, marker, len(body) + 2) + body) * count


def behind_soi(file, data):
    return file[:2] + data + file[2:]


def scan_by_scan(width, height):
    """A baseline JPEG of three components, each in a scan of its own, without an end of data."""
    file = jpeg(mode='RGB')
    tables = file[:file.index(b'\xff\xda')]
    scans = b''.join(b'\xff\xda\0\x08\x01' + bytes([i + 1, 0x11 if i else 0]) + b'\0\x3f\0' + b'\0' * 64
                     for i in range(3))
    return with_size(tables + scans + b'\xff\xd9', width, height)


def hostile():
    """(name, file)"""
    bomb = zlib.compress(bytes(100 << 20), 9)
    key = b'Raw profile type exif\0'
    plain, progressive = jpeg(), jpeg(progressive=True)
    exif = orientation(6)
    turned = interlaced(picture('L', (700, 3)))
    yield 'text of 100 MiB', png([(b'tEXt', b'Comment\0' + b'x' * (100 << 20))])
    yield 'a hundred texts', png([(b'tEXt', b'Comment\0' + b'x' * (1 << 20))] * 100)
    yield 'bombs', png([(kind, key + head + bomb) for kind, head in (
        (b'zTXt', b'\0'), (b'iTXt', b'\1\0\0\0'))])
    yield 'XMP bomb', png([(b'zTXt', b'XML:com.adobe.xmp\0\0' + bomb)])
    yield 'profile of 40 MiB', png([(b'tEXt', key + profile(exif + bytes(20 << 20)))])
    yield 'ICC bomb', png([(b'iCCP', b'icc\0\0' + bomb)])
    yield 'declared text', png()[:33] + struct.pack('>L', 0x7fffffff) + b'tEXt' + b'x' * 20
    yield 'EXIF of 50 MiB', png([(b'eXIf', exif + bytes(50 << 20))])
    yield 'wide interlaced RGBA of 16 bits', png_of_zeros(65500, 9, 16, 6, 1)
    yield 'wide RGBA of 16 bits, turned', (lambda file: file[:33] + chunk(b'eXIf', exif) + file[33:])(
        png_of_zeros(65500, 40, 16, 6, 1))
    yield 'widest row', png_of_zeros(1 << 20, 1, 16, 6)
    yield 'too wide a row', png_of_zeros(5 << 20, 1, 16, 6)
    yield 'wide grey of 16 bits', png_of_zeros(1 << 20, 3, 16, 0)
    yield 'interlaced, turned', turned[:33] + chunk(b'eXIf', exif) + turned[33:]
    yield 'largest header', ihdr(13377, 13377, 8, 6) + chunk(b'IDAT', bytes(9)) + chunk(b'IEND', b'')
    yield 'ICC profiles', behind_soi(plain, segments(0xe2, b'ICC_PROFILE\0\1\1' + bytes(65000), 600))
    yield 'EXIF segments', behind_soi(plain, segments(0xe1, b'Exif\0\0' + exif + bytes(60000), 600))
    yield 'comments', behind_soi(plain, segments(0xfe, bytes(65000), 600))
    yield 'quantisation tables', behind_soi(plain, segments(0xdb, bytes([3]) + bytes(range(1, 65)), 99999))
    yield 'Huffman tables', behind_soi(plain, segments(0xc4, bytes([3, 1]) + bytes(15) + b'\1', 99999))
    yield 'restart intervals', behind_soi(plain, segments(0xdd, b'\xff\xff', 99999))
    yield 'scans', of_many_scans(3000, 64)
    yield 'scan by scan', scan_by_scan(65500, 100)
    yield 'scan by scan, narrow', scan_by_scan(1, 65500)
    yield 'widest JPEG', with_size(plain, 65500, 8)
    yield 'narrowest JPEG', with_size(plain, 1, 65500)
    yield 'large JPEG', with_size(plain, 65500, 200)
    yield 'large progressive JPEG', with_size(progressive, 3000, 3000)
    yield 'impossible JPEG', with_size(plain, 65500, 65500)
    yield 'wide CMYK, turned', behind_soi(with_size(jpeg(mode='CMYK'), 65500, 30),
                                          segments(0xe1, b'Exif\0\0' + exif, 1))


@pytest.mark.parametrize('flags', [0, ORIENT | GREY16_CLIP])
def test_hostile_files(scratch, flags):
    names, paths = [], []
    for i, (name, file) in enumerate(hostile()):
        names.append(name)
        paths.append(f'{scratch}/{i}')
        with open(paths[-1], 'wb') as out:
            out.write(file)
    answers = dict(zip(names, decode(paths, flags)))
    assert answers['text of 100 MiB'].status == answers['bombs'].status == 'ok'
    assert answers['widest row'].status == answers['ICC profiles'].status == 'ok'
    assert answers['wide interlaced RGBA of 16 bits'].status == 'ok'
    assert answers['wide RGBA of 16 bits, turned'].size == ('40x65500' if flags else '65500x40')
    assert 'too wide' in answers['too wide a row'].text
    assert 'more than 500 scans' in answers['scans'].text
    assert 'larger than the limit' in answers['impossible JPEG'].text
    assert {'ok', 'bad'} == {answer.status for answer in answers.values()}
    check(list(answers.values()))
