"""Train `laya-mini` for some minutes; a later call goes on where the last one stopped.

python -m training.train --data DATA --minutes 140
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import torch

from laya._forward.network import DecisionNetwork
from training.mixture import Mixture
from training.model import losses, new_network, optimizer_for
from training.rows import Row, RowEncoder, TrainingBatch, collate, plan
from training.sources import fetch_sources
from training.state import Average, Position, load_state, save_state

DEFAULT_STATE = Path.home() / ".cache" / "laya-training"
SEED = 20
STAGES = ((283_000, 43_000), (355_500, 45_000))
"""The plan after which each fall of the rates has ended, and its length, in sequences."""
_CHUNK = 2048
"""Examples that are sorted by length together."""
_WARMUP = 2500
"""Sequences over which the rates rise."""
_SAVE_EVERY_S = 180.0
_LOG_EVERY_S = 60.0


def main() -> None:
    """Train for one sitting."""
    sit(_options())


def sit(options: argparse.Namespace) -> Position:
    """Train until the time is up, the plan is fulfilled, or a stop signal comes; return where the run stands then."""
    torch.set_num_threads(options.threads)
    torch.manual_seed(SEED)
    random.seed(SEED)
    folder: Path = options.state_dir
    folder.mkdir(parents=True, exist_ok=True)
    sources = fetch_sources(folder / "sources")
    network = new_network(sources.encoder).train()
    optimizer = optimizer_for(network, options.encoder_rate, options.head_rate)
    # Those of this sitting, whatever the saved optimizer had.
    rates = [group["lr"] for group in optimizer.param_groups]
    average = Average(network)
    position = load_state(folder, network, average, optimizer)
    stream = Batches(Mixture(sources, options.data, SEED), RowEncoder(sources.encoder), options.tokens, options.rows)
    run = Run(network, optimizer, rates, average, position, folder, options.sequences, options.decay)
    run.train(stream, options.minutes * 60)
    return position


class Batches:
    """Batches from a position on, the same however often a run is stopped."""

    def __init__(self, mixture: Mixture, encoder: RowEncoder, tokens: int, rows: int) -> None:
        self._mixture, self._encoder, self._tokens, self._rows = mixture, encoder, tokens, rows

    def since(self, chunk: int, batch: int) -> Iterator[tuple[int, int, TrainingBatch]]:
        """Yield batches with the position that follows each."""
        while True:
            rows = [self._row(chunk * _CHUNK + i) for i in range(_CHUNK)]
            batches = plan(rows, self._tokens, self._rows, random.Random(f"{SEED}:plan:{chunk}"))
            for index in range(batch, len(batches)):
                done = index + 1 == len(batches)
                after = (chunk + 1, 0) if done else (chunk, index + 1)
                yield *after, collate([rows[i] for i in batches[index]], self._encoder.pad)
            chunk, batch = chunk + 1, 0

    def _row(self, number: int) -> Row:
        return self._encoder.encode(self._mixture.example(number))


class Run:
    """One sitting: steps until the time is up, the plan is fulfilled, or a stop signal comes."""

    def __init__(
        self,
        network: DecisionNetwork,
        optimizer: torch.optim.AdamW,
        rates: list[float],
        average: Average,
        position: Position,
        folder: Path,
        planned: int,
        decay: int,
    ) -> None:
        self._network, self._optimizer, self._average = network, optimizer, average
        self._position, self._folder = position, folder
        self._planned, self._decay = planned, decay
        self._base_rates = rates
        self._trainable = [p for p in network.parameters() if p.requires_grad]
        self._autocast = torch.ops.mkldnn._is_mkldnn_bf16_supported()
        self._log = _Log(folder / "log.jsonl")
        self._stopped = False

    def train(self, stream: Batches, seconds: float) -> None:
        """Take steps, saving and logging on the way; the state is saved when it returns."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        position = self._position
        print(f"from {position.sequences} sequences, plan {self._planned}, bf16={self._autocast}", flush=True)
        started = saved = last = time.monotonic()
        for chunk, batch, rows in stream.since(position.chunk, position.batch):
            self._step(rows)
            now = time.monotonic()
            position.chunk, position.batch = chunk, batch
            position.seconds += now - last
            last = now
            self._log.maybe_write(position, self._rate())
            done = self._stopped or now - started > seconds or position.sequences >= self._planned
            if done or now - saved > _SAVE_EVERY_S:
                save_state(self._folder, self._network, self._average, self._optimizer, position)
                saved = now
            if done:
                break
        print(f"stopped at {position.sequences} sequences, {position.seconds / 3600:.2f} hours in all", flush=True)

    def _step(self, rows: TrainingBatch) -> None:
        for group, base in zip(self._optimizer.param_groups, self._base_rates, strict=True):
            group["lr"] = base * self._rate()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self._autocast):
            logits, act_logits = self._network(*rows.inputs)
        loss, by_row = losses(logits, act_logits, rows.target)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._trainable, 1.0)
        self._optimizer.step()
        self._position.steps += 1
        self._position.sequences += len(rows.sources)
        self._average.update(self._network, self._position.steps)
        right = logits.detach().argmax(-1) == rows.target.argmax(-1)
        self._log.add(rows.sources, by_row.tolist(), right.tolist())

    def _rate(self) -> float:
        """Rise, stay, and fall in a straight line to a twentieth over the last sequences of the plan."""
        done = self._position.sequences
        rise = min(1.0, (done + 100) / _WARMUP)
        left = min(1.0, max(0, self._planned - done) / max(1, self._decay))
        return rise * (0.05 + 0.95 * left)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopped = True


