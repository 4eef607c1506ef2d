# SPDX-License-Identifier: Apache-2.0
"""Every file of STOKER_CASES, found by fuzzers or not, through the sandboxed workers of a stokerd: as a
picture, and as a data set. Nothing may crash, hang or take more than 256 MiB."""

import csv
import re
import shutil

import numpy as np
import pytest

from client import pb
from daemon import read_proc
from test_image_corpus import CASES, DECODE_CORPUS

MEMORY = 256 << 20
TURN_AND_CLIP = pb.Decode(exif_orientation=True, grey16_clip=True)


@pytest.fixture(scope='module')
def files():
    if not (CASES / 'expected.tsv').is_file():
        pytest.skip(f'no {CASES}; STOKER_CASES names the folder of odd files')
    return sorted(path.resolve() for path in CASES.rglob('*') if path.is_file())


@pytest.fixture(scope='module')
def expected(files):
    with open(CASES / 'expected.tsv', newline='', encoding='utf-8') as lines:
        return list(csv.DictReader(lines, delimiter='\t', quoting=csv.QUOTE_NONE))


def is_sanitized():
    """AddressSanitizer's own memory says nothing of ours."""
    return b'__asan_init' in DECODE_CORPUS.read_bytes()


def peaks(daemon):
    """The most memory that each worker has had in RAM."""
    found = [re.search(rb'VmHWM:\s+(\d+) kB', read_proc(pid, 'status')) for pid in daemon.workers()]
    return [int(match[1]) << 10 for match in found]


@pytest.mark.parametrize('decode', [None, TURN_AND_CLIP], ids=['usual', 'turned'])
def test_as_pictures(start_daemon, files, expected, scratch, decode):
    """All are delivered: those that are no pictures masked, with a reason."""
    small = pb.Transform(resize=pb.Resize(size=[8, 8]))
    table = f'{scratch}/all.csv'
    # The first sample has to be a picture; the rest is in no order that would help anybody.
    first = next(path for path in files if path.name == 'Landscape_6.jpg')
    with open(table, 'w', newline='', encoding='utf-8') as out:
        lines = csv.writer(out)
        lines.writerow(['path', 'label'])
        lines.writerows([path, 0] for path in [first, *files])
    daemon = start_daemon(workers=2, config=f'[stokerd]\n[dataset all]\npath={table}\n'
                          f'also_read={CASES.resolve()}\n')
    with daemon.client() as client:
        stream = client.open('all', dtype=pb.DTYPE_U8, transforms=[small], batch_size=50,
                             on_bad_sample=pb.ON_BAD_SAMPLE_MASK, decode=decode)
        statuses = np.concatenate([b.statuses for b in all_batches(stream, len(files) + 1)])
        status = client.status()
    assert status.worker_deaths == 0
    dataset, = status.dataset
    # Each as expected.tsv has it, and all that it does not have are no pictures.
    fine = {CASES.resolve() / row['file'] for row in expected if row['class'][0] in 'AE'}
    assert len(fine) == 783
    wrong = [path for path, ok in zip(files, statuses[1:] == pb.ROW_OK) if ok != (path in fine)]
    assert not wrong
    bad = len(files) - len(fine)
    assert statuses[0] == pb.ROW_OK and bad == dataset.bad_rows
    assert sum(count.samples for count in dataset.bad_count) == bad
    assert {count.reason for count in dataset.bad_count} <= {pb.BAD_PICTURE, pb.BAD_UNREADABLE}
    assert all(sample.text for sample in dataset.bad_sample)
    most = max(peaks(daemon))
    print(f'{len(files)} files, {bad} bad, at most {most >> 20} MiB in a worker')
    assert is_sanitized() or most < MEMORY


def all_batches(stream, rows):
    batches = list(stream.batches())
    assert sum(batch.rows for batch in batches) == rows
    return batches


def as_data_sets(files):
    """(extension, path) by what a file may be taken for."""
    for path in files:
        relative = path.relative_to(CASES.resolve()).as_posix()
        name = path.name.lower()
        if relative.startswith(('go-fuzz-corpus/csv', 'csv-spectrum')) or '.csv' in name:
            yield '.csv', path
            yield '.tsv', path
        if relative.startswith(('go-fuzz-corpus/tar', 'tar-stream')) or '.tar' in name:
            yield '.tar', path
        if relative.startswith(('mnist-idx', 'idx2numpy', 'go-fuzz-corpus/tar')) or \
                name.endswith(('.gz', '.idx', '.tgz')):
            yield '', path


@pytest.mark.parametrize('part', range(8))
def test_as_data_sets(start_daemon, files, scratch, part):
    """A table, an archive or an IDX file each: it can be used, or fails with one line that says why."""
    cases = list(as_data_sets(files))
    assert len(cases) > 500
    sets = {}
    for i, (extension, path) in enumerate(cases[part::8]):
        copy = f'{scratch}/{i}{extension}'
        shutil.copy(path, copy)
        sets[f'd{i}'] = copy
    daemon = start_daemon(sets, workers=1)
    status = daemon.wait_until(
        lambda status: all(d.state != pb.DATASET_INDEXING for d in status.dataset), 'still indexing')
    states = {state: [d for d in status.dataset if d.state == state]
              for state in (pb.DATASET_READY, pb.DATASET_FAILED)}
    assert sum(map(len, states.values())) == len(sets)
    for dataset in states[pb.DATASET_FAILED]:
        assert dataset.error and '\n' not in dataset.error
        assert 'the indexing process' not in dataset.error, (dataset.path, dataset.error)
    with daemon.client() as client:
        for dataset in states[pb.DATASET_READY]:
            # Nothing is known about the size where no sample can be read.
            rows = {'transforms': [pb.Transform(resize=pb.Resize(size=[8, 8]))]} \
                if dataset.width else {'rows': pb.ROWS_DIGESTS}
            stream = client.open(dataset.name, dtype=pb.DTYPE_U8, batch_size=50,
                                 on_bad_sample=pb.ON_BAD_SAMPLE_MASK, **rows)
            all_batches(stream, dataset.samples)
            stream.close()
    assert daemon.status().worker_deaths == 0
