"""Make `laya-mini` from its data: all sittings and the export. A stopped call goes on where it was when called again.

python -m training.make --data DATA --out laya-mini
"""

from __future__ import annotations

from pathlib import Path

from training.export import add_options, export
from training.state import keep_state, read_position
from training.train import STAGES, parser_for, sit


def main() -> None:
    """Train stage by stage as far as the minutes reach, and export once the last one is done."""
    parser = parser_for(__doc__)
    add_options(parser)
    options = parser.parse_args()
    folder: Path = options.state_dir
    earlier = folder / f"state-{STAGES[0][0]}.pt"
    position = read_position(folder)
    started, minutes = position.seconds, options.minutes
    for sequences, decay in STAGES:
        if position.sequences < sequences:
            options.sequences, options.decay = sequences, decay
            options.minutes = minutes - (position.seconds - started) / 60
            position = sit(options)
        if position.sequences < sequences:
            print("the plan isn't fulfilled; the same call goes on", flush=True)
            return
        if sequences == STAGES[0][0] and position.sequences < sequences + options.rows:  # it has just ended
            keep_state(folder, earlier)
    options.earlier = options.earlier or earlier
    if not options.earlier.exists():
        parser.error(f"{options.earlier} isn't there: the run in {folder} went by another plan; pass --earlier")
    export(options)


if __name__ == "__main__":
    main()
