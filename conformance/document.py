"""Writes docs/k6-compatibility.md from the outcomes of a run.

A thing that scripts cover is `same` when no script that covers it differs. A difference belongs
to the covered names that its key mentions; where it mentions none, to all that its script covers.
"""

import re

HEAD = """# k6 compatibility

`volley run script.js` runs k6 scripts as they are. This page says what is the same, what differs
and what is not there. It is generated: `conformance/run` runs each script below in
{k6} and in Volley, against the same server, and compares what comes out. Do not edit it; edit
`conformance/known.toml` or the scripts.

Compared are: the exit code; every line that the script prints; each request that the server
received (method, path, content type, body); names, keys and values of all metrics and sub-metrics
in the summary export; verdicts of thresholds; groups and checks with their counts; files written.
Where a script is about them also: tags of every sample (`--out json`), the text of the summary,
the form of log lines. A value that depends on time must lie in the same range in both.
"""


def text(outcomes, known, versions):
    k6 = " ".join(versions.get("k6", "k6").split(" ")[:2])
    lines = [HEAD.format(k6=k6)]
    lines += counts(outcomes)
    lines += ["", "## What is covered", ""]
    for area, items in by_area(outcomes).items():
        lines += [f"### {area}", "", "| | Result | Shown by |", "|---|---|---|"]
        lines += [f"| {cell(item)} | {verdict} | {', '.join(shown)} |"
                  for item, (verdict, shown) in items.items()]
        lines.append("")
    lines += differences(outcomes)
    lines += only_volley(outcomes)
    return "\n".join(lines).rstrip() + "\n"


def cell(item):
    escaped = item.replace("|", "\\|")
    return f"`{escaped}`" if re.search(r"[.(){}_$=-]|^[a-z]+[A-Z/]", item) else escaped


def counts(outcomes):
    number = lambda status: sum(o.status == status for o in outcomes)
    rows = [
        ("scripts", len(outcomes)),
        ("the same in both", number("same")),
        ("with differences listed below", number("known")),
        ("with differences not yet explained", number("DIFFERENT")),
        ("not comparable in this run", number("BROKEN") + number("skipped")),
    ]
    return ["| | |", "|---|---|"] + [f"| {name} | {value} |" for name, value in rows]


def concerned(outcome):
    """Which covered items each difference belongs to: item -> "absent" or "differs"."""
    found = {}
    for difference, entry in outcome.differences:
        kind = (entry or {}).get("kind", "differs")
        # the longest name: `check with tags` is not about all of `check`
        mentioned = sorted((i for i in outcome.script.covers if i in difference.key), key=len)
        for item in mentioned[-1:] or outcome.script.covers:
            if found.get(item) != "absent":
                found[item] = kind
    return found


def by_area(outcomes):
    areas = {}
    for outcome in outcomes:
        items = areas.setdefault(outcome.script.area, {})
        bad = concerned(outcome)
        for item in outcome.script.covers:
            verdict, shown = items.get(item, ("same", []))
            if outcome.status in ("BROKEN", "skipped"):
                verdict = verdict if shown else "not compared"
            elif bad.get(item) == "absent":
                verdict = "**not there**"
            elif item in bad:
                verdict = "**differs**"
            elif verdict == "not compared":
                verdict = "same"
            items[item] = (verdict, shown + [outcome.script.name.split("-")[0]])
    return areas


def differences(outcomes):
    lines = ["## Differences", ""]
    reasons = {}  # reason -> (kind, scripts)
    unexplained = []
    for outcome in outcomes:
        for difference, entry in outcome.differences:
            if entry is None:
                unexplained.append((outcome.script.name, difference))
            else:
                kind, names = reasons.setdefault(entry["reason"], (entry.get("kind"), []))
                if outcome.script.name not in names:
                    names.append(outcome.script.name)
    for title, wanted in (("Not there", True), ("Differs", False)):
        chosen = {r: v for r, v in reasons.items() if (v[0] == "absent") == wanted}
        if chosen:
            lines += [f"### {title}", ""]
            lines += [f"- {reason} ({', '.join(names)})" for reason, (_, names) in chosen.items()]
            lines.append("")
    if unexplained:
        lines += ["### Not explained yet", "", "| Script | Part | What | k6 | Volley |",
                  "|---|---|---|---|---|"]
        lines += [f"| {name} | {d.part} | {short(d.key)} | {short(d.one)} | {short(d.other)} |"
                  for name, d in unexplained]
        lines.append("")
    if not reasons and not unexplained:
        lines += ["None.", ""]
    return lines


def short(value, limit=80):
    value = value.replace("\n", " ").replace("|", "\\|")
    return "`" + (value if len(value) <= limit else value[:limit] + "...").replace("`", "'") + "`"


def only_volley(outcomes):
    chosen = [o for o in outcomes if o.script.volley_only]
    if not chosen:
        return []
    lines = ["## Checked without k6", "",
             "These scripts load files from the internet in k6; Volley has them built in. They are",
             "compared with the results that the script itself states.", ""]
    lines += [f"- {o.script.name}: {o.script.about or ', '.join(o.script.covers)} ({o.status})"
              for o in chosen]
    return lines + [""]
