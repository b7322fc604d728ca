"""Recommended settings for a cluster on this machine, from the measurements of `sum_jobs.py`.

Owns the thresholds and sentences; measures nothing itself.
"""

from __future__ import annotations

from typing import Any

MIN_SPEEDUP = 1.15  # a probe of a minute cannot tell a smaller one from chance
DEFAULT_BUCKET_MB = 4.0  # of mxtrain.kvstore.buckets


def rows(measured: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Return the lines to print, by the name of their row: measurements first, then the recommendations."""
    sockets = measured["sockets"]
    jobs = [
        f"{name_of(job)}: "
        + (job["error"] or ", ".join(f"{ms:.0f} ms at {size} MB" for size, ms in job["milliseconds"].items()))
        for job in measured["jobs"]
    ]
    return [
        ("sockets", [f"TCP {sockets['tcp']:.1f} GB/s, unix {sockets['unix']:.1f} GB/s, one connection"]),
        (
            "sums",
            [f"{measured['megabytes']:g} MB over {measured['workers']} workers, by size of bucket:", *jobs],
        ),
        ("recommended", measured["recommendations"]),
    ]


def advise(measured: dict[str, Any]) -> list[str]:
    """Return one sentence with its numbers for each choice: store, servers, buckets, unix sockets, compression."""
    jobs = [job for job in measured["jobs"] if job["error"] is None]
    failed = [f"{name_of(job)}: {job['error']}" for job in measured["jobs"] if job["error"] is not None]
    over = {
        unix: {job["servers"]: job["milliseconds"] for job in jobs if job["unix_sockets"] == unix}
        for unix in (True, False)
    }
    if 1 not in over[True]:
        return failed
    milliseconds = {count: fastest(times) for count, times in over[True].items()}
    without = milliseconds.pop(0, None)
    advice = [] if without is None else [_store(without, min(milliseconds.values()))]
    advice += [
        _servers(milliseconds),
        _buckets(over[True][1]),
    ]
    if 1 in over[False]:
        advice.append(_unix(fastest(over[False][1]), fastest(over[True][1])))
        advice.append(_network(measured["sockets"]["tcp"], over[False][1], measured["megabytes"]))
    return advice + failed


def name_of(job: dict[str, Any]) -> str:
    """Return what was measured in `job`, for a line."""
    if job["servers"] == 0:
        return "allreduce, shared memory"
    servers = "1 server" if job["servers"] == 1 else f"{job['servers']} servers"
    return f"{servers}, {'unix sockets' if job['unix_sockets'] else 'TCP'}"


def fastest(times: dict[str, float]) -> float:
    """Return the milliseconds of the best size of bucket."""
    return min(times.values())


def _store(without: float, with_servers: float) -> str:
    measured = f"{without:.0f} ms, {with_servers:.0f} ms over dist_sync"
    if without >= MIN_SPEEDUP * with_servers:
        return f"--kvstore dist_sync for jobs on this machine: its sums are faster; over allreduce {measured}"
    if with_servers >= MIN_SPEEDUP * without:
        return f"--kvstore allreduce for jobs on this machine: {measured}"
    return f"--kvstore allreduce or dist_sync for jobs on this machine, as fast as each other: {measured}"


def _servers(milliseconds: dict[int, float]) -> str:
    one, best = milliseconds[1], min(milliseconds, key=lambda count: milliseconds[count])
    measured = ", ".join(f"{ms:.0f} ms with {count}" for count, ms in sorted(milliseconds.items()))
    if one < MIN_SPEEDUP * milliseconds[best]:
        return f"--num-servers 1: {measured}; more only take cores from the workers"
    return f"--num-servers {best}: {measured}"


def _buckets(milliseconds: dict[str, float]) -> str:
    best = min(milliseconds, key=lambda size: milliseconds[size])
    measured = ", ".join(f"{ms:.0f} ms at {size} MB" for size, ms in milliseconds.items())
    default = milliseconds[f"{DEFAULT_BUCKET_MB:g}"]
    if default < MIN_SPEEDUP * milliseconds[best]:
        return f"buckets of {DEFAULT_BUCKET_MB:g} MB, the default, are right: {measured}"
    return f"buckets of {best} MB would be {default / milliseconds[best]:.1f} times as fast: {measured}"


def _unix(tcp: float, unix: float) -> str:
    measured = f"{unix:.0f} ms over unix sockets, {tcp:.0f} ms over TCP"
    if unix >= MIN_SPEEDUP * tcp:
        return f"DMLC_LOCAL=0, which is TCP, where all of a job is on this machine: {measured}"
    return f"leave DMLC_LOCAL unset, so that jobs on this machine alone use unix sockets: {measured}"


def _network(tcp: float, milliseconds: dict[str, float], megabytes: float) -> str:
    """Compare the rate of each worker's bytes, both ways together, with that of a socket alone."""
    rate = 2 * megabytes / fastest(milliseconds)
    return (
        f"between hosts a network of {8 * rate:.0f} Gbit/s or more is not what limits two workers and one server like "
        f"these ({rate:.1f} GB/s each; one loopback socket moves {tcp:.1f}); below it see --compress 2bit"
    )
