"""What is wrong with settings is found, and what works is not accused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclrun.model.settings import Setting, SettingFinding
from ncclrun.nccl.catalogue.names import ALL, KNOWN
from ncclrun.nccl.check.findings import setting_findings
from ncclrun.nccl.version import NEWEST, Version
from tests.nccl.checksamples import MENDED, NAMES_OF_OTHERS, NOT_MENDED, NOTED, WORKING

VERSIONS: list[Version | None] = [None, (2, 18, 3), (2, 23, 4), (2, 27, 5), (2, 30, 3), NEWEST]
TEXTS = st.text() | st.text("0123456789xKMGae=^,:;*|# \t\r\n'\"$truefalse", max_size=12)


def findings(line: str, version: Version | None = None, *, conf: bool = False) -> tuple[SettingFinding, ...]:
    name, _, value = line.partition("=")
    return setting_findings(Setting(name, value, "here", 3), version, conf=conf)


def only(line: str, version: Version | None = None, *, conf: bool = False) -> SettingFinding:
    (finding,) = findings(line, version, conf=conf)
    return finding


def accused(found: tuple[SettingFinding, ...]) -> list[SettingFinding]:
    return [finding for finding in found if finding.level != "info"]


class TestOneSetting:
    @pytest.mark.parametrize(("line", "kind", "fix"), MENDED, ids=[line for line, _, _ in MENDED])
    def test_that_is_wrong_is_told_with_the_line_as_it_should_be(self, line: str, kind: str, fix: str) -> None:
        finding = only(line)
        assert (finding.id, finding.fix) == (kind, fix)
        assert finding.level in ("error", "warning")
        assert accused(findings(fix)) == []

    @pytest.mark.parametrize(("line", "kind"), NOT_MENDED)
    def test_that_nobody_but_its_owner_can_mend_is_told(self, line: str, kind: str) -> None:
        finding = only(line)
        assert (finding.id, finding.fix) == (kind, "")
        assert finding.level in ("error", "warning")

    @pytest.mark.parametrize("line", WORKING)
    def test_that_works_is_not_accused(self, line: str) -> None:
        assert accused(findings(line)) == []

    @pytest.mark.parametrize(("line", "kind"), NOTED)
    def test_that_works_may_be_worth_a_word(self, line: str, kind: str) -> None:
        finding = only(line)
        assert (finding.id, finding.level) == (kind, "info")

    @pytest.mark.parametrize("name", NAMES_OF_OTHERS.split())
    def test_of_a_vendor_or_a_framework_is_not_accused(self, name: str) -> None:
        assert accused(findings(f"{name}=1")) == []

    @pytest.mark.parametrize(
        ("name", "meant"),
        [
            ("NCCL_SOCKET_INTERFACE", "NCCL_SOCKET_IFNAME"),
            ("GLOO_SOCKET_IFACE", "GLOO_SOCKET_IFNAME"),
            ("TP_SOCKET_INTERFACE", "TP_SOCKET_IFNAME"),
            ("NCCL_IB_RETRY_COUNT", "NCCL_IB_RETRY_CNT"),
            ("NCCL_TOPOLOGY_FILE", "NCCL_TOPO_FILE"),
            ("NCCL_DEBUG_SUBSYSTEM", "NCCL_DEBUG_SUBSYS"),
            ("NCCL_DEGUB", "NCCL_DEBUG"),
        ],
    )
    def test_with_another_word_in_its_name_is_recognised(self, name: str, meant: str) -> None:
        finding = findings(f"{name}=x")[0]
        assert finding.id == "unknown_name"
        assert finding.fix.startswith(f"{meant}=")
        assert finding.sees.startswith({"G": "Gloo ", "T": "TensorPipe ", "N": "NCCL "}[meant[0]])

    def test_keeps_its_place_and_says_what_nccl_reads(self) -> None:
        finding = only("NCCL_IB_DISABLE=true")
        assert (finding.file, finding.line, finding.name, finding.value) == ("here", 3, "NCCL_IB_DISABLE", "true")
        assert finding.level == "error"
        assert "reads 0" in finding.sees
        assert "InfiniBand stays on" in finding.sees

    def test_with_two_mistakes_has_one_line_that_mends_both(self) -> None:
        found = findings("NCCL_IB_DISABLED=yes")
        assert [finding.id for finding in found] == ["unknown_name", "word_for_number"]
        assert {finding.fix for finding in found} == {"NCCL_IB_DISABLE=1"}
        assert only("NCCL_SOCKET_IFNAME=^docker*,^veth*").fix == "NCCL_SOCKET_IFNAME=^docker,veth,lo"

    def test_of_an_unknown_name_is_only_mentioned_where_nothing_is_near(self) -> None:
        assert only("NCCL_NET_DISABLE=1").level == "info"
        assert findings("SOMETHING_ELSE=1") == ()

    def test_that_is_empty_hides_a_file(self) -> None:
        assert (only("NCCL_IB_HCA=").level, only("NCCL_IB_HCA=").id) == ("info", "empty_value")

    def test_of_a_name_that_scripts_alone_read_is_told_as_such(self) -> None:
        for name in ("NCCL_TIMEOUT", "NCCL_TIMEOUT_MS", "NCCL_LOG_FILE"):
            found = only(f"{name}=1800")
            assert (found.level, found.id, found.fix) == ("info", "not_read", "")
        assert findings("NCCL_HOME=/opt/nccl") == ()

    @pytest.mark.parametrize(
        ("written", "right"),
        [
            ("INIT,NETWORK", "INIT,NET"),
            ("ALLOCATION,ENV", "ALLOC,ENV"),
            ("BOOT,NET", "BOOTSTRAP,NET"),
            ("COLLECTIVES,NET", "COLL,NET"),
            ("FOO,NET", "NET"),
        ],
    )
    def test_a_subsystem_that_is_written_out_or_cut_short_is_meant(self, written: str, right: str) -> None:
        (found,) = accused(findings(f"NCCL_DEBUG_SUBSYS={written}"))
        assert found.fix == f"NCCL_DEBUG_SUBSYS={right}"


class TestTheVersion:
    def test_tells_what_came_later(self) -> None:
        assert only("NCCL_RAS_ENABLE=1", (2, 18, 3)).id == "too_new"
        assert findings("NCCL_RAS_ENABLE=1", (2, 27, 5)) == ()

    def test_that_is_not_known_makes_nothing_too_new(self) -> None:
        assert [k.name for k in ALL if any(f.id == "too_new" for f in findings(f"{k.name}=1"))] == []

    def test_decides_whether_a_blank_behind_a_level_counts(self) -> None:
        assert only("NCCL_DEBUG=INFO ", (2, 30, 4)).fix == "NCCL_DEBUG=INFO"
        assert findings("NCCL_DEBUG=INFO ", (2, 30, 7)) == ()

    def test_decides_what_an_unknown_algorithm_does(self) -> None:
        assert "fails" in only("NCCL_ALGO=Rign", (2, 24, 3)).sees
        assert "passes over it" in only("NCCL_ALGO=Rign", (2, 23, 4)).sees

    def test_decides_whether_operations_have_lists_of_their_own(self) -> None:
        assert findings("NCCL_ALGO=ring;allreduce:tree", (2, 24, 3)) == ()
        finding = only("NCCL_ALGO=ring;allreduce:tree", (2, 23, 4))
        assert (finding.level, finding.fix) == ("error", "")
        assert "2.24" in finding.sees

    def test_decides_whether_a_word_is_a_switch(self) -> None:
        assert only("NCCL_SET_THREAD_NAME=true", (2, 30, 3)).id == "word_for_number"
        assert findings("NCCL_SET_THREAD_NAME=true", (2, 30, 7)) == ()

    def test_decides_whether_init_tells_the_interface(self) -> None:
        assert findings("NCCL_DEBUG_SUBSYS=INIT", (2, 22, 3)) == ()
        assert only("NCCL_DEBUG_SUBSYS=INIT", (2, 23, 4)).id == "bootstrap_hidden"
        assert findings("NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP") == findings("NCCL_DEBUG_SUBSYS=ALL") == ()

    def test_decides_whether_there_is_a_newer_name_already(self) -> None:
        assert findings("NCCL_CHECK_POINTERS=1", (2, 27, 5)) == ()
        assert only("NCCL_CHECK_POINTERS=1", (2, 29, 7)).id == "deprecated"

    def test_decides_whether_a_policy_has_a_name(self) -> None:
        assert only("NCCL_CTA_POLICY=EFFICIENCY", (2, 28, 9)).id == "word_for_number"
        assert findings("NCCL_CTA_POLICY=EFFICIENCY", (2, 29, 7)) == ()

    def test_what_nccl_reads_no_more_is_a_warning_only_where_its_version_is_known(self) -> None:
        gone = Setting("NCCL_TREE_THRESHOLD", "0")
        found = setting_findings(gone, (2, 27, 5), conf=True)
        assert [(one.id, one.level) for one in found] == [("removed", "warning")]
        assert [(one.id, one.level) for one in setting_findings(gone, None, conf=True)] == [("removed", "info")]


class TestInAConfFile:
    @pytest.mark.parametrize(
        "line",
        ["TORCH_NCCL_BLOCKING_WAIT=1", "GLOO_SOCKET_IFNAME=eth0", "NCCL_BLOCKING_WAIT=1", "LD_LIBRARY_PATH=/opt"],
    )
    def test_what_others_read_comes_too_late(self, line: str) -> None:
        assert (only(line, conf=True).level, only(line, conf=True).id) == ("error", "too_late")
        assert accused(findings(line)) == []

    def test_the_name_of_the_file_itself_does_nothing(self) -> None:
        assert only("NCCL_CONF_FILE=/etc/mine", conf=True).id == "no_effect"

    def test_a_name_of_the_build_does_no_harm(self) -> None:
        assert only("NCCL_HOME=/usr", conf=True).level == "info"

    def test_what_is_read_after_nccl_or_who_knows_when_is_not_accused(self) -> None:
        for name in ("TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS", "TORCH_SOMETHING_NEW"):
            levels = [one.level for one in setting_findings(Setting(name, "1"), None, conf=True)]
            assert set(levels) <= {"info"}, name

    def test_plugins_see_theirs(self) -> None:
        assert findings("OFI_NCCL_PROTOCOL=RDMA", conf=True) == ()


class TestAnySetting:
    @given(st.sampled_from(sorted(KNOWN)) | TEXTS, TEXTS, st.sampled_from(VERSIONS), st.booleans())
    def test_is_judged(self, name: str, value: str, version: Version | None, conf: bool) -> None:
        for finding in setting_findings(Setting(name, value), version, conf=conf):
            assert finding.sees
            assert "\n" not in finding.sees
            assert finding.fix != f"{name}={value}"
            assert finding.level != "info" or finding.fix == ""

    @given(st.sampled_from(sorted(KNOWN)), TEXTS)
    def test_needs_no_second_mending(self, name: str, value: str) -> None:
        for fix in {finding.fix for finding in setting_findings(Setting(name, value), None, conf=False)} - {""}:
            assert [finding.fix for finding in findings(fix) if finding.fix] == []

    @pytest.mark.parametrize("version", VERSIONS)
    def test_that_has_a_default_or_allowed_value_is_not_accused(self, version: Version | None) -> None:
        for known in ALL:
            if known.family or known.removed or (version and known.since and version < known.since):
                continue
            own = [known.default] if known.default is not None else []
            words = () if version and known.name in ("NCCL_DEBUG", "NCCL_CTA_POLICY") else known.allowed
            for value in (*own, *words):
                if known.name != "NCCL_CTA_POLICY" or not version:
                    assert accused(setting_findings(Setting(known.name, value), version, conf=False)) == []
