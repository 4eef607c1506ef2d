# SPDX-License-Identifier: Apache-2.0
"""Pictures through one of the unit tests' programs: requests on its stdin, answers on its stdout."""

import os
import subprocess
from pathlib import Path

import numpy as np

BUILD = Path(os.environ.get('STOKER_BUILD', Path(__file__).resolve().parents[2] / 'build/tests'))


def run_pictures(name, requests):
    """The answers to (u8 H,W[,3] array, numbers behind its size) each: an array, or the text of
    a refusal."""
    program = BUILD / 'tests/unit' / name
    assert program.is_file(), f'{program} is not built; see tests/run'
    lines = []
    for array, numbers in requests:
        head = [array.shape[1], array.shape[0], 1 if array.ndim == 2 else 3, *numbers]
        lines.append(' '.join(map(str, head)).encode() + b'\n' + array.tobytes())
    done = subprocess.run([program], input=b''.join(lines), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    assert done.returncode == 0, done.stderr.decode(errors='replace')
    answers, out, at = [], done.stdout, 0
    while at < len(out):
        end = out.index(b'\n', at)
        words, at = out[at:end].decode().split(' '), end + 1
        if words[0] != 'ok':
            answers.append(' '.join(words))
            continue
        width, height, channels = map(int, words[1:])
        size = width * height * channels
        pixels = np.frombuffer(out, np.uint8, size, at).reshape(height, width, channels)
        answers.append(pixels[:, :, 0] if channels == 1 else pixels)
        at += size
    assert len(answers) == len(requests)
    return answers
