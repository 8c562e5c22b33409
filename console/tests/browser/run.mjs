// Drives the console of a real control plane with members: journeys, every page in several states, security of the session.

import { deploy, keyboard, operate, signIn } from "./journeys.mjs";
import { launch, Visitor } from "./harness.mjs";
import { session } from "./session.mjs";
import { openWire } from "./wire.mjs";
import { everyPage, forbidden, interrupted, many, planeDown } from "./states.mjs";

/** Attempts at a step while the network of the machine changes. */
const TRIES_MAX = 8;

const link = new URL(process.env.CONSOLE_LINK);
const wire = await openWire(link.port);
link.port = wire.port;
const visitor = new Visitor(await launch(), link.origin);
const all = { signIn: () => signIn(visitor, link.href), empty: () => everyPage(visitor, "empty", ["overview", "workloads", "policies", "bindings", "failover", "events"]), deploy: () => deploy(visitor), operate: () => operate(visitor), light: () => everyPage(visitor, "light"), dark: () => everyPage(visitor, "dark"), chinese: () => everyPage(visitor, "chinese", ["overview", "clusters", "workload-why", "policy-new"]), narrow: () => everyPage(visitor, "narrow", ["overview", "clusters", "workload"]), keyboard: () => keyboard(visitor), many: () => many(visitor), planeDown: () => planeDown(visitor), interrupted: () => interrupted(visitor, wire), session: () => session(visitor, link), forbidden: () => forbidden(visitor) };
// CONSOLE_STEPS=deploy,many runs some of them.
const wanted = process.env.CONSOLE_STEPS?.split(",");
const steps = Object.fromEntries(Object.entries(all).filter(([name]) => !wanted || name === "signIn" || wanted.includes(name)));

let failed = false;
for (const [name, step] of Object.entries(steps)) {
  const started = Date.now();
  let thrown = false;
  try {
    // Other tests may change the network of the machine meanwhile; then the step is repeated. The link of signIn works once.
    for (let tries = 1; ; tries++) {
      visitor.disturbed = false;
      const failure = await step().then(
        () => undefined,
        (error) => error,
      );
      const disturbed = visitor.disturbed || failure?.message.includes("NETWORK_CHANGED");
      if (!disturbed || name === "signIn" || tries === TRIES_MAX) {
        if (failure) throw failure;
        break;
      }
      visitor.faults.splice(0);
      console.log(`  the network changed: ${name} once more`);
    }
  } catch (error) {
    thrown = true;
    visitor.faults.push(`${error.message.split("\n").slice(0, 6).join(" | ")}\n${error.stack?.split("\n").find((line) => line.includes("/tests/browser/")) ?? ""}`);
    await visitor.shoot(`failed-${name}`).catch(() => {});
  }
  const took = ((Date.now() - started) / 1000).toFixed(1);
  const faults = [...new Set(visitor.faults.splice(0))];
  console.log(`${faults.length === 0 ? "ok" : "FAILED"} ${name} (${took} s)`);
  for (const fault of faults) console.log(`  ${fault}`);
  failed ||= faults.length > 0;
  // Nothing works without these.
  if (thrown && ["signIn", "deploy"].includes(name)) break;
}
await visitor.browser.close();
wire.close();
process.exit(failed ? 1 : 0);
