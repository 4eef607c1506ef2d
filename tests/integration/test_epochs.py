# SPDX-License-Identifier: Apache-2.0
"""Whole epochs: the right pixels, bit for bit, in the right order, from the right place."""

import os

import numpy as np
import pytest

import make_data
from client import FLOAT, ServerError, all_rows, grayscale, normalize, pb, to_tensor
from reference import epoch_order, folder_pixels, folder_samples, nchw, to_float

SHARED, INLINE = pb.PAYLOAD_SHARED, pb.PAYLOAD_INLINE
PAYLOADS = pytest.mark.parametrize('payload', [SHARED, INLINE], ids=['shared', 'inline'])


def check_rows(got, images, labels, order):
    """Rows delivered are those of the reference in this order."""
    got_images, got_labels, got_samples = got
    np.testing.assert_array_equal(got_samples, order)
    np.testing.assert_array_equal(got_labels, labels[order])
    assert got_images.dtype == images.dtype and got_images.shape[1:] == images.shape[1:]
    np.testing.assert_array_equal(got_images.view('u1'), images[order].view('u1'))


@PAYLOADS
@pytest.mark.parametrize('workers', [0, 1, 3])
def test_grey_floats(start_daemon, grey_folder, payload, workers):
    images, labels = folder_pixels(grey_folder, grey=True)
    daemon = start_daemon({'train': grey_folder}, workers=workers, settle=True)
    with daemon.client() as client:
        stream = client.open('train', transforms=FLOAT, shuffle=True, seed=5, payload=payload)
        assert stream.opened.dtype == pb.DTYPE_F32
        assert stream.opened.layout == pb.LAYOUT_NCHW
        assert stream.opened.payload == payload
        assert stream.shape == (1, 28, 28)
        assert stream.opened.classes == 10
        assert stream.opened.dataset_samples == stream.opened.epoch_samples == 300
        assert stream.opened.epoch_batches == 5
        check_rows(all_rows(stream), nchw(to_float(images)), labels, epoch_order(300, seed=5))
        stream.close()
    daemon.wait_idle()


@PAYLOADS
@pytest.mark.parametrize('layout', [pb.LAYOUT_NCHW, pb.LAYOUT_NHWC], ids=['NCHW', 'NHWC'])
@pytest.mark.parametrize('form', ['u8', 'u8 grey', 'f32', 'f32 grey', 'f32 grey x3'])
def test_rgb_forms(start_daemon, rgb_folder, payload, layout, form):
    grey = 'grey' in form
    images, labels = folder_pixels(rgb_folder, grey=grey)
    steps = [grayscale(3 if 'x3' in form else 1)] if grey else []
    if 'x3' in form:
        images = np.repeat(images, 3, axis=3)
    dtype = pb.DTYPE_U8
    if 'f32' in form:
        mean, std = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)) if not grey else (
            (0.1307,), (0.3081,))
        steps += [to_tensor(), normalize(mean, std)]
        images = to_float(images, mean, std)
        dtype = pb.DTYPE_F32
    if layout == pb.LAYOUT_NCHW:
        images = nchw(images)
    daemon = start_daemon({'train': rgb_folder})
    with daemon.client() as client:
        stream = client.open('train', batch_size=16, transforms=steps, dtype=dtype,
                             layout=layout, payload=payload)
        assert stream.shape == images.shape[1:]
        check_rows(all_rows(stream), images, labels, np.arange(67))


@pytest.mark.parametrize('grey', [True, False], ids=['L', 'RGB'])
def test_every_colour_type(start_daemon, mixed_folder, grey):
    images, labels = folder_pixels(mixed_folder, grey=grey)
    daemon = start_daemon({'mixed': mixed_folder})
    with daemon.client() as client:
        stream = client.open('mixed', batch_size=4, dtype=pb.DTYPE_U8, layout=pb.LAYOUT_NHWC,
                             transforms=[grayscale()] if grey else [])
        check_rows(all_rows(stream), images, labels, np.arange(len(images)))


