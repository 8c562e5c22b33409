// Sign-in at an OIDC issuer, and sessions that survive a restart of the server.

import { attempt, check, launch, Visitor } from "./harness.mjs";

const { CONSOLE_LINK, CONSOLE_STATE, CONSOLE_ISSUER } = process.env;
const origin = new URL(CONSOLE_LINK).origin;
const visitor = new Visitor(await launch(), origin);

/** Goes to the issuer and comes back as this user. */
async function signIn(page, user) {
  await page.getByRole("button", { name: /^Sign in with 127\.0\.0\.1/ }).click();
  await page.getByLabel("User").fill(user);
  await page.getByRole("button", { name: "Continue" }).click();
}

/** The page asks who is signed in, before and after a sign-in. */
const NOT_SIGNED_IN = [401, /^\/console\/api\/session$/];
/** The user has no role. */
const NO_ROLE = [403, /^\/api\/v1\/namespaces$/];

async function first() {
  const page = await visitor.enter();
  visitor.expect(NOT_SIGNED_IN, NO_ROLE);
  await page.goto(`${origin}/console/access?tab=mine`);
  await page.getByRole("button", { name: /^Sign in with 127\.0\.0\.1/ }).waitFor();
  await visitor.shoot("sign-in-oidc");
  await visitor.axe("sign-in with an issuer");
  await signIn(page, "refused");
  await page.getByText("refused the sign-in").waitFor();
  await signIn(page, "ann");
  await page.waitForURL(/\/console\/access\?tab=mine$/);
  await page.getByText(`${CONSOLE_ISSUER}#ann`).first().waitFor();
  await page.getByText("dev", { exact: true }).waitFor();
  const cookies = await visitor.context.cookies();
  check(!cookies.some((one) => one.name.includes("oidc")), "the cookie of the attempt is gone");
  // A callback that this browser did not begin signs nobody in.
  const stranger = await visitor.browser.newContext({ ignoreHTTPSErrors: true });
  const tab = await stranger.newPage();
  await tab.goto(`${origin}/console/api/oidc/callback?code=stolen&state=stolen`);
  await tab.getByText("started in another browser").waitFor();
  await tab.goto(`${origin}/`);
  await tab.waitForURL(`${origin}/console/`);
  await stranger.close();
  await visitor.context.storageState({ path: CONSOLE_STATE });
}

async function second() {
  const page = await visitor.enter({ storageState: CONSOLE_STATE });
  // The session from before the restart is still one; it ends with the sign-out.
  visitor.expect(NO_ROLE);
  await page.goto(`${origin}/console/access?tab=mine`);
  await page.getByText(`${CONSOLE_ISSUER}#ann`).first().waitFor();
  visitor.expect(NOT_SIGNED_IN);
  await page.getByRole("button", { name: "Account" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await page.getByRole("button", { name: /^Sign in with 127\.0\.0\.1/ }).waitFor();
  // The cookie from before is worth nothing after the sign-out.
  await visitor.leave();
  const again = await visitor.enter({ storageState: CONSOLE_STATE });
  await again.goto(`${origin}/console/access`);
  await again.getByRole("button", { name: /^Sign in with 127\.0\.0\.1/ }).waitFor();
}

await attempt(visitor, "oidc", process.argv[2] === "again" ? second : first, 1);
await visitor.browser.close();
visitor.faults.push(...visitor.missing());
// Going to the issuer is what the sign-in does.
const faults = visitor.faults.filter((fault) => !/^(foreign request|console):/.test(fault) || !fault.includes(CONSOLE_ISSUER));
for (const fault of new Set(faults)) console.log(fault);
process.exit(faults.length > 0 ? 1 : 0);
