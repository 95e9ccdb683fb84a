"""Masking is linear: each pattern at 128 KiB of its own worst cases."""

from __future__ import annotations

import re
import time

import pytest

from mainspring import mask as module
from mainspring.clock import EPOCH
from mainspring.mask import MASK, MAX_CHARACTERS, MAX_PARTS, MAX_TEXT_CHARACTERS, mask, mask_text
from mainspring.records.job import Job, State
from mainspring.webhook.message import job_data

# CPU seconds. A linear pattern takes 1/16 second; at this length a quadratic one takes half a minute.
MAX_SECONDS = 4.0
TEXT_CHARACTERS = MAX_TEXT_CHARACTERS // 8
# Units that, when repeated, begin a match at every position and end none, or end one at every position.
WORST: dict[str, tuple[str, ...]] = {
    "_NAME": ("password", "a", "apikey"),
    "_PAIR": ("password", "pwd=a ", "pwd:", "secret_ ", "secret\\\\\\\\\\\\\\\\", "credential-cookie-"),
    "_FLAG": (" -pass ", "--pass", " -p", " --tokentoken", "-a-"),
    "_URL": ("://:", "://a:@", "http://a:8", "://", "http://a:8/@", "://" + "a" * 200),
    "_URL_END": ("://a:", "<", "://a:\n"),
    "_PORT": ("http://a:12345/", "http://a:1@"),
    "_BEARER": ("bearer ", "bearer x ", "bearer"),
    "_BASIC": ("basic aaaa ", "basic QTpC ", "basic " + "A" * 3000),
    "_OWN_KEY": ("msk_a_", "msk_aaaaaaaaaaaaaaaaaaaaaaaa", "mst_a_b "),
    "_WEB_TOKEN": ("eyJ-", "eyJaaaaaaaa.", "eyJaaaaaaaa. ", "-eyJaaaaaaaaa", "eyJaaaaaaaa.eyJaa."),
    "_SEGMENT": ("eyJ", "a-", "eyJ_eyJ-"),
    "_KEY_BEGINS": ("-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN AAAA AAAA "),
    "_KEY_ENDS": ("-----BEGIN PRIVATE KEY----------END ", "-----END A PRIVATE KEY-----"),
    "_QUOTED": ("token='", "token=\\'", "token=b'a' "),
    "_BARE": ("token=", "token=a&"),
    "_BARE_JSON": ('"token":a,', '"token":'),
    "_LINE": ("authorization: ", "cookie: a\n"),
    "_SIGNS": ("token={", "token={'", "token={[(", "token={}\\"),
}


def test_every_mask_pattern_has_worst_cases() -> None:
    patterns = {name for name, value in vars(module).items() if isinstance(value, re.Pattern)}
    assert patterns == set(WORST)


@pytest.mark.parametrize("pattern", WORST)
def test_every_mask_pattern_is_linear_in_its_worst_cases(pattern: str) -> None:
    for unit in WORST[pattern]:
        text = f"{(unit * (TEXT_CHARACTERS // len(unit) + 1))[: TEXT_CHARACTERS - 1]}@"
        assert len(text) == 1 << 17
        began = time.thread_time()
        mask_text(text)
        assert time.thread_time() - began < MAX_SECONDS, unit


def test_mask_text_hides_a_text_over_the_limit_entirely() -> None:
    assert mask_text("a" * MAX_TEXT_CHARACTERS) == "a" * MAX_TEXT_CHARACTERS
    assert mask_text("a" * (MAX_TEXT_CHARACTERS + 1)) == MASK


def test_mask_hides_data_beyond_its_limits() -> None:
    many = [["x"] * 10] * MAX_PARTS
    assert mask(many) == MASK
    rows = mask([list(range(1000)) for _ in range(MAX_PARTS // 500)])
    assert rows[0] == list(range(1000))
    assert rows[-1] == MASK
    texts = mask(["a" * (1 << 20)] * 5)
    assert [len(text) for text in texts] == [1 << 20] * (MAX_CHARACTERS >> 20) + [len(MASK)] * 3
    began = time.thread_time()
    mask({str(n): {"a": [n]} for n in range(250_000)})
    assert time.thread_time() - began < MAX_SECONDS / 4


@pytest.mark.parametrize("step", [1, 2, 3, 5, 8, 13, 64 << 10])
def test_mask_text_hides_a_secret_across_the_border_of_two_chunks(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STEP_CHARACTERS", step)
    secrets = (
        "password=kan4ri", '"api_key": "kan4ri"', "postgres://u:kan4ri@host/db", "Bearer kan4ri", "--token kan4ri",
        "Basic a2FuNHJpOmthbjRyaQ==", "msk_abc_kan4ri", "eyJhbGciOiJIUzI1.kan4ri.kan4ri",
        "-----BEGIN PRIVATE KEY-----\nkan4ri\nkan4ri\n-----END PRIVATE KEY-----",
    )  # fmt: skip
    for secret in secrets:
        for before in range(17):
            shown = mask_text(f"{'x ' * before}{secret} and more")
            assert "kan4ri" not in shown
            assert "a2FuNHJp" not in shown
            assert shown.endswith("and more")


@pytest.mark.parametrize("secret", ["Bearer {}", "msk_abc_{}", "--token {}", "password='{}'", "eyJhbGciOiJIUzI1.{}.a"])
def test_mask_text_hides_a_secret_longer_than_a_chunk(secret: str) -> None:
    long = "kan4ri" * (module._STEP_CHARACTERS // 2)
    shown = mask_text(f"a {secret.format(long)} and more")
    assert "kan4ri" not in shown
    assert shown.endswith(" and more")


def test_webhook_data_over_the_limit_is_truncated_without_masking() -> None:
    """Masking delays the end of a run: with a megabyte of arguments it froze the worker."""
    payload = '{"text":"' + ("eyJ-" * (1 << 18))[: 1 << 20] + '"}'
    job = Job(
        id="1", task="t", payload=payload, queue="q", priority=0, state=State.COMPLETED, run_at=EPOCH, created_at=EPOCH,
        result="[1]",
    )  # fmt: skip
    began = time.thread_time()
    said = [job_data(job, None, "job.completed", ("arguments", "result")) for _ in range(50)]
    assert time.thread_time() - began < 2.0
    assert said[0]["truncated"] is True
    assert "arguments" not in said[0]
    assert said[0]["result"] == [1]
