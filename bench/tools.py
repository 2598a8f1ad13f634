"""How each generator is called, and where it says how many requests it made.

Every tool gets the same server, the same number of connections and the same time. What differs is
only the command line, and that is all there is in this file.
"""

import json
import os
import re
import time
import urllib.request

from measure import measure

HERE = os.path.dirname(os.path.abspath(__file__))


class CouldNotRun(Exception):
    """A run that gave no figure: what was run, and why it gave none."""


class Bench:
    """Where everything is: filled from the environment that bench/run sets."""

    def __init__(self):
        environment = os.environ
        self.url = environment["BENCH_URL"]
        self.url_h2 = environment["BENCH_URL_H2"]
        self.dir = environment["BENCH_DIR"]
        self.server_core = number(environment.get("BENCH_SERVER_CORE"))
        self.core = number(environment.get("BENCH_CORE"))
        self.duration_s = int(environment["BENCH_DURATION"])
        names = ["wrk", "oha", "k6", "h2load", "volley"]
        paths = {name: environment.get("BENCH_" + name.upper()) for name in names}
        self.paths = {name: path for name, path in paths.items() if path}

    def run(self, command, **options):
        options.setdefault("core", self.core)
        result = measure(command, **options)
        if result["status"] not in (0, 99):  # 99: volley's "a check failed"; the count says more
            text = (result["stderr"] + result["stdout"]).strip()[-600:]
            raise CouldNotRun(f"{' '.join(command)}: exit {result['status']}: {text}")
        return result

    def seen(self):
        """Requests that nginx has counted so far, this one not included."""
        with urllib.request.urlopen(self.url + "/seen", timeout=5) as answer:
            numbers = re.search(r"\n\s*(\d+) (\d+) (\d+)", answer.read().decode())
        return int(numbers[3]) - 1


def number(text):
    return int(text) if text else None


def found(pattern, text, tool):
    match = re.search(pattern, text)
    if not match:
        raise CouldNotRun(f"{tool}: no request count in its output: {text[-300:]}")
    return int(match[1])


def wrk(bench, connections, duration_s=None):
    command = [bench.paths["wrk"], "-t1", f"-c{connections}",
               f"-d{duration_s or bench.duration_s}s",
               "--timeout", "30s", bench.url + "/"]
    result = bench.run(command)
    return result, found(r"(\d+) requests in", result["stdout"], "wrk")


def oha(bench, connections):
    command = [bench.paths["oha"], "--no-tui", "-z", f"{bench.duration_s}s",
               "-c", str(connections), "--output-format", "json", bench.url + "/"]
    result = bench.run(command)
    try:
        counts = json.loads(result["stdout"])["statusCodeDistribution"]
    except (ValueError, KeyError) as why:
        raise CouldNotRun(f"oha: unreadable output: {why}") from why
    return result, sum(counts.values())


def k6(bench, connections):
    summary = os.path.join(bench.dir, "k6.json")
    command = [bench.paths["k6"], "run", "--quiet", "--no-usage-report", "--no-color",
               "--vus", str(connections), "--duration", f"{bench.duration_s}s",
               "--summary-export", summary, os.path.join(HERE, "k6.js")]
    environment = dict(os.environ, BENCH_URL=bench.url + "/")
    result = bench.run(command, env=environment)
    with open(summary) as file:
        return result, int(json.load(file)["metrics"]["http_reqs"]["count"])


def h2load(bench, connections, streams):
    command = [bench.paths["h2load"], "-t1", f"-c{connections}", f"-m{streams}",
               "-D", str(bench.duration_s), bench.url_h2 + "/"]
    result = bench.run(command)
    done = r"requests: \d+ total, \d+ started, (\d+) done"
    return result, found(done, result["stdout"], "h2load")


def volley(bench, plan, url=None, replace=(), timeout_s=300):
    """Runs a plan of bench/plans with some of its words replaced; summary included."""
    summary_path = os.path.join(bench.dir, "summary.json")
    if os.path.exists(summary_path):
        os.unlink(summary_path)
    path = render(bench, plan, url or bench.url, replace)
    command = [bench.paths["volley"], "run", path, "--cores", "1", "--quiet",
               "--summary", summary_path]
    result = bench.run(command, timeout_s=timeout_s)
    try:
        with open(summary_path) as file:
            result["summary"] = json.load(file)
        return result, int(result["summary"]["requests"]["count"])
    except (OSError, ValueError, KeyError) as why:
        raise CouldNotRun(f"volley {plan}: no summary: {why!r}: {result['stderr']}") from why


def script(bench, tool, name, users, duration_s=None, every_core=False):
    """Runs a script of bench/scripts with k6 or volley; result and metrics of its summary.

    Without a duration as many iterations as users are made.
    """
    summary_path = os.path.join(bench.dir, "script.json")
    if os.path.exists(summary_path):
        os.unlink(summary_path)
    command = [bench.paths[tool], "run", "--quiet", "--no-color"]
    if tool == "k6":
        command += ["--no-usage-report"]
    elif not every_core:
        command += ["--cores", "1"]
    until = ["--duration", f"{duration_s}s"] if duration_s else ["--iterations", str(users)]
    command += ["--vus", str(users), *until,
                "-e", "BENCH_URL=" + bench.url, "--summary-export", summary_path,
                os.path.join(HERE, "scripts", name + ".js")]
    result = bench.run(command, **({"core": None} if every_core else {}))
    try:
        with open(summary_path) as file:
            return result, json.load(file)["metrics"]
    except (OSError, ValueError, KeyError) as why:
        raise CouldNotRun(f"{tool} {name}: no summary: {why!r}: {result['stderr']}") from why


def render(bench, plan, url, replace=()):
    """The plans run as they stand; here only addresses and sizes are changed."""
    with open(os.path.join(HERE, "plans", plan + ".yaml")) as file:
        text = file.read()
    for old, new in [("http://127.0.0.1:8080", url), *replace]:
        if old not in text:
            raise CouldNotRun(f"plan {plan}: `{old}` is not in it any more")
        text = text.replace(old, new)
    path = os.path.join(bench.dir, plan + ".yaml")
    with open(path, "w") as file:
        file.write(text)
    return path


def figures_of(result, requests, seen, wall_s):
    """What one run costs, in the units of the table."""
    if requests == 0:
        raise CouldNotRun(f"{' '.join(result['command'])}: made no request")
    cpu_s = result["user_s"] + result["sys_s"]
    return {
        "requests": requests,
        "seen_by_server": seen,
        "cpu_us": cpu_s * 1e6 / requests,
        "rate": requests / wall_s,
        "cpu_share": cpu_s / result["wall_s"],
        "max_rss_kb": result["max_rss_kb"],
    }


def counted(bench, run):
    """Runs one job and compares its count of requests with the server's."""
    before = bench.seen()
    result, requests = run(bench)
    time.sleep(0.2)  # nginx counts a request when it ends
    # one `seen` request lies between the two readings
    seen = bench.seen() - before - 1
    elapsed_s = result.get("summary", {}).get("elapsed_s") or result["wall_s"]
    return figures_of(result, requests, seen, elapsed_s)
