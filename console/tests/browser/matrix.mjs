// Every page of a table in every state, in several tabs at a time. Each tab has a connection of its own, which it interrupts.

import { attempt, check, Visitor, WAIT } from "./harness.mjs";
import { openWire } from "./wire.mjs";

const TABS = Number(process.env.CONSOLE_TABS ?? 4);
const COUNT = 10_000;
/** Elements of a page, however many objects there are. */
const ELEMENTS_MAX = 12_000;
/** How long every request takes once the page has said that it loads. */
const SLOW_MS = 300;
/** Time until a page shows what it must. */
const SHOWN_MS = WAIT / 2;
const NARROW = { width: 360, height: 780 };
const BANNER = "The connection is interrupted.";

const API = /\/(api|apis|flotilla|openapi|version|readyz)(\/|\?|$)/;
const ANY_PATH = /^\//;
const isApi = (url) => API.test(url.pathname) && !url.pathname.startsWith("/console/");

/** Waits until a part of the page shows the text: also as a value, a label or a placeholder. */
const shows = (tab, text) => tab.page.waitForFunction((text) => {
  const main = document.querySelector("main") ?? document.body;
  const fields = [...document.querySelectorAll("input, textarea, select, [aria-label]")].map((one) => `${one.value ?? ""} ${one.getAttribute("aria-label") ?? ""}`);
  return [main.innerText, ...[...document.querySelectorAll("[role=dialog], .cm-content")].map((one) => one.innerText), ...fields].some((part) => part?.includes(text));
}, text, { timeout: SHOWN_MS }).catch(() => {
  throw new Error(`it does not show ${JSON.stringify(text)}`);
});

/** Changes settings of the console as another tab would. */
async function prefer(tab, change) {
  await tab.page.evaluate((change) => {
    const key = "flotilla-console";
    localStorage.setItem(key, JSON.stringify({ ...JSON.parse(localStorage.getItem(key) ?? "{}"), ...change }));
    dispatchEvent(new StorageEvent("storage", { key }));
  }, change);
  const { theme = "", language } = change;
  await tab.page.waitForFunction(([theme, lang]) => (document.documentElement.dataset.theme ?? "").startsWith(theme) && document.documentElement.lang.startsWith(lang), [theme, language ?? ""]);
}

/** The fields of lists: of the Kubernetes API, of tables and windows, and of the manager's API. */
const FIELDS = ["items", "rows", "instances", "clusters", "bindings"];
const fieldOf = (body) => FIELDS.find((field) => Array.isArray(body[field]));

/** Every list is empty; streams stay silent. */
const emptied = (body) => {
  if (Array.isArray(body.times)) return { ...body, times: [], series: {} };
  const field = body.kind === "APIGroupDiscoveryList" ? undefined : fieldOf(body);
  return field ? { ...body, [field]: [], hasMore: false, total: 0, matching: 0, nextPageToken: undefined, metadata: body.metadata && { ...body.metadata, continue: undefined, remainingItemCount: undefined } } : body;
};

function copyOf(one, index) {
  const meta = one.metadata ?? one.object?.metadata ?? {};
  // The APIs of a cluster are most of its size; ten thousand copies are no test of the page.
  if (one.status?.apiEnablements) one = { ...one, status: { ...one.status, apiEnablements: [] } };
  const metadata = { ...meta, managedFields: undefined, name: `copy-${String(index).padStart(5, "0")}`, uid: `copy-${index}` };
  if (one.auditID) return { ...one, auditID: `${index}`, name: metadata.name };
  // An object of the manager's API.
  if (!one.metadata && !one.cells) return { ...one, name: metadata.name, uid: metadata.uid, displayName: metadata.name };
  return one.cells ? { ...one, cells: [metadata.name, ...one.cells.slice(1)], object: { ...one.object, metadata } } : { ...one, metadata };
}

