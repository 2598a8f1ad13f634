"""Runs one script in one tool and writes down everything that can be compared.

Each run has its own prefix at the target, its own working folder and its own empty home, so that
runs beside each other share nothing. What names the run (addresses, folders) is replaced by a
word, so that the observations of two tools can be equal.
"""

import ast
import collections
import csv
import json
import os
import re
import resource
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field

RUN_TIME_S_MAX = 90
OUTPUT_BYTES_MAX = 8 << 20
LOG_LINE = re.compile(r'^time="?[^" ]*"? level=(\w+) msg=("(?:[^"\\]|\\.)*"|\S*)(.*)$')
SUMMARY, POINTS, CSV = "export.json", "points.json", "samples.csv"
# Scripts that try to use up memory are stopped here if the tool itself does not stop them.
ADDRESS_SPACE_BYTES_MAX = 16 << 30


@dataclass
class Target:
    seen: object
    port: int
    tls_port: int
    http2_port: int = 0  # 0: nothing here speaks HTTP/2


@dataclass
class Observation:
    command: str = ""
    exit: int = None
    stdout: str = ""
    stderr: str = ""
    results: list = field(default_factory=list)
    lines: list = field(default_factory=list)
    errors: int = 0
    requests: collections.Counter = field(default_factory=collections.Counter)
    summary: dict = None  # what --summary-export wrote
    points: collections.Counter = field(default_factory=collections.Counter)
    files: dict = field(default_factory=dict)
    seconds: float = 0.0
    memory_mb: float = 0.0
    timed_out: bool = False


def unquote(text):
    """A value of a log line: quoted where it holds anything but plain characters."""
    if not text.startswith('"'):
        return text
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError):
            pass
    return text[1:-1]


def plain(text, run, target, folders):
    """Replaces what names this run."""
    text = text.replace(f"http://127.0.0.1:{target.port}/r/{run}", "BASE")
    text = text.replace(f"https://127.0.0.1:{target.tls_port}/r/{run}", "TLS_BASE")
    text = text.replace(f"https://127.0.0.1:{target.http2_port}/r/{run}", "HTTP2_BASE")
    text = text.replace(run, "RUN")
    for name, folder in folders:
        text = text.replace("file://" + folder, name).replace(folder, name)
    text = re.sub(rf"\b{target.port}\b", "PORT", text)
    text = re.sub(rf"\b{target.tls_port}\b", "TLS_PORT", text)
    if target.http2_port:
        text = re.sub(rf"\b{target.http2_port}\b", "HTTP2_PORT", text)
    return re.sub(r"127\.0\.0\.1:\d{5}\b", "127.0.0.1:LOCAL", text)


def command_of(tool, script, base, tls, http2, folders, work):
    fill = {"base": base, "scripts": dict(folders)["SCRIPTS"]}
    args = [re.sub(r"\{(\w+)\}", lambda m: fill.get(m.group(1), m.group(0)), a)
            for a in script.args]
    command = [tool, "run", "--quiet", "--no-color", "--summary-export",
               os.path.join(work, SUMMARY), "-e", f"BASE={base}", "-e", f"TLS_BASE={tls}"]
    if script.needs_http2:
        command += ["-e", f"HTTP2_BASE={http2}"]
    if "points" in script.parts:
        command += ["--out", "json=" + os.path.join(work, POINTS)]
    return command + args + [script.path]


def send_signal_later(process, name_and_seconds, ended):
    name, seconds = name_and_seconds

    def send():
        if not ended.is_set():
            os.kill(process.pid, getattr(signal, "SIG" + name))

    timer = threading.Timer(seconds, send)
    timer.daemon = True
    timer.start()


def execute(command, cwd, env, script, seen):
    """Runs the tool to its end, or ends it; returns standard output and standard error."""
    limit = (ADDRESS_SPACE_BYTES_MAX, ADDRESS_SPACE_BYTES_MAX)
    limited = (lambda: resource.setrlimit(resource.RLIMIT_AS, limit)) if script.memory_mb else None
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        # Its own process group, so that a wrapper's child ends with it.
        process = subprocess.Popen(command, cwd=cwd, env=env, stdout=out, stderr=err,
                                   stdin=subprocess.DEVNULL, start_new_session=True,
                                   preexec_fn=limited)
        ended = threading.Event()
        if script.signal:
            send_signal_later(process, script.signal, ended)

        def stop():
            if not ended.is_set():
                seen.timed_out = True
                os.killpg(process.pid, signal.SIGKILL)

        killer = threading.Timer(RUN_TIME_S_MAX, stop)
        killer.start()
        _, status, usage = os.wait4(process.pid, 0)
        ended.set()
        killer.cancel()
        process.returncode = seen.exit = os.waitstatus_to_exitcode(status)
        seen.memory_mb = usage.ru_maxrss / 1024
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(OUTPUT_BYTES_MAX).decode("utf-8", "replace"))
    return texts


