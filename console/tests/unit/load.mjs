// Loads TypeScript modules of the console, with stand-ins for what they read from a browser.

import { dirname, join } from "node:path";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import { createServer } from "vite";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");

globalThis.location ??= new URL("https://console.example/console/");
globalThis.navigator ??= { language: "en" };
globalThis.localStorage ??= { getItem: () => null, setItem: () => {} };
globalThis.matchMedia ??= () => ({ matches: false, addEventListener: () => {} });
globalThis.document ??= { documentElement: { dataset: {} }, querySelector: () => null };

let server;

after(() => server?.close());

/** The exports of a module below `src`, such as `model/links.ts`. */
export async function load(path) {
  server ??= await createServer({ root, configFile: false, appType: "custom", logLevel: "error", server: { middlewareMode: true, ws: false, hmr: false, watch: null }, optimizeDeps: { noDiscovery: true } });
  return server.ssrLoadModule(`/src/${path}`);
}
