"""Bare laya calls in the trace of the chain around them.

python examples/langchain/hook.py [CHECKPOINT]
"""

import sys

from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.langchain import wait_for_all_tracers
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler

import laya
from laya_integrations.langchain import LangChainHook, LayaRunnable

QUESTIONS = {
    "department": {
        "type": "choice",
        "instructions": "Which team should handle this message?",
        "criteria": {"billing": "invoices, refunds", "technical": "bugs, outages"},
    },
    "urgent": {"type": "noul", "instructions": "Does this need an answer today?"},
}


def show(run, depth=0):
    usage = (run.extra.get("metadata") or {}).get("usage_metadata")
    print("  " * depth + f"{run.name} ({run.run_type})", f"{usage['input_tokens']} tokens" if usage else "")
    for child in run.child_runs:
        show(child, depth + 1)


def main(model: str) -> None:
    # On one agent; `LangChainHook().install()` is for every call of the process.
    agent = laya.load(model, hooks=LangChainHook())

    def triage(text: str) -> str:
        # laya as you know it: no LangChain object, and still a run under this step.
        return agent.predict(text, QUESTIONS)["answers"]["department"]["choice"]

    # A runnable's call has its own run; the hook on its agent adds none.
    chain = (
        RunnableLambda(triage) | (lambda team: f"Forward this to {team}.") | LayaRunnable(agent, questions=QUESTIONS)
    )

    collector = RunCollectorCallbackHandler()
    with get_usage_metadata_callback() as usage:
        chain.invoke("My invoice is wrong and I need it today.", {"callbacks": [collector]})
    show(collector.traced_runs[-1])
    print(usage.usage_metadata)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
    # Traces are sent in the background; without this the last ones are lost when the script ends.
    wait_for_all_tracers()
