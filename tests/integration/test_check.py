# SPDX-License-Identifier: Apache-2.0
"""`stoker check`: every bad file named with its reason, digests of the good ones, nothing left behind;
and `stoker datasets NAME`."""

import contextlib
import csv
import gzip
import io
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import tarfile
import threading

import pytest
import xxhash
from PIL import Image

import make_data
from client import GUARD
from daemon import SANITIZER, STOKERD, WORKER, children, wait_pid_gone
from test_image_corpus import CASES, transposed
from test_tool import STOKER
from test_tool import run as stoker


def environment(**more):
    return {**os.environ, 'STOKERD': str(STOKERD), 'STOKER_WORKER': str(WORKER), **more}


class Checked:
    """What one run of `stoker check` said."""

    def __init__(self, *arguments, status, cwd=None, env=None):
        result = subprocess.run(
            [STOKER, 'check', *arguments], capture_output=True, timeout=4 * GUARD,
            stdin=subprocess.DEVNULL, cwd=cwd, env=environment(**(env or {})))
        self.out = result.stdout.decode()
        self.err = result.stderr.decode()
        assert not SANITIZER.search(self.err), self.err
        assert result.returncode == status, (result.returncode, self.out[-2000:], self.err[-2000:])

    def bad(self, text=None):
        """{path: reason} of the lines, and the summary's (images, bad)."""
        *lines, summary = (self.out if text is None else text).split('\n')[:-1]
        counts = re.fullmatch(r'([\d,]+) images?, ([\d,]+) bad, [\d,]+ images/s', summary)
        assert counts, summary
        named = [line.split(': ', 1) for line in lines]
        assert len(named) == len({path for path, _ in named})
        return dict(named), tuple(int(c.replace(',', '')) for c in counts.groups())

    def digests(self):
        """[(hex, path)] in order."""
        lines = self.out.split('\n')[:-1]
        assert all(re.fullmatch(r'[0-9a-f]{16}  .+', line) for line in lines), lines[:3]
        return [(line[:16], line[18:]) for line in lines]


def check(*arguments, status=0, **options):
    return Checked(*arguments, status=status, **options)


def digest_of(path):
    with Image.open(path) as image:
        return xxhash.xxh3_64_hexdigest(image.convert('RGB').tobytes())


@pytest.fixture
def runtime(scratch):
    """A private XDG_RUNTIME_DIR: empty when nothing is left."""
    path = f'{scratch}/run'
    os.mkdir(path, 0o700)
    yield path
    assert os.listdir(path) == []


# ---- the corpus ----

@pytest.fixture(scope='module')
def corpus():
    table = CASES / 'expected.tsv'
    if not table.is_file():
        pytest.skip(f'no {table}; STOKER_CASES names the folder of odd files')
    with open(table, newline='') as lines:
        return list(csv.DictReader(lines, delimiter='\t', quoting=csv.QUOTE_NONE))


def test_corpus(corpus, runtime):
    """Each good file has the digest of Pillow's pixels, each bad one is named."""
    paths = [f'{CASES}/{row["file"]}' for row in corpus]
    checked = check('--digest', '--', *paths, status=1, env={'XDG_RUNTIME_DIR': runtime})
    digests = {path: digest for digest, path in checked.digests()}
    bad, counts = checked.bad(checked.err)
    assert counts == (len(paths), len(bad))
    assert len(digests) + len(bad) == len(paths)
    assert [p for p in paths if p in digests] == [path for _, path in checked.digests()]
    wrong = [path for row, path in zip(corpus, paths)
             if row['class'][0] in 'BCF' and path not in bad
             or row['class'][0] == 'A' and path not in digests]
    assert not wrong, wrong
    equal = [path for row, path in zip(corpus, paths) if row['class'][0] == 'A']
    assert len(equal) > 700
    wrong = [path for path in equal if digests[path] != digest_of(path)]
    assert not wrong, wrong
    assert all(bad[path] == 'empty file' for path in bad if os.path.getsize(path) == 0)


