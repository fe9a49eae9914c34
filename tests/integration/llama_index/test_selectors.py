"""Selectors alone, in RouterQueryEngine and in RouterRetriever."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import re
from typing import Any

import pytest
from llama_index.core import Document, SummaryIndex, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import CustomQueryEngine, RouterQueryEngine
from llama_index.core.retrievers import BaseRetriever, RouterRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import QueryEngineTool, RetrieverTool, ToolMetadata
from pydantic import ValidationError

from laya_integrations.llama_index import (
    CallOptions,
    LayaMultiSelector,
    LayaSelection,
    LayaSelectorResult,
    LayaSingleSelector,
    NoChoiceFits,
)
from tests.integration.conftest import CHECKPOINTS, load_quietly
from tests.integration.llama_index.recorder import Recording, name_of

QUERY = "My invoice is wrong, I want my money back"
CHOICES = [
    ToolMetadata(name="billing", description="invoices"),
    ToolMetadata(name="technical", description="bugs"),
    ToolMetadata(name="sales", description="contracts"),
]
LONG = [ToolMetadata(name=None, description="useful for every question about " + n) for n in "abcde"]


class Calls:
    """Counts a runner's predicts, and the texts and questions of each."""

    def __init__(self) -> None:
        self.seen: list[tuple[list[Any], list[str]]] = []

    def on_predict_start(self, ctx: Any) -> None:
        """Note one call."""
        self.seen.append((list(ctx.states), list(ctx.questions)))


@pytest.fixture
def calls() -> Calls:
    """A hook for one test's options."""
    return Calls()


class Echo(CustomQueryEngine):
    """Answers with its own name."""

    name: str

    def custom_query(self, query_str: str) -> str:
        """The name."""
        return self.name


class Fixed(BaseRetriever):
    """Finds one node, which holds its own name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=self.name, id_=self.name), score=1.0)]


def answering(**answers: Any) -> Any:
    """A hook that answers in the model's place, so that a test knows the probabilities."""

    class Skip:
        def on_predict_start(self, ctx: Any) -> None:
            ctx.skip([{"answers": answers, "usage": {"input_tokens": 1, "output_tokens": 0}} for _ in ctx.states])

    return CallOptions(hooks=Skip())


def compared(*probabilities: float, none: float | None = None, **more: Any) -> CallOptions:
    """Options under which the comparison of CHOICES ends like this."""
    given = dict(zip(("billing", "technical", "sales"), probabilities, strict=True))
    if none is not None:
        given["none of these"] = none
    return answering(select={"type": "choice", "probabilities": given, **more})


def judged(*probabilities: float, unsure: int | None = None) -> CallOptions:
    """Options under which the questions about each of CHOICES end like this."""
    answers: dict[str, Any] = {f"select_{i}": {"type": "noul", "noul": p} for i, p in enumerate(probabilities)}
    if unsure is not None:
        answers[f"select_{unsure}"]["low_confidence"] = True
    return answering(**answers)


async def test_one_call_decides_and_is_named_on_the_selection(agent: Any, calls: Calls) -> None:
    """The same choice, sync and async, as laya gives for one choice question."""
    selector = LayaSingleSelector.from_defaults(runner=agent, options=CallOptions(hooks=calls))
    result = selector.select(CHOICES, QUERY)
    assert calls.seen == [([QUERY], ["select"])]
    criteria = {choice.name: choice.description for choice in CHOICES}
    question = {"type": "choice", "instructions": selector.instructions, "criteria": criteria}
    answer = agent.predict(QUERY, {"select": question})["answers"]["select"]
    assert CHOICES[result.ind].name == answer["choice"]
    assert result.probabilities == list(answer["probabilities"].values())
    [selection] = result.selections
    assert selection.confidence == answer["answer_confidence"] and len(selection.run_id) == 32
    assert answer["choice"] in result.reason and "\n" not in result.reason
    again = await selector.aselect(CHOICES, QueryBundle(QUERY))
    assert again.ind == result.ind and again.selections[0].run_id != selection.run_id


def test_the_selections_fields_survive_a_dump(agent: Any) -> None:
    """Also as JSON, and back."""
    result = LayaSingleSelector(runner=agent).select(CHOICES, QUERY)
    data = json.loads(result.model_dump_json())
    assert data["selections"][0]["confidence"] == result.selections[0].confidence
    assert LayaSelectorResult.model_validate(data) == result
    assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.parametrize("best", [0, 1, 2])
