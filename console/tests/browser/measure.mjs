// Prints how fast the console is and how much it takes. Not a test: the figures depend on the machine.
//
//   flotilla up; CONSOLE_BROWSER=/usr/bin/chromium-headless-shell CONSOLE_LINK=$(flotilla console) node tests/browser/measure.mjs
//
// CONSOLE_MEASURES=firstPaint,scrolling,living,updates chooses some; `fleet` needs the link of a manager. `updates` keeps pages open
// for CONSOLE_MINUTES (60) with two changes each second, and fails if a tab takes more than 150 MiB or its heap grows.

import { readFileSync } from "node:fs";
import { launch, Visitor } from "./harness.mjs";
import { multiplyLists } from "./matrix.mjs";

const LIVE_SECONDS = Number(process.env.CONSOLE_LIVE_SECONDS ?? 30);
const MINUTES = Number(process.env.CONSOLE_MINUTES ?? 60);
const UPDATED = (process.env.CONSOLE_UPDATED ?? "/,/clusters,/workloads,/events").split(",");
const CHANGES_PER_SECOND = 2;
/** Samples of a run; the growth counts from the second, when everything is loaded. */
const SAMPLES = 10;
const TAB_MIB = 150;
const GROWTH_MIB = 24;
const FLEET = Number(process.env.CONSOLE_FLEET ?? 500);
const MIB = 2 ** 20;
const link = new URL(process.env.CONSOLE_LINK);
const visitor = new Visitor(await launch(), link.origin);
await visitor.enter();
// The page asks who is signed in before it uses the link.
visitor.expect([401, /^\/console\/api\/session$/]);
await visitor.page.goto(link.href);
if (process.env.CONSOLE_TOKEN) {
  await visitor.page.getByLabel("Token or kubeconfig").fill(process.env.CONSOLE_TOKEN);
  await visitor.page.getByRole("button", { name: "Sign in" }).click();
}
await visitor.page.getByRole("navigation", { name: "Main menu" }).waitFor();

const print = (name, value, target) => console.log(`${name.padEnd(62)} ${value.padStart(10)}   ${target}`);

const mib = (bytes) => `${(bytes / MIB).toFixed(1)} MiB`;

/** A browser of its own with one tab, so that its processes are those of the tab. */
async function alone(path) {
  const other = new Visitor(await launch(), visitor.origin);
  const page = await other.enter({ storageState: await visitor.context.storageState() });
  await other.go(path);
  await other.settle();
  const client = await other.context.newCDPSession(page);
  const browser = await other.browser.newBrowserCDPSession();
  const processes = async () => (await browser.send("SystemInfo.getProcessInfo")).processInfo;
  return {
    visitor: other,
    /** Seconds of CPU of all processes of the browser, and of the one that draws the page. */
    async cpu() {
      const all = await processes();
      const sum = (some) => some.reduce((seconds, one) => seconds + one.cpuTime, 0);
      return { all: sum(all), page: sum(all.filter((one) => one.type === "renderer")) };
    },
    /** JavaScript objects after a garbage collection, and what only the process of the page has in memory. */
    async memory() {
      await client.send("HeapProfiler.collectGarbage");
      const { usedSize } = await client.send("Runtime.getHeapUsage");
      const pids = (await processes()).filter((one) => one.type === "renderer").map((one) => one.id);
      const rollups = pids.map((pid) => readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"));
      const sum = (field) => rollups.reduce((total, text) => total + 1024 * Number(new RegExp(`^${field}: +(\\d+)`, "m").exec(text)?.[1] ?? 0), 0);
      return { heap: usedSize, own: sum("Private_Dirty") + sum("Private_Clean"), resident: sum("Rss") };
    },
    end: () => other.browser.close(),
  };
}

const event = (index) => ({
  metadata: { generateName: "measure-", namespace: "default" },
  involvedObject: { kind: "Deployment", namespace: "default", name: `measured-${index % 50}` },
  reason: "Measured",
  message: `change number ${index} of an hour of updates, with a text of usual length for an event of a controller`,
  type: index % 9 ? "Normal" : "Warning",
  source: { component: "measure" },
  firstTimestamp: new Date().toISOString(),
  lastTimestamp: new Date().toISOString(),
  count: 1,
});

/** Changes in turn: an event, a cluster, a workload. */
const changeOf = (index) =>
  [
    ["POST", "/api/v1/namespaces/default/events", event(index)],
    ["PATCH", "/apis/cluster.karmada.io/v1alpha1/clusters/member1", { metadata: { annotations: { "console.test/change": String(index) } } }, "application/merge-patch+json"],
    ["PATCH", "/apis/apps/v1/namespaces/default/deployments/measured", { spec: { replicas: 1 + (index % 7) } }, "application/merge-patch+json"],
  ][index % 3];

/** A workload in all clusters, which the changes scale. */
async function deployMeasured() {
  const labels = { app: "measured" };
  const deployment = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "measured", labels }, spec: { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers: [{ name: "web", image: "registry.k8s.io/nginx:1.27" }] } } } };
  const policy = { apiVersion: "policy.karmada.io/v1alpha1", kind: "PropagationPolicy", metadata: { name: "measured" }, spec: { resourceSelectors: [{ apiVersion: "apps/v1", kind: "Deployment", name: "measured" }], placement: { replicaScheduling: { replicaSchedulingType: "Divided", replicaDivisionPreference: "Weighted" } } } };
  for (const [path, body] of [["/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies", policy], ["/apis/apps/v1/namespaces/default/deployments", deployment]]) {
    const { code } = await visitor.api("POST", path, body);
    if (![201, 409].includes(code)) throw new Error(`${path}: ${code}`);
  }
}

