"""A process of a cluster that does not train: its scheduler, or one of its servers."""

from __future__ import annotations

import threading
from typing import NoReturn

from mxtrain.cluster.environment import NodeSpec
from mxtrain.config import Run
from mxtrain.train.cluster import join


def serve(run: Run, node: NodeSpec) -> NoReturn:
    """Be the scheduler or a server `node` of a cluster, and end this process when its workers have ended."""
    from mxtrain.checkpoint import run_folder

    run_folder.start_log(run.output.terminal_level)
    with join.as_server(run, node) as agent:
        if not node.num_servers:  # this is the scheduler, whose coordinator ends the process
            threading.Event().wait()
        from mxtrain import runtime

        runtime.load(threads=1)
        from mxtrain.kvstore import server

        server.serve(agent)
