"""Figures that are not ratios of CPU time: memory per user, open models, start-up.

Each function runs volley once or more and returns rows for the table.
"""

import json
import socket
import statistics
import subprocess
import threading
import time
import urllib.request

import tools
from measure import pinned
from tools import CouldNotRun

USERS_FEW, USERS_MANY = 64, 10_000
OPEN_RATE, OPEN_S = 20_000, 10
STALL_RATE, STALL_S = 5_000, 8
STARTS = 20


def memory(bench):
    """KB for each further virtual user that has a connection and does nothing."""
    resident = {}
    for users in (USERS_FEW, USERS_MANY):
        replace = [("vus: 64", f"vus: {users}")]
        result, requests = tools.volley(bench, "idle", replace=replace)
        if requests < users:
            raise CouldNotRun(f"only {requests} of {users} users made their request")
        resident[users] = result["rss_kb"], result["max_rss_kb"]
    (few, few_peak), (many, many_peak) = resident[USERS_FEW], resident[USERS_MANY]
    each = (many - few) / (USERS_MANY - USERS_FEW)
    each_peak = (many_peak - few_peak) / (USERS_MANY - USERS_FEW)
    detail = f"({few / 1024:.1f} -> {many / 1024:.1f} MB; at the peak {each_peak:.1f} KB)"
    return [dict(name="memory per idle VU", value=each, limit=48, unit="KB", detail=detail)]


def open_model(bench):
    """How far the rate that was achieved is from the rate that was asked for."""
    result, requests = tools.volley(bench, "open")
    summary = result["summary"]
    wanted = OPEN_RATE * OPEN_S
    rate = summary["requests"]["rate"]
    off = max(abs(requests - wanted) / wanted, abs(rate - OPEN_RATE) / OPEN_RATE) * 100
    latency = summary["latency_ms"]
    cpu_us = (result["user_s"] + result["sys_s"]) * 1e6 / max(requests, 1)
    detail = (f"({requests} of {wanted}, {rate:.0f}/s, {cpu_us:.1f} us each, latency "
              f"p50 {latency['p50']:.2f} p99 {latency['p99']:.2f} max {latency['max']:.1f} ms)")
    return [dict(name="open model, 20,000/s for 10 s: off by", value=off, limit=0.5, unit="%",
                 detail=detail)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, process):
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise CouldNotRun(f"`volley target` does not listen on port {port}")


def stall(bench):
    """A second without answers must show as that many slow requests, evenly from 0 to 1 s."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [bench.paths["volley"], "target", "--listen", f"127.0.0.1:{port}",
               "--stall", "3s+1s"]
    server = subprocess.Popen(pinned(command, bench.server_core), stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, server)
        result, requests = tools.volley(bench, "stall", url=url)
        with urllib.request.urlopen(url + "/volley/seen", timeout=5) as answer:
            seen = json.load(answer)
    finally:
        server.terminate()
        server.wait()
    latency = result["summary"]["latency_ms"]
    held = seen["stalled"]
    if held == 0:
        raise CouldNotRun("the target held no request: its stall was outside of the run")
    off = max(abs(latency[key] - expected(quantile, held, requests))
              for key, quantile in QUANTILES if quantile > 1 - held / requests)
    # between p90 and p95 lie 5 % of all requests; how many would that be over a whole second?
    gap_s = max(latency["p95"] - latency["p90"], 1e-3) / 1000
    slow = 0.05 * requests / gap_s * min(latency["max"] / 1000, 1)
    difference = abs(slow - STALL_RATE) / STALL_RATE * 100
    books = f"({requests} sent, {seen['total']} seen, {held} held by the server)"
    shape = ", ".join(f"{key} {latency[key]:.0f}" for key, _ in QUANTILES)
    return [
        dict(name="stall of 1 s at 5,000/s: longest latency", value=latency["max"] / 1000,
             limit=0.99, unit="s", at_least=True, detail=books),
        dict(name="stall: slow requests, off 5,000 by", value=difference, limit=15, unit="%",
             detail=f"({slow:.0f} by the latency's own distribution)"),
        dict(name="stall: latency off an even spread by", value=off, limit=100, unit="ms",
             detail=f"({shape} ms)"),
    ]


QUANTILES = [("p90", 0.90), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)]


def expected(quantile, held, requests):
    """Milliseconds, if the `held` slowest of all requests are spread evenly over one second."""
    share = held / requests
    return 1000 * (quantile - (1 - share)) / share


def serve_first_bytes(listener, times):
    """Answers one request per connection and notes when its first bytes came."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(5)
            try:
                connection.recv(65536)
                times.append(time.monotonic())
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n"
                                   b"connection: close\r\n\r\n")
            except OSError:
                pass


def start_up(bench):
    """From exec to the first byte of the first request, as the server sees it."""
    listener = socket.create_server(("127.0.0.1", 0))
    times = []
    threading.Thread(target=serve_first_bytes, args=(listener, times), daemon=True).start()
    plan = tools.render(bench, "once", f"http://127.0.0.1:{listener.getsockname()[1]}")
    command = pinned([bench.paths["volley"], "run", plan, "--cores", "1", "--quiet"], bench.core)
    took_ms = []
    for _ in range(STARTS):
        del times[:]
        start = time.monotonic()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, timeout=60)
        if not times:
            text = done.stderr.decode(errors="replace")[-300:]
            raise CouldNotRun(f"start-up: no request came, exit {done.returncode}: {text}")
        took_ms.append((times[0] - start) * 1000)
    listener.close()
    noise = {"min": min(took_ms), "max": max(took_ms)}
    return [dict(name="start-up: exec to first request", value=statistics.median(took_ms),
                 limit=100, unit="ms", noise=noise)]


ALL = [
    ("memory per idle VU", memory),
    ("open model", open_model),
    ("stall", stall),
    ("start-up", start_up),
]