def test_the_index_is_the_position_of_the_choice(agent: Any, best: int) -> None:
    """From 0, for the first and the last too."""
    probabilities = [0.1, 0.1, 0.1]
    probabilities[best] = 0.8
    single = LayaSingleSelector(runner=agent, options=compared(*probabilities))
    assert single.select(CHOICES, QUERY).inds == [best]
    multi = LayaMultiSelector(runner=agent, options=judged(*probabilities))
    assert multi.select(CHOICES, QUERY).inds == [best]


def test_multi_takes_what_fits_most_probable_first(agent: Any, calls: Calls) -> None:
    """One question a choice in one call; `max_outputs` holds whatever the answers are."""
    selector = LayaMultiSelector(runner=agent, options=judged(0.6, 0.4, 0.9))
    assert selector.select(CHOICES, QUERY).inds == [2, 0]
    assert selector.model_copy(update={"max_outputs": 1}).select(CHOICES, QUERY).inds == [2]
    asked = LayaMultiSelector(runner=agent, threshold=0.0, options=CallOptions(hooks=calls)).select(CHOICES, QUERY)
    assert calls.seen == [([QUERY], ["select_0", "select_1", "select_2"])]
    confidences = [selection.confidence for selection in asked.selections]
    assert len(confidences) == 3 and confidences == sorted(confidences, reverse=True)


@pytest.mark.parametrize(
    "selector",
    [
        LayaSingleSelector(threshold=0.9, options=compared(0.2, 0.7, 0.1)),
        LayaSingleSelector(none_choice=True, options=compared(0.1, 0.4, 0.0, none=0.5)),
        LayaSingleSelector(options=compared(0.2, 0.7, 0.1, low_confidence=True)),
        LayaSingleSelector(compare_up_to=2, none_choice=True, options=judged(0.3, 0.49, 0.1)),
        LayaSingleSelector(compare_up_to=2, options=judged(0.3, 0.49, 0.1, unsure=1)),
        LayaMultiSelector(options=judged(0.3, 0.49, 0.1)),
        LayaMultiSelector(options=judged(0.3, 0.8, 0.1, unsure=1)),
    ],
)
async def test_who_isnt_sure_takes_the_default_or_says_so(agent: Any, selector: Any) -> None:
    """The result is never empty: without a default it is a typed error with the numbers."""
    selector = selector.model_copy(update={"runner": agent})
    with pytest.raises(NoChoiceFits, match="default_index=") as raised:
        selector.select(CHOICES, QUERY)
    assert max(raised.value.probabilities) < 0.9 and raised.value.run_id
    assert QUERY not in str(raised.value)
    copied = pickle.loads(pickle.dumps(raised.value))
    assert (str(copied), copied.run_id) == (str(raised.value), raised.value.run_id)
    selector = selector.model_copy(update={"default_index": 2})
    for result in (selector.select(CHOICES, QUERY), await selector.aselect(CHOICES, QUERY)):
        [selection] = result.selections
        assert (selection.index, selection.fell_back) == (2, True)
        assert selection.confidence == result.probabilities[2] and "the default" in selection.reason


def test_none_is_an_option_that_may_lose(agent: Any, calls: Calls) -> None:
    """Its description can be given; a choice that is more probable is taken."""
    selector = LayaSingleSelector(runner=agent, none_choice=True, options=compared(0.1, 0.5, 0.0, none=0.4))
    assert selector.select(CHOICES, QUERY).inds == [1]
    criteria: list[Any] = []

    class Read:
        def on_predict_start(self, ctx: Any) -> None:
            criteria.append(ctx.questions["select"]["criteria"])

    for none in (True, "another topic"):
        asked = LayaSingleSelector(runner=agent, none_choice=none, default_index=0, options=CallOptions(hooks=Read()))
        asked.select(CHOICES, QUERY)
    assert [given["none of these"] for given in criteria] == ["no other option fits", "another topic"]


def test_none_may_have_no_probability_at_all(agent: Any) -> None:
    """It was an option all the same, so the best choice of the comparison needs no half; asked about alone it does."""
    selector = LayaSingleSelector(runner=agent, none_choice=True, options=compared(0.4, 0.35, 0.25, none=0.0))
    assert selector.select(CHOICES, QUERY).inds == [0]
    alone = LayaSingleSelector(runner=agent, none_choice=True, compare_up_to=1, options=judged(0.4, 0.35, 0.25))
    with pytest.raises(NoChoiceFits, match=r"'billing', has 0\.40"):
        alone.select(CHOICES, QUERY)


