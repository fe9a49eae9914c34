"""How often routing is right on the labelled texts: `python -m tests.routing_table` prints the table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laya._checkpoints.catalog import Catalog
from laya._routing import RouteDecision, route
from laya._routing.evidence import count_words

TEXTS = Path(__file__).parent / "data" / "routing"
LANGUAGES = ("de", "fr", "es", "pt", "it", "nl", "pl", "tr", "vi", "id", "sv", "da", "cs", "ro", "hu", "fi")
CATALOG = Catalog.build()

Case = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A group of labelled texts, and how many went where they should."""

    texts: str
    right_means: str
    right: int
    total: int

    @property
    def share(self) -> float:
        """The share that is right."""
        return self.right / self.total


def load(name: str) -> list[Case]:
    """Read the labelled states of one file."""
    return [json.loads(line) for line in (TEXTS / f"{name}.jsonl").read_text("utf-8").splitlines()]


def decide(state: object) -> RouteDecision:
    """Route a state by what it is alone."""
    return route(state, catalog=CATALOG)


def measure() -> Iterator[Row]:
    """Yield a row per group."""
    for code in ("en", *LANGUAGES):
        model = "english" if code == "en" else "multilingual"
        cases = load(code)
        yield _tally(f"{code}, 4+ words", model, _by_words(cases, 4, 999), _goes_to(model))
        yield _tally(f"{code}, 1-3 words", f"{model} or default", _by_words(cases, 1, 3), _not_against(model))
    held_out = load("held_out")
    for model in ("english", "multilingual"):
        cases = [case for case in held_out if (case["lang"] == "en") == (model == "english")]
        yield _tally(f"held out, {model}", model, cases, _goes_to(model))
    mixed = load("mixed")
    for model in ("multilingual", "english"):
        cases = [case for case in mixed if case["model"] == model]
        yield _tally(f"several parts, {model}", model, cases, _goes_to(model))
    yield _tally("no language in it", "default", load("silent"), _is_undecided)


def timings_ms(state: object, repeats: int = 100) -> list[float]:
    """Time routing by the text, once it is warm; the fastest first."""
    decide(state)
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        decide(state)
        taken.append((time.perf_counter() - started) * 1000)
    return sorted(taken)


def prose(code: str, *, words: int = 1_000, chars: int = 10_000) -> str:
    """Join texts of one language to a state of some length."""
    joined = "\n".join(case["state"] for case in load(code))
    return " ".join(joined.split(" ")[:words])[:chars]


def _by_words(cases: list[Case], least: int, most: int) -> list[Case]:
    return [case for case in cases if least <= count_words(case["state"]) <= most]


def _tally(texts: str, right_means: str, cases: list[Case], is_right: Callable[[Case], bool]) -> Row:
    return Row(texts, right_means, sum(map(is_right, cases)), len(cases))


def _goes_to(model: str) -> Callable[[Case], bool]:
    return lambda case: decide(case["state"]).model == model


def _not_against(model: str) -> Callable[[Case], bool]:
    return lambda case: decide(case["state"]).model == model or _is_undecided(case)


def _is_undecided(case: Case) -> bool:
    return decide(case["state"])["detection"]["is_english"] is None


def main() -> None:
    """Print both tables in Markdown."""
    print("| texts | right is | right of all | share |\n|---|---|---|---|")
    for row in measure():
        print(f"| {row.texts} | {row.right_means} | {row.right}/{row.total} | {100 * row.share:.1f} % |")
    print("\n| state | fastest of 100, ms | median, ms |\n|---|---|---|")
    for code in ("en", "de", "vi"):
        for name, state in (
            ("20 words", prose(code, words=20)),
            ("2,000 characters", prose(code, chars=2_000)),
        ):
            taken = timings_ms(state)
            print(f"| {code}, {name} | {taken[0]:.2f} | {taken[len(taken) // 2]:.2f} |")


if __name__ == "__main__":
    main()
