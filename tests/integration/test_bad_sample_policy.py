# SPDX-License-Identifier: Apache-2.0
"""on_bad_sample = mask | replace: what stands in for bad samples, and how they are counted."""

import contextlib
import json
import os
import signal
import subprocess

import numpy as np
import pytest

import make_data
from client import ServerError, all_rows, grayscale, pb
from daemon import BUILD
from reference import epoch_order, folder_pixels
from test_bad_samples import fifo, flipped_crc, other_size, replace_by, truncated
from test_tool import run as stoker
from test_trainer import run as train
from test_workers import NO_HANDLERS, wait_decoding

COUNT = 150
MASK, REPLACE = pb.ON_BAD_SAMPLE_MASK, pb.ON_BAD_SAMPLE_REPLACE
PAYLOADS = (pb.PAYLOAD_SHARED, pb.PAYLOAD_INLINE)
TRIES = 8
M64 = (1 << 64) - 1


def mix(z):
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & M64
    z = (z ^ z >> 27) * 0x94d049bb133111eb & M64
    return z ^ z >> 31


def replacement(seed, epoch, sample, attempt, samples):
    """The rule as PROTOCOL.md gives it."""
    h = 0
    for value in (seed, epoch, sample, attempt):
        h = mix(h + value + 0x9e3779b97f4a7c15 & M64)
    return (sample + 1 + h % (samples - 1)) % samples


def stand_in(policy, bad, seed, epoch, sample, samples):
    """(sample that is delivered, status)."""
    if sample not in bad:
        return sample, pb.ROW_OK
    for attempt in range(1, TRIES + 1 if policy == REPLACE and samples > 1 else 1):
        other = replacement(seed, epoch, sample, attempt, samples)
        if other not in bad:
            return other, pb.ROW_REPLACED
    return sample, pb.ROW_MASKED


class Folder:
    """A data set and what it held before it was spoiled."""

    def __init__(self, path, count=COUNT, classes=4):
        self.path = make_data.write_folder(path, make_data.pixels(count), classes)
        self.images, self.labels = folder_pixels(self.path, True)
        self.count = count
        self.bad = set()
        self.files = sorted(
            (os.path.join(directory, name) for directory, _, names in os.walk(self.path)
             for name in names), key=lambda f: (os.path.dirname(f), os.path.basename(f)))

    def spoil(self, samples, how=replace_by(b'no picture')):
        for sample in samples:
            how(self.files[sample])
            self.bad.add(sample)

    def expected(self, policy, seed, epoch, shuffle=True):
        """(images, labels, samples, statuses) of one epoch."""
        order = epoch_order(self.count, shuffle=shuffle, seed=seed, epoch=epoch)
        rows = [stand_in(policy, self.bad, seed, epoch, int(s), self.count) for s in order]
        samples = np.array([s for s, _ in rows])
        statuses = np.array([status for _, status in rows])
        images = self.images[samples].copy()
        images[statuses == pb.ROW_MASKED] = 0
        return images, self.labels[samples], samples, statuses


@pytest.fixture
def folder(scratch):
    return Folder(f'{scratch}/data')


def check_epochs(folder, stream, policy, seed, epochs, after_batch=lambda: None):
    """Each epoch of the stream is what the rule says."""
    got = []
    for batch in stream.batches():
        got.append((batch.epoch, batch))
        after_batch()
    for epoch in epochs:
        batches = [b for e, b in got if e == epoch]
        want = folder.expected(policy, seed, epoch)
        have = (np.concatenate([b.images.transpose(0, 2, 3, 1) for b in batches]),
                np.concatenate([b.labels for b in batches]),
                np.concatenate([b.samples for b in batches]),
                np.concatenate([b.statuses for b in batches]))
        for a, b in zip(have, want):
            np.testing.assert_array_equal(a, b)


