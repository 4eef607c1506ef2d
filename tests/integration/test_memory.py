# SPDX-License-Identifier: Apache-2.0
"""Shared memory: sealed, read-only for clients, bounded, and given back."""

import fcntl
import mmap
import os
import re
import subprocess
import sys

import pytest

import make_data
from client import FLOAT, ServerError, all_rows, pb

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason='needs root to become another user')

REOPEN = '''
import mmap, os, sys
fd, size = int(sys.argv[1]), int(sys.argv[2])
mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
for what in (lambda: mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE),
             lambda: os.open(f'/proc/self/fd/{fd}', os.O_RDWR),
             lambda: os.pwrite(fd, b'x', 0)):
    try:
        what()
        sys.exit('it could write')
    except OSError:
        pass
'''


def test_clients_cannot_write(start_daemon, grey_folder):
    """The descriptor maps for reading only, and its size cannot change."""
    daemon = start_daemon({'train': grey_folder}, settle=True)
    with daemon.client() as client:
        stream = client.open('train', transforms=FLOAT)
        size = stream.opened.arena_bytes
        assert fcntl.fcntl(stream.fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        with pytest.raises(PermissionError):
            mmap.mmap(stream.fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        for change in (lambda: os.ftruncate(stream.fd, 0), lambda: os.ftruncate(stream.fd, 1 << 30),
                       lambda: os.pwrite(stream.fd, b'x', 0)):
            with pytest.raises(OSError):
                change()
        assert os.fstat(stream.fd).st_mode & 0o777 == 0o400
        assert os.fstat(stream.fd).st_blocks * 512 >= size, 'not populated: SIGBUS is possible'
    daemon.wait_idle()


@needs_root
def test_another_user_cannot_write(start_daemon, grey_folder):
    """Under another uid, reopening for writing is refused, too."""
    daemon = start_daemon({'train': grey_folder})
    with daemon.client() as client:
        stream = client.open('train', transforms=FLOAT)
        subprocess.run(
            ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '/usr/bin/python3',
             '-c', REOPEN, str(stream.fd), str(stream.opened.arena_bytes)],
            pass_fds=[stream.fd], check=True, stdin=subprocess.DEVNULL)


def numbers(text):
    return [int(word) for word in re.findall(r'\d+', text.replace(',', ''))]


def test_memory_limit(start_daemon, grey_folder):
    """An arena that does not fit is refused with the bytes needed and left; a smaller one fits."""
    daemon = start_daemon({'train': grey_folder}, memory='8M', settle=True)
    with daemon.client() as client:
        assert client.status().memory_limit == 8 << 20
        first = client.open('train', transforms=FLOAT, depth=4)
        used = client.status().memory_used
        assert used >= first.opened.arena_bytes
        with pytest.raises(ServerError) as caught:
            client.open('train', transforms=FLOAT, batch_size=1024, depth=8)
        error = caught.value
        assert error.code == pb.ERROR_MEMORY and not error.closing
        needed = 8 * 1024 * 28 * 28 * 4
        assert any(number >= needed for number in numbers(error.text)), error.text
        assert (8 << 20) - used in numbers(error.text), error.text
        assert client.status().memory_used == used
        assert len(all_rows(first)[2]) == 300
        first.close()
        daemon.wait_until(lambda status: status.memory_used == 0, 'memory is not given back')
        again = client.open('train', transforms=FLOAT, batch_size=256, depth=4)
        assert len(all_rows(again)[2]) == 300
    daemon.wait_idle()


def test_memory_of_reasons(start_daemon, grey_folder):
    """Why rows are bad may take 255 bytes each, of 256 rows of a batch; that is memory, too."""
    daemon = start_daemon({'train': grey_folder}, settle=True)
    used = {}
    for policy in (pb.ON_BAD_SAMPLE_ERROR, pb.ON_BAD_SAMPLE_MASK, pb.ON_BAD_SAMPLE_REPLACE):
        for size in (64, 300):
            with daemon.client() as client:
                client.open('train', dtype=pb.DTYPE_U8, batch_size=size, depth=4,
                            on_bad_sample=policy)
                used[policy, size] = client.status().memory_used
            daemon.wait_idle()
    for policy in (pb.ON_BAD_SAMPLE_MASK, pb.ON_BAD_SAMPLE_REPLACE):
        for size, rows in ((64, 64), (300, 256)):
            more = used[policy, size] - used[pb.ON_BAD_SAMPLE_ERROR, size]
            assert 4 * rows * 255 <= more <= 4 * rows * 512


def test_memory_of_many_streams(start_daemon, grey_folder):
    """Streams fill the limit, one too many is refused, and all of it comes back."""
    daemon = start_daemon({'train': grey_folder}, memory='4M', settle=True)
    with daemon.client() as client, daemon.client() as other:
        streams = []
        with pytest.raises(ServerError) as caught:
            while len(streams) < 16:
                streams.append(client.open('train', transforms=FLOAT, depth=4))
        assert caught.value.code == pb.ERROR_MEMORY and streams
        with pytest.raises(ServerError):
            other.open('train', transforms=FLOAT, depth=4)
        for stream in streams:
            assert len(all_rows(stream)[2]) == 300
    daemon.wait_idle()


def test_huge_requests_are_refused(start_daemon, grey_folder):
    """Products that overflow or exceed everything are errors of the request, with a reason."""
    daemon = start_daemon({'train': grey_folder}, memory='64M', settle=True)
    with daemon.client() as client:
        for payload in (pb.PAYLOAD_SHARED, pb.PAYLOAD_INLINE):
            with pytest.raises(ServerError) as caught:
                client.open('train', transforms=FLOAT, batch_size=65536, depth=256,
                            payload=payload)
            assert caught.value.code in (pb.ERROR_MEMORY, pb.ERROR_LIMIT)
            assert not caught.value.closing
    daemon.wait_idle()


def test_inline_batch_over_the_limit(start_daemon, scratch):
    """An inline batch that could exceed Welcome.max_inline_frame is refused at Open."""
    make_data.write_folder(f'{scratch}/data', make_data.pixels(2, (600, 600)), 1)
    daemon = start_daemon({'big': f'{scratch}/data'}, memory='4G', settle=True)
    with daemon.client() as client:
        assert client.welcome.max_inline_frame == 256 << 20
        with pytest.raises(ServerError) as caught:
            client.open('big', transforms=FLOAT, batch_size=200, depth=1,
                        payload=pb.PAYLOAD_INLINE)  # 288 MB
        assert caught.value.code == pb.ERROR_LIMIT, caught.value
        stream = client.open('big', transforms=FLOAT, batch_size=2, payload=pb.PAYLOAD_INLINE)
        assert len(all_rows(stream)[2]) == 2
    daemon.wait_idle()


def test_arena_outlives_the_daemon(start_daemon, grey_folder):
    """What a client holds stays readable after the daemon has gone."""
    daemon = start_daemon({'train': grey_folder})
    with daemon.client() as client:
        stream = client.open('train', transforms=FLOAT)
        batch = stream.next()
        daemon.terminate()
        table, pixels = stream.slot_views(batch.slot)
        assert (pixels == batch.images).all() and (table['sample'] == batch.samples).all()


def test_private_memory_of_workers(start_daemon, large_folder):
    """No names in /dev/shm, one descriptor per stream."""
    daemon = start_daemon({'train': large_folder}, settle=True)
    before = set(os.listdir('/dev/shm'))
    with daemon.client() as client:
        base = daemon.descriptors()
        streams = [client.open('train', transforms=FLOAT) for _ in range(8)]
        assert daemon.descriptors() <= base + 2 * 8
        for stream in streams:
            all_rows(stream)
    new = {name for name in set(os.listdir('/dev/shm')) - before if 'stok' in name}
    assert not new
    daemon.wait_idle()
