# SPDX-License-Identifier: Apache-2.0
"""Units, socket activation, and what `meson install` puts where."""

import os
import re
import shutil
import signal
import subprocess

import numpy as np
import pytest

from client import FLOAT, GUARD, Client, all_rows, pb
from daemon import BUILD, ROOT, STOKERD, WORKER, children, wait_pid_gone
from reference import epoch_order


@pytest.fixture(scope='module')
def installed(tmp_path_factory):
    """The tree that `meson install` makes below a DESTDIR, and the prefix in it."""
    if not shutil.which('meson'):
        pytest.skip('no meson')
    target = tmp_path_factory.mktemp('install')
    subprocess.run(['meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir', target],
                   check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return target


def find(installed, name):
    found = [path for path in installed.rglob(name) if path.is_file() or path.is_symlink()]
    assert found, f'{name} is not installed'
    return found[0]


def test_install(installed):
    for name in ('stokerd', 'stoker', 'stoker-train', 'stoker-worker', 'stoker.h', 'libstoker.so',
                 'stokerd.8', 'stokerd.service', 'stokerd.socket'):
        find(installed, name)
    assert 'libexec/stoker/stoker-worker' in str(find(installed, 'stoker-worker'))
    assert list(installed.rglob('*.pc')) and list(installed.rglob('sysusers.d/*.conf'))
    assert list(installed.rglob('tmpfiles.d/*.conf'))


def test_pkg_config(installed, tmp_path):
    """A program builds against what was installed."""
    pc = next(installed.rglob('*.pc'))
    env = {**os.environ, 'PKG_CONFIG_PATH': str(pc.parent),
           'PKG_CONFIG_SYSROOT_DIR': str(installed)}
    flags = subprocess.run(['pkg-config', '--cflags', '--libs', pc.stem], env=env, check=True,
                           capture_output=True, text=True).stdout.split()
    (tmp_path / 'a.c').write_text('#include <stoker.h>\n#include <stdio.h>\n'
                                  'int main(void) { puts(stoker_version()); return 0; }\n')
    subprocess.run(['gcc', '-Wall', '-Werror', '-fsanitize=address,undefined',
                    tmp_path / 'a.c', '-o', tmp_path / 'a', *flags], check=True)
    library = find(installed, 'libstoker.so').parent
    output = subprocess.run([tmp_path / 'a'], env={**os.environ, 'LD_LIBRARY_PATH': str(library)},
                            check=True, capture_output=True, text=True).stdout
    assert re.fullmatch(r'\d+\.\d+\.\d+\n', output)


@pytest.fixture
def units(installed, tmp_path):
    """The unit files, with the programs of this build in their ExecStart."""
    paths = []
    for found in [*installed.rglob('system/stokerd.*'), *installed.rglob('user/stokerd.*')]:
        target = tmp_path / found.parent.name / found.name
        target.parent.mkdir(exist_ok=True)
        text = found.read_text()
        target.write_text(re.sub(r'(?m)^(Exec\w+=)\S*/stokerd\b', rf'\g<1>{STOKERD}', text))
        paths.append(target)
    assert {path.name for path in paths} >= {'stokerd.service', 'stokerd.socket'}
    return paths


needs_analyze = pytest.mark.skipif(not shutil.which('systemd-analyze'),
                                   reason='no systemd-analyze')


@needs_analyze
def test_units_verify(units):
    for path in units:
        mode = '--user' if path.parent.name == 'user' else '--system'
        result = subprocess.run(
            ['systemd-analyze', 'verify', '--man=no', mode, path], capture_output=True, text=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, 'SYSTEMD_UNIT_PATH': f'{path.parent}:', 'XDG_RUNTIME_DIR': '/tmp'})
        ours = [line for line in (result.stderr + result.stdout).splitlines() if 'stoker' in line]
        assert not ours, ours


@needs_analyze
def test_service_is_hardened(units):
    path, = [p for p in units if p.name == 'stokerd.service' and p.parent.name == 'system']
    result = subprocess.run(
        ['systemd-analyze', 'security', '--offline=true', '--threshold=15', '--no-pager', path],
        capture_output=True, text=True, stdin=subprocess.DEVNULL,
        env={**os.environ, 'SYSTEMD_UNIT_PATH': f'{path.parent}:'})
    assert 'Overall exposure level' in result.stdout, result.stderr
    assert result.returncode == 0, result.stdout


class Activated:
    """stokerd as systemd starts it: with its socket, on the first connection."""

    def __init__(self, folder, dataset):
        self.path = f'{folder}/s'
        config = f'{folder}/stokerd.conf'
        with open(config, 'w') as file:
            file.write(f'[stokerd]\nworkers = 2\n[dataset train]\npath = {dataset}\n')
        self.process = subprocess.Popen(
            ['systemd-socket-activate', '-l', self.path, '-E', f'STOKER_WORKER={WORKER}',
             str(STOKERD), '--config', config, '--socket', self.path],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        # It says "Listening on ..." once clients may come.
        for line in self.process.stderr:
            if b'Listening' in line:
                return
        raise AssertionError('systemd-socket-activate did not listen')


@pytest.fixture
def activated(scratch, grey_folder):
    if not shutil.which('systemd-socket-activate'):
        pytest.skip('no systemd-socket-activate')
    daemon = Activated(scratch, grey_folder)
    yield daemon
    workers = children(daemon.process.pid)
    daemon.process.send_signal(signal.SIGTERM)
    log = daemon.process.stderr.read().decode(errors='replace')
    assert daemon.process.wait(GUARD) == 0, log
    assert 'Sanitizer' not in log and 'runtime error' not in log, log
    assert os.path.exists(daemon.path), 'an inherited socket is not ours to remove'
    for pid in workers:
        wait_pid_gone(pid)


def test_socket_activation(activated):
    with Client(activated.path) as client:
        stream = client.open('train', transforms=FLOAT, shuffle=True)
        np.testing.assert_array_equal(all_rows(stream)[2], epoch_order(300))
        assert client.status().pid == activated.process.pid
        assert client.status().dataset[0].state == pb.DATASET_READY


def test_training_through_socket_activation(activated):
    """The first client is the trainer itself; its one line per epoch has the loss."""
    result = subprocess.run(
        [BUILD / 'trainer/stoker-train', '--socket', activated.path, '--dataset', 'train',
         '--epochs', '2', '--device', 'cpu', '--json'], capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=GUARD)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count('"epoch"') == 2 and '"loss"' in result.stdout


def test_man_page_names_every_option():
    page = (ROOT / 'daemon/stokerd.8').read_text().replace('\\-', '-')
    text = subprocess.run([STOKERD, '--help'], capture_output=True, text=True).stdout
    for option in re.findall(r'--[a-z-]+', text):
        assert option in page, f'{option} is not in stokerd.8'