def open_spoiled(client, policy, **options):
    options = {'batch_size': 16, 'shuffle': True, 'seed': 5, 'dtype': pb.DTYPE_U8,
               'transforms': [grayscale()], **options}
    return client.open('bad', on_bad_sample=policy, **options)


@pytest.mark.parametrize('workers', [0, 1, 4])
@pytest.mark.parametrize('policy', [MASK, REPLACE], ids=['mask', 'replace'])
def test_same_rows_for_any_pool(start_daemon, folder, policy, workers):
    """Two epochs in both payloads are the rule's; every way of being bad, the first sample and one
    of the last, short batch among them."""
    daemon = start_daemon({'bad': folder.path}, workers=workers, settle=True)
    folder.spoil([0, 1, 40, 41, 42, 43])
    folder.spoil([77], truncated)
    folder.spoil([78, 90], flipped_crc)
    folder.spoil([100], other_size)
    folder.spoil([101], fifo)
    folder.spoil([102, 149], os.unlink)
    last = epoch_order(COUNT, seed=5)[-1]
    folder.spoil({int(last)} - folder.bad)
    with daemon.client() as client:
        for payload in PAYLOADS:
            stream = open_spoiled(client, policy, epochs=2, payload=payload)
            check_epochs(folder, stream, policy, 5, (0, 1))
            stream.close()
        status = client.status().dataset[0]
        assert status.bad_rows == 4 * len(folder.bad)
        assert {s.sample for s in status.bad_sample} == folder.bad
        counts = {c.reason: c.samples for c in status.bad_count}
        assert sum(counts.values()) == len(folder.bad)
        assert counts[pb.BAD_SIZE] == 1 and counts[pb.BAD_UNREADABLE] == 3
    daemon.wait_idle()
    assert daemon.status().worker_deaths == 0


@pytest.mark.parametrize('policy', [MASK, REPLACE], ids=['mask', 'replace'])
def test_deaths_change_nothing(start_daemon, folder, policy):
    """Workers are killed all the time: the same rows, and every bad row counted once."""
    daemon = start_daemon({'bad': folder.path}, workers=3, settle=True)
    folder.spoil(range(0, COUNT, 3))
    with daemon.client() as client, daemon.client() as killer:
        def kill_one():
            for worker in killer.status().worker[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.pid or 1 << 30, signal.SIGKILL)

        stream = open_spoiled(client, policy, epochs=3, depth=2)
        check_epochs(folder, stream, policy, 5, range(3), kill_one)
        status = client.status()
        assert status.worker_deaths > 3
        assert status.dataset[0].bad_rows == 3 * len(folder.bad)
        assert sum(c.samples for c in status.dataset[0].bad_count) == len(folder.bad)


@pytest.mark.parametrize('payload', PAYLOADS, ids=['shared', 'inline'])
@pytest.mark.parametrize('policy', [MASK, REPLACE], ids=['mask', 'replace'])
def test_everything_is_bad(start_daemon, folder, policy, payload):
    """Nothing can stand in: all rows are masked, and the epoch ends as any other."""
    daemon = start_daemon({'bad': folder.path}, settle=True)
    folder.spoil(range(COUNT))
    with daemon.client() as client:
        stream = open_spoiled(client, policy, payload=payload)
        check_epochs(folder, stream, policy, 5, (0,))
        assert client.status().dataset[0].bad_rows == COUNT


def test_sharded_and_dropped(start_daemon, folder):
    """A replacement may come from another rank's share; drop_last and world do not matter to it."""
    daemon = start_daemon({'bad': folder.path}, settle=True)
    folder.spoil(range(10, 60))
    with daemon.client() as client:
        for rank in range(3):
            stream = open_spoiled(client, REPLACE, rank=rank, world=3, drop_last=True)
            images, labels, samples = all_rows(stream)
            order = epoch_order(COUNT, seed=5, rank=rank, world=3)[:48]
            want = [stand_in(REPLACE, folder.bad, 5, 0, int(s), COUNT)[0] for s in order]
            np.testing.assert_array_equal(samples, want)
            np.testing.assert_array_equal(images.transpose(0, 2, 3, 1), folder.images[want])


