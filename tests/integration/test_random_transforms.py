# SPDX-License-Identifier: Apache-2.0
"""Random transforms through stokerd: torchvision's functional calls with the parameters that stokerd says
it drew give the same pixels, whatever way they are delivered."""

import json
import math
import os
import signal

import numpy as np
import pytest

import make_data
from client import ServerError, pb
from random_steps import (
    BICUBIC, BILINEAR, NEAREST, affine, blur, center_crop, crop, erasing,
    expected, grey, horizontal_flip, jitter, names, parameters, random_grey, read,
    resized_crop, rotation, tensor, torch, vertical_flip)
from test_tool import run


def check(daemon, folder, steps, **options):
    """Pixels against torchvision's, u8 and NHWC."""
    drawn, samples = parameters(daemon, steps, **options)
    rows, _, same = read(daemon, steps, dtype=pb.DTYPE_U8, layout=pb.LAYOUT_NHWC, **options)
    assert (same == samples).all()
    wanted = np.stack(expected(folder, steps, drawn, samples))
    assert rows.shape == wanted.shape
    difference = np.abs(rows.astype(int) - wanted)
    assert difference.max() <= (0 if all(s.exact for s in steps) else 1)
    return drawn


@pytest.mark.parametrize('steps', [
    [crop((16, 18))],
    [crop((16, 18), padding=[3])],
    [crop((16, 18), padding=[30, 1, 2, 40], fill=(9, 80, 200))],
    [crop((16, 18), padding=[5, 7], mode='reflect')],
    [crop((70, 80), pad_if_needed=True, fill=7)],
    [crop((50, 50), padding=[2], pad_if_needed=True, mode='edge')],
    [grey(3), crop((70, 40), pad_if_needed=True, fill=(1, 2, 3))],
    [resized_crop((24, 17))],
    [resized_crop((24, 24), (0.5, 0.5), (0.2, 5), BICUBIC)],
    [resized_crop((9, 9), (2, 3), (1, 1))],
    [resized_crop((9, 9), (0.99, 1), (3, 4), NEAREST)],
    [center_crop((30, 30)), horizontal_flip()],
    [center_crop((30, 30)), vertical_flip()],
    [center_crop((31, 34)), rotation((-45, 45))],
    [center_crop((31, 34)), rotation((-180, 180), BILINEAR, center=(3, 40), fill=(1, 2, 255))],
    [rotation((10, 80), BICUBIC, expand=True, fill=80), center_crop((40, 40))],
    [rotation((10, 80), expand=True), crop((10, 10))],
    [center_crop((31, 34)), affine((-30, 30))],
    [center_crop((31, 34)), affine((0, 0), translate=(0.3, 0.5), fill=(255, 0, 7))],
    [center_crop((31, 34)), affine((-90, 90), (0.1, 0.1), (0.5, 2), (-20, 20), BILINEAR)],
    [center_crop((31, 34)), affine((5, 6), None, (0.9, 1.1), (-20, 20, 10, 30), BICUBIC,
                                   center=(0, 0))],
    [center_crop((30, 30)), jitter((0.2, 1.8), (0.5, 1.5), (0, 2))],
    [center_crop((30, 30)), jitter((0.2, 1.8))],
    [center_crop((30, 30)), jitter(hue=(-0.5, 0.5))],
    [center_crop((30, 30)), jitter((0.6, 1.4), (0.6, 1.4), (0.6, 1.4), (-0.1, 0.1))],
    [center_crop((30, 30)), random_grey()],
    [grey(), center_crop((30, 30)), random_grey(), jitter((0.2, 1.8), (0.5, 1.5), (0, 2))],
    [center_crop((30, 30)), blur((5, 3))],
    [grey(3), center_crop((30, 30)), blur((9, 9), (3, 4))],
    [resized_crop((28, 28)), horizontal_flip(), vertical_flip(0.3), rotation((-9, 9), BILINEAR),
     random_grey(0.2), grey()],
], ids=names)
def test_as_torchvision(start_daemon, sizes_folder, steps):
    daemon = start_daemon({'train': sizes_folder})
    drawn = check(daemon, sizes_folder, steps, epochs=3)
    other = check(daemon, sizes_folder, steps, epochs=1, seed=2**63 + 5, shuffle=True)
    assert not np.array_equal(drawn[:20], other, equal_nan=True)


