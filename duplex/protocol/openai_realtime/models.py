"""The list of models, as `GET /v1/models` gives it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Model(Struct, frozen=True, kw_only=True):
    """`created` is a required field of OpenAI's; a model here has no such date."""

    id: str
    created: int = 0
    owned_by: str = "duplex"
    object: Literal["model"] = "model"


class ModelList(Struct, frozen=True, kw_only=True):
    data: list[Model]
    object: Literal["list"] = "list"