def test_unknown_policy(start_daemon, grey_folder):
    daemon = start_daemon({'bad': grey_folder}, settle=True)
    with daemon.client() as client:
        with pytest.raises(ServerError) as caught:
            open_spoiled(client, 7)
        assert caught.value.code == pb.ERROR_BAD_REQUEST and 'on_bad_sample' in caught.value.text


def test_policies_side_by_side(start_daemon, folder):
    """Each stream has its own policy; a sample counts once for all of them."""
    daemon = start_daemon({'bad': folder.path}, workers=2, settle=True)
    folder.spoil([7])
    with daemon.client() as client:
        masked = open_spoiled(client, MASK, shuffle=False)
        replaced = open_spoiled(client, REPLACE, shuffle=False)
        failing = open_spoiled(client, pb.ON_BAD_SAMPLE_ERROR, shuffle=False)
        with pytest.raises(ServerError) as caught:
            failing.next()
        assert caught.value.code == pb.ERROR_BAD_SAMPLE
        assert masked.next().statuses[7] == pb.ROW_MASKED
        assert replaced.next().statuses[7] == pb.ROW_REPLACED
        status = client.status().dataset[0]
        assert status.bad_rows == 3 and [s.sample for s in status.bad_sample] == [7]
        assert folder.files[7] == status.bad_sample[0].name
        assert 'PNG' in status.bad_sample[0].text


@pytest.mark.xdist_group('slow picture')
@pytest.mark.parametrize('policy', [MASK, REPLACE], ids=['mask', 'replace'])
def test_a_killer_is_bad(start_daemon, slow_folder, scratch, policy):
    """After two deaths nobody tries it again, in later epochs neither."""
    os.makedirs(f'{scratch}/data/a')
    os.link(f'{slow_folder}/only/slow.png', f'{scratch}/data/a/0.png')
    os.link(f'{slow_folder}/only/slow.png', f'{scratch}/data/a/1.png')
    daemon = start_daemon({'slow': f'{scratch}/data'}, workers=1,
                          env={'ASAN_OPTIONS': NO_HANDLERS})
    with daemon.client() as client:
        stream = client.open('slow', dtype=pb.DTYPE_U8, batch_size=1, depth=1, epochs=2,
                             transforms=[grayscale()], on_bad_sample=policy)
        victims = []
        for _ in range(2):
            victims.append(wait_decoding(daemon, victims))
            os.kill(victims[-1], signal.SIGSEGV)
            line, = daemon.log.wait(rf'\b{victims[-1]}\b.*SIGSEGV')
            assert '0.png' in line, line
        rows = [(b.samples[0], b.statuses[0], b.images.max()) for b in stream.batches()]
        instead = (0, pb.ROW_MASKED, 0) if policy == MASK else (1, pb.ROW_REPLACED, 3)
        assert rows == [instead, (1, pb.ROW_OK, 3)] * 2
        status = client.status()
        assert status.worker_deaths == 2
        assert status.dataset[0].bad_sample[0].reason == pb.BAD_KILLER
        assert status.dataset[0].bad_rows == 2


