"""A process of a cluster that does not train: its scheduler, or one of its servers."""

from __future__ import annotations

import threading
from typing import NoReturn

from mxtrain.cluster.agent import Agent
from mxtrain.cluster.environment import NodeSpec
from mxtrain.config import Run
from mxtrain.train.cluster import join


def serve(run: Run, node: NodeSpec) -> NoReturn:
    """Be the scheduler or a server `node` of a cluster, and end this process when its workers have ended."""
    from mxtrain.checkpoint import run_folder

    run_folder.start_log(run.output.terminal_level)
    with join.as_server(run, node) as agent:
        if agent.assignment.owners and node.role == "server":
            _own(agent)
        elif agent.assignment.has_ps_lite:
            _load(threads=1)
            from mxtrain.kvstore import server

            server.serve(agent)
        while True:  # the verdict that comes when all workers have ended ends this process
            threading.Event().wait()


def _own(agent: Agent) -> None:
    """Hold weights for the workers, and update them, until all have ended."""
    assignment = agent.assignment
    _load(assignment.threads)
    from mxtrain.kvstore.owners import mapped, server

    folder = mapped.open_folder(assignment.store_dir)
    index = assignment.owners.index(assignment.socket_number)
    server.serve(
        assignment.owners[index], index, len(assignment.owners), assignment.num_workers, folder=folder
    )


def _load(threads: int) -> None:
    from mxtrain import runtime

    runtime.load(threads=threads)
