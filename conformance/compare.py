"""Says in which parts two observations of the same script differ.

A value that does not depend on time must be equal. One that does is compared by its existence, or
by a range that the script gives and that both must lie in. A range that k6 misses means that the
machine was too busy or the script is wrong: that is reported as such, not as a difference.
"""

import collections
import itertools
import re
from dataclasses import dataclass

TIMED = re.compile(r"(http_req_(?!failed)|iteration_duration|group_duration|ws_|grpc_)")
SAMPLED = re.compile(r"vus(_max)?(\{|$)")  # read once a second: absent from short runs


@dataclass
class Difference:
    part: str
    key: str
    one: str
    other: str


def numbers_differ(one, other):
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return abs(one - other) > 1e-9 * max(1.0, abs(one), abs(other))
    return one != other


def exit_code(script, one, other):
    if one.exit != other.exit:
        yield "code", one.exit, other.exit


def results(script, one, other):
    yield from listed(script, one.results, other.results)


def lines(script, one, other):
    """Log lines letter by letter, in order."""
    for a, b in itertools.zip_longest(one.lines, other.lines, fillvalue="nothing"):
        if a != b:
            yield message_of(a if a != "nothing" else b), a, b


def message_of(line):
    return line[line.find("RESULT"):][:60]


def key_of(line):
    """What comes before the value in `key words [value]`."""
    found = re.match(r'(.*?) ([\[{"].*|-?[\d.]+|true|false|null|undefined)$', line)
    return found.group(1) if found else line.split(" ")[0]


def listed(script, one, other):
    """Lines in order, told apart by their keys."""
    if script.any_order:
        yield from counted(None, collections.Counter(one), collections.Counter(other))
        return
    by_key = lambda all_lines: collections.OrderedDict(
        (key, [l for l in all_lines if key_of(l) == key])
        for key in dict.fromkeys(map(key_of, all_lines)))
    first, second = by_key(one), by_key(other)
    different = False
    for key in dict.fromkeys([*first, *second]):
        if first.get(key) != second.get(key):
            different = True
            yield key, " | ".join(first.get(key, ["nothing"])), " | ".join(
                second.get(key, ["nothing"]))
    if not different and one != other:
        yield "order of lines", " | ".join(one), " | ".join(other)


def counted(script, one, other):
    for key in sorted(set(one) | set(other)):
        if one[key] != other[key]:
            yield key, f"{one[key]} x", f"{other[key]} x"


def requests(script, one, other):
    if any(metric == "http_reqs" for metric, _ in script.ranges):
        # as many as time allowed: only which requests there were
        one_kinds, other_kinds = set(one.requests), set(other.requests)
        for line in sorted(one_kinds ^ other_kinds):
            yield line, line in one_kinds, line in other_kinds
        return
    yield from counted(script, one.requests, other.requests)


def points(script, one, other):
    """Which metrics had samples with which tags; all metrics of one set of tags are one row."""
    def by_tags(seen):
        found = {}
        for (metric, tags), times in seen.points.items():
            found.setdefault(tags, {})[metric] = times
        return found
    shown = lambda metrics: ", ".join(f"{n} x{t}" for n, t in sorted(metrics.items())) or "nothing"
    first, second = by_tags(one), by_tags(other)
    for tags in sorted(set(first) | set(second)):
        a, b = first.get(tags, {}), second.get(tags, {})
        if a != b:
            only = lambda x, y: {n: t for n, t in x.items() if y.get(n) != t}
            yield tags, shown(only(a, b)), shown(only(b, a))


def metrics(script, one, other):
    if (one.summary is None) != (other.summary is None):
        yield "--summary-export", one.summary is not None, other.summary is not None
        return
    first = (one.summary or {}).get("metrics", {})
    second = (other.summary or {}).get("metrics", {})
    for name in sorted(set(first) | set(second)):
        if SAMPLED.match(name):
            continue
        if name not in first or name not in second:
            yield name, name in first, name in second
            continue
        yield from values_of(script, name, first[name], second[name])


def values_of(script, name, first, second):
    keys = lambda values: sorted(k for k in values if k != "thresholds")
    if keys(first) != keys(second):
        yield name + " keys", keys(first), keys(second)
        return
    base = name.split("{")[0]
    for key in keys(first):
        if (name, key) in script.ranges or name in script.timing or base in script.timing:
            continue
        if base in ("data_sent", "data_received"):
            a, b = first[key] > 0, second[key] > 0
        elif TIMED.match(base) or (key == "rate" and "count" in first):
            continue
        else:
            a, b = first[key], second[key]
        if numbers_differ(a, b):
            yield f"{name} {key}", a, b


def thresholds(script, one, other):
    def of(seen):
        found = {}
        for name, values in ((seen.summary or {}).get("metrics", {})).items():
            for expression, failed in values.get("thresholds", {}).items():
                found[f"{name}: {expression}"] = "failed" if failed else "held"
        return found
    first, second = of(one), of(other)
    for key in sorted(set(first) | set(second)):
        if first.get(key) != second.get(key):
            yield key, first.get(key, "not there"), second.get(key, "not there")