@pytest.mark.xdist_group('slow picture')
def test_a_killer_in_a_part(start_daemon, slow_folder, scratch):
    """It is known by its number in the whole data set, and its stand-in is of the part."""
    os.makedirs(f'{scratch}/data/a')
    for i in range(6):
        os.link(f'{slow_folder}/only/slow.png', f'{scratch}/data/a/{i}.png')
    daemon = start_daemon({'slow': f'{scratch}/data'}, workers=1,
                          env={'ASAN_OPTIONS': NO_HANDLERS})
    with daemon.client() as client:
        killer, other = (s.sample for s in client.list_samples(b'slow[4:]').entry)
        assert (killer, other) != (0, 1)
        stream = client.open('slow[4:]', dtype=pb.DTYPE_U8, batch_size=1, depth=1,
                             transforms=[grayscale()], on_bad_sample=REPLACE)
        victims = []
        for _ in range(2):
            victims.append(wait_decoding(daemon, victims))
            os.kill(victims[-1], signal.SIGSEGV)
            line, = daemon.log.wait(rf'\b{victims[-1]}\b.*SIGSEGV')
            assert f'/{killer}.png' in line, line
        rows = [(b.samples[0], b.statuses[0]) for b in stream.batches()]
        assert rows == [(other, pb.ROW_REPLACED), (other, pb.ROW_OK)]
        bad, = client.status().dataset[0].bad_sample
        assert (bad.reason, bad.sample) == (pb.BAD_KILLER, killer)
        assert bad.name.endswith(f'/{killer}.png')


def test_many_bad_files(start_daemon, scratch):
    """3,000 bad files: a few lines in the log, all counted, 100 named, in text and in JSON."""
    folder = Folder(f'{scratch}/data', 3000, 3)
    daemon = start_daemon({'bad': folder.path}, settle=True)
    folder.spoil(range(3000))
    before = len(daemon.log.text().split('\n'))
    with daemon.client() as client:
        stream = open_spoiled(client, MASK, shuffle=False, epochs=2)
        assert sum(b.message.bad for b in stream.batches()) == 6000
        status = client.status().dataset[0]
        assert status.bad_rows == 6000
        assert [(c.reason, c.samples) for c in status.bad_count] == [(pb.BAD_PICTURE, 3000)]
        assert len(status.bad_sample) == len({s.sample for s in status.bad_sample}) == 100
        for sample in status.bad_sample:
            assert sample.name == folder.files[sample.sample]
    lines = daemon.log.text().split('\n')[before:]
    # At most five a minute, and the test may run over the turn of one or two.
    assert 1 <= len([line for line in lines if 'is bad' in line]) <= 15 and len(lines) < 25, lines
    text = stoker('status', daemon=daemon)
    assert 'bad: 3000 bad samples (picture 3000), met 6000 times' in text
    assert '... and 2900 more' in text and text.count('not PNG or JPEG') == 100
    data, = json.loads(stoker('status', '--json', daemon=daemon))['datasets']
    assert data['bad_samples'] == 3000 and data['bad_rows'] == 6000
    assert data['bad_reasons'] == {'picture': 3000} and len(data['bad']) == 100
    assert data['bad'][0]['name'] == folder.files[data['bad'][0]['sample']]


def test_long_names_do_not_break_status(start_daemon, scratch):
    """Names of 2,000 bytes in several data sets: the answer stays a control frame."""
    deep = '/'.join(['d' * 200] * 8)
    folders = {}
    for name in ('p', 'q', 'r'):
        path = f'{scratch}/{name}'
        make_data.write_folder(path, make_data.pixels(1), 1)
        os.makedirs(f'{path}/class0/{deep}')
        for i in range(120):
            os.link(f'{path}/class0/0.png', f'{path}/class0/{deep}/{i}.png')
        folders[name] = path
    daemon = start_daemon(folders, settle=True)
    for path in folders.values():
        replace_by(b'')(f'{path}/class0/0.png')
    with daemon.client() as client:
        for name in folders:
            stream = client.open(name, dtype=pb.DTYPE_U8, on_bad_sample=MASK)
            assert sum(b.message.bad for b in stream.batches()) == 121
        status = client.status()
        assert [d.bad_rows for d in status.dataset] == [121] * 3
        assert all(len(d.bad_sample) > 10 for d in status.dataset)


