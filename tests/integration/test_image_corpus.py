# SPDX-License-Identifier: Apache-2.0
"""Public odd PNG and JPEG files, each with the answer that Pillow gives: STOKER_CASES/expected.tsv."""

import csv
import hashlib
import os
import subprocess
from pathlib import Path

import pytest

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


def check(corpus, classes, magic, right, at_least):
    """right(row, answer) must hold for every file of these classes, and there must be some."""
    chosen = [(r, a) for r, a in corpus if r['class'][0] in classes and r['magic'] == magic]
    assert len(chosen) >= at_least
    wrong = [str(a) for r, a in chosen if not right(r, a)]
    assert not wrong, f'{len(wrong)} of {len(chosen)}:\n' + '\n'.join(wrong)


def is_pillows(row, answer):
    return (answer.status == 'ok' and answer.sha256 == row['sha256_rgb8_or_error']
            and answer.size == f'{row["width"]}x{row["height"]}')


def is_refused(row, answer):
    return answer.status == 'bad' and answer.text


@pytest.mark.parametrize('magic, at_least', [('png', 500), ('jpeg', 200)])
def test_equal_to_pillow(corpus, magic, at_least):
    check(corpus, 'A', magic, is_pillows, at_least)


@pytest.mark.parametrize('magic, at_least', [('png', 500), ('jpeg', 950)])
def test_refused_as_by_pillow(corpus, magic, at_least):
    check(corpus, 'BC', magic, is_refused, at_least)


def test_jpeg_has_no_other_classes(corpus):
    assert {r['class'][0] for r, _ in corpus if r['magic'] == 'jpeg'} == set('ABC')


def test_damaged_but_readable_is_refused_or_right(corpus):
    check(corpus, 'D', 'png', lambda r, a: is_refused(r, a) or is_pillows(r, a), 10)


def test_written_deviations(corpus):
    """16-bit grey gives the high byte; a palette index out of range gives any colour."""
    check(corpus, 'E', 'png', lambda r, a: a.status == 'ok' and (
        a.sha256 == r['lib_sha256'] if r['pillow_mode'].startswith('I') else True), 40)


def test_other_formats(corpus):
    check(corpus, 'F', '?', lambda r, a: a.status == 'bad' and a.text in (
        'not PNG or JPEG', 'empty file'), 30)