@pytest.mark.parametrize("number", [1, 80])
def test_one_or_eighty_choices_take_one_call(agent: Any, calls: Calls, number: int) -> None:
    """Each choice gets a question of its own: a comparison of one says nothing, of eighty cuts them to nothing."""
    selector = LayaSingleSelector(runner=agent, options=CallOptions(hooks=calls))
    result = selector.select([f"questions about topic {i}" for i in range(number)], QUERY)
    assert [len(asked) for _, asked in calls.seen] == [number]
    assert len(result.probabilities) == number and result.selections[0].confidence == max(result.probabilities) < 1.0


async def test_long_descriptions_are_told_apart(agent: Any, calls: Calls, caplog: pytest.LogCaptureFixture) -> None:
    """Where cutting makes them the same they are asked about one by one, from the second query on at once."""
    selector = LayaSingleSelector(runner=agent, options=CallOptions(hooks=calls))
    first = selector.select(LONG, QUERY)
    assert [len(asked) for _, asked in calls.seen] == [1, 5]
    assert "asked about one by one" in caplog.text
    again = await selector.aselect(LONG, QUERY)
    assert [len(asked) for _, asked in calls.seen] == [1, 5, 5]
    assert (again.inds, again.probabilities) == (first.inds, first.probabilities)
    assert len(set(first.probabilities)) > 1
    roomy = CallOptions(hooks=calls, head_max_len=140)
    calls.seen.clear()
    LayaSingleSelector(runner=agent, options=roomy).select(LONG, QUERY)
    assert [len(asked) for _, asked in calls.seen] == [1]


def test_choices_that_stay_alike_are_said_to_be(agent: Any) -> None:
    """What cutting made the same gets the same probability; the first is taken, and its reason does not hide that."""
    alike = [f"{'useful for every question about any topic ' * 20}{n}" for n in "abc"]
    result = LayaSingleSelector(runner=agent).select(alike, QUERY)
    assert len(set(result.probabilities)) == 1 and result.ind == 0
    assert result.reason.endswith("no better than 2 others; the first is taken")
    [told_apart] = LayaSingleSelector(runner=agent, options=compared(0.4, 0.4, 0.2)).select(CHOICES, QUERY).selections
    assert told_apart.reason == "'billing' fits best (probability 0.40), no better than 1 other; the first is taken"
    clear = LayaSingleSelector(runner=agent, options=compared(0.3, 0.3, 0.4)).select(CHOICES, QUERY)
    assert clear.reason == "'sales' fits best (probability 0.40)"


@pytest.mark.parametrize("kind", [LayaSingleSelector, LayaMultiSelector])
@pytest.mark.parametrize("runner", ["agent", "router"])
async def test_many_queries_share_a_call(request: pytest.FixtureRequest, kind: Any, runner: str) -> None:
    """`select_many` gives what `select` gives for each, in order, sync and async."""
    calls = Calls()
    options = CallOptions(hooks=calls)
    selector = kind(runner=request.getfixturevalue(runner), default_index=0, options=options)
    queries = [QUERY, QueryBundle("The app crashes."), "Bonjour, je voudrais un devis", "?"]
    alone = [selector.select(CHOICES, query) for query in queries]
    for many in (selector.select_many(CHOICES, queries), await selector.aselect_many(CHOICES, queries)):
        assert [result.inds for result in many] == [result.inds for result in alone]
        for one, other in zip(many, alone, strict=True):
            assert one.probabilities == pytest.approx(other.probabilities, abs=2e-4)
    assert selector.select_many(CHOICES, []) == []
    if runner == "agent":
        assert [len(states) for states, _ in calls.seen] == [1, 1, 1, 1, 4, 4]
        assert len({result.selections[0].run_id for result in many}) == 1


def test_choices_that_say_the_same_are_said_to_be(agent: Any) -> None:
    """The first of them is taken, and the reason names the others."""
    result = LayaSingleSelector(runner=agent).select([ToolMetadata(name=None, description="a tool")] * 3, QUERY)
    assert result.ind == 0 and result.selections[0].confidence == max(result.probabilities)
    assert result.reason.endswith("no better than 2 others; the first is taken")


