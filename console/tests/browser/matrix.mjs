// Every page of the table in every state, in several tabs at a time.

import { check, Visitor, WAIT } from "./harness.mjs";
import { TABLE } from "./pages.mjs";

const TABS = Number(process.env.CONSOLE_TABS ?? 3);
const COUNT = 10_000;
/** Elements of a page, however many objects there are. */
const ELEMENTS_MAX = 12_000;
const SLOW_MS = 1_200;
/** Time until a page shows what it must. */
const SHOWN_MS = WAIT / 2;

const API = /\/(api|apis|flotilla|openapi|version|readyz)(\/|\?|$)/;
const isApi = (url) => API.test(url.pathname) && !url.pathname.startsWith("/console/");

/** Calls `look` with every page of the table, in a tab of its own. */
async function eachPage(visitor, state, look, names = wanted()) {
  const rest = [...names];
  const work = async () => {
    const tab = await visitor.tab();
    for (let name = rest.shift(); name; name = rest.shift()) {
      try {
        await look(tab, name, TABLE[name]);
      } catch (error) {
        tab.faults.push(error.message.split("\n").slice(0, 3).join(" | "));
        await tab.shoot(`failed-${name}-${state}`).catch(() => {});
      }
      visitor.faults.push(...tab.faults.splice(0).map((fault) => `${name} ${state}: ${fault}`));
    }
    visitor.disturbed ||= tab.disturbed;
    await tab.page.close();
  };
  await Promise.all(Array.from({ length: TABS }, work));
}

/** CONSOLE_PAGES=clusters,events looks at some of them. */
const wanted = () => process.env.CONSOLE_PAGES?.split(",") ?? Object.keys(TABLE);

/** Waits until a part of the page shows the text: also as a value, a label or a placeholder. */
const shows = (tab, text) => tab.page.waitForFunction((text) => {
  const main = document.querySelector("main") ?? document.body;
  const fields = [...document.querySelectorAll("input, textarea, select, [aria-label]")].map((one) => `${one.value ?? ""} ${one.getAttribute("aria-label") ?? ""}`);
  return [main.innerText, ...[...document.querySelectorAll("[role=dialog], .cm-content")].map((one) => one.innerText), ...fields].some((part) => part?.includes(text));
}, text, { timeout: SHOWN_MS }).catch(() => {
  throw new Error(`it does not show ${JSON.stringify(text)}`);
});

/** Every list is empty; streams stay silent. */
const emptied = (body) => {
  if (Array.isArray(body.items) && body.kind !== "APIGroupDiscoveryList") return { ...body, items: [], hasMore: false };
  if (Array.isArray(body.rows)) return { ...body, rows: [], total: 0, matching: 0 };
  return Array.isArray(body.times) ? { ...body, times: [], series: {} } : body;
};

function copyOf(one, index) {
  const meta = one.metadata ?? one.object?.metadata ?? {};
  // The APIs of a cluster are most of its size; ten thousand copies are no test of the page.
  if (one.status?.apiEnablements) one = { ...one, status: { ...one.status, apiEnablements: [] } };
  const metadata = { ...meta, managedFields: undefined, name: `copy-${String(index).padStart(5, "0")}`, uid: `copy-${index}` };
  if (one.auditID) return { ...one, auditID: `${index}`, name: metadata.name };
  return one.cells ? { ...one, cells: [metadata.name, ...one.cells.slice(1)], object: { ...one.object, metadata } } : { ...one, metadata };
}

/** An answer as if there were 10,000 copies of its first object: the window or the page that was requested, with a token for the next. */
function multiplied(body, url) {
  const field = body.rows ? "rows" : "items";
  const first = body[field]?.[0];
  if (!first) return body;
  const isWindow = url.pathname.endsWith("/v1alpha1/rows");
  const from = Number(url.searchParams.get(isWindow ? "offset" : "continue") ?? 0);
  const limit = Number(url.searchParams.get("limit") ?? COUNT);
  const items = Array.from({ length: Math.max(Math.min(limit, COUNT - from), 0) }, (_, index) => copyOf(first, from + index));
  const left = COUNT - from - items.length;
  const metadata = { resourceVersion: body.metadata?.resourceVersion, ...(left > 0 && !isWindow ? { continue: String(from + items.length), remainingItemCount: left } : {}) };
  return { ...body, metadata, [field]: items, ...(isWindow ? { total: COUNT, matching: COUNT } : {}) };
}

