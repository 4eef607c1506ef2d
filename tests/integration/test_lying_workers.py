# SPDX-License-Identifier: Apache-2.0
"""Workers that somebody has taken over may spoil what they make, and hold up nobody for ever."""

import os

import pytest

from client import ServerError, all_rows, pb
from daemon import BUILD, WORKER

LIAR = BUILD / 'tests/unit/lying_worker'


def write_program(scratch, mode, condition='true'):
    """A stoker-worker that lies in one of its modes, while the condition holds."""
    path = f'{scratch}/worker'
    with open(path, 'w') as script:
        script.write(f'#!/bin/sh\n[ "$1" = {mode} ] && {condition} && exec {LIAR} "$@"\n'
                     f'exec {WORKER} "$@"\n')
    os.chmod(path, 0o755)
    return path


def test_index_that_was_never_saved(start_daemon, grey_folder, scratch):
    """It says that it is a saved index, which would be made anew if it were bad: not for ever."""
    program = write_program(scratch, 'index', f'[ ! -e {scratch}/over ]')
    daemon = start_daemon({'train': grey_folder}, env={'STOKER_WORKER': program},
                          args=['--index-dir', f'{scratch}/indexes'])
    with daemon.client() as client:
        with pytest.raises(ServerError, match='data set train: index: not sealed') as caught:
            client.open('train', dtype=pb.DTYPE_U8)
        assert caught.value.code == pb.ERROR_DATASET
        open(f'{scratch}/over', 'w').close()
        assert len(all_rows(client.open('train', dtype=pb.DTYPE_U8))[1]) == 300


def test_progress_that_leads_nowhere(start_daemon, grey_folder, scratch):
    """A page that says row 1, row 0, row 1, ... is no progress of one row."""
    program = write_program(scratch, 'render')
    daemon = start_daemon({'train': grey_folder}, workers=1, env={'STOKER_WORKER': program},
                          config='[stokerd]\nimage_timeout = 1\n')
    with daemon.client() as client:
        stream = client.open('train', dtype=pb.DTYPE_U8, batch_size=1)
        with pytest.raises(ServerError, match='longer than image_timeout'):
            stream.next()