def test_choices_that_say_the_same_do_not_split_their_probability(agent: Any, calls: Calls) -> None:
    """However often the best one is listed, a worse one doesn't win; a choice with itself is not compared."""
    billing, technical, sales = CHOICES
    selector = LayaSingleSelector(runner=agent, options=compared(0.4, 0.35, 0.25))
    result = selector.select([billing, billing, technical, billing, sales], QUERY)
    assert result.ind == 0 and result.probabilities == [0.4, 0.4, 0.35, 0.4, 0.25]
    assert result.reason.endswith("no better than 2 others; the first is taken")
    one = LayaSingleSelector(runner=agent, options=CallOptions(hooks=calls)).select([billing] * 3, QUERY)
    assert calls.seen == [([QUERY], ["select_0"])] and len(set(one.probabilities)) == 1


def test_selecting_is_one_span_of_the_selectors(agent: Any, recorded: Recording) -> None:
    """LlamaIndex's own for `_select`, with laya's call below; none for what the selector does inside."""
    for selector in (LayaSingleSelector(runner=agent), LayaMultiSelector(runner=agent, threshold=0.0)):
        selector.select(CHOICES, QUERY)
        selector.select_many(CHOICES, [QUERY])
    found = {name_of(span).split(".")[-1] for span in recorded.spans}
    assert found == {"_select", "select_many", "predict"}


@pytest.mark.parametrize("which", ["choices", "queries"])
def test_one_text_in_place_of_many_is_refused(agent: Any, which: str) -> None:
    """Its letters would be asked about."""
    given = {"choices": CHOICES, "queries": [QUERY], which: "text"}
    with pytest.raises(TypeError, match=f"^{which} must be a list, got str; put a single one into a list$"):
        LayaSingleSelector(runner=agent).select_many(**given)
    with pytest.raises(TypeError, match=f"^{which} must be a list, got NoneType; "):
        LayaSingleSelector(runner=agent).select_many(**{**given, which: None})


async def test_one_text_in_place_of_choices_is_refused(agent: Any) -> None:
    """A letter of it would be selected."""
    selector = LayaSingleSelector(runner=agent)
    with pytest.raises(TypeError, match=r"^choices must be a list, got str; "):
        selector.select("invoices", QUERY)
    with pytest.raises(TypeError, match=r"^choices must be a list, got str; "):
        await selector.aselect("invoices", QUERY)
    with pytest.raises(TypeError, match=r"^query must be a text or a QueryBundle, got NoneType$"):
        selector.select(CHOICES, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [LayaSingleSelector, LayaMultiSelector])
async def test_of_many_queries_the_one_that_nothing_fits_is_named(agent: Any, kind: Any) -> None:
    """By its index, also in the message and in a copy; one query alone has none."""

    class Unlike:
        def predict(self, state: Any, questions: Any, **options: Any) -> Any:
            p = 0.2 if state == "zzz" else 0.9
            answers: dict[str, Any] = {name: {"type": "noul", "noul": p} for name in questions}
            answers["select"] = {"type": "choice", "probabilities": {"billing": p, "technical": 0.1, "sales": 0.0}}
            return {"answers": answers, "run_id": "run"}

    selector = kind(runner=Unlike(), threshold=0.5)
    with pytest.raises(NoChoiceFits, match=r"^queries\[2\]: no choice is sure enough: .* has 0\.20; give") as raised:
        selector.select_many(CHOICES, [QUERY, QUERY, "zzz", "zzz"])
    with pytest.raises(NoChoiceFits, match=r"^queries\[2\]: ") as araised:
        await selector.aselect_many(CHOICES, [QUERY, QUERY, "zzz"])
    for error in (raised.value, araised.value, pickle.loads(pickle.dumps(raised.value))):
        assert (error.index, error.run_id) == (2, "run") and max(error.probabilities) == 0.2
    with pytest.raises(NoChoiceFits) as alone:
        selector.select(CHOICES, "zzz")
    assert alone.value.index is None and not str(alone.value).startswith("queries")


@pytest.mark.parametrize(
    ("threshold", "probability", "shown"),
    [
        (0.999, 0.998, "0.998"),
        (0.5, 0.41, "0.41"),
        (0.5, 0.499, "0.499"),
        (1.0, 0.99999, "0.99999"),
        (0.9, 0.2, "0.20"),
    ],
)
@pytest.mark.parametrize("kind", [LayaSingleSelector, LayaMultiSelector])
def test_what_was_too_little_is_shown_below_the_threshold(
    agent: Any, kind: Any, threshold: float, probability: float, shown: str
) -> None:
    """With two digits, or as many as that takes."""
    options = compared(probability, 0.0, 0.0) if kind is LayaSingleSelector else judged(probability, 0.0, 0.0)
    with pytest.raises(NoChoiceFits, match=rf"'billing', has {re.escape(shown)}; give"):
        kind(runner=agent, threshold=threshold, options=options).select(CHOICES, QUERY)


