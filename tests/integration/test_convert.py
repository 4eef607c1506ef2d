# SPDX-License-Identifier: Apache-2.0
"""`stoker convert` that is interrupted or fails: nothing that looks finished, no process, no folder."""

import os
import signal
import subprocess

import numpy as np
import pytest

import make_data
from client import GUARD
from daemon import BUILD, STOKERD, WORKER, children, wait_pid_gone

STOKER = BUILD / 'client/cli/stoker'


def start(source, destination, runtime, **env):
    os.makedirs(runtime, exist_ok=True)
    return subprocess.Popen(
        [STOKER, 'convert', source, destination], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, 'STOKERD': str(STOKERD), 'STOKER_WORKER': str(WORKER),
             'XDG_RUNTIME_DIR': str(runtime), **env})


def write_many(folder):
    """A data set that takes a while, because each of its pixels becomes a file."""
    return make_data.write_idx(folder, np.zeros((60000, 1, 1), np.uint8), np.zeros(60000, int))


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted(scratch, number):
    source = write_many(f'{scratch}/idx')
    process = start(source, f'{scratch}/out/png', f'{scratch}/run')
    while not (os.path.isdir(f'{scratch}/out') and os.listdir(f'{scratch}/out')):
        assert process.poll() is None
    daemons = children(process.pid)
    assert len(daemons) == 1
    process.send_signal(number)
    output, errors = process.communicate(timeout=GUARD)
    assert process.returncode == -number and not output, (output, errors)
    assert os.listdir(f'{scratch}/out') == [] and os.listdir(f'{scratch}/run') == []
    for pid in daemons:
        wait_pid_gone(pid)


def test_killed(scratch):
    """SIGKILL cannot be caught: the partial folder stays, under a name that says so, no daemon."""
    source = write_many(f'{scratch}/idx')
    process = start(source, f'{scratch}/out/png', f'{scratch}/run')
    while not (os.path.isdir(f'{scratch}/out') and os.listdir(f'{scratch}/out')):
        assert process.poll() is None
    daemons = children(process.pid)
    process.kill()
    process.communicate(timeout=GUARD)
    for pid in daemons:
        wait_pid_gone(pid)
    left, = os.listdir(f'{scratch}/out')
    assert left.startswith('png.partial-')


def test_bad_sample(scratch):
    root = make_data.write_folder(f'{scratch}/data', make_data.pixels(20), 2)
    os.truncate(f'{root}/class1/11.png', 60)
    process = start(root, f'{scratch}/out/png', f'{scratch}/run')
    errors = process.communicate(timeout=GUARD)[1]
    assert process.returncode == 1 and errors.count('class1/11.png') == 1, errors
    assert os.listdir(f'{scratch}/out') == [] and os.listdir(f'{scratch}/run') == []


@pytest.mark.parametrize('env, text', [
    ({'STOKERD': '/nowhere/stokerd'}, '/nowhere/stokerd'),
    ({'STOKERD': '/bin/false'}, 'could not start'),
    ({'STOKER_WORKER': '/nowhere/worker'}, '/nowhere/worker')], ids=['none', 'false', 'worker'])
def test_no_stokerd(scratch, env, text):
    source = make_data.write_idx(f'{scratch}/idx', make_data.pixels(3), np.arange(3))
    process = start(source, f'{scratch}/png', f'{scratch}/run', **env)
    errors = process.communicate(timeout=GUARD)[1]
    assert process.returncode == 1 and text in errors, errors
    assert not os.path.exists(f'{scratch}/png') and os.listdir(f'{scratch}/run') == []


def test_labels_keep_their_order(scratch):
    """With more than ten classes, '10' must not sort before '2'."""
    source = make_data.write_idx(f'{scratch}/idx', make_data.pixels(24), np.arange(24) % 12)
    process = start(source, f'{scratch}/png/', f'{scratch}/run')
    output, errors = process.communicate(timeout=GUARD)
    assert process.returncode == 0, errors
    assert '24 PNG files' in output
    assert sorted(os.listdir(f'{scratch}/png')) == [f'{label:02}' for label in range(12)]
    assert sorted(os.listdir(f'{scratch}/png/03')) == ['00003.png', '00015.png']


def test_made_folders_heed_the_umask(scratch):
    source = make_data.write_idx(f'{scratch}/idx', make_data.pixels(3), np.arange(3))
    before = os.umask(0o027)
    try:
        process = start(source, f'{scratch}/a/b/png', f'{scratch}/run')
    finally:
        os.umask(before)
    errors = process.communicate(timeout=GUARD)[1]
    assert process.returncode == 0, errors
    for folder in ('a', 'a/b', 'a/b/png', 'a/b/png/0'):
        assert os.stat(f'{scratch}/{folder}').st_mode & 0o777 == 0o750, folder


def test_stokerd_is_no_part_of_a_service(scratch):
    """Under systemd the service is `stoker convert`, and its readiness not for stokerd to tell."""
    names = ('NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID', 'LISTEN_FDS', 'LISTEN_PID',
             'LISTEN_FDNAMES')
    source = make_data.write_idx(f'{scratch}/idx', make_data.pixels(3), np.arange(3))
    wrapper = f'{scratch}/stokerd'
    with open(wrapper, 'w', encoding='utf-8') as file:
        file.write(f'#!/bin/sh\nenv >{scratch}/env\nexec {STOKERD} "$@"\n')
    os.chmod(wrapper, 0o755)
    process = start(source, f'{scratch}/png', f'{scratch}/run', STOKERD=wrapper,
                    **{name: '1' for name in names})
    errors = process.communicate(timeout=GUARD)[1]
    assert process.returncode == 0, errors
    with open(f'{scratch}/env', encoding='utf-8') as file:
        seen = {line.partition('=')[0] for line in file}
    assert 'STOKER_WORKER' in seen and not seen & set(names)


def test_destinations_that_cannot_be_replaced(scratch):
    os.mkdir(f'{scratch}/real')
    os.symlink('real', f'{scratch}/link')
    source = make_data.write_idx(f'{scratch}/idx', make_data.pixels(3), np.arange(3))
    for destination, text in (('link', 'symbolic link'), ('link/', 'symbolic link'),
                              ('real/.', "'.'"), ('real/..', "'..'")):
        process = start(source, f'{scratch}/{destination}', f'{scratch}/run')
        errors = process.communicate(timeout=GUARD)[1]
        assert process.returncode == 1 and text in errors, errors
        assert os.listdir(f'{scratch}/run') == [], 'it is refused before anything is started'
