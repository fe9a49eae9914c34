"""Draw what run.py measured: how many times as fast as the other runtime each case is.

    python benchmarks/plot.py mini.json base.json --out docs/images/speed.png

Each bar is a median over rounds, its whisker the least and the greatest ratio of a round. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

Ratios = dict[str, list[float]]
"""case -> the ratio of each round, the other's time over ours"""


def main() -> None:
    """Read the files and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path, nargs="+", help="files of run.py --json")
    parser.add_argument("--out", type=Path, default=Path("docs/images/speed.png"))
    given = parser.parse_args()
    runs = {}
    for path in given.measured:
        content = json.loads(path.read_text(encoding="utf-8"))
        runs[content["checkpoint"]] = ratios(content["rows"])
    draw(runs, given.out)


def ratios(rows: list[dict[str, Any]]) -> Ratios:
    """The ratio of each round, for the cases that were compared."""
    return {
        row["case"]: [theirs / own for own, theirs in zip(row["ours"], row["other"], strict=True)]
        for row in rows
        if row["other"]
    }


def draw(runs: dict[str, Ratios], out: Path) -> None:
    """A group of horizontal bars for each case, a bar for each checkpoint."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    cases = list(dict.fromkeys(case for found in runs.values() for case in found))
    thickness = 0.8 / len(runs)
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.36 * len(cases) * len(runs) ** 0.5), layout="constrained")
    for index, (checkpoint, found) in enumerate(runs.items()):
        at = [cases.index(case) + (index - (len(runs) - 1) / 2) * thickness for case in found]
        middle = [statistics.median(values) for values in found.values()]
        low = [m - min(values) for m, values in zip(middle, found.values(), strict=True)]
        high = [max(values) - m for m, values in zip(middle, found.values(), strict=True)]
        bars = axes.barh(at, middle, thickness * 0.9, xerr=(low, high), label=checkpoint, error_kw={"linewidth": 0.8})
        axes.bar_label(bars, [f"{m:.2f}" for m in middle], padding=3, fontsize=8)
    axes.axvline(1.0, color="0.4", linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(cases)), cases, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("times as fast as the published runtime")
    axes.legend(title="checkpoint", fontsize=8)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=130)


if __name__ == "__main__":
    main()