def test_corpus_turned_and_clipped(corpus, runtime):
    """With both decode options, every good file but those of a broken palette has Pillow's digest."""
    paths = [f'{CASES}/{row["file"]}' for row in corpus if row['class'][0] == 'A' and row[
        'exif_orientation'] or (row['class'][0] == 'E' and row['pillow_mode'] == 'I')]
    assert len(paths) == 66
    checked = check('--digest', '--exif-orientation', '--grey16', 'clip', '--', *paths,
                    env={'XDG_RUNTIME_DIR': runtime})
    assert [path for _, path in checked.digests()] == paths
    wrong = [path for digest, path in checked.digests()
             if digest != xxhash.xxh3_64_hexdigest(transposed(path).tobytes())]
    assert not wrong, wrong


def test_corpus_folder(corpus, runtime):
    """The folder itself: the files with a picture's ending, and as many as find counts."""
    endings = ('.png', '.jpg', '.jpeg', '.ppm', '.bmp', '.pgm', '.tif', '.tiff', '.webp')
    wanted = [os.path.join(d, n) for d, dirs, names in os.walk(CASES, followlinks=True)
              for n in names if n.lower().endswith(endings) and not n.startswith('.')]
    wanted = [p for p in wanted if '/.' not in p[len(str(CASES)):] and '__MACOSX' not in p]
    checked = check('--json', '--digest', CASES, status=1, env={'XDG_RUNTIME_DIR': runtime})
    *entries, summary = [json.loads(line) for line in checked.out.split('\n')[:-1]]
    assert sorted(e['path'] for e in entries) == sorted(wanted)
    assert summary['images'] == len(wanted) and summary['failed'] is False
    assert summary['bad'] == sum('reason' in e for e in entries) > 0
    for entry in entries:
        if 'reason' in entry:
            assert entry['reason'] == 'picture' and entry['text']
        else:
            assert entry['bytes'] == os.path.getsize(entry['path'])
            assert entry['width'] > 0 and re.fullmatch('[0-9a-f]{16}', entry['xxh3'])


# ---- folders and files ----

def test_good_folder(grey_folder, runtime):
    checked = check(grey_folder, env={'XDG_RUNTIME_DIR': runtime})
    assert checked.bad() == ({}, (300, 0)) and checked.err == ''
    got = check(grey_folder, '--digest', '--workers', '3').digests()
    paths = [p for _, p in got]
    assert paths == sorted(paths) and len(paths) == 300
    assert all(d == digest_of(p) for d, p in got)


def test_all_bad_and_many(scratch):
    """More than the hundred that status lists, none of them a picture."""
    os.makedirs(f'{scratch}/data')
    for i in range(333):
        with open(f'{scratch}/data/{i}.png', 'wb') as file:
            file.write(b'GIF89a')
    bad, counts = check(f'{scratch}/data', status=1).bad()
    assert counts == (333, 333)
    assert bad == {f'{scratch}/data/{i}.png': 'not PNG or JPEG' for i in range(333)}


def test_relative_paths_and_names(scratch, runtime):
    """Names with newlines, commas, quotes, backslashes and bytes that are no UTF-8, below relative
    paths, shown escaped."""
    root = os.fsencode(f'{scratch}/a b,"c"\n\\')
    odd = {b'new\nline.png': r'new\x0aline.png', b'c,"o"\xff.PNG': r'c,"o"\xff.PNG',
           b'back\\slash.jpeg': r'back\\slash.jpeg', b' ;#=.png': ' ;#=.png',
           'ü.png'.encode(): 'ü.png'}
    os.makedirs(root + b'/sub\r\n\xfe')
    good = io.BytesIO()
    Image.fromarray(make_data.pixels(1, (9, 7, 3))[0]).save(good, 'PNG')
    for i, name in enumerate(odd):
        for folder in (root, root + b'/sub\r\n\xfe'):
            with open(folder + b'/' + name, 'wb') as file:
                file.write(good.getvalue() if i % 2 else b'\x89PNG\r\n\x1a\n')
    shown = r'a b,"c"\x0a\\'
    want = {f'{shown}/{extra}{text}': i % 2 for i, text in enumerate(odd.values())
            for extra in ('', r'sub\x0d\x0a\xfe/')}
    checked = check('--digest', os.path.basename(root), status=1, cwd=scratch,
                    env={'XDG_RUNTIME_DIR': runtime})
    bad, counts = checked.bad(checked.err)
    assert counts == (10, 6) and set(bad) == {p for p, ok in want.items() if not ok}
    assert {p for _, p in checked.digests()} == {p for p, ok in want.items() if ok}
    assert len({d for d, _ in checked.digests()}) == 1
    # One by one, from inside.
    checked = check(*odd, status=1, cwd=root)
    bad, counts = checked.bad()
    assert counts == (5, 3) and set(bad) == {t for i, t in enumerate(odd.values()) if i % 2 == 0}
    *lines, _ = check('--json', b'new\nline.png', status=1, cwd=root).out.split('\n')[:-1]
    assert json.loads(lines[0])['path'] == r'new\x0aline.png'


