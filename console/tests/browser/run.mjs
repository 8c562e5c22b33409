// Drives the console of a real control plane with members: journeys, and next to them every page in every state.

import { audited, commandLine, convert, failover, history, planDifference, revealed, revokedRights, roles, timeline } from "./features.mjs";
import { checkedEditor, deploy, operate, signIn } from "./journeys.mjs";
import { attempt, launch, Visitor } from "./harness.mjs";
import { keyboard } from "./keyboard.mjs";
import { realRows } from "./lists.mjs";
import { everyPage, signInAsNobody } from "./matrix.mjs";
import { TABLE } from "./pages.mjs";
import { namespaceEditor } from "./rights.mjs";
import { session } from "./session.mjs";
import { shop } from "./shop.mjs";
import { openWire } from "./wire.mjs";

const link = new URL(process.env.CONSOLE_LINK);
const { port } = link;
const wire = await openWire(port);
link.port = wire.port;
const visitor = new Visitor(await launch(), link.origin);
// CONSOLE_STEPS=deploy,operate runs some of the steps.
const wanted = process.env.CONSOLE_STEPS?.split(",");
let failed = false;

/** Runs a step as this visitor and prints what is wrong; returns whether it came to its end. */
async function run(user, name, step, tries) {
  if (wanted && !wanted.includes(name) && name !== "signIn") return true;
  const started = Date.now();
  const done = await attempt(user, name, async () => {
    user.expect();
    await step(user);
    // Each of them says what it provokes, and no more.
    user.faults.push(...user.missing());
  }, tries);
  const faults = [...new Set(user.faults.splice(0))];
  console.log(`${faults.length === 0 ? "ok" : "FAILED"} ${name} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
  for (const fault of faults) console.log(`  ${fault}`);
  failed ||= faults.length > 0;
  return done;
}

async function journeys() {
  // The others need what it deploys.
  if (!(await run(visitor, "deploy", deploy))) return;
  for (const step of [operate, checkedEditor, planDifference, failover, timeline, convert, commandLine, roles, revokedRights, namespaceEditor, revealed, audited, history, keyboard, realRows]) await run(visitor, step.name, step);
  await run(visitor, "session", (user) => session(user, link));
}

/** With a workload that no journey touches. */
async function pages() {
  const user = await visitor.twin(wire.port);
  await run(user, "pages", async () => {
    await user.go("/settings");
    await shop(user);
    const nobody = await signInAsNobody(user, "Overview");
    await everyPage(user, nobody, TABLE, port);
    user.faults.push(...nobody.faults);
    await nobody.leave();
  });
  await user.leave();
}

// The link works once.
if (await run(visitor, "signIn", (user) => signIn(user, link.href), 1)) await Promise.all([journeys(), pages()]);
await visitor.browser.close();
wire.close();
process.exit(failed ? 1 : 0);
