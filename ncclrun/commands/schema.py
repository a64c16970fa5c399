"""`ncclrun schema`: the JSON schema of the cluster file, for editors."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from ncclrun.planning.fields import file_schema


def cluster_schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a cluster file, with a description of every field."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | deepcopy(file_schema()) | {"title": "ncclrun cluster file"}