def test_what_a_walk_takes(scratch):
    """Hidden entries and other endings are left out; links are followed, also out of the folder, and
    loops end; what is no file, or missing, is bad."""
    root = make_data.write_folder(f'{scratch}/data', make_data.pixels(4), 2)
    elsewhere = make_data.write_folder(f'{scratch}/else', make_data.pixels(2), 1)
    shutil.copy(f'{root}/class0/0.png', f'{root}/.hidden.png')
    shutil.copytree(f'{root}/class0', f'{root}/.git')
    shutil.copytree(f'{root}/class0', f'{root}/__MACOSX')
    with open(f'{root}/notes.txt', 'w') as file:
        file.write('no image')
    os.symlink(f'{elsewhere}/class0/0.png', f'{root}/link.png')
    os.symlink(elsewhere, f'{root}/folder')
    os.symlink('..', f'{root}/class1/loop')
    os.symlink('nowhere', f'{root}/broken.png')
    os.mkfifo(f'{root}/fifo.png')
    os.mkdir(f'{root}/folder.png')
    shutil.copy(f'{root}/class0/0.png', f'{root}/folder.png/in.png')
    bad, counts = check(root, status=1).bad()
    assert counts == (10, 2)
    assert 'No such file' in bad.pop(f'{root}/broken.png')
    assert 'FIFO' in bad.pop(f'{root}/fifo.png')
    # Twice the same is checked twice; any file that is named is an image.
    bad, counts = check(f'{root}/class0', f'{root}/class0', f'{root}/notes.txt',
                        f'{scratch}/missing', f'{root}/fifo.png', status=1).bad()
    assert counts == (7, 3)
    assert bad[f'{root}/notes.txt'] == 'not PNG or JPEG'
    assert 'No such file' in bad[f'{scratch}/missing']


@pytest.mark.skipif(os.geteuid() != 0, reason='needs root to become another user')
def test_forbidden(scratch):
    """A folder that cannot be listed and a file that cannot be read are bad, and named."""
    root = make_data.write_folder(f'{scratch}/data', make_data.pixels(4), 2)
    os.chmod(f'{root}/class1', 0)
    os.chmod(f'{root}/class0/0.png', 0)
    programs = [shutil.copy(p, scratch) for p in (STOKER, STOKERD, WORKER)]
    library = next((STOKER.parent.parent).glob('libstoker.so.0'))
    shutil.copy(library, scratch)
    result = subprocess.run(
        ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', programs[0], 'check', root],
        capture_output=True, text=True, timeout=GUARD, stdin=subprocess.DEVNULL, cwd='/',
        env={**os.environ, 'STOKERD': programs[1], 'STOKER_WORKER': programs[2],
             'LD_LIBRARY_PATH': scratch, 'XDG_RUNTIME_DIR': '/nowhere'})
    assert result.returncode == 1, result
    assert f'{root}/class1: Permission denied\n' in result.stdout, result
    assert re.search(f'{root}/class0/0.png: .*Permission denied', result.stdout), result
    assert '3 images, 2 bad' in result.stdout, result


