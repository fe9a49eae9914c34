"""AnswerParser on messages, on text, and on what it can't read."""

from __future__ import annotations

import json
import pickle
import warnings
from traceback import format_exception
from typing import Any

import pytest
from langchain_core._api import LangChainBetaWarning
from langchain_core.exceptions import OutputParserException
from langchain_core.load import dumps, loads
from langchain_core.messages import AIMessage, messages_from_dict, messages_to_dict
from pydantic import BaseModel, Field

from laya_integrations.langchain import AnswerParser, CallOptions, LayaRunnable
from tests.integration.langchain.conftest import QUESTIONS, Ticket

TEXT = "My invoice is wrong, I want my money back"


class Loose(BaseModel):
    """A model that laya can't ask as questions."""

    department: str
    note: str = "none"


async def test_a_question_id_gives_one_bare_value(runnable: LayaRunnable) -> None:
    """Label, bool or level."""
    values = json.loads(runnable.invoke(TEXT).content)
    for question_id, value in values.items():
        parsed = (runnable | AnswerParser(question_id)).invoke(TEXT)
        assert parsed == value and type(parsed) is type(value)
        assert await (runnable | AnswerParser(question_id)).ainvoke(TEXT) == value


def test_a_model_is_made_from_messages_and_text(runnable: LayaRunnable) -> None:
    """A stored message, or its JSON alone, parses to the same object."""
    message = runnable.invoke(TEXT)
    ticket = AnswerParser(Ticket).invoke(message)
    assert ticket == Ticket(**json.loads(message.content))
    assert AnswerParser(Ticket).invoke(AIMessage(message.content)) == ticket
    assert AnswerParser(Ticket).invoke(message.content) == ticket


def test_any_pydantic_model_will_do(runnable: LayaRunnable) -> None:
    """A model with free fields validates the values."""
    message = runnable.invoke(TEXT)
    assert AnswerParser(Loose).invoke(message) == Loose(department=json.loads(message.content)["department"])


def test_a_value_below_the_gate_is_none(agent: Any) -> None:
    """One value is None; a field that wants a value names itself."""
    options = CallOptions(min_confidence=1.0)
    runnable = LayaRunnable(agent, questions=QUESTIONS, options=options)
    assert (runnable | AnswerParser("urgent")).invoke(TEXT) is None
    with pytest.raises(OutputParserException, match="department"):
        (runnable | AnswerParser(Loose)).invoke(TEXT)


def test_a_gated_answer_follows_the_rule_of_decide(agent: Any) -> None:
    """A model that laya can ask keeps None where the answer was below the gate."""
    pytest.importorskip("laya.questions")
    options = CallOptions(min_confidence=1.0)
    ticket = (LayaRunnable(agent, questions=Asked, options=options) | AnswerParser(Asked)).invoke(TEXT)
    assert ticket.urgent is None


def test_a_score_is_the_fields_value_in_every_form_of_the_message(agent: Any) -> None:
    """Levels count from 0 and the field from 1, also where a store kept the content alone."""
    pytest.importorskip("laya.questions")
    runnable = LayaRunnable(agent, questions=Rated)
    message = runnable.invoke(TEXT)
    rated = AnswerParser(Rated).invoke(message)
    assert rated.stars == json.loads(message.content)["stars"] + 1
    (stored,) = messages_from_dict(messages_to_dict([message]))
    for form in (stored, AIMessage(message.content), message.content):
        assert AnswerParser(Rated).invoke(form) == rated
    gated = runnable.invoke(TEXT, min_confidence=1.0)
    assert AnswerParser(Rated).invoke(gated.content) == AnswerParser(Rated).invoke(gated)


@pytest.mark.parametrize(("values", "field"), [({"stars": 9}, "stars"), ({"stars": "good"}, "stars"), ({}, "stars")])
def test_json_that_is_no_answer_is_validated_as_it_is(values: dict[str, Any], field: str) -> None:
    """The model names what it refuses."""
    with pytest.raises(OutputParserException, match=field):
        AnswerParser(Rated).invoke(json.dumps(values))


def test_a_dump_loads_as_a_message_that_parses(runnable: LayaRunnable) -> None:
    """LangChain's loader makes it an AIMessage that still has the result."""
    message = runnable.invoke(TEXT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LangChainBetaWarning)
        loaded = loads(dumps(message), allowed_objects="messages")
    assert type(loaded) is AIMessage and loaded.result == message.result
    assert AnswerParser(Ticket).invoke(loaded) == AnswerParser(Ticket).invoke(message)


class Rated(BaseModel):
    """A model whose score starts at 1."""

    stars: int = Field(ge=1, le=5)


class Asked(BaseModel):
    """A model that laya can ask."""

    urgent: bool


@pytest.mark.parametrize(
    ("text", "named"), [("no json", "no JSON"), ("[1]", "object"), ('{"other": 1}', "no answer to 'urgent'")]
)
def test_what_is_no_answer_is_refused(text: str, named: str) -> None:
    """With the stock exception, which fallbacks and retries know."""
    with pytest.raises(OutputParserException, match=named):
        AnswerParser("urgent").invoke(text)


def test_a_refusal_names_fields_and_not_values() -> None:
    """The message may go to a log, so it holds no text of the user's."""
    given = json.dumps({"department": "a secret", "urgent": True, "frustration": 1})
    with pytest.raises(OutputParserException) as refused:
        AnswerParser(Ticket).invoke(given)
    assert "department" in str(refused.value) and "secret" not in "".join(format_exception(refused.value))


@pytest.mark.parametrize("target", [3, None, dict, Loose(department="x")])
def test_a_bad_target_is_refused(target: Any) -> None:
    """A model class or a question id, nothing else."""
    with pytest.raises(ValueError, match="target"):
        AnswerParser(target)


def test_a_parser_pickles_and_shows_its_schema() -> None:
    """It can be sent to another process, and its output has a schema."""
    parser = pickle.loads(pickle.dumps(AnswerParser(Ticket)))
    assert parser.invoke('{"department": "billing", "urgent": true, "frustration": 1}').urgent is True
    assert set(parser.get_output_jsonschema()["properties"]) == set(Ticket.model_fields)