@pytest.mark.parametrize('workers', [0, 2])
@pytest.mark.parametrize('grey', [True, False], ids=['L', 'RGB'])
def test_jpeg(start_daemon, jpeg_folder, grey, workers):
    images, labels = folder_pixels(jpeg_folder, grey=grey)
    daemon = start_daemon({'jpeg': jpeg_folder}, workers=workers, settle=True)
    with daemon.client() as client:
        steps = [grayscale()] if grey else []
        for layout, order in ((pb.LAYOUT_NHWC, images), (pb.LAYOUT_NCHW, nchw(images))):
            stream = client.open('jpeg', batch_size=4, dtype=pb.DTYPE_U8, layout=layout,
                                 transforms=steps)
            check_rows(all_rows(stream), order, labels, np.arange(len(images)))
        stream = client.open('jpeg', batch_size=9, transforms=steps + [to_tensor()])
        check_rows(all_rows(stream), nchw(images.astype('f4') / np.float32(255)), labels,
                   np.arange(len(images)))
        dataset = client.status().dataset[0]
        assert (dataset.width, dataset.height) == (29, 37)
        assert client.status().worker_deaths == 0
    daemon.wait_idle()


def test_normalize_by_torch(start_daemon, rgb_folder):
    transforms = pytest.importorskip('torchvision.transforms')
    datasets = pytest.importorskip('torchvision.datasets')
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    reference = datasets.ImageFolder(rgb_folder, transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize(mean, std)]))
    images = np.stack([image.numpy() for image, _ in reference])
    labels = np.array([label for _, label in reference], dtype='i4')
    daemon = start_daemon({'train': rgb_folder})
    with daemon.client() as client:
        stream = client.open('train', transforms=[to_tensor(), normalize(mean, std)])
        check_rows(all_rows(stream), images, labels, np.arange(67))


def test_many_epochs_worlds_and_drops(start_daemon, large_folder):
    """Order alone: every combination over one connection."""
    daemon = start_daemon({'train': large_folder})
    count = len(folder_samples(large_folder))
    with daemon.client() as client:
        for seed, first_epoch in ((0, 0), (2**32 + 9, 3), (2**63, 2)):
            for world, rank in ((1, 0), (3, 1), (7, 6)):
                for shard_drop in (False, True):
                    for drop_last in (False, True):
                        stream = client.open(
                            'train', batch_size=256, dtype=pb.DTYPE_U8, shuffle=True, seed=seed,
                            rank=rank, world=world, shard_drop=shard_drop, drop_last=drop_last,
                            first_epoch=first_epoch, epochs=2)
                        expected = []
                        for epoch in (first_epoch, first_epoch + 1):
                            order = epoch_order(count, seed=seed, epoch=epoch, rank=rank,
                                                world=world, shard_drop=shard_drop)
                            assert stream.opened.epoch_samples == len(order)
                            kept = len(order) // 256 * 256 if drop_last else len(order)
                            expected.append(order[:kept])
                        samples = all_rows(stream)[2]
                        np.testing.assert_array_equal(samples, np.concatenate(expected))
                        stream.close()


def test_order_by_torch(start_daemon, grey_folder):
    data = pytest.importorskip('torch.utils.data')
    daemon = start_daemon({'train': grey_folder})
    with daemon.client() as client:
        for seed, epoch, rank, world in ((0, 0, 0, 1), (3, 4, 1, 2), (12345, 1, 4, 7)):
            for drop in (False, True):
                sampler = data.DistributedSampler(range(300), world, rank, shuffle=True,
                                                  seed=seed, drop_last=drop)
                sampler.set_epoch(epoch)
                stream = client.open('train', dtype=pb.DTYPE_U8, shuffle=True, seed=seed,
                                     first_epoch=epoch, rank=rank, world=world, shard_drop=drop)
                np.testing.assert_array_equal(all_rows(stream)[2], list(sampler))
                stream.close()


@PAYLOADS
def test_last_batch_is_short(start_daemon, grey_folder, payload):
    daemon = start_daemon({'train': grey_folder})
    with daemon.client() as client:
        stream = client.open('train', transforms=FLOAT, payload=payload, epochs=2)
        rows = []
        for batch in stream.batches():
            rows.append((batch.epoch, batch.step, batch.rows))
            assert batch.cursor.position == min(300, 64 * (batch.step + 1)) or (
                batch.cursor.epoch == batch.epoch + 1 and batch.cursor.position == 0)
            if payload == INLINE:
                assert len(batch.message.data) == batch.rows * 28 * 28 * 4
        assert rows == [(e, s, r) for e in (0, 1) for s, r in enumerate((64, 64, 64, 64, 44))]


def test_a_batch_larger_than_the_data_set(start_daemon, rgb_folder):
    daemon = start_daemon({'train': rgb_folder})
    with daemon.client() as client:
        stream = client.open('train', batch_size=1000, dtype=pb.DTYPE_U8)
        assert [batch.rows for batch in stream.batches()] == [67]
        stream = client.open('train', batch_size=1, dtype=pb.DTYPE_U8)
        assert [batch.rows for batch in stream.batches()] == [1] * 67


