# SPDX-License-Identifier: Apache-2.0
"""Many clients, and clients that are killed, stopped, slow or gone: the others lose nothing."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from client import FLOAT, GUARD, HEADER, Client, all_rows, pb
from reference import epoch_order, folder_pixels, nchw, to_float

HOLDER = Path(__file__).with_name('hold_batches.py')


class Holder:
    """Another process that opens a stream, takes batches and then holds them."""

    def __init__(self, daemon, batches, payload='shared', depth=4):
        self.process = subprocess.Popen(
            [sys.executable, HOLDER, daemon.socket_path, 'train', str(batches), payload,
             str(depth)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        assert line == b'holding\n', line

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        """SIGSTOP, and wait until it has stopped."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def kill(self):
        self.process.kill()
        self.process.wait(GUARD)
        self.process.stdout.close()


def check_epoch(path, expected, failures, **options):
    """One whole epoch over a connection of its own, against (images, labels, order)."""
    try:
        images, labels, order = expected
        with Client(path) as client:
            got = all_rows(client.open('train', **options))
        np.testing.assert_array_equal(got[2], order)
        np.testing.assert_array_equal(got[1], labels[order])
        np.testing.assert_array_equal(got[0], images[order])
    except BaseException as error:
        failures.append(error)


def test_ten_clients_at_once(start_daemon, grey_folder):
    """Each has its own full pass, with its own seed, batch size and payload."""
    images, labels = folder_pixels(grey_folder, grey=True)
    images = nchw(to_float(images))
    daemon = start_daemon({'train': grey_folder}, settle=True)
    failures = []
    threads = [threading.Thread(target=check_epoch, args=(
        daemon.socket_path, (images, labels, epoch_order(300, seed=seed)), failures), kwargs=dict(
            transforms=FLOAT, shuffle=True, seed=seed, batch_size=8 + 7 * seed,
            payload=1 + seed % 2)) for seed in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD)
        assert not thread.is_alive()
    assert not failures, failures
    daemon.wait_idle()


@pytest.mark.parametrize('payload', ['shared', 'inline'])
def test_killed_client(start_daemon, large_folder, payload):
    """SIGKILL while it holds slots: they come back, again and again."""
    daemon = start_daemon({'train': large_folder}, settle=True)
    for batches in (0, 1, 4):
        holder = Holder(daemon, batches, payload)
        daemon.wait_until(lambda status: len(status.stream) == 1 and
                          status.stream[0].lent == 4, 'the client does not hold its slots')
        holder.kill()
        daemon.wait_idle()
    check_other_client(daemon)


def check_other_client(daemon):
    with daemon.client() as client:
        samples = all_rows(client.open('train', dtype=pb.DTYPE_U8, shuffle=True))[2]
        np.testing.assert_array_equal(samples, epoch_order(3000))


@pytest.mark.parametrize('payload', ['shared', 'inline'])
def test_stopped_client(start_daemon, large_folder, payload):
    """SIGSTOP beside a running client: that one goes on, the stopped one too when continued."""
    daemon = start_daemon({'train': large_folder}, settle=True)
    holder = Holder(daemon, 2, payload)
    holder.stop()
    check_other_client(daemon)
    check_other_client(daemon)
    holder.signal(signal.SIGCONT)
    check_other_client(daemon)
    holder.kill()
    daemon.wait_idle()


def test_slow_reader(start_daemon, large_folder):
    """An inline client that reads nothing fills its own queue only, within its depth."""
    daemon = start_daemon({'train': large_folder}, settle=True)
    with daemon.client() as slow:
        stream = slow.open('train', transforms=FLOAT, payload=pb.PAYLOAD_INLINE, batch_size=512,
                           depth=16, epochs=0)
        for _ in range(3):
            check_other_client(daemon)
        entry, = daemon.status().stream
        assert entry.batches <= 16
        # It has lost nothing.
        position = 0
        for _ in range(40):
            kind, event = stream.event()
            if kind == 'batch':
                np.testing.assert_array_equal(
                    event.samples, np.arange(3000)[event.step * 512:(event.step + 1) * 512])
                position += event.rows
                stream.release(event)
        assert position > 3000
    daemon.wait_idle()


def test_connections_come_and_go(start_daemon, grey_folder):
    """A hundred clients that leave at every point of a conversation."""
    daemon = start_daemon({'train': grey_folder}, settle=True)
    for i in range(100):
        with daemon.client(hello=i % 5 > 0) as client:
            if i % 5 > 1:
                client.send_open('train', dtype=pb.DTYPE_U8, shuffle=True)
            if i % 5 > 2:
                client.wait(lambda kind, _: kind == 'opened')
            if i % 5 > 3:
                client.wait(lambda kind, _: kind == 'batch')
    daemon.wait_idle()
    assert daemon.status().worker_deaths == 0


def test_close_at_every_moment(start_daemon, large_folder):
    """Close with batches in the pool, ready and lent; nothing about the stream follows Closed."""
    daemon = start_daemon({'train': large_folder}, settle=True)
    with daemon.client() as client:
        for taken in range(12):
            stream = client.open('train', dtype=pb.DTYPE_U8, shuffle=True, epochs=0, depth=8,
                                 batch_size=32)
            for i in range(taken):
                batch = stream.next()
                if i % 2:
                    stream.release(batch)
            stream.close()
            client.queue.clear()
        client.status()
        assert not client.queue
    daemon.wait_idle()


def test_abrupt_end_while_writing(start_daemon, large_folder):
    """A client that closes with data unread resets the connection; nobody else notices."""
    daemon = start_daemon({'train': large_folder}, settle=True)
    for _ in range(10):
        with daemon.client() as client:
            client.open('train', transforms=FLOAT, payload=pb.PAYLOAD_INLINE, epochs=0,
                        batch_size=1024, depth=8)
            client.wait(lambda kind, _: kind == 'batch')
    daemon.wait_idle()


@pytest.mark.parametrize('part', [1, 70_000, 100_000])
def test_an_answer_between_inline_batches_does_not_stall_them(start_daemon, grey_folder, part):
    """The queue becomes empty while an answer is sent: the batches that waited for it go on."""
    daemon = start_daemon({'train': grey_folder}, workers=1, settle=True)
    with daemon.client() as client:
        client.send_open('train', batch_size=100, dtype=pb.DTYPE_U8, depth=3,
                         payload=pb.PAYLOAD_INLINE)
        daemon.wait_until(lambda status: status.stream and status.stream[0].filling == 0 and
                          status.stream[0].ready + status.stream[0].lent == 3, 'nothing is ready')
        data = client._read_exactly(part)
        client.send(status=pb.StatusRequest(request=77))
        kinds = []
        while kinds.count('batch') < 3 or 'status' not in kinds:
            while len(data) < 8 or len(data) < 8 + HEADER.unpack(data[:8])[0]:
                more = client.socket.recv(1 << 20)
                assert more
                data += more
            length = 8 + HEADER.unpack(data[:8])[0]
            kinds.append(pb.ServerMessage.FromString(bytes(data[8:length])).WhichOneof('message'))
            data = data[length:]
        assert kinds.count('status') == 1