/** Whether a request lists one of these resources; `audit` is our own list. */
const lists = (url, plurals) => {
  const plural = url.pathname.endsWith("/v1alpha1/rows") ? url.searchParams.get("resource") : url.pathname.split("/").at(-1);
  return plurals.includes(plural);
};

/** Changes answers of lists on their way to the pages; `change` gets the body, the address and the page. */
async function rewrite(tab, change) {
  await tab.page.route(isApi, async (route) => {
    const url = new URL(route.request().url());
    if (route.request().method() !== "GET") return route.fallback();
    // An open stream would deliver the real objects.
    if (url.searchParams.get("watch")) return;
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
export const multiplyLists = (tab, plurals) => rewrite(tab, (body, url) => (lists(url, plurals) ? multiplied(body, url) : body));

export async function empty(visitor) {
  await eachPage(visitor, "empty", async (tab, name, page) => {
    await tab.page.unrouteAll({ behavior: "ignoreErrors" });
    await rewrite(tab, emptied);
    await tab.go(page.path);
    await shows(tab, page.empty);
    if (["overview", "clusters", "workloads", "topology", "failover"].includes(name)) await tab.shoot(`${name}-empty`);
    await tab.axe("empty");
  });
}

/** 10,000 objects: shown soon, only what is visible is drawn, and the page stays usable. */
export async function many(visitor) {
  const took = [];
  await eachPage(visitor, "10000", async (tab, name, page) => {
    await tab.page.unrouteAll({ behavior: "ignoreErrors" });
    await multiplyLists(tab, page.many);
    const started = Date.now();
    await tab.go(page.path);
    await tab.settle();
    const elements = await tab.page.evaluate(() => document.querySelectorAll("*").length);
    took.push([Date.now() - started, name]);
    check(elements < ELEMENTS_MAX, `it draws ${elements} elements`);
    if (page.many !== TABLE.apply.many) await tab.shoot(`${name}-10000`);
    await tab.axe("10000", elements > 3_000 ? ["color-contrast"] : undefined);
  });
  const [slowest, name] = took.sort((a, b) => b[0] - a[0])[0] ?? [0, ""];
  console.log(`  slowest with ${COUNT} objects: ${name} after ${slowest} ms`);
}

/** Every request takes long: the page says that it loads, and shows its content in the end. */
export async function slow(visitor) {
  await eachPage(visitor, "slow", async (tab, _, page) => {
    await tab.page.unrouteAll({ behavior: "ignoreErrors" });
    await tab.page.route(isApi, async (route) => {
      await new Promise((done) => setTimeout(done, SLOW_MS));
      await route.continue().catch(() => {});
    });
    await tab.go(page.path);
    await tab.page.locator(".spinner, h1").first().waitFor();
    await shows(tab, page.one);
  });
}

/** No request is answered from the start of the page. */
export async function down(visitor) {
  await eachPage(visitor, "down", async (tab, name, page) => {
    await tab.page.unrouteAll({ behavior: "ignoreErrors" });
    await tab.page.route(isApi, (route) => route.abort("connectionfailed"));
    await tab.go(page.path);
    await shows(tab, page.down);
    if (["clusters", "workload"].includes(name)) await tab.shoot(`${name}-down`);
    await tab.axe("down");
    if (name !== "clusters") return;
    // The data comes by itself when the control plane answers again.
    await tab.page.unrouteAll({ behavior: "ignoreErrors" });
    await tab.page.getByRole("row", { name: /member1/ }).waitFor();
  });
}

/** The connection drops while pages are open: what they show stays, a banner says so, and they follow again afterwards. */
export async function interrupted(visitor, wire) {
  const names = wanted();
  const banner = "The connection is interrupted.";
  while (names.length > 0) {
    const opened = [];
    for (const name of names.splice(0, TABS * 3)) {
      const tab = await visitor.tab();
      await tab.go(TABLE[name].path);
      opened.push([name, tab]);
    }
    const each = (look) => Promise.all(opened.map(([name, tab]) => look(tab, TABLE[name], name).catch((error) => visitor.faults.push(`${name} interrupted: ${error.message.split("\n")[0]}`))));
    await each((tab, page) => shows(tab, page.one));
    wire.interrupt();
    await each(async (tab, page, name) => {
      if (page.live) await shows(tab, banner);
      await shows(tab, page.one);
      if (name === "clusters") await tab.shoot("clusters-stale");
      await tab.axe("interrupted", page.live ? undefined : ["color-contrast"]);
    });
    wire.restore();
    await each((tab) => tab.page.getByText(banner).waitFor({ state: "detached" }));
    for (const [name, tab] of opened) {
      visitor.faults.push(...tab.faults.map((fault) => `${name} interrupted: ${fault}`));
      await tab.page.close();
    }
  }
  await follows(visitor);
}

/** After an interruption a change of another client appears. */
async function follows(visitor) {
  const { page } = visitor;
  await visitor.go("/clusters");
  await page.getByRole("row", { name: /member1/ }).waitFor();
  await visitor.api("PATCH", "/apis/cluster.karmada.io/v1alpha1/clusters/member1", { metadata: { labels: { seen: String(Date.now()) } } }, "application/merge-patch+json");
  const { body } = await visitor.api("GET", "/apis/cluster.karmada.io/v1alpha1/clusters/member1");
  await page.getByRole("searchbox", { name: "Filter" }).fill(body.metadata.labels.seen);
  await page.getByRole("row", { name: /member1/ }).waitFor();
}

/** A user without rights sees on every page that rights are missing, and nothing breaks. */
export async function forbidden(visitor) {
  const name = "nobody-here";
  await visitor.go("/settings");
  await visitor.api("POST", "/api/v1/namespaces/default/serviceaccounts", { metadata: { name } });
  const issued = await visitor.api("POST", `/api/v1/namespaces/default/serviceaccounts/${name}/token`, { spec: { expirationSeconds: 3600 } });
  const other = new Visitor(visitor.browser, visitor.origin);
  const page = await other.enter();
  await other.go("/");
  const field = page.getByLabel("Token or kubeconfig");
  await field.waitFor();
  await other.shoot("sign-in");
  await other.axe("sign-in");
  await field.fill("not-a-token");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("the token is not valid for this control plane").waitFor();
  await field.fill(`apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- name: a\n  context: {user: u, cluster: c}\nusers:\n- name: u\n  user:\n    token: ${issued.body.status.token}\n`);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await eachPage(other, "forbidden", async (tab, name, row) => {
    await tab.go(row.path);
    await shows(tab, row.denied);
    if (name === "overview") await tab.shoot("overview-forbidden");
    await tab.axe("forbidden");
  });
  visitor.faults.push(...other.faults);
  await other.leave();
}

/** One workload, in a theme, a language or a width; with a screenshot of each page. */
export async function shown(visitor, variant, names = Object.keys(TABLE)) {
  const prefs = { theme: variant === "dark" ? "dark" : "light", language: variant === "chinese" ? "zh" : "en" };
  await visitor.go("/settings");
  await visitor.page.evaluate((chosen) => localStorage.setItem("flotilla-console", JSON.stringify(chosen)), prefs);
  await eachPage(visitor, variant, async (tab, name, page) => {
    await tab.page.setViewportSize(variant === "narrow" ? { width: 360, height: 780 } : { width: 1440, height: 900 });
    await tab.go(page.path);
    if (variant === "chinese") await tab.settle();
    else await shows(tab, page.one);
    await tab.settle();
    if (["workload-yaml", "apply", "policy-new"].includes(name)) await tab.page.waitForSelector(".cm-content");
    if (variant === "narrow") check((await tab.page.evaluate(() => document.documentElement.scrollWidth)) <= 362, `${name} is wider than the screen`);
    await tab.shoot(`${name}-${variant}`);
    // The dark theme has the same content in other colours.
    await tab.axe(variant, variant === "dark" ? ["color-contrast"] : undefined);
  }, names.filter((name) => wanted().includes(name)));
  await visitor.page.evaluate(() => localStorage.removeItem("flotilla-console"));
}
