// The browser of the tests: it records everything a page must not do.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const require = createRequire(import.meta.url);
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const shots = process.env.CONSOLE_SCREENSHOTS ?? "target/console-screenshots";
mkdirSync(shots, { recursive: true });

export const WAIT = 60_000;

/** CONSOLE_DIST=dist serves the page from a newer build than the binary has, while it is developed. */
const DIST = process.env.CONSOLE_DIST;

function fromDist(route) {
  const file = /\/console\/(assets\/[\w.-]+)$/.exec(new URL(route.request().url()).pathname)?.[1] ?? "index.html";
  // The page may have gone elsewhere meanwhile.
  return route.fulfill({ path: `${DIST}/${file}` }).catch(() => {});
}

export async function launch() {
  // Pages of DIST come from no address, so that the browser would keep them from opening WebSockets to this machine.
  const more = DIST ? ["--disable-features=LocalNetworkAccessChecks"] : [];
  return chromium.launch({ executablePath: process.env.CONSOLE_BROWSER, args: ["--no-sandbox", "--disable-gpu", ...more] });
}

/** Attempts at a step while the network of the machine changes. */
const TRIES_MAX = 8;
/** Characters of a page, and requests, in the report of a failure. */
const TEXT_MAX = 1_500;
const REQUESTS_MAX = 8;

/** The browser reports answers of 400 and more, and requests without an answer, in these words. */
const RESOURCE = /^Failed to load resource: (?:the server responded with a status of (\d+)|(net::\w+))/;

export class Visitor {
  constructor(browser, origin) {
    this.browser = browser;
    this.origin = origin;
    this.faults = [];
    /** The latest requests that failed or were refused, and those without an answer. */
    this.failed = [];
    this.pending = new Set();
    /** What the browser may report about requests: a status or an error, the paths it belongs to, and whether it came. */
    this.expected = [];
    /** The machine's network interfaces changed, which makes the browser abort its requests. */
    this.disturbed = false;
  }

