"""Reads what a conformance script says about itself in its head.

The head is the first block of `//` lines. Sentences say what the script shows; after an empty one,
lines of the form `// key: value` say how it is run and what is compared. Keys may repeat where
several values make sense. An unknown key is an error: a typo would silently compare less.
"""

import os
import re
import shlex
from dataclasses import dataclass, field

# Compared for every script unless it says `without:`.
PARTS_ALWAYS = ["exit", "results", "requests", "metrics", "thresholds", "checks", "files"]
# Compared where a script asks for it with `compare:`.
PARTS_ASKED = ["stdout", "summary", "points", "lines", "errors"]

KEYS = {
    "area": "the heading under which the document lists what is covered",
    "covers": "names shown, separated by semicolons",
    "args": "further arguments of `run`",
    "env": "NAME=VALUE, environment of the process",
    "exit": "exit code that k6 must give",
    "order": "`any`: RESULT lines of several VUs come in any order",
    "compare": "parts beyond the usual ones",
    "without": "parts that make no sense here",
    "range": "metric.key LOW..HIGH: both tools must lie within, instead of being equal",
    "timing": "metrics whose values depend on time: only their keys are compared",
    "mentions": "text that standard error of both must contain",
    "signal": "NAME SECONDS: sent to the tool while it runs",
    "volley-only": "why k6 cannot run it here; `result:` lines say what is expected",
    "result": "a line that must be printed (for volley-only)",
    "needs": "`http2`: left out where no HTTP/2 server can be started",
    "memory-mb": "the tool must stay below this",
}
REPEATED = {"covers", "env", "range", "mentions", "result"}


class BadHead(Exception):
    """A head that cannot be understood; the message names file and line."""


@dataclass
class Script:
    path: str
    name: str
    about: str = ""
    area: str = ""
    covers: list = field(default_factory=list)
    args: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    exit: int = 0
    any_order: bool = False
    parts: list = field(default_factory=list)
    ranges: dict = field(default_factory=dict)  # (metric, key) -> (low, high)
    timing: set = field(default_factory=set)
    mentions: list = field(default_factory=list)
    signal: tuple = None  # (name, seconds)
    volley_only: str = ""
    expected_results: list = field(default_factory=list)
    prints_results: bool = False
    needs_http2: bool = False
    memory_mb: float = 0.0


def split_range(value, where):
    found = re.fullmatch(r"(\S.*?)\.([a-z]+(?:\(\d+\))?) (-?[\d.]+)\.\.(-?[\d.]+)", value)
    if not found:
        raise BadHead(f"{where}: `range: {value}` is not `metric.key LOW..HIGH`")
    metric, key, low, high = found.groups()
    return (metric, key), (float(low), float(high))


def read(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    script = Script(path, os.path.splitext(os.path.basename(path))[0])
    values, about, prose = {}, [], True  # sentences end at the first empty line
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("//"):
            break
        line = line[2:].strip()
        prose = prose and line != ""
        found = re.match(r"([a-z][a-z0-9-]*): ?(.*)$", line)
        if prose or not found:
            about.append(line)
            continue
        key, value = found.groups()
        where = f"{path}:{number}"
        if key not in KEYS:
            raise BadHead(f"{where}: unknown key `{key}`; known: {', '.join(KEYS)}")
        if key in values and key not in REPEATED:
            raise BadHead(f"{where}: `{key}` is given twice")
        values.setdefault(key, []).append((value.strip(), where))
    one = lambda key, default="": values[key][0][0] if key in values else default
    many = lambda key: [value for value, _ in values.get(key, [])]
    if "area" not in values or not many("covers"):
        raise BadHead(f"{path}: the head needs `area:` and `covers:`")
    script.about = " ".join(about).strip()
    script.area = one("area")
    script.covers = [c.strip() for line in many("covers") for c in line.split(";") if c.strip()]
    script.args = shlex.split(one("args"))
    script.env = dict(pair.split("=", 1) for line in many("env") for pair in shlex.split(line))
    script.exit = int(one("exit", "0"))
    script.any_order = one("order") == "any"
    asked, without = one("compare").split(), one("without").split()
    for part in asked + without:
        if part not in PARTS_ALWAYS + PARTS_ASKED:
            raise BadHead(f"{path}: unknown part `{part}`")
    script.parts = [p for p in PARTS_ALWAYS if p not in without] + asked
    script.ranges = dict(split_range(value, where) for value, where in values.get("range", []))
    script.timing = set(one("timing").split())
    script.mentions = many("mentions")
    if "signal" in values:
        name, seconds = one("signal").split()
        script.signal = (name, float(seconds))
    script.needs_http2 = one("needs") == "http2"
    script.memory_mb = float(one("memory-mb", "0"))
    script.volley_only = one("volley-only")
    script.expected_results = many("result")
    script.prints_results = "RESULT" in re.sub(r"(?m)^//.*$", "", text)
    return script


def read_all(folder, pattern=None):
    scripts = []
    for name in sorted(os.listdir(folder)):
        if re.match(r"\d+-.*\.(js|ts)$", name) and (not pattern or re.search(pattern, name)):
            scripts.append(read(os.path.join(folder, name)))
    return scripts
