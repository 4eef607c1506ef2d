# SPDX-License-Identifier: Apache-2.0
"""Clients that break the protocol: each loses its own connection, with a reason, and no more."""

import os
import platform
import re
import socket
import time

import numpy as np
import pytest

from client import FLOAT, GUARD, HEADER, ROOT, Client, ServerError, all_rows, pb
from reference import epoch_order


@pytest.fixture
def daemon(start_daemon, grey_folder):
    """A daemon with a well-behaved client in the middle of an epoch, which must not notice."""
    daemon = start_daemon({'train': grey_folder}, settle=True)
    with daemon.client() as client:
        stream = client.open('train', transforms=FLOAT, shuffle=True)
        rows = iter(stream.batches())
        samples = [next(rows).samples]
        yield daemon
        samples += [batch.samples for batch in rows]
        np.testing.assert_array_equal(np.concatenate(samples), epoch_order(300))
    daemon.wait_idle()


def raw(daemon, hello=False):
    return Client(daemon.socket_path, hello=hello)


def frame(**message):
    payload = pb.ClientMessage(**message).SerializeToString()
    return HEADER.pack(len(payload), 0, 0) + payload


HELLO = pb.Hello(protocol=1, client='pytest', takes_fds=True)


BAD_FRAMES = {
    'length 0xffffffff': b'\xff\xff\xff\xff\0\0\0\0',
    'length 0xffffffff and more': b'\xff\xff\xff\xff\0\0\0\0' + b'x' * 100000,
    'one byte over 64 KiB': HEADER.pack((64 << 10) + 1, 0, 0),
    'empty payload': HEADER.pack(0, 0, 0),
    'reserved bits': HEADER.pack(2, 0, 1) + b'xx',
    'two descriptors announced': HEADER.pack(2, 2, 0) + b'xx',
    'a descriptor announced and not sent': HEADER.pack(2, 1, 0) + b'xx',
    'garbage protobuf': HEADER.pack(8, 0, 0) + b'\xff' * 8,
    'cut protobuf': HEADER.pack(2, 0, 0) + b'\x0a\x20',
    'no message inside': HEADER.pack(3, 0, 0) + b'\xf8\x07\x01',
    'HTTP': b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n',
    'zeros': b'\0' * 4096,
    'a server message': HEADER.pack(4, 0, 0) + b'\x52\x02\x08\x01',
    'invalid UTF-8 in a string': HEADER.pack(6, 0, 0) + b'\x0a\x04\x12\x02\xff\xfe',
}


