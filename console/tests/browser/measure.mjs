// Prints how fast the console is and how much it takes. Not a test: the figures depend on the machine.
//
//   flotilla up; CONSOLE_BROWSER=/usr/bin/chromium-headless-shell CONSOLE_LINK=$(flotilla console) node tests/browser/measure.mjs

import { launch, Visitor } from "./harness.mjs";
import { multiplyLists } from "./matrix.mjs";

const LIVE_SECONDS = Number(process.env.CONSOLE_LIVE_SECONDS ?? 30);
const link = new URL(process.env.CONSOLE_LINK);
const visitor = new Visitor(await launch(), link.origin);
await visitor.enter();
await visitor.page.goto(link.href);
if (process.env.CONSOLE_TOKEN) {
  await visitor.page.getByLabel("Token or kubeconfig").fill(process.env.CONSOLE_TOKEN);
  await visitor.page.getByRole("button", { name: "Sign in" }).click();
}
await visitor.page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();

const print = (name, value, target) => console.log(`${name.padEnd(62)} ${value.padStart(10)}   ${target}`);

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
  const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  print(`CPU of the overview with 4 changes each second for ${LIVE_SECONDS} s`, `${((100 * (after.TaskDuration - before.TaskDuration)) / LIVE_SECONDS).toFixed(1)} %`, "at most 5 %");
  print("JavaScript heap of the tab before, after garbage collection", mib(before.JSHeapUsedSize), "");
  print("JavaScript heap of the tab afterwards", mib(after.JSHeapUsedSize), "tab at most 150 MiB");
}

await firstPaint();
await scrolling();
await living();
for (const fault of new Set(visitor.faults)) console.log(`fault: ${fault}`);
await visitor.browser.close();
