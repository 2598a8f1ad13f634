#!/usr/bin/env python3
"""Runs a command and says what it cost: CPU time, wall time, memory.

CPU time is what the kernel charged to the process and the children it waited for (wait4). Memory
is read from /proc while the process runs: the kernel's own ru_maxrss starts from the size of the
process that forked, which would be this one.

    measure.py [--core N] -- wrk -t1 -c64 -d5s http://127.0.0.1:8080/
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SAMPLE_EVERY_S = 0.05


def status_kb(pid, field):
    """A memory field of /proc/PID/status, or None when the process is gone."""
    try:
        with open(f"/proc/{pid}/status") as status:
            for line in status:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
    except OSError:
        pass
    return None


def watch_memory(pid, samples, ended):
    """Appends (peak, resident) in KB until told to stop."""
    while not ended.wait(SAMPLE_EVERY_S):
        peak, resident = status_kb(pid, "VmHWM"), status_kb(pid, "VmRSS")
        if peak is not None and resident is not None:
            samples.append((peak, resident))


def pinned(command, core):
    return command if core is None else ["taskset", "-c", str(core), *command]


def measure(command, core=None, timeout_s=300, env=None):
    """Runs `command` to its end; the result is a dict, `status` is its exit code."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started_at, start = time.time(), time.monotonic()
        process = subprocess.Popen(pinned(command, core), stdout=out, stderr=err,
                                   stdin=subprocess.DEVNULL, env=env)
        samples, ended = [], threading.Event()
        watcher = threading.Thread(target=watch_memory, args=(process.pid, samples, ended))
        watcher.start()
        # kill by the pid that we started; it cannot be reused before the wait4 below
        killer = threading.Timer(timeout_s, process.kill)
        killer.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - start
        killer.cancel()
        ended.set()
        watcher.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        # the second half: everybody has connected by then
        late = [resident for _, resident in samples[len(samples) // 2:]]
        return {
            "command": command,
            "status": process.returncode,
            "user_s": usage.ru_utime,
            "sys_s": usage.ru_stime,
            "started_at": started_at,
            "wall_s": wall_s,
            "max_rss_kb": max((peak for peak, _ in samples), default=usage.ru_maxrss),
            "rss_kb": statistics.median(late) if late else usage.ru_maxrss,
            "stdout": out.read().decode(errors="replace"),
            "stderr": err.read().decode(errors="replace")[-4000:],
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--core", type=int, help="run the command on this core only")
    parser.add_argument("--timeout", type=float, default=300, help="seconds; then it is killed")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    result = measure(given.command, given.core, given.timeout)
    print(json.dumps(result, indent=2))
    return 0 if result["status"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
