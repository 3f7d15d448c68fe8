"""What a person sees when responses are late, lost or in another order than their requests."""

from playwright.sync_api import Page, Route, expect

from support.api.server import ApiServer
from support.cli.healthy_cluster import uuids
from support.web.clusters import placed_pod


def expect_network_errors(browser_errors: list[str]) -> None:
    """Assert that the browser has reported nothing but failed requests; forget them."""
    assert browser_errors
    assert all("Failed to load resource" in error for error in browser_errors)
    browser_errors.clear()


def test_the_totals_of_a_kind_of_nodes_follow_its_pods(page: Page, api: ApiServer) -> None:
    group = page.locator(".group", has=page.locator("#node-n1"))
    expect(group.locator(".counts")).to_contain_text("8 GPUs: 3 in use, 5 free")
    api.create("pods", placed_pod("new", "n1", uuids("n1", 4, 5)))
    expect(group.locator(".counts")).to_contain_text("5 in use, 3 free")


def test_a_node_that_begins_to_match_the_search_appears(page: Page, api: ApiServer) -> None:
    page.get_by_label("Search nodes").fill("default/new")
    expect(page.locator("#map")).to_contain_text("No node matches the search.")
    api.create("pods", placed_pod("new", "n1", uuids("n1", 4, 5)))
    expect(page.locator("#node-n1")).to_be_visible()


def test_a_new_map_keeps_the_focus_and_what_is_open(page: Page, api: ApiServer) -> None:
    assert page.locator("#map .node-name").first.text_content() == "n2"
    group = page.locator(".group", has=page.locator("#node-n1"))
    group.locator("summary").click()
    node = page.locator("#node-n1 .node-name")
    node.focus()
    api.create("pods", placed_pod("new", "n1", uuids("n1", 4, 5)))
    expect(group.locator(".counts")).to_contain_text("3 free")
    expect(node).to_be_focused()
    expect(node).to_have_attribute("tabindex", "0")
    expect(page.locator("#map .node-name[tabindex='0']")).to_have_count(1)
    expect(group.locator("details.links")).to_have_attribute("open", "")


def test_live_updates_start_again_after_an_error_of_a_proxy(
    page: Page, api: ApiServer, browser_errors: list[str]
) -> None:
    page.route("**/events?*", lambda route: route.fulfill(status=502))
    page.reload()
    expect(page.locator("#connection")).to_have_text("not connected; trying again")
    page.unroute("**/events?*")
    expect(page.locator("#connection")).to_have_text("live")
    api.create("pods", placed_pod("new", "n1", uuids("n1", 4, 5)))
    expect(page.locator("#jobs")).to_contain_text("default/new")
    expect_network_errors(browser_errors)


def test_a_section_that_could_not_be_read_is_read_again(
    page: Page, api: ApiServer, browser_errors: list[str]
) -> None:
    page.route("**/part/jobs?*", lambda route: route.abort(), times=1)
    api.create("pods", placed_pod("new", "n1", uuids("n1", 4, 5)))
    expect(page.locator("#jobs")).to_contain_text("default/new")
    expect_network_errors(browser_errors)


def test_a_late_response_does_not_replace_a_newer_panel(page: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/pod/default/train", hold)
    with page.expect_request("**/pod/default/train"):
        page.locator("#jobs").get_by_role("link", name="default/train").click()
    page.locator("#jobs").get_by_role("link", name="default/figures").click()
    panel = page.get_by_role("dialog")
    expect(panel).to_contain_text("Pod default/figures")
    with page.expect_response("**/pod/default/train") as late:
        held[0].continue_()
    late.value.finished()
    page.evaluate("fetch('/livez').then((response) => response.text())")
    expect(panel).to_contain_text("Pod default/figures")
