"""Select among query engines, retrievers or other choices by one laya call.

selector = LayaSingleSelector.from_defaults(model="laya-mini")
RouterQueryEngine(selector=selector, query_engine_tools=tools, llm=MockLLM())

LlamaIndex's routers ask for the OpenAI package where no `llm` is set, whichever selector they have; any LLM will do.
"""

from __future__ import annotations

import logging
from typing import Annotated

from pydantic import Field, PrivateAttr

from laya_integrations.llama_index._asking import Asks
from laya_integrations.llama_index._choices import Choices, Standing, read_the_same
from laya_integrations.llama_index._selector import BaseLayaSelector
from laya_integrations.llama_index.selections import LayaSelection, LayaSelectorResult

_logger = logging.getLogger(__name__)

_MOST_CROWDED = 64
"""Sets of choices that a selector remembers as too long to compare."""
_NONE_TEXT = "no other option fits"

Probability = Annotated[float, Field(ge=0.0, le=1.0)]


class LayaSingleSelector(BaseLayaSelector):
    """Select the choice that fits a query best; never more than one, never none.

    One laya call. Up to `compare_up_to` choices are compared in one choice question, by their names and
    descriptions. More are asked about one by one in the same call, and so is a single choice, which a comparison
    with nothing would always take. In a comparison all the choices share the budget `head_max_len`; where they are
    so long that some read the same to the model once cut, they are asked about one by one in a second call, and from
    then on at once. `options=CallOptions(head_max_len=...)` gives them more room. Choices that say the very same count
    as one, and each has its probability. Of choices that fit equally well the first is taken, and the reason says that
    there are others: they say the same, or still read the same once cut.
    """

    threshold: Probability = 0.0
    """Least probability of a choice that is taken."""
    none_choice: bool | str = False
    """Whether "none of these" is an option, or its description; it leads to `default_index`."""
    compare_up_to: Annotated[int, Field(ge=1)] = 12
    """Most choices in one question, those that say the very same counted once."""
    instructions: str = "Which option fits the query best?"
    """The question that compares the choices."""
    each_instructions: str = "Does this option fit the query?"
    """The question about one choice, which follows."""

    _crowded: set[Choices] = PrivateAttr(default_factory=set)

    def _asks(self, choices: Choices, texts: list[str]) -> Asks[list[Standing]]:
        if not 1 < choices.distinct <= self.compare_up_to or choices in self._crowded:
            return (yield from self._ask_each(choices, texts, self.each_instructions))
        decisions = yield self._asked(choices.compare(self.instructions, self._none_text), texts)
        blurred = [index for index, decision in enumerate(decisions) if read_the_same(decision)]
        standings = [choices.compared(decision) for decision in decisions]
        if blurred:
            self._remember(choices)
            again = yield from self._ask_each(choices, [texts[index] for index in blurred], self.each_instructions)
            for index, standing in zip(blurred, again, strict=True):
                standings[index] = standing
        return standings

    def _result(self, choices: Choices, standing: Standing) -> LayaSelectorResult:
        best = standing.ranked()[0]
        called, probability = choices.called(best), standing.probabilities[best]
        # Asked about one by one, the choices leave "none" no answer of its own.
        floor = max(self.threshold, 0.5) if self.none_choice and standing.none is None else self.threshold
        if standing.none is not None and standing.none > probability:
            return self._fallback(standing, f"none of the choices fits (probability {standing.none:.2f})")
        if best in standing.unsure or probability < floor:
            reason = f"no choice is sure enough: the best, {called}, has {_below(floor, probability)}"
            return self._fallback(standing, reason, _lower(best in standing.unsure, probability < self.threshold))
        selection = LayaSelection(
            index=best,
            reason=f"{called} fits best (probability {probability:.2f}){_like_others(standing, best)}",
            confidence=probability,
            run_id=standing.run_id,
        )
        return LayaSelectorResult(selections=[selection], probabilities=standing.probabilities)

    @property
    def _none_text(self) -> str | None:
        return self.none_choice if isinstance(self.none_choice, str) else _NONE_TEXT if self.none_choice else None

    def _remember(self, choices: Choices) -> None:
        _logger.warning(
            "Some of %d choices read the same once cut to head_max_len; they are asked about one by one. "
            "Shorten their descriptions, begin them with what differs, or set options=CallOptions(head_max_len=...).",
            len(choices),
        )
        if len(self._crowded) >= _MOST_CROWDED:
            self._crowded.clear()
        self._crowded.add(choices)


class LayaMultiSelector(BaseLayaSelector):
    """Select every choice that fits a query, the most probable first; never none.

    One laya call with a question for each choice, so the probabilities don't depend on the other choices and don't
    sum to 1.
    """

    threshold: Probability = 0.5
    """Least probability of a choice that is taken."""
    max_outputs: Annotated[int, Field(ge=1)] | None = None
    """Most choices taken."""
    instructions: str = "Does this option fit the query?"
    """The question about one choice, which follows."""

    def _asks(self, choices: Choices, texts: list[str]) -> Asks[list[Standing]]:
        return self._ask_each(choices, texts, self.instructions)

    def _result(self, choices: Choices, standing: Standing) -> LayaSelectorResult:
        ranked = standing.ranked()
        probabilities = standing.probabilities
        taken = [index for index in ranked if probabilities[index] >= self.threshold and index not in standing.unsure]
        if not taken:
            best = ranked[0]
            shown = _below(self.threshold, probabilities[best])
            reason = f"no choice is sure enough: the best, {choices.called(best)}, has {shown}"
            return self._fallback(standing, reason, _lower(best in standing.unsure, True))
        selections = [
            LayaSelection(
                index=index,
                reason=f"{choices.called(index)} fits (probability {probabilities[index]:.2f})",
                confidence=probabilities[index],
                run_id=standing.run_id,
            )
            for index in taken[: self.max_outputs]
        ]
        return LayaSelectorResult(selections=selections, probabilities=probabilities)


def _lower(unsure: bool, below: bool) -> str:
    """What would let the best one pass."""
    return ", or lower min_confidence" if unsure else ", or lower threshold=" if below else ""


def _below(floor: float, probability: float) -> str:
    """A probability that wasn't enough, with two digits, or as many as it takes to show that it is below the floor."""
    bound = floor if probability < floor else 1.0
    return next((text for digits in range(2, 17) if float(text := f"{probability:.{digits}f}") < bound), "1.00")


def _like_others(standing: Standing, best: int) -> str:
    """The others that are exactly as probable, as those are that say the same."""
    others = standing.probabilities.count(standing.probabilities[best]) - 1
    return f", no better than {others} other{'s' if others > 1 else ''}; the first is taken" if others else ""
