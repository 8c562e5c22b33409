// The browser of the tests: it records everything a page must not do.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const require = createRequire(import.meta.url);
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const shots = process.env.CONSOLE_SCREENSHOTS ?? "target/console-screenshots";
mkdirSync(shots, { recursive: true });

export const WAIT = 60_000;

export async function launch() {
  return chromium.launch({ executablePath: process.env.CONSOLE_BROWSER, args: ["--no-sandbox", "--disable-gpu"] });
}

/** What the browser itself reports about refused requests is part of some tests. */
const EXPECTED = /status of (401|403|404|409|502|503)|net::ERR_(FAILED|CONNECTION|INTERNET_DISCONNECTED|EMPTY|NETWORK|HTTP2|TIMED|INCOMPLETE)/;

export class Visitor {
  constructor(browser, origin) {
    this.browser = browser;
    this.origin = origin;
    this.faults = [];
    /** The machine's network interfaces changed, which makes the browser abort its requests. */
    this.disturbed = false;
  }

  /** A new browser profile: no cookies, no storage. */
  async enter(options = {}) {
    this.context = await this.browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1440, height: 900 }, ...options });
    this.context.setDefaultTimeout(WAIT);
    this.page = await this.context.newPage();
    this.page.on("pageerror", (error) => this.faults.push(`exception: ${error.message}`));
    this.page.on("console", (message) => {
      if (["error", "warning"].includes(message.type()) && !EXPECTED.test(message.text())) this.faults.push(`console: ${message.text()}`);
    });
    this.page.on("requestfailed", (request) => {
      this.disturbed ||= request.failure()?.errorText.includes("NETWORK_CHANGED") ?? false;
    });
    this.page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(this.origin) && !url.startsWith("data:") && !url.startsWith("blob:")) this.faults.push(`foreign request: ${url}`);
    });
    return this.page;
  }

  async go(path) {
    await this.page.goto(`${this.origin}/console${path}`);
  }

  /** Waits until nothing is loading any more. */
  async settle() {
    await this.page.waitForFunction(() => !document.querySelector(".spinner") && document.querySelector("h1"), undefined, { timeout: WAIT });
  }

  async axe(name) {
    await this.page.evaluate(axeSource);
    const found = await this.page.evaluate(async () => {
      const { violations } = await globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"] });
      return violations.map((one) => `${one.id}: ${one.nodes[0]?.html.slice(0, 160)}`);
    });
    for (const problem of found) this.faults.push(`axe on ${name}: ${problem}`);
  }

  async shoot(name) {
    await this.page.screenshot({ path: `${shots}/${name}.png` });
  }

  /** A request with the session of the page and the rights of its user. */
  async api(method, path, body, contentType = "application/json") {
    return this.page.evaluate(
      async ({ method, path, body, contentType }) => {
        const headers = { "X-Flotilla-Console": "1", ...(body ? { "Content-Type": contentType } : {}) };
        const response = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
        const text = await response.text();
        return { code: response.status, body: text.startsWith("{") ? JSON.parse(text) : text };
      },
      { method, path, body, contentType },
    );
  }

  async leave() {
    await this.context.close();
  }
}

export function check(condition, text) {
  if (!condition) throw new Error(text);
}

export const PAGES = {
  overview: "/",
  clusters: "/clusters",
  "clusters-join": "/clusters?join=pull",
  cluster: "/clusters/member1",
  "cluster-workloads": "/clusters/member1?tab=workloads",
  "cluster-nodes": "/clusters/member1?tab=nodes",
  "cluster-taints": "/clusters/member1?tab=taints",
  workloads: "/workloads",
  workload: "/workloads/apps~v1~deployments/default/nginx?tab=summary",
  "workload-why": "/workloads/apps~v1~deployments/default/nginx?tab=why",
  "workload-timeline": "/workloads/apps~v1~deployments/default/nginx?tab=timeline",
  "workload-pods": "/workloads/apps~v1~deployments/default/nginx?tab=pods",
  "workload-clusters": "/workloads/apps~v1~deployments/default/nginx?tab=clusters",
  "workload-history": "/workloads/apps~v1~deployments/default/nginx?tab=history",
  "workload-events": "/workloads/apps~v1~deployments/default/nginx?tab=events",
  "workload-yaml": "/workloads/apps~v1~deployments/default/nginx?tab=yaml",
  apply: "/apply",
  policies: "/policies",
  "policy-new": "/policies/new/PropagationPolicy",
  policy: "/resources/policy.karmada.io~v1alpha1~propagationpolicies/default/nginx",
  failover: "/failover?cluster=member1",
  kinds: "/resources",
  bindings: "/resources/work.karmada.io~v1alpha2~resourcebindings",
  configmaps: "/resources/core~v1~configmaps",
  secret: "/resources/core~v1~secrets/default/canary",
  events: "/events",
  metrics: "/metrics",
  search: "/search?q=nginx",
  access: "/access",
  "access-bindings": "/access?tab=clusterrolebindings",
  settings: "/settings",
};