def tree(group, found):
    """Groups and checks with their paths; counts of checks."""
    found["group " + group.get("path", "")] = group.get("name")
    for check in children(group.get("checks")):
        found["check " + check["path"]] = (check["passes"], check["fails"])
    for child in children(group.get("groups")):
        tree(child, found)
    return found


def children(value):
    return list(value.values()) if isinstance(value, dict) else (value or [])


def checks(script, one, other):
    of = lambda seen: tree((seen.summary or {}).get("root_group") or {}, {})
    first, second = of(one), of(other)
    loose = any(metric == "checks" for metric, _ in script.ranges)
    for key in sorted(set(first) | set(second)):
        if (key in first) != (key in second) or (first[key] != second[key] and not loose):
            yield key, first.get(key, "not there"), second.get(key, "not there")


def files(script, one, other):
    for name in sorted(set(one.files) | set(other.files)):
        a, b = one.files.get(name), other.files.get(name)
        if a is None or b is None:
            yield name, "not there" if a is None else "there", "not there" if b is None else "there"
        elif a != b:
            yield name, only_in(a, b), only_in(b, a)


def only_in(text, other):
    """The lines of `text` that `other` has not; all of it where only their order differs."""
    missing = collections.Counter(text.split("\n")) - collections.Counter(other.split("\n"))
    return "\n".join(missing.elements()) or text


def stdout(script, one, other):
    if one.stdout.strip() != other.stdout.strip():
        yield "text", one.stdout.strip(), other.stdout.strip()


def shape(text):
    """The end-of-test summary with everything that varies made equal."""
    found = []
    for line in text.split("\n"):
        line = re.sub(r"(?<![\w.])(\d+(\.\d+)?(h|m|s|ms|µs|us|ns))+(?!\w)", "T", line)
        line = re.sub(r"\d+(\.\d+)? [kMG]?B(/s)?", r"BYTES\2", line)
        line = re.sub(r"\d+(\.\d+)?/s", "N/s", line)
        line = re.sub(r"(?<==)0s?(?= |$)", "T", line)
        line = re.sub(r" +", " ", line).strip()
        if line and not re.match(r"vus(_max)?\.", line):
            found.append(line)
    return found


def summary(script, one, other):
    first, second = shape(one.stdout), shape(other.stdout)
    if first != second:
        for line in [l for l in first if l not in second]:
            yield "line", line, "nothing"
        for line in [l for l in second if l not in first]:
            yield "line", "nothing", line
        if sorted(first) == sorted(second):
            yield "order of lines", " | ".join(first), " | ".join(second)


def errors(script, one, other):
    if one.errors != other.errors:
        yield "level=error lines", one.errors, other.errors


PARTS = {
    "exit": exit_code, "results": results, "lines": lines, "requests": requests,
    "metrics": metrics, "thresholds": thresholds, "checks": checks, "files": files,
    "stdout": stdout, "summary": summary, "points": points, "errors": errors,
}


def compare(script, one, other):
    """All differences between the reference and the other tool."""
    found = []
    for part in script.parts:
        for key, a, b in PARTS[part](script, one, other):
            found.append(Difference(part, str(key), str(a), str(b)))
    for problem in promises(script, other):
        found.append(Difference("promise", *problem))
    return found


def promises(script, seen):
    """What the script itself demands of a tool: ranges, mentions, that it ends."""
    if seen.timed_out:
        yield "ends by itself", "yes", "no, stopped"
    have = (seen.summary or {}).get("metrics", {})
    for (metric, key), (low, high) in script.ranges.items():
        value = have.get(metric, {}).get(key)
        if value is None or not low <= value <= high:
            yield f"{metric} {key}", f"{low:g}..{high:g}", str(value)
    if script.memory_mb and seen.memory_mb > script.memory_mb:
        yield "memory", f"below {script.memory_mb:g} MB", f"{seen.memory_mb:.0f} MB"
    for text in script.mentions:
        if text not in seen.stderr:
            yield f"mentions `{text}`", "yes", "no"


def judge_reference(script, seen):
    """Why k6's own run cannot serve as a reference, if it cannot."""
    wrong = [f"{key}: expected {a}, got {b}" for key, a, b in promises(script, seen)]
    if seen.exit != script.exit:
        wrong.append(f"exit code: the head says {script.exit}, got {seen.exit}")
    if script.prints_results and not seen.results and "results" in script.parts:
        wrong.append("no RESULT line was printed")
    if seen.errors and "errors" not in script.parts:
        wrong.append("errors were logged, and the head does not say `compare: errors`")
    return wrong


def against_expectation(script, seen):
    """For scripts that k6 cannot run here: the head says what must come out."""
    found = []
    if seen.exit != script.exit:
        found.append(Difference("exit", "code", str(script.exit), str(seen.exit)))
    for key, a, b in listed(script, script.expected_results, seen.results):
        found.append(Difference("results", key, a, b))
    found += [Difference("promise", *problem) for problem in promises(script, seen)]
    return found
