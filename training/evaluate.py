"""Print how a checkpoint answers the evaluation set, beside chance and cosine similarity of the same encoder.

python -m training.evaluate laya-mini
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from training.cosine import CosineBaseline
from training.example import Example
from training.measures import calibration_error, mean, roc_auc
from training.sources import fetch_sources
from training.train import DEFAULT_STATE

_FOLDER = Path(__file__).parent / "eval"
_ORDERS = 2
"""Other orders in which each choice is asked again."""


@dataclass(frozen=True)
class Decision:
    """One hand-labelled decision of the evaluation set."""

    suite: str
    state: Any
    question: dict[str, Any]
    gold: int
    """Index of the right option in the caller's order; noul: 0 false, 1 true."""

    @property
    def options(self) -> int:
        """Number of options."""
        return 2 if self.question["type"] == "noul" else len(self.question["criteria"])

    def example(self) -> Example:
        """The decision as an example that is sure of its answer."""
        target = tuple(float(index == self.gold) for index in range(self.options))
        return Example(self.state, self.question, target, self.suite)


def main() -> None:
    """Print the table."""
    options = _options()
    torch.set_num_threads(options.threads)
    decisions = load_decisions(_FOLDER)
    found = ask(options.checkpoint, decisions)
    cosine = None
    if not options.no_cosine:
        baseline = CosineBaseline(fetch_sources(options.state_dir / "sources").encoder)
        cosine = [baseline.probabilities(d.state, d.question) for d in decisions]
    for line in table(decisions, found, cosine):
        print(line)
    print(f"\nanswers that change with the order of the options: {order_changes(options.checkpoint, decisions):.1%}")
    if options.errors:
        _print_errors(decisions, found, options.errors)


def load_decisions(folder: Path) -> list[Decision]:
    """Read every `.jsonl` of the evaluation set, checked: an answer that is no option is a ValueError."""
    decisions = []
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            row = json.loads(line)
            question, answer = row["question"], row["answer"]
            names = list(question["criteria"]) if question["type"] == "choice" else []
            gold = names.index(answer) if names else int(answer)
            decisions.append(Decision(row["suite"], row["state"], question, gold))
            if gold >= decisions[-1].options:
                raise ValueError(f"{path.name}:{number}: the answer {answer!r} is no option")
    return decisions


def ask(checkpoint: str, decisions: Sequence[Decision]) -> list[list[float]]:
    """Return the probabilities of each decision's options, from the runtime itself."""
    import laya

    agent = laya.load(checkpoint)
    by_question: dict[str, list[int]] = defaultdict(list)
    for index, decision in enumerate(decisions):
        by_question[json.dumps(decision.question, ensure_ascii=False)].append(index)
    found: list[list[float]] = [[] for _ in decisions]
    for key, members in by_question.items():
        results = agent.predict_batch([decisions[i].state for i in members], {"q": json.loads(key)})
        for index, result in zip(members, results, strict=True):
            found[index] = _probabilities(dict(result["answers"]["q"]))
    return found


def table(
    decisions: Sequence[Decision], found: Sequence[list[float]], cosine: Sequence[list[float]] | None
) -> list[str]:
    """One line a suite: accuracy by chance, cosine and checkpoint; AUC, within one level, calibration error."""
    suites: dict[str, list[int]] = defaultdict(list)
    for index, decision in enumerate(decisions):
        suites[decision.suite].append(index)
    names = f"{'chance':>7} {'cosine':>7} {'mini':>7} {'cos AUC':>8} {'AUC':>6} {'within 1':>9} {'ECE':>6}"
    lines = [f"{'suite':20} {'n':>5} {names}"]
    for suite, members in [*sorted(suites.items()), ("all", list(range(len(decisions))))]:
        lines.append(_line(suite, [decisions[i] for i in members], [found[i] for i in members],
                           [cosine[i] for i in members] if cosine else None))  # fmt: skip
    return lines


def order_changes(checkpoint: str, decisions: Sequence[Decision]) -> float:
    """Share of choices whose answer changes when the same options are shown in another order."""
    choices = [d for d in decisions if d.question["type"] == "choice"]
    rng = random.Random(0)
    turned = []
    for decision in choices:
        for _ in range(_ORDERS):
            order = rng.sample(range(decision.options), decision.options)
            turned.append(Decision(decision.suite, decision.state, {**decision.question, "option_order": order}, 0))
    first, again = ask(checkpoint, choices), ask(checkpoint, turned)
    changed = [_top(again[i]) != _top(first[i // _ORDERS]) for i in range(len(turned))]
    return mean([float(c) for c in changed])


def _line(
    suite: str, decisions: Sequence[Decision], found: Sequence[list[float]], cosine: Sequence[list[float]] | None
) -> str:
    right = [_top(p) == d.gold for d, p in zip(decisions, found, strict=True)]
    kinds = {d.question["type"] for d in decisions}
    cells = [f"{suite:20}", f"{len(decisions):5d}", f"{mean([1 / d.options for d in decisions]):7.2f}"]
    cells.append(
        f"{mean([float(_top(p) == d.gold) for d, p in zip(decisions, cosine, strict=True)]):7.2f}"
        if cosine
        else " " * 7
    )
    cells.append(f"{mean([float(r) for r in right]):7.2f}")
    truths = [bool(d.gold) for d in decisions]
    only_noul = kinds == {"noul"}
    cells.append(f"{roc_auc([p[1] for p in cosine], truths):8.2f}" if only_noul and cosine else " " * 8)
    cells.append(f"{roc_auc([p[1] for p in found], truths):6.2f}" if only_noul else " " * 6)
    near = [float(abs(_top(p) - d.gold) <= 1) for d, p in zip(decisions, found, strict=True)]
    cells.append(f"{mean(near):9.2f}" if kinds == {"score"} else " " * 9)
    cells.append(f"{calibration_error([max(p) for p in found], right):6.3f}")
    return " ".join(cells)


def _print_errors(decisions: Sequence[Decision], found: Sequence[list[float]], suite: str) -> None:
    for decision, p in zip(decisions, found, strict=True):
        if decision.suite == suite and _top(p) != decision.gold:
            state = json.dumps(decision.state, ensure_ascii=False)
            print(f"{decision.question['instructions']} | {state} | {decision.gold} {[round(x, 2) for x in p]}")


def _probabilities(answer: dict[str, Any]) -> list[float]:
    if answer["type"] == "noul":
        return [1.0 - answer["noul"], answer["noul"]]
    return list(answer["probabilities"].values())


def _top(probabilities: Sequence[float]) -> int:
    return max(range(len(probabilities)), key=probabilities.__getitem__)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", help="folder or name of the checkpoint")
    parser.add_argument("--state-dir", type=Path, default=DEFAULT_STATE)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-cosine", action="store_true")
    parser.add_argument("--errors", metavar="SUITE", help="also print the wrong answers of one suite")
    return parser.parse_args()


if __name__ == "__main__":
    main()
