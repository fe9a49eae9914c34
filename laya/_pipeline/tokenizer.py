"""The checkpoint's tokenizer, reduced to what the pipeline asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laya._pipeline.sequences import SpecialIds
from laya.errors import CheckpointFormatError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from laya._checkpoints.config import SpecialTokens


_LONG_TEXT = 4000
"""Characters; some milliseconds of work."""
_PROBE = "".join(map(chr, range(32, 256))) + " \u2603 \ua66e \U00010380"
"""Of these some are in no vocabulary: what can't encode them lacks its unknown token, and would fail at a call."""


class TextTokenizer:
    """Texts to token ids and back, without special tokens. Safe to call from many threads."""

    def __init__(self, tokenizer: Tokenizer, special: SpecialIds, mask_token: str) -> None:
        self._tokenizer = tokenizer
        self._mask_token = mask_token
        self.special = special

    @classmethod
    def from_file(cls, path: Path, names: SpecialTokens) -> TextTokenizer:
        """Load `tokenizer.json`; raises `CheckpointFormatError` naming the file."""
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(path))
            tokenizer.encode(_PROBE, add_special_tokens=False)
        except Exception as error:  # the Rust side raises bare Exception for unreadable files
            raise CheckpointFormatError(
                f"{path} is no readable tokenizer ({error}); copy or download it again", path=path
            ) from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        ids: dict[str, int] = {}
        for role in ("cls", "sep", "mask", "pad"):
            token = getattr(names, role)
            token_id = tokenizer.token_to_id(token)
            if token_id is not None:
                ids[role] = token_id
            else:
                raise CheckpointFormatError(
                    f"{path} has no token {token!r}, which tokenizer_config.json names as its {role} token",
                    path=path,
                )
        if ids["mask"] in (ids["cls"], ids["sep"], ids["pad"]):
            raise CheckpointFormatError(
                f"{path}: the mask token {names.mask!r} is the cls, sep or pad token as well; options need their own",
                path=path,
            )
        return cls(tokenizer, SpecialIds(**ids), names.mask)

    def check_vocabulary(self, size: Any, path: Path) -> None:
        """Refuse a tokenizer with ids that an encoder of `size` token embeddings can't read."""
        highest = max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
        if isinstance(size, int) and highest >= size:
            raise CheckpointFormatError(
                f"{path} has token ids up to {highest}, the encoder embeds {size} tokens; they belong to different "
                "checkpoints",
                path=path,
            )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text. The mask token inside a text reads as a blank: it marks options only."""
        clean = [text.replace(self._mask_token, " ") for text in texts]
        try:
            return self._encode(clean)
        except (UnicodeEncodeError, TypeError):  # which one depends on the tokenizers release
            return self._encode([_without_lone_surrogates(text) for text in clean])

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        # A batch wakes a thread pool, which costs more than one short text; but only it lets other threads run.
        if len(texts) == 1 and len(texts[0]) < _LONG_TEXT:
            return [self._tokenizer.encode(texts[0], add_special_tokens=False).ids]
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a run of token ids; a special token that the text itself named is kept."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)


def _without_lone_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
