# SPDX-License-Identifier: Apache-2.0
"""stoker-train as its user sees it: output, mistakes, checkpoints, signals, a daemon that goes."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess

import pytest

from client import GUARD
from daemon import BUILD

TRAIN = BUILD / 'trainer/stoker-train'
KEYS = ['epoch', 'seconds', 'images', 'images_per_second', 'loss', 'val_accuracy',
        'data_wait_seconds', 'device_busy']


def command(daemon, *options, data='d'):
    return [TRAIN, '--socket', daemon.socket_path, '--dataset', data, '--device', 'cpu',
            *map(str, options)]


def run(daemon, *options, status=0, **more):
    result = subprocess.run(command(daemon, *options, **more), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            timeout=GUARD)
    assert result.returncode == status, f'{result.returncode}: {result.stdout}{result.stderr}'
    return result


@pytest.fixture
def daemon(start_daemon, grey_folder, large_folder, rgb_folder):
    return start_daemon({'d': grey_folder, 'large': large_folder, 'rgb': rgb_folder})


# ---- output ----

def test_json(daemon):
    result = run(daemon, '--epochs', 3, '--val', 'd', '--json')
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [list(line) for line in lines] == [KEYS] * 3
    assert [line['epoch'] for line in lines] == [1, 2, 3]
    for line in lines:
        assert line['images'] == 300
        assert line['images_per_second'] == pytest.approx(300 / line['seconds'], rel=0.01)
        assert 0 <= line['val_accuracy'] <= 1
        assert 0 <= line['data_wait_seconds'] <= line['seconds']
        assert 0 < line['device_busy'] <= 1
    assert result.stderr.splitlines()[0].startswith('stoker-train: device: CPU')


def test_json_without_validation(daemon):
    result = run(daemon, '--epochs', 1, '--json', '--log-every', 2)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [list(line) for line in lines] == [['step', 'loss'], ['step', 'loss'], KEYS]
    assert [line.get('step') for line in lines] == [2, 4, None]
    assert lines[-1]['val_accuracy'] is None


def test_a_loss_that_is_no_number(daemon):
    """A rate that blows the weights up: JSON has no NaN."""
    result = run(daemon, '--epochs', 2, '--json', '--lr', '1e30')
    assert [json.loads(line, parse_constant=pytest.fail)['loss']
            for line in result.stdout.splitlines()][-1] is None


def test_lines(daemon):
    result = run(daemon, '--epochs', 2, '--val', 'd', '--drop-last')
    first, second = result.stdout.splitlines()
    assert re.match(r'epoch 1/2: loss \d\.\d+, validation accuracy \d+\.\d\d %, 256 images in ',
                    first)
    assert second.startswith('epoch 2/2: ')


def test_bar(daemon):
    """On a terminal a bar that each epoch's line replaces."""
    parent, child = pty.openpty()
    with subprocess.Popen(command(daemon, '--epochs', 2), stdin=subprocess.DEVNULL, stdout=child,
                          stderr=subprocess.DEVNULL) as process:
        os.close(child)
        shown = b''
        while True:
            try:
                shown += os.read(parent, 4096)
            except OSError:  # EIO: the other side is closed
                break
    os.close(parent)
    assert process.returncode == 0
    assert re.search(rb'\repoch 1/2 \[=* *\] \d/5 .*\r\x1b\[Kepoch 1/2: loss', shown, re.S)


def test_full_disk(daemon):
    with open('/dev/full', 'w') as full:
        result = subprocess.run(command(daemon, '--epochs', 1), stdout=full,
                                stderr=subprocess.PIPE, text=True, timeout=GUARD)
    assert result.returncode == 1
    assert 'standard output cannot be written' in result.stderr


# ---- mistakes ----