def test_too_deep(scratch, grey_folder):
    """A path that no program can open whole is bad; those beside it are checked."""
    names = ['d' * 250] * 17
    place = os.open(scratch, os.O_RDONLY)
    for i, name in enumerate(names):
        if i == 13:
            start = os.dup(place)
        os.mkdir(name, dir_fd=place)
        below = os.open(name, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
        with open(f'{grey_folder}/class0/0.png', 'rb') as good:
            file = os.open('x.png', os.O_WRONLY | os.O_CREAT, dir_fd=place)
            os.write(file, good.read())
            os.close(file)
    os.close(place)
    try:
        bad, counts = check(f'{scratch}/{names[0]}', status=1).bad()
        assert counts == (17, 1) and set(bad.values()) == {'File name too long'}
        # From inside, the relative path is short.
        bad, counts = check(names[0], status=1, cwd=f'/proc/self/fd/{start}').bad()
        assert counts == (4, 1) and set(bad.values()) == {'File name too long'}
    finally:
        os.close(start)
        subprocess.run(['rm', '-rf', f'{scratch}/{names[0]}'], check=True)


# ---- data sets ----

def write_idx(folder, count):
    with gzip.open(f'{folder}/t-images-idx3-ubyte.gz', 'wb') as file:
        file.write(struct.pack('>IIII', 0x803, count, 2, 2) + bytes(4 * count))
    with open(f'{folder}/t-labels-idx1-ubyte', 'wb') as file:
        file.write(struct.pack('>II', 0x801, count) + bytes(count))
    return f'{folder}/t-images-idx3-ubyte.gz'


def write_tar(path, pictures):
    with tarfile.open(path, 'w') as tar:
        for i, picture in enumerate(pictures):
            for name, data in ((f'{i}.png', picture), (f'{i}.cls', b'0')):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return path


def test_data_sets_at_paths(scratch, runtime):
    """IDX, tar, patterns and manifests, beside image files, each in its place."""
    good = io.BytesIO()
    Image.fromarray(make_data.pixels(1)[0]).save(good, 'PNG')
    good = good.getvalue()
    idx = write_idx(scratch, 5)
    tars = [write_tar(f'{scratch}/s-{i}.tar', [good, b'bad', good]) for i in range(2)]
    with open(f'{scratch}/one.png', 'wb') as file:
        file.write(good)
    with open(f'{scratch}/m.tsv', 'w') as file:
        file.write('one.png\tx\ngone.png\ty\n')
    checked = check('--digest', idx, f'{scratch}/one.png', tars[0], f'{scratch}/s-{{0..1}}.tar',
                    f'{scratch}/m.tsv', status=1, env={'XDG_RUNTIME_DIR': runtime})
    bad, counts = checked.bad(re.sub(r'(?m)^.*s-0.tar:1.png.*\n', '', checked.err, count=1))
    assert counts == (5 + 1 + 3 + 6 + 2, 4)
    assert set(bad) == {f'{tars[0]}:1.png', f'{tars[1]}:1.png', f'{scratch}/gone.png'}
    assert [p for _, p in checked.digests()] == [
        *(f'{idx}#{i}' for i in range(5)), f'{scratch}/one.png',
        f'{tars[0]}:0.png', f'{tars[0]}:2.png',
        f'{tars[0]}:0.png', f'{tars[0]}:2.png', f'{tars[1]}:0.png', f'{tars[1]}:2.png',
        f'{scratch}/one.png']
    # A folder without images is a data set by what is in it.
    os.mkdir(f'{scratch}/only')
    assert check(os.path.dirname(write_idx(f'{scratch}/only', 3))).bad() == ({}, (3, 0))


def test_many_data_sets(scratch):
    """More than one private daemon serves at a time."""
    tars = [write_tar(f'{scratch}/{i:02}.tar', [b'bad']) for i in range(20)]
    bad, counts = check(*tars, status=1).bad()
    assert counts == (20, 20) and set(bad) == {f'{t}:0.png' for t in tars}


@pytest.mark.parametrize('make, word', [
    (lambda p: os.mkdir(p), 'directory is empty'),
    (lambda p: open(p + '.csv', 'w').write('a.png\n'), 'line 1 has one field'),
    (lambda p: open(p + '.tar.gz', 'wb').write(gzip.compress(b'x')), 'compressed')])
def test_not_usable(scratch, runtime, make, word):
    """What cannot be opened at all is said on standard error; the rest is checked."""
    root = make_data.write_folder(f'{scratch}/data', make_data.pixels(4), 2)
    make(f'{scratch}/what')
    path, = (f'{scratch}/{name}' for name in os.listdir(scratch) if name.startswith('what'))
    checked = check(path, root, status=1, env={'XDG_RUNTIME_DIR': runtime})
    assert word in checked.err and path in checked.err and 'data set s' not in checked.err
    assert checked.bad() == ({}, (4, 0))
    *_, summary = check('--json', path, status=1).out.split('\n')[:-1]
    assert json.loads(summary)['failed'] is True


def test_names_of_a_daemon(start_daemon, scratch, grey_folder):
    root = make_data.write_folder(f'{scratch}/data', make_data.pixels(500, (4, 4)), 2)
    daemon = start_daemon({'train': root, 'val': grey_folder}, settle=True)
    for i in range(0, 500, 3):
        os.truncate(f'{root}/class{i % 2}/{i}.png', 20)
    socket = ('--socket', daemon.socket_path)
    bad, counts = check('train', 'val', *socket, status=1, cwd=scratch).bad()
    assert counts == (800, 167)
    assert set(bad) == {f'{root}/class{i % 2}/{i}.png' for i in range(0, 500, 3)}
    bad_of_train = bad
    checked = check('val', '--digest', *socket, cwd=scratch)
    assert len(checked.digests()) == 300
    assert all(d == digest_of(p) for d, p in checked.digests())
    checked = check('nothing', 'val', *socket, status=1, cwd=scratch)
    assert 'train' in checked.err and 'no file here' in checked.err
    assert checked.bad() == ({}, (300, 0))
    # Parts: their bad samples are named, and together they are the whole.
    parts = [check(f'train[{bounds}]', '--digest', *socket, cwd=scratch, status=1)
             for bounds in (':30%', '30%:')]
    found = [part.bad(part.err) for part in parts]
    assert [counts[0] for _, counts in found] == [150, 350]
    assert set(found[0][0]) | set(found[1][0]) == set(bad_of_train)
    assert sum(counts[1] for _, counts in found) == 167
    good = [d for part in parts for d in part.digests()]
    assert len(good) == 333 and all(d == digest_of(p) for d, p in good)
    # A path, though a data set has that name; and a mixture.
    os.mkdir(f'{scratch}/val')
    shutil.copy(f'{grey_folder}/class0/0.png', f'{scratch}/val')
    assert check('val', *socket, cwd=scratch).bad() == ({}, (1, 0))
    assert check('./val', 'train', *socket, cwd=scratch, status=1).bad()[1] == (501, 167)
    daemon.wait_idle()


def test_reload_meanwhile(start_daemon, scratch):
    """Names that come from another index than the pictures would be wrong."""
    root = f'{scratch}/data/b'
    os.makedirs(root)
    for i in range(3000):
        with open(f'{root}/{i:04}{"x" * 200}.png', 'wb') as file:
            file.write(b'bad')
    config = f'[dataset train]\npath = {scratch}/data\n'
    daemon = start_daemon(config=config)
    check = subprocess.Popen([STOKER, 'check', '--socket', daemon.socket_path, 'train'],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                             env=environment())
    first = check.stdout.readline()  # and then it waits until the pipe is read
    assert first.startswith(os.fsencode(f'{root}/0000x'))
    os.mkdir(f'{scratch}/data/a')
    shutil.copy(f'{root}/{"0000" + "x" * 200}.png', f'{scratch}/data/a/first.png')
    daemon.reload(config)
    daemon.log.wait('data set train: 3001 samples')
    out, err = check.communicate(timeout=GUARD)
    named = [line.partition(b': ')[0] for line in (first + out).splitlines()[:-1]]
    assert named == [os.fsencode(f'{root}/{i:04}{"x" * 200}.png') for i in range(len(named))]
    assert b'data set train has become another while it was checked' in err
    assert check.returncode == 1 and len(named) < 3000


def test_usage(scratch, grey_folder):
    assert check(status=2).err
    assert check('', status=2).err
    assert '--digest' in check('--digests', 'x', status=2).err
    assert 'own workers' in check('train', '--workers', '2', status=2, cwd=scratch).err
    checked = check('train', '--socket', f'{scratch}/s', status=3, cwd=scratch)
    assert f'{scratch}/s' in checked.err and 'no file here' in checked.err and checked.out == ''


# ---- terminals and interruption ----

def run_on_terminal(*arguments):
    """(exit status, what the terminal got), with stderr a terminal and stdout a pipe."""
    primary, secondary = pty.openpty()
    seen = bytearray()

    def read():
        with contextlib.suppress(OSError):
            while data := os.read(primary, 4096):
                seen.extend(data)

    thread = threading.Thread(target=read)
    thread.start()
    process = subprocess.Popen([STOKER, 'check', *arguments], stdout=subprocess.PIPE,
                               stderr=secondary, stdin=subprocess.DEVNULL, env=environment())
    os.close(secondary)
    out = process.stdout.read()
    process.wait(GUARD)
    thread.join(GUARD)
    os.close(primary)
    return process.returncode, seen.decode(), out.decode()


def test_progress(large_folder):
    """A bar on a terminal; nothing of it elsewhere."""
    status, seen, out = run_on_terminal(large_folder)
    assert status == 0 and out.startswith('3,000 images, 0 bad, ')
    assert re.search(r'\[#*-*\] [\d,]+ of 3,000 images, 0 bad, [\d,]+ images/s', seen), seen
    assert seen.endswith('\r\x1b[K')
    assert check(large_folder).err == ''


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM, signal.SIGPIPE])
def test_interrupted(scratch, runtime, slow_folder, grey_folder, number):
    """No process and no directory stays, and the shell sees the signal."""
    paths = [f'{grey_folder}/class0/0.png'] * 64 + [f'{slow_folder}/only/slow.png'] * 64
    process = subprocess.Popen(
        [STOKER, 'check', '--digest', *paths], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL, env=environment(XDG_RUNTIME_DIR=runtime))
    if number == signal.SIGPIPE:
        process.stdout.close()
        stokerd = None
    else:
        process.stdout.readline()  # it is in the middle
        stokerd, = children(process.pid)
        assert len(os.listdir(runtime)) == 1
        process.send_signal(number)
    assert process.wait(GUARD) == -number
    if stokerd:
        wait_pid_gone(stokerd)
    assert not SANITIZER.search(process.stderr.read().decode())


