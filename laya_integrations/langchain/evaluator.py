"""Score the runs of a LangSmith experiment with laya: offline, with the tokens in the trace.

judge = laya_evaluator(model="...", questions=relevance())
client.evaluate(target, data="my dataset", evaluators=[judge])
client.evaluate(target, data="my dataset", summary_evaluators=[judge.summary])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langsmith.evaluation import EvaluationResult, EvaluationResults, RunEvaluator
from langsmith.schemas import Example, Run

from laya_integrations._decisions import answer_value
from laya_integrations._options import CallOptions
from laya_integrations.langchain._traced import offload
from laya_integrations.langchain.messages import state_of
from laya_integrations.langchain.runnables import LayaMessage, LayaRunnable
from laya_integrations.presets import faithfulness

NAME = "laya_evaluator"
"""The evaluator's runs."""

ReadState = Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], Any]
"""Makes the state of an example's inputs, the run's outputs and the example's reference outputs."""


def laya_evaluator(
    questions: Any = None,
    *,
    runner: Any = None,
    model: str | None = None,
    options: CallOptions | None = None,
    read: ReadState | None = None,
    prefix: str = "",
) -> LayaEvaluator:
    """Make an evaluator that asks fixed questions about each run of an experiment.

    Args:
        questions: What to ask, in any form that `LayaRunnable` takes; `presets.faithfulness()` by default.
        runner: An `Agent`, a `Router`, or any object with laya's `predict`.
        model: Instead of a runner: a checkpoint path, Hub id or registered name. Neither means `Router()`.
        options: laya's call options. An answer below their `min_confidence` has no score.
        read: Makes the state of inputs, outputs and reference outputs. By default the state has the fields of
            inputs and outputs side by side, and the reference outputs as `reference`.
        prefix: Put before each question's id to make the feedback's key.

    Raises TypeError or ValueError for a runner or questions that can't be asked.
    """
    runnable = LayaRunnable(
        runner,
        model=model,
        questions=faithfulness() if questions is None else questions,
        options=options or CallOptions(),
    )
    return LayaEvaluator(runnable, read or fields_of, prefix)


