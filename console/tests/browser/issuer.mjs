// A small OIDC issuer for tests: discovery, keys, a sign-in page and the code exchange with PKCE and a client secret.
// Usage: node issuer.mjs CERTIFICATE KEY; it prints its URL and runs until its input is closed.

import crypto from "node:crypto";
import { readFileSync } from "node:fs";
import https from "node:https";

const [certificate, key] = process.argv.slice(2);
const { publicKey, privateKey } = crypto.generateKeyPairSync("rsa", { modulusLength: 2048 });
const [CLIENT, SECRET] = ["flotilla", "client secret+1"];
const codes = new Map();
let url = "";

const base64 = (value) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");

function token(claims) {
  const body = `${base64({ alg: "RS256", kid: "one", typ: "JWT" })}.${base64(claims)}`;
  return `${body}.${crypto.sign("sha256", Buffer.from(body), privateKey).toString("base64url")}`;
}

async function text(request) {
  let all = "";
  for await (const part of request) all += part;
  return all;
}

const json = (response, code, value) => {
  response.writeHead(code, { "Content-Type": "application/json" });
  response.end(JSON.stringify(value));
};

async function exchange(request, response) {
  const form = new URLSearchParams(await text(request));
  const begun = codes.get(form.get("code"));
  codes.delete(form.get("code"));
  const challenge = crypto.createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url");
  const expected = `Basic ${Buffer.from(`${encodeURIComponent(CLIENT)}:${encodeURIComponent(SECRET)}`).toString("base64")}`;
  const isValid = begun && challenge === begun.challenge && form.get("redirect_uri") === begun.redirect && request.headers.authorization === expected;
  if (!isValid) return json(response, 400, { error: "invalid_grant" });
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: url, aud: CLIENT, sub: begun.user, nonce: begun.nonce, groups: ["dev"], iat: now, exp: now + 600 };
  json(response, 200, { access_token: "unused", token_type: "Bearer", id_token: token(claims) });
}

const server = https.createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, url);
  if (pathname === "/.well-known/openid-configuration") return json(response, 200, { issuer: url, authorization_endpoint: `${url}/authorize`, token_endpoint: `${url}/token`, jwks_uri: `${url}/keys` });
  if (pathname === "/keys") return json(response, 200, { keys: [{ ...publicKey.export({ format: "jwk" }), kid: "one", use: "sig", alg: "RS256" }] });
  if (pathname === "/token" && request.method === "POST") return exchange(request, response);
  if (pathname === "/authorize") {
    const hidden = [...searchParams].map(([name, value]) => `<input type="hidden" name="${encodeURIComponent(name)}" value="${encodeURIComponent(value)}">`).join("");
    response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" });
    return response.end(`<!doctype html><html lang="en"><title>Issuer</title><form action="/consent"><label>User <input name="user"></label>${hidden}<button>Continue</button></form>`);
  }
  if (pathname === "/consent") {
    const read = (name) => decodeURIComponent(searchParams.get(name) ?? "");
    const back = new URL(read("redirect_uri"));
    back.searchParams.set("state", read("state"));
    const isRight = read("response_type") === "code" && read("client_id") === CLIENT && read("code_challenge_method") === "S256" && read("scope").split(" ").includes("openid");
    if (!isRight || searchParams.get("user") === "refused") back.searchParams.set("error", "access_denied");
    else {
      const code = crypto.randomUUID();
      codes.set(code, { user: searchParams.get("user"), nonce: read("nonce"), challenge: read("code_challenge"), redirect: read("redirect_uri") });
      back.searchParams.set("code", code);
    }
    response.writeHead(302, { Location: back.href });
    return response.end();
  }
  json(response, 404, { error: "no such path" });
});
server.listen(0, "127.0.0.1", () => {
  url = `https://127.0.0.1:${server.address().port}`;
  console.log(url);
});
process.stdin.resume().on("end", () => process.exit(0));
