# SPDX-License-Identifier: Apache-2.0
"""One epoch of PyTorch's DataLoader over class folders, as the seed's experiment has it.

    torch_loader.py FOLDER WORKERS [--digest]

Prints one JSON object: images, seconds, first_batch_seconds (from the start of the iteration), and
with --digest the SHA-256 of all pixels (float32, in the order of DistributedSampler with seed 0).
"""

import hashlib
import json
import sys
import time

import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder


def main():
    folder, workers = sys.argv[1], int(sys.argv[2])
    digest = hashlib.sha256() if '--digest' in sys.argv else None
    dataset = ImageFolder(folder, transforms.Compose([
        transforms.Grayscale(), transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))]))
    sampler = DistributedSampler(dataset, num_replicas=1, rank=0, shuffle=True, seed=0)
    loader = DataLoader(dataset, batch_size=64, sampler=sampler, num_workers=workers)
    images, first = 0, None
    start = time.perf_counter()
    for batch, _ in loader:
        if first is None:
            first = time.perf_counter() - start
        images += len(batch)
        if digest:
            digest.update(batch.numpy().tobytes())
    result = {'images': images, 'seconds': time.perf_counter() - start,
              'first_batch_seconds': first, 'torch': torch.__version__}
    if digest:
        result['sha256'] = digest.hexdigest()
    print(json.dumps(result))


main()
