"""laya's own calls in LlamaIndex's traces and token counts.

python examples/llama_index/hook.py [CHECKPOINT]
"""

import sys

from llama_index.core import Settings
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler

import laya
from laya_integrations.llama_index import LlamaIndexHook

QUESTIONS = {
    "department": {
        "type": "choice",
        "instructions": "Which team should handle this message?",
        "criteria": {"billing": "invoices, refunds", "technical": "bugs, outages"},
    },
    "urgent": {"type": "noul", "instructions": "Does this need an answer today?"},
}

dispatcher = get_dispatcher(__name__)


@dispatcher.span
def triage(agent, message):
    return agent.predict(message, QUESTIONS)["answers"]["department"]["choice"]


def main(model: str) -> None:
    agent = laya.load(model)

    # Where spans and tokens go; in your code: Phoenix, Langfuse, your own handlers.
    spans = SimpleSpanHandler()
    get_dispatcher().add_span_handler(spans)
    tokens = TokenCountingHandler(tokenizer=str.split)
    Settings.callback_manager = CallbackManager([tokens])

    # The classes of laya_integrations.llama_index need no hook; calls of your own do.
    LlamaIndexHook().install()
    print(triage(agent, "My invoice is wrong."), triage(agent, "The app crashes."))
    LlamaIndexHook.uninstall()

    for span in spans.completed_spans:
        above = "" if span.parent_id is None else f" under {span.parent_id.partition('-')[0]}"
        print(span.id_.partition("-")[0] + above, span.tags.get("laya.run_id", ""))
    print(tokens.total_llm_token_count, "tokens in", len(tokens.llm_token_counts), "calls")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
