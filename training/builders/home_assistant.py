"""Examples from home-assistant-intents (Apache-2.0): sentence templates of a smart home, with their intents."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from training.example import Example, choice, yes_no
from training.phrasing import GENERIC_CHOICE, claim_question, spell_labels, vary
from training.surface import present

_INTENTS = {
    "HassBroadcast": ("announce to the house", "wants a message announced in the house"),
    "HassCancelAllTimers": ("cancel all timers", "wants every timer cancelled"),
    "HassCancelTimer": ("cancel a timer", "wants a timer cancelled"),
    "HassClimateGetTemperature": ("ask the indoor temperature", "asks how warm it is inside"),
    "HassClimateSetTemperature": ("set the thermostat", "wants the room temperature set"),
    "HassDecreaseTimer": ("shorten a timer", "wants less time on a timer"),
    "HassIncreaseTimer": ("lengthen a timer", "wants more time on a timer"),
    "HassFanSetSpeed": ("fan speed", "wants a fan faster or slower"),
    "HassGetCurrentDate": ("ask the date", "asks for today's date"),
    "HassGetCurrentTime": ("ask the time", "asks what time it is"),
    "HassGetState": ("ask the state of a device", "asks about the state of a device or sensor"),
    "HassGetWeather": ("ask the weather", "asks about the weather"),
    "HassLawnMowerDock": ("stop the lawn mower", "wants the lawn mower to stop"),
    "HassLawnMowerStartMowing": ("mow the lawn", "wants the lawn mowed"),
    "HassLightSet": ("light brightness or colour", "wants a light's brightness or colour changed"),
    "HassMediaNext": ("next track", "wants to skip to the next item"),
    "HassMediaPause": ("pause playback", "wants playback paused"),
    "HassMediaPlayerMute": ("mute", "wants the sound muted"),
    "HassMediaPlayerUnmute": ("unmute", "wants the sound back on"),
    "HassMediaPrevious": ("previous track", "wants the previous item"),
    "HassMediaSearchAndPlay": ("find and play media", "wants something found and played"),
    "HassMediaUnpause": ("resume playback", "wants playback resumed"),
    "HassNevermind": ("never mind", "takes the command back"),
    "HassPauseTimer": ("pause a timer", "wants a timer paused"),
    "HassUnpauseTimer": ("resume a timer", "wants a timer resumed"),
    "HassTimerStatus": ("time left on a timer", "asks how much time is left on a timer"),
    "HassStartTimer": ("start a timer", "wants a timer or a delayed command started"),
    "HassSetVolume": ("set the volume", "wants the volume at a certain level"),
    "HassSetVolumeRelative": ("louder or quieter", "wants the volume up or down"),
    "HassShoppingListAddItem": ("add to the shopping list", "wants an item put on the shopping list"),
    "HassShoppingListCompleteItem": ("cross off the shopping list", "wants an item taken off the shopping list"),
    "HassTurnOff": ("switch off or close", "wants something switched off or closed"),
    "HassTurnOn": ("switch on or open", "wants something switched on or opened"),
    "HassVacuumStart": ("start the vacuum", "wants the robot vacuum to clean"),
    "HassVacuumReturnToBase": ("vacuum to its dock", "wants the robot vacuum back at its dock"),
}
_WORDINGS = (
    "What should the house do?",
    "Which command is it?",
    "What does the resident want?",
    "Which intent does the voice command have?",
    "Choose the action for the smart home.",
)
_FILLERS: dict[str, tuple[str, ...]] = {
    "area": ("kitchen", "living room", "bedroom", "garage", "office", "nursery", "bathroom", "hall", "basement"),
    "floor": ("first", "ground", "upper", "second"),
    "message": ("dinner is ready", "the taxi is here", "time for bed", "we leave in five minutes"),
    "item": ("milk", "apples", "batteries", "bread", "shampoo", "coffee"),
    "search_query": ("jazz", "the evening news", "a comedy", "something by Bach", "the Blue Lanterns"),
    "command": ("turn off the lamp", "open the blinds", "start the fan", "lock the door"),
    "class": ("album", "track", "playlist", "film"),
}
_NAMES = {
    "lawn": ("mower",),
    "vacuum": ("vacuum", "robot"),
    "weather": ("home", "Lisbon"),
    "media": ("speaker", "TV", "radio"),
}
_DEVICES = ("desk lamp", "ceiling light", "heater", "fan", "coffee machine", "front door", "porch light", "curtain")
_MAX_CHARS = 120


class HomeAssistant:
    """Command intents; `path` is the package's `data/en.json`."""

    def __init__(self, path: Path, held_out: bool = False) -> None:
        data = json.loads(path.read_text(encoding="utf-8"))
        self._rules: dict[str, str] = data["expansion_rules"]
        self._lists: dict[str, Any] = data["lists"]
        templates = {
            intent: [sentence for block in data["intents"][intent]["data"] for sentence in block["sentences"]]
            for intent in _INTENTS
            if intent in data["intents"]
        }
        every = sorted(templates)
        kept = {intent for i, intent in enumerate(every) if i % 7 == 2}
        self._templates = {i: templates[i] for i in every if (i in kept) == held_out}

    def draw(self, rng: random.Random) -> Example:
        """Return one example."""
        intents = sorted(self._templates)
        intent = rng.choice(intents)
        text = self._sentence(intent, rng)
        others = [i for i in intents if i != intent]
        if rng.random() < 0.3:
            return self._claim(intent, others, text, rng)
        shown = [intent, *rng.sample(others, min(len(others), rng.choice((1, 2, 3, 4, 4, 5, 6, 8, 12, 20))))]
        labels = spell_labels([_INTENTS[i][0] for i in shown], rng)
        described = rng.random() < 0.3
        options = [(label, _INTENTS[i][1] if described else None) for label, i in zip(labels, shown, strict=True)]
        order = rng.sample(range(len(options)), len(options))
        wording = vary(rng.choice(_WORDINGS + GENERIC_CHOICE), rng)
        state, wording = present(text, wording, True, rng)
        return choice(state, wording, [options[i] for i in order], order.index(0), "home:intent", 0.95)

    def _claim(self, intent: str, others: list[str], text: str, rng: random.Random) -> Example:
        holds = rng.random() < 0.5
        negated = rng.random() < 0.3
        wants = _INTENTS[intent if holds else rng.choice(others)][1]
        state, wording = present(text, vary(claim_question(f"the speaker {wants}", negated, rng), rng), True, rng)
        return yes_no(state, wording, 0.95 if holds != negated else 0.05, "home:claim")

    def _sentence(self, intent: str, rng: random.Random) -> str:
        for _ in range(30):
            template = rng.choice(self._templates[intent])
            text = " ".join(_Template(template, intent, self._rules, self._lists, rng).text().split())
            if 3 < len(text) < _MAX_CHARS:
                return text
        raise ValueError(f"{intent}: no short sentence came out of its templates")


