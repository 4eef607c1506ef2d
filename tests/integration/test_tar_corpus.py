# SPDX-License-Identifier: Apache-2.0
"""Public odd archives and CSV files, each with the answer of Python's tarfile or the file's own:
STOKER_CASES/expected_tar.tsv, expected_tar_members.tsv and csv-spectrum."""

import csv
import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CASES = Path(os.environ.get('STOKER_CASES', ROOT / '../shared/cases'))
BUILD = Path(os.environ.get('STOKER_BUILD', ROOT / 'build/tests'))
MISSING = 'STOKER_CASES names the folder of odd files'

# tarfile takes a damaged header behind the first member for the end; here the archive is refused,
# since samples would be lost silently. So many of the files end like this.
SILENT_ENDS = 6


def dump(name, path, *args):
    """(lines of the driver, what it said when it refused the file, or '')"""
    run = subprocess.run([BUILD / 'tests/unit' / name, path, *args], capture_output=True,
                         check=False, timeout=60)
    assert run.returncode in (0, 1), run.stderr.decode(errors='replace')
    text = run.stderr.decode()
    assert (run.returncode == 1) == bool(text) and text.count('\n') <= 1, text
    return run.stdout.decode().splitlines(), text


def table(name):
    path = CASES / name
    if not path.is_file():
        pytest.skip(f'no {path}; {MISSING}')
    with open(path, newline='') as lines:
        return list(csv.DictReader(lines, delimiter='\t', quoting=csv.QUOTE_NONE))


def decoded(field):
    return '-' if field == '-' else bytes.fromhex(field).decode('utf-8', 'backslashreplace')


def printed(field):
    """As the tables have it."""
    return decoded(field).replace('\n', '\\n')


def members(path):
    lines, text = dump('tar_dump', path)
    found = []
    with open(path, 'rb') as file:
        for line in lines:
            kind, size, offset, *names = line.split(' ')
            name, key, extension = map(printed, names)
            file.seek(int(offset))
            digest = hashlib.sha256(file.read(int(size))).hexdigest() if kind == 'reg' else '-'
            found.append((name, kind, size, key, extension.lower(), digest))
    return found, text


def is_gzip(path):
    with open(path, 'rb') as file:
        return file.read(2) == b'\x1f\x8b'


def test_tar_members():
    """The members, names, keys and bytes that tarfile finds; refused where it refuses."""
    expected = {row['tar']: [] for row in table('expected_tar.tsv')}
    for row in table('expected_tar_members.tsv'):
        expected[row['tar']].append((row['member'], row['type'], row['size'], row['wds_key'],
                                     row['wds_ext'], row['sha256']))
    wrong, silent = [], []
    for row in table('expected_tar.tsv'):
        path = CASES / row['tar']
        if not path.is_file() or is_gzip(path):
            continue
        found, text = members(path)
        right = expected[row['tar']]
        if row['python_tarfile_stream_result'] != 'ok':
            # A member whose data is cut is listed by one and not by the other.
            both = min(len(found), len(right))
            if not text or found[:both] != right[:both]:
                wrong.append((row['tar'], text, found, right))
        elif found != right:
            wrong.append((row['tar'], text, found, right))
        elif text:
            silent.append((row['tar'], text))
    assert not wrong
    assert len(silent) <= SILENT_ENDS, silent


def test_compressed_tar():
    """Refused by what it is, with the remedy."""
    found = 0
    for row in table('expected_tar.tsv'):
        path = CASES / row['tar']
        if not path.is_file() or not is_gzip(path):
            continue
        lines, text = dump('dataset_dump', path.resolve())
        assert not lines and 'is compressed (gzip)' in text and path.name in text, text
        found += 1
    assert found > 3


@pytest.mark.parametrize('kind', ['simple', 'simple_crlf', 'empty', 'empty_crlf', 'newlines',
                                  'newlines_crlf', 'quotes_and_newlines', 'escaped_quotes',
                                  'comma_in_quotes', 'json', 'utf8'])
def test_csv_spectrum(kind, tmp_path):
    path = CASES / 'csv-spectrum/csvs' / f'{kind}.csv'
    if not path.is_file():
        pytest.skip(f'no {path}; {MISSING}')
    data = path.read_bytes()
    if kind.endswith('crlf'):
        # Some checkouts have lost what these are about.
        data = data.replace(b'\r\n', b'\n').replace(b'\n', b'\r\n')
    (tmp_path / 'file.csv').write_bytes(data)
    lines, text = dump('csv_dump', tmp_path / 'file.csv')
    assert not text
    header, *rows = [[decoded(field) for field in line.split(',')] for line in lines]
    with open(CASES / 'csv-spectrum/json' / f'{kind}.json') as file:
        assert [dict(zip(header, row)) for row in rows] == json.load(file)
