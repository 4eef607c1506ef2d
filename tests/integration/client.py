# SPDX-License-Identifier: Apache-2.0
"""A client of stokerd in plain Python: Google's protobuf, a socket and mmap.

It shares no code with the C side, so it proves that proto/PROTOCOL.md is enough to talk to stokerd.

    with Client(socket_path) as client:
        stream = client.open('train', batch_size=64, transforms=FLOAT, shuffle=True)
        for batch in stream.batches():      # until the last EpochEnd; released one by one
            batch.images, batch.labels, batch.samples
"""

import atexit
import fcntl
import importlib.util
import mmap
import os
import shutil
import socket
import struct
import subprocess
import tempfile
from collections import deque
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]

# Seconds after which something that never happens fails its test. Nothing waits for it otherwise.
GUARD = 60.0


def _load_schema():
    folder = tempfile.mkdtemp(prefix='stoker-pb.')
    atexit.register(shutil.rmtree, folder, True)
    subprocess.run(['protoc', f'--proto_path={ROOT}/proto', f'--python_out={folder}',
                    'stoker.proto'], check=True)
    spec = importlib.util.spec_from_file_location('stoker_pb2', f'{folder}/stoker_pb2.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pb = _load_schema()

HEADER = struct.Struct('<IHH')
ARENA_HEADER = struct.Struct('<QIIQQQQII')
ARENA_MAGIC = int.from_bytes(b'STKARENA', 'little')
ROW_TYPE = np.dtype([('sample', '<u8'), ('label', '<i4'), ('status', '<u4')])
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL

# NumPy has no bfloat16: bits.
NUMPY_DTYPE = {pb.DTYPE_U8: np.dtype('u1'), pb.DTYPE_F16: np.dtype('<f2'),
               pb.DTYPE_BF16: np.dtype('<u2'), pb.DTYPE_F32: np.dtype('<f4'),
               pb.DTYPE_F64: np.dtype('<f8')}


def grayscale(channels=1):
    return pb.Transform(grayscale=pb.Grayscale(num_output_channels=channels))


def to_tensor():
    return pb.Transform(to_tensor=pb.ToTensor())


def normalize(mean=(0.5,), std=(0.5,)):
    return pb.Transform(normalize=pb.Normalize(mean=mean, std=std))


# The pipeline of the seed's experiment.
FLOAT = (grayscale(), to_tensor(), normalize())


class ServerError(Exception):
    """An Error from the daemon."""

    def __init__(self, error):
        super().__init__(f'{pb.ErrorCode.Name(error.code)}: {error.text}')
        self.code = error.code
        self.text = error.text
        self.request = error.request
        self.stream = error.stream
        self.closing = error.closing


class Disconnected(Exception):
    """The daemon closed the connection."""


class Client:
    """One connection. Messages that nobody waits for yet stay queued, in order."""

    def __init__(self, path, name='pytest', takes_fds=True, hello=True, guard=GUARD):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(guard)
        self.fds = deque()
        self.queue = deque()
        self.requests = 0
        self.streams = []
        self.welcome = None
        try:
            self.socket.connect(str(path))
            if hello:
                self.hello(name, takes_fds)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for stream in self.streams:
            stream.unmap()
        while self.fds:
            os.close(self.fds.popleft())
        self.socket.close()

    # ---- frames ----

    def send_bytes(self, data, fds=()):
        if fds:
            sent = socket.send_fds(self.socket, [data], fds)
            data = data[sent:]
        if data:
            self.socket.sendall(data)

    def send_payload(self, payload):
        self.send_bytes(HEADER.pack(len(payload), 0, 0) + payload)

    def send(self, **message):
        """send(hello=pb.Hello(...)): one ClientMessage."""
        self.send_payload(pb.ClientMessage(**message).SerializeToString())

    def _read_exactly(self, length):
        chunks = bytearray()
        while len(chunks) < length:
            try:
                data, fds, flags, _ = socket.recv_fds(self.socket, min(length - len(chunks),
                                                                       1 << 20), 4)
            except ConnectionResetError as error:
                raise Disconnected(str(error)) from None
            self.fds.extend(fds)
            assert not flags & socket.MSG_CTRUNC, 'a descriptor was lost'
            if not data:
                raise Disconnected(f'{len(chunks)} of {length} bytes')
            chunks += data
        return bytes(chunks)

    def read(self):
        """The next message from the wire: (kind, message)."""
        length, fds, zero = HEADER.unpack(self._read_exactly(HEADER.size))
        assert zero == 0 and length > 0, (length, fds, zero)
        message = pb.ServerMessage()
        message.ParseFromString(self._read_exactly(length))
        kind = message.WhichOneof('message')
        assert kind, 'an empty ServerMessage'
        assert fds == (1 if kind == 'opened' and message.opened.payload == pb.PAYLOAD_SHARED
                       else 0), (kind, fds)
        assert len(self.fds) >= fds
        return kind, getattr(message, kind)

    def wait(self, wanted):
        """The first message, queued or new, for which wanted(kind, message) holds."""
        for entry in self.queue:
            if wanted(*entry):
                self.queue.remove(entry)
                return entry
        while True:
            entry = self.read()
            if wanted(*entry):
                return entry
            self.queue.append(entry)

    def read_until_closed(self):
        """Everything up to the end of the connection, as (kind, message)."""
        messages = list(self.queue)
        self.queue.clear()
        try:
            while True:
                messages.append(self.read())
        except Disconnected:
            return messages

    def final_error(self):
        """The Error with which the daemon closes this connection."""
        messages = self.read_until_closed()
        assert messages and messages[-1][0] == 'error', messages
        error = messages[-1][1]
        assert error.closing and error.text, error
        return error

    # ---- requests ----

    def hello(self, name='pytest', takes_fds=True, protocol=1):
        self.send(hello=pb.Hello(protocol=protocol, client=name, takes_fds=takes_fds))
        kind, message = self.wait(lambda kind, _: kind in ('welcome', 'error'))
        if kind == 'error':
            raise ServerError(message)
        self.welcome = message
        return message

    def next_request(self):
        self.requests += 1
        return self.requests

    def answer(self, request, kind):
        got, message = self.wait(lambda k, m: k in (kind, 'error') and m.request == request
                                 or k == 'error' and m.closing)
        if got == 'error':
            raise ServerError(message)
        return message

    def send_open(self, dataset, **options):
        request = self.next_request()
        if isinstance(dataset, str):
            dataset = dataset.encode()
        options.setdefault('batch_size', 64)
        options.setdefault('epochs', 1)
        self.send(open=pb.Open(request=request, dataset=dataset, **options))
        return request

    def open(self, dataset='train', **options):
        request = self.send_open(dataset, **options)
        opened = self.answer(request, 'opened')
        return Stream(self, opened, options.get('batch_size', 64),
                      options.get('on_bad_sample', pb.ON_BAD_SAMPLE_ERROR))

    def status(self):
        request = self.next_request()
        self.send(status=pb.StatusRequest(request=request))
        return self.answer(request, 'status')

    def list_classes(self, dataset, first=0):
        request = self.next_request()
        self.send(list_classes=pb.ListClasses(request=request, dataset=dataset, first=first))
        return self.answer(request, 'classes')

    def list_samples(self, dataset, first=0, count=0):
        request = self.next_request()
        self.send(list_samples=pb.ListSamples(request=request, dataset=dataset, first=first,
                                              count=count))
        return self.answer(request, 'samples')


class Batch:
    """A batch as it lies in shared memory or came in the message; arrays are copies."""

    def __init__(self, stream, message):
        self.stream = stream
        self.epoch = message.epoch
        self.step = message.step
        self.rows = message.rows
        self.slot = message.slot
        self.generation = message.generation
        self.cursor = message.cursor
        self.message = message
        if stream.memory is not None:
            assert not message.data and not message.samples and not message.labels
            table, pixels = stream.slot_views(self.slot)
            self.samples = table['sample'][:self.rows].copy()
            self.labels = table['label'][:self.rows].copy()
            self.statuses = table['status'][:self.rows].copy()
            assert not message.statuses
            self.images = pixels[:self.rows].copy()
        else:
            self.samples = np.array(message.samples, dtype='u8')
            self.labels = np.array(message.labels, dtype='i4')
            self.statuses = np.array(message.statuses or [pb.ROW_OK] * self.rows, dtype='u4')
            assert len(message.statuses) == (self.rows if message.bad else 0)
            # Exactly the valid rows: nothing else, stale or not, crosses the socket.
            self.images = np.frombuffer(message.data, stream.dtype).reshape(
                (self.rows, *stream.shape))
        assert len(self.samples) == len(self.labels) == len(self.statuses) == self.rows
        assert message.bad == np.count_nonzero(self.statuses)
        assert message.bad == 0 or stream.on_bad_sample != pb.ON_BAD_SAMPLE_ERROR
        # Why rows are bad, of the first of them.
        explained = [row.row for row in message.bad_row]
        assert explained == list(np.flatnonzero(self.statuses)[:256])
        assert all(row.text and row.reason for row in message.bad_row)


class Stream:
    """One open stream of a Client."""

    def __init__(self, client, opened, batch_size, on_bad_sample=pb.ON_BAD_SAMPLE_ERROR):
        self.client = client
        self.opened = opened
        self.id = opened.stream
        self.batch_size = batch_size
        self.on_bad_sample = on_bad_sample
        self.shape = tuple(opened.shape)
        self.dtype = NUMPY_DTYPE[opened.dtype]
        self.fd = -1
        self.memory = None
        client.streams.append(self)
        if opened.payload == pb.PAYLOAD_SHARED:
            self.fd = client.fds.popleft()
            self._map()

    def _map(self):
        """Check seals, size and geometry, then map: nothing here may be taken on trust."""
        opened = self.opened
        assert fcntl.fcntl(self.fd, fcntl.F_GET_SEALS) & SEALS == SEALS
        assert os.fstat(self.fd).st_size == opened.arena_bytes
        assert opened.row_bytes == int(np.prod(self.shape)) * self.dtype.itemsize
        assert opened.tensor_offset >= self.batch_size * ROW_TYPE.itemsize
        assert opened.slot_stride >= opened.tensor_offset + self.batch_size * opened.row_bytes
        assert (opened.slots_offset + opened.slots * opened.slot_stride) <= opened.arena_bytes
        assert opened.tensor_offset % 4096 == opened.slots_offset % 4096 == 0
        assert opened.slot_stride % 4096 == 0
        self.memory = mmap.mmap(self.fd, opened.arena_bytes, mmap.MAP_SHARED, mmap.PROT_READ)
        assert ARENA_HEADER.unpack_from(self.memory) == (
            ARENA_MAGIC, 1, opened.slots, opened.slots_offset, opened.slot_stride,
            opened.tensor_offset, opened.row_bytes, self.batch_size, 0)

    def unmap(self):
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        if self.memory is not None:
            try:
                self.memory.close()
            except BufferError:
                pass  # a test still holds a view; it goes with the last reference
            self.memory = None

    def slot_views(self, slot):
        """(row table, pixels) of a slot, views into the shared memory."""
        assert slot < self.opened.slots
        start = self.opened.slots_offset + slot * self.opened.slot_stride
        table = np.frombuffer(self.memory, ROW_TYPE, self.batch_size, start)
        pixels = np.frombuffer(self.memory, self.dtype,
                               self.batch_size * int(np.prod(self.shape)),
                               start + self.opened.tensor_offset)
        return table, pixels.reshape((self.batch_size, *self.shape))

    def event(self):
        """The next ('batch', Batch) or ('epoch_end', EpochEnd); ServerError when it has ended."""
        kind, message = self.client.wait(
            lambda k, m: k in ('batch', 'epoch_end', 'error') and m.stream == self.id
            or k == 'error' and m.closing)
        if kind == 'error':
            raise ServerError(message)
        return kind, Batch(self, message) if kind == 'batch' else message

    def next(self):
        """The next batch; there must be one."""
        kind, batch = self.event()
        assert kind == 'batch', batch
        return batch

    def release(self, batch, generation=None):
        self.client.send(release=pb.Release(
            stream=self.id, slot=batch.slot,
            generation=batch.generation if generation is None else generation))

    def batches(self):
        """All batches up to the last EpochEnd, checked for their sequence and released."""
        epoch, step = None, 0
        while True:
            kind, event = self.event()
            if epoch is None:
                epoch = event.epoch
                step = event.step if kind == 'batch' else 0
            assert event.epoch == epoch
            if kind == 'batch':
                assert event.step == step and 1 <= event.rows <= self.batch_size
                step += 1
                yield event
                self.release(event)
            else:
                assert step == self.opened.epoch_batches
                if event.last:
                    return
                epoch, step = epoch + 1, 0

    def seek(self, cursor):
        """Go on at `cursor`. Batches sent before Sought are released and forgotten."""
        request = self.client.next_request()
        self.client.send(seek=pb.Seek(request=request, stream=self.id, cursor=cursor))
        self.client.answer(request, 'sought')
        old = [entry for entry in self.client.queue
               if entry[0] in ('batch', 'epoch_end') and entry[1].stream == self.id]
        for entry in old:
            self.client.queue.remove(entry)
            if entry[0] == 'batch':
                self.client.send(release=pb.Release(
                    stream=self.id, slot=entry[1].slot, generation=entry[1].generation))

    def close(self):
        request = self.client.next_request()
        self.client.send(close=pb.Close(request=request, stream=self.id))
        self.client.answer(request, 'closed')
        self.unmap()


def all_rows(stream):
    """(images, labels, samples) of everything that the stream still delivers."""
    got = [(b.images, b.labels, b.samples) for b in stream.batches()]
    return tuple(np.concatenate(part) for part in zip(*got))