def test_dump_and_bench(start_daemon, folder, scratch):
    daemon = start_daemon({'bad': folder.path}, settle=True)
    folder.spoil(range(20, 30))
    assert 'data/class' in stoker('dump', 'bad', '-o', f'{scratch}/e', daemon=daemon, status=1)
    for name, policy in (('mask', MASK), ('replace', REPLACE)):
        out = f'{scratch}/{name}'
        text = stoker('dump', 'bad', '-o', out, '--on-bad-sample', name, '--shuffle', '--seed', 9,
                      '--epoch', 2, '--dtype', 'u8', '--layout', 'NHWC', '--transform',
                      'Grayscale()', daemon=daemon)
        assert '10 of them stand for bad samples' in text
        images, labels, samples, statuses = folder.expected(policy, 9, 2)
        for file, want in (('images', images), ('labels', labels), ('ids', samples),
                           ('statuses', statuses)):
            np.testing.assert_array_equal(np.load(f'{out}/{file}.npy'), want)
        result = json.loads(stoker('bench', 'bad', '--on-bad-sample', name, '--json',
                                   daemon=daemon))
        assert result['images'] == COUNT and result['bad'] == 10
    assert 'error or mask or replace' in stoker(
        'bench', 'bad', '--on-bad-sample', 'skip', daemon=daemon, status=2)


def epochs(daemon, data, *options):
    result = train(daemon, '--json', '--no-shuffle', '--lr', 0.1, *options, data=data)
    return [json.loads(line) for line in result.stdout.splitlines()], result.stderr


@pytest.mark.parametrize('dtype', ['f32', 'u8'])
def test_training_leaves_masked_rows_out(start_daemon, scratch, dtype):
    """One batch with masked rows teaches what a batch without these images teaches."""
    spoiled, without = Folder(f'{scratch}/spoiled', 64), Folder(f'{scratch}/without', 64)
    chosen = [0, 5, 6, 31, 63]
    for sample in chosen:
        os.unlink(without.files[sample])
    daemon = start_daemon({'spoiled': spoiled.path, 'without': without.path}, settle=True)
    spoiled.spoil(chosen)
    masked, notes = epochs(daemon, 'spoiled', '--epochs', 4, '--dtype', dtype, '--val', 'spoiled',
                           '--on-bad-sample', 'mask')
    want, _ = epochs(daemon, 'without', '--epochs', 4, '--dtype', dtype, '--val', 'without')
    assert [e['images'] for e in masked] == [59] * 4
    np.testing.assert_allclose([e['loss'] for e in masked], [e['loss'] for e in want], rtol=1e-5)
    assert [e['val_accuracy'] for e in masked] == [e['val_accuracy'] for e in want]
    assert 'epoch 1: 5 bad images are masked and left out' in notes
    replaced, _ = epochs(daemon, 'spoiled', '--epochs', 1, '--on-bad-sample', 'replace')
    assert replaced[0]['images'] == 64
    failed = train(daemon, '--epochs', 1, data='spoiled', status=1)
    assert any(spoiled.files[sample] in failed.stderr for sample in chosen)


def test_training_on_nothing(start_daemon, scratch):
    """A batch that is all masked is passed over; an epoch of them is an error."""
    folder = Folder(f'{scratch}/data', 64)
    daemon = start_daemon({'d': folder.path}, settle=True)
    folder.spoil(range(16, 32))
    some, _ = epochs(daemon, 'd', '--epochs', 1, '--batch-size', 16, '--on-bad-sample', 'mask',
                     '--log-every', 1)
    assert [line.get('step') for line in some] == [1, 3, 4, None]
    assert some[-1]['images'] == 48
    folder.spoil(range(64))
    failed = train(daemon, '--epochs', 1, '--on-bad-sample', 'mask', status=1)
    assert 'every image' in failed.stderr


def test_mistyped_policy_of_the_trainer():
    result = subprocess.run([BUILD / 'trainer/stoker-train', '--dataset', 'd', '--on-bad-sample',
                             'skip'], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and 'error, mask or replace' in result.stderr
