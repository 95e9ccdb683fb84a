"""Redis URLs: how they are parsed, and the errors for bad ones, without a connection."""

import subprocess
import sys
from urllib.parse import urlencode

import pytest
from redis.crc import key_slot

from mainspring import BadSetting
from mainspring.stores import open_store
from mainspring.stores.redis.url import RedisUrl, slot


def place(url: str) -> RedisUrl:
    return RedisUrl(url, url)


def refusal(url: str) -> str:
    with pytest.raises(BadSetting) as refused:
        open_store(url)
    return str(refused.value)


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_a_redis_url_is_parsed_into_a_redis_store(scheme: str) -> None:
    from mainspring.stores.redis.store import RedisStore

    store = open_store(f"{scheme}://ada:lovelace@host:99/3?prefix=shop")
    assert isinstance(store, RedisStore)
    address, _, user, password, db, tls = store.url.server()
    assert (address, user, password, db, tls is not None) == (("host", 99), "ada", "lovelace", 3, scheme == "rediss")
    assert store.url.base == "{shop}"
    assert store.url.shown == f"{scheme}://ada:***@host:99/3?prefix=shop"


def test_a_redis_url_with_only_a_host_has_defaults() -> None:
    found = place("redis://host")
    assert (found.prefix, found.base) == ("mainspring", "{mainspring}")
    assert found.server() == (("host", 6379), "", "", None, 0, None)


@pytest.mark.parametrize(
    ("url", "host", "port", "db"),
    [
        ("redis://host/", "host", 6379, 0),
        ("redis://host:99/15", "host", 99, 15),
        ("redis://[::1]:99/2", "::1", 99, 2),
        ("rediss://:secret@127.0.0.1", "127.0.0.1", 6379, 0),
        ("redis://ada@my-redis_1.shop.internal/1", "my-redis_1.shop.internal", 6379, 1),
    ],
)
def test_a_redis_url_has_the_host_port_and_database_of_its_server(url: str, host: str, port: int, db: int) -> None:
    found = place(url).server()
    assert (found.address, found.db) == ((host, port), db)


def test_user_and_password_of_a_redis_url_are_percent_decoded() -> None:
    found = place("redis://a%40b:p%2Fw%3F%23%40@host/0?prefix=x").server()
    assert (found.user, found.password) == ("a@b", "p/w?#@")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis+unix:///run/redis.sock", ("/run/redis.sock", "", None, 0)),
        ("redis+unix:///run/redis.sock?db=4&prefix=shop", ("/run/redis.sock", "", None, 4)),
        ("redis+unix://ada:pw@/r.sock", ("/r.sock", "ada", "pw", 0)),
    ],
)
def test_a_redis_url_may_name_a_unix_socket(url: str, expected: tuple[object, ...]) -> None:
    found = place(url).server()
    assert (found.socket, found.user, found.password, found.db) == expected


def test_a_redis_cluster_url_lists_some_of_its_nodes() -> None:
    found = place("redis+cluster://ada:pw@one,[::1]:7001/?prefix=shop&homes=4")
    assert found.addresses == [("one", 6379), ("::1", 7001)]
    assert found.server(("two", 7002)) == (("two", 7002), "", "ada", "pw", 0, None)
    assert len(found.bases) == 4


def test_a_sentinel_url_may_have_ipv6_addresses() -> None:
    found = place("redis+sentinel://[2001:db8::1],[2001:db8::2]:5,three/main")
    assert found.addresses == [("2001:db8::1", 26379), ("2001:db8::2", 5), ("three", 26379)]


@pytest.mark.parametrize("hosts", ["one,[::1", "one,::1", "[::1],two]", "one,[two]", "one,[::1]:http"])
def test_a_bad_host_in_a_cluster_url_is_refused_with_the_right_form(hosts: str) -> None:
    said = refusal(f"redis+cluster://{hosts}/")
    assert said.endswith("has a bad host or port: use redis+cluster://user:password@host:6379,host:6379/?prefix=name")


