"""mainspring jobs."""

from __future__ import annotations

import json

import pytest

from mainspring.cli import job_page, render
from mainspring.clock import EPOCH
from mainspring.records.job import Job, State
from mainspring.records.run import Ending, Execution, Usage


def listed(cli, shop, *args: str) -> list[dict]:
    return json.loads(cli("jobs", "list", "--app", shop, "--json", *args).stdout)


def test_list_shows_newest_first_within_80_columns(cli, shop, enqueued):
    first, second = enqueued("add", "a=1"), enqueued("add", "a=1", "--queue", "q" * 60, "--delay", "2h")
    shown = cli("jobs", "list", "--app", shop).stdout
    assert all(len(line) <= 80 for line in shown.splitlines())
    title, newer, older = shown.splitlines()
    assert title.split() == ["ID", "STATE", "TASK", "QUEUE", "WHEN"]
    assert newer.split()[:4] == [second, "◔", "scheduled", "add"]
    assert "in 1h" in newer
    assert older.split()[:5] == [first, "○", "pending", "add", "mail"]


def test_wide_job_list_shows_failure_messages(cli, shop, enqueued, work, monkeypatch):
    enqueued("fail", "why=no luck")
    work()
    monkeypatch.setenv("COLUMNS", "120")
    assert "ValueError: no luck" in cli("jobs", "list", "--app", shop).stdout


def test_list_filters_by_state_queue_task_and_tag(cli, shop, enqueued, work):
    dead = enqueued("fail", "why=x", "--tag", "red", "--tag", "big")
    work()
    pending = enqueued("add", "a=1", "--tag", "red")
    assert [job["id"] for job in listed(cli, shop)] == [pending, dead]
    assert [job["id"] for job in listed(cli, shop, "--state", "dead")] == [dead]
    assert [job["id"] for job in listed(cli, shop, "--state", "dead", "--state", "pending")] == [pending, dead]
    assert [job["id"] for job in listed(cli, shop, "--queue", "mail")] == [pending]
    assert [job["id"] for job in listed(cli, shop, "--task", "fail")] == [dead]
    assert [job["id"] for job in listed(cli, shop, "--tag", "red", "--tag", "big")] == [dead]


def test_list_filters_by_key_error_worker_and_time(cli, shop, enqueued, work):
    dead = enqueued("fail", "why=no user 42", "--unique-key", "user:42")
    work()
    pending = enqueued("add", "a=1", "--idempotency-key", "order:1")
    assert [job["id"] for job in listed(cli, shop, "--key-prefix", "user:")] == [dead]
    for error in ("ValueError", "ValueError: no user …", "ValueError: no user 7"):
        assert [job["id"] for job in listed(cli, shop, "--error", error)] == [dead]
    assert listed(cli, shop, "--error", "KeyError") == []
    assert listed(cli, shop, "--worker", "nobody") == []
    assert [job["id"] for job in listed(cli, shop, "--since", "1h")] == [pending, dead]
    assert listed(cli, shop, "--until", "1h") == []
    assert listed(cli, shop, "--since", "2999-01-01T00:00:00Z") == []


def test_list_sorts_by_due_soonest_first(cli, shop, enqueued, work):
    later, soon = enqueued("add", "a=1", "--delay", "2h"), enqueued("add", "a=1", "--delay", "1h")
    assert [job["id"] for job in listed(cli, shop, "--sort", "due")] == [soon, later]
    assert [job["id"] for job in listed(cli, shop, "--sort", "due", "--newest-first")] == [later, soon]
    title, first, _ = cli("jobs", "list", "--app", shop, "--sort", "due").stdout.splitlines()
    assert title.split()[-1] == "DUE"
    assert first.rstrip().endswith("in 59m")


def test_list_sorts_oldest_first_if_asked(cli, shop, enqueued):
    ids = [enqueued("add", "a=1") for _ in range(3)]
    assert [job["id"] for job in listed(cli, shop, "--oldest-first")] == ids


