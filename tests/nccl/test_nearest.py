"""The name that was meant is found, and none is put into anybody's mouth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclrun.nccl.catalogue.names import KNOWN
from ncclrun.nccl.catalogue.nearest import MISNAMED, distance, near

LETTERS = st.text("ABCDE_", max_size=8)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("NCCL_SOCKET_IFNAM", "NCCL_SOCKET_IFNAME"),
        ("NCCL_SOKCET_IFNAME", "NCCL_SOCKET_IFNAME"),
        ("NCCL_SOCKET_IF_NAME", "NCCL_SOCKET_IFNAME"),
        ("NCCL_IBDISABLE", "NCCL_IB_DISABLE"),
        ("NCCL_DISABLE_IB", "NCCL_IB_DISABLE"),
        ("NCCL_IB_DISABLED", "NCCL_IB_DISABLE"),
        ("nccl_debug", "NCCL_DEBUG"),
        ("NCLL_DEBUG", "NCCL_DEBUG"),
        ("NCCL-DEBUG", "NCCL_DEBUG"),
        ("NCCL_HEARTBEAT_TIMEOUT_SEC", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"),
        ("TORCH_NCCL_IB_HCA", "NCCL_IB_HCA"),
        ("TORCH_NCCL_BLOKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT"),
    ],
)
def test_a_slip_is_recognised_for_sure(typed: str, meant: str) -> None:
    found = near(typed)
    assert found is not None
    assert found.names == (meant,)
    assert found.sure


@pytest.mark.parametrize(
    ("typed", "meant"), [("NCCL_IB_ENABLE", "NCCL_IB_DISABLE"), ("NCCL_NVLS_DISABLE", "NCCL_NVLS_ENABLE")]
)
def test_the_opposite_is_known_as_such(typed: str, meant: str) -> None:
    found = near(typed)
    assert found is not None
    assert found.names == (meant,)
    assert found.inverted


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_NET_DISABLE",  # one letter group from NCCL_NVB_DISABLE, and another thing
        "NCCL_PLUGIN_DISABLE",
        "NCCL_DETERMINISTIC",
        "NCCL_IB_TL",
        "HCCL_SOCKET_IFNAME",
        "RCCL_DEBUG",
        "CCL_LOG_LEVEL",
        "NCCL_HOSTS",
        "NCCL_ENABLE_COMPRESS",
        "NCCL_DYNAMIC_QP_LB_DISABLE",
        "PATH",
        "CUDA_VISIBLE_DEVICES",
        "",
    ],
)
def test_another_word_is_no_slip(name: str) -> None:
    assert near(name) is None


def test_what_people_call_things_leads_to_names_that_exist() -> None:
    assert [name for name in MISNAMED.values() if name not in KNOWN] == []
    assert [name for name in MISNAMED if name in KNOWN] == []


@given(LETTERS, LETTERS)
def test_distance_is_the_same_from_both_ends_and_none_only_to_itself(one: str, other: str) -> None:
    assert distance(one, other) == distance(other, one)
    assert (distance(one, other) == 0) == (one == other)
    assert distance(one, other) <= max(len(one), len(other))


@given(st.text())
def test_any_text_may_be_asked_for(name: str) -> None:
    found = near(name)
    assert found is None or set(found.names) <= set(KNOWN)