/** Pages that are open while things change: the memory of each tab. */
async function updates() {
  await deployMeasured();
  const tabs = await Promise.all(UPDATED.map(async (path) => ({ path, samples: [], ...(await alone(path)) })));
  const started = Date.now();
  const count = MINUTES * 60 * CHANGES_PER_SECOND;
  const refused = {};
  for (let index = 0; index <= count; index++) {
    if (index % Math.ceil(count / SAMPLES) === 0 || index === count) {
      for (const tab of tabs) tab.samples.push(await tab.memory());
      console.log(`  after ${index} changes and ${((Date.now() - started) / 1000).toFixed(0)} s: ${tabs.map(({ path, samples }) => `${path} heap ${mib(samples.at(-1).heap)}, tab ${mib(samples.at(-1).own)}`).join("; ")}`);
    }
    const { code } = await visitor.api(...changeOf(index));
    if (code >= 300) refused[code] = (refused[code] ?? 0) + 1;
    const due = started + (1000 * index) / CHANGES_PER_SECOND;
    if (due > Date.now()) await visitor.page.waitForTimeout(due - Date.now());
  }
  const seconds = ((Date.now() - started) / 1000).toFixed(0);
  const grown = [];
  for (const tab of tabs) {
    const [first, last] = [tab.samples[1], tab.samples.at(-1)];
    print(`${tab.path} after ${count} changes in ${seconds} s: memory of the tab`, mib(last.own), `at most ${TAB_MIB} MiB`);
    print("  resident, with what browsers share", mib(last.resident), "");
    print("  JavaScript heap, and its growth since the first tenth", `${mib(last.heap)} +${mib(last.heap - first.heap)}`, "bounded");
    if (last.own > TAB_MIB * MIB || last.heap - first.heap > GROWTH_MIB * MIB) grown.push(tab.path);
    visitor.faults.push(...tab.visitor.faults);
    await tab.end();
  }
  if (Object.keys(refused).length > 0) throw new Error(`changes were refused: ${JSON.stringify(refused)}`);
  if (grown.length > 0) throw new Error(`tabs grow: ${grown}`);
}

/** The page of a manager with many instances, two of which change each second. The instances are suspended: only their objects exist. */
async function fleet() {
  const path = "/apis/operator.karmada.io/v1alpha1/namespaces/karmada-system/karmadas";
  const name = (index) => `measured-${String(index).padStart(3, "0")}`;
  const created = Array.from({ length: FLEET }, (_, index) => index);
  const codes = new Set();
  const work = async () => {
    for (let index = created.shift(); index !== undefined; index = created.shift()) {
      codes.add((await visitor.api("POST", path, { apiVersion: "operator.karmada.io/v1alpha1", kind: "Karmada", metadata: { name: name(index), labels: { team: `team-${index % 20}` } }, spec: { suspend: true } })).code);
    }
  };
  await Promise.all(Array.from({ length: 16 }, work));
  if (![...codes].every((code) => [201, 409].includes(code))) throw new Error(`instances were not created: ${[...codes]}`);
  const tab = await alone("/");
  await tab.visitor.page.getByRole("row", { name: /measured-/ }).first().waitFor();
  // The controllers have settled.
  await visitor.page.waitForTimeout(10_000);
  for (const [text, changes] of [["without changes", 0], ["with two changes each second", 2]]) {
    const before = await tab.cpu();
    const begun = Date.now();
    const end = begun + LIVE_SECONDS * 1000;
    for (let change = 0; Date.now() < end; change++) {
      if (changes > 0) await visitor.api("PATCH", `${path}/${name(change % FLEET)}`, { metadata: { annotations: { "measure/change": String(change) } } }, "application/merge-patch+json");
      await visitor.page.waitForTimeout(1000 / (changes || 1));
    }
    const after = await tab.cpu();
    const seconds = (Date.now() - begun) / 1000;
    print(`Instances page with ${FLEET} instances, ${text}: CPU of the tab`, `${((100 * (after.page - before.page)) / seconds).toFixed(1)} %`, "at most 5 %");
    print("  all processes of the browser", `${((100 * (after.all - before.all)) / seconds).toFixed(1)} %`, "");
  }
  const { heap, own } = await tab.memory();
  print("  JavaScript heap, memory of the tab", `${mib(heap)} ${mib(own)}`, "");
  await tab.end();
}

