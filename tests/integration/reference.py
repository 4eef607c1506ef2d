# SPDX-License-Identifier: Apache-2.0
"""What stokerd has to deliver, computed by Pillow and numpy alone."""

import os

import numpy as np
from PIL import Image

EXTENSIONS = ('.png', '.jpg', '.jpeg')


def folder_samples(root):
    """(path, label) of each sample of a class folder, in the order of torchvision's ImageFolder,
    without hidden entries."""
    classes = sorted(entry.name for entry in os.scandir(root)
                     if entry.is_dir() and not entry.name.startswith('.'))
    found = []
    for label, name in enumerate(classes):
        for directory, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True)):
            found += [(os.path.join(directory, f), label) for f in sorted(files)
                      if f.lower().endswith(EXTENSIONS) and not f.startswith('.')]
    return found


def decode(path, grey):
    """u8 HWC pixels, as a torchvision user's pipeline sees them."""
    with Image.open(path) as image:
        rgb = image.convert('RGB')
    return np.asarray(rgb.convert('L'))[:, :, None] if grey else np.asarray(rgb)


def folder_pixels(root, grey):
    """(images N,H,W,C u8, labels) of a whole class folder."""
    samples = folder_samples(root)
    return (np.stack([decode(path, grey) for path, _ in samples]),
            np.array([label for _, label in samples], dtype='i4'))


def to_float(images, mean=(0.5,), std=(0.5,)):
    """ToTensor and Normalize of u8 N,H,W,C in float32, step by step as torch computes them."""
    values = images.astype(np.float32) / np.float32(255)
    return (values - np.array(mean, np.float32)) / np.array(std, np.float32)


def nchw(images):
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))


def permutation(n, seed):
    """torch.randperm(n, generator=torch.Generator().manual_seed(seed)), for n < 2^32 / 20."""
    mt = np.random.MT19937()
    mt._legacy_seeding(seed & 0xffffffff)
    order = np.arange(n)
    draws = mt.random_raw(max(n - 1, 0)) if n > 1 else ()
    for i, draw in enumerate(draws):
        j = i + int(draw) % (n - i)
        order[i], order[j] = order[j], order[i]
    return order


def epoch_order(n, *, shuffle=True, seed=0, epoch=0, rank=0, world=1, shard_drop=False):
    """torch's DistributedSampler(shuffle, seed, drop_last=shard_drop) after set_epoch(epoch)."""
    order = permutation(n, seed + epoch) if shuffle else np.arange(n)
    if shard_drop and n % world:
        order = order[:n // world * world]
    elif n % world:
        total = -(-n // world) * world
        order = np.resize(order, total)  # repeats from the front
    return order[rank::world]
