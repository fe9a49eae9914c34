"""Ask a person about what a guardrail flagged, by an interrupt in the form of LangChain's human-in-the-loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from laya_integrations.langchain._agents import interrupt
from laya_integrations.langchain.verdicts import GuardrailVerdict

_ALLOWED = ("approve", "reject")


@dataclass(frozen=True)
class Flagged:
    """Something that a guardrail flagged in an agent's turn."""

    name: str
    """`input`, `output`, or the tool's name."""
    args: dict[str, Any]
    """What a person needs to see: the text, or the tool's arguments."""
    verdict: GuardrailVerdict
    subject: Any
    """The message or tool call."""
    action: str = "block"
    """What to do about it: block or ask."""
    rejection: str | None = None
    """What the person who rejected it wrote."""

    @property
    def finding(self) -> str:
        """What was found, without the text."""
        if self.verdict.failure is not None:
            return f"it could not be judged ({self.verdict.failure})"
        return ", ".join(map(str, self.verdict.violations))


def rejected(flagged: Sequence[Flagged]) -> list[Flagged]:
    """What may not pass: what is blocked, and what a person rejects, who is asked about all at once.

    The interrupt's value is a `HITLRequest`, and it is resumed with a `HITLResponse`:
    `Command(resume={"decisions": [{"type": "approve"}, {"type": "reject", "message": "..."}]})`. An answer that
    is none interrupts again, with the `error` beside the request.
    """
    asked = [item for item in flagged if item.action == "ask"]
    if not asked:
        return list(flagged)
    decisions = iter(_decisions(asked))
    kept = []
    for item in flagged:
        decision = next(decisions) if item.action == "ask" else {"type": "reject"}
        if decision["type"] == "reject":
            kept.append(_with_rejection(item, decision.get("message")))
    return kept


def _request(asked: Sequence[Flagged]) -> dict[str, Any]:
    return {
        "action_requests": [
            {"name": item.name, "args": item.args, "description": f"Flagged by a guardrail: {item.finding}"}
            for item in asked
        ],
        "review_configs": [{"action_name": item.name, "allowed_decisions": list(_ALLOWED)} for item in asked],
    }


def _decisions(asked: Sequence[Flagged]) -> list[Mapping[str, Any]]:
    request = _request(asked)
    # A raised error would leave the bad answer in the checkpoint, to be read again on each resume.
    while (error := _problem(answer := interrupt(request), len(asked))) is not None:
        request = {**request, "error": error}
    return list(answer["decisions"])


def _problem(answer: Any, count: int) -> str | None:
    decisions = answer.get("decisions") if isinstance(answer, Mapping) else None
    if not isinstance(decisions, list | tuple):
        return 'resume with {"decisions": [...]}, one decision for each request'
    if len(decisions) != count:
        return f"{count} requests need {count} decisions, got {len(decisions)}"
    if not all(isinstance(decision, Mapping) and decision.get("type") in _ALLOWED for decision in decisions):
        return f"the type of a decision is {' or '.join(_ALLOWED)}"
    return None


def _with_rejection(item: Flagged, message: Any) -> Flagged:
    return Flagged(
        item.name, item.args, item.verdict, item.subject, item.action, message if isinstance(message, str) else None
    )
