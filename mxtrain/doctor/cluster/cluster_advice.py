"""The examination of a cluster in lines, and what its differences and gaps mean for a job. Pure.

Owns the thresholds and sentences; `cluster_hosts.py` asks the hosts.
"""

from __future__ import annotations

import statistics
from typing import Any, Callable, Hashable, Iterator, Mapping, Sequence

from mxtrain.core.system import kernels
from mxtrain.doctor.cluster import traffic
from mxtrain.doctor.machine.disk_advice import per_second, size

CLOCKS_APART = 0.5  # seconds; one host's records and logs can then no longer be put beside another's
CLOCKS_FAR_APART = 60.0
FEW_BYTES = 5 << 30  # free for checkpoints and logs
SLOW_WRITE, SLOW_SYNC = 50e6, 100.0  # bytes a second, milliseconds
SLOW_LINK = 0.5  # of the median of all
LONG_WAY = 2.0  # milliseconds
GRADIENTS = 100e6  # bytes: about ResNet-50's

Hosts = Sequence[Mapping[str, Any]]


def rows(findings: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Return the lines to print, by the name of their row."""
    hosts = reached_hosts(findings)
    failed = [f"{host['host']} {host['error']}" for host in findings["hosts"] if "error" in host]
    described = [
        f"{host['host']}: {host['cpu']}, {host['cores']} cores, {size(host['memory_bytes'])} of memory free"
        + (f", {', '.join(host['gpus'])}" if host["gpus"] else "")
        for host in hosts
    ]
    pairs = [_pair_line(findings, host) for host in findings["hosts"] if _pairs_from(findings, host)]
    advice = advise(findings)
    return [
        ("unreachable", failed or ["none"]),
        ("hosts", described or ["none"]),
        ("versions", _alike_or_apart(hosts, lambda host: _versions(host))),
        ("kernels", _alike_or_apart(hosts, lambda host: kernels.in_words(host["kernels"]))),
        ("clocks", [_clock_line(host) for host in hosts] or ["unknown"]),
        ("disks", [_disk_line(findings, host) for host in hosts] or ["unknown"]),
        ("network", pairs or ["no pair of hosts was measured"]),
        ("sums", [*_about_sums(findings)] or ["unknown: no pair of hosts was measured"]),
        ("to do", advice or ["nothing: a job over these hosts should run"]),
    ]


def reached_hosts(findings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the hosts that answered to the end."""
    return [host for host in findings["hosts"] if "error" not in host]


def advise(findings: Mapping[str, Any]) -> list[str]:
    """Return sentences on what keeps a job over these hosts from running, then on what slows it down."""
    hosts = reached_hosts(findings)
    failed = [f"{host['host']}: {host['error']}" for host in findings["hosts"] if "error" in host]
    return [
        *failed,
        *_about_versions(hosts),
        *_about_ports(findings),
        *_about_disks(findings, hosts),
        *_about_clocks(hosts),
        *_about_machines(hosts),
        *_about_links(findings),
    ]


def _about_versions(hosts: Hosts) -> Iterator[str]:
    """Yield the names whose versions differ; the rendezvous refuses all but Python's."""
    names = {name for host in hosts for name in host["versions"]}
    for name in sorted(names):
        values = _by_value([{**host, "value": host["versions"].get(name, "none")} for host in hosts], _value)
        if len(values) < 2:
            continue
        shown = ", ".join(f"{value} on {_and(names)}" for value, names in values.items())
        if name == "python":
            yield f"Python differs ({shown}): wheels that exist for one may not for the other; a job runs all the same"
        else:
            yield f"{name} differs ({shown}): a job is refused at the rendezvous; install the same everywhere"


def _about_ports(findings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ports of each host that others do not reach, by what becomes of the attempt."""
    hosts = findings["hosts"]
    for host in reached_hosts(findings):
        for port, reason in host.get("port_errors", {}).items():
            if "assign" in reason:
                yield (
                    f"{host['host']} cannot listen at {host['address']} ({reason}): name it by an address of its own, "
                    "not by one that a router translates"
                )
                break
            yield f"{host['host']}: port {port} is taken ({reason}); give launch another --port"
    groups: dict[tuple[int, str, tuple[int, ...]], list[str]] = {}
    for pair in findings["pairs"]:
        for problem in sorted(set(pair["problems"].values())):
            ports = tuple(sorted(int(port) for port, each in pair["problems"].items() if each == problem))
            groups.setdefault((pair["to"], problem, ports), []).append(hosts[pair["from"]]["host"])
    for (number, problem, ports), sources in groups.items():
        target = hosts[number]
        firewalls = target.get("firewalls") or []
        closed_by = f"{_and(firewalls)} there" if firewalls else "a firewall there or in between"
        yield (
            f"{_and(sources)} {'does' if len(sources) == 1 else 'do'} not reach {_ports(ports)} of {target['host']} "
            f"({target['address']}): {problem}; let {closed_by} open them between the hosts (docs/clusters.md)"
        )


def _about_disks(findings: Mapping[str, Any], hosts: Hosts) -> Iterator[str]:
    for host in hosts:
        disk, where = host["disk"], f"{host['host']}: --out {findings['out']}"
        if disk["error"]:
            yield f"{where} cannot be written to ({disk['error']}): give a folder that can on every host"
        elif disk["free_bytes"] < FEW_BYTES:
            yield f"{where} has {size(disk['free_bytes'])} free: checkpoints soon fill it; make room or move it"
        elif disk.get("write_bytes_per_second", SLOW_WRITE) < SLOW_WRITE:
            yield (
                f"{where} takes {per_second(disk['write_bytes_per_second'])}: a checkpoint of 300 MB needs "
                f"{300e6 / disk['write_bytes_per_second']:.0f} s; write to a faster disk or save more rarely"
            )
        elif disk.get("sync_milliseconds", 0) > SLOW_SYNC:
            yield f"{where} needs {disk['sync_milliseconds']:.0f} ms until bytes are safe: checkpoints wait for it"
    shares = {
        tuple(sorted({*host["disk"].get("shared_with", []), number})) for number, host in _numbered(findings)
    }
    if len(shares) > 1 and any(len(each) > 1 for each in shares):
        groups = "; ".join(
            _and([findings["hosts"][number]["host"] for number in each]) for each in sorted(shares)
        )
        out = findings["out"]
        yield f"--out {out} is one folder for some hosts and another for others ({groups}): share it or none"


def _about_clocks(hosts: Hosts) -> Iterator[str]:
    if not hosts:
        return
    middle = statistics.median(host["clock_offset"] for host in hosts)
    for host in hosts:
        apart = host["clock_offset"] - middle
        if abs(apart) - host["clock_error"] < CLOCKS_APART:
            continue
        what = "logs and records of hosts do not line up"
        if abs(apart) > CLOCKS_FAR_APART:
            what += ", files on shared disks seem new or old, and munge and Kerberos refuse it from some minutes on"
        ahead = "ahead of" if apart > 0 else "behind"
        yield f"the clock of {host['host']} is {abs(apart):.3g} s {ahead} the others: {what}; run chrony or ntpd there"


def _about_machines(hosts: Hosts) -> Iterator[str]:
    if len({host["kernels"]["onednn"] + host["kernels"]["openblas"] for host in hosts}) > 1:
        yield (
            "CPUs differ in their kernels: last bits depend on which host computes what, and the curve on how many "
            "hosts there are"
        )
    cores = _by_value(hosts, lambda host: host["cores"])
    if len(cores) > 1:
        shown = ", ".join(f"{each} on {_and(names)}" for each, names in cores.items())
        yield (
            f"cores differ ({shown}): in dist_sync the slowest worker sets the pace; give hosts with more cores more "
            f"slots=N, and --threads {min(host['cores'] for host in hosts)} makes last bits alike"
        )
    threads = {host["host"]: host["threads"] for host in hosts if host["threads"]}
    if threads and len(threads) < len(hosts):
        yield f"OMP_NUM_THREADS is set on {_and(list(threads))} only: workers there compute with other last bits"


def _about_links(findings: Mapping[str, Any]) -> Iterator[str]:
    pairs = [pair for pair in findings["pairs"] if pair.get("bytes_per_second")]
    names = [host["host"] for host in findings["hosts"]]
    if not pairs:
        return
    middle = statistics.median(pair["bytes_per_second"] for pair in pairs)
    for pair in pairs:
        rate = pair["bytes_per_second"]
        if rate < SLOW_LINK * middle and len(pairs) > 1:
            yield (
                f"from {names[pair['from']]} to {names[pair['to']]} {per_second(rate)} go through, between others "
                f"{per_second(middle)}: 100 MB of gradients take {GRADIENTS / rate:.2g} s on that way; look at cable, "
                "switch and route, or leave the host out"
            )
    if middle < GRADIENTS:
        yield (
            f"--compress 2bit, or a larger --batch-size: {per_second(middle)} between hosts, so 100 MB of gradients "
            f"(a ResNet-50's) take {GRADIENTS / middle:.2g} s a step each way"
        )
    slow = [pair["milliseconds"] for pair in pairs if pair["milliseconds"] > LONG_WAY]
    if slow:
        yield f"a round trip takes up to {max(slow):.1f} ms: are all hosts in one place, on one network?"


def _about_sums(findings: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a step's sums take over each kind of store, as the bytes and the measured rate have it."""
    rates = [pair["bytes_per_second"] for pair in findings["pairs"] if pair.get("bytes_per_second")]
    num_hosts = len(reached_hosts(findings))
    if not rates or num_hosts < 2:
        return
    rate = statistics.median(rates)
    among_workers = traffic.of_allreduce(GRADIENTS, num_hosts) / rate
    one_server = traffic.of_servers_beside_workers(GRADIENTS, num_hosts, 1) / rate
    yield (
        f"100 MB of gradients (a ResNet-50's) of a worker on each of {num_hosts} hosts at {per_second(rate)}: "
        f"{among_workers:.2g} s a step over --kvstore allreduce, {one_server:.2g} s over dist_sync with one server"
    )
    if one_server > among_workers:
        yield f"--kvstore allreduce should be faster here; dist_sync takes --num-servers {num_hosts} for as few bytes"
    else:
        yield "--kvstore allreduce sends as much as dist_sync here, and no server takes cores"


def _numbered(findings: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    return [(number, host) for number, host in enumerate(findings["hosts"]) if "error" not in host]


def _value(host: Mapping[str, Any]) -> Any:
    return host["value"]


def _versions(host: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in host["versions"].items())


def _alike_or_apart(hosts: Hosts, of_host: Callable[[Mapping[str, Any]], str]) -> list[str]:
    values = _by_value(hosts, of_host)
    if len(values) == 1:
        return [f"the same everywhere: {next(iter(values))}"]
    return [f"{_and(names)}: {value}" for value, names in values.items()] or ["unknown"]


def _by_value(hosts: Hosts, of_host: Callable[[Mapping[str, Any]], Hashable]) -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    for host in hosts:
        found.setdefault(of_host(host), []).append(host["host"])
    return found


def _clock_line(host: Mapping[str, Any]) -> str:
    offset, error = 1e3 * host["clock_offset"], 1e3 * host["clock_error"]
    return f"{host['host']}: {offset:+,.1f} ms from this machine's, at most {error:.1f} ms off"


def _disk_line(findings: Mapping[str, Any], host: Mapping[str, Any]) -> str:
    disk = host["disk"]
    system = disk["file_system"]
    shared = [findings["hosts"][number]["host"] for number in disk.get("shared_with", [])]
    facts = [f"{size(disk['free_bytes'])} free on {system['type']} at {system['mount']}"]
    if "write_bytes_per_second" in disk:
        facts.append(
            f"writes {per_second(disk['write_bytes_per_second'])}, safe in {disk['sync_milliseconds']:.1f} ms"
        )
    if "read_bytes_per_second" in disk:
        facts.append(f"reads {per_second(disk['read_bytes_per_second'])}")
    return f"{host['host']}: {disk['error'] or ', '.join(facts)}" + (
        f"; shared with {_and(shared)}" if shared else ""
    )


def _pairs_from(findings: Mapping[str, Any], host: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [pair for pair in findings["pairs"] if findings["hosts"][pair["from"]] is host]


def _pair_line(findings: Mapping[str, Any], host: Mapping[str, Any]) -> str:
    ways = []
    for pair in _pairs_from(findings, host):
        speed = (
            f"{per_second(pair['bytes_per_second'])}, {pair['milliseconds']:.2f} ms"
            if pair.get("bytes_per_second")
            else "nothing"
        )
        ways.append(f"to {findings['hosts'][pair['to']]['host']} {speed}")
    return f"from {host['host']}: {'; '.join(ways)}"


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _ports(ports: Sequence[int]) -> str:
    if len(ports) > 2 and ports[-1] - ports[0] == len(ports) - 1:
        return f"ports {ports[0]} to {ports[-1]}"
    return f"port{'s' * (len(ports) > 1)} {_and([str(port) for port in ports])}"