def test_list_sorted_by_finish_is_paged(cli, shop, enqueued, work):
    ids = {enqueued("add", "a=1") for _ in range(3)}
    work()
    first = cli("jobs", "list", "--app", shop, "--state", "completed", "--limit", "2", "--json")
    cursor = first.stderr.removeprefix("there may be more: --after ").strip()
    rest = listed(cli, shop, "--state", "completed", "--after", cursor)
    assert {job["id"] for job in json.loads(first.stdout) + rest} == ids
    wrong = cli("jobs", "list", "--app", shop, "--sort", "due", "--after", cursor)
    assert wrong.exit_code == 1
    assert "sorted by 'finished', this one is sorted by 'due'" in wrong.stderr


def test_empty_sorted_list_has_a_hint(cli, shop, enqueued):
    assert (
        "holds no finished jobs, which is what --sort finished lists"
        in cli("jobs", "list", "--app", shop, "--sort", "finished").stderr
    )
    enqueued("add", "a=1")
    none = cli("jobs", "list", "--app", shop, "--sort", "due", "--state", "dead").stderr
    assert "(--sort due lists pending, scheduled and retrying jobs only)" in none


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--since", "soon"], "neither an instant such as"),
        (["--since", "2030-01-31"], "write 2030-01-31T00:00:00Z"),
        (["--since", "2030-01-31T09:00:00"], "add Z for UTC"),
        (["--since", "1h", "--until", "2h"], "is after --until"),
        (["--key-prefix", ""], "every key begins so"),
        (["--sort", "size"], "'size' is not one of"),
    ],
)
def test_invalid_filter_is_refused_with_advice(cli, shop, args, says):
    refused = cli("jobs", "list", "--app", shop, *args)
    assert refused.exit_code == 2
    assert says in " ".join(refused.stderr.split())


def test_list_is_paged(cli, shop, enqueued):
    ids = [enqueued("add", "a=1") for _ in range(3)]
    page = cli("jobs", "list", "--app", shop, "--limit", "2")
    assert page.stderr == f"there may be more: --after {ids[1]}\n"
    assert [job["id"] for job in listed(cli, shop, "--limit", "2", "--after", ids[1])] == [ids[0]]
    assert cli("jobs", "list", "--app", shop, "--after", ids[0]).stderr == "no more jobs\n"


def test_empty_job_list_has_a_hint(cli, shop):
    empty = cli("jobs", "list", "--app", shop)
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert empty.stderr == "sqlite:///jobs.db holds no jobs; store one: mainspring enqueue TASK …\n"
    assert "without them all are listed" in cli("jobs", "list", "--app", shop, "--state", "dead").stderr
    assert listed(cli, shop) == []


def test_list_json(cli, shop, enqueued, work):
    enqueued("add", "a=1")
    work()
    (job,) = listed(cli, shop)
    assert (job["state"], job["shown"], job["payload"], job["result"]) == ("completed", "completed", {"a": 1}, 3)
    assert job["created_at"].endswith("Z")
    assert {"id", "priority", "attempt", "failure", "tags", "metadata", "finished_at"} <= job.keys()


@pytest.mark.parametrize("args", [["--state", "lost"], ["--limit", "0"], ["--limit", "1001"]])
def test_list_refuses_invalid_options(cli, shop, args):
    assert cli("jobs", "list", "--app", shop, *args).exit_code == 2


def test_show_job_page(cli, shop, enqueued, work):
    id = enqueued("fail", "why=[bold]no\x1b[2Jluck", "--tag", "red", "--metadata", "who=me", "--timeout", "90")
    work()
    page = cli("jobs", "show", id, "--app", shop).stdout
    head, *_ = page.splitlines()
    assert head == f"✗ dead  fail  {id}"
    for part in ("default", "red", '{"who":"me"}', "1m", "ARGUMENTS", "Traceback", "raise ValueError(why)", "✗ failed"):
        assert part in page
    assert "\x1b" not in page
    assert "[bold]no\\x1b[2Jluck" in page


def test_show_of_a_completed_job_has_its_result(cli, shop, enqueued, work):
    id = enqueued("greet", "name=Ann")
    work()
    page = cli("jobs", "show", id, "--app", shop).stdout
    assert page.startswith("✓ completed  greet")
    assert '"Ann False None None"' in page
    assert "FAILURE" not in page


