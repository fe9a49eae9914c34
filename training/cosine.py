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

SCALE = 20.0
"""Similarities times this are taken as logits, as the encoder was trained."""
_BATCH = 64


class SentenceVectors:
    """Mean-pooled unit vectors of texts by the untrained encoder in `folder`; what was asked for once is kept."""

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

    def of(self, text: str) -> Tensor:
        """Return the vector, `[d]`."""
        if text not in self._known:
            self._known[text] = self._encoded([text])[0]
        return self._known[text]

    def of_all(self, texts: Sequence[str]) -> Tensor:
        """Return a vector for each of many texts, `[n, d]`; none of them is kept."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        vectors = torch.empty(len(texts), self._model.config.hidden_size)
        for start in range(0, len(order), _BATCH):
            chosen = order[start : start + _BATCH]
            vectors[chosen] = self._encoded([texts[i] for i in chosen])
        return vectors

    def _encoded(self, texts: Sequence[str]) -> Tensor:
        rows = [self._tokenizer.encode(text).ids for text in texts]
        length = max(map(len, rows))
        ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
        with torch.inference_mode():
            hidden = self._model(input_ids=ids, attention_mask=mask).last_hidden_state
            mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            return torch.nn.functional.normalize(mean, dim=-1)


class CosineBaseline:
    """Compares a state with each option; a yes/no or rubric option is read together with its question."""

    def __init__(self, folder: Path) -> None:
        self._vectors = SentenceVectors(folder)

    def probabilities(self, state: Any, question: dict[str, Any]) -> list[float]:
        """Return one probability an option in the caller's order; noul: false, true."""
        text = state if isinstance(state, str) else json.dumps(state, ensure_ascii=False)
        options = option_texts(question)
        similar = torch.stack([self._vectors.of(option) for option in options]) @ self._vectors.of(text)
        return [float(p) for p in (similar * SCALE).softmax(-1)]


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
