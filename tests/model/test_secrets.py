"""A secret is shown nowhere, and that there is one is."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclrun.model.secrets import data_shown, finding_shown, text_shown, value_shown
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


@pytest.mark.parametrize(
    "text",
    [
        "export DB_PASSWORD='h2 secret h2' # mine",
        'HF_TOKEN="h2 \\"secret h2"',
        "HF_TOKEN=h2\\ secret",
        "PASSWORD=a,b;h2}secret x=1",
        '{"password": "h2 secret", "x": 1}',
        '{"log":"{\\"password\\": \\"h2 secret\\"}"}',
        "db:\n  password: h2 secret phrase\n  port: 1",
        "- api_key: h2 secret",
        "train.py --api-token 'h2 secret' --lr 1",
        "train.py --token=h2secret --lr 1",
        "['train.py', '--token', 'h2 secret']",
        "{'Authorization': 'Basic h2secret'}",
        "authorization: token h2secret",
        '-H "Authorization: ApiKey h2secret"',
        '"Cookie": "a=h2secret; b=h2secret"',
        "session_cookie=h2secret",
        'CMD="run -e A_TOKEN=h2secret"',
        "curl -sS -u me:h2secret https://x",
        "sshpass -p h2secret ssh x",
        "wandb login --relogin h2secret",
        "https://x/k?AWSAccessKeyId=h2secret&Signature=h2secret&Expires=1",
        "https://x/k?a=1\\u0026X-Amz-Security-Token=h2secret",
        "https://x.blob/k?sv=1&sig=h2secret",
        "ASIAh2secretabcdefghij",
        "h2secret\nabc=\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_no_form_in_which_a_secret_is_written_shows_it_or_a_part_of_it(text: str) -> None:
    assert "h2" not in text_shown(text)
    assert "secret" not in text_shown(text).replace("secret_", "")


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_IB_PKEY=0xffff TOKENIZERS_PARALLELISM=false NCCL_DEBUG=INFO",
        "KeyError: 'labels'",
        "host_keys: accept-new",
        "python -u train.py --lr 0.1 --seed 3",
        "gpu7:1:1 [0] NCCL INFO NET/Socket : Using [0]eth1:10.1.2.3<0>",
        "ssh: connect to host gpu7 port 22: Connection refused",
        "loss: 0.1, step: 3; lr: {0.1}",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert text_shown(text) == text


def test_in_data_a_secret_is_known_by_its_name_and_by_the_option_before_it() -> None:
    data = {
        "env": {"A_TOKEN": "h2 x", "LANG": "C"},
        "argv": ["train.py", "--api-token", "h2 x", "--lr", "1", "-x", "--password"],
        "tokens": 5,
        "text": "PASSWORD='h2 x' y",
    }
    assert data_shown(data) == {
        "env": {"A_TOKEN": "***", "LANG": "C"},
        "argv": ["train.py", "--api-token", "***", "--lr", "1", "-x", "--password"],
        "tokens": 5,
        "text": "PASSWORD='***' y",
    }


FORMS: dict[str, Callable[[str], str]] = {
    "shell": lambda value: f"export A_TOKEN={shlex.quote(value)}; go",
    "option": lambda value: f"train.py --api-key {shlex.quote(value)} --lr 1",
    "option=": lambda value: f"train.py --api-key={shlex.quote(value)} --lr 1",
    "words": lambda value: repr(["train.py", "--api-key", value]),
    "json": lambda value: json.dumps({"x": 1, "db_password": value}),
    "json in json": lambda value: json.dumps({"log": json.dumps({"db_password": value})}),
    "python": lambda value: repr({"secret": value, "x": 1}),
}


@pytest.mark.parametrize("form", FORMS)
@given(
    st.text(st.sampled_from("aZ9 .,;:}{\"'\\/!$&#=-@"), max_size=9).map(lambda middle: f"<{middle}>"),
)
def test_whatever_a_secret_is_made_of_and_however_it_is_quoted_its_end_is_not_shown(form: str, value: str) -> None:
    assert ">" not in text_shown(FORMS[form](value))
