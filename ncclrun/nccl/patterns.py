"""Patterns of names: of any variable, and of the families of which something is known."""

from __future__ import annotations

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
FAMILY = r"(?i:nccl|ncll|nlcc|rccl|gloo|torch|pytorch|ofi_nccl)_\w+|TP_SOCKET_IFNAME"
"""NCCL's own, those of what works beside it, and usual slips, in any case."""
UPPER = r"(?:(?:NCCL|NCLL|NLCC|RCCL|GLOO|TORCH|PYTORCH|OFI_NCCL)_[A-Z0-9_]+|TP_SOCKET_IFNAME)"
"""The same as variables of an environment have them; a program's own options are written small."""