/** An answer as if there were 10,000 copies of its first object: the window or the page that was requested, with a token for the next. */
function multiplied(body, url, copied) {
  const field = fieldOf(body);
  const first = field && body[field][0];
  if (!first) return body;
  const isWindow = /\/v1alpha1\/(rows|bindings)$/.test(url.pathname);
  const from = Number(url.searchParams.get(isWindow ? "offset" : "continue") ?? 0);
  const limit = Number(url.searchParams.get("limit") ?? COUNT);
  const items = Array.from({ length: Math.max(Math.min(limit, COUNT - from), 0) }, (_, index) => copied(copyOf(first, from + index), from + index));
  const left = COUNT - from - items.length;
  const metadata = { resourceVersion: body.metadata?.resourceVersion, ...(left > 0 && !isWindow ? { continue: String(from + items.length), remainingItemCount: left } : {}) };
  return { ...body, metadata, [field]: items, ...(isWindow ? { total: COUNT, matching: COUNT } : {}) };
}

/** Whether a request lists one of these resources; `audit` is our own list. */
const lists = (url, plurals) => {
  const plural = url.pathname.endsWith("/v1alpha1/rows") ? url.searchParams.get("resource") : url.pathname.split("/").at(-1);
  return plurals.includes(plural);
};

/** A stream of the manager's API: its objects, and a mark where they end. It is sent once; a page that opens it again waits. */
async function rewriteStream(tab, route, url, change) {
  const list = new URL(url);
  list.pathname = url.pathname.replace(/:watch$/, "");
  if (tab.streamed.has(list.pathname)) return;
  tab.streamed.add(list.pathname);
  const { body } = await tab.api("GET", `${list.pathname}?pageSize=1`);
  const field = fieldOf(body);
  const items = field ? change(body, list)[field] : [];
  const name = field?.replace(/s$/, "");
  const lines = [...items.map((one) => ({ type: "CHANGE_TYPE_ADDED", [name]: one })), { type: "CHANGE_TYPE_SYNCED" }];
  await route.fulfill({ contentType: "application/x-ndjson", body: lines.map((result) => `${JSON.stringify({ result })}\n`).join("") }).catch(() => {});
}

/** Changes answers of lists on their way to the pages; `change` gets the body, the address and the page. */
async function rewrite(tab, change) {
  tab.streamed = new Set();
  await tab.page.route(isApi, async (route) => {
    const url = new URL(route.request().url());
    if (route.request().method() !== "GET") return route.fallback();
    // An open stream would deliver the real objects.
    if (url.searchParams.get("watch")) return;
    if (url.pathname.endsWith(":watch")) return rewriteStream(tab, route, url, change);
    // Tokens of multiplied lists are ours.
    const wanted = new URL(url);
    wanted.searchParams.delete("continue");
    const response = await route.fetch({ url: wanted.href }).catch(() => undefined);
    if (!response) return route.abort().catch(() => {});
    const text = await response.text();
    await route.fulfill({ response, body: text.startsWith("{") ? JSON.stringify(change(JSON.parse(text), url)) : text }).catch(() => {});
  });
}

/** Lists of these resources have 10,000 objects in the tab. */
export const multiplyLists = (tab, plurals, copied = (one) => one) => rewrite(tab, (body, url) => (lists(url, plurals) ? multiplied(body, url, copied) : body));

/** No request is answered until the page says that it loads; then each takes long, and the page shows its content in the end. */
async function slow(tab, page) {
  let release;
  let reached;
  const released = new Promise((done) => (release = done));
  const asked = new Promise((done) => (reached = done));
  await tab.page.route(isApi, async (route) => {
    reached();
    await released;
    await new Promise((done) => setTimeout(done, SLOW_MS));
    await route.continue().catch(() => {});
  });
  await tab.go(page.path);
  if (page.loads) {
    await asked;
    // The frame of the application shows a spinner without a heading while it loads the code of a page.
    await tab.page.waitForFunction(() => document.querySelector("main h1") && document.querySelector("main .spinner"), undefined, { timeout: SHOWN_MS });
  } else await shows(tab, page.one);
  release();
  await shows(tab, page.one);
  await tab.clear();
}

/** With its objects, in both themes, and in the further looks of the page. */
async function shown(tab, name, page) {
  await tab.settle();
  if (page.one.startsWith("apiVersion") || ["apply", "policy-new"].includes(name)) await tab.page.waitForSelector(".cm-content");
  await tab.shoot(`${name}-light`);
  await tab.axe("light");
  await prefer(tab, { theme: "dark" });
  await tab.shoot(`${name}-dark`);
  await tab.axe("dark");
  await prefer(tab, { theme: "light" });
  if (!page.looks.includes("narrow")) return;
  const wide = tab.page.viewportSize();
  await tab.page.setViewportSize(NARROW);
  await shows(tab, page.one);
  check((await tab.page.evaluate(() => document.documentElement.scrollWidth)) <= NARROW.width + 2, "it is wider than a narrow screen");
  await tab.shoot(`${name}-narrow`);
  await tab.axe("narrow");
  await tab.page.setViewportSize(wide);
}

