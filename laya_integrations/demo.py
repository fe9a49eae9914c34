"""Triage a few support messages in a chain and in an agent, offline, and show what was traced.

python -m laya_integrations.demo [CHECKPOINT]
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

import laya
from laya_integrations._extras import installed_by

with installed_by("langchain"):
    from langchain_core.callbacks import CallbackManagerForLLMRun
    from langchain_core.decisions import Choice, Noul, Score
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tracers.run_collector import RunCollectorCallbackHandler

    from laya_integrations.langchain import AnswerParser, LayaRunnable, LayaTool

MESSAGES = (
    "I was charged twice for order 4417. Please send the second payment back.",
    "The app crashes each time I open the export page, and we present it in an hour!",
    "How many seats does the team plan have, and is there a discount for schools?",
    "Third time I write. Fix the login today or I cancel our contract.",
)

MANY_LANGUAGES = (
    MESSAGES[0],
    "Die Rechnung vom März ist falsch, bitte schicken Sie mir eine neue.",
    "ऐप खोलते ही बंद हो जाता है, कृपया मदद करें।",
)

MOODS = ("calm", "annoyed", "furious")

QUESTIONS = {
    "department": Choice(
        instructions="Which team should handle this message?",
        criteria={
            "billing": "payments, invoices, refunds",
            "technical": "bugs, outages, logins",
            "sales": "plans, prices, discounts",
        },
    ),
    "urgent": Noul(instructions="Does this message need an answer today?"),
    "frustration": Score(instructions="How frustrated is the customer?", criteria=[*MOODS]),
}

_DEFAULT_MODEL = "laya-mini"
"""Comes with the package."""


class Ticket(BaseModel):
    """What the questions ask, as an object."""

    department: Literal["billing", "technical", "sales"]
    urgent: bool
    frustration: int


class ScriptedAssistant(BaseChatModel):
    """A chat model that plays a script: it asks the tool, then says what follows from the answer."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> ScriptedAssistant:
        """The script knows its tool."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            ticket = json.loads(last.text)
            when = "today" if ticket["urgent"] else "in turn"
            reply = AIMessage(f"I passed this on to {ticket['department']}; they will answer {when}.")
        else:
            reply = AIMessage("", tool_calls=[{"name": "triage", "args": {"state": last.text}, "id": "1"}])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 2 where the model can't be loaded."""
    parser = argparse.ArgumentParser(prog="python -m laya_integrations.demo", description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default=_DEFAULT_MODEL, help="directory, Hub id or name; %(default)s")
    model = parser.parse_args(arguments).model
    try:
        agent = _load(model)
    except (OSError, ValueError) as error:
        print(f"error: can't load {model}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    runs = RunCollectorCallbackHandler()
    _show_chain(agent, runs)
    _show_router(agent, runs)
    _show_agent(agent, runs)
    print("\nTrace")
    rows = [row for run in runs.traced_runs for row in _tree(run)]
    _print_table(["run", "type", "tokens", "checkpoint", "laya run id"], rows)
    return 0


def _load(model: str) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        agent = laya.load(model)
    print(f"Model: {_short_path(model)}")
    for warning in caught:
        if issubclass(warning.category, RuntimeWarning):
            print(textwrap.fill(f"Note: {warning.message}", 96, subsequent_indent="      "))
    return agent


def _show_chain(agent: Any, runs: RunCollectorCallbackHandler) -> None:
    chain = LayaRunnable(agent, questions=QUESTIONS) | AnswerParser(Ticket)
    tickets = chain.batch(list(MESSAGES), {"callbacks": [runs]})
    print("\nChain: LayaRunnable | AnswerParser, all messages in one laya call")
    _print_table(
        ["message", "department", "urgent", "frustration"],
        [
            [
                textwrap.shorten(message, 52, placeholder="..."),
                ticket.department,
                "yes" if ticket.urgent else "no",
                MOODS[ticket.frustration],
            ]
            for message, ticket in zip(MESSAGES, tickets, strict=True)
        ],
    )


def _show_router(agent: Any, runs: RunCollectorCallbackHandler) -> None:
    chain = LayaRunnable(_router(agent), questions=QUESTIONS)
    decided = chain.batch(list(MANY_LANGUAGES), {"callbacks": [runs]})
    print("\nRouter: the checkpoint follows the language of each message (one stands for both here)")
    _print_table(
        ["message", "checkpoint", "why"],
        [
            [
                textwrap.shorten(message, 32, placeholder="..."),
                decision.result["routing"]["model"],
                textwrap.shorten(decision.result["routing"]["reason"], 48, placeholder="..."),
            ]
            for message, decision in zip(MANY_LANGUAGES, decided, strict=True)
        ],
    )


def _router(agent: Any) -> laya.Router:
    """A Router whose two checkpoints are the same one here: what it chooses shows, and nothing more is loaded."""
    router = laya.Router()
    for name in ("english", "multilingual"):
        router.attach(name, agent)
    return router


def _show_agent(agent: Any, runs: RunCollectorCallbackHandler) -> None:
    print("\nAgent: a scripted chat model that calls LayaTool")
    try:
        from langchain.agents import create_agent
    except ImportError:
        print("  left out: it needs `pip install langchain`")
        return
    triage = LayaTool(
        runner=agent,
        questions=QUESTIONS,
        name="triage",
        description="Find the team, urgency and mood of a customer's message.",
    )
    graph = create_agent(ScriptedAssistant(), tools=[triage])
    answered = graph.invoke({"messages": [HumanMessage(MESSAGES[-1])]}, {"callbacks": [runs]})
    for message in answered["messages"]:
        calls = getattr(message, "tool_calls", None)
        text = f"{calls[0]['name']}({json.dumps(calls[0]['args'])})" if calls else message.text
        print(textwrap.fill(f"{message.type + ':':6} {text}", 96, initial_indent="  ", subsequent_indent=" " * 9))


def _tree(run: Any, lead: str = "", branch: str = "") -> Iterator[list[str]]:
    """A row for the run and for each run under it."""
    metadata = run.extra.get("metadata") or {}
    tokens = (metadata.get("usage_metadata") or {}).get("total_tokens") if run.run_type == "llm" else None
    shown = "" if tokens is None else f"{tokens:>6}"
    checkpoint, run_id = metadata.get("laya_routing_model", ""), metadata.get("laya_run_id", "")
    yield [f"{lead}{branch}{run.name}", run.run_type, shown, checkpoint, run_id]
    below = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
    for index, child in enumerate(run.child_runs, 1):
        yield from _tree(child, below, "└─ " if index == len(run.child_runs) else "├─ ")


def _print_table(header: list[str], rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in [header, ["-" * width for width in widths], *rows]:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _short_path(model: str) -> str:
    path = Path(model)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else model


if __name__ == "__main__":
    sys.exit(main())
