"""laya decides which way a workflow goes; the runner is a resource, made once and shared by the steps.

python examples/llama_index/workflow.py [CHECKPOINT]
"""

import asyncio
import os
import sys
from typing import Annotated

from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step
from llama_index.core.workflow.resource import Resource

import laya
from laya_integrations.llama_index import LlamaIndexHook

QUESTIONS = {
    "department": {
        "type": "choice",
        "instructions": "Which team should handle this message?",
        "criteria": {"billing": "invoices, refunds", "technical": "bugs, outages"},
    }
}


class Billing(Event):
    message: str


class Technical(Event):
    message: str


def load_agent() -> laya.Agent:
    # The hook shows the calls under their step in LlamaIndex's traces.
    return laya.load(os.environ.get("LAYA_MODEL", "laya-mini"), hooks=LlamaIndexHook())


class Inbox(Workflow):
    @step
    async def triage(
        self, event: StartEvent, agent: Annotated[laya.Agent, Resource(load_agent)]
    ) -> Billing | Technical:
        # predict computes; in a thread it leaves the loop to the other steps.
        result = await asyncio.to_thread(agent.predict, event.message, QUESTIONS)
        team = result["answers"]["department"]["choice"]
        return Billing(message=event.message) if team == "billing" else Technical(message=event.message)

    @step
    async def answer_billing(self, event: Billing) -> StopEvent:
        return StopEvent(result=f"billing will answer: {event.message}")

    @step
    async def answer_technical(self, event: Technical) -> StopEvent:
        return StopEvent(result=f"technical will answer: {event.message}")


async def main() -> None:
    inbox = Inbox()
    for message in ("My invoice is wrong.", "The app crashes."):
        print(await inbox.run(message=message))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["LAYA_MODEL"] = sys.argv[1]
    asyncio.run(main())