def read_log(seen, stderr):
    """The lines that the script printed (RESULT ...), as they were meant and as they stand."""
    for line in stderr.split("\n"):
        found = LOG_LINE.match(line)
        message = unquote(found.group(2)) if found else line
        if found and found.group(1) == "error":
            seen.errors += 1
        at = message.find("RESULT ")
        if at >= 0:
            seen.results.append(message[at + len("RESULT "):])
            line = re.sub(r'^time="?[^" ]*"?', "time=T", line)
            seen.lines.append(re.sub(r'"time":"[^"]*"', '"time":"T"', line))


def read_points(path, clean):
    """How often each metric was emitted with which tags, and what each metric is:
    (metric, tags) -> times."""
    points = collections.Counter()
    with open(path, encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            data = entry.get("data", {})
            if entry["metric"] in ("vus", "vus_max"):
                continue  # sampled once a second: how often is chance
            if entry["type"] == "Metric":
                kind = f"{data.get('type')} of {data.get('contains')}"
                points[f"{entry['metric']} is a {kind}", "definitions"] = 1
                continue
            tags = json.dumps(data.get("tags") or {}, sort_keys=True)
            extra = json.dumps(data["metadata"], sort_keys=True) if data.get("metadata") else ""
            points[entry["metric"], clean(tags + extra)] += 1
    return points


def read_csv(path, clean):
    """Samples of --out csv without time and value, sorted: they come in any order."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    if not rows:
        return ""
    dropped = [rows[0].index(n) for n in ("timestamp", "metric_value") if n in rows[0]]
    if "extra_tags" in rows[0]:
        at = rows[0].index("extra_tags")
        for row in rows[1:]:
            row[at] = "&".join(sorted(row[at].split("&")))  # a map: in any order
    kept = [",".join(v for i, v in enumerate(r) if i not in dropped) for r in rows[1:]
            if r and r[0] not in ("vus", "vus_max")]
    return clean("\n".join([",".join(rows[0]), *sorted(kept)]))


def read_files(work, clean):
    files = {}
    for folder, _, names in os.walk(work):
        for name in names:
            path = os.path.join(folder, name)
            shown = os.path.relpath(path, work)
            if shown in (SUMMARY, POINTS):
                continue
            if shown == CSV:
                files[shown] = read_csv(path, clean)
                continue
            with open(path, "rb") as file:
                files[shown] = clean(file.read().decode("utf-8", "replace"))
    return files


def observe(tool, script, run, target):
    seen = Observation()
    base = f"http://127.0.0.1:{target.port}/r/{run}"
    tls = f"https://127.0.0.1:{target.tls_port}/r/{run}"
    http2 = f"https://127.0.0.1:{target.http2_port}/r/{run}"
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as home:
        folders = [("WORK", work), ("HOME", home), ("SCRIPTS", os.path.dirname(script.path))]
        clean = lambda text: plain(text, run, target, folders)
        command = command_of(tool, script, base, tls, http2, folders, work)
        env = {"PATH": os.environ.get("PATH", ""), "HOME": home, "LANG": "C.UTF-8",
               "K6_NO_USAGE_REPORT": "true", **script.env}
        start = time.monotonic()
        out, err = execute(command, work, env, script, seen)
        seen.seconds = time.monotonic() - start
        seen.command = clean(" ".join(command[1:]))
        seen.stdout, seen.stderr = clean(out), clean(err)
        read_log(seen, seen.stderr)
        seen.requests.update(clean(line) for line in target.seen.of(run))
        try:
            with open(os.path.join(work, SUMMARY), encoding="utf-8") as file:
                seen.summary = json.loads(clean(file.read()))
        except (OSError, ValueError):
            pass
        if "points" in script.parts and os.path.exists(os.path.join(work, POINTS)):
            try:
                seen.points = read_points(os.path.join(work, POINTS), clean)
            except (ValueError, KeyError, AttributeError) as problem:
                seen.points["not readable: " + str(problem), "file"] = 1
        seen.files = read_files(work, clean)
    return seen