/** From an empty cache, with a CPU that is four times slower. */
async function firstPaint() {
  const state = await visitor.context.storageState();
  const paints = [];
  for (let round = 0; round < 3; round++) {
    const other = new Visitor(visitor.browser, visitor.origin);
    const page = await other.enter({ storageState: state });
    const client = await page.context().newCDPSession(page);
    await client.send("Emulation.setCPUThrottlingRate", { rate: 4 });
    await other.go("/");
    await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
    const heading = await page.evaluate(() => performance.now());
    const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
    paints.push([paint, heading]);
    await other.leave();
  }
  const [paint, heading] = paints.sort((a, b) => a[0] - b[0])[1];
  print("first paint, empty cache, CPU 4 times slower (median of 3)", `${paint.toFixed(0)} ms`, "at most 1,000 ms");
  print("  heading of the overview", `${heading.toFixed(0)} ms`, "");
}

/** 10,000 rows, scrolled by 120 pixels in every frame. */
async function scrolling() {
  const tab = await visitor.tab();
  await multiplyLists(tab, ["deployments"]);
  await tab.go("/workloads");
  await tab.page.getByText("copy-00000").waitFor();
  const { frames, longest } = await tab.page.getByRole("table").evaluate(
    (element) =>
      new Promise((done) => {
        const times = [];
        const started = performance.now();
        const step = (now) => {
          element.scrollTop += 120;
          times.push(now);
          if (now - started < 5_000) requestAnimationFrame(step);
          else done({ frames: ((times.length - 1) * 1000) / (times.at(-1) - times[0]), longest: Math.max(...times.slice(1).map((time, index) => time - times[index])) });
        };
        requestAnimationFrame(step);
      }),
  );
  print("frames each second, table of 10,000 rows scrolling", frames.toFixed(0), "60");
  print("  longest frame", `${longest.toFixed(0)} ms`, "");
  await tab.page.close();
}

/** The overview follows changes: share of one CPU, and memory at the beginning and at the end. */
async function living() {
  const tab = await visitor.tab();
  await tab.go("/");
  await tab.settle();
  const client = await visitor.context.newCDPSession(tab.page);
  await client.send("Performance.enable");
  const read = async () => {
    await client.send("HeapProfiler.collectGarbage");
    return Object.fromEntries((await client.send("Performance.getMetrics")).metrics.map(({ name, value }) => [name, value]));
  };
  const before = await read();
  const end = Date.now() + LIVE_SECONDS * 1000;
  for (let change = 0; Date.now() < end; change++) {
    await visitor.api("PATCH", "/apis/cluster.karmada.io/v1alpha1/clusters/member1", { metadata: { annotations: { "console.test/change": String(change) } } }, "application/merge-patch+json");
    await tab.page.waitForTimeout(250);
  }
  const after = await read();
  print(`CPU of the overview with 4 changes each second for ${LIVE_SECONDS} s`, `${((100 * (after.TaskDuration - before.TaskDuration)) / LIVE_SECONDS).toFixed(1)} %`, "at most 5 %");
  print("JavaScript heap of the tab before, after garbage collection", mib(before.JSHeapUsedSize), "");
  print("JavaScript heap of the tab afterwards", mib(after.JSHeapUsedSize), "tab at most 150 MiB");
}

const all = { firstPaint, scrolling, living, updates, fleet };
for (const name of (process.env.CONSOLE_MEASURES ?? "firstPaint,scrolling,living").split(",")) await all[name]();
for (const fault of new Set(visitor.faults)) console.log(`fault: ${fault}`);
await visitor.browser.close();
