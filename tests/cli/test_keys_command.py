"""mainspring keys."""

from __future__ import annotations

import json

import pytest


def test_create_list_and_revoke_a_key(cli, shop):
    made = cli("keys", "create", "deploy", "--app", shop, "--role", "operator", "--scope", "jobs:write")
    secret = made.stdout.strip()
    assert made.exit_code == 0
    assert made.stdout.count("\n") == 1
    assert secret.startswith("msk_")
    assert "it cannot be shown again" in made.stderr
    title, row = cli("keys", "list", "--app", shop).stdout.splitlines()
    assert title.split() == ["NAME", "ID", "ROLE", "SCOPES", "MADE", "USED", "EXPIRES"]
    assert row.split()[:4] == ["deploy", secret.split("_")[1], "operator", "jobs:write"]
    gone = cli("keys", "revoke", "deploy", "--app", shop)
    assert "API key 'deploy'" in gone.stdout
    assert "within 5 seconds" in gone.stderr
    assert cli("keys", "list", "--app", shop).stdout == ""


def test_revoke_by_the_id_in_a_secret(cli, shop):
    secret = cli("keys", "create", "deploy", "--app", shop).stdout.strip()
    assert cli("keys", "revoke", secret.split("_")[1], "--app", shop).exit_code == 0


def test_key_json_has_the_secret_only_at_creation(cli, shop):
    made = json.loads(cli("keys", "create", "deploy", "--app", shop, "--expires", "30d", "--json").stdout)
    assert made["key"]["name"] == "deploy"
    assert made["key"]["role"] == "viewer"
    listed = cli("keys", "list", "--app", shop, "--json").stdout
    assert [key["id"] for key in json.loads(listed)] == [made["key"]["id"]]
    assert made["secret"].rpartition("_")[2] not in listed
    revoked = cli("keys", "revoke", "deploy", "--app", shop, "--json")
    assert json.loads(revoked.stdout)["name"] == "deploy"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["create", "deploy", "--role", "root"], 2, "'root' is not one of 'viewer', 'operator', 'admin'"),
        (["create", "deploy", "--scope", "job:write"], 1, "there is no scope 'job:write' (known: audit, batches,"),
        (["create", "a b"], 1, "a key's name is 1 to 64 letters"),
        (["create", "deploy", "--expires", "soon"], 2, "must be a span"),
        (["revoke", "deploy"], 1, "there is no API key 'deploy'; known: none"),
    ],
)
def test_invalid_key_command_is_one_error_line(cli, shop, words, code, message):
    done = cli("keys", *words, "--app", shop)
    assert done.exit_code == code
    assert message in done.stderr


def test_empty_key_list_has_a_hint(cli, shop):
    empty = cli("keys", "list", "--app", shop)
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "has no API keys; make one: mainspring keys create NAME" in empty.stderr
