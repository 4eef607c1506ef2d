# SPDX-License-Identifier: Apache-2.0
"""Parts of data sets by name, `train[:90%]`: what torch's Subset of a seeded permutation gives."""

import json
import os

import numpy as np
import pytest

import make_data
from client import FLOAT, ServerError, all_rows, grayscale, pb
from reference import epoch_order, folder_pixels, nchw, permutation, to_float
from test_bad_sample_policy import replacement
from test_bad_samples import replace_by
from test_tool import run as stoker
from test_trainer import run as train

SAMPLES = 300  # of grey_folder


def subset(a, b, samples=SAMPLES):
    """Indices in the whole data set, as PROTOCOL.md says."""
    return np.sort(permutation(samples, 0)[a:b])


# name -> (first, end) in the shuffled order of 300 samples
PARTS = {
    'train[:90%]': (0, 270), 'train[90%:]': (270, 300), 'train[100:200]': (100, 200),
    'train[:50]': (0, 50), 'train[-10%:]': (270, 300), 'train[:-40]': (0, 260),
    'train[10%:40]': (30, 40), 'train[:]': (0, 300), 'train[299:]': (299, 300),
}


@pytest.mark.parametrize('workers', [0, 2])
def test_parts(start_daemon, grey_folder, workers):
    """Pixels, labels and numbers of each part, shuffled and not, shared and inline."""
    images, labels = folder_pixels(grey_folder, grey=True)
    images = nchw(to_float(images))
    daemon = start_daemon({'train': grey_folder}, workers=workers, settle=True)
    with daemon.client() as client:
        for number, (name, (a, b)) in enumerate(PARTS.items()):
            chosen = subset(a, b)
            for shuffle in (False, True):
                stream = client.open(name, transforms=FLOAT, shuffle=shuffle, seed=number,
                                     payload=1 + number % 2, epochs=2, batch_size=32)
                assert stream.opened.dataset_samples == b - a
                assert stream.opened.epoch_samples == b - a
                assert stream.opened.classes == 10
                got_images, got_labels, got_samples = all_rows(stream)
                order = np.concatenate([chosen[epoch_order(b - a, shuffle=shuffle, seed=number,
                                                           epoch=epoch)] for epoch in (0, 1)])
                np.testing.assert_array_equal(got_samples, order)
                np.testing.assert_array_equal(got_labels, labels[order])
                np.testing.assert_array_equal(got_images, images[order])
                stream.close()
    daemon.wait_idle()


def test_as_torch_does(start_daemon, grey_folder):
    """The line of the manual in torch itself, under DistributedSampler and DataLoader."""
    torch = pytest.importorskip('torch', reason='torch is not installed')
    torchvision = pytest.importorskip('torchvision', reason='torchvision is not installed')
    transforms = torchvision.transforms
    ds = torchvision.datasets.ImageFolder(grey_folder, transforms.Compose([
        transforms.Grayscale(), transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))]))
    n = len(ds)
    daemon = start_daemon({'train': grey_folder}, settle=True)
    with daemon.client() as client:
        for name, a, b in (('train[:90%]', 0, round(n * 90 / 100)),
                           ('train[90%:]', round(n * 90 / 100), n), ('train[17:113]', 17, 113)):
            part = torch.utils.data.Subset(ds, sorted(torch.randperm(
                n, generator=torch.Generator().manual_seed(0))[a:b].tolist()))
            for rank, world in ((0, 1), (1, 3)):
                sampler = torch.utils.data.DistributedSampler(part, world, rank, seed=7)
                loader = torch.utils.data.DataLoader(part, batch_size=16, sampler=sampler)
                stream = client.open(name, transforms=FLOAT, shuffle=True, seed=7, rank=rank,
                                     world=world, epochs=3, batch_size=16)
                batches = stream.batches()
                for epoch in range(3):
                    sampler.set_epoch(epoch)
                    for pixels, labels in loader:
                        batch = next(batches)
                        assert batch.epoch == epoch
                        np.testing.assert_array_equal(batch.images, pixels.numpy())
                        np.testing.assert_array_equal(batch.labels, labels.numpy())
                assert next(batches, None) is None
                stream.close()


def test_split_has_all_classes_and_all_samples(start_daemon, grey_folder):
    daemon = start_daemon({'train': grey_folder}, settle=True)
    with daemon.client() as client:
        parts = [all_rows(client.open(name, dtype=pb.DTYPE_U8))
                 for name in ('train[:90%]', 'train[90%:]')]
    assert len(np.unique(parts[1][1])) == 10
    assert sorted(np.concatenate([samples for _, _, samples in parts])) == list(range(SAMPLES))


