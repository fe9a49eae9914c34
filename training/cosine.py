"""The cheap alternative: cosine similarity of the untrained encoder between a state and each option."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor

from training.model import encoder_settings

_SCALE = 20.0
"""Similarities times this are taken as logits, as the encoder was trained."""


class CosineBaseline:
    """Mean-pooled sentence vectors; a yes/no or rubric option is read together with its question."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoConfig, AutoModel

        settings = encoder_settings(folder)
        known = {key: value for key, value in settings.items() if key != "model_type"}
        config = AutoConfig.for_model(settings["model_type"], **known)
        self._model = AutoModel.from_config(config, add_pooling_layer=False).eval()
        self._model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        # The file pads every text to 128 tokens, which a mean over all tokens would count.
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(256)
        self._known: dict[str, Tensor] = {}

    def probabilities(self, state: Any, question: dict[str, Any]) -> list[float]:
        """Return one probability an option in the caller's order; noul: false, true."""
        text = state if isinstance(state, str) else json.dumps(state, ensure_ascii=False)
        options = option_texts(question)
        similar = torch.stack([self._vector(option) for option in options]) @ self._vector(text)
        return [float(p) for p in (similar * _SCALE).softmax(-1)]

    def _vector(self, text: str) -> Tensor:
        if text not in self._known:
            ids = torch.tensor([self._tokenizer.encode(text).ids])
            with torch.inference_mode():
                hidden = self._model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
            self._known[text] = torch.nn.functional.normalize(hidden.mean(1)[0], dim=0)
        return self._known[text]


def option_texts(question: dict[str, Any]) -> Sequence[str]:
    """Return each option as a sentence to compare a state with."""
    criteria = question.get("criteria")
    asked = question["instructions"]
    if question["type"] == "noul":
        texts = criteria or {}
        return [f"{asked} {texts.get('false', 'no')}", f"{asked} {texts.get('true', 'yes')}"]
    if question["type"] == "score":
        return [f"{asked} {level}" for level in criteria or ()]
    pairs = criteria.items() if isinstance(criteria, dict) else [(label, None) for label in criteria or ()]
    return [f"{label}: {description}" if description else str(label) for label, description in pairs]
