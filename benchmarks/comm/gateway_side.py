"""The gateway of one of two hosts: `python -m benchmarks.comm.gateway_side ADDRESS PORT SECRET ROUTES`."""

from __future__ import annotations

import json
import sys

from mxtrain.cluster.gateway import start
from mxtrain.cluster.gateway.process import Routes

SECONDS = 60.0  # in which all processes have to be there

if __name__ == "__main__":
    address, port, secret, routes = sys.argv[1:]
    gateway = start.gateway(start.open_port(address, int(port)), secret, 0, SECONDS)
    gateway.set_routes(Routes(**json.loads(routes)))
    while not gateway.end(SECONDS):
        pass
