"""Forms that show a secret as *** and are saved: the secret stays."""

from __future__ import annotations

from live import Live
from msgspec import json
from playwright.sync_api import Locator, Page, expect
from scenery import shown
from visit import Visits

from mainspring import Filter, every

SECRET = "kan4ri"
URL = f"smtp://user:{SECRET}@mail.example.org"


def test_a_schedule_that_is_edited_keeps_its_secret(visit: Visits, live: Live) -> None:
    live.do(live.app.schedules.create("hidden", every(52).weeks, "send_email", kwargs={"to": URL}))
    page = visit(live, "/schedules/hidden")
    shown(page).get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog", name="Edit hidden")
    arguments = dialog.get_by_label("Arguments")
    expect(arguments).to_have_value('{\n  "to": "smtp://user:***@mail.example.org"\n}')
    arguments.fill('{ "to": "smtp://user:***@mail.example.org" }')  # other text with the same meaning
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    assert live.do(live.app.schedules.get("hidden")).spec.payload == f'{{"to":"{URL}"}}'


def test_a_schedule_edit_with_a_mask_and_no_stored_secret_is_refused(visit: Visits, live: Live) -> None:
    visit.expects("status of 422")
    live.do(live.app.schedules.create("plain", every(52).weeks, "send_email", kwargs={"to": "ada@example.org"}))
    page = visit(live, "/schedules/plain")
    shown(page).get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog", name="Edit plain")
    dialog.get_by_label("Arguments").fill('{ "to": "smtp://user:***@mail.example.org" }')
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert").filter(has_text="stands for a secret")).to_be_visible()
    assert live.do(live.app.schedules.get("plain")).spec.payload == '{"to":"ada@example.org"}'


def test_a_job_that_is_edited_keeps_its_secret(visit: Visits, live: Live) -> None:
    job = live.app.tasks["send_email"].using(delay=86_400, metadata={"api_key": SECRET})
    handle = live.do(job.enqueue(to=URL))
    page = visit(live, f"/jobs/{handle.id}")
    shown(page).get_by_role("button", name="Edit", exact=True).click()
    dialog = page.get_by_role("dialog", name="Edit this job")
    dialog.get_by_label("Priority").fill("7")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    saved = live.do(live.app.jobs.get(handle.id))
    assert (saved.priority, saved.payload, saved.metadata["api_key"]) == (7, f'{{"to":"{URL}"}}', SECRET)


def refused_sign_in(live: Live, user: str, secret: str = SECRET) -> str:
    """The id of a dead job with secrets in its arguments."""
    id = live.enqueue("sign_in", user=user, password=secret, url=URL)
    assert live.do(live.app.jobs.wait(id, 20)).state == "dead"
    return id


def given(live: Live, id: str) -> dict[str, object]:
    """The stored arguments of the job, as its task receives them."""
    return dict(json.decode(live.do(live.app.jobs.get(id)).payload))


def arguments_of(page: Page, id: str) -> Locator:
    """The arguments field of the redrive dialog on the page of a dead job."""
    shown(page).get_by_role("button", name="Edit and redrive").click()
    return page.get_by_role("dialog", name="Edit and redrive").get_by_label("Arguments")


def test_a_dead_job_that_is_edited_and_redriven_keeps_its_secrets(visit: Visits, live: Live) -> None:
    id = refused_sign_in(live, "bob")
    page = visit(live, f"/jobs/{id}")
    arguments = arguments_of(page, id)
    shown_text = arguments.input_value()
    assert SECRET not in page.content()
    assert json.decode(shown_text) == {"user": "bob", "password": "***", "url": "smtp://user:***@mail.example.org"}
    arguments.fill(shown_text.replace("bob", "ada"))
    page.get_by_role("dialog").get_by_role("button", name="Redrive").click()
    expect(page.get_by_role("main").get_by_role("status").first).to_have_text("completed")
    assert given(live, id) == {"user": "ada", "password": SECRET, "url": URL}


def test_a_mask_typed_over_another_value_is_not_redriven(visit: Visits, live: Live) -> None:
    id = refused_sign_in(live, "carol")
    page = visit(live, f"/jobs/{id}")
    arguments = arguments_of(page, id)
    arguments.fill(arguments.input_value().replace("carol", "ada").replace("user:***@", "root:***@"))
    expect(page.get_by_role("dialog").get_by_role("alert").filter(has_text="stands for a secret")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("button", name="Redrive")).to_be_disabled()
    assert given(live, id) == {"user": "carol", "password": SECRET, "url": URL}


def test_a_group_redriven_with_changed_arguments_keeps_the_secret_of_each_job(visit: Visits, live: Live) -> None:
    visit.expects("status of 422")
    secrets = {refused_sign_in(live, "dave", secret): secret for secret in ("first-1", "second-2")}
    page = visit(live, "/dead?search=sign_in")
    shown(page).get_by_role("button", name="Edit and redrive all").first.click()
    dialog = page.get_by_role("dialog")
    editor = dialog.get_by_label("Arguments to change")
    editor.fill('{"user": "ada", "password": "***"}')
    dialog.get_by_role("button", name="Redrive 2 jobs").click()
    expect(dialog.get_by_role("alert")).to_contain_text("stands for a secret")
    assert {id: given(live, id)["password"] for id in secrets} == secrets
    dialog.get_by_role("button", name="Done").click()
    shown(page).get_by_role("button", name="Edit and redrive all").first.click()
    editor.fill('{"user": "ada"}')
    dialog.get_by_role("button", name="Redrive 2 jobs").click()
    expect(dialog).to_contain_text("2 jobs redriven")
    assert {id: live.do(live.app.jobs.wait(id, 20)).state for id in secrets} == dict.fromkeys(secrets, "completed")
    assert {id: given(live, id)["password"] for id in secrets} == secrets


def test_a_job_that_is_run_again_keeps_its_secrets(visit: Visits, live: Live) -> None:
    id = live.enqueue("sign_in", user="ada", password=SECRET, url=URL, options={"tags": ["again"]})
    live.do(live.app.jobs.wait(id, 20))
    page = visit(live, f"/jobs/{id}")
    shown(page).get_by_role("button", name="Run again").click()
    page.get_by_role("dialog").get_by_role("button", name="Run again").click()
    expect(page).not_to_have_url(f"{live.address}/jobs/{id}")
    assert SECRET not in page.content()
    jobs = live.do(live.app.jobs.list(Filter(tags=("again",))))
    assert [json.decode(job.payload)["password"] for job in jobs] == [SECRET, SECRET]


def test_a_schedule_run_now_with_other_arguments_keeps_its_secret(visit: Visits, live: Live) -> None:
    arguments = {"user": "eve", "password": SECRET}
    live.do(live.app.schedules.create("sign-in", every(52).weeks, "sign_in", kwargs=arguments))
    page = visit(live, "/schedules/sign-in")
    shown(page).get_by_role("button", name="Run now").click()
    dialog = page.get_by_role("dialog", name="Run sign-in now")
    dialog.get_by_label("With other arguments").check()
    expect(dialog).to_contain_text("are secrets")
    editor = dialog.get_by_label("Arguments", exact=True)
    editor.fill(editor.input_value().replace("eve", "ada"))
    dialog.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("main").get_by_role("status").first).to_have_text("completed")
    (job,) = live.do(live.app.jobs.list(Filter(schedules=("sign-in",))))
    assert json.decode(job.payload) == {"user": "ada", "password": SECRET}
