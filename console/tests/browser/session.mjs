// What a session must not allow: other sites, reused tickets, revoked tokens, sessions that extend themselves.

import { check, Visitor } from "./harness.mjs";

export async function session(visitor, link) {
  const { context, origin } = visitor;
  const cookie = (await context.cookies()).find((one) => one.name.startsWith("__Host-flotilla-session"));
  const pair = `${cookie.name}=${cookie.value}`;
  const api = (await visitor.browser.newContext({ ignoreHTTPSErrors: true })).request;
  const code = async (method, path, headers) => (await api.fetch(origin + path, { method, headers, failOnStatusCode: false })).status();
  const own = { "x-flotilla-console": "1" };
  const list = "/api/v1/namespaces";
  check((await code("GET", list, { cookie: pair, ...own })) === 200, "the page's own requests work");
  const refused = [
    ["without the header", { cookie: pair }],
    ["from another site", { cookie: pair, ...own, "sec-fetch-site": "cross-site" }],
    ["from the same site", { cookie: pair, ...own, "sec-fetch-site": "same-site" }],
    ["from another origin", { cookie: pair, ...own, origin: "https://evil.example" }],
    ["with a wrong id", { cookie: `${cookie.name}=AAAA`, ...own }],
    ["with the cookie of another port", { cookie: `__Host-flotilla-session-1=${cookie.value}`, ...own }],
    ["with a wrong token next to the cookie", { cookie: pair, ...own, authorization: "Bearer wrong" }],
  ];
  for (const [text, headers] of refused) check((await code("GET", list, headers)) === 401, `a request ${text} is not 401`);
  check((await code("POST", "/flotilla/v1alpha1/console/tickets", { cookie: pair, ...own })) === 403, "a session cannot get a ticket");
  check((await code("POST", "/console/api/login", { cookie: pair, ...own })) === 401, "a session is no credential for a new one");
  const ticket = new URLSearchParams(link.hash.slice(1)).get("ticket");
  check((await code("POST", "/console/api/login", { ...own, authorization: `Ticket ${ticket}` })) === 401, "the ticket works twice");
  check((await code("GET", "/console/api/session", own)) === 401, "no session without a cookie");
  for (const path of ["/console/assets/../../etc/passwd", "/console/%2e%2e/api/v1/secrets", "/console/assets/none.js"]) {
    const status = await code("GET", path, {});
    check([400, 401, 403, 404].includes(status), `${path} answers ${status}`);
  }
  const head = await api.fetch(`${origin}/console/`, {});
  const policy = head.headers()["content-security-policy"] ?? "";
  check(policy.includes("default-src 'none'") && policy.includes("frame-ancestors 'none'") && !policy.includes("unsafe"), `policy ${policy}`);
  check(head.headers()["cache-control"] === "no-store", "the page is not cached");
  await revoked(visitor);
}

/** A revoked token ends its session while the page is open, and no other session. */
async function revoked(visitor) {
  const { page } = visitor;
  const name = "short-lived";
  const list = "/api/v1/namespaces";
  await visitor.go("/settings");
  await page.getByRole("heading", { name: "Settings", level: 1 }).waitFor();
  await visitor.api("POST", "/api/v1/namespaces/default/serviceaccounts", { metadata: { name } });
  const issued = await visitor.api("POST", `/api/v1/namespaces/default/serviceaccounts/${name}/token`, { spec: { expirationSeconds: 3600 } });
  const other = new Visitor(visitor.browser, visitor.origin);
  const tab = await other.enter();
  // The sign-in page asks who is signed in; the account has no rights; its session then ends.
  other.expect([401, /^\/console\/api\/session$/], [403, /^\/(api|apis|flotilla)\//]);
  await other.go("/");
  await tab.getByLabel("Token or kubeconfig").fill(issued.body.status.token);
  await tab.getByRole("button", { name: "Sign in" }).click();
  await tab.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  check((await other.api("GET", "/console/api/session")).code === 200, "the short-lived session begins");
  check((await visitor.api("DELETE", `/api/v1/namespaces/default/serviceaccounts/${name}`)).code === 200, "the account is deleted");
  await other.go("/settings");
  await tab.getByLabel("Token or kubeconfig").waitFor();
  for (const path of ["/console/api/session", list]) check((await other.api("GET", path)).code === 401, `${path} with the revoked session`);
  visitor.faults.push(...other.faults, ...other.missing());
  await other.leave();
  // The page that was open all the time still is, and a new load of it needs no sign-in.
  check((await visitor.api("GET", list)).code === 200, "the other session ended too");
  await page.getByRole("navigation", { name: "Main menu" }).getByRole("link", { name: "Clusters" }).click();
  await page.getByRole("row", { name: /member1/ }).waitFor();
  await page.reload();
  await page.getByRole("row", { name: /member1/ }).waitFor();
}