class _Template:
    """One random reading of a template: (a|b) one of, (a;b) all in any order, [x] optional, <rule>, {list:slot}."""

    def __init__(
        self, text: str, intent: str, rules: dict[str, str], lists: dict[str, Any], rng: random.Random
    ) -> None:
        self._text, self._intent, self._rules, self._lists, self._rng = text, intent, rules, lists, rng
        self._at = 0

    def text(self) -> str:
        return self._group("")

    def _group(self, close: str) -> str:
        branches, current, mixed = [], "", False
        while self._at < len(self._text) and self._text[self._at] != close:
            char = self._text[self._at]
            self._at += 1
            if char in "|;":
                mixed = mixed or char == ";"
                branches.append(current)
                current = ""
            else:
                current += self._piece(char)
        self._at += 1
        branches.append(current)
        if mixed:
            self._rng.shuffle(branches)
            return " ".join(branches)
        return self._rng.choice(branches)

    def _piece(self, char: str) -> str:
        if char == "(":
            return self._group(")")
        if char == "[":
            inner = self._group("]")
            return inner if self._rng.random() < 0.4 else ""
        if char == "<":
            name = self._until(">")
            return _Template(self._rules[name], self._intent, self._rules, self._lists, self._rng).text()
        if char == "{":
            return self._filler(self._until("}"))
        return char

    def _until(self, end: str) -> str:
        stop = self._text.index(end, self._at)
        inner = self._text[self._at : stop]
        self._at = stop + 1
        return inner

    def _filler(self, slot: str) -> str:
        name = slot.split(":", maxsplit=1)[0]
        if name == "name":
            key = next((k for k in _NAMES if k in self._intent.lower()), "")
            return self._rng.choice(_NAMES.get(key, _DEVICES))
        for part, values in _FILLERS.items():
            if part in name:
                return self._rng.choice(values)
        entry = self._lists.get(name, {})
        if "values" in entry:
            value = self._rng.choice(entry["values"])
            said = value["in"] if isinstance(value, dict) else value
            return _Template(str(said), self._intent, self._rules, self._lists, self._rng).text()
        return str(self._rng.randint(1, 99))
