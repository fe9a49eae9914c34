"""A laya hook that reads the config of the chain that is running: its tags and metadata.

python examples/langchain/config_in_hook.py [CHECKPOINT]
"""

import asyncio
import sys

from langchain_core.runnables import ensure_config
from langchain_core.tracers.langchain import wait_for_all_tracers

import laya
from laya_integrations.langchain import LayaRunnable

QUESTIONS = {"urgent": {"type": "noul", "instructions": "Does this need an answer today?"}}


class TenantBudget:
    """Give each tenant its own token budget, and count its calls."""

    def __init__(self, budgets: dict[str, int]) -> None:
        self.budgets = budgets

    def on_predict_start(self, ctx):
        config = ensure_config()
        tenant = config["metadata"].get("tenant", "nobody")
        ctx.max_len = self.budgets.get(tenant)
        print(f"{tenant} asks about {len(ctx.states)}, tags {config['tags']}, budget {ctx.max_len}")


def main(model: str) -> None:
    agent = laya.load(model, hooks=TenantBudget({"acme": 128}))
    runnable = LayaRunnable(agent, questions=QUESTIONS)
    config = {"tags": ["prod"], "metadata": {"tenant": "acme"}}

    runnable.invoke("My invoice is wrong.", config)
    # Under a time limit each hook runs in a thread of its own, and finds the same config.
    runnable.invoke("My invoice is wrong.", config, hooks_timeout=30)
    asyncio.run(runnable.ainvoke("My invoice is wrong.", config))
    # One call for a batch: the hook finds what the items' configs have in common.
    runnable.batch(["The app crashes.", "Thank you!"], [config, {**config, "tags": ["prod", "retry"]}])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
    # Traces are sent in the background; without this the last ones are lost when the script ends.
    wait_for_all_tracers()
