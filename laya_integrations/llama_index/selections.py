"""What a selector gives back: which choices, how sure, and by which laya call."""

from __future__ import annotations

from llama_index.core.base.base_selector import MultiSelection, SingleSelection


class LayaSelection(SingleSelection):
    """A choice that was selected, by its 0-based index."""

    confidence: float
    """Probability of this choice: among all choices where they were compared, else of its being a fit."""
    run_id: str | None = None
    """laya's id of the call; None where the runner has none."""
    fell_back: bool = False
    """Whether it is the selector's `default_index`, taken because no choice was sure enough."""


class LayaSelectorResult(MultiSelection):
    """The selections, the most probable first; there is always at least one."""

    selections: list[LayaSelection]  # type: ignore[assignment]  # a plain SingleSelection would lose the fields
    probabilities: list[float]
    """Probability of each choice, by its index; that of all of them together where several say the very same."""


class NoChoiceFits(ValueError):
    """No choice was sure enough, and the selector has no `default_index`."""

    def __init__(self, message: str, probabilities: list[float], run_id: str | None, index: int | None = None) -> None:
        super().__init__(message)
        self.probabilities = probabilities
        """Probability of each choice, by its index."""
        self.run_id = run_id
        """laya's id of the call; None where the runner has none."""
        self.index = index
        """The query's place in `select_many`; None for one query alone."""

    def __reduce__(self) -> tuple[type[NoChoiceFits], tuple[str, list[float], str | None, int | None]]:
        return type(self), (str(self), self.probabilities, self.run_id, self.index)