def test_an_unsure_answer_is_not_shown_as_certain(agent: Any) -> None:
    """What is below `min_confidence` is below 1, unless it isn't."""
    for probability, shown in ((0.998, "0.998"), (1.0, "1.00")):
        options = compared(probability, 0.0, 0.0, low_confidence=True)
        with pytest.raises(NoChoiceFits, match=rf"has {shown}; give"):
            LayaSingleSelector(runner=agent, options=options).select(CHOICES, QUERY)


def test_what_would_let_the_best_pass_is_named(agent: Any) -> None:
    """The gate that stopped it, and no other."""
    gated = LayaSingleSelector(runner=agent, options=CallOptions(min_confidence=1.0))
    with pytest.raises(NoChoiceFits, match=r"give default_index=, or lower min_confidence$"):
        gated.select(CHOICES, QUERY)
    with pytest.raises(NoChoiceFits, match=r"give default_index=, or lower threshold=$"):
        LayaSingleSelector(runner=agent, threshold=1.0).select(CHOICES, QUERY)


def test_many_queries_with_long_choices(agent: Any, calls: Calls) -> None:
    """The second round is one call as well."""
    selector = LayaSingleSelector(runner=agent, options=CallOptions(hooks=calls))
    many = selector.select_many(LONG, ["a", "b c d", "e"])
    assert [len(states) for states, _ in calls.seen] == [3, 3]
    assert [r.inds for r in many] == [selector.select(LONG, query).inds for query in ("a", "b c d", "e")]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LayaSingleSelector(default_index=-1), "greater than or equal to 0"),
        (lambda: LayaSingleSelector(threshold=1.5), "less than or equal to 1"),
        (lambda: LayaMultiSelector(max_outputs=0), "greater than or equal to 1"),
        (lambda: LayaSingleSelector(max_outputs=2), "Extra inputs"),
        (lambda: LayaSingleSelector(runner=object()), "predict"),
        (lambda: LayaSingleSelector.from_defaults(model="m", runner=LayaSingleSelector()), "predict"),
    ],
)
def test_a_bad_field_is_refused_when_it_is_given(make: Any, said: str) -> None:
    """Not at the first query."""
    with pytest.raises((ValidationError, TypeError), match=said):
        make()


def test_bad_choices_are_refused_before_anything_is_loaded() -> None:
    """The checkpoint does not even exist."""
    selector = LayaSingleSelector(model="/no/such/checkpoint", default_index=3)
    with pytest.raises(ValueError, match="default_index 3 names none of the 3 choices"):
        selector.select(CHOICES, QUERY)
    with pytest.raises(ValueError, match="choices is empty"):
        selector.select([], QUERY)
    with pytest.raises(TypeError, match=r"choices\[0\] must be a text or a ToolMetadata, got int"):
        selector.select_many([1], ["q"])
    with pytest.raises(TypeError, match=r"queries\[0\] must be a text or a QueryBundle, got int"):
        LayaSingleSelector(model="/no/such/checkpoint").select_many(CHOICES, [1])


def test_a_pickle_keeps_the_model_and_leaves_the_runner(agent: Any) -> None:
    """A selector that lost its runner says so."""
    selector = LayaSingleSelector(runner=agent, threshold=0.1)
    assert "agent" not in repr(selector).lower()
    with pytest.raises(RuntimeError, match="model="):
        pickle.loads(pickle.dumps(selector)).select(CHOICES, QUERY)
    named = LayaSingleSelector.from_defaults(model=str(CHECKPOINTS / "english"))
    copied = pickle.loads(pickle.dumps(named))
    assert load_quietly(lambda: copied.select(CHOICES, QUERY)).inds == selector.select(CHOICES, QUERY).inds


