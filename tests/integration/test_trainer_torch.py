# SPDX-License-Identifier: Apache-2.0
"""stoker-train learns what torch learns: the same losses from the same weights and batches."""

import functools
import json
import struct
import subprocess

import pytest

from client import GUARD
from daemon import BUILD

torch = pytest.importorskip('torch', reason='torch is not installed')
nn = torch.nn

STEPS = 200
TOLERANCE = 1e-4


def make_model(seed, inputs, hidden, classes):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(),
                         nn.Linear(hidden, classes))


def train(model, batches, rate):
    """The loss of each step of plain SGD."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def assert_close(ours, torchs):
    assert len(ours) == len(torchs)
    for step, (a, b) in enumerate(zip(ours, torchs)):
        assert abs(a - b) <= TOLERANCE * abs(b), f'step {step}: {a}, torch has {b}'


@pytest.mark.parametrize('inputs, hidden, classes, rate',
                         [(784, 128, 10, 0.01), (784, 128, 10, 0.1), (75, 5, 3, 0.05)])
def test_steps(tmp_path, inputs, hidden, classes, rate):
    """The model alone, on learnable batches of 64 with short ones in between."""
    model = make_model(3, inputs, hidden, classes)
    centres = torch.randn(classes, inputs)
    batches = []
    for step in range(STEPS):
        labels = torch.randint(classes, (17 if step % 20 == 19 else 64,))
        batches.append((torch.clamp(0.3 * centres[labels] + torch.randn(len(labels), inputs),
                                    -1, 1), labels))
    path = tmp_path / 'steps'
    with open(path, 'wb') as file:
        file.write(struct.pack('<4If', inputs, hidden, classes, STEPS, rate))
        for parameter in model.parameters():
            file.write(parameter.detach().numpy().astype('<f4').tobytes())
        for images, labels in batches:
            file.write(struct.pack('<I', len(labels)))
            file.write(labels.numpy().astype('<i4').tobytes())
            file.write(images.numpy().astype('<f4').tobytes())
    run = subprocess.run([BUILD / 'tests/unit/model_steps', path], stdout=subprocess.PIPE,
                         text=True, check=True, timeout=GUARD)
    expected = train(model, batches, rate)
    assert_close([float(line) for line in run.stdout.split()], expected)
    assert expected[-1] < 0.9 * expected[0], 'the batches can be learned'


@functools.lru_cache
def torch_run(folder, seed, epochs, rate, world=1, rank=0, dtype='float32'):
    """What a torchvision user writes: ImageFolder, DistributedSampler, DataLoader. With another dtype
    the values are rounded to it."""
    torchvision = pytest.importorskip('torchvision', reason='torchvision is not installed')
    transforms = torchvision.transforms
    pictures = torchvision.datasets.ImageFolder(folder, transforms.Compose(
        [transforms.Grayscale(), transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,)),
         lambda x: x.to(getattr(torch, dtype)).float()]))
    sampler = torch.utils.data.DistributedSampler(pictures, world, rank, seed=seed)
    loader = torch.utils.data.DataLoader(pictures, 64, sampler=sampler)
    model = make_model(seed, pictures[0][0].numel(), 128, len(pictures.classes))
    losses = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        losses += train(model, loader, rate)
    with torch.no_grad():
        correct = sum((model(images).argmax(1) == labels).sum().item()
                      for images, labels in torch.utils.data.DataLoader(pictures, 64))
    return losses, correct / len(pictures)


def stoker_run(daemon, *options):
    run = subprocess.run([BUILD / 'trainer/stoker-train', '--socket', daemon.socket_path,
                          '--dataset', 'd', '--json', '--log-every', '1', '--device', 'cpu',
                          *options], stdout=subprocess.PIPE, text=True, check=True, timeout=GUARD)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    return ([line['loss'] for line in lines if 'step' in line],
            [line for line in lines if 'epoch' in line])


@pytest.mark.parametrize('options,dtype', [
    ((), 'float32'), (('--dtype', 'u8'), 'float32'), (('--payload', 'inline'), 'float32'),
    (('--dtype', 'f16'), 'float16'), (('--dtype', 'bf16'), 'bfloat16'),
], ids=['f32', 'u8', 'inline', 'f16', 'bf16'])
def test_run(start_daemon, grey_folder, options, dtype):
    """A whole run through a daemon: weights, order, pixels, losses, accuracy."""
    daemon = start_daemon({'d': grey_folder})
    losses, epochs = stoker_run(daemon, '--val', 'd', '--seed', '5', '--epochs', '40',
                                '--lr', '0.01', *options)
    expected, accuracy = torch_run(grey_folder, 5, 40, 0.01, dtype=dtype)
    assert len(expected) == STEPS
    assert_close(losses, expected)
    # A pixel of difference in 300 images may turn on the last bit of a logit.
    assert abs(epochs[-1]['val_accuracy'] - accuracy) <= 1 / 300
    assert epochs[-1]['loss'] < epochs[0]['loss']


def test_shard(start_daemon, rgb_folder):
    """Rank 1 of 2 trains on DistributedSampler's second shard."""
    daemon = start_daemon({'d': rgb_folder})
    losses, _ = stoker_run(daemon, '--seed', '9', '--epochs', '5', '--rank', '1', '--world', '2')
    expected, _ = torch_run(rgb_folder, 9, 5, 0.01, 2, 1)
    assert_close(losses, expected)
