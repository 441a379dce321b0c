"""A Ray cluster of several machines, all on this one, for tests. It is told what to do line by line.

add NAME JSON    -> pid of the raylet of a new machine with these options
kill NAME        -> kills that raylet
remove NAME      -> removes the machine
alive            -> how many machines Ray takes to be alive
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys

import ray
from ray.cluster_utils import Cluster

STORE_B = 100 * 2**20


def raylet_of(node) -> int:
    [raylet] = node.all_processes["raylet"]
    return raylet.process.pid


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # Ray prints
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE_B}
    cluster = Cluster(initialize_head=True, connect=True, head_node_args=head)
    print(json.dumps(cluster.address), file=answers, flush=True)
    nodes = {}
    for line in sys.stdin:
        command, _, rest = line.strip().partition(" ")
        name, _, options = rest.partition(" ")
        answer = 0
        if command == "add":
            nodes[name] = cluster.add_node(wait=True, object_store_memory=STORE_B, **json.loads(options))
            answer = raylet_of(nodes[name])
        elif command == "kill":
            os.kill(raylet_of(nodes[name]), signal.SIGKILL)
        elif command == "remove":
            with contextlib.suppress(Exception):  # its raylet was killed
                cluster.remove_node(nodes.pop(name), allow_graceful=False)
        elif command == "alive":
            answer = sum(node["Alive"] for node in ray.nodes())
        print(json.dumps(answer), file=answers, flush=True)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