REFUSED = {
    'train[:9O%]': (pb.ERROR_BAD_REQUEST, 'after "train[:9" comes "O%]"'),
    'train[90%]': (pb.ERROR_BAD_REQUEST, "where ':' should"),
    'train[:90%': (pb.ERROR_BAD_REQUEST, "']' is missing"),
    'train[:101%]': (pb.ERROR_BAD_REQUEST, 'at most 100%'),
    'train[5:5]': (pb.ERROR_BAD_REQUEST, 'train[5:5]: holds no samples'),
    'train[:301]': (pb.ERROR_BAD_REQUEST, 'train[:301]: 301 is out of range: the data set has 300'),
    'train[:0%]': (pb.ERROR_BAD_REQUEST, 'holds no samples'),
    '[:90%]': (pb.ERROR_BAD_REQUEST, 'the name of a data set'),
    'tain[:90%]': (pb.ERROR_UNKNOWN_DATASET, 'no data set is called "tain"'),
    'train(:90%)': (pb.ERROR_UNKNOWN_DATASET, 'no data set is called "train(:90%)"'),
}


def test_refusals(start_daemon, grey_folder):
    daemon = start_daemon({'train': grey_folder}, settle=True)
    with daemon.client() as client:
        for name, (code, words) in REFUSED.items():
            with pytest.raises(ServerError) as caught:
                client.open(name)
            assert caught.value.code == code and words in caught.value.text, caught.value
            assert not caught.value.closing
        with pytest.raises(ServerError) as caught:
            client.open('train[:5]', batch_size=6, drop_last=True)
        assert 'no batch' in caught.value.text
    daemon.wait_idle()


def test_cursors_are_of_their_part(start_daemon, grey_folder):
    """A cursor goes on in its part, also when that is written in another way, and nowhere else."""
    daemon = start_daemon({'train': grey_folder}, settle=True)
    with daemon.client() as client:
        stream = client.open('train[:90%]', dtype=pb.DTYPE_U8, shuffle=True, batch_size=100)
        first = stream.next()
        again = client.open('train[:270]', dtype=pb.DTYPE_U8, shuffle=True, batch_size=100,
                            start=first.cursor)
        rest = all_rows(again)[2]
        order = subset(0, 270)[epoch_order(270)]
        np.testing.assert_array_equal(np.concatenate([first.samples, rest]), order)
        whole = client.open('train', dtype=pb.DTYPE_U8, shuffle=True)
        for name, cursor in (('train', first.cursor), ('train[:80%]', first.cursor),
                             ('train[:90%]', whole.next().cursor)):
            with pytest.raises(ServerError) as caught:
                client.open(name, dtype=pb.DTYPE_U8, shuffle=True, start=cursor)
            assert caught.value.code == pb.ERROR_CURSOR
            assert 'another part of the data set' in caught.value.text
        with pytest.raises(ServerError, match='another part'):
            whole.seek(first.cursor)
        assert stream.opened.fingerprint == again.opened.fingerprint == first.cursor.fingerprint
        assert stream.opened.fingerprint != whole.opened.fingerprint


@pytest.mark.parametrize('workers', [0, 2])
def test_stand_ins_come_from_the_part(start_daemon, scratch, workers):
    path = make_data.write_folder(f'{scratch}/data', make_data.pixels(60), 4)
    files = sorted(os.path.join(d, f) for d, _, names in os.walk(path) for f in names)
    chosen = subset(0, 30, 60)
    bad = set(chosen[::2]) | {chosen[1]}
    for sample in bad:
        replace_by(b'no picture')(files[sample])
    # The daemon takes the size from the first file that is a picture.
    daemon = start_daemon({'train': path}, workers=workers, settle=True)
    with daemon.client() as client:
        stream = client.open('train[:50%]', dtype=pb.DTYPE_U8, seed=3, shuffle=True,
                             on_bad_sample=pb.ON_BAD_SAMPLE_REPLACE)
        batch = stream.next()
        for row, position in enumerate(epoch_order(30, seed=3)):
            wanted, status = chosen[position], pb.ROW_OK
            if wanted in bad:
                others = [chosen[replacement(3, 0, int(position), attempt, 30)]
                          for attempt in range(1, 9)]
                good = [other for other in others if other not in bad]
                wanted, status = (good[0], pb.ROW_REPLACED) if good else (wanted, pb.ROW_MASKED)
            assert (batch.samples[row], batch.statuses[row]) == (wanted, status)
        counts = client.status().dataset[0]
        assert sum(count.samples for count in counts.bad_count) == len(bad)
        assert {sample.sample for sample in counts.bad_sample} == bad


def test_streams_share_a_part(start_daemon, grey_folder):
    """Its memory is counted once, and given back with the last stream; status names the part."""
    daemon = start_daemon({'train': grey_folder}, settle=True)
    with daemon.client() as client:
        def used():
            return client.status().memory_used

        def opened(name):
            return client.open(name, dtype=pb.DTYPE_U8, batch_size=10, epochs=0)

        whole = opened('train')
        arena = used()
        first = opened('train[:250]')
        assert used() == 2 * arena + 4 * 250
        second = opened('train[0:250]')
        assert used() == 3 * arena + 4 * 250
        third = opened('train[250:]')
        assert used() == 4 * arena + 4 * 300
        assert sorted(s.dataset for s in client.status().stream) == [
            b'train', b'train[0:250]', b'train[250:]', b'train[:250]']
        first.close()
        np.testing.assert_array_equal(second.next().samples, subset(0, 250)[:10])
        for stream in (whole, second, third):
            stream.close()
    daemon.wait_idle()


