"""laya as a step of a chain.

python examples/langchain/runnable.py [CHECKPOINT]
"""

import sys
from typing import Literal

from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.output_parsers import JsonOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tracers.langchain import wait_for_all_tracers
from pydantic import BaseModel, Field

import laya
from laya_integrations.langchain import AnswerParser, LayaRunnable


class Ticket(BaseModel):
    department: Literal["billing", "technical"] = Field(description="Which team should handle this?")
    urgent: bool = Field(description="Does this need an answer today?")


def main(model: str) -> None:
    runnable = LayaRunnable(laya.load(model), questions=Ticket)
    prompt = ChatPromptTemplate.from_messages([("system", "A shop's inbox."), ("user", "{text}")])

    # A chain that ends in an object, in a dict, or in one bare answer.
    text = {"text": "My invoice is wrong and I need it today."}
    print((prompt | runnable | AnswerParser(Ticket)).invoke(text))
    print((prompt | runnable | JsonOutputParser()).invoke(text))
    print((prompt | runnable | AnswerParser("department")).invoke(text))

    # Many states share their forward passes; the gate is an option of the call.
    with get_usage_metadata_callback() as usage:
        for message in runnable.batch(["The app crashes.", "Thank you!"], min_confidence=0.6):
            print(message.content, message.result["answers"]["department"]["probabilities"])
    print(usage.usage_metadata)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
    # Traces are sent in the background; without this the last ones are lost when the script ends.
    wait_for_all_tracers()
