# SPDX-License-Identifier: Apache-2.0
"""A real stokerd under test: started, watched, and checked for what it leaves behind."""

import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from client import GUARD, ROOT, Client, pb

BUILD = Path(os.environ.get('STOKER_BUILD', ROOT / 'build/tests'))
STOKERD = BUILD / 'daemon/stokerd'
WORKER = BUILD / 'daemon/worker/stoker-worker'

SANITIZER = re.compile(r'ERROR: \w+Sanitizer|runtime error:|SUMMARY: \w+Sanitizer')


def read_proc(pid, name):
    """A file of /proc/PID, or b'' when the process is gone."""
    try:
        return Path(f'/proc/{pid}/{name}').read_bytes()
    except OSError:
        return b''


def parent_and_state(pid):
    """(parent, state letter) of a process; (0, '') when it is gone."""
    fields = read_proc(pid, 'stat').rpartition(b')')[2].split()
    return (int(fields[1]), fields[0].decode()) if fields else (0, '')


def children(pid):
    """Pids of the running children of a process."""
    found = []
    for entry in os.listdir('/proc'):
        if entry.isdigit():
            parent, state = parent_and_state(entry)
            if parent == pid and state not in 'ZX':
                found.append(int(entry))
    return found


def wait_pid_gone(pid, guard=GUARD):
    """Wait until a process that is no child of ours has ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(fd, selectors.EVENT_READ)
            assert selector.select(guard), f'process {pid} is still there'
    finally:
        os.close(fd)


class Log:
    """Lines of a pipe, as they come. The end comes when every process that holds it has ended."""

    def __init__(self, pipe):
        self.lines = []
        self.ended = False
        self.changed = threading.Condition()
        self.pipe = pipe
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        for line in self.pipe:
            with self.changed:
                self.lines.append(line.decode(errors='backslashreplace').rstrip('\n'))
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def text(self):
        with self.changed:
            return '\n'.join(self.lines)

    def matches(self, pattern):
        return [line for line in self.text().split('\n') if re.search(pattern, line)]

    def wait(self, pattern, count=1, guard=GUARD):
        """Wait for `count` lines that match; returns them."""
        def ready():
            found = [line for line in self.lines if re.search(pattern, line)]
            return found if len(found) >= count else None

        with self.changed:
            self.changed.wait_for(lambda: ready() or self.ended, guard)
            found = ready()
            assert found, f'no {count} lines like {pattern!r} in the log:\n' + '\n'.join(
                self.lines)
            return found

    def wait_end(self, guard=GUARD):
        with self.changed:
            assert self.changed.wait_for(lambda: self.ended, guard), \
                'some process still holds the log'


class Daemon:
    """stokerd on a socket of its own.

    datasets: {name: path}. config: text of the config file; empty, so that the machine's own file is
    never read. wrapper: a command line to put before stokerd. as_nobody: run as that user (needs
    root), from copies of the programs, since the checkout may be closed to others.
    """

    def __init__(self, datasets=None, workers=2, config='', memory=None, args=(), wrapper=(),
                 env=None, socket_path=None, directory=None, as_nobody=False):
        self.own_directory = directory is None
        self.directory = Path(directory or tempfile.mkdtemp(prefix='stk.', dir='/tmp'))
        self.socket_path = Path(socket_path or self.directory / 's')
        self.directory.chmod(0o755)  # a daemon of another user reads its config here
        self.config_path = self.directory / 'stokerd.conf'
        self.config_path.write_text(config)
        self.killed = False
        self.process = None
        self.base_fds = None
        stokerd, worker = STOKERD, WORKER
        if as_nobody:
            wrapper = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
            stokerd, worker = (shutil.copy(path, self.directory) for path in (STOKERD, WORKER))
        self.command = [*wrapper, str(stokerd), '--config', str(self.config_path)]
        if socket_path != 'inherited':
            self.command += ['--socket', str(self.socket_path)]
        if workers is not None:
            self.command += ['--workers', str(workers)]
        if memory is not None:
            self.command += ['--memory', str(memory)]
        for name, path in (datasets or {}).items():
            self.command += ['--dataset', f'{name}={path}']
        self.command += list(args)
        self.env = {
            'PATH': os.environ.get('PATH', '/usr/bin:/bin'),
            'LC_ALL': 'C.UTF-8',
            'STOKER_WORKER': str(worker),
            # Marks every process of this daemon; see left_behind().
            'STOKER_TEST_DAEMON': str(self.directory),
            **{name: os.environ[name] for name in ('ASAN_OPTIONS', 'UBSAN_OPTIONS',
                                                  'LSAN_OPTIONS') if name in os.environ},
            **(env or {}),
        }

    # ---- life ----

    def spawn(self):
        """Start without waiting for readiness; self.notify receives what sd_notify sends."""
        path = self.directory / 'notify'
        path.unlink(missing_ok=True)
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(str(path))
        path.chmod(0o666)
        self.process = subprocess.Popen(
            self.command, env={**self.env, 'NOTIFY_SOCKET': str(path)}, cwd=self.directory,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True)
        self.pid = self.process.pid
        self.log = Log(self.process.stdout)
        return self

    def wait_notify(self, wanted):
        """Wait for a notification such as READY=1; fails with the log if the daemon ends first."""
        end = time.monotonic() + GUARD
        with selectors.DefaultSelector() as selector:
            pidfd = os.pidfd_open(self.pid)
            selector.register(pidfd, selectors.EVENT_READ)
            selector.register(self.notify, selectors.EVENT_READ)
            try:
                while time.monotonic() < end:
                    ready = [key.fileobj for key, _ in selector.select(1)]
                    if self.notify in ready:
                        if wanted in self.notify.recv(4096).decode().split('\n'):
                            return self
                    elif pidfd in ready:
                        break
            finally:
                os.close(pidfd)
        raise AssertionError(f'no {wanted} from stokerd:\n{self.log.text()}')

    def start(self):
        self.spawn()
        return self.wait_notify('READY=1')

    def start_fails(self):
        """Start a daemon that must refuse; returns (exit status, log)."""
        self.spawn()
        self.process.wait(GUARD)
        self.log.wait_end()
        self.killed = True
        return self.process.returncode, self.log.text()

    def terminate(self):
        """SIGTERM; returns the seconds that the daemon took to end."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(GUARD)
        return time.monotonic() - began

    def kill(self):
        self.killed = True
        self.process.kill()
        self.process.wait(GUARD)

    def reload(self, config):
        """Another config file and SIGHUP. The caller waits for what it changes."""
        self.config_path.write_text(config)
        self.process.send_signal(signal.SIGHUP)

    def finish(self):
        """End it and check what it leaves behind: nothing."""
        if self.process is None:
            return self._clean()
        try:
            if self.process.poll() is None:
                self.terminate()
            self.log.wait_end()
            text = self.log.text()
            assert not SANITIZER.search(text), text
            if not self.killed:
                assert self.process.returncode == 0, f'exit {self.process.returncode}:\n{text}'
                for path in (self.socket_path, Path(f'{self.socket_path}.lock')):
                    assert not path.exists(), f'{path} is still there'
            assert not self.left_behind(), f'processes left: {self.left_behind()}\n{text}'
        finally:
            if self.process.poll() is None:
                self.process.kill()
            self.notify.close()
            self._clean()

    def _clean(self):
        if self.own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    # ---- looking at it ----

    def left_behind(self):
        """Running processes that descend from this daemon, by the mark in their environment."""
        mark = f'STOKER_TEST_DAEMON={self.directory}'.encode()
        return [int(entry) for entry in os.listdir('/proc') if entry.isdigit()
                and mark in read_proc(entry, 'environ').split(b'\0')
                and parent_and_state(entry)[1] not in ('', 'Z', 'X')]

    def workers(self):
        """Pids of the pool, as status tells them."""
        with self.client() as client:
            return [worker.pid for worker in client.status().worker]

    def client(self, **options):
        return Client(self.socket_path, **options)

    def status(self):
        with self.client() as client:
            return client.status()

    def descriptors(self):
        return len(os.listdir(f'/proc/{self.pid}/fd'))

    def wait_until(self, condition, what):
        """Ask for status until condition(status) holds; every answer is a round of its loop."""
        end = time.monotonic() + GUARD
        with self.client() as client:
            while True:
                status = client.status()
                if condition(status):
                    return status
                assert time.monotonic() < end, f'{what}:\n{status}\n{self.log.text()}'
                time.sleep(0.005)

    def settle(self):
        """Index every data set and note how many descriptors an idle daemon has."""
        with self.client() as client:
            for dataset in client.status().dataset:
                client.open(dataset.name, batch_size=1, dtype=pb.DTYPE_U8).close()
        self.wait_until(self._is_idle, 'not idle after its data sets were indexed')
        with self.client() as client:
            client.status()
            self.base_fds = self.descriptors()
        return self

    def _is_idle(self, status):
        return (status.clients == 1 and not status.stream and status.memory_used == 0
                and not any(worker.queued for worker in status.worker)
                and len(status.worker) == status.workers
                and (self.base_fds is None or self.descriptors() <= self.base_fds))

    def wait_idle(self):
        """Everything that clients had is back: streams, slots, arenas, memory, descriptors."""
        status = self.wait_until(self._is_idle, f'something is left; base {self.base_fds}, '
                                 f'descriptors now {self.descriptors()}')
        for dataset in status.dataset:
            assert dataset.state != pb.DATASET_INDEXING
        return status
