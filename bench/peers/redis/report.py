# SPDX-License-Identifier: Apache-2.0
"""The figures of a run as a table and as one page that needs nothing else.

report.py FOLDER reads FOLDER/figures (a line each: ROUND MEASURE KIND FIGURE) and FOLDER/settings,
prints the table, and writes FOLDER/peers.html.
"""

import html
import statistics
import sys

# measure, title, unit, less is better
MEASURES = (
    ("pairs", "acquire and release, nobody contends", "us", True),
    ("names", "64 names in flight through one client", "pairs/s", False),
    ("handover", "from release to acquired, 2 processes", "us", True),
    ("contended", "8 processes on one name", "hand-overs/s", False),
)
SHOWN = {
    "snib-async": "snib, asynchronous release",
    "snib-api": "snib, asynchronous API",
    "snib-plain": "snib, layout=plain",
    "snib-plain-async": "snib, layout=plain, async. release",
    "snib-plain-api": "snib, layout=plain, async. API",
    "hiredis": "hiredis: SET NX, compare and delete",
    "blpop": "BLPOP/LPUSH used as a lock",
    "redisson": "Redisson",
    "redisson-fair": "Redisson, fair",
}
# measure, ours, theirs, bound of the ratio ours/theirs, at most or at least
BOUNDS = (
    ("pairs", "snib", "rslock", 1.0, "at most"),
    ("pairs", "snib", "redislock", 1.0, "at most"),
    ("pairs", "snib", "hiredis", 1.1, "at most"),
    ("pairs", "snib-async", "hiredis", 0.75, "at most"),
    ("pairs", "snib-plain", "redsync", 1.0, "at most"),
    ("pairs", "snib-plain", "rslock", 1.0, "at most"),
    ("pairs", "snib-plain", "redislock", 1.0, "at most"),
    ("names", "snib-api", "rslock", 0.9, "at least"),
    ("names", "snib", "redislock", 1.2, "at least"),
    ("names", "snib-plain", "rslock", 0.9, "at least"),
    ("handover", "snib", "blpop", 1.25, "at most"),
)


def shown(kind, measure):
    name = SHOWN.get(kind, kind)
    return name + ", 64 threads" if measure == "names" and kind in ("snib", "snib-plain") else name


def read(folder):
    figures = {}
    with open(folder + "/figures", encoding="utf-8") as file:
        for line in file:
            turn, measure, kind, figure = line.split()
            figures.setdefault(measure, {}).setdefault(kind, {})[turn] = float(figure)
    return figures


def ratio(figures, measure, ours, theirs):
    """Within each round, then the median; None: one of them was skipped."""
    ours = figures.get(measure, {}).get(ours, {})
    theirs = figures.get(measure, {}).get(theirs, {})
    both = [ours[turn] / theirs[turn] for turn in ours if theirs.get(turn, 0) > 0]
    return statistics.median(both) if both else None


def tables(figures):
    for measure, title, unit, less in MEASURES:
        rows = {k: list(turns.values()) for k, turns in figures.get(measure, {}).items()}
        medians = {kind: statistics.median(each) for kind, each in rows.items()}
        order = sorted(medians, key=medians.get, reverse=not less)
        yield title, unit, less, [
            (shown(k, measure), medians[k], min(rows[k]), max(rows[k]), k.startswith("snib"))
            for k in order
        ]


def verdicts(figures):
    for measure, ours, theirs, bound, how in BOUNDS:
        title = next(m[1] for m in MEASURES if m[0] == measure)
        value = ratio(figures, measure, ours, theirs)
        if value is None:
            verdict = "skipped"
        else:
            verdict = "met" if (value <= bound if how == "at most" else value >= bound) else "missed"
        what = f"{shown(ours, measure)} / {shown(theirs, measure)}"
        yield title, what, value, f"{how} {bound}", verdict


def print_all(figures, settings):
    for line in settings:
        print(line)
    for title, unit, less, rows in tables(figures):
        print(f"\n{title} ({unit}; {'less' if less else 'more'} is better)")
        for name, median, least, most, _ in rows:
            print(f"  {name:38} {median:12.1f}   {least:.1f} to {most:.1f}")
    print("\nratios within a round, median of rounds")
    for title, what, value, bound, verdict in verdicts(figures):
        text = "" if value is None else f"{value:.2f}"
        print(f"  {what:58} {text:>7}   {bound:13} {verdict:8} {title}")


def plot(rows):
    most = max((row[3] for row in rows), default=1)
    lines = [f'<svg width="760" height="{len(rows) * 24 + 4}" role="img">']
    for i, (name, median, least, high, ours) in enumerate(rows):
        y = i * 24 + 4
        scale = 380 / most
        colour = "#b5542c" if ours else "#7d8a99"
        lines.append(
            f'<text x="0" y="{y + 13}">{html.escape(name)}</text>'
            f'<rect x="290" y="{y}" width="{median * scale:.1f}" height="17" fill="{colour}"/>'
            f'<path d="M{290 + least * scale:.1f} {y + 9}H{290 + high * scale:.1f}" stroke="#222"/>'
            f'<text x="{298 + high * scale:.1f}" y="{y + 13}">{median:,.0f}</text>'
        )
    return "\n".join(lines + ["</svg>"])


def page(figures, settings):
    parts = [
        "<!doctype html><meta charset=utf-8><title>snib beside its peers on Redis</title>",
        "<style>body{font:15px sans-serif;max-width:50em;margin:2em auto}svg{font-size:13px}"
        "td,th{text-align:left;padding:2px 12px 2px 0}.missed{color:#b00}</style>",
        "<h1>snib beside its peers on Redis</h1><p>Bars are medians of the rounds, lines go from "
        "the least to the most.</p><ul>",
    ]
    parts += [f"<li>{html.escape(line)}</li>" for line in settings]
    parts.append("</ul>")
    for title, unit, less, rows in tables(figures):
        better = "less" if less else "more"
        parts.append(f"<h2>{title}</h2><p>{unit}; {better} is better</p>{plot(rows)}")
    parts.append("<h2>Bounds</h2><table><tr><th>what<th>of<th>ratio<th>bound<th>")
    for title, what, value, bound, verdict in verdicts(figures):
        text = "" if value is None else f"{value:.2f}"
        cells = "".join(f"<td>{html.escape(c)}" for c in (title, what, text, bound, verdict))
        parts.append(f'<tr class="{verdict}">{cells}</tr>')
    parts.append("</table>")
    return "\n".join(parts) + "\n"


def main():
    folder = sys.argv[1]
    figures = read(folder)
    with open(folder + "/settings", encoding="utf-8") as file:
        settings = file.read().splitlines()
    print_all(figures, settings)
    with open(folder + "/peers.html", "w", encoding="utf-8") as file:
        file.write(page(figures, settings))
    print(f"\nas a page: {folder}/peers.html")


main()
