# SPDX-License-Identifier: Apache-2.0
"""Loaders side by side on the same files: PyTorch's DataLoader, bare libpng, stokerd.

Every figure is the median of several rounds; in each round every loader has its turn, in a fresh
process, on files in the page cache. CPU seconds count all processes of a loader, the client too, but
not the start of the program.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TICK = os.sysconf('SC_CLK_TCK')
PIPELINE = 'Grayscale(), ToTensor(), Normalize((0.5,), (0.5,))'


def children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_json(command, **options):
    """Run to the end: (the JSON object on its last line, CPU seconds of all its processes)."""
    before = children_cpu()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, **options)
    return json.loads(done.stdout.splitlines()[-1]), children_cpu() - before


def process_cpu(pid):
    fields = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def private_bytes(pid):
    text = Path(f'/proc/{pid}/smaps_rollup').read_text()
    return 1024 * sum(int(n) for n in re.findall(r'^Private_\w+: +(\d+) kB', text, re.M))


class Daemon:
    """A stokerd of its own, ready: its data set is indexed."""

    def __init__(self, build, folder, workers):
        self.build = build
        self.scratch = tempfile.TemporaryDirectory(prefix='stoker-bench.')
        self.socket = f'{self.scratch.name}/s'
        self.log = open(f'{self.scratch.name}/log', 'w+')
        self.process = subprocess.Popen(
            [build / 'daemon/stokerd', '--config', '/dev/null', '--socket', self.socket,
             '--workers', str(workers), '--dataset', f'train={folder}'], stderr=self.log)
        while not os.path.exists(self.socket):
            if self.process.poll() is not None:
                self.log.seek(0)
                sys.exit(f'stokerd did not start:\n{self.log.read()}')
            time.sleep(0.01)
        while self.tool('datasets')[0]['state'] != 'ready':
            time.sleep(0.01)

    def tool(self, *arguments):
        return json.loads(subprocess.run(
            [self.build / 'client/cli/stoker', *arguments, '--json', '--socket', self.socket],
            stdout=subprocess.PIPE, check=True).stdout)

    def pids(self):
        return [self.process.pid] + [w['pid'] for w in self.tool('status')['workers']]

    def cpu(self):
        return sum(process_cpu(pid) for pid in self.pids())

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.log.close()
        self.scratch.cleanup()


def bench_stoker(build, folder, workers):
    daemon = Daemon(build, folder, workers)
    before, client_before = daemon.cpu(), children_cpu()
    result = daemon.tool('bench', 'train', '--transform', PIPELINE, '--epochs', '1')
    cpu = daemon.cpu() - before + children_cpu() - client_before
    private = [private_bytes(pid) for pid in daemon.pids()]
    daemon.stop()
    return {'rate': result['images_per_second'], 'first': result['first_batch_seconds'],
            'cpu': cpu, 'images': result['images'], 'private': sum(private)}


def bench_torch(folder, workers):
    result, _ = run_json(['/usr/bin/python3', HERE / 'torch_loader.py', folder, str(workers)],
                         stderr=subprocess.DEVNULL)
    return {'rate': result['images'] / result['seconds'], 'first': result['first_batch_seconds'],
            'cpu': result['cpu_seconds'], 'images': result['images']}


def bench_bare(build, paths, processes):
    result, cpu = run_json([build / 'tests/bench/bare_loop', str(processes)], input=paths)
    return {'rate': result['images'] / result['seconds'], 'first': None, 'cpu': cpu,
            'images': result['images']}


def digest_of_stoker(build, folder):
    daemon = Daemon(build, folder, os.cpu_count())
    with tempfile.TemporaryDirectory() as out:
        daemon.tool('dump', 'train', '-o', f'{out}/d', '--shuffle', '--seed', '0', '--transform',
                    PIPELINE)
        with open(f'{out}/d/images.npy', 'rb') as file:
            header = file.read(10)
            file.read(int.from_bytes(header[8:10], 'little'))
            digest = hashlib.sha256()
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    daemon.stop()
    return digest.hexdigest()


def has_torch():
    return subprocess.run(['/usr/bin/python3', '-c', 'import torch, torchvision'],
                          stderr=subprocess.DEVNULL).returncode == 0


def median(runs, key):
    values = [run[key] for run in runs if run.get(key) is not None]
    return statistics.median(values) if values else None


def show(name, runs):
    rates = sorted(run['rate'] for run in runs)
    first = median(runs, 'first')
    per_thousand = statistics.median(1000 * run['cpu'] / run['images'] for run in runs)
    print(f'{name:34} {statistics.median(rates):10,.0f}  {rates[0]:8,.0f} - {rates[-1]:8,.0f}'
          f'  {per_thousand:9.3f}  {"" if first is None else f"{1000 * first:9.1f}"}')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', type=Path, required=True)
    parser.add_argument('--folder', type=Path, required=True, help='class folders with PNG files')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--json', action='store_true', help='print the medians as JSON as well')
    options = parser.parse_args()
    cpus = len(os.sched_getaffinity(0))
    paths = ''.join(f'{path}\n' for path in sorted(options.folder.glob('*/*.png'))).encode()
    torch = has_torch()
    loaders = {}
    if torch:
        for workers in (0, 1, 2, 4):
            loaders[f'PyTorch DataLoader, {workers} workers'] = (
                lambda w=workers: bench_torch(options.folder, w))
    loaders[f'bare libpng loop, {cpus} processes'] = (
        lambda: bench_bare(options.build, paths, cpus))
    for workers in (0, 1, 2, 4):
        loaders[f'stokerd, {workers} workers'] = (
            lambda w=workers: bench_stoker(options.build, options.folder, w))

    print(f'{time.strftime("%Y-%m-%d")}, {cpus} CPUs, {platform.machine()}, Linux '
          f'{platform.release()}, {paths.count(10)} PNG files, batch 64, {options.rounds} rounds')
    runs = {name: [] for name in loaders}
    bench_bare(options.build, paths, cpus)  # brings the files into the page cache
    for i in range(options.rounds):
        for name, bench in loaders.items():
            print(f'\rround {i + 1}: {name:40}', end='', file=sys.stderr, flush=True)
            runs[name].append(bench())
    print('\r' + 60 * ' ' + '\r', end='', file=sys.stderr, flush=True)
    print(f'{"median of each":34} {"images/s":>10}  {"lowest - highest":>19}'
          f'  {"CPU s/1000":>9}  {"first, ms":>9}')
    for name in loaders:
        show(name, runs[name])

    rate = {name: median(run, 'rate') for name, run in runs.items()}
    best_stoker = max(rate[f'stokerd, {w} workers'] for w in (1, 2, 4))
    bare = rate[f'bare libpng loop, {cpus} processes']
    print(f'\nstokerd at its best has {100 * best_stoker / bare:.0f} % of the bare libpng loop')
    if torch:
        best_torch = max(rate[name] for name in rate if name.startswith('PyTorch'))
        print(f'and {best_stoker / best_torch:.1f} times the images/s of PyTorch at its best')
    private = [median(runs[f'stokerd, {w} workers'], 'private') for w in (1, 4)]
    print(f'private memory grows by {(private[1] - private[0]) / 3 / 2**20:.2f} MiB per worker')
    if torch:
        theirs, _ = run_json(['/usr/bin/python3', HERE / 'torch_loader.py', options.folder, '2',
                              '--digest'])
        same = theirs['sha256'] == digest_of_stoker(options.build, options.folder)
        print('pixels of the whole epoch, in order: ' +
              ('identical to PyTorch\'s (SHA-256)' if same else 'DIFFERENT from PyTorch\'s'))
        if not same:
            sys.exit(1)
    else:
        print('PyTorch is not installed (python3-torch, python3-torchvision): not compared')
    if options.json:
        print(json.dumps({'images_per_second': rate}))


main()