@pytest.mark.parametrize("homes", [1, 3, 8, 64])
def test_the_shards_of_a_redis_cluster_are_evenly_spaced_over_its_slots(homes: int) -> None:
    bases = place(f"redis+cluster://host/?homes={homes}").bases
    assert [slot(base) * homes // 16384 for base in bases] == list(range(homes))
    assert all(base.startswith("{mainspring:") and base.endswith("}") for base in bases)


def test_slot_agrees_with_the_redis_driver() -> None:
    assert slot("{mainspring:3.17}:job") == key_slot(b"{mainspring:3.17}:job")


def test_a_sentinel_url_names_a_service() -> None:
    found = place("redis+sentinel://ada:pw@one,two:5/main/2?sentinel_password=a%2Fb")
    assert (found.addresses, found.service, found.db) == ([("one", 26379), ("two", 5)], "main", 2)
    assert found.server(("three", 6)) == (("three", 6), "", "ada", "pw", 2, None)
    assert found.sentinel(("one", 26379)) == (("one", 26379), "", "", "a/b", 0, None)


@pytest.mark.parametrize("option", ["ca", "cert"])
def test_a_missing_certificate_file_is_refused_by_name(option: str) -> None:
    with pytest.raises(BadSetting, match=rf"{option}=/nowhere.pem in store URL .*No such file"):
        place(f"rediss://host/0?{option}=/nowhere.pem").server()


def test_a_tls_key_without_a_certificate_is_refused() -> None:
    assert "key= without cert= in store URL" in refusal("rediss://host/0?key=/some.key")


def test_sentinel_and_server_share_one_tls_context() -> None:
    found = place("rediss+sentinel://host/main")
    assert found.sentinel(("one", 1)).tls is found.server(("two", 2)).tls is not None


@pytest.mark.parametrize("name", ["a", "Shop", "a-b_c:d.e", "9", "x" * 64])
def test_the_redis_prefix_is_the_hash_tag_of_every_key(name: str) -> None:
    found = place(f"redis://host/0?prefix={name}")
    assert (found.prefix, found.base) == (name, f"{{{name}}}")


@pytest.mark.parametrize("name", ["", "a b", "{a}", "a}", "a*", "ä", "a\n", "x" * 65, "a/b", "a,b"])
def test_a_bad_redis_prefix_is_refused(name: str) -> None:
    said = refusal(f"redis://host/0?{urlencode({'prefix': name})}")
    assert said.startswith(f"prefix={name!r} in store URL ")
    assert said.endswith("use letters, digits and _ - : . only, 64 at most")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://", "names no host: use redis://user:password@host:6379/0?prefix=name"),
        ("redis:///0", "names no host"),
        ("redis://:6379/0", "names no host"),
        ("redis://ada@/0", "names no host"),
        ("redis://one,two:6379/0", "names more than one host"),
        (
            "redis://one:1,two:2/0",
            "names more than one host: use redis://user:password@host:6379/0?prefix=name, redis+cl",
        ),
        ("redis://host:http/0", "has a bad host or port"),
        ("redis://host:65536/0", "has port 65536, which is not from 1 to 65535"),
        ("redis://host:-1/0", "has a bad host or port"),
        ("redis://host:0/0", "has port 0, which is not from 1 to 65535"),
        ("redis://[::1/0", "has a bad host or port"),
        (
            "redis://host/jobs",
            "'jobs' in store URL 'redis://host/jobs' is not a database number: use 0, as in redis://",
        ),
        ("redis://host/-1", "'-1' in store URL"),
        ("redis://host/0/1", "'0/1' in store URL"),
        ("redis://host/1234567", "'1234567' in store URL"),
        ("redis://host/²", "'²' in store URL"),
        ("redis://host/0?db=1", "unknown db in store URL 'redis://host/0?db=1': it takes prefix only"),
        ("redis://host/0?timeout=3&ssl=1", "unknown ssl, timeout in store URL"),
        ("redis://host/0?prefix=a#b", "has a character that must be percent-encoded"),
        ("redis://ho st/0", "has a character that must be percent-encoded"),
        ("redis://ho\nst/0", "has a character that must be percent-encoded"),
        ("redis+unix://", "names no socket: use redis+unix:///run/redis.sock?db=0&prefix=name"),
        ("redis+unix:///", "names no socket"),
        ("redis+unix:///run/", "names no socket"),
        ("redis+unix://run/redis.sock", "names no socket"),
        ("redis+unix:///r.sock?db=x", "'x' in store URL"),
        ("redis+unix:///r.sock?mode=1", "unknown mode in store URL"),
        ("redis+tcp://host/0", "unknown store 'redis+tcp'"),
        ("redis+cluster://host,/", "names no host: use redis+cluster://user:password@host:6379,host:6379/?prefix=name"),
        ("redis+cluster://host/1", "database 1 in store URL 'redis+cluster://host/1': a cluster has 0 only"),
        (
            "redis+cluster://host/?homes=0",
            "homes=0 in store URL 'redis+cluster://host/?homes=0': use a number from 1 to 64",
        ),
        ("redis+cluster://host/?homes=65", "homes=65 in store URL"),
        ("redis+cluster://host/?homes=x", "homes=x in store URL"),
        ("redis+cluster://host/?ca=x", "unknown ca in store URL 'redis+cluster://host/?ca=x': it takes prefix, homes"),
        ("redis+sentinel://host", "names no service that sentinels watch: use redis+sentinel://"),
        ("redis+sentinel://host/main/x", "'x' in store URL"),
        ("redis://host/0?homes=2", "unknown homes in store URL"),
        ("redis://host/0?cert=x", "unknown cert in store URL"),
    ],
)
def test_a_bad_redis_url_is_refused_with_the_right_form(url: str, message: str) -> None:
    assert message in refusal(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://ada:lovelace@host/jobs",
        "redis://:lovelace@host/jobs",
        "rediss://ada:lovelace@host:http",
        "redis://ada:love/lovelace@host/0",
        "redis://ada:love?lovelace@host/0",
        "redis://ada:love#lovelace@host/0",
        "redis://ada:love@lovelace@host/jobs",
        "redis://a/b:lovelace@host/0",
        "redis+unix://ada:lovelace@host/r.sock",
        "redis://host/0?password=lovelace",
        "redis+cluster://ada:lovelace@one:http,two/",
        "redis+sentinel://ada:lovelace@one,two/",
        "redis+sentinel://one,two/main/x?sentinel_password=lovelace",
    ],
)
def test_a_refused_redis_url_does_not_show_the_password(url: str) -> None:
    said = refusal(url)
    assert "lovelace" not in said
    assert "host" in said


def test_a_missing_redis_driver_is_reported_with_how_to_install_it() -> None:
    code = """if True:
        import sys
        sys.modules["hiredis"] = None
        from mainspring import BadSetting
        from mainspring.stores import open_store
        try:
            open_store("redis://ada:lovelace@host/0")
        except BadSetting as error:
            print(error)
        """
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert said == "store URL 'redis://ada:***@host/0' needs hiredis: pip install 'mainspring[redis]'\n"