def test_many_open_one_part_at_once(start_daemon, large_folder):
    daemon = start_daemon({'train': large_folder}, settle=True)
    with daemon.client() as client:
        requests = [client.send_open('train[:80%]', dtype=pb.DTYPE_U8) for _ in range(8)]
        answers = [client.answer(request, 'opened') for request in requests]
        assert {answer.dataset_samples for answer in answers} == {2400}
        while client.fds:
            os.close(client.fds.popleft())
        with daemon.client() as leaver:
            for _ in range(4):
                leaver.send_open('train[:70%]', dtype=pb.DTYPE_U8)
    daemon.wait_idle()


def test_no_memory_for_a_part(start_daemon, scratch):
    """The part is refused by itself; a whole data set needs none."""
    images = np.zeros((400000, 1, 1), np.uint8)
    path = make_data.write_idx(f'{scratch}/idx', images, images[:, 0, 0])
    daemon = start_daemon({'train': path}, memory='1M', settle=True)
    with daemon.client() as client:
        with pytest.raises(ServerError) as caught:
            client.open('train[:90%]', dtype=pb.DTYPE_U8, batch_size=1)
        assert caught.value.code == pb.ERROR_MEMORY
        assert 'train[:90%]' in caught.value.text and 'raise memory' in caught.value.text
        client.open('train', dtype=pb.DTYPE_U8, batch_size=1).close()
    daemon.wait_idle()


def test_a_worker_that_dies_gets_the_part_again(start_daemon, grey_folder):
    daemon = start_daemon({'train': grey_folder}, workers=1, settle=True)
    with daemon.client() as client:
        stream = client.open('train[:50%]', dtype=pb.DTYPE_U8, batch_size=10,
                             transforms=[grayscale()])
        batches = stream.batches()
        got = [next(batches).samples]
        os.kill(daemon.workers()[0], 9)
        got += [batch.samples for batch in batches]
        np.testing.assert_array_equal(np.concatenate(got), subset(0, 150))


def test_lists_of_a_part(start_daemon, grey_folder):
    """Samples by their position in the part, with their numbers in the whole; classes count the part."""
    labels = folder_pixels(grey_folder, grey=True)[1]
    daemon = start_daemon({'train': grey_folder}, settle=True)
    with daemon.client() as client:
        whole = [(e.sample, e.label, e.path) for e in client.list_samples(b'train').entry]
        for name, (a, b) in PARTS.items():
            chosen = subset(a, b)
            page = client.list_samples(name.encode())
            assert page.total == b - a
            assert [(e.sample, e.label, e.path) for e in page.entry] == [whole[i] for i in chosen]
            page = client.list_samples(name.encode(), first=b - a - 1, count=5)
            assert [e.sample for e in page.entry] == [chosen[-1]]
            classes = client.list_classes(name.encode())
            assert [c.samples for c in classes.entry] == np.bincount(
                labels[chosen], minlength=10).tolist()
            opened = client.open(name, dtype=pb.DTYPE_U8)
            assert page.fingerprint == classes.fingerprint == opened.opened.fingerprint
            opened.close()
        for name, (code, text) in REFUSED.items():
            for ask in (client.list_samples, client.list_classes):
                with pytest.raises(ServerError) as error:
                    ask(name.encode())
                assert error.value.code == code and text in error.value.text
        with daemon.client() as leaver:
            for number in range(8):
                leaver.send(list_samples=pb.ListSamples(request=number + 1,
                                                        dataset=b'train[:%d]' % (number + 7)))
    daemon.wait_idle()


def test_tools(start_daemon, scratch, grey_folder):
    """stoker-train, bench and dump take such names as any other."""
    daemon = start_daemon({'train': grey_folder}, settle=True)
    result = train(daemon, '--dataset', 'train[:90%]', '--val', 'train[90%:]', '--epochs', '2',
                   '--json', '--transform', 'Grayscale(), ToTensor()')
    assert result.returncode == 0, result.stderr
    epochs = [json.loads(line) for line in result.stdout.splitlines()]
    assert [epoch['images'] for epoch in epochs] == [270, 270]
    printed = json.loads(stoker('bench', 'train[100:200]', '--dtype', 'u8', '--epochs', '1',
                                '--json', daemon=daemon))
    assert printed['dataset'] == 'train[100:200]' and printed['images'] == 100
    stoker('dump', 'train[100:200]', '--dtype', 'u8', '-o', f'{scratch}/out', daemon=daemon)
    np.testing.assert_array_equal(np.load(f'{scratch}/out/ids.npy'), subset(100, 200))
    assert '[:9O%]' not in stoker('bench', 'train[:9O%]', daemon=daemon, status=1)
