// Drives the console of a real control plane with members: journeys, every page in several states, security of the session.

import { audited, commandLine, convert, failover, history, planDifference, revokedRights, roles, timeline } from "./features.mjs";
import { checkedEditor, deploy, keyboard, operate, signIn } from "./journeys.mjs";
import { launch, Visitor } from "./harness.mjs";
import { realRows } from "./lists.mjs";
import { down, empty, forbidden, interrupted, many, shown, slow } from "./matrix.mjs";
import { session } from "./session.mjs";
import { openWire } from "./wire.mjs";

/** Attempts at a step while the network of the machine changes. */
const TRIES_MAX = 8;

const link = new URL(process.env.CONSOLE_LINK);
const wire = await openWire(link.port);
link.port = wire.port;
const visitor = new Visitor(await launch(), link.origin);
const on = (...steps) => Object.fromEntries(steps.map(([step, ...rest]) => [step.name, () => step(visitor, ...rest)]));
const show = (variant, pages) => ({ [variant]: () => shown(visitor, variant, pages) });
const all = {
  ...on([signIn, link.href], [deploy], [operate], [checkedEditor], [planDifference], [failover], [timeline], [convert], [commandLine], [roles], [revokedRights], [audited], [history], [keyboard], [realRows]),
  ...show("light"),
  ...show("dark"),
  ...show("chinese", ["overview", "clusters", "workload-why", "policy-new", "topology", "audit", "metrics"]),
  ...show("narrow", ["overview", "clusters", "workload", "topology", "audit", "shell"]),
  ...on([empty], [many], [slow], [down], [interrupted, wire], [forbidden], [session, link]),
};
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
