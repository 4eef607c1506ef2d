# SPDX-License-Identifier: Apache-2.0
"""Public odd PNG and JPEG files, each with the answer that Pillow gives: STOKER_CASES/expected.tsv. What
must come of each class stands in stokerd(8), section IMAGES."""

import collections
import csv
import hashlib
import os
import struct
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

ROOT = Path(__file__).resolve().parents[2]
CASES = Path(os.environ.get('STOKER_CASES', ROOT / '../shared/cases'))
BUILD = Path(os.environ.get('STOKER_BUILD', ROOT / 'build/tests'))
DECODE_CORPUS = BUILD / 'tests/unit/decode_corpus'
ORIENT, GREY16_CLIP = 1, 2  # enum decode_flag


class Answer:
    """What decode_corpus said about one file."""

    def __init__(self, line, pixels):
        self.name, self.status, self.size, _, peak, self.text = line.decode().split('\t')
        self.peak = int(peak)  # bytes of heap, pixels included
        self.sha256 = hashlib.sha256(pixels).hexdigest()

    def __str__(self):
        return f'{self.name}: {self.status} {self.size} {self.text} {self.sha256[:12]}'


def decode(names, flags=0):
    """Run decode_corpus over files; one Answer per name. A crash ends the answers early."""
    assert DECODE_CORPUS.is_file(), f'{DECODE_CORPUS} is not built; see tests/run'
    run = subprocess.run([DECODE_CORPUS, str(flags)], input=b''.join(os.fsencode(n) + b'\0' for n in names),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    answers, offset = [], 0
    while offset < len(run.stdout):
        end = run.stdout.index(b'\n', offset)
        length = int(run.stdout[offset:end].split(b'\t')[3])
        answers.append(Answer(run.stdout[offset:end], run.stdout[end + 1:end + 1 + length]))
        offset = end + 1 + length
    assert run.returncode == 0 and len(answers) == len(names), (
        f'ended with {run.returncode} behind {answers[-1] if answers else "the start"}: '
        + run.stderr.decode(errors='replace'))
    return answers


@pytest.fixture(scope='module')
def corpus():
    """(row of expected.tsv, Answer) of every file."""
    table = CASES / 'expected.tsv'
    if not table.is_file():
        pytest.skip(f'no {table}; STOKER_CASES names the folder of odd files')
    with open(table, newline='') as lines:
        rows = list(csv.DictReader(lines, delimiter='\t', quoting=csv.QUOTE_NONE))
    return list(zip(rows, decode([CASES / row['file'] for row in rows])))


# (class, signature): files. Fewer would mean that something is passed over.
COUNTS = {('A', 'png'): 527, ('A', 'jpeg'): 212, ('B', 'png'): 539, ('B', 'jpeg'): 850,
          ('C', 'png'): 10, ('C', 'jpeg'): 133, ('D', 'png'): 15, ('E', 'png'): 44, ('F', '?'): 33}


def test_every_file_has_its_answer(corpus):
    assert collections.Counter((row['class'][0], row['magic']) for row, _ in corpus) == COUNTS
    assert {answer.status for _, answer in corpus} == {'ok', 'bad'}


def check(corpus, classes, right):
    """right(row, answer) must hold for every file of these classes."""
    chosen = [(r, a) for r, a in corpus if r['class'][0] in classes]
    assert len(chosen) == sum(n for (name, _), n in COUNTS.items() if name in classes)
    wrong = [str(a) for r, a in chosen if not right(r, a)]
    assert not wrong, f'{len(wrong)} of {len(chosen)}:\n' + '\n'.join(wrong)


def is_pillows(row, answer):
    return (answer.status == 'ok' and answer.sha256 == row['sha256_rgb8_or_error']
            and answer.size == f'{row["width"]}x{row["height"]}')


def is_refused(row, answer):
    names = {'png': 'PNG', 'jpeg': 'JPEG'}
    return answer.status == 'bad' and names[row['magic']] in answer.text


def test_equal_to_pillow(corpus):
    check(corpus, 'A', is_pillows)


def test_refused_as_by_pillow(corpus):
    check(corpus, 'BC', is_refused)


def test_damaged_but_readable_is_refused(corpus):
    check(corpus, 'D', is_refused)


def test_other_formats(corpus):
    check(corpus, 'F', lambda r, a: a.status == 'bad' and a.text == (
        'empty file' if os.path.getsize(a.name) == 0 else 'not PNG or JPEG'))


def sha256(pixels):
    return hashlib.sha256(np.ascontiguousarray(pixels, np.uint8)).hexdigest()


def high_byte(name):
    """The digest of Pillow's own 16 bits, halved."""
    with Image.open(name) as image:
        assert image.mode == 'I'
        values = np.asarray(image)
    assert values.max() <= 65535
    return sha256(np.repeat(values[..., None] >> 8, 3, axis=2))


def black_beyond_palette(name):
    """The digest of a palette picture whose indices beyond PLTE are black."""
    with open(name, 'rb') as file:
        data = file.read()
    at = data.index(b'PLTE')
    length, = struct.unpack('>L', data[at - 4:at])
    palette = np.zeros((256, 3), np.uint8)
    palette[:length // 3] = np.frombuffer(data[at + 4:at + 4 + length], np.uint8).reshape(-1, 3)
    with Image.open(name) as image:
        assert image.mode == 'P'
        indices = np.asarray(image)
    assert indices.max() >= length // 3
    return sha256(palette[indices])


def test_written_deviations(corpus):
    """16-bit grey gives the high byte, and on request what Pillow gives; a palette index out of range
    is black."""
    grey = [(r, a) for r, a in corpus if r['class'][0] == 'E' and r['pillow_mode'] == 'I']
    assert len(grey) == 35
    check(corpus, 'E', lambda r, a: a.status == 'ok' and a.sha256 == (
        high_byte if r['pillow_mode'] == 'I' else black_beyond_palette)(a.name))
    clipped = decode([a.name for _, a in grey], GREY16_CLIP)
    assert all(is_pillows(r, a) for (r, _), a in zip(grey, clipped))


def test_clipping_changes_nothing_else(corpus):
    for (row, answer), clipped in zip(corpus, decode([a.name for _, a in corpus], GREY16_CLIP)):
        if row['class'][0] != 'E' or row['pillow_mode'] != 'I':
            assert (answer.status, answer.sha256) == (clipped.status, clipped.sha256), str(answer)


def transposed(name):
    """As ImageOps.exif_transpose has it; EXIF data that it fails on change nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        with Image.open(name) as image:
            try:
                turned = ImageOps.exif_transpose(image)
            except SyntaxError:
                turned = Image.open(name)
            return np.asarray(turned.convert('RGB'))


def test_turned_as_by_pillow(corpus):
    """Every picture, whether it has EXIF data or not."""
    wrong, sides = [], 0
    turned = decode([answer.name for _, answer in corpus], ORIENT | GREY16_CLIP)
    for (row, plain), answer in zip(corpus, turned):
        assert answer.status == plain.status
        if answer.status == 'bad' or (row['class'][0] == 'E' and row['pillow_mode'] == 'P'):
            continue
        pixels = transposed(answer.name)
        sides += row['exif_orientation'] in ('5', '6', '7', '8')
        if (answer.sha256, answer.size) != (sha256(pixels), '%dx%d' % pixels.shape[1::-1]):
            wrong.append(f'{answer} orientation {row["exif_orientation"]}')
    assert not wrong, '\n'.join(wrong)
    assert sides == 8
