# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the integration tests: data sets made once, daemons made for each test.

Every test has its own daemon, socket and folder, so tests run in any number side by side
(pytest -n). They wait for events; client.GUARD only ends a test that would hang.
"""

import os
import shutil
import signal
import tempfile

import numpy as np
import pytest
from PIL import Image

import make_data
from daemon import STOKERD, Daemon


def pytest_configure(config):
    config.addinivalue_line('filterwarnings', 'ignore:Palette images with Transparency')
    config.addinivalue_line(
        'markers', 'xdist_group: tests of one name share a process, and what their fixtures make')
    # A shell starts what it puts into the background with SIGINT ignored, and programs pass that on.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def start_daemon():
    """start_daemon({name: path}, workers=2, ...) -> a running Daemon; all end with the test."""
    assert STOKERD.is_file(), f'{STOKERD} is not built; see tests/run'
    daemons = []

    def start(*args, settle=False, **options):
        daemons.append(Daemon(*args, **options))
        daemons[-1].start()
        return daemons[-1].settle() if settle else daemons[-1]

    start.daemons = daemons
    yield start
    errors = []
    for daemon in daemons:
        try:
            daemon.finish()
        except AssertionError as error:
            errors.append(str(error))
    assert not errors, '\n'.join(errors)


@pytest.fixture
def new_daemon(start_daemon):
    """Like start_daemon, but not started yet."""
    def make(*args, **options):
        start_daemon.daemons.append(Daemon(*args, **options))
        return start_daemon.daemons[-1]
    return make


@pytest.fixture(scope='session')
def data_root():
    """A folder that any user may read, unlike tmp_path."""
    folder = tempfile.mkdtemp(prefix='stk-data.', dir='/tmp')
    os.chmod(folder, 0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def scratch():
    """A short-named folder for one test that any user may read."""
    folder = tempfile.mkdtemp(prefix='stk.', dir='/tmp')
    os.chmod(folder, 0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope='session')
def grey_folder(data_root):
    """300 grey 28x28 PNG files in 10 classes; 300 = 4 x 64 + 44, so the last batch is short."""
    return make_data.write_folder(f'{data_root}/grey', make_data.pixels(300), 10)


@pytest.fixture(scope='session')
def rgb_folder(data_root):
    """67 RGB files, 33 x 21 (w x h), in 3 classes."""
    return make_data.write_folder(f'{data_root}/rgb', make_data.pixels(67, (21, 33, 3), 1), 3)


@pytest.fixture(scope='session')
def sizes_folder(data_root):
    """20 files of 5 sizes in 2 classes, grey and RGB."""
    sizes = [(40, 60), (61, 40), (33, 33), (20, 90), (64, 48)]
    images = [make_data.pixels(1, sizes[i % 5] + ((3,) if i % 3 else ()), seed=i)[0]
              for i in range(20)]
    return make_data.write_folder(f'{data_root}/sizes', images, 2)


@pytest.fixture(scope='session')
def many_folder(data_root):
    """1,500 pictures of 24 x 32, so that what is drawn for them can be counted."""
    return make_data.write_folder(f'{data_root}/many', make_data.pixels(1500, (24, 32)), 3)


@pytest.fixture(scope='session')
def mixed_folder(data_root):
    """A file of every PNG colour type and depth but 16-bit grey, all of one size."""
    return make_data.write_mixed_folder(f'{data_root}/mixed')


@pytest.fixture(scope='session')
def jpeg_folder(data_root):
    """Grey, RGB and CMYK JPEG files, baseline and progressive, and a PNG, all of one size."""
    return make_data.write_jpeg_folder(f'{data_root}/jpeg')


@pytest.fixture(scope='session')
def large_folder(data_root):
    """3,000 small files, so that an epoch lasts while a test does something to it."""
    return make_data.write_folder(f'{data_root}/large', make_data.pixels(3000, (8, 8), 2), 5)


@pytest.fixture(scope='session')
def slow_folder(data_root):
    """One picture that takes a good part of a second to decode."""
    noise = np.tile(np.random.RandomState(0).randint(0, 4, (1000, 1000)).astype(np.uint8), (8, 10))
    os.makedirs(f'{data_root}/slow/only')
    Image.fromarray(noise).save(f'{data_root}/slow/only/slow.png', compress_level=1)
    return f'{data_root}/slow'