@pytest.mark.parametrize('options, says', [
    (('--batch_size', '3'), 'did you mean --batch-size?'),
    (('--num-worker', '3'), '--num-worker: no such option'),
    (('--epochs', '0'), '--epochs 0'),
    (('--rank', '2'), '--rank 2'),
    (('--val-transform', 'ToTensor()'), '--val-transform goes with --val'),
])
def test_usage(daemon, options, says):
    assert says in run(daemon, *options, status=2).stderr


@pytest.mark.parametrize('options, says', [
    (('--val', 'nothing'), 'nothing'),
    (('--val', 'rgb'), 'data set d has images of 1 x 28 x 28, rgb of 1 x 21 x 33'),
    (('--val', 'large'), 'large'),
    (('--transform', 'Rotate(3)'), 'Rotate'),
    (('--dtype', 'u8', '--transform', 'Grayscale()'), 'ToTensor'),
    (('--dtype', 'u8', '--val', 'd', '--val-transform', 'Grayscale(), ToTensor()'),
     'must end in the same Normalize'),
    (('--drop-last', '--batch-size', '301'), 'data set d: an epoch would have no batch'),
    (('--checkpoint', '/nonexistent/run'), '/nonexistent/run'),
    (('--checkpoint', '/'), '/'),
    (('--socket', '/nonexistent/s'), '/nonexistent/s'),
])
def test_refused(daemon, options, says):
    result = run(daemon, '--epochs', 1, *options, status=1)
    assert says in result.stderr.splitlines()[-1]
    assert not result.stdout


def test_without_gpu(daemon):
    result = subprocess.run(command(daemon, '--device', 'cuda', '--epochs', '1'),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            timeout=GUARD)
    if result.returncode == 0:
        pytest.skip('this machine has a CUDA device')
    assert result.returncode == 1
    assert re.search('built without CUDA|no NVIDIA driver|driver is for CUDA|finds none',
                     result.stderr)


def test_classes_of_validation(start_daemon, grey_folder, scratch):
    """A label must mean the same in both data sets; the last classes may be missing."""
    for name, missing in ('last', 'class9'), ('first', 'class0'):
        shutil.copytree(grey_folder, f'{scratch}/{name}')
        shutil.rmtree(f'{scratch}/{name}/{missing}')
    daemon = start_daemon({'d': grey_folder, 'last': f'{scratch}/last',
                           'first': f'{scratch}/first'})
    run(daemon, '--epochs', 1, '--val', 'last')
    says = run(daemon, '--epochs', 1, '--val', 'first', status=1).stderr.splitlines()[-1]
    assert "class 0 is 'class0' in data set d, but 'class1' in first" in says
    says = run(daemon, '--epochs', 1, '--val', 'd', data='last', status=1).stderr.splitlines()[-1]
    assert "class 9 is none in data set last, but 'class9' in d" in says


def test_parts(daemon):
    """One folder for training and validation."""
    result = run(daemon, '--epochs', 1, '--val', 'd[80%:]', '--json', data='d[:80%]')
    assert json.loads(result.stdout)['images'] == 240


@pytest.mark.parametrize('dtype', ['f32', 'u8'])
def test_transforms_of_validation(daemon, dtype):
    """At a rate of almost nothing the accuracy is that of the first weights: it depends on the
    validation's transforms alone."""
    def accuracy(*options):
        result = run(daemon, '--epochs', 1, '--val', 'd', '--lr', 1e-30, '--json', '--dtype', dtype,
                     *options)
        return json.loads(result.stdout)['val_accuracy']

    end = 'Grayscale(), ToTensor(), Normalize((0.5,), (0.5,))'
    other = f'Resize(9), Resize(28), RandomVerticalFlip(1), {end}'
    assert accuracy('--transform', other) != accuracy()
    assert accuracy('--transform', other, '--val-transform', end) == accuracy()
    assert accuracy('--val-transform', other) == accuracy('--transform', other)


