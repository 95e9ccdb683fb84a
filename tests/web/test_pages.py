"""The page and the static files of the dashboard, as the server sends them."""

from __future__ import annotations

import re

import httpx
import pytest

from mainspring import Mainspring
from mainspring.api import asgi
from mainspring.api.routes.dashboard_files import DASHBOARD, site
from mainspring.api.routes.dashboard_pages import PAGE_NAMES

STRANGE = ["nowhere.js", "..%2Fapi%2Fdoor.py", "%2Fetc%2Fpasswd", "index.html", "vendor/versions"]
MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySet|\beval\(")
LATER = re.compile(r'import\("([^"]+)"\)')
LINK = re.compile(r'(?:href|src)="(ui/[^"]+)"')


@pytest.fixture
def app() -> Mainspring:
    return Mainspring("memory://")


def plain(app: Mainspring, root: str = "") -> httpx.AsyncClient:
    """A client that has not signed in."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(asgi(app), root_path=root), base_url="http://here")


@pytest.mark.parametrize("path", ["/", *(f"/{name}" for name in PAGE_NAMES), "/jobs/17", "/schedules/a%2Fb/c"])
async def test_every_dashboard_path_serves_the_page_without_authentication(app: Mainspring, path: str) -> None:
    async with plain(app) as http:
        answer = await http.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert '<div id="app">' in answer.text
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    ("path", "accept", "kind"),
    [
        ("/nowhere", "text/html,*/*;q=0.8", "text/html"),
        ("/a/b/c", "text/html", "text/html"),
        ("/nowhere", "application/json", "application/problem+json"),
        ("/api/v1/nowhere", "text/html", "application/problem+json"),
    ],
)
async def test_an_unknown_address_is_a_page_for_browsers_and_a_problem_for_programs(
    app: Mainspring, path: str, accept: str, kind: str
) -> None:
    async with plain(app) as http:
        answer = await http.get(path, headers={"accept": accept})
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (404, kind)
    assert "content-security-policy" in answer.headers or kind != "text/html"


async def test_the_content_security_policy_allows_only_this_server(app: Mainspring) -> None:
    async with plain(app) as http:
        policy = (await http.get("/")).headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == rules["form-action"] == rules["trusted-types"] == "'none'"
    assert rules["require-trusted-types-for"] == "'script'"


async def test_every_file_of_a_page_exists_and_is_cached_forever(app: Mainspring) -> None:
    async with plain(app) as http:
        for name in LINK.findall((await http.get("/")).text):
            answer = await http.get(f"/{name}")
            assert answer.status_code == 200
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.headers["content-encoding"] == "gzip"
            assert answer.content == site().files[name.split("/", 2)[2]].body


OWN = [("/", "overview"), ("/jobs", "jobs"), ("/jobs/17", "job"), ("/dead", "dead")]


@pytest.mark.parametrize(("path", "own"), OWN)
async def test_a_page_preloads_its_modules_and_those_of_no_other_page(app: Mainspring, path: str, own: str) -> None:
    async with plain(app) as http:
        named = {name.split("/", 2)[2] for name in LINK.findall((await http.get(path)).text)}
    for name in [name for name in named if name.endswith(".js")]:
        for other in re.findall(r'from "(.+)";', (DASHBOARD / name).read_text(encoding="utf-8")):
            assert str((DASHBOARD / name).parent.joinpath(other).resolve().relative_to(DASHBOARD)) in named
    assert f"pages/{own}.js" in named
    assert "pages/audit.js" not in named


def code(text: str) -> str:
    """The text without whole lines of comments, which are not served."""
    text = re.sub(r"^ *//.*$", "", re.sub(r"^ */\*.*?\*/$", "", text, flags=re.M | re.S), flags=re.M)
    return "\n".join(line for line in text.splitlines() if line)


def test_the_style_sheets_are_one_file_with_special_rules_last() -> None:
    text = site().files["style.css"].body.decode()
    assert [name for name in site().files if name.endswith(".css")] == ["style.css"]
    assert all(code(path.read_text(encoding="utf-8")) in code(text) for path in DASHBOARD.rglob("*.css"))
    assert text.index("color-scheme: light dark") < text.index(".dead-head")


async def test_a_client_without_gzip_gets_plain_files(app: Mainspring) -> None:
    async with plain(app) as http:
        answer = await http.get(f"/ui/{site().digest}/main.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in answer.headers
    assert answer.headers["content-type"].startswith("text/javascript")
    written = (DASHBOARD / "main.js").read_text(encoding="utf-8")
    assert (code(answer.text), answer.text.count("\n")) == (code(written), written.count("\n"))
    assert "// The entry point" not in answer.text


async def test_a_file_of_another_release_is_served_but_not_cached(app: Mainspring) -> None:
    async with plain(app) as http:
        answer = await http.get("/ui/0123456789abcdef/main.js")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")


@pytest.mark.parametrize(
    "name", ["nowhere.js", "..%2Fapi%2Fdoor.py", "../api/door.py", "index.html", "vendor/versions"]
)
async def test_no_other_files_are_served(app: Mainspring, name: str) -> None:
    async with plain(app) as http:
        answer = await http.get(f"/ui/{site().digest}/{name}")
    assert answer.status_code == 404


async def test_a_mounted_dashboard_finds_its_files(app: Mainspring) -> None:
    async with plain(app, root="/ops/jobs") as http:
        page = (await http.get("/ops/jobs/queues")).text
        assert '<base href="/ops/jobs/">' in page
        assert (await http.get(f"/ops/jobs/{LINK.findall(page)[0]}")).status_code == 200


async def test_a_hostile_path_stays_text(app: Mainspring) -> None:
    async with plain(app, root='/"><script>alert(1)</script>') as http:
        assert "<script>alert" not in (await http.get('/"><script>alert(1)</script>/')).text


def test_every_import_resolves() -> None:
    missing = {name: found - site().files.keys() for name, found in site().imports.items()}
    assert {name: found for name, found in missing.items() if found} == {}


def test_every_module_is_needed_by_another() -> None:
    texts = {name: file.body.decode() for name, file in site().files.items() if name.endswith(".js")}
    needed = set[str]().union(*site().imports.values()) | {one[2:] for one in LATER.findall(texts["main.js"])}
    assert texts.keys() - needed == {"main.js"}


def test_all_dashboard_files_fit_into_200_kib() -> None:
    assert sum(len(file.gzipped) for file in site().files.values()) < 200 * 1024


def test_every_library_has_its_version_and_licence() -> None:
    vendor = DASHBOARD / "vendor"
    for line in (vendor / "versions").read_text(encoding="utf-8").splitlines():
        name, version = line.split()
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert (vendor / f"{name}.LICENSE").stat().st_size > 500


def test_no_module_names_another_host() -> None:
    for path in [*DASHBOARD.rglob("*.js"), *DASHBOARD.rglob("*.css")]:
        if path.parent.name != "vendor":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"https?://", text), path
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySet|\beval\(", text
            )


def test_every_module_has_a_head_comment_and_a_limited_size() -> None:
    for path in [path for path in DASHBOARD.rglob("*.js") if path.parent.name != "vendor"]:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith("// "), path
        assert len(lines) <= 250, path
        assert [n for n, line in enumerate(lines, 1) if len(line) > 120] == [], path