def test_show_cuts_very_long_arguments(cli, shop, enqueued):
    id = enqueued("greet", f"name={'x' * 9000}")
    assert "characters more; --json has all" in cli("jobs", "show", id, "--app", shop).stdout


def test_show_as_json_has_the_runs(cli, shop, enqueued, work):
    id = enqueued("fail", "why=x")
    work()
    job = json.loads(cli("jobs", "show", id, "--app", shop, "--json").stdout)
    (run,) = job["executions"]
    assert (run["number"], run["ending"], run["failure"]["message"]) == (1, "failed", "x")
    assert job["failure"]["stack"].startswith("Traceback")


def test_show_says_why_a_job_waits(cli, shop, enqueued):
    id = enqueued("add", "a=1", "--delay", "2h")
    page = cli("jobs", "show", id, "--app", shop).stdout
    assert "WHY" in page
    assert "• no worker is alive: start one with `mainspring worker`" in page
    job = json.loads(cli("jobs", "show", id, "--app", shop, "--json").stdout)
    assert [reason["code"] for reason in job["why"]] == ["not_due", "no_worker"]


def test_show_of_a_finished_job_has_no_why(cli, shop, enqueued, work):
    id = enqueued("add", "a=1")
    work()
    assert "WHY" not in cli("jobs", "show", id, "--app", shop).stdout
    assert json.loads(cli("jobs", "show", id, "--app", shop, "--json").stdout)["why"] == []


def test_show_has_progress_items_and_notes_of_a_run(cli, shop, enqueued, work):
    id = enqueued("talk", "say=[]", "rows=40")
    work()
    page = cli("jobs", "show", id, "--app", shop).stdout
    assert "progress  40 of 80 (50 %): rows" in page
    titles, run = (line.split() for line in page.splitlines() if line.startswith(("RUN", "1 ")))
    assert titles == ["RUN", "TRY", "ENDED", "STARTED", "TOOK", "OK", "FAILED", "SKIPPED", "REASON", "WORKER"]
    assert run[6:9] == ["40", "0", "1"]
    assert 'run 1: {"source":"list"}' in page


def test_show_has_cpu_and_memory_usage_of_measured_runs(capsys):
    ran = {"job_id": "x", "attempt": 1, "ending": Ending.COMPLETED, "worker": "w", "lease": "l", "started_at": EPOCH}
    measured = Execution(**ran, number=1, finished_at=EPOCH, usage=Usage(2.4, 48 << 20))
    plain = Execution(**ran, number=2, finished_at=EPOCH)
    job = Job(
        id="x", task="t", payload="{}", queue="q", priority=0, state=State.COMPLETED, run_at=EPOCH, created_at=EPOCH
    )
    render.show(*job_page.job_page(job, [measured, plain], [], EPOCH))
    titles, first, second = (line.split() for line in capsys.readouterr().out.splitlines()[-3:])
    assert titles[5:7] == ["CPU", "MEMORY"]
    assert first[6:8] == ["2.4s", "48M"]
    assert second[6:] == ["w"]


def test_cancel_and_retry_by_id(cli, shop, enqueued):
    id = enqueued("add", "a=1")
    assert cli("jobs", "cancel", id, "--app", shop, "--reason", "enough").stdout == "1 job is cancelled\n"
    (job,) = listed(cli, shop)
    assert (job["state"], job["cancel_reason"]) == ("cancelled", "enough")
    assert cli("jobs", "retry", id, "--app", shop).stdout == "1 job is pending again\n"
    assert listed(cli, shop)[0]["state"] == "pending"


def test_refused_retry_is_an_error_that_names_the_job(cli, shop, enqueued):
    id = enqueued("add", "a=1")
    refused = cli("jobs", "retry", id, "--app", shop)
    assert refused.exit_code == 1
    needs = "it is pending, retry needs cancelled, dead, expired"
    assert refused.stderr == f"error: cannot retry job {id}: {needs}\n"


def test_unknown_job_id_does_not_stop_the_cancel_of_other_jobs(cli, shop, enqueued):
    id = enqueued("add", "a=1")
    mixed = cli("jobs", "cancel", id, "nope", "--app", shop)
    assert mixed.exit_code == 1
    assert mixed.stdout == "1 job is cancelled\n"
    assert "there is no job 'nope'" in mixed.stderr
    assert mixed.stderr.endswith("error: 1 of 2 jobs refused\n")