class LayaEvaluator(RunEvaluator):
    """Feedback for each question, under its id. `laya_evaluator` makes it.

    - noul: `score` is the probability of yes, from 0 to 1.
    - score: `score` is the expected level, divided by the highest, so 0 to 1; `value` the most probable level's
      text, or its number where the questions give none.
    - choice: `value` is the label; no score.

    A run that failed has neither, and laya isn't asked about it.

    As an evaluator it asks about one run at a time. `evaluate_runs` and `summary` ask about all of them in
    shared forward passes.
    """

    def __init__(self, runnable: LayaRunnable, read: ReadState, prefix: str = "") -> None:
        self._runnable = runnable
        self._read = read
        self._prefix = prefix

    @property
    def feedback_keys(self) -> list[str]:
        """The keys of the feedback, in the order of the questions."""
        return [self._prefix + question_id for question_id in self._runnable.questions]

    def evaluate_run(
        self, run: Run, example: Example | None = None, evaluator_run_id: UUID | None = None
    ) -> EvaluationResults:
        """Feedback for one run."""
        if run.error:
            return self._failed(evaluator_run_id)
        message = self._runnable.invoke(self._state(run, example), _config(evaluator_run_id))
        return self._feedback(message, evaluator_run_id)

    async def aevaluate_run(
        self, run: Run, example: Example | None = None, evaluator_run_id: UUID | None = None
    ) -> EvaluationResults:
        """`evaluate_run`, off the event loop."""
        if run.error:
            return self._failed(evaluator_run_id)
        state = self._state(run, example)
        message = await self._runnable.ainvoke(state, _config(evaluator_run_id))
        return self._feedback(message, evaluator_run_id)

    def evaluate_runs(self, runs: Sequence[Run], examples: Sequence[Example | None]) -> list[EvaluationResults]:
        """Feedback for each run, in order; one laya call for all. Raises ValueError for another number of examples."""
        if len(runs) != len(examples):
            raise ValueError(f"examples has {len(examples)} entries for {len(runs)} runs; give one, or None, for each")
        states = [self._state(*item) for item in zip(runs, examples, strict=True) if not item[0].error]
        messages = iter(self._runnable.batch(states, _config()))
        return [self._failed() if run.error else self._feedback(next(messages)) for run in runs]

    async def aevaluate_runs(self, runs: Sequence[Run], examples: Sequence[Example | None]) -> list[EvaluationResults]:
        """`evaluate_runs`, off the event loop."""
        return await offload(self.evaluate_runs, runs, examples)

    @property
    def summary(self) -> Callable[[Sequence[Run], Sequence[Example]], EvaluationResults]:
        """A summary evaluator: the mean score of each question over all runs, and for a choice the share of each label.

        One laya call asks about all runs of an experiment.
        """

        def laya_summary(runs: Sequence[Run], examples: Sequence[Example]) -> EvaluationResults:
            return self._summarised(self.evaluate_runs(runs, examples))

        return laya_summary

    def _state(self, run: Run, example: Example | None) -> Any:
        inputs = (example.inputs if example is not None else run.inputs) or {}
        reference = (example.outputs if example is not None else None) or {}
        return state_of(self._read(inputs, run.outputs or {}, reference))

    def _feedback(self, message: LayaMessage, evaluator_run_id: UUID | None = None) -> EvaluationResults:
        info = {"model": message.result.get("model"), "laya_run_id": message.run_id}
        results = [
            EvaluationResult(
                key=self._prefix + question_id,
                evaluator_info=info,
                source_run_id=evaluator_run_id,
                **_verdict(answer),
            )
            for question_id, answer in message.result["answers"].items()
        ]
        return {"results": results}

    def _failed(self, evaluator_run_id: UUID | None = None) -> EvaluationResults:
        return {
            "results": [
                EvaluationResult(key=key, comment="the run failed", source_run_id=evaluator_run_id)
                for key in self.feedback_keys
            ]
        }

    def _summarised(self, feedback: Sequence[EvaluationResults]) -> EvaluationResults:
        by_key: dict[str, list[EvaluationResult]] = {key: [] for key in self.feedback_keys}
        for item in feedback:
            for result in item["results"]:
                by_key[result.key].append(result)
        return {"results": [_mean(key, results) for key, results in by_key.items()]}


def fields_of(inputs: Mapping[str, Any], outputs: Mapping[str, Any], reference: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs and outputs side by side, or apart where they share a field; the reference where there is one."""
    shared = inputs.keys() & outputs.keys()
    state = {"inputs": inputs, "outputs": outputs} if shared else {**inputs, **outputs}
    return {**state, "reference": reference} if reference else state


def _verdict(answer: Mapping[str, Any]) -> dict[str, Any]:
    """A question's score or value, with a word on it."""
    if answer.get("low_confidence"):
        return {"comment": "below min_confidence"}
    match answer["type"]:
        case "noul":
            return {"score": answer["noul"], "comment": "yes" if answer["noul"] >= 0.5 else "no"}
        case "score":
            best = str(answer_value(answer))
            level = (answer.get("legend") or {}).get(best, f"level {best}")
            return {"score": answer["score"] / max(len(answer["probabilities"]) - 1, 1), "value": str(level)}
        case _:
            return {"value": str(answer["choice"]), "comment": f"probability {answer['answer_confidence']}"}


def _mean(key: str, results: Sequence[EvaluationResult]) -> EvaluationResult:
    scores = [float(result.score) for result in results if result.score is not None]
    if scores:
        return EvaluationResult(key=key, score=fmean(scores), comment=f"mean of {len(scores)} of {len(results)} runs")
    labels = [str(result.value) for result in results if result.value is not None]
    if not labels:
        return EvaluationResult(key=key, comment=f"none of {len(results)} runs has an answer")
    shares = {label: labels.count(label) / len(labels) for label in dict.fromkeys(labels)}
    return EvaluationResult(key=key, value=shares, comment=f"shares of {len(labels)} of {len(results)} runs")


def _config(run_id: UUID | None = None) -> RunnableConfig:
    return {"run_name": NAME} if run_id is None else {"run_name": NAME, "run_id": run_id}
