# SPDX-License-Identifier: Apache-2.0
"""The command `stoker`: what it prints, writes and returns, also without a daemon."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import make_data
from client import FLOAT, GUARD, pb
from daemon import BUILD, SANITIZER, STOKERD, WORKER
from reference import epoch_order, folder_pixels, nchw, to_float

STOKER = BUILD / 'client/cli/stoker'
FLOAT_SPEC = 'Grayscale(), ToTensor(), Normalize((0.5,), (0.5,))'
COMMANDS = ('status', 'datasets', 'dump', 'bench', 'convert', 'check')


def run(*arguments, daemon=None, status=0):
    """Run stoker; returns what it printed."""
    if daemon is not None:
        arguments = (*arguments, '--socket', daemon.socket_path)
    result = subprocess.run(
        [STOKER, *map(str, arguments)], capture_output=True, text=True, timeout=GUARD,
        stdin=subprocess.DEVNULL,
        env={**os.environ, 'STOKERD': str(STOKERD), 'STOKER_WORKER': str(WORKER)})
    assert not SANITIZER.search(result.stderr), result.stderr
    assert result.returncode == status, (result.returncode, result.stdout, result.stderr)
    return result.stderr if status else result.stdout


def test_help():
    assert all(command in run('--help') for command in COMMANDS)
    for command in COMMANDS:
        text = run(command, '--help')
        assert text.startswith(f'Usage: stoker {command}')
    assert 'status' in run('statis', status=2)
    assert '--batch-size' in run('dump', 'x', '--batchsize', '3', status=2)


def test_empty_destination(scratch):
    assert '-o DIR' in run('dump', 'train', '-o', '', status=2)
    assert 'DEST' in run('convert', scratch, '', status=2)


@pytest.mark.parametrize('command', [('status',), ('datasets',), ('bench', 'train'),
                                     ('dump', 'train', '-o', '/tmp/never')],
                         ids=lambda command: command[0])
def test_no_daemon(scratch, command):
    """Nobody listens: exit status 3, and the path that was tried."""
    path = f'{scratch}/s'
    assert path in run(*command, '--socket', path, status=3)


def test_empty_daemon(start_daemon):
    daemon = start_daemon()
    assert run('status', daemon=daemon) and run('datasets', daemon=daemon)
    assert json.loads(run('status', '--json', daemon=daemon))['pid'] == daemon.pid
    assert 'train' in run('bench', 'train', daemon=daemon, status=1)


def test_status_and_datasets(start_daemon, grey_folder, scratch):
    daemon = start_daemon({'train': grey_folder, 'gone': f'{scratch}/gone'})
    with daemon.client(name='someone') as client:
        client.open('train', transforms=FLOAT, depth=4)
        text = run('status', daemon=daemon)
        assert 'someone' in text and 'train' in text and str(os.getpid()) in text
        status = json.loads(run('status', '--json', daemon=daemon))
        stream, = status['streams']
        assert stream['client_pid'] == os.getpid() and stream['depth'] == 4
        assert stream['dataset'] == 'train' and stream['payload'] == 'shared'
        assert status['clients'] == 2 and len(status['workers']) == 2
        assert status['memory_used'] >= stream['arena_bytes'] > 0
    assert grey_folder in run('datasets', daemon=daemon)
    listed = json.loads(run('datasets', '--json', daemon=daemon))
    listed = listed if isinstance(listed, list) else listed['datasets']
    train, = [entry for entry in listed if entry['name'] == 'train']
    assert (train['kind'], train['samples'], train['classes']) == ('folder', 300, 10)


@pytest.mark.parametrize('dtype', ['f32', 'u8'])
def test_dump(start_daemon, grey_folder, scratch, dtype):
    """Three NumPy files, equal to Pillow and numpy, in torch's order."""
    images, labels = folder_pixels(grey_folder, grey=True)
    images = nchw(to_float(images)) if dtype == 'f32' else images
    daemon = start_daemon({'train': grey_folder}, settle=True)
    layout = 'NCHW' if dtype == 'f32' else 'NHWC'
    run('dump', 'train', '-o', f'{scratch}/out', '--shuffle', '--seed', '6', '--epoch', '2',
        '--rank', '1', '--world', '2', '--batch-size', '32', '--dtype', dtype, '--layout', layout,
        '--transform', FLOAT_SPEC if dtype == 'f32' else 'Grayscale()', daemon=daemon)
    order = epoch_order(300, seed=6, epoch=2, rank=1, world=2)
    np.testing.assert_array_equal(np.load(f'{scratch}/out/ids.npy'), order)
    np.testing.assert_array_equal(np.load(f'{scratch}/out/labels.npy'), labels[order])
    got = np.load(f'{scratch}/out/images.npy')
    assert got.dtype == images.dtype
    np.testing.assert_array_equal(got, images[order])
    daemon.wait_idle()