# ---- stoker datasets NAME ----

def test_classes_and_samples(start_daemon, scratch, large_folder):
    root = os.fsencode(f'{scratch}/data')
    for name, count in ((b'a\nb', 1), (b'b\xff', 3)):
        os.makedirs(root + b'/' + name)
        for i in range(count):
            Image.fromarray(make_data.pixels(1)[0]).save(
                os.fsdecode(root + b'/' + name + b'/%d.png' % i))
    daemon = start_daemon({'train': f'{scratch}/data', 'large': large_folder})
    table = stoker('datasets', 'train', daemon=daemon)
    assert [line.split() for line in table.split('\n')[:-1]] == [
        ['LABEL', 'SAMPLES', 'CLASS'], ['0', '1', r'a\x0ab'], ['1', '3', r'b\xff']]
    assert json.loads(stoker('datasets', 'train', '--json', daemon=daemon)) == [
        {'label': 0, 'name': r'a\x0ab', 'samples': 1}, {'label': 1, 'name': r'b\xff', 'samples': 3}]
    lines = stoker('datasets', 'train', '--samples', daemon=daemon).split('\n')[:-1]
    assert lines == [f'0\t0\t{scratch}/data/a\\x0ab/0.png',
                     *(f'{i + 1}\t1\t{scratch}/data/b\\xff/{i}.png' for i in range(3))]
    samples = json.loads(stoker('datasets', 'large', '--samples', '--json', daemon=daemon))
    assert [s['index'] for s in samples] == list(range(3000))
    assert all(os.path.isfile(s['path']) and f'class{s["label"]}/' in s['path'] for s in samples)
    assert 'train' in stoker('datasets', 'nothing', daemon=daemon, status=1)
    assert 'Name it' in stoker('datasets', '--samples', daemon=daemon, status=2)