/** Errors of requests on a connection that ends. */
const BROKEN = /^net::ERR_(CONNECTION_(CLOSED|RESET|REFUSED|FAILED|ABORTED)|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING|HTTP2_PROTOCOL_ERROR|HTTP2_PING_FAILED|SOCKET_NOT_CONNECTED)$/;

/**
 * The connection drops while the page is open: what it shows stays, and a page that follows the control plane says so. Afterwards its
 * stream is opened again, and a list has what another client creates.
 */
async function interrupted(tab, name, page, wire) {
  tab.expect([BROKEN, ANY_PATH]);
  wire.interrupt();
  if (page.live) await shows(tab, BANNER);
  await shows(tab, page.one);
  if (page.shots.includes("stale")) await tab.shoot(`${name}-stale`);
  await tab.axe("interrupted", page.live ? undefined : ["color-contrast"]);
  const isStream = (response) => response.ok() && /[?&]watch=1|:watch(\?|$)/.test(response.url());
  const again = page.live ? tab.page.waitForResponse(isStream) : undefined;
  wire.restore();
  await again;
  await tab.page.getByText(BANNER).waitFor({ state: "detached" });
  await shows(tab, page.one);
  if (page.adds) await follows(tab, page);
  if (page.labelled) await relabels(tab, page);
}

/** What another client creates appears in the list, and goes when it is deleted. */
async function follows(tab, { adds: [path, body] }) {
  const { name } = body.metadata;
  const created = await tab.api("POST", path, body);
  check([201, 409].includes(created.code), `${path}: ${JSON.stringify(created)}`);
  await tab.page.getByRole("searchbox", { name: "Filter", exact: true }).fill(name);
  const row = tab.page.getByRole("row", { name });
  await row.waitFor();
  const deleted = await tab.api("DELETE", `${path}/${name}`);
  check([200, 202].includes(deleted.code), `${path}/${name}: ${JSON.stringify(deleted)}`);
  await row.waitFor({ state: "detached" });
  await tab.page.getByRole("searchbox", { name: "Filter", exact: true }).fill("");
}

/** A label that another client sets appears. */
async function relabels(tab, { labelled }) {
  // A key of its own: another tab may label the same object.
  const seen = `seen-${crypto.randomUUID()}`;
  const patched = await tab.api("PATCH", labelled, { metadata: { labels: { [seen]: seen } } }, "application/merge-patch+json");
  check(patched.code === 200, `${labelled}: ${JSON.stringify(patched)}`);
  const filter = tab.page.getByRole("searchbox", { name: "Filter", exact: true });
  if ((await filter.count()) === 0) return shows(tab, seen);
  await filter.fill(seen);
  await tab.page.getByRole("row", { name: /member1/ }).waitFor();
  await filter.fill("");
}

/** One load of the page through all states that need its objects. */
async function one(tab, name, page, wire) {
  await slow(tab, page);
  await shown(tab, name, page);
  await interrupted(tab, name, page, wire);
  if (!page.looks.includes("chinese")) return;
  await prefer(tab, { language: "zh" });
  await tab.settle();
  await tab.shoot(`${name}-chinese`);
  await tab.axe("chinese");
  await prefer(tab, { language: "en" });
}

async function empty(tab, name, page) {
  await rewrite(tab, emptied);
  // Some objects are not read as a list of one.
  if (page.absent) tab.expect([404, API]);
  await tab.go(page.absent ?? page.path);
  await shows(tab, page.empty);
  if (page.shots.includes("empty")) await tab.shoot(`${name}-empty`);
  await tab.axe("empty");
}

