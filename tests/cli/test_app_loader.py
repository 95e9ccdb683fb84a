"""Loading the app or the store of a command, and its errors."""

from __future__ import annotations

import pytest


def test_app_and_store_together_are_refused(cli, shop, store):
    refused = cli("jobs", "list", "--app", shop, "--store", store)
    assert refused.exit_code == 2
    assert "give --app or --store, not both" in refused.stderr


def test_command_without_an_app_or_a_store_lists_the_four_ways_to_give_one(cli):
    refused = cli("jobs", "list")
    assert refused.exit_code == 2
    for way in ("--app module:attribute", "--store URL", "$MAINSPRING_APP", "$MAINSPRING_STORE"):
        assert way in refused.stderr


def test_app_comes_from_the_environment(cli, shop, monkeypatch):
    monkeypatch.setenv("MAINSPRING_APP", shop)
    assert cli("enqueue", "add", "a=1").exit_code == 0


def test_store_comes_from_the_environment(cli, here, monkeypatch):
    monkeypatch.setenv("MAINSPRING_STORE", "sqlite:///other.db")
    assert cli("queues", "list").exit_code == 0
    assert here.joinpath("other.db").exists()


def test_a_given_store_beats_an_app_in_the_environment(cli, here, monkeypatch):
    monkeypatch.setenv("MAINSPRING_APP", "not_there:app")
    assert cli("queues", "list", "--store", "sqlite:///other.db").exit_code == 0


def test_missing_module_error_names_the_searched_directory(cli, here):
    refused = cli("jobs", "list", "--app", "zzz:app")
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"error: there is no module 'zzz' in {here}; run this in the directory")


def test_missing_module_error_suggests_a_similar_module(cli, shop):
    assert "did you mean 'shop'?" in cli("jobs", "list", "--app", "shpo:app").stderr


def test_app_error_names_the_environment_variable(cli, monkeypatch):
    monkeypatch.setenv("MAINSPRING_APP", "zzz:app")
    assert "(from $MAINSPRING_APP)" in cli("jobs", "list").stderr


def test_missing_submodule_error_names_the_submodule(cli, shop):
    assert "there is no module 'shop.tasks'" in cli("jobs", "list", "--app", "shop.tasks:app").stderr


@pytest.mark.parametrize("name", ["shop", "shop:", ":app"])
def test_incomplete_app_name_is_a_usage_error(cli, shop, name):
    refused = cli("jobs", "list", "--app", name)
    assert refused.exit_code == 2
    assert "must be module:attribute, e.g. shop:app" in refused.stderr


@pytest.mark.parametrize(("name", "better"), [("shop.py:app", "shop:app"), ("pkg/shop.py", "pkg.shop:app")])
def test_app_given_as_a_path_gets_the_module_name(cli, name, better):
    refused = cli("jobs", "list", "--app", name)
    assert refused.exit_code == 2
    assert f"write {better}" in refused.stderr


def test_missing_attribute_suggests_the_only_app(cli, shop):
    refused = cli("jobs", "list", "--app", "shop:application")
    assert refused.exit_code == 1
    assert refused.stderr == "error: module 'shop' has no 'application'; did you mean shop:app?\n"


def test_missing_attribute_lists_several_apps(cli, here):
    here.joinpath("two.py").write_text(
        "from mainspring import Mainspring\none, two = Mainspring('memory://'), Mainspring('memory://')\n"
    )
    assert "module 'two' has no 'app'; it has: one, two" in cli("jobs", "list", "--app", "two:app").stderr


def test_attribute_that_is_no_app_is_an_error(cli, shop):
    refused = cli("jobs", "list", "--app", "shop:add")
    assert refused.exit_code == 1
    assert refused.stderr == "error: shop:add is a Task, not a Mainspring; did you mean shop:app?\n"


