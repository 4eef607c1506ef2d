# SPDX-License-Identifier: Apache-2.0
"""Workers that die, for whatever reason: batches stay complete, in order and identical."""

import contextlib
import os
import re
import signal

import numpy as np
import pytest

from client import FLOAT, ServerError, all_rows, grayscale, pb
from daemon import children, read_proc, wait_pid_gone
from reference import epoch_order, folder_pixels, folder_samples, nchw, to_float


@pytest.fixture(scope='session')
def large_reference(large_folder):
    images, labels = folder_pixels(large_folder, grey=True)
    return nchw(to_float(images)), labels


def check_batch(batch, reference, order):
    images, labels = reference
    expected = order[batch.step * 64:(batch.step + 1) * 64]
    np.testing.assert_array_equal(batch.samples, expected)
    np.testing.assert_array_equal(batch.labels, labels[expected])
    np.testing.assert_array_equal(batch.images, images[expected])


@pytest.mark.parametrize('payload', [pb.PAYLOAD_SHARED, pb.PAYLOAD_INLINE],
                         ids=['shared', 'inline'])
@pytest.mark.parametrize('workers', [1, 2, 4])
def test_kill_workers_during_an_epoch(start_daemon, large_folder, large_reference, workers,
                                      payload):
    """kill -9 of a worker at every fifth batch; status and log tell of each."""
    daemon = start_daemon({'train': large_folder}, workers=workers, settle=True)
    order = epoch_order(3000, seed=3)
    killed = []
    with daemon.client() as client:
        stream = client.open('train', transforms=FLOAT, shuffle=True, seed=3, payload=payload)
        for i, batch in enumerate(stream.batches()):
            check_batch(batch, large_reference, order)
            if i % 5 == 0:
                alive = [w.pid for w in client.status().worker if w.pid and w.pid not in killed]
                if alive:
                    killed.append(alive[i // 5 % len(alive)])
                    os.kill(killed[-1], signal.SIGKILL)
    assert i == 46 and killed
    for pid in killed:
        daemon.log.wait(rf'\b{pid}\b.*SIGKILL')
    status = daemon.wait_idle()
    assert status.worker_deaths == len(killed)
    # The pool is back at its size, with other processes, and no file was blamed.
    assert len(status.worker) == status.workers == workers
    assert not {w.pid for w in status.worker} & set(killed)
    assert not daemon.log.matches('quarantin')


def test_kill_all_workers_at_once(start_daemon, large_folder, large_reference):
    daemon = start_daemon({'train': large_folder}, workers=3, settle=True)
    order = epoch_order(3000, seed=4)
    with daemon.client() as client:
        stream = client.open('train', transforms=FLOAT, shuffle=True, seed=4)
        for i, batch in enumerate(stream.batches()):
            check_batch(batch, large_reference, order)
            if i in (3, 20):
                for worker in client.status().worker:
                    os.kill(worker.pid, signal.SIGKILL)
    assert daemon.wait_idle().worker_deaths >= 3


def test_kill_a_stopped_worker_at_work(start_daemon, large_folder, large_reference):
    """A worker that is surely in the middle of its jobs: stopped first, then killed."""
    daemon = start_daemon({'train': large_folder}, workers=2, settle=True)
    order = epoch_order(3000, seed=5)
    victim = daemon.workers()[0]
    os.kill(victim, signal.SIGSTOP)
    with daemon.client() as client:
        stream = client.open('train', transforms=FLOAT, shuffle=True, seed=5, depth=4)
        daemon.wait_until(lambda status: [w for w in status.worker
                                          if w.pid == victim and w.queued], 'no job queued')
        os.kill(victim, signal.SIGKILL)
        for batch in stream.batches():
            check_batch(batch, large_reference, order)
    daemon.log.wait(rf'\b{victim}\b.*SIGKILL')
    daemon.wait_idle()


def test_a_worker_that_dies_idle(start_daemon, grey_folder):
    daemon = start_daemon({'train': grey_folder}, workers=2, settle=True)
    victim = daemon.workers()[0]
    os.kill(victim, signal.SIGKILL)
    daemon.log.wait(rf'\b{victim}\b')
    status = daemon.wait_until(
        lambda status: status.worker_deaths == 1 and len(status.worker) == 2
        and victim not in [w.pid for w in status.worker], 'the pool is not full again')
    with daemon.client() as client:
        assert len(all_rows(client.open('train', transforms=FLOAT))[2]) == 300
    daemon.wait_idle()


def cpu_ticks(pid):
    """User and system time of a process so far, in ticks of 10 ms."""
    fields = read_proc(pid, 'stat').rpartition(b')')[2].split()
    return int(fields[11]) + int(fields[12]) if fields else 0


def wait_decoding(daemon, past):
    """Wait until the only worker, not one of `past`, is at work for 50 ms; returns its pid."""
    status = daemon.wait_until(lambda status: [
        w for w in status.worker if w.pid not in (0, *past) and w.queued], 'no job is out')
    pid = status.worker[0].pid
    begun = cpu_ticks(pid)
    daemon.wait_until(lambda status: cpu_ticks(pid) >= begun + 5, 'the worker does not work')
    return pid


# A signal that we send is not a finding of the sanitizer's.
NO_HANDLERS = 'handle_segv=0:handle_sigbus=0:handle_abort=0'


def open_slow(client):
    return client.open('slow', dtype=pb.DTYPE_U8, batch_size=1, depth=1,
                       transforms=[grayscale()])


@pytest.mark.xdist_group('slow picture')
@pytest.mark.parametrize('number', [signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT])
def test_a_file_that_crashes_two_workers(start_daemon, slow_folder, grey_folder, number):
    """Its stream ends with its name and the signal; other streams go on."""
    daemon = start_daemon({'slow': slow_folder, 'train': grey_folder}, workers=1,
                          env={'ASAN_OPTIONS': NO_HANDLERS})
    with daemon.client() as client:
        stream = open_slow(client)
        victims = []
        for _ in range(2):
            victims.append(wait_decoding(daemon, victims))
            os.kill(victims[-1], number)
            line, = daemon.log.wait(rf'\b{victims[-1]}\b.*{number.name}')
            assert 'slow.png' in line, line
        with pytest.raises(ServerError) as caught:
            stream.event()
        error = caught.value
        assert error.code == pb.ERROR_BAD_SAMPLE and error.stream == stream.id
        assert 'slow.png' in error.text and number.name in error.text, error.text
        assert len(all_rows(client.open('train', transforms=FLOAT))[2]) == 300
    daemon.settle().wait_idle()


@pytest.mark.xdist_group('slow picture')
def test_a_file_whose_workers_are_killed_is_not_blamed(start_daemon, slow_folder):
    """SIGKILL comes from outside (an operator, the OOM killer): the sample is tried again."""
    daemon = start_daemon({'slow': slow_folder}, workers=1)
    with daemon.client() as client:
        stream = open_slow(client)
        victims = []
        for _ in range(3):
            victims.append(wait_decoding(daemon, victims))
            os.kill(victims[-1], signal.SIGKILL)
            line, = daemon.log.wait(rf'\b{victims[-1]}\b.*SIGKILL')
            assert 'slow.png' in line, line
        batch = stream.next()
        assert batch.rows == 1 and batch.images.shape == (1, 1, 8000, 10000)
        assert (batch.images.min(), batch.images.max()) == (0, 3)


def is_confined(pid):
    return re.search(rb'^Seccomp:\s*2$', read_proc(pid, 'status'), re.M) is not None


def test_workers_are_sandboxed(start_daemon, grey_folder):
    """no_new_privs, a seccomp filter, no socket of the daemon's clients, a raised OOM score."""
    daemon = start_daemon({'train': grey_folder}, workers=2, settle=True)
    # One that has just started is listed before it has locked itself in; it gets no work until then.
    status = daemon.wait_until(lambda status: all(is_confined(w.pid) for w in status.worker),
                               'a worker is not confined')
    assert 'no_new_privs' in status.sandbox and 'seccomp' in status.sandbox, status.sandbox
    own_score = int(read_proc(daemon.pid, 'oom_score_adj'))
    for worker in status.worker:
        fields = dict(re.findall(r'^(\w+):\s*(.*)$', read_proc(worker.pid, 'status').decode(),
                                 re.M))
        assert fields['NoNewPrivs'] == '1'
        assert fields['Seccomp'] == '2'
        assert int(read_proc(worker.pid, 'oom_score_adj')) > own_score
        links = [os.readlink(f'/proc/{worker.pid}/fd/{fd}')
                 for fd in os.listdir(f'/proc/{worker.pid}/fd')]
        assert len([link for link in links if link.startswith('socket:')]) == 1, links
        assert not [link for link in links if 'eventpoll' in link or 'inotify' in link], links
    # The index worker has been killed by now, and may take a moment to be gone.
    daemon.wait_until(
        lambda status: sorted(w.pid for w in status.worker) == sorted(children(daemon.pid)),
        'stokerd has other children than its workers')


def test_workers_do_not_inherit_clients(start_daemon, grey_folder):
    """A worker that starts while clients are connected holds none of their sockets."""
    daemon = start_daemon({'train': grey_folder}, workers=1, settle=True)
    with daemon.client() as first, daemon.client() as second:
        first.open('train', dtype=pb.DTYPE_U8, epochs=0)
        victim = daemon.workers()[0]
        os.kill(victim, signal.SIGKILL)
        pid, = [w.pid for w in daemon.wait_until(
            lambda status: [w for w in status.worker if w.pid not in (0, victim)],
            'no new worker').worker]
        second.close()
        links = []
        for fd in os.listdir(f'/proc/{pid}/fd'):
            with contextlib.suppress(FileNotFoundError):  # it is at work, and closes what it has read
                links.append(os.readlink(f'/proc/{pid}/fd/{fd}'))
        assert len([link for link in links if link.startswith('socket:')]) == 1, links
    daemon.wait_idle()


def test_in_process_rendering(start_daemon, grey_folder):
    """--workers 0: no worker process at all, and a warning that says what it is for."""
    daemon = start_daemon({'train': grey_folder}, workers=0, settle=True)
    assert not daemon.workers()
    for indexer in children(daemon.pid):
        wait_pid_gone(indexer)
    with daemon.client() as client:
        stream = client.open('train', transforms=FLOAT, shuffle=True)
        assert not children(daemon.pid)
        np.testing.assert_array_equal(all_rows(stream)[2], epoch_order(300))
    assert daemon.log.matches('warning.*workers')
    daemon.wait_idle()


def test_more_workers_than_cpus(start_daemon, grey_folder):
    cpus = len(os.sched_getaffinity(0))
    daemon = start_daemon({'train': grey_folder}, workers=cpus + 3, settle=True)
    assert len(daemon.workers()) == cpus + 3
    assert len(daemon.log.matches('warning.*workers')) == 1
    with daemon.client() as client:
        assert len(all_rows(client.open('train', transforms=FLOAT))[2]) == 300


def test_many_files_use_many_workers(start_daemon, large_folder):
    """One batch is spread over the pool: every worker has rendered something."""
    daemon = start_daemon({'train': large_folder}, workers=3, settle=True)
    with daemon.client() as client:
        all_rows(client.open('train', transforms=FLOAT, batch_size=1024))
        status = client.status()
        assert all(worker.samples for worker in status.worker), status
        assert sum(worker.samples for worker in status.worker) >= len(
            folder_samples(large_folder))
