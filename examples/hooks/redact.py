"""Take card numbers and addresses out of a state before the model, or any later hook, sees it.

python examples/hooks/redact.py [CHECKPOINT]
"""

import os
import re
import sys

import laya

PATTERNS = (
    (re.compile(r"\b(?:\d[ -]?){13,19}\b"), "[card]"),
    (re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.-]+\b"), "[email]"),
    (re.compile(r"\+\d[\d ()-]{7,}\d"), "[phone]"),
)


def redact(value):
    """A copy of a state with its texts masked, however deep they lie; numbers and the like stay as they are."""
    if isinstance(value, str):
        for pattern, mask in PATTERNS:
            value = pattern.sub(mask, value)
        return value
    if isinstance(value, dict):
        return {redact(key): redact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [redact(item) for item in value]
    return value


def redact_states(ctx):
    # Assigned and not changed in place: the states are still the caller's.
    ctx.states = [redact(state) for state in ctx.states]


QUESTIONS = {"refund": {"type": "noul", "instructions": "Does the customer want a refund?"}}
STATES = [
    "Send it back to card 4111 1111 1111 1111, please.",
    {"from": "ana@example.org", "lines": ["Call me: +44 20 7946 0958", {"order": 4417}]},
    [{"role": "user", "content": "I am bob@example.org"}, {"role": "assistant", "content": "Hello!"}],
]


def main(model: str) -> None:
    agent = laya.load(model, on_predict_start=redact_states)
    seen = []
    agent.predict_batch(STATES, QUESTIONS, on_predict_end=lambda ctx: seen.extend(ctx.states))
    for state in seen:
        print(state)
    print("the caller's own states are untouched:", "4111" in STATES[0])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LAYA_MODEL", "laya-mini"))
