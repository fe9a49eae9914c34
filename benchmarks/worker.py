"""Time calls of whichever `laya` this interpreter imports; driven by run.py over pipes.

Reads one JSON command a line, `{"do": name, ...}`, and answers with one JSON line. Needs nothing but `laya`, so that
it runs in the published runtime's environment too.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import workloads

warnings.simplefilter("ignore")


def _load(command: dict[str, Any], agents: dict[str, Any]) -> dict[str, Any]:
    import laya

    exported = _exported(command["path"], command["onnx"]) if "onnx" in command else None
    started = time.perf_counter()
    if exported is None:
        agents["agent"] = laya.load(command["path"], device=command["device"], **command.get("options", {}))
    else:
        agents["agent"] = laya.ONNXAgent(command["path"], exported)
    return {"seconds": time.perf_counter() - started, "version": laya.__version__}


def _exported(checkpoint: str, kind: str) -> str:
    """The checkpoint as an ONNX file beside its folder, made on the first call."""
    import laya

    path = Path(f"{checkpoint.rstrip('/')}-{kind}.onnx")
    if not path.exists():
        laya.export_onnx(checkpoint, str(path), quantize="int8" if kind == "int8" else None)
    return str(path)


def _predict(command: dict[str, Any], agents: dict[str, Any]) -> dict[str, Any]:
    questions = getattr(workloads, command["questions"])
    state = workloads.mixed_states(1, command["words"], command["words"])[0]
    started = time.perf_counter()
    for _ in range(command.get("repeat", 1)):
        result = agents["agent"].predict(state, questions)
    return {"seconds": (time.perf_counter() - started) / command.get("repeat", 1), "answers": result["answers"]}


def _batch(command: dict[str, Any], agents: dict[str, Any]) -> dict[str, Any]:
    questions = getattr(workloads, command["questions"])
    states = workloads.mixed_states(command["count"], command.get("shortest", 4), command.get("longest", 220))
    started = time.perf_counter()
    results = agents["agent"].predict_batch(states, questions, **command.get("options", {}))
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "answers": [result["answers"] for result in results]}


def _loop(command: dict[str, Any], agents: dict[str, Any]) -> dict[str, Any]:
    questions = getattr(workloads, command["questions"])
    states = workloads.mixed_states(command["count"])
    started = time.perf_counter()
    results = [agents["agent"].predict(state, questions) for state in states]
    return {"seconds": time.perf_counter() - started, "answers": [result["answers"] for result in results]}


def _long(command: dict[str, Any], agents: dict[str, Any]) -> dict[str, Any]:
    questions, state = getattr(workloads, command["questions"]), workloads.long_document()
    started = time.perf_counter()
    result = agents["agent"].predict_long(state, questions)
    return {"seconds": time.perf_counter() - started, "answers": result["answers"]}


def _callers(command: dict[str, Any], agents: dict[str, Any]) -> dict[str, Any]:
    """A thread for each caller; each asks once."""
    questions = getattr(workloads, command["questions"])
    states = workloads.mixed_states(command["count"], 40, 40)
    with ThreadPoolExecutor(len(states)) as pool:
        started = time.perf_counter()
        results = list(pool.map(lambda state: agents["agent"].predict(state, questions), states))
        seconds = time.perf_counter() - started
    return {"seconds": seconds, "answers": [result["answers"] for result in results]}


def _memory(command: dict[str, Any], agents: dict[str, Any]) -> dict[str, Any]:
    """The most memory that the process ever held, in MB, with what it shares with files."""
    return {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _router(command: dict[str, Any], agents: dict[str, Any]) -> dict[str, Any]:
    import laya

    if "router" not in agents:
        agents["router"] = laya.Router(
            models=command["models"], device=command["device"], max_loaded=len(command["models"])
        )
    questions, names = getattr(workloads, command["questions"]), list(command["models"])
    requests = [
        {"state": state, "questions": questions, "model": names[index % len(names)]}
        for index, state in enumerate(workloads.mixed_states(command["count"]))
    ]
    started = time.perf_counter()
    results = agents["router"].predict_batch(requests)
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "answers": [result["answers"] for result in results]}


_COMMANDS = {
    "load": _load,
    "predict": _predict,
    "batch": _batch,
    "loop": _loop,
    "long": _long,
    "callers": _callers,
    "router": _router,
    "memory": _memory,
}


def main() -> None:
    """Answer commands until standard input ends."""
    agents: dict[str, Any] = {}
    answers = sys.stdout
    sys.stdout = sys.stderr  # a library that prints must not disturb the protocol
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(_COMMANDS[command["do"]](command, agents)), file=answers, flush=True)


if __name__ == "__main__":
    main()
