"""The page over HTTP: routes, methods, hosts, headers, and the stream of changes."""

import asyncio
import gzip
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from gputopo_kube.kubeconfig import connection
from gputopo_web.pages.environment import age, query
from gputopo_web.pages.queries import Selection
from gputopo_web.pages.render import Pages
from gputopo_web.server.app import application
from gputopo_web.server.explainer import Explainer
from gputopo_web.server.hub import MOST_VIEWERS, PING, RESTART, Hub
from gputopo_web.server.run import WebOptions, page, push
from gputopo_web.server.security import HEADERS, LOOPBACK, host_name
from gputopo_web.state.cluster import Changes, ClusterState
from support.api.kubeconfig import write_kubeconfig
from support.builders import topologies
from support.builders.objects import topology_object
from support.cli.healthy_cluster import pod, topology, uuids
from support.web.asgi import CompleteResponse, http_scope, send_request
from support.web.clusters import cluster, set_gpu_job, set_pod, set_topology, two_nodes

METHODS = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get")
PATHS = ("/", "/events", "/part/jobs", "/node/n1", "/pod/default/train", "/static/web.js", "/none")


def app_of(state: ClusterState, hub: Hub | None = None, *, ready: bool = True) -> Starlette:
    return application(
        Pages(state, "here"), hub or Hub(), Explainer(state), hosts=LOOPBACK, is_ready=lambda: ready
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", PATHS)
async def test_every_method_that_could_write_is_rejected(method: str, path: str) -> None:
    found = await send_request(app_of(two_nodes()), path, method=method)
    assert (found.status, found.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.example", "", "[::1", "127.0.0.2"])
async def test_other_host_names_are_rejected(host: str) -> None:
    found = await send_request(app_of(two_nodes()), "/", host=host)
    assert found.status == 421
    assert "train" not in found.text


@pytest.mark.parametrize("host", ["127.0.0.1:8770", "LOCALHOST", "[::1]:1"])
async def test_host_names_of_the_loopback_interface_are_allowed(host: str) -> None:
    assert (await send_request(app_of(two_nodes()), "/", host=host)).status == 200


@pytest.mark.parametrize("path", [*PATHS[:1], *PATHS[2:]])
async def test_every_response_has_the_security_headers(path: str) -> None:
    found = await send_request(app_of(two_nodes()), path)
    for name, value in HEADERS.items():
        assert found.headers[name.lower()] == value
    kept = "max-age=300" if path.startswith("/static") else "no-store"
    assert found.headers["cache-control"] == kept
    assert "server" not in found.headers


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_pages_of_other_sites_can_link_to_the_page_but_not_use_it(site: str) -> None:
    async def send(path: str, mode: str) -> int:
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
        return (await send_request(app_of(two_nodes()), path, headers=headers)).status

    assert await send("/", "navigate") == 200
    assert await send("/events", "cors") == 403
    assert await send("/picture/x", "no-cors") == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
async def test_requests_of_the_page_itself_are_allowed(site: str) -> None:
    found = await send_request(app_of(two_nodes()), "/", headers={"Sec-Fetch-Site": site})
    assert found.status == 200


async def test_an_unexpected_error_has_no_details_and_the_security_headers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(Pages, "node", fail)
    found = await send_request(app_of(two_nodes()), "/node/n1", raises=(RuntimeError,))
    assert (found.status, found.text) == (500, "The page has failed; its log shows why.\n")
    assert {name: found.headers[name.lower()] for name in HEADERS} == HEADERS


def test_the_policy_allows_no_inline_code_and_nothing_of_other_hosts() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/", 200, "default/train"),
        ("/?q=serve&state=free&page=x", 200, "ml/serve"),
        ("/part/map", 200, 'id="node-n1"'),
        ("/part/none", 404, "not found"),
        ("/node/n1", 200, "Node n1"),
        ("/node/none", 404, "The node has no GPUTopology"),
        ("/pod/default/train", 200, "Pod default/train"),
        ("/pod/default/none", 404, "There is no pod of this name"),
        ("/gpujob/ml/j", 200, "GPUJob ml/j"),
        ("/gpujob/ml/none", 404, "There is no GPUJob of this name"),
        ("/picture/none", 404, "not found"),
        ("/static/web.css", 200, "prefers-color-scheme"),
        ("/static/../render.py", 404, "Not Found"),
        ("/static/render.py", 404, "not found"),
        ("/livez", 200, "ok"),
        ("/readyz", 200, "ok"),
    ],
)
async def test_routes(path: str, status: int, text: str) -> None:
    state = two_nodes()
    set_gpu_job(state, {"metadata": {"name": "j", "namespace": "ml"}, "spec": {}})
    found = await send_request(app_of(state), path)
    assert (found.status, text in found.text) == (status, True)


def many_nodes(count: int) -> ClusterState:
    known = topologies.node(0, 1)
    return cluster(topologies=[topology_object(f"n{at}", known) for at in range(1, count + 1)])


async def test_a_large_kind_shows_all_nodes_as_squares_and_the_first_with_their_gpus() -> None:
    found = (await send_request(app_of(many_nodes(30)), "/part/map")).text
    assert found.count('class="dot ') == 30
    assert found.count('class="node"') == 24
    assert "6 more nodes of this kind" in found
    assert "30 with 2 free" in found


async def test_the_summary_names_the_only_namespace_whose_pods_are_read() -> None:
    found = (await send_request(app_of(cluster(namespace="ml")), "/part/summary")).text
    assert "Only the pods of namespace ml are read." in found
    assert "Only the pods" not in (await send_request(app_of(cluster()), "/part/summary")).text


async def test_the_namespace_of_the_options_is_that_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", "http://none")))
    with connection() as link:
        app = page(link, WebOptions(namespace="ml"), Hub())
        found = await send_request(app, "/part/summary")
    assert "Only the pods of namespace ml are read." in found.text


async def test_pages_of_one_kind_of_nodes() -> None:
    state = many_nodes(130)
    key = state.cards["n1"].group
    second = (await send_request(app_of(state), f"/part/map?group={key}&page=2")).text
    assert second.count('class="node"') == 10
    assert "Page 2 of 2" in second
    assert 'rel="prev"' in second
    assert 'rel="next"' not in second
    first = (await send_request(app_of(state), f"/part/map?group={key}")).text
    assert 'rel="next"' in first


async def test_a_map_without_nodes_shows_why() -> None:
    state = ClusterState()
    assert "are being read" in (await send_request(app_of(state), "/part/map")).text
    state.set_error("gputopologies", "no access")
    state.take_changes()
    found = (await send_request(app_of(state), "/")).text
    assert "cannot be read, see above" in found
    assert "gputopologies cannot be read</strong>, so the map may be missing" in found
    assert "The agents publish them" in (await send_request(app_of(cluster()), "/part/map")).text


async def test_unhealthy_gpus_are_counted_in_their_kind() -> None:
    one = topology_object("n1", topologies.node(0), unhealthy=[0])
    found = (await send_request(app_of(cluster(topologies=[one])), "/part/map")).text
    assert "1 node with 1 GPU: Tesla V100-SXM2-32GB" in found
    assert "1 GPUs: 0 in use, 0 free, 1 unhealthy" in found


@pytest.mark.parametrize(
    ("time", "text"),
    [
        ("2026-01-01T00:00:00Z", "3 d 4 h"),
        ("2026-01-04T01:00:00Z", "3 h 5 min"),
        ("2026-01-04T04:00:00Z", "5 min"),
        ("2026-01-04T04:04:57Z", "3 s"),
        ("2026-01-04T05:00:00Z", "0 s"),
        ("2026-01-01", ""),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_ages_of_times(time: str, text: str) -> None:
    assert age(time, datetime(2026, 1, 4, 4, 5, tzinfo=UTC)) == text


def test_parameters_of_a_page_that_are_empty_are_left_out() -> None:
    assert query(q="a b", state="", page=2) == "?q=a+b&page=2"
    assert query(q="") == "?"


async def test_a_panel_without_the_page_around_it() -> None:
    app = app_of(two_nodes())
    part = await send_request(app, "/node/n1", headers={"X-Part": "1"})
    assert part.text.startswith('<h2 id="panel-title">')
    assert "<html" in (await send_request(app, "/node/n1")).text


async def test_a_picture_of_the_links_is_an_image() -> None:
    state = two_nodes()
    found = await send_request(app_of(state), f"/picture/{state.cards['n1'].group}")
    assert found.headers["content-type"].startswith("image/svg+xml")
    assert found.text.startswith("<svg")


async def test_large_responses_are_compressed() -> None:
    found = await send_request(app_of(two_nodes()), "/", headers={"accept-encoding": "gzip"})
    assert b"default/train" in gzip.decompress(found.body)


async def test_the_page_is_not_ready_before_the_cluster_was_read() -> None:
    assert (await send_request(app_of(two_nodes(), ready=False), "/readyz")).status == 503


async def test_a_rendered_section_is_kept_until_the_state_changes_or_10_seconds_pass() -> None:
    now = [0.0]
    state = two_nodes()
    pages = Pages(state, "here", clock=lambda: now[0])
    selection = pages_selection()
    first = pages.section("jobs", selection)
    assert pages.section("jobs", selection) is first
    now[0] = 11.0
    second = pages.section("jobs", selection)
    assert second is not first
    set_pod(state, pod("new", "n1", uuids("n1", 7)))
    state.take_changes()
    third = pages.section("jobs", selection)
    assert third is not None
    assert "default/new" in third


async def test_sections_of_many_searches_do_not_fill_the_memory() -> None:
    pages = Pages(two_nodes(), "here")
    for number in range(500):
        pages.section("jobs", pages_selection(f"search {number}"))
    assert len(pages._sections) <= 202


async def test_a_change_has_new_tiles_squares_and_old_sections() -> None:
    state = two_nodes()
    pages = Pages(state, "here")
    pages.index(pages_selection(), "")
    set_pod(state, pod("new", "n1", uuids("n1", 7)))
    change = pages.change(state.take_changes())
    assert list(change["tiles"]) == ["n1"]
    assert change["dots"]["n1"]["text"] == "4"
    assert change["sections"] == ["history", "jobs", "summary"]
    set_topology(state, topology("n1"), deleted=True)
    change = pages.change(state.take_changes())
    assert (change["tiles"], change["sections"]) == ({}, ["map"])


async def test_a_change_of_many_nodes_is_small_and_makes_viewers_read_the_map_again() -> None:
    state = many_nodes(100)
    pages = Pages(state, "here")
    change = pages.change(Changes(nodes={*state.cards}))
    assert change == {"tiles": {}, "dots": {}, "sections": ["map", "summary"]}


async def test_a_pod_on_a_node_that_is_not_in_the_map_yet_has_a_panel() -> None:
    state = ClusterState()
    set_topology(state, topology("n1"))
    set_pod(state, pod("new", "n1", uuids("n1", 7)))
    assert "Pod default/new" in (await send_request(app_of(state), "/pod/default/new")).text


async def test_changes_are_pushed_together_and_only_if_the_page_differs() -> None:
    state, hub, changed = ClusterState(), Hub(), asyncio.Event()
    state.on_change = changed.set
    pushing = asyncio.create_task(push(state, Pages(state, "c"), hub, changed, 0))
    async with aclosing(hub.stream(hub.position)) as events:
        await anext(events)
        set_topology(state, topology("n1"))
        set_pod(state, pod("new", "n1", uuids("n1", 7)))
        assert b'"sections": ["history", "jobs", "map", "summary"]' in await anext(events)
        set_topology(state, topology("n2"), deleted=True)
        set_topology(state, topology("n1"), deleted=True)
        assert b'"sections": ["map"]' in await anext(events)
    pushing.cancel()


async def test_a_change_that_the_page_does_not_show_is_not_pushed() -> None:
    state, hub, changed = two_nodes(), Hub(), asyncio.Event()
    state.on_change = changed.set
    pushing = asyncio.create_task(push(state, Pages(state, "c"), hub, changed, 0))
    before = hub.position
    set_topology(state, topology("n1", pod("train", "n1", uuids("n1", 0, 3, 2))))
    while changed.is_set():  # noqa: ASYNC110 - the loop of this thread
        await asyncio.sleep(0)
    assert hub.position == before
    pushing.cancel()


async def test_viewers_get_each_change_once_and_in_order() -> None:
    hub = Hub()
    async with aclosing(hub.stream(hub.position)) as events:
        assert await anext(events) == b"retry: 2000\n\n"
        hub.publish('{"a": 1}')
        event = (await anext(events)).decode()
        assert event == f'id: {hub.position}\nevent: change\ndata: {{"a": 1}}\n\n'
        assert hub.viewers == 1
    assert hub.viewers == 0


async def test_a_change_while_a_viewer_connects_is_sent_once() -> None:
    hub = Hub()
    async with aclosing(hub.stream(hub.position)) as events:
        await anext(events)
        hub.publish("first")
        assert b"first" in await anext(events)
        hub.publish("second")
        assert b"second" in await anext(events)


async def test_large_changes_do_not_fill_the_memory() -> None:
    hub = Hub()
    since = hub.position
    hub.publish("x" * (3 << 20))
    assert len(await missed(hub, since)) == 2
    hub.publish("x" * (3 << 20))
    assert sum(len(event) for _, event in hub._kept) < 4 << 20
    assert await missed(hub, since) == [RESTART]


async def missed(hub: Hub, since: str) -> list[bytes]:
    """Return what a viewer gets that connects again."""
    hub.publish("last")
    found = []
    async with aclosing(hub.stream(since)) as events:
        await anext(events)
        async for event in events:
            found.append(event)
            if event == RESTART or b"last" in event:
                return found
    return found


async def test_a_viewer_that_connects_again_gets_what_it_has_missed() -> None:
    hub = Hub()
    hub.publish("first")
    since = hub.position
    hub.publish("second")
    found = await missed(hub, since)
    assert [event.decode().split("data: ")[1] for event in found] == ["second\n\n", "last\n\n"]


@pytest.mark.parametrize("since", ["", "other-3", "x", "-1", "{run}-", "{run}-²"])
async def test_a_viewer_of_another_run_of_the_server_starts_again(since: str) -> None:
    hub = Hub()
    run = hub.position.partition("-")[0]
    assert await missed(hub, since.replace("{run}", run)) == [RESTART]


async def test_a_viewer_that_was_disconnected_too_long_starts_again() -> None:
    hub = Hub()
    since = hub.position
    for number in range(300):
        hub.publish(str(number))
    assert await missed(hub, since) == [RESTART]


async def test_a_viewer_that_does_not_read_loses_its_changes_and_starts_again() -> None:
    hub = Hub()
    async with aclosing(hub.stream(hub.position)) as events:
        await anext(events)
        waiting = asyncio.create_task(anext(events))
        await asyncio.sleep(0)
        for number in range(101):
            hub.publish(str(number))
        assert await waiting == RESTART
        hub.publish("new")
        assert b"new" in await anext(events)


async def test_a_silent_stream_has_comments_so_that_proxies_keep_it() -> None:
    hub = Hub(ping_seconds=0)
    async with aclosing(hub.stream(hub.position)) as events:
        await anext(events)
        assert await anext(events) == PING


async def test_streams_end_when_the_server_stops() -> None:
    hub = Hub()
    async with aclosing(hub.stream(hub.position)) as events:
        await anext(events)
        waiting = asyncio.create_task(anext(events))
        await asyncio.sleep(0)
        hub.publish("lost")
        hub.close()
        with pytest.raises(StopAsyncIteration):
            await waiting


async def test_the_stream_of_events_starts_after_the_last_event_of_the_viewer() -> None:
    hub = Hub()
    hub.publish("first")
    app = app_of(cluster(), hub)

    async def connect(**headers: str) -> CompleteResponse:
        found = asyncio.create_task(send_request(app, "/events?since=x", headers=headers))
        while not hub.viewers:  # noqa: ASYNC110 - the loop of this thread
            await asyncio.sleep(0)
        hub.close()
        return await found

    found = await connect(**{"Last-Event-ID": hub.position})
    assert found.text == "retry: 2000\n\n"
    assert found.headers["content-type"].startswith("text/event-stream")
    assert "content-encoding" not in found.headers
    assert (await connect()).text.endswith(RESTART.decode())


async def test_a_viewer_that_disconnects_while_an_event_is_sent_is_gone_at_once() -> None:
    hub = Hub()
    blocked, messages = asyncio.Event(), asyncio.Queue[dict[str, str]]()

    async def send(message: Any) -> None:
        if message.get("body"):
            blocked.set()
            await asyncio.Event().wait()

    scope = http_scope("/events", "GET", {"host": "localhost"})
    serving = asyncio.create_task(app_of(cluster(), hub)(scope, messages.get, send))
    await blocked.wait()
    assert hub.viewers == 1
    messages.put_nowait({"type": "http.disconnect"})
    await serving
    assert hub.viewers == 0


async def test_a_request_for_the_headers_of_the_events_is_no_viewer() -> None:
    found = await send_request(app_of(cluster()), "/events", method="HEAD")
    assert (found.status, found.body) == (200, b"")
    assert found.headers["content-type"].startswith("text/event-stream")


async def test_more_viewers_than_the_limit_are_rejected() -> None:
    hub = Hub()
    hub._viewers = {asyncio.Queue() for _ in range(MOST_VIEWERS)}
    assert (await send_request(app_of(cluster(), hub), "/events")).status == 503


def test_hosts_without_ports() -> None:
    assert host_name(" A.b:1 ") == "a.b"


def pages_selection(text: str = "") -> Selection:
    return Selection(text=text)