@pytest.mark.parametrize('options', [
    dict(drop_last=True, batch_size=1000),
    dict(drop_last=True, batch_size=1000, epochs=0),
    dict(drop_last=True, batch_size=1000, epochs=2**62),
    dict(shard_drop=True, world=100, epochs=0),
    dict(shard_drop=True, world=100, rank=99, epochs=1),
], ids=str)
def test_epochs_without_a_batch(start_daemon, rgb_folder, options):
    """Everything is dropped: refused, or epochs that end at once; never a hang of the daemon."""
    daemon = start_daemon({'train': rgb_folder}, settle=True)
    with daemon.client() as client:
        try:
            stream = client.open('train', dtype=pb.DTYPE_U8, **options)
        except ServerError as error:
            assert error.code == pb.ERROR_BAD_REQUEST and not error.closing
        else:
            assert stream.opened.epoch_batches == 0
            kind, event = stream.event()
            assert kind == 'epoch_end' and event.last == (options.get('epochs') == 1)
        with daemon.client() as other:
            assert len(all_rows(other.open('train', dtype=pb.DTYPE_U8))[2]) == 67
    daemon.wait_idle()


def test_epochs_differ_and_repeat(start_daemon, grey_folder):
    """Each epoch is shuffled anew; the same seed gives the same again, on another connection."""
    daemon = start_daemon({'train': grey_folder})
    orders = []
    for seed in (1, 1, 2):
        with daemon.client() as client:
            stream = client.open('train', dtype=pb.DTYPE_U8, shuffle=True, seed=seed, epochs=2)
            orders.append(all_rows(stream)[2])
    np.testing.assert_array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0][:300], orders[0][300:])
    assert not np.array_equal(orders[0], orders[2])


def test_endless_epochs(start_daemon, rgb_folder):
    daemon = start_daemon({'train': rgb_folder}, settle=True)
    with daemon.client() as client:
        stream = client.open('train', dtype=pb.DTYPE_U8, shuffle=True, epochs=0)
        ends = 0
        while ends < 12:
            kind, event = stream.event()
            if kind == 'batch':
                assert event.epoch == ends
                stream.release(event)
            else:
                assert event.epoch == ends and not event.last
                ends += 1
    daemon.wait_idle()


def next_batch(stream):
    """The next batch, past EpochEnd."""
    kind, event = stream.event()
    while kind != 'batch':
        kind, event = stream.event()
    stream.release(event)
    return event


@PAYLOADS
def test_resume_from_every_cursor(start_daemon, grey_folder, payload):
    """A stream opened with a batch's cursor goes on with the batch after it, in any daemon."""
    options = dict(dtype=pb.DTYPE_U8, shuffle=True, seed=7, first_epoch=2, epochs=2, world=2,
                   rank=1, payload=payload, batch_size=40)
    with start_daemon({'train': grey_folder}).client() as client:
        whole = [(b.epoch, b.step, b.samples.tolist(), b.cursor)
                 for b in client.open('train', **options).batches()]
    assert len(whole) == 8 and whole[0][0] == 2
    with start_daemon({'other-name': grey_folder}, workers=1).client() as client:
        for i, (_, _, _, cursor) in enumerate(whole[:-1]):
            stream = client.open('other-name', start=cursor, **options)
            rest = []
            while len(rest) < len(whole) - i - 1:
                rest.append(next_batch(stream))
            assert [(b.epoch, b.step, b.samples.tolist()) for b in rest] == [
                entry[:3] for entry in whole[i + 1:]]
            kind, end = stream.event()
            assert kind == 'epoch_end' and end.last and end.epoch == 3
            stream.close()


def test_cursor_of_something_else_is_refused(start_daemon, grey_folder, rgb_folder):
    daemon = start_daemon({'train': grey_folder, 'other': rgb_folder})
    options = dict(dtype=pb.DTYPE_U8, shuffle=True, seed=7, world=2, batch_size=32, epochs=2)
    with daemon.client() as client:
        stream = client.open('train', **options)
        cursor = stream.next().cursor
        wrong = {'seed': 8, 'shuffle': False, 'rank': 1, 'world': 3, 'shard_drop': True,
                 'drop_last': True}
        for name, value in wrong.items():
            with pytest.raises(ServerError) as caught:
                client.open('train', start=cursor, **{**options, name: value})
            assert caught.value.code == pb.ERROR_CURSOR, caught.value
            assert name.split('_')[-1] in caught.value.text or name in caught.value.text
            other = pb.Cursor()
            other.CopyFrom(cursor)
            setattr(other, name, value)
            with pytest.raises(ServerError) as caught:
                stream.seek(other)
            assert caught.value.code == pb.ERROR_CURSOR, caught.value
            assert not caught.value.closing and not caught.value.stream
        with pytest.raises(ServerError) as caught:
            client.open('other', start=cursor, **options)
        assert caught.value.code == pb.ERROR_CURSOR
        cursor.position = 151
        with pytest.raises(ServerError) as caught:
            client.open('train', start=cursor, **options)
        assert caught.value.code in (pb.ERROR_CURSOR, pb.ERROR_BAD_REQUEST)


