"""Keep a conversation on the checkpoint that answered its first turn.

python examples/hooks/pin_route.py [CHECKPOINT]
"""

import os
import sys
from contextvars import ContextVar

from laya import Router
from laya.hooks import BaseHook

QUESTIONS = {"urgent": {"type": "noul", "instructions": "Is it urgent?"}}

conversation = ContextVar("conversation", default=None)


class PinRoute(BaseHook):
    """Replace the decision, before anything is loaded, with that of the conversation's first turn."""

    def __init__(self):
        self.pinned = {}

    def on_route(self, ctx):
        name = conversation.get()
        if name is None:
            return
        model = self.pinned.setdefault(name, ctx.decision["model"])
        if model != ctx.decision["model"]:
            # A new dict with the reason, so that the result's routing tells why.
            ctx.decision = {**ctx.decision, "model": model, "reason": f"Conversation {name} began on it."}


def main(model: str) -> None:
    # Both names lead to one checkpoint here, which is enough to see the routes.
    router = Router(models={"english": model, "multilingual": model}, hooks=PinRoute())
    for name in (None, "A17"):
        conversation.set(name)
        for turn in ("Where is my parcel?", "Где моя посылка?"):
            routing = router.predict(turn, QUESTIONS)["routing"]
            print(f"{name or 'unpinned':9} {routing['model']:13} {routing['reason']}")
    conversation.set(None)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LAYA_MODEL", "laya-mini"))
