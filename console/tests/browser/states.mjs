// Every page in its states: empty, with objects in both themes, many rows, without rights, without the control plane.

import { check, PAGES, WAIT } from "./harness.mjs";

const MANY = Number(process.env.CONSOLE_ROWS ?? 3000);

export async function everyPage(visitor, variant, names = Object.keys(PAGES)) {
  const { page } = visitor;
  const prefs = { theme: variant === "dark" ? "dark" : "light", language: variant === "chinese" ? "zh" : "en" };
  await visitor.go("/settings");
  await page.evaluate((chosen) => localStorage.setItem("flotilla-console", JSON.stringify(chosen)), prefs);
  await page.setViewportSize(variant === "narrow" ? { width: 360, height: 780 } : { width: 1440, height: 900 });
  for (const name of names) {
    await visitor.go(PAGES[name]);
    await visitor.settle();
    if (name === "workload-yaml" || name === "apply" || name === "policy-new") await page.waitForSelector(".cm-content");
    if (variant === "narrow") check((await page.evaluate(() => document.documentElement.scrollWidth)) <= 362, `${name} is wider than the screen`);
    await visitor.shoot(`${name}-${variant}`);
    await visitor.axe(`${name} ${variant}`);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.evaluate(() => localStorage.removeItem("flotilla-console"));
}

/** Thousands of rows: the first page comes at once, the rest on scrolling; only visible rows are in the document. */
export async function many(visitor) {
  const { page } = visitor;
  await visitor.go("/settings");
  const created = await page.evaluate(async (count) => {
    const headers = { "X-Flotilla-Console": "1", "Content-Type": "application/json" };
    await fetch("/api/v1/namespaces", { method: "POST", headers, body: JSON.stringify({ metadata: { name: "many" } }) });
    let next = 0;
    const codes = {};
    const worker = async () => {
      while (next < count) {
        const body = JSON.stringify({ metadata: { name: `row-${String(next++).padStart(5, "0")}` }, data: { a: "b" } });
        const { status } = await fetch("/api/v1/namespaces/many/configmaps", { method: "POST", headers, body });
        codes[status] = (codes[status] ?? 0) + 1;
      }
    };
    await Promise.all(Array.from({ length: 24 }, worker));
    return codes;
  }, MANY);
  check((created[201] ?? 0) + (created[409] ?? 0) === MANY, `${MANY} objects were not created: ${JSON.stringify(created)}`);
  await page.evaluate(() => localStorage.setItem("flotilla-console", JSON.stringify({ namespace: "many", language: "en" })));
  const started = Date.now();
  await visitor.go(PAGES.configmaps);
  await page.getByText("row-00000").waitFor();
  console.log(`  first rows of ${MANY} after ${Date.now() - started} ms`);
  check((await page.locator(".table .line").count()) < 80, "only visible rows are drawn");
  await page.getByText(/of [\d,]+ loaded/).waitFor();
  await visitor.shoot("configmaps-many");
  await visitor.axe("configmaps many");
  const table = page.getByRole("table");
  const last = `row-${String(MANY - 1).padStart(5, "0")}`;
  for (let tries = 0; tries < 60 && !(await page.getByText(last).count()); tries++) {
    await table.evaluate((element) => element.scrollTo(0, element.scrollHeight));
    await page.waitForTimeout(150);
  }
  await page.getByText(last).waitFor();
  // The stream adds what another client creates.
  await visitor.api("POST", "/api/v1/namespaces/many/configmaps", { metadata: { name: "zz-live" } });
  await table.evaluate((element) => element.scrollTo(0, element.scrollHeight));
  await page.getByText(`${(MANY + 2).toLocaleString("en")} in total`).or(page.getByText(`${(MANY + 1).toLocaleString("en")} in total`)).waitFor();
  await table.evaluate((element) => element.scrollTo(0, element.scrollHeight));
  await page.getByText("zz-live").waitFor();
  await page.evaluate(() => localStorage.removeItem("flotilla-console"));
}

const API = /\/(api|apis|flotilla|openapi|version|readyz)(\/|\?|$)/;
const isApi = (url) => API.test(url.pathname) && !url.pathname.startsWith("/console/");

/** Requests fail at the start of each page, and in the middle of one; the data comes back by itself. */
export async function planeDown(visitor) {
  const { page, context } = visitor;
  await context.route(isApi, (route) => route.abort("connectionfailed"));
  for (const [name, path] of Object.entries(PAGES)) {
    await visitor.go(path);
    await page.getByRole("heading", { level: 1 }).or(page.locator(".state")).first().waitFor();
    if (["clusters", "workloads", "configmaps", "events"].includes(name)) {
      await page.getByText("The control plane does not answer").first().waitFor();
      await visitor.axe(`${name} without control plane`);
    }
    if (name === "clusters") await visitor.shoot("clusters-down");
  }
  await visitor.go("/clusters");
  await page.getByText("The control plane does not answer").first().waitFor();
  await context.unroute(isApi);
  await page.getByRole("row", { name: /member1/ }).waitFor({ timeout: WAIT });
}

/** The connection drops while a page is open: the data stays, a banner says so, and it follows again afterwards. */
export async function interrupted(visitor, wire) {
  const { page } = visitor;
  await visitor.go("/clusters");
  await page.getByRole("row", { name: /member1/ }).waitFor();
  wire.interrupt();
  await page.getByText("The connection is interrupted.").waitFor();
  check((await page.getByRole("row", { name: /member1/ }).count()) === 1, "the rows stay");
  await visitor.shoot("clusters-stale");
  await visitor.axe("clusters stale");
  wire.restore();
  await page.getByText("The connection is interrupted.").waitFor({ state: "detached" });
  await visitor.api("PATCH", "/apis/cluster.karmada.io/v1alpha1/clusters/member1", { metadata: { labels: { seen: "again" } } }, "application/merge-patch+json");
  await page.getByRole("searchbox", { name: "Filter" }).fill("again");
  await page.getByRole("row", { name: /member1/ }).waitFor();
}

/** A user without rights sees on every page that rights are missing, and nothing breaks. */
export async function forbidden(visitor) {
  const { page } = visitor;
  const name = "nobody-here";
  await visitor.api("POST", "/api/v1/namespaces/default/serviceaccounts", { metadata: { name } });
  const issued = await visitor.api("POST", `/api/v1/namespaces/default/serviceaccounts/${name}/token`, { spec: { expirationSeconds: 3600 } });
  const token = issued.body.status.token;
  await page.getByRole("button", { name: "Account" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await page.getByLabel("Token or kubeconfig").waitFor();
  await visitor.shoot("sign-in");
  await visitor.axe("sign-in");
  await page.getByLabel("Token or kubeconfig").fill("not-a-token");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("the token is not valid for this control plane").waitFor();
  await page.getByLabel("Token or kubeconfig").fill(`apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- name: a\n  context: {user: u, cluster: c}\nusers:\n- name: u\n  user:\n    token: ${token}\n`);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  for (const [page_name, path] of Object.entries(PAGES)) {
    await visitor.go(path);
    await page.getByRole("heading", { level: 1 }).or(page.locator(".state")).first().waitFor();
    if (["overview", "clusters", "workloads", "configmaps", "events", "policies"].includes(page_name)) {
      await page.getByText("You may not see this").first().waitFor();
      await visitor.axe(`${page_name} forbidden`);
    }
    if (page_name === "overview") await visitor.shoot("overview-forbidden");
  }
}
