// What a session must not allow: other sites, reused tickets, revoked tokens, sessions that extend themselves.

import { check } from "./harness.mjs";

export async function session(visitor, link) {
  const { page, context, origin } = visitor;
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
  await revoked(visitor, page);
}

/** A revoked token ends its session while the page is open. */
async function revoked(visitor, page) {
  const name = "short-lived";
  await visitor.go("/settings");
  await visitor.api("POST", "/api/v1/namespaces/default/serviceaccounts", { metadata: { name } });
  const issued = await visitor.api("POST", `/api/v1/namespaces/default/serviceaccounts/${name}/token`, { spec: { expirationSeconds: 3600 } });
  const other = await visitor.browser.newContext({ ignoreHTTPSErrors: true });
  const tab = await other.newPage();
  await tab.goto(`${visitor.origin}/console/`);
  await tab.getByLabel("Token or kubeconfig").fill(issued.body.status.token);
  await tab.getByRole("button", { name: "Sign in" }).click();
  await tab.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await visitor.api("DELETE", `/api/v1/namespaces/default/serviceaccounts/${name}`);
  await tab.goto(`${visitor.origin}/console/settings`);
  await tab.getByLabel("Token or kubeconfig").waitFor();
  await other.close();
  check(page, "the other session stays");
}