def image_and_drawn(daemon, steps, **options):
    """{(epoch, sample): (bytes of the pixels, bytes of the parameters)}"""
    pixels, _, samples = read(daemon, steps, dtype=pb.DTYPE_U8, **options)
    drawn, again = parameters(daemon, steps, **options)
    assert (samples == again).all()
    count = len(set(samples.tolist()))
    return {(i // count, sample): (p.tobytes(), d.tobytes())
            for i, (sample, p, d) in enumerate(zip(samples.tolist(), pixels, drawn))}


EVERYTHING = [resized_crop((20, 20)), horizontal_flip(), rotation((-30, 30), BILINEAR),
              affine((-5, 5), (0.1, 0.1)), jitter((0.5, 1.5), (0.5, 1.5), (0.5, 1.5), (-0.2, 0.2)),
              random_grey(0.3), blur((3, 3)), crop((16, 16), [4])]


def test_the_same_by_whatever_way(start_daemon, sizes_folder):
    """Not the number of workers, the size of batches, the order or the shard decides what is drawn."""
    whole = image_and_drawn(start_daemon({'train': sizes_folder}, workers=1), EVERYTHING, epochs=2)
    assert len(whole) == 40
    for workers in (0, 16):
        daemon = start_daemon({'train': sizes_folder}, workers=workers)
        assert image_and_drawn(daemon, EVERYTHING, epochs=2, batch_size=3) == whole
    shuffled = image_and_drawn(daemon, EVERYTHING, epochs=2, shuffle=True)
    assert shuffled == whole and list(shuffled) != list(whole)
    for rank in range(3):
        shard = image_and_drawn(daemon, EVERYTHING, epochs=1, rank=rank, world=3, shard_drop=True)
        assert len(shard) == 6 and all(whole[key] == value for key, value in shard.items())
    other_seed = image_and_drawn(daemon, EVERYTHING, epochs=1, seed=12)
    assert not any(whole[key] == value for key, value in other_seed.items())


def test_each_epoch_and_each_sample_is_drawn_anew(start_daemon, many_folder):
    daemon = start_daemon({'train': many_folder})
    steps = [affine((-180, 180), (0.5, 0.5), (0.5, 2), (-9, 9)), affine((-180, 180))]
    drawn, _ = parameters(daemon, steps, epochs=3, batch_size=500)
    angles = np.concatenate([drawn[:, 0, 1], drawn[:, 1, 1], drawn[:, 0, 4], drawn[:, 0, 5]])
    assert len(set(angles.tolist())) == len(angles) == 3 * 1500 * 4
    # and neighbours have nothing to do with each other
    for first, second in ((drawn[:1500], drawn[1500:3000]), (drawn[:-1], drawn[1:])):
        assert abs(np.corrcoef(first[:, 0, 1], second[:, 0, 1])[0, 1]) < 0.1
        assert abs(np.corrcoef(first[:, 0, 1], second[:, 1, 1])[0, 1]) < 0.1
        assert abs(np.corrcoef(first[:, 0, 1], second[:, 0, 4])[0, 1]) < 0.1


def test_resumed_streams_draw_the_same(start_daemon, sizes_folder):
    daemon = start_daemon({'train': sizes_folder})
    options = {'dtype': pb.DTYPE_U8, 'transforms': [s.message for s in EVERYTHING], 'seed': 3,
               'shuffle': True, 'batch_size': 6, 'epochs': 2}
    with daemon.client() as client:
        batches = list(client.open('train', **options).batches())
        later = list(client.open('train', start=batches[4].cursor, **options).batches())
    assert len(batches) == 8 and len(later) == 3
    for one, two in zip(batches[5:], later):
        assert (one.images == two.images).all() and (one.samples == two.samples).all()


def test_killed_workers_change_nothing(start_daemon, large_folder):
    """What a dead worker leaves is drawn again by another one, the same."""
    steps = [crop((8, 8), padding=[2]), affine((-30, 30)), jitter((0.5, 1.5))]
    daemon = start_daemon({'train': large_folder}, workers=2)
    whole, _, _ = read(daemon, steps, dtype=pb.DTYPE_U8, batch_size=64, epochs=2)
    deaths, rows = set(), []
    with daemon.client() as client:
        stream = client.open('train', transforms=[s.message for s in steps], dtype=pb.DTYPE_U8,
                             batch_size=64, epochs=2, seed=11)
        for i, batch in enumerate(stream.batches()):
            rows.append(batch.images)
            alive = {worker.pid for worker in client.status().worker if worker.pid} - deaths
            if i % 5 == 0 and alive:
                deaths.add(min(alive))
                os.kill(min(alive), signal.SIGKILL)
    assert len(deaths) > 3
    assert (np.concatenate(rows) == whole).all()


# ---- bad samples ----

@pytest.mark.parametrize('step,says', [
    (crop((34, 20)), 'is 33x33 where RandomCrop takes 20x34 of it'),
    (crop((38, 20), padding=[2]), 'is 37x37 where RandomCrop takes 20x38 of it'),
])
def test_pictures_that_are_too_small(start_daemon, scratch, step, says):
    root = make_data.write_folder(f'{scratch}/data', [
        make_data.pixels(1, size)[0] for size in [(60, 40), (33, 33), (80, 80)]], 1)
    daemon = start_daemon({'train': root})
    for dtype in (pb.DTYPE_U8, pb.DTYPE_F64):
        with pytest.raises(ServerError) as error:
            read(daemon, [step], dtype=dtype)
        assert error.value.code == pb.ERROR_BAD_SAMPLE
        assert 'class0/1.png' in error.value.text and says in error.value.text
        assert 'pad_if_needed=True' in error.value.text
    whole, _ = parameters(daemon, [step], on_bad_sample=pb.ON_BAD_SAMPLE_MASK)
    assert (whole[1] == 0).all() and not (whole[0] == 0).all()
    # what stands in is drawn under its own index
    replaced, samples = parameters(daemon, [step], on_bad_sample=pb.ON_BAD_SAMPLE_REPLACE)
    assert samples[1] in (0, 2)
    np.testing.assert_array_equal(replaced[1], replaced[samples[1]])


# ---- the tool ----

PIPELINE = ("RandomCrop((20, 24), padding=4), RandomHorizontalFlip(), RandomAffine(30, (0.1, 0.2)), "
            "Grayscale(3), ColorJitter(0.5, contrast=0.2), RandomGrayscale(), ToTensor(), "
            "RandomErasing(0.7, value=0.5)")
PIPELINE_STEPS = [
    crop((20, 24), padding=[4]), horizontal_flip(), affine((-30, 30), (0.1, 0.2)), grey(3),
    jitter((0.5, 1.5), (0.8, 1.2)), random_grey(0.1), tensor(), erasing(0.7, value=(0.5,))]


def dump(daemon, directory, *args):
    run('dump', 'train', '-o', directory, '--batch-size', '7', '--params', *args, daemon=daemon)
    with open(f'{directory}/params.jsonl') as lines:
        return np.load(f'{directory}/images.npy'), [json.loads(line) for line in lines]


def test_dumped_parameters(start_daemon, sizes_folder, scratch):
    """params.jsonl has the numbers of the stream, exactly, under torchvision's names."""
    daemon = start_daemon({'train': sizes_folder})
    images, lines = dump(daemon, f'{scratch}/out', '--transform', PIPELINE, '--seed', '9',
                         '--epoch', '2')
    options = {'seed': 9, 'shuffle': True, 'first_epoch': 2}
    drawn, samples = parameters(daemon, PIPELINE_STEPS, **options)
    pixels, _, _ = read(daemon, PIPELINE_STEPS, **options)
    assert (images == pixels).all()
    assert (images == torch.stack(expected(sizes_folder, PIPELINE_STEPS, drawn, samples)).numpy()
            ).all()
    assert [line['sample'] for line in lines] == samples.tolist()
    assert all(line['epoch'] == 2 and 'status' not in line for line in lines)
    for line, numbers in zip(lines, drawn):
        assert [(t['place'], t['name']) for t in line['transforms']] == [
            (0, 'RandomCrop'), (1, 'RandomHorizontalFlip'), (2, 'RandomAffine'),
            (4, 'ColorJitter'), (5, 'RandomGrayscale'), (7, 'RandomErasing')]
        for transform in line['transforms']:
            values = []
            for key, value in transform.items():
                if key not in ('place', 'name'):
                    values += value if isinstance(value, list) else [value]
            values = [math.nan if v is None else float(v) for v in values]
            np.testing.assert_array_equal(values, numbers[transform['place'], 1:1 + len(values)])
            assert np.isnan(numbers[transform['place'], 1 + len(values):]).all()
    first = lines[0]['transforms']
    assert list(first[0]) == ['place', 'name', 'top', 'left', 'height', 'width']
    assert list(first[1]) == ['place', 'name', 'flipped'] and isinstance(first[1]['flipped'], bool)
    assert list(first[2])[2:] == ['angle', 'translate_x', 'translate_y', 'scale', 'shear_x', 'shear_y']
    assert list(first[3])[2:] == ['order', 'brightness', 'contrast', 'saturation', 'hue']
    assert first[3]['hue'] is None and sorted(first[3]['order']) == [0, 1, 2, 3]
    assert list(first[4])[2:] == ['grey']
    assert list(first[5])[2:] == ['erased', 'top', 'left', 'height', 'width']


@pytest.mark.parametrize('dtype', ['f16', 'bf16', 'f32'])
def test_dumped_dtypes(start_daemon, sizes_folder, scratch, dtype):
    daemon = start_daemon({'train': sizes_folder})
    images, _ = dump(daemon, f'{scratch}/out', '--transform', PIPELINE, '--dtype', dtype)
    drawn, samples = parameters(daemon, PIPELINE_STEPS, seed=0)
    wanted = torch.stack(expected(sizes_folder, PIPELINE_STEPS, drawn, samples))
    if dtype == 'bf16':
        assert images.dtype == np.uint16
        images = torch.from_numpy(images.view(np.int16)).view(torch.bfloat16)
        assert (images == wanted.to(torch.bfloat16)).all()
    else:
        assert images.dtype == {'f16': np.float16, 'f32': np.float32}[dtype]
        assert (images == wanted.numpy().astype(images.dtype)).all()
    answer = run('bench', 'train', '--transform', PIPELINE, '--dtype', dtype, '--json', daemon=daemon)
    assert json.loads(answer)['dtype'] == dtype and json.loads(answer)['images'] == 20


def test_dumped_in_the_data_sets_order(start_daemon, sizes_folder, scratch):
    """A seed of its own without shuffling; bad samples say so."""
    daemon = start_daemon({'train': sizes_folder})
    _, lines = dump(daemon, f'{scratch}/out', '--transform', 'RandomCrop((34, 20))', '--dtype', 'u8',
                    '--seed', '5', '--no-shuffle', '--on-bad-sample', 'mask')
    drawn, samples = parameters(daemon, [crop((34, 20))], seed=5,
                                on_bad_sample=pb.ON_BAD_SAMPLE_MASK)
    assert [line['sample'] for line in lines] == samples.tolist() == list(range(20))
    masked = [line.get('status') == 'masked' for line in lines]
    assert masked == (drawn[:, 0, 0] == 0).tolist() and 0 < sum(masked) < 20
    assert all((line['transforms'] == []) == bad for line, bad in zip(lines, masked))


def test_nothing_to_tell(start_daemon, sizes_folder, scratch):
    """Said before anything is written."""
    daemon = start_daemon({'train': sizes_folder})
    answer = run('dump', 'train', '-o', f'{scratch}/out', '--dtype', 'u8', '--params', daemon=daemon,
                 status=1)
    assert 'without transforms' in answer and not os.path.exists(f'{scratch}/out')