async def test_selecting_does_not_hold_up_the_event_loop(agent: Any) -> None:
    """Other tasks run while laya is asked."""
    running = asyncio.Event()
    waited: list[bool] = []
    loop = asyncio.get_running_loop()

    class Wait:
        def on_predict_start(self, ctx: Any) -> None:
            waited.append(asyncio.run_coroutine_threadsafe(asyncio.wait_for(running.wait(), 5), loop).result(5))

    selector = LayaSingleSelector(runner=agent, options=CallOptions(hooks=Wait()))

    async def other() -> None:
        await asyncio.sleep(0)
        running.set()

    await asyncio.gather(selector.aselect(CHOICES, QUERY), other())
    assert waited == [True]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_router_query_engine_runs_the_engine_that_was_selected(agent: Any, asynchronous: bool) -> None:
    """The name that answers is the name at the index; the selection lies in the response's metadata."""
    tools = [
        QueryEngineTool.from_defaults(Echo(name=choice.name), name=choice.name, description=choice.description)
        for choice in CHOICES
    ]
    engine = RouterQueryEngine(selector=LayaSingleSelector(runner=agent), query_engine_tools=tools, llm=MockLLM())
    for query in (QUERY, "The app crashes", "Can I buy ten?", "?"):
        response = await engine.aquery(query) if asynchronous else engine.query(query)
        result = response.metadata["selector_result"]
        assert str(response) == CHOICES[result.ind].name and result.selections[0].run_id


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_router_query_engine_joins_several_engines(agent: Any, asynchronous: bool) -> None:
    """With the multi selector, over indexes of LlamaIndex's own."""
    documents = [Document(text="Invoices are sent monthly.", id_="d")]
    settings = {"llm": MockLLM(), "embed_model": MockEmbedding(4)}
    tools = [
        QueryEngineTool.from_defaults(
            index.from_documents(documents, embed_model=settings["embed_model"]).as_query_engine(**settings),
            name=name,
            description=f"useful for {name}",
        )
        for index, name in ((SummaryIndex, "summaries"), (VectorStoreIndex, "facts"))
    ]
    engine = RouterQueryEngine.from_defaults(
        tools, llm=MockLLM(), selector=LayaMultiSelector.from_defaults(runner=agent, threshold=0.0)
    )
    response = await engine.aquery(QUERY) if asynchronous else engine.query(QUERY)
    assert sorted(response.metadata["selector_result"].inds) == [0, 1]
    assert len(response.source_nodes) == 2


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_router_retriever_asks_what_was_selected(agent: Any, asynchronous: bool) -> None:
    """One retriever for the single selector, several for the multi selector."""
    tools = [
        RetrieverTool.from_defaults(Fixed(choice.name), name=choice.name, description=choice.description)
        for choice in CHOICES
    ]
    for selector in (LayaSingleSelector(runner=agent), LayaMultiSelector(runner=agent, threshold=0.0, max_outputs=2)):
        retriever = RouterRetriever(selector=selector, retriever_tools=tools, llm=MockLLM())
        nodes = await retriever.aretrieve(QUERY) if asynchronous else retriever.retrieve(QUERY)
        expected = [CHOICES[index].name for index in selector.select(CHOICES, QUERY).inds]
        assert sorted(node.text for node in nodes) == sorted(expected)


def test_an_engine_that_nothing_fits_ends_with_the_typed_error(agent: Any) -> None:
    """Not with LlamaIndex's complaint about an empty list."""
    tool = QueryEngineTool.from_defaults(Echo(name="a"), name="a", description="b")
    selector = LayaSingleSelector(runner=agent, threshold=1.0)
    with pytest.raises(NoChoiceFits):
        RouterQueryEngine(selector=selector, query_engine_tools=[tool], llm=MockLLM()).query(QUERY)


def test_prompts_can_be_listed(agent: Any) -> None:
    """A router asks its selector for prompts; there are none."""
    tool = QueryEngineTool.from_defaults(Echo(name="a"), name="a", description="b")
    selector = LayaSingleSelector(runner=agent)
    engine = RouterQueryEngine(selector=selector, query_engine_tools=[tool], llm=MockLLM())
    assert not any(name.startswith("selector") for name in engine.get_prompts())
    engine.update_prompts({})
    assert isinstance(selector.select(["a", "b"], "c").selections[0], LayaSelection)


def test_the_router_logs_who_was_selected(agent: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The reason is one line that names the choice."""
    caplog.set_level(logging.INFO)
    tools = [QueryEngineTool.from_defaults(Echo(name=name), name=name, description=name) for name in ("aa", "bb")]
    selector = LayaSingleSelector(runner=agent)
    RouterQueryEngine(selector=selector, query_engine_tools=tools, llm=MockLLM()).query(QUERY)
    [line] = [record.message for record in caplog.records if "Selecting query engine" in record.message]
    assert "fits best (probability 0." in line