def test_dump_with_a_seed_is_shuffled(start_daemon, grey_folder, scratch):
    daemon = start_daemon({'train': grey_folder})
    run('dump', 'train', '-o', f'{scratch}/out', '--seed', '0', daemon=daemon)
    np.testing.assert_array_equal(np.load(f'{scratch}/out/ids.npy'), epoch_order(300, seed=0))


def test_dump_of_a_bad_sample(start_daemon, scratch):
    """The file is named, the exit status is 1, and no half-written files stay."""
    root = make_data.write_folder(f'{scratch}/data', make_data.pixels(20), 2)
    daemon = start_daemon({'train': root}, settle=True)
    os.truncate(f'{root}/class1/11.png', 60)
    text = run('dump', 'train', '-o', f'{scratch}/out', daemon=daemon, status=1)
    assert 'class1/11.png' in text
    assert not os.path.exists(f'{scratch}/out/images.npy')


@pytest.mark.parametrize('spec', ['ToTensor(', 'Nothing()', 'Normalize((0.5,), (0.5,))',
                                  'ToTensor(), Normalize((0.5,), (0,))'])
def test_wrong_transforms(start_daemon, grey_folder, scratch, spec):
    daemon = start_daemon({'train': grey_folder})
    code = subprocess.run([STOKER, 'dump', 'train', '-o', f'{scratch}/out', '--transform', spec,
                           '--socket', daemon.socket_path], capture_output=True,
                          stdin=subprocess.DEVNULL).returncode
    assert code in (1, 2)
    assert not os.path.exists(f'{scratch}/out/images.npy')


@pytest.mark.parametrize('payload', ['shared', 'inline'])
def test_bench(start_daemon, large_folder, payload):
    daemon = start_daemon({'train': large_folder}, settle=True)
    result = json.loads(run('bench', 'train', '--epochs', '2', '--payload', payload,
                            '--transform', FLOAT_SPEC, '--json', daemon=daemon))
    assert result['images'] == 6000 and result['batches'] == 94
    assert result['payload'] == payload and result['images_per_second'] > 0
    assert 0 <= result['wait_median_ms'] <= result['wait_p99_ms']
    assert '6000' in run('bench', 'train', '--epochs', '2', daemon=daemon).replace(',', '')
    daemon.wait_idle()


@pytest.mark.parametrize('compress', [False, True], ids=['plain', 'gz'])
def test_convert_idx(scratch, compress):
    """IDX becomes DEST/LABEL/ID.png, pixel for pixel; no daemon has to run."""
    images, labels = make_data.pixels(50, (9, 11)), np.arange(50) % 3
    source = make_data.write_idx(f'{scratch}/idx', images, labels, compress=compress)
    run('convert', source, f'{scratch}/png')
    assert sorted(os.listdir(f'{scratch}/png')) == ['0', '1', '2']
    found = {int(path.stem): (path.parent.name, np.asarray(Image.open(path)))
             for path in Path(f'{scratch}/png').rglob('*.png')}
    assert sorted(found) == list(range(50))
    for i, (label, picture) in found.items():
        assert label == str(labels[i])
        np.testing.assert_array_equal(picture, images[i])
    assert f'{scratch}/png' in run('convert', source, f'{scratch}/png', status=1)


def test_convert_what_is_not_there(scratch):
    assert f'{scratch}/no' in run('convert', f'{scratch}/no', f'{scratch}/png', status=1)
    assert not os.path.exists(f'{scratch}/png')


def test_converted_data_set_is_the_same(start_daemon, scratch):
    """IDX and the PNG folder made from it give the same batches, up to the order of samples."""
    images, labels = make_data.pixels(60, (9, 11)), np.arange(60) % 3
    source = make_data.write_idx(f'{scratch}/idx', images, labels)
    run('convert', source, f'{scratch}/png')
    daemon = start_daemon({'idx': source, 'png': f'{scratch}/png'})
    rows = {}
    for name in ('idx', 'png'):
        with daemon.client() as client:
            stream = client.open(name, dtype=pb.DTYPE_U8, transforms=FLOAT[:1])
            rows[name] = sorted((int(label), image.tobytes()) for batch in stream.batches()
                                for label, image in zip(batch.labels, batch.images))
    assert rows['idx'] == rows['png']


def test_terminal_escapes_do_not_get_through(start_daemon, grey_folder):
    daemon = start_daemon({'train': grey_folder})
    with daemon.client(name='evil\x1b[31m') as client:
        client.open('train', dtype=pb.DTYPE_U8)
        for arguments in (('status',), ('status', '--json')):
            assert '\x1b' not in run(*arguments, daemon=daemon)