class _Log:
    """Mean loss and accuracy by source, on screen and in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        self._since = time.monotonic()

    def add(self, sources: tuple[str, ...], losses_: list[float], right: list[bool]) -> None:
        for source, loss, hit in zip(sources, losses_, right, strict=True):
            key = source if source.split(":")[0] in _NAMED else source.split(":")[0]
            sums = self._sums[key]
            sums[0] += 1
            sums[1] += loss
            sums[2] += hit

    def maybe_write(self, position: Position, rate: float) -> None:
        passed = time.monotonic() - self._since
        if passed < _LOG_EVERY_S:
            return
        count = sum(sums[0] for sums in self._sums.values())
        loss = sum(sums[1] for sums in self._sums.values()) / count
        table = {key: [round(s[1] / s[0], 3), round(s[2] / s[0], 3)] for key, s in sorted(self._sums.items())}
        line = {"sequences": position.sequences, "loss": round(loss, 4), "rate": round(rate, 4), "by": table}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        short = " ".join(f"{key}={value[1]:.2f}" for key, value in table.items())
        print(f"{position.sequences:8d} {count / passed:5.1f}/s loss {loss:.3f} {short}", flush=True)
        self._sums.clear()
        self._since = time.monotonic()


_NAMED = frozenset({"clinc", "wordnet", "vader", "davidson", "home", "spam", "chatter"})


def parser_for(description: str | None) -> argparse.ArgumentParser:
    """The options of a sitting."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True, help="folder of clinc150, vader and davidson .jsonl")
    parser.add_argument("--minutes", type=float, default=140.0, help="length of this sitting")
    parser.add_argument("--state-dir", type=Path, default=DEFAULT_STATE)
    parser.add_argument("--sequences", type=int, default=STAGES[-1][0], help="the plan over all sittings")
    parser.add_argument("--decay", type=int, default=STAGES[-1][1], help="its last sequences, in which rates fall")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=2048, help="tokens of a batch, padding included")
    parser.add_argument("--rows", type=int, default=20, help="most rows of a batch")
    parser.add_argument("--encoder-rate", type=float, default=9e-5)
    parser.add_argument("--head-rate", type=float, default=5e-4)
    return parser


def _options() -> argparse.Namespace:
    return parser_for(__doc__).parse_args()


if __name__ == "__main__":
    main()