  /** A new browser profile: no cookies, no storage. */
  async enter(options = {}) {
    this.context = await this.browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1440, height: 900 }, reducedMotion: "reduce", ...options });
    this.context.setDefaultTimeout(WAIT);
    if (DIST) await this.context.route((url) => url.origin === this.origin && /^\/console\/(?!api\/)/.test(url.pathname), fromDist);
    return this.open();
  }

  /** The same session in a profile of its own, through another port of this machine. */
  async twin(port) {
    const { protocol, hostname } = new URL(this.origin);
    const twin = new Visitor(this.browser, `${protocol}//${hostname}:${port}`);
    // The name of the cookie has the port.
    const cookies = (await this.context.cookies()).map((one) => ({ ...one, name: one.name.replace(/-\d+$/, `-${port}`) }));
    const localStorage = [{ name: "flotilla-console", value: JSON.stringify({ theme: "light", language: "en" }) }];
    await twin.enter({ storageState: { cookies, origins: [{ origin: twin.origin, localStorage }] } });
    return twin;
  }

  /** A further tab of the same profile, with faults of its own. */
  async tab() {
    const tab = new Visitor(this.browser, this.origin);
    tab.context = this.context;
    await tab.open();
    return tab;
  }

  async open() {
    this.page = await this.context.newPage();
    this.page.on("pageerror", (error) => this.faults.push(`exception: ${error.message}`));
    this.page.on("console", (message) => {
      if (["error", "warning"].includes(message.type()) && !this.foresaw(message)) this.faults.push(`console: ${message.text()} ${message.location().url}`);
    });
    this.page.on("requestfailed", (request) => {
      this.disturbed ||= request.failure()?.errorText.includes("NETWORK_CHANGED") ?? false;
      this.pending.delete(request);
      this.note(`${request.failure()?.errorText} ${request.method()} ${request.url()}`);
    });
    this.page.on("requestfinished", (request) => this.pending.delete(request));
    this.page.on("response", (response) => response.status() >= 400 && this.note(`${response.status()} ${response.request().method()} ${response.url()}`));
    this.page.on("request", (request) => {
      const url = request.url();
      this.pending.add(request);
      if (!url.startsWith(this.origin) && !url.startsWith("data:") && !url.startsWith("blob:")) this.faults.push(`foreign request: ${url}`);
    });
    // Violations of the content security policy, also those that the browser reports without a message.
    await this.page.addInitScript(() => document.addEventListener("securitypolicyviolation", (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`)));
    return this.page;
  }

  /** Lists what the browser will report about requests until the next call: a status or an error, and a pattern of paths. */
  expect(...reports) {
    this.expected = reports.map(([code, path]) => ({ code, path, came: false }));
  }

  /** Adds a report that depends on what happens at the same time, such as a conflict that the page resolves by itself. */
  tolerate(code, path) {
    this.expected.push({ code, path, came: true });
  }

  /** The reports that were listed and did not come. */
  missing() {
    return this.expected.filter((one) => !one.came).map(({ code, path }) => `the browser does not report ${code} for ${path}`);
  }

  foresaw(message) {
    const [, status, error = ""] = RESOURCE.exec(message.text()) ?? [];
    // Tests that run at the same time add and remove network interfaces.
    if (error === "net::ERR_NETWORK_CHANGED") return true;
    const url = message.location().url;
    if ((!status && !error) || !url.startsWith(this.origin)) return false;
    const { pathname } = new URL(url);
    const found = this.expected.find(({ code, path }) => (code instanceof RegExp ? code.test(error) : code === Number(status)) && path.test(pathname));
    if (found) found.came = true;
    return found !== undefined;
  }

  async go(path) {
    await this.page.goto(`${this.origin}/console${path}`);
  }

  /** Waits until nothing is loading any more. */
  async settle() {
    await this.page.waitForFunction(() => !document.querySelector(".spinner") && document.querySelector("h1"), undefined, { timeout: WAIT });
  }

  note(request) {
    this.failed = [...this.failed, request].slice(-REQUESTS_MAX);
  }

  /** Ends the changes of requests that a check made. */
  async clear() {
    await this.page.unrouteAll({ behavior: "ignoreErrors" });
    this.failed = [];
    this.pending.clear();
  }

  /** What the page shows and waits for, for the report of a failure. */
  async describe() {
    const text = await this.page.evaluate(() => [...document.querySelectorAll("main, dialog, .toasts")].map((one) => one.innerText).join("\n").replace(/\s*\n\s*/g, " · ")).catch((error) => `nothing: ${error.message}`);
    const pending = [...this.pending].slice(-REQUESTS_MAX).map((request) => `${request.method()} ${request.url()}`);
    return [`at ${this.page.url()}`, `it shows: ${text.slice(0, TEXT_MAX)}`, ...this.failed.map((one) => `failed: ${one}`), ...pending.map((one) => `open: ${one}`)].map((line) => `    ${line}`).join("\n");
  }

  /** Checks the rules for accessibility: all of them, or only some by their names. */
  async axe(name, rules) {
    if (!(await this.page.evaluate(() => "axe" in globalThis))) await this.page.evaluate(axeSource);
    const runOnly = rules ? { type: "rule", values: rules } : ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"];
    const found = await this.page.evaluate(async (runOnly) => {
      const { violations } = await globalThis.axe.run(document, { runOnly, resultTypes: ["violations"] });
      return violations.map((one) => `${one.id}: ${one.nodes[0]?.html.slice(0, 160)}`);
    }, runOnly);
    for (const problem of found) this.faults.push(`axe on ${name}: ${problem}`);
  }

  async shoot(name) {
    await this.page.screenshot({ path: `${shots}/${name}.png` });
  }

  /** A request with the session of the page and the rights of its user, but not from the page, so that it leaves no message there. */
  async api(method, path, body, contentType = "application/json") {
    const headers = { "X-Flotilla-Console": "1", Accept: "application/json", ...(body ? { "Content-Type": contentType } : {}) };
    const response = await this.context.request.fetch(this.origin + path, { method, headers, data: body && JSON.stringify(body), failOnStatusCode: false });
    const text = await response.text();
    return { code: response.status(), body: text.startsWith("{") ? JSON.parse(text) : text };
  }

  async leave() {
    await this.context.close();
  }
}

export function check(condition, text) {
  if (!condition) throw new Error(text);
}

/** Waits until the API answers as expected. */
export async function until(visitor, path, fits, text) {
  for (const end = Date.now() + WAIT * 2; ; ) {
    const { body } = await visitor.api("GET", path);
    if (fits(body)) return body;
    check(Date.now() < end, `${text}: ${JSON.stringify(body).slice(0, 800)}`);
    await visitor.page.waitForTimeout(300);
  }
}

/** Runs a step, and again while other tests change the network of the machine. A failure becomes a fault with what the page showed. */
export async function attempt(visitor, name, step, tries = TRIES_MAX) {
  for (let left = tries; ; left--) {
    visitor.disturbed = false;
    try {
      await step();
      return true;
    } catch (error) {
      if (left > 1 && (visitor.disturbed || error.message.includes("NETWORK_CHANGED"))) {
        visitor.faults.splice(0);
        console.log(`  the network changed: ${name} once more`);
        continue;
      }
      const place = error.stack?.split("\n").find((line) => line.includes("/tests/browser/")) ?? "";
      visitor.faults.push(`${error.message.split("\n").slice(0, 6).join(" | ")}\n${place}\n${await visitor.describe()}`);
      await visitor.shoot(`failed-${name}`).catch(() => {});
      return false;
    }
  }
}