@pytest.mark.parametrize('greeted', [False, True], ids=['first', 'after Hello'])
@pytest.mark.parametrize('data', BAD_FRAMES.values(), ids=BAD_FRAMES.keys())
def test_bad_frames(daemon, data, greeted):
    with raw(daemon, hello=greeted) as client:
        try:
            client.send_bytes(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the daemon has seen enough
        error = client.final_error()
        assert error.code in (pb.ERROR_PROTOCOL, pb.ERROR_VERSION, pb.ERROR_BAD_REQUEST)


def test_thousands_of_empty_submessages(daemon):
    """What makes protobuf-c allocate most: refused or not, memory stays small."""
    with raw(daemon, hello=True) as client:
        client.send_payload(b'\x12\x02\x22\x00' * 16000)  # Open with an empty Transform
        client.send_payload(b'\x12\x80\x7d' + b'\x22\x00' * 8000)  # with 8,000 of them
        client.send(status=pb.StatusRequest(request=7))
        kind, message = client.wait(lambda k, m: k == 'status' or k == 'error')
        assert kind == 'error' and message.code in (pb.ERROR_BAD_REQUEST, pb.ERROR_PROTOCOL,
                                                    pb.ERROR_UNKNOWN_DATASET)


def test_frames_byte_by_byte(daemon):
    """However a frame is cut, it is the same frame."""
    with raw(daemon) as client:
        for byte in frame(hello=HELLO):
            client.send_bytes(bytes([byte]))
        assert client.read()[0] == 'welcome'
        open_ = pb.Open(request=9, dataset=b'train', batch_size=100, dtype=pb.DTYPE_U8, epochs=1)
        for byte in frame(open=open_):
            client.send_bytes(bytes([byte]))
        assert client.answer(9, 'opened').epoch_batches == 3


def test_many_frames_in_one_write(daemon):
    with raw(daemon) as client:
        client.send_bytes(frame(hello=HELLO) + b''.join(
            frame(status=pb.StatusRequest(request=i)) for i in range(1, 200)))
        assert client.read()[0] == 'welcome'
        for i in range(1, 200):
            assert client.read()[1].request == i


def test_many_opens_in_one_write(daemon):
    """As many as there may be are opened; each of the others is refused by its number."""
    with raw(daemon, hello=True) as client:
        client.send_bytes(b''.join(frame(open=pb.Open(
            request=i, dataset=b'train', batch_size=4, dtype=pb.DTYPE_U8, epochs=1,
            payload=pb.PAYLOAD_INLINE)) for i in range(1, 101)))
        answers = {}
        while len(answers) < 100:
            kind, message = client.wait(lambda kind, _: kind in ('opened', 'error'))
            answers[message.request] = kind if kind == 'opened' else message.code
        assert sorted(answers) == list(range(1, 101))
        assert list(answers.values()).count('opened') == 16
        assert list(answers.values()).count(pb.ERROR_LIMIT) == 84


@pytest.mark.parametrize('length', [1, 4, 7, 8, 9, 20])
def test_truncated_frame(daemon, length):
    """A client that goes away in the middle of a frame costs nothing."""
    with raw(daemon) as client:
        client.send_bytes(frame(hello=HELLO)[:length])


def test_half_closed_socket(daemon):
    """A client that shuts down its writing side is gone."""
    with raw(daemon, hello=True) as client:
        client.socket.shutdown(socket.SHUT_WR)
        client.read_until_closed()


@pytest.mark.parametrize('version', [0, 2, 0xffffffff])
def test_wrong_version(daemon, version):
    with raw(daemon) as client:
        client.send(hello=pb.Hello(protocol=version, client='future'))
        error = client.final_error()
        assert error.code == pb.ERROR_VERSION
        assert '1' in error.text


@pytest.mark.parametrize('message', [
    dict(open=pb.Open(request=1, dataset=b'train', batch_size=64, dtype=pb.DTYPE_U8)),
    dict(release=pb.Release(stream=1)), dict(seek=pb.Seek(stream=1)),
    dict(close=pb.Close(stream=1)), dict(status=pb.StatusRequest(request=1)),
], ids=lambda message: next(iter(message)))
def test_anything_before_hello(daemon, message):
    with raw(daemon) as client:
        client.send(**message)
        assert client.final_error().code == pb.ERROR_PROTOCOL


def test_hello_twice(daemon):
    with raw(daemon, hello=True) as client:
        client.send(hello=HELLO)
        assert client.final_error().code == pb.ERROR_PROTOCOL


def test_long_client_name(daemon):
    with raw(daemon) as client:
        client.send(hello=pb.Hello(protocol=1, client='n' * 65))
        error = client.final_error()
        assert error.code in (pb.ERROR_PROTOCOL, pb.ERROR_BAD_REQUEST)


def test_hostile_client_name(daemon):
    """Terminal escapes in a name do not reach the log as such."""
    with raw(daemon) as client:
        client.hello(name='evil\x1b[31m\nerror: fake')
        client.status()
    assert '\x1b' not in daemon.log.text()
    assert not daemon.log.matches('^error: fake')


@pytest.mark.parametrize('change', ['slot', 'generation', 'twice', 'never lent'])
def test_release_of_what_is_not_lent(daemon, change):
    with raw(daemon, hello=True) as client:
        stream = client.open('train', dtype=pb.DTYPE_U8, depth=2, epochs=0)
        batch = stream.next()
        slot, generation = batch.slot, batch.generation
        if change == 'slot':
            slot = 77
        elif change == 'generation':
            generation += 1
        elif change == 'never lent':
            slot, generation = 0xffffffff, 0xffffffff
        else:
            stream.release(batch)
        client.send(release=pb.Release(stream=stream.id, slot=slot, generation=generation))
        messages = client.read_until_closed()
        assert messages[-1][0] == 'error' and messages[-1][1].closing
        assert messages[-1][1].code == pb.ERROR_PROTOCOL


def test_release_after_the_end_is_ignored(daemon):
    """A Release may cross a Closed on its way; it means nothing then."""
    with raw(daemon, hello=True) as client:
        stream = client.open('train', dtype=pb.DTYPE_U8)
        batch = stream.next()
        stream.close()
        stream.release(batch)
        assert client.status().clients == 2


@pytest.mark.parametrize('kind', ['seek', 'close', 'release'])
def test_a_stream_that_never_was(daemon, kind):
    with raw(daemon, hello=True) as client:
        message = {'seek': pb.Seek(request=3, stream=99, cursor=pb.Cursor(world=1)),
                   'close': pb.Close(request=3, stream=99), 'release': pb.Release(stream=99)}[kind]
        client.send(**{kind: message})
        assert client.final_error().code == pb.ERROR_PROTOCOL


def test_a_stream_that_has_ended(daemon):
    """Requests may cross its end on their way: Seek is refused, Close is answered again."""
    with raw(daemon, hello=True) as client:
        stream = client.open('train', dtype=pb.DTYPE_U8)
        cursor = stream.next().cursor
        stream.close()
        with pytest.raises(ServerError) as caught:
            stream.seek(cursor)
        assert caught.value.code == pb.ERROR_UNKNOWN_STREAM and not caught.value.closing
        stream.close()
        client.status()


def test_seek_without_cursor(daemon):
    with raw(daemon, hello=True) as client:
        stream = client.open('train', dtype=pb.DTYPE_U8)
        client.send(seek=pb.Seek(request=3, stream=stream.id))
        with pytest.raises(ServerError) as caught:
            client.answer(3, 'sought')
        assert caught.value.code in (pb.ERROR_CURSOR, pb.ERROR_BAD_REQUEST, pb.ERROR_PROTOCOL)


def test_shared_payload_without_fds(daemon):
    """Who cannot take descriptors gets inline by default and is refused when asking for shared."""
    with Client(daemon.socket_path, takes_fds=False) as client:
        stream = client.open('train', transforms=FLOAT)
        assert stream.opened.payload == pb.PAYLOAD_INLINE and not stream.opened.arena_bytes
        assert len(all_rows(stream)[2]) == 300
        with pytest.raises(ServerError) as caught:
            client.open('train', transforms=FLOAT, payload=pb.PAYLOAD_SHARED)
        assert caught.value.code == pb.ERROR_BAD_REQUEST


@pytest.mark.parametrize('announced', [0, 1])
@pytest.mark.parametrize('count', [1, 2, 50])
def test_descriptors_from_a_client(daemon, count, announced):
    """Nobody asked for them: Linux 6.16 and later do not take them, else they are closed, all of them."""
    before = daemon.descriptors()
    read_end, write_end = os.pipe()
    with raw(daemon, hello=True) as client:
        payload = pb.ClientMessage(status=pb.StatusRequest(request=5)).SerializeToString()
        try:
            client.send_bytes(HEADER.pack(len(payload), announced, 0) + payload, [write_end] * count)
        except PermissionError:
            assert tuple(map(int, platform.release().split('.')[:2])) >= (6, 16)
        os.close(write_end)
        # Every copy of the writing end being closed is what ends this read, an event.
        os.set_blocking(read_end, True)
        assert os.read(read_end, 1) == b''
        os.close(read_end)
    daemon.wait_until(lambda status: daemon.descriptors() <= before + 1, 'a descriptor stayed')


def test_flood_of_descriptors(daemon):
    """Partial frames with descriptors do not pile up."""
    with raw(daemon, hello=True) as client:
        payload = pb.ClientMessage(status=pb.StatusRequest(request=5)).SerializeToString()
        data = HEADER.pack(len(payload), 0, 0) + payload
        null = os.open('/dev/null', os.O_RDONLY)
        try:
            for byte in data:
                client.send_bytes(bytes([byte]), [null])
            client.read()
        except (OSError, AssertionError):
            pass
        finally:
            os.close(null)
        assert daemon.descriptors() < daemon.base_fds + 20


def test_client_that_never_reads_answers(daemon):
    """Requests without end from a client that reads nothing: its queue is bounded."""
    with raw(daemon, hello=True) as client:
        client.socket.settimeout(GUARD)
        client.socket.setblocking(False)
        data = frame(status=pb.StatusRequest(request=1)) * 100
        end = time.monotonic() + 1
        sent = 0
        try:
            while time.monotonic() < end and sent < 50 << 20:
                sent += client.socket.send(data)
        except BlockingIOError:
            pass  # back-pressure: the daemon stopped reading
        except (BrokenPipeError, ConnectionResetError):
            pass  # or it has closed the connection
        rss = [line for line in open(f'/proc/{daemon.pid}/status') if line.startswith('VmRSS')]
        assert int(rss[0].split()[1]) < 1 << 20, 'over 1 GiB'
        with daemon.client() as other:
            assert other.status().pid == daemon.pid


def test_biggest_frame_is_taken(daemon):
    """64 KiB exactly is within the limit: the request is refused, the connection lives."""
    with raw(daemon, hello=True) as client:
        def message(n):
            return pb.ClientMessage(open=pb.Open(request=6, dataset=b'x' * n, batch_size=1))
        n = (64 << 10) - len(message(60000).SerializeToString()) + 60000
        client.send_payload(message(n).SerializeToString())
        with pytest.raises(ServerError) as caught:
            client.answer(6, 'opened')
        assert not caught.value.closing and len(caught.value.text) < 1000


def test_unknown_fields_are_ignored(daemon):
    """A newer client may say more than we know."""
    with raw(daemon) as client:
        payload = pb.ClientMessage(hello=HELLO).SerializeToString()
        inner = HELLO.SerializeToString() + b'\xfa\x07\x03abc'
        payload = b'\x0a' + bytes([len(inner)]) + inner
        client.send_payload(payload)
        assert client.read()[0] == 'welcome'


def test_random_messages(daemon):
    """Mutations of valid frames: the daemon answers or closes, and serves others."""
    rng = np.random.RandomState(0)
    valid = [frame(open=pb.Open(request=2, dataset=b'train', batch_size=64, transforms=FLOAT,
                                epochs=1, depth=2, start=pb.Cursor(world=1))),
             frame(seek=pb.Seek(request=3, stream=1, cursor=pb.Cursor(epoch=1, world=1))),
             frame(release=pb.Release(stream=1, slot=0, generation=1)),
             frame(close=pb.Close(request=4, stream=1))]
    for _ in range(150):
        with raw(daemon, hello=True) as client:
            try:
                for data in valid:
                    data = bytearray(data)
                    for _ in range(rng.randint(3)):
                        data[rng.randint(8, len(data))] = rng.randint(256)
                    client.send_bytes(bytes(data))
                client.socket.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError, OSError):
                pass
            client.read_until_closed()


def test_examples_of_the_page():
    """The bytes in proto/PROTOCOL.md are what they are said to be."""
    page = (ROOT / 'proto/PROTOCOL.md').read_text()
    blocks = [block for block in page.split('```')[1::2]
              if re.match(r'\n([0-9a-f]{2} ){4}', block)]
    frames = []
    for block in blocks:
        text = ' '.join(re.match(r' *((?:[0-9a-f]{2} {0,2}\b)*)', line).group(1)
                        for line in block.splitlines())
        frames.append(bytes.fromhex(text))
    assert len(frames) == 3
    payloads = []
    for data in frames:
        assert HEADER.unpack(data[:8]) == (len(data) - 8, 0, 0)
        payloads.append(data[8:])
    hello, release = pb.ClientMessage(), pb.ClientMessage()
    welcome = pb.ServerMessage()
    for message, payload in zip((hello, welcome, release), payloads):
        message.ParseFromString(payload)
        assert message.SerializeToString() == payload
    assert hello.hello == pb.Hello(protocol=1, client='test', takes_fds=True)
    assert welcome.welcome.max_client_frame == 64 << 10
    assert release.release == pb.Release(stream=1, slot=2, generation=3)