/** 10,000 objects: the page has them or their number, draws only what is visible, and stays usable. */
async function many(tab, name, page) {
  await multiplyLists(tab, page.many, page.copied);
  await tab.go(page.path);
  await shows(tab, page.grown);
  await tab.settle();
  const elements = await tab.page.evaluate(() => document.querySelectorAll("*").length);
  check(elements < ELEMENTS_MAX, `it draws ${elements} elements`);
  if (page.shots.includes("many")) await tab.shoot(`${name}-10000`);
  await tab.axe("10000", elements > 3_000 ? ["color-contrast"] : undefined);
}

/** No request is answered from the start of the page. */
async function down(tab, name, page) {
  tab.expect([/^net::ERR_CONNECTION_FAILED$/, API]);
  await tab.page.route(isApi, (route) => route.abort("connectionfailed"));
  await tab.go(page.path);
  await shows(tab, page.down);
  if (page.shots.includes("down")) await tab.shoot(`${name}-down`);
  await tab.axe("down");
  if (name !== "clusters") return;
  // The data comes by itself when the control plane answers again.
  await tab.clear();
  await tab.page.getByRole("row", { name: /member1/ }).waitFor();
}

/** A user without rights sees that rights are missing, and nothing breaks. */
async function forbidden(tab, name, page) {
  tab.expect([403, API], [404, API]);
  await tab.go(page.path);
  await shows(tab, page.denied);
  if (page.shots.includes("forbidden")) await tab.shoot(`${name}-forbidden`);
  await tab.axe("forbidden");
}

const STATES = { one, empty, many, down, forbidden };

/** Looks at every page in every state, as `visitor`, and as `nobody`, who has no rights. CONSOLE_PAGES and CONSOLE_STATES choose some. */
export async function everyPage(visitor, nobody, table, port) {
  const wanted = process.env.CONSOLE_PAGES?.split(",") ?? Object.keys(table);
  const rest = [...wanted];
  const states = process.env.CONSOLE_STATES?.split(",") ?? Object.keys(STATES);
  const took = Object.fromEntries(states.map((state) => [state, 0]));
  const work = async () => {
    const wire = await openWire(port);
    const [own, stranger] = [await visitor.twin(wire.port), await nobody.twin(wire.port)];
    for (let name = rest.shift(); name; name = rest.shift()) {
      for (const state of states) {
        const tab = state === "forbidden" ? stranger : own;
        const started = Date.now();
        await attempt(tab, `${name}-${state}`, async () => {
          wire.restore();
          // Requests of an attempt before have ended when the new list of expected messages holds.
          await tab.page.goto("about:blank");
          await tab.clear();
          tab.expect();
          await STATES[state](tab, name, table[name], wire);
        });
        // The two tabs share the connection that a state interrupts.
        await tab.page.goto("about:blank");
        took[state] += Date.now() - started;
        visitor.faults.push(...tab.faults.splice(0).map((fault) => `${name} ${state}: ${fault}`));
      }
    }
    await own.leave();
    await stranger.leave();
    wire.close();
  };
  await Promise.all(Array.from({ length: TABS }, work));
  console.log(`  ${wanted.length} pages; seconds in all tabs: ${Object.entries(took).map(([state, ms]) => `${state} ${(ms / 1000).toFixed(0)}`).join(", ")}`);
}

/** Signs in as a user without rights, after two wrong attempts. `first` is the page that opens. */
export async function signInAsNobody(visitor, first) {
  const name = "nobody-here";
  await visitor.api("POST", "/api/v1/namespaces/default/serviceaccounts", { metadata: { name } });
  const issued = await visitor.api("POST", `/api/v1/namespaces/default/serviceaccounts/${name}/token`, { spec: { expirationSeconds: 3600 } });
  const nobody = new Visitor(visitor.browser, visitor.origin);
  const page = await nobody.enter();
  nobody.expect([401, /^\/console\/api\/(session|login)$/], [403, API]);
  await nobody.go("/");
  const field = page.getByLabel("Token or kubeconfig");
  await field.waitFor();
  await nobody.shoot("sign-in");
  await nobody.axe("sign-in");
  await field.fill("not-a-token");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("the token is not valid for this control plane").waitFor();
  await field.fill(`apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- name: a\n  context: {user: u, cluster: c}\nusers:\n- name: u\n  user:\n    token: ${issued.body.status.token}\n`);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: first, level: 1 }).waitFor();
  return nobody;
}