def test_bad_sample(start_daemon, grey_folder, scratch):
    folder = shutil.copytree(grey_folder, f'{scratch}/bad')
    with open(f'{folder}/class3/3.png', 'r+b') as file:
        file.truncate(60)
    result = run(start_daemon({'d': folder}), '--epochs', 1, status=1)
    assert 'class3/3.png' in result.stderr.splitlines()[-1]


# ---- checkpoints ----

def test_resume_by_epoch(daemon, tmp_path):
    """Two epochs and then two more are four epochs, bit for bit."""
    straight, halves = tmp_path / 'straight', tmp_path / 'halves'
    whole = run(daemon, '--epochs', 4, '--json', '--checkpoint', straight)
    run(daemon, '--epochs', 2, '--json', '--checkpoint', halves)
    rest = run(daemon, '--epochs', 4, '--json', '--checkpoint', halves)
    assert straight.read_bytes() == halves.read_bytes()

    def losses(result):
        return [json.loads(line)['loss'] for line in result.stdout.splitlines()]

    assert losses(rest) == losses(whole)[2:]
    again = run(daemon, '--epochs', 4, '--checkpoint', halves)
    assert not again.stdout
    assert 'nothing is left to train' in again.stderr
    fewer = run(daemon, '--epochs', 3, '--checkpoint', halves, status=1)
    assert 'is in epoch 4 already' in fewer.stderr
    assert sorted(os.listdir(tmp_path)) == ['halves', 'straight'], 'no temporary file stays'


@pytest.mark.parametrize('number, status', [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_and_resume(daemon, tmp_path, number, status):
    """Stopped in the middle of an epoch and started again: as if never stopped."""
    straight, stopped = tmp_path / 'straight', tmp_path / 'stopped'
    options = ('--epochs', 2, '--batch-size', 8)
    run(daemon, *options, '--checkpoint', straight, data='large')
    with subprocess.Popen(command(daemon, *options, '--checkpoint', stopped, '--log-every', 1,
                                  data='large'), stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b'step 1:')
        process.send_signal(number)
        output = process.stdout.read()
    assert process.returncode == status, output
    assert b'epoch 2/2:' not in output
    assert stopped.exists()
    run(daemon, *options, '--checkpoint', stopped, data='large')
    assert straight.read_bytes() == stopped.read_bytes()


def test_daemon_dies(start_daemon, large_folder, tmp_path):
    """What was trained when the daemon went is kept, and training goes on with the next one."""
    straight, cut = tmp_path / 'straight', tmp_path / 'cut'
    options = ('--epochs', 2, '--batch-size', 8)
    first = start_daemon({'d': large_folder})
    run(first, *options, '--checkpoint', straight)
    with subprocess.Popen(command(first, *options, '--checkpoint', cut, '--log-every', 1),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b'step 1:')
        first.kill()
        _, errors = process.communicate(timeout=GUARD)
    assert process.returncode == 1, errors
    assert cut.exists()
    run(start_daemon({'d': large_folder}), *options, '--checkpoint', cut)
    assert straight.read_bytes() == cut.read_bytes()


@pytest.mark.parametrize('options, says', [
    (('--seed', '1'), 'seed'),
    (('--no-shuffle',), 'shuffle'),
    (('--dataset', 'large'), 'large'),
])
def test_foreign_checkpoint(daemon, tmp_path, options, says):
    path = tmp_path / 'run'
    run(daemon, '--epochs', 1, '--checkpoint', path)
    before = path.read_bytes()
    result = run(daemon, '--epochs', 2, '--checkpoint', path, *options, status=1)
    assert f'{path}: ' in result.stderr.splitlines()[-1]
    assert says in result.stderr.splitlines()[-1]
    assert path.read_bytes() == before


def test_damaged_checkpoint(daemon, tmp_path):
    path = tmp_path / 'run'
    path.write_bytes(b'x' * 1000)
    result = run(daemon, '--epochs', 1, '--checkpoint', path, status=1)
    assert f'{path}: not a checkpoint' in result.stderr
    assert path.read_bytes() == b'x' * 1000
