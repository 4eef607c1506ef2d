# SPDX-License-Identifier: Apache-2.0
"""One epoch of PyTorch's DataLoader over class folders, as the seed's experiment has it.

    torch_loader.py FOLDER WORKERS [--digest]

Prints one JSON object: images, seconds, first_batch_seconds and cpu_seconds of all processes (each
from the start of the iteration), and with --digest the SHA-256 of all pixels (float32, in the order of DistributedSampler with seed 0).
"""

import hashlib
import json
import resource
import sys
import time

import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder


def cpu_seconds():
    return sum(usage.ru_utime + usage.ru_stime for usage in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def epoch(loader, digest):
    images, first = 0, None
    start, cpu = time.perf_counter(), cpu_seconds()
    for batch, _ in loader:
        if first is None:
            first = time.perf_counter() - start
        images += len(batch)
        if digest:
            digest.update(batch.numpy().tobytes())
    seconds = time.perf_counter() - start
    return {'images': images, 'seconds': seconds, 'first_batch_seconds': first,
            'cpu_seconds': cpu_seconds() - cpu, 'torch': torch.__version__}


def main():
    folder, workers = sys.argv[1], int(sys.argv[2])
    digest = hashlib.sha256() if '--digest' in sys.argv else None
    dataset = ImageFolder(folder, transforms.Compose([
        transforms.Grayscale(), transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))]))
    sampler = DistributedSampler(dataset, num_replicas=1, rank=0, shuffle=True, seed=0)
    loader = DataLoader(dataset, batch_size=64, sampler=sampler, num_workers=workers)
    result = epoch(loader, digest)
    if digest:
        result['sha256'] = digest.hexdigest()
    print(json.dumps(result))


main()
