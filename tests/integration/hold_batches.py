# SPDX-License-Identifier: Apache-2.0
"""hold_batches.py SOCKET DATASET COUNT PAYLOAD DEPTH: a trainer to be killed or stopped.

It releases COUNT batches, takes DEPTH more without releasing them, says "holding" and waits.
"""

import signal
import sys

from client import FLOAT, Client, pb

path, dataset, count, payload, depth = sys.argv[1:]
with Client(path, name='holder') as client:
    stream = client.open(dataset, transforms=FLOAT, epochs=0, depth=int(depth),
                         payload=pb.Payload.Value(f'PAYLOAD_{payload.upper()}'))
    for _ in range(int(count)):
        stream.release(stream.next())
    held = [stream.next() for _ in range(int(depth))]
    print('holding', flush=True)
    signal.pause()
