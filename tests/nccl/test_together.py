"""Settings that work against each other, in one place or on several nodes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ncclrun.model.settings import Setting
from ncclrun.nccl.catalogue.names import KNOWN
from ncclrun.nccl.check.findings import across_findings, together_findings

TEXTS = st.text() | st.text("0123456789xKMGae=^,:;*|# \t\r\n'\"$truefalse", max_size=12)


class TestTogether:
    def test_infiniband_that_is_off_needs_no_device(self) -> None:
        found = together_findings([Setting("NCCL_IB_DISABLE", "1"), Setting("NCCL_IB_HCA", "mlx5_0", "f", 2)], None)
        assert [(f.name, f.level, f.line) for f in found] == [("NCCL_IB_HCA", "info", 2)]
        assert together_findings([Setting("NCCL_IB_DISABLE", "true"), Setting("NCCL_IB_HCA", "mlx5_0")], None) == ()

    def test_infiniband_alone_and_none_at_all_fails(self) -> None:
        (finding,) = together_findings([Setting("NCCL_IB_DISABLE", "1"), Setting("NCCL_NET", "IB")], None)
        assert finding.level == "error"

    def test_a_log_file_without_a_level_stays_empty(self) -> None:
        alone = [Setting("NCCL_DEBUG_FILE", "/tmp/%h.%p"), Setting("NCCL_DEBUG_SUBSYS", "NET")]
        assert {f.id for f in together_findings(alone, None)} == {"unused"}
        assert together_findings([*alone, Setting("NCCL_DEBUG", "INFO")], None) == ()

    def test_an_address_of_the_root_is_misread_by_some_versions(self) -> None:
        root = Setting("NCCL_COMM_ID", "10.0.0.1:4000")
        for version, kinds in (((2, 28, 9), []), ((2, 29, 2), ["contradiction"]), ((2, 30, 3), []), (None, [])):
            assert [f.id for f in together_findings([root], version)] == kinds
        assert together_findings([root, Setting("NCCL_SOCKET_IFNAME", "eth0")], (2, 29, 7)) == ()

    def test_a_fixed_gid_leaves_nothing_to_look_for(self) -> None:
        subnet = Setting("NCCL_IB_ADDR_RANGE", "10.0.0.0/8")
        assert [f.id for f in together_findings([subnet, Setting("NCCL_IB_GID_INDEX", "3")], None)] == ["unused"]
        assert together_findings([subnet, Setting("NCCL_IB_GID_INDEX", "-1")], None) == ()

    def test_a_subnet_must_be_of_the_family_that_is_looked_for(self) -> None:
        subnet = Setting("NCCL_IB_ADDR_RANGE", "fd00::/8")
        (finding,) = together_findings([subnet], None)
        assert (finding.level, finding.name) == ("warning", "NCCL_IB_ADDR_RANGE")
        assert together_findings([subnet, Setting("NCCL_IB_ADDR_FAMILY", "AF_INET6")], None) == ()

    def test_too_many_sockets_are_counted(self) -> None:
        threads = Setting("NCCL_SOCKET_NTHREADS", "8")
        (finding,) = together_findings([threads, Setting("NCCL_NSOCKS_PERTHREAD", "16")], None)
        assert "128 sockets" in finding.sees
        assert together_findings([threads, Setting("NCCL_NSOCKS_PERTHREAD", "8")], None) == ()

    def test_a_level_of_what_is_off_says_nothing(self) -> None:
        found = together_findings([Setting("NCCL_P2P_DISABLE", "1"), Setting("NCCL_P2P_LEVEL", "NVL")], None)
        assert [f.name for f in found] == ["NCCL_P2P_LEVEL"]

    def test_bounds_must_not_cross(self) -> None:
        found = together_findings([Setting("NCCL_MIN_CTAS", "16"), Setting("NCCL_MAX_CTAS", "8")], None)
        assert [f.id for f in found] == ["contradiction"]

    def test_old_and_new_name_of_torchs_must_agree(self) -> None:
        new = Setting("TORCH_NCCL_BLOCKING_WAIT", "true")
        assert together_findings([new, Setting("NCCL_BLOCKING_WAIT", "1")], None) == ()
        assert len(together_findings([new, Setting("NCCL_BLOCKING_WAIT", "0")], None)) == 1

    def test_of_a_name_twice_the_first_counts(self) -> None:
        twice = [Setting("NCCL_IB_DISABLE", "0"), Setting("NCCL_IB_DISABLE", "1"), Setting("NCCL_IB_HCA", "mlx5_0")]
        assert together_findings(twice, None) == ()

    @given(st.lists(st.builds(Setting, st.sampled_from(sorted(KNOWN)), TEXTS)))
    def test_any_settings_are_judged(self, settings: list[Setting]) -> None:
        assert {f.name for f in together_findings(settings, None)} <= {s.name for s in settings}


class TestAcrossNodes:
    def test_what_must_be_the_same_is_an_error_where_it_differs(self) -> None:
        (finding,) = across_findings({"gpu1": {"NCCL_ALGO": "Ring"}, "gpu2": {"NCCL_ALGO": "Ring"}, "gpu3": {}})
        assert (finding.name, finding.level, finding.id) == ("NCCL_ALGO", "error", "differs")
        assert "Ring on gpu1, gpu2; not set on gpu3" in finding.sees

    def test_what_should_be_is_a_warning(self) -> None:
        (finding,) = across_findings({"a": {"NCCL_SOCKET_FAMILY": "AF_INET"}, "b": {"NCCL_SOCKET_FAMILY": "AF_INET6"}})
        assert finding.level == "warning"

    def test_values_count_as_nccl_reads_them(self) -> None:
        assert across_findings({"a": {"NCCL_BUFFSIZE": "0x10"}, "b": {"NCCL_BUFFSIZE": "16 # x"}}) == ()
        assert across_findings({"a": {"NCCL_ALGO": "Ring,Tree"}, "b": {"NCCL_ALGO": "tree,ring"}}) == ()
        assert across_findings({"a": {"NCCL_IB_DISABLE": "0"}, "b": {}}) == ()

    def test_names_of_interfaces_may_differ(self) -> None:
        assert across_findings({"a": {"NCCL_SOCKET_IFNAME": "eth0"}, "b": {"NCCL_SOCKET_IFNAME": "ens1"}}) == ()

    def test_hosts_must_not_have_one_name(self) -> None:
        (finding,) = across_findings({"a": {"NCCL_HOSTID": "x"}, "b": {"NCCL_HOSTID": "x"}})
        assert finding.id == "not_unique"
        assert across_findings({"a": {"NCCL_HOSTID": "x"}, "b": {"NCCL_HOSTID": "y"}}) == ()

    @given(st.dictionaries(st.text(), st.dictionaries(st.sampled_from(sorted(KNOWN)), TEXTS, max_size=3), max_size=3))
    def test_any_nodes_are_compared(self, nodes: dict[str, dict[str, str]]) -> None:
        assert len(across_findings(nodes)) <= sum(map(len, nodes.values()))
