"""A secret is shown nowhere, and that there is one is."""

from __future__ import annotations

from ncclrun.model.secrets import finding_shown, text_shown, value_shown
from ncclrun.model.settings import SettingFinding

FILE = "/etc/nccl.conf"


def test_a_secret_is_stars_by_its_name_its_value_or_because_it_is_known_as_one() -> None:
    assert value_shown("API_TOKEN", "hunter2") == "***"
    assert value_shown("PROXY", "http://me:hunter2@proxy") == "***"
    assert value_shown("NCCL_DEBUG", "hunter2", secret=True) == "***"
    assert value_shown("NCCL_IB_PKEY", "0xffff") == "0xffff"
    assert value_shown("API_TOKEN", "") == "", "that it is empty matters, and is none"


def test_a_finding_does_not_tell_a_secret_anywhere() -> None:
    finding = SettingFinding(
        file=FILE, line=1, name="A_TOKEN", value="h 2", level="error", id="x", sees="takes h 2", fix="A_TOKEN=h 2"
    )
    shown = finding_shown(finding)
    assert (shown.value, shown.sees, shown.fix) == ("***", "takes ***", "A_TOKEN=***")


def test_a_line_of_any_kind_does_not_tell_one_either() -> None:
    assert text_shown("run -e HF_TOKEN=h2 -e NCCL_DEBUG=INFO") == "run -e HF_TOKEN=*** -e NCCL_DEBUG=INFO"
    assert text_shown('{"A_PASSWORD": "h2"}') == '{"A_PASSWORD": "***"}'
    assert text_shown("GET http://me:hunter2@proxy/x") == "GET http://me:***@proxy/x"
    assert text_shown("Authorization: Bearer abc.def") == "Authorization: Bearer ***"
    assert text_shown("logged in with hf_abcdefghijklmnopqrst") == "logged in with hf_***"
    assert text_shown("train.py --api-token h2 --tokenizer gpt2") == "train.py --api-token *** --tokenizer gpt2"
    assert text_shown("KeyError: 'labels'") == "KeyError: 'labels'"


def test_what_logs_show_of_logins_cookies_signed_addresses_and_keys_is_stars() -> None:
    for line in (
        "Authorization: Basic h2secret",
        "Cookie: a=h2secret; b=h2secret",
        "Set-Cookie: sid=h2secret; Path=/",
        "wandb login h2secret",
        "GET https://x/?a=1&access_token=h2secret&b=1",
        "s3://b/k?X-Amz-Signature=h2secret",
        "github_pat_h2secretabcdefghijklm",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\nh2secret\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nabc\nh2secret",
    ):
        assert "h2secret" not in text_shown(line), line
    assert text_shown("GET https://x/?a=1&token=h2&b=1") == "GET https://x/?a=1&token=***&b=1"