def test_module_without_an_app_is_an_error(cli, here):
    here.joinpath("bare.py").write_text("app = 1\n")
    assert "bare:app is a int, not a Mainspring; it has no Mainspring at all" in (
        cli("jobs", "list", "--app", "bare:app").stderr
    )


def test_app_inside_an_object_is_found(cli, here):
    here.joinpath("nested.py").write_text(
        "from mainspring import Mainspring\nclass site:\n    app = Mainspring('sqlite:///jobs.db')\n"
    )
    assert cli("queues", "list", "--app", "nested:site.app").exit_code == 0


def test_error_inside_the_module_shows_the_line_that_raised_it(cli, here):
    here.joinpath("broken.py").write_text("def f():\n    return 1 / 0\n\nf()\n")
    refused = cli("jobs", "list", "--app", "broken:app")
    assert refused.exit_code == 1
    assert 'broken.py", line 2, in f' in refused.stderr
    assert "importlib" not in refused.stderr
    assert refused.stderr.endswith("error: importing 'broken' raised ZeroDivisionError: division by zero\n")


def test_invalid_setting_of_an_app_is_reported_without_library_frames(cli, here, monkeypatch):
    here.joinpath("shop.py").write_text('from mainspring import Mainspring\n\napp = Mainspring("memory://")\n')
    monkeypatch.setenv("MAINSPRING_BEAT", "fast")
    refused = cli("jobs", "list", "--app", "shop:app")
    assert "error: importing 'shop': MAINSPRING_BEAT must be a span such as" in refused.stderr
    assert 'shop.py", line 3' in refused.stderr
    assert "config.py" not in refused.stderr


def test_syntax_error_in_the_app_module_shows_its_line(cli, here):
    here.joinpath("broken.py").write_text("x = (\n")
    refused = cli("jobs", "list", "--app", "broken:app")
    assert 'broken.py", line 1' in refused.stderr
    assert "error: importing 'broken' raised SyntaxError: '(' was never closed" in refused.stderr


def test_missing_import_inside_the_app_module_is_not_reported_as_a_missing_module(cli, here):
    here.joinpath("broken.py").write_text("import not_installed_anywhere\n")
    refused = cli("jobs", "list", "--app", "broken:app")
    assert "importing 'broken' raised ModuleNotFoundError: No module named 'not_installed_anywhere'" in refused.stderr


def test_module_that_exits_is_an_error(cli, here):
    here.joinpath("broken.py").write_text("raise SystemExit(0)\n")
    refused = cli("jobs", "list", "--app", "broken:app")
    assert refused.exit_code == 1
    assert "importing 'broken' raised SystemExit: 0" in refused.stderr


def test_current_directory_is_on_the_path_of_the_installed_script(process, shop):
    code, _, errors = process("queues", "list", "--app", shop, PYTHONSAFEPATH="1").end()
    assert code == 0, errors


def test_bad_setting_in_the_environment_is_an_error(cli, monkeypatch):
    monkeypatch.setenv("MAINSPRING_BEAT", "soon")
    refused = cli("queues", "list", "--store", "sqlite:///jobs.db")
    assert refused.exit_code == 1
    assert "MAINSPRING_BEAT must be a span" in refused.stderr


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("jobs.db", "no store named in URL 'jobs.db'"),
        ("mysql://x/y", "unknown store 'mysql'"),
        ("sqlite://jobs.db", "needs three slashes"),
        ("sqlite:////no/such/dir/jobs.db", "there is no directory '/no/such/dir'"),
    ],
)
def test_store_that_cannot_be_opened_is_an_error(cli, url, said):
    refused = cli("jobs", "list", "--store", url)
    assert refused.exit_code == 1
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_file_that_is_no_database_is_an_error(cli, here):
    here.joinpath("notes.db").write_text("these are not jobs " * 100)
    refused = cli("jobs", "list", "--store", "sqlite:///notes.db")
    assert refused.exit_code == 1
    assert "is not a SQLite database" in refused.stderr
