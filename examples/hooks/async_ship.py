"""Ship records from an async application without making a prediction wait for the network.

python examples/hooks/async_ship.py [CHECKPOINT]
"""

import asyncio
import os
import sys

import laya
from laya.hooks import AsyncHook

QUESTIONS = {"urgent": {"type": "noul", "instructions": "Is it urgent?"}}


class Shipper:
    """An async hook that only puts records into a bounded queue; a task of the application sends them."""

    def __init__(self):
        self.queue = asyncio.Queue(maxsize=100)
        self.dropped = 0

    async def on_predict_end(self, ctx):
        try:
            self.queue.put_nowait({"run_id": ctx.run_id, "usage": ctx.usage, "failed": ctx.error is not None})
        except asyncio.QueueFull:
            # Losing a record is better than a request that waits for a collector which is down.
            self.dropped += 1

    async def send(self):
        """Send what comes, for ever."""
        while True:
            record = await self.queue.get()
            await asyncio.sleep(0.01)  # here: await client.post(..., json=record)
            print("sent", record["run_id"][:8], record["usage"])
            self.queue.task_done()


async def serve(model):
    shipper = Shipper()
    sending = asyncio.create_task(shipper.send())
    # The queue belongs to this loop, so the hook's coroutines run on it, while predictions run in other threads.
    agent = await asyncio.to_thread(laya.load, model, hooks=AsyncHook(shipper, asyncio.get_running_loop()))
    states = ["The server room is flooding!", "Thank you!", "Where is my parcel?"]
    await asyncio.gather(*(asyncio.to_thread(agent.predict, state, QUESTIONS) for state in states))
    print("all are answered")
    await shipper.queue.join()
    sending.cancel()
    print("dropped:", shipper.dropped)


def main(model: str) -> None:
    asyncio.run(serve(model))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LAYA_MODEL", "laya-mini"))
