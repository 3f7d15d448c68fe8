// Live updates, the panel with details, and arrow keys in the map. The page also works without it.
"use strict";

const connection = document.getElementById("connection");
const panel = document.getElementById("panel");
const content = document.getElementById("panel-content");

function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html; // made and escaped by the server; its policy allows no scripts in it
  return template.content;
}

// Returns the response for a place of the page. Returns null if a newer request was made for it
// meanwhile: responses can arrive in another order than their requests.
const newest = new Map();
const NO_RESPONSE =
  '<p class="problem">The server of this page does not respond; start it again.</p>';

async function load(place, url, headers) {
  const request = {};
  newest.set(place, request);
  let found;
  try {
    const response = await fetch(url, { headers });
    found = { ok: response.ok, content: parse(await response.text()) };
  } catch {
    found = { ok: false, content: parse(NO_RESPONSE) };
  }
  return newest.get(place) === request ? found : null;
}

const PART = { "X-Part": "1" };

// Details of a node, pod or GPUJob in a panel. The links also work as pages of their own.
async function open(url) {
  const found = await load("panel", url, PART);
  if (!found) return;
  content.replaceChildren(found.content);
  if (!panel.open) panel.showModal();
  document.getElementById("panel-close").focus();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-panel]");
  if (!panel || !link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  open(link.getAttribute("href")); // href of a link in a picture is an object
});

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-result]");
  if (!form) return;
  event.preventDefault();
  const result = document.getElementById(form.dataset.result);
  result.setAttribute("aria-busy", "true");
  const found = await load(result.id, `${form.action}?${new URLSearchParams(new FormData(form))}`, PART);
  if (!found) return;
  result.replaceChildren(found.content);
  result.removeAttribute("aria-busy");
});

// Sections that the server reports as old are fetched again, at most once a second each.
const waiting = new Map();

async function refresh(section) {
  const place = document.querySelector(`[data-section="${section}"]`);
  if (!place) return;
  const parameters = new URLSearchParams(location.search);
  const search = document.getElementById("search");
  if (search) for (const [name, value] of new FormData(search)) parameters.set(name, value);
  const found = await load(section, `/part/${section}?${parameters}`, {});
  if (!found) return;
  if (!found.ok) {
    refreshSoon(section, 3000);
    return;
  }
  const focused = place.contains(document.activeElement) ? document.activeElement.id : "";
  const opened = [...place.querySelectorAll("details[open]")].map((it) => it.id);
  place.replaceChildren(found.content);
  for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus();
  if (section === "map") rove(focused);
}

function refreshSoon(section, milliseconds = 1000) {
  if (waiting.has(section)) return;
  waiting.set(section, setTimeout(() => {
    waiting.delete(section);
    refresh(section);
  }, milliseconds));
}

// The ages of times grow also if nothing changes.
setInterval(() => ["jobs", "sizes", "history"].forEach((section) => refreshSoon(section)), 60000);

const SECTIONS = ["summary", "map", "jobs", "profiles", "history", "sizes"];

function update(change) {
  for (const [name, html] of Object.entries(change.tiles)) {
    const old = document.getElementById(`node-${name}`);
    if (!old) continue;
    const link = old.querySelector(".node-name");
    const hadFocus = old.contains(document.activeElement);
    const tabIndex = link ? link.tabIndex : 0;
    old.replaceWith(parse(html));
    const tile = document.getElementById(`node-${name}`);
    const fresh = tile.querySelector(".node-name");
    fresh.tabIndex = tabIndex;
    if (hadFocus) fresh.focus();
    tile.classList.add("updated");
    setTimeout(() => tile.classList.remove("updated"), 1500);
  }
  for (const [name, dot] of Object.entries(change.dots)) {
    const element = document.getElementById(`dot-${name}`);
    if (!element) continue;
    element.className = `dot ${dot.style}`;
    element.title = dot.title;
    element.textContent = dot.text;
  }
  change.sections.forEach((section) => refreshSoon(section));
  // Also the totals of the kinds of nodes, and which nodes match the search.
  if (Object.keys(change.tiles).length) refreshSoon("map", 2000);
}

let last = document.body.dataset.stream;

function listen() {
  const source = new EventSource(`/events?since=${encodeURIComponent(last)}`);
  source.addEventListener("open", () => { connection.textContent = "live"; });
  source.addEventListener("error", () => {
    connection.textContent = "not connected; trying again";
    // The browser tries again by itself after a lost connection, but not after an error of a proxy.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  });
  source.addEventListener("change", (event) => {
    last = event.lastEventId;
    update(JSON.parse(event.data));
  });
  source.addEventListener("restart", () => SECTIONS.forEach((section) => refreshSoon(section, 0)));
}

// One stop of the Tab key for all nodes; the arrow keys move between them.
function rove(focused) {
  const all = [...document.querySelectorAll("#map .node-name")];
  const stop = all.find((it) => it.id === focused) ?? all[0];
  for (const it of all) it.tabIndex = it === stop ? 0 : -1;
}

document.addEventListener("keydown", (event) => {
  const here = event.target.closest?.("#map .node-name");
  if (!here) return;
  const all = [...document.querySelectorAll("#map .node-name")];
  const at = all.indexOf(here);
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  const to = { Home: all[0], End: all.at(-1) }[event.key] ?? all[at + steps[event.key]];
  if (!to) return;
  event.preventDefault();
  here.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
});

// Search while typing.
const search = document.getElementById("search");
if (search) {
  search.addEventListener("input", () => {
    clearTimeout(search.timer);
    search.timer = setTimeout(() => {
      const parameters = new URLSearchParams(new FormData(search));
      history.replaceState(null, "", `?${parameters}`);
      refresh("map");
      refresh("jobs");
    }, 250);
  });
}

rove();
if (document.querySelector("[data-section]")) listen();
else connection.textContent = "";