def test_retry_of_a_job_whose_key_is_held_names_the_holder(cli, shop, enqueued):
    first = enqueued("add", "a=1", "--unique-key", "k")
    cli("jobs", "cancel", first, "--app", shop)
    second = enqueued("add", "a=1", "--unique-key", "k")
    refused = cli("jobs", "retry", first, "--app", shop)
    assert refused.exit_code == 1
    assert f"key 'k' is held by job {second}" in refused.stderr


def test_cancelling_a_running_job_says_that_its_worker_stops_it(cli, process, shop, enqueued, until):
    worker = process("worker", shop)
    worker.line("worker")
    id = enqueued("sleep", "seconds=60")
    until(lambda: listed(cli, shop)[0]["state"] == "running")
    assert cli("jobs", "cancel", id, "--app", shop).stdout == "1 job is running, and will stop\n"
    until(lambda: listed(cli, shop)[0]["state"] == "cancelled")


def test_retry_all_with_a_filter(cli, shop, enqueued, work):
    enqueued("fail", "why=x")
    enqueued("fail", "why=y", "--queue", "low")
    work()
    done = cli("jobs", "retry", "--all", "--queue", "low", "--app", shop, "--yes")
    assert done.stdout == "1 job is pending again\n"
    assert [(job["queue"], job["state"]) for job in listed(cli, shop)] == [("low", "pending"), ("default", "dead")]


def test_retry_all_skips_cancelled_jobs_by_default(cli, shop, enqueued):
    cli("jobs", "cancel", enqueued("add", "a=1"), "--app", shop)
    assert "nothing to retry" in cli("jobs", "retry", "--all", "--app", shop).stderr
    assert cli("jobs", "retry", "--all", "--state", "cancelled", "-y", "--app", shop).exit_code == 0
    assert listed(cli, shop)[0]["state"] == "pending"


def test_cancel_all_asks_for_confirmation_with_a_count(cli, shop, enqueued):
    enqueued("add", "a=1")
    refused = cli("jobs", "cancel", "--all", "--task", "add", "--app", shop, input="n\n")
    assert refused.exit_code == 1
    assert "cancel 1 job (state pending, scheduled, retrying, running, waiting, paused; task add)" in refused.stderr
    assert refused.stderr.endswith("error: not confirmed, so nothing was done\n")
    assert listed(cli, shop)[0]["state"] == "pending"
    assert cli("jobs", "cancel", "--all", "--app", shop, input="y\n").exit_code == 0
    assert listed(cli, shop)[0]["state"] == "cancelled"


def test_cancel_all_without_an_answer_hints_at_the_yes_option(cli, shop, enqueued):
    enqueued("add", "a=1")
    refused = cli("jobs", "cancel", "--all", "--app", shop, input="")
    assert refused.exit_code == 1
    assert "--yes goes ahead without asking" in refused.stderr


def test_cancel_all_covers_several_pages(cli, shop, inside):
    async def fill(app):
        await app.enqueue_many(app.tasks["add"].job(n) for n in range(2100))

    inside(fill)
    done = cli("jobs", "cancel", "--all", "--yes", "--app", shop)
    assert "2,100 jobs are cancelled\n" in done.stdout
    stats = inside(lambda app: app.stats())
    assert (stats.pending, stats.cancelled) == (0, 2100)
    # Cancelled jobs may be cancelled again: a filter by that state must not loop forever.
    again = cli("jobs", "cancel", "--all", "--state", "cancelled", "--yes", "--app", shop)
    assert "2,100 jobs are cancelled\n" in again.stdout


def test_cancel_all_shortens_the_list_of_refusals(cli, shop, inside, work):
    async def fill(app):
        await app.enqueue_many(app.tasks["add"].job(n) for n in range(15))

    inside(fill)
    work()
    refused = cli("jobs", "cancel", "--all", "--state", "completed", "--yes", "--app", shop)
    assert refused.exit_code == 1
    assert refused.stderr.count("it is completed, cancel needs") == 10
    assert "… and 5 more like these" in refused.stderr
    assert refused.stderr.endswith("error: 15 of 15 jobs refused\n")