@PAYLOADS
def test_seek(start_daemon, grey_folder, payload):
    """Forwards, backwards, into another epoch, to where it is, and after the end."""
    daemon = start_daemon({'train': grey_folder}, settle=True)
    with daemon.client() as client:
        stream = client.open('train', dtype=pb.DTYPE_U8, shuffle=True, seed=1, epochs=3,
                             batch_size=50, payload=payload)
        orders = [epoch_order(300, seed=1, epoch=epoch) for epoch in range(3)]
        first = next_batch(stream)

        def go(epoch, position):
            cursor = pb.Cursor()
            cursor.CopyFrom(first.cursor)
            cursor.epoch, cursor.position = epoch, position
            stream.seek(cursor)

        for epoch, position in ((0, 200), (0, 50), (2, 100), (1, 0), (1, 0), (0, 0)):
            go(epoch, position)
            for step in range(position // 50, 6):
                batch = next_batch(stream)
                assert (batch.epoch, batch.step) == (epoch, step)
                np.testing.assert_array_equal(
                    batch.samples, orders[epoch][step * 50:(step + 1) * 50])
                if step == position // 50 + 1:
                    break
        go(2, 250)
        assert [(b.epoch, b.step) for b in stream.batches()] == [(2, 5)]
        go(2, 250)  # the stream stays open for this after its last epoch
        assert [(b.epoch, b.step) for b in stream.batches()] == [(2, 5)]
        stream.close()
    daemon.wait_idle()


def test_seek_with_batches_in_hand(start_daemon, large_folder):
    """Batches held across a Seek stay as they are, and are released afterwards."""
    daemon = start_daemon({'train': large_folder}, settle=True)
    with daemon.client() as client:
        stream = client.open('train', dtype=pb.DTYPE_U8, shuffle=True, depth=4, epochs=0)
        held = [stream.next(), stream.next()]
        pixels = [stream.slot_views(batch.slot)[1].copy() for batch in held]
        for round_ in range(20):
            cursor = pb.Cursor()
            cursor.CopyFrom(held[0].cursor)
            cursor.epoch, cursor.position = round_ % 3, 64 * round_
            stream.seek(cursor)
            batch = next_batch(stream)
            assert (batch.epoch, batch.step) == (round_ % 3, round_)
            np.testing.assert_array_equal(batch.samples, epoch_order(
                3000, epoch=round_ % 3)[64 * round_:64 * (round_ + 1)])
        for batch, before in zip(held, pixels):
            np.testing.assert_array_equal(stream.slot_views(batch.slot)[1], before)
            stream.release(batch)
        next_batch(stream)
    daemon.wait_idle()


def test_depth_bounds_what_is_in_flight(start_daemon, large_folder):
    """At most `depth` batches come without a Release; each Release lets one more come."""
    daemon = start_daemon({'train': large_folder}, settle=True)
    with daemon.client() as client:
        stream = client.open('train', dtype=pb.DTYPE_U8, depth=3)
        assert stream.opened.depth == 3 and stream.opened.slots >= 3
        held = [stream.next() for _ in range(3)]
        assert len({batch.slot for batch in held}) == 3
        client.status()  # an answer from the loop, and still no fourth batch before it
        assert not [kind for kind, _ in client.queue if kind == 'batch']
        stream.release(held.pop())
        assert stream.next().step == 3
        entry, = client.status().stream
        assert entry.depth == 3 and entry.lent == 3 and entry.dataset == b'train'
        assert entry.client_pid == os.getpid()
    daemon.wait_idle()


def test_several_streams_on_one_connection(start_daemon, grey_folder, rgb_folder):
    daemon = start_daemon({'a': grey_folder, 'b': rgb_folder}, settle=True)
    with daemon.client() as client:
        streams = [client.open('a', transforms=FLOAT, shuffle=True, seed=1),
                   client.open('b', dtype=pb.DTYPE_U8, payload=INLINE),
                   client.open('a', dtype=pb.DTYPE_U8, seed=2, shuffle=True)]
        assert len({stream.id for stream in streams}) == 3
        expected = [epoch_order(300, seed=1), np.arange(67), epoch_order(300, seed=2)]
        for stream, order in reversed(list(zip(streams, expected))):
            np.testing.assert_array_equal(all_rows(stream)[2], order)
        streams[1].close()
    daemon.wait_idle()


def test_too_many_streams(start_daemon, rgb_folder):
    daemon = start_daemon({'train': rgb_folder}, settle=True)
    with daemon.client() as client:
        limit = client.welcome.max_streams
        assert limit == 16
        streams = [client.open('train', dtype=pb.DTYPE_U8) for _ in range(limit)]
        with pytest.raises(ServerError) as caught:
            client.open('train', dtype=pb.DTYPE_U8)
        assert caught.value.code == pb.ERROR_LIMIT and not caught.value.closing
        streams.pop().close()
        assert len(all_rows(client.open('train', dtype=pb.DTYPE_U8))[2]) == 67
    daemon.wait_idle()


def test_wrong_arguments_of_open(start_daemon, grey_folder):
    """Each is refused by itself, with a reason; the connection goes on."""
    daemon = start_daemon({'train': grey_folder}, settle=True)
    cases = [
        (dict(batch_size=0), 'batch'), (dict(batch_size=65537), 'batch'),
        (dict(rank=1), 'rank'), (dict(rank=3, world=3), 'rank'),
        (dict(dtype=77), 'dtype'), (dict(layout=9), 'layout'), (dict(payload=9), 'payload'),
        (dict(depth=257), 'depth'),
        (dict(transforms=[], dtype=pb.DTYPE_F32), 'ToTensor'),
        (dict(transforms=[to_tensor()], dtype=pb.DTYPE_U8), ''),
        (dict(transforms=[to_tensor(), to_tensor()]), 'ToTensor'),
        (dict(transforms=[to_tensor(), grayscale()]), 'Grayscale'),
        (dict(transforms=[normalize(), to_tensor()]), 'Normalize'),
        (dict(transforms=[to_tensor(), normalize((0.5,) * 2, (0.5,) * 2)]), 'Normalize'),
        (dict(transforms=[to_tensor(), normalize((0.5,), (0.0,))]), 'Normalize'),
        (dict(transforms=[to_tensor(), normalize((), ())]), 'Normalize'),
        (dict(transforms=[to_tensor(), normalize((float('nan'),), (1.0,))]), ''),
        (dict(transforms=[grayscale(2), to_tensor()]), 'Grayscale'),
        (dict(transforms=[pb.Transform()]), ''),
        (dict(transforms=[to_tensor()] * 33), ''),
    ]
    with daemon.client() as client:
        for options, word in cases:
            options.setdefault('dtype', pb.DTYPE_F32)
            options.setdefault('transforms', [to_tensor()] if options['dtype'] == pb.DTYPE_F32
                               else [])
            with pytest.raises(ServerError) as caught:
                client.open('train', **options)
            error = caught.value
            assert error.code == pb.ERROR_BAD_REQUEST, (options, error)
            assert not error.closing and word.lower() in error.text.lower(), (options, error)
        for name in ('nothing', '', 'tr\xff', 'train\0', '../train', 'x' * 5000):
            with pytest.raises(ServerError) as caught:
                client.open(name.encode('latin-1'), dtype=pb.DTYPE_U8)
            assert caught.value.code == pb.ERROR_UNKNOWN_DATASET, (name, caught.value)
        assert len(all_rows(client.open('train', transforms=FLOAT))[2]) == 300
    daemon.wait_idle()


def test_interlaced(start_daemon, scratch):
    pictures = make_data.pixels(6, (19, 23), seed=9)
    for i, picture in enumerate(pictures):
        os.makedirs(f'{scratch}/data/{i % 2}', exist_ok=True)
        make_data.write_interlaced(f'{scratch}/data/{i % 2}/{i}.png', picture)
    images, labels = folder_pixels(f'{scratch}/data', grey=True)
    np.testing.assert_array_equal(images[:, :, :, 0], pictures[[0, 2, 4, 1, 3, 5]])
    daemon = start_daemon({'train': f'{scratch}/data'})
    with daemon.client() as client:
        stream = client.open('train', batch_size=4, dtype=pb.DTYPE_U8, layout=pb.LAYOUT_NHWC,
                             transforms=[grayscale()])
        check_rows(all_rows(stream), images, labels, np.arange(6))
