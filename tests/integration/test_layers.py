# SPDX-License-Identifier: Apache-2.0
"""The shape of the source tree: layers, links, sizes and form (DESIGN.md section 2)."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get('STOKER_BUILD', ROOT / 'build/tests'))

TOP_LEVEL = {
    'daemon', 'client', 'proto', 'trainer', 'systemd', 'tests', 'meson.build', 'README.md',
    'meson_options.txt', 'LICENSE', 'NEWS.md', '.ci',
}

# Low to high; data and image are one layer.
LAYERS = {
    'daemon/util': 0, 'proto': 1, 'daemon/data': 2, 'daemon/image': 2, 'daemon/image/decode': 2,
    'daemon/image/op': 2, 'daemon/batch': 3, 'daemon/worker': 4, 'daemon/serve': 5, 'daemon': 6,
}
MAX_LINES = 500


def tracked(*patterns):
    """Files of the checkout that match, without what git ignores."""
    names = subprocess.run(
        ['git', '-c', f'safe.directory={ROOT}', 'ls-files', '-z', '--cached', '--others',
         '--exclude-standard', '--', *patterns],
        cwd=ROOT, check=True, capture_output=True).stdout.decode().split('\0')
    return sorted(name for name in set(names) if name and (ROOT / name).is_file())


def includes(name):
    """(line number, included path) of every #include "..." in a file."""
    for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if match:
            yield number, match.group(1)


def allowed(name, target):
    """May the file `name` include `target`?"""
    here, there = os.path.dirname(name), os.path.dirname(target)
    if target == 'stoker.pb-c.h':
        there = 'proto'
    if name.startswith('client/'):
        return there == 'proto' or there == 'client' or there.startswith('client/')
    if name.startswith('trainer/'):
        return there == 'trainer' or target == 'client/stoker.h'
    if here not in LAYERS or there not in LAYERS:
        return False
    return LAYERS[there] <= LAYERS[here]


def test_includes_go_down_the_layers():
    sources = tracked('daemon/*.[ch]', 'proto/*.[ch]', 'client/*.[ch]', 'trainer/*.[ch]',
                      'trainer/*.cu')
    assert sources, 'no sources found'
    wrong = [f'{name}:{number}: "{target}"' for name in sources
             for number, target in includes(name) if not allowed(name, target)]
    assert not wrong, 'includes that leave their layer:\n' + '\n'.join(wrong)


def test_the_layer_rule_can_fail():
    assert allowed('daemon/serve/stream.c', 'daemon/batch/slot.h')
    assert allowed('daemon/worker/pool.c', 'proto/fdio.h')
    assert not allowed('daemon/batch/slot.c', 'daemon/serve/stream.h')
    assert not allowed('daemon/image/decode/decode.c', 'daemon/batch/slot.h')
    assert not allowed('proto/fdio.c', 'daemon/batch/slot.h')
    assert not allowed('client/client.c', 'daemon/util/log.h')
    assert not allowed('trainer/main.c', 'client/client.h')
    assert not allowed('daemon/main.c', 'config.h')


def test_top_level_entries():
    entries = {name.split('/')[0] for name in tracked()}
    unknown = {e for e in entries - TOP_LEVEL if not e.startswith('.')}
    assert not unknown, f'not in the layout of DESIGN.md section 2: {unknown}'


def test_no_long_source_file():
    sizes = {name: len((ROOT / name).read_text().splitlines())
             for name in tracked('*.c', '*.h', '*.cu', '*.py', '*.sh')}
    long = {name: lines for name, lines in sizes.items() if lines > MAX_LINES}
    assert not long, f'over {MAX_LINES} lines: {long}'


def test_c_files_start_with_licence_and_guard():
    for name in tracked('*.c', '*.h', '*.cu'):
        lines = (ROOT / name).read_text().splitlines()
        assert lines and lines[0] == '/* SPDX-License-Identifier: Apache-2.0 */', name
        if name.endswith('.h'):
            assert '#pragma once' in lines[:5], name


@pytest.mark.skipif(not shutil.which('clang-format'), reason='no clang-format')
def test_clang_format_changes_nothing():
    sources = tracked('*.c', '*.h', '*.cu')
    result = subprocess.run(['clang-format', '--dry-run', '--Werror', *sources], cwd=ROOT,
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-4000:]


def needed(program):
    """Names of the shared libraries that a program asks for."""
    path = BUILD / program
    assert path.is_file(), f'{path} is not built'
    text = subprocess.run(['readelf', '-dW', path], check=True, capture_output=True, text=True)
    return re.findall(r'\(NEEDED\).*\[(.+)\]', text.stdout)


def test_worker_links_neither_libuv_nor_protobuf():
    libraries = needed('daemon/worker/stoker-worker')
    assert any('libpng' in library for library in libraries), libraries
    assert not [library for library in libraries if re.search('libuv|protobuf', library)]
    symbols = subprocess.run(['nm', BUILD / 'daemon/worker/stoker-worker'], check=True,
                             capture_output=True, text=True).stdout
    assert not re.search(r' (uv_|protobuf_c_|stoker__v1__)\w+', symbols)


def test_only_the_trainer_links_cuda():
    programs = ['daemon/stokerd', 'daemon/worker/stoker-worker', 'client/cli/stoker']
    for program in programs:
        libraries = needed(program)
        assert not [lib for lib in libraries if re.search('cuda|cublas|nvidia', lib)], program


def test_libstoker_needs_only_libc_and_protobuf():
    text = subprocess.run(['readelf', '-dW', BUILD / 'client/libstoker.so'], check=True,
                          capture_output=True, text=True).stdout
    libraries = re.findall(r'\(NEEDED\).*\[(.+)\]', text)
    assert not [lib for lib in libraries
                if not re.match(r'lib(c|m|protobuf-c|asan|ubsan|gcc_s|pthread)\.so', lib)]
