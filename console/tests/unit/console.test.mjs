// Checks of the sources that need no browser: translations, sizes, the lockfile.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");

function files(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? files(join(folder, entry.name)) : [join(folder, entry.name)]));
}

const sources = files(join(root, "src")).filter((file) => /\.tsx?$/.test(file));
const chinese = readFileSync(join(root, "src/i18n/zh.ts"), "utf8");
const translated = new Set([...chinese.matchAll(/(?:"((?:[^"\\]|\\.)*)"|(\w+)): "/g)].map((match) => match[1] ?? match[2]));

test("every text has a Chinese translation", () => {
  const missing = new Set();
  for (const file of sources.filter((one) => !one.includes("/i18n/"))) {
    const text = readFileSync(file, "utf8");
    for (const [, key] of text.matchAll(/\b(?:t|msg)\(\s*"((?:[^"\\]|\\.)*)"/g)) if (!translated.has(key)) missing.add(key);
    for (const [, inside] of text.matchAll(/\bt\(([^"()]*\?[^()]*)\)/g)) {
      for (const [, key] of inside.matchAll(/"((?:[^"\\]|\\.)*)"/g)) if (!translated.has(key)) missing.add(key);
    }
  }
  assert.deepEqual([...missing], []);
});

test("the menu has a Chinese translation", () => {
  const menu = readFileSync(join(root, "src/app/nav.ts"), "utf8");
  const texts = [...menu.matchAll(/(?:text|group): "([^"]+)"/g)].map((match) => match[1]);
  assert.ok(texts.length > 20, "the menu is read");
  assert.deepEqual(texts.filter((text) => !translated.has(text)), []);
});

test("a text with a translation that is chosen at run time is marked", () => {
  // Tables of texts are marked with `msg`, so that the first test finds them.
  for (const file of sources.filter((one) => !one.includes("/i18n/"))) {
    const text = readFileSync(file, "utf8");
    for (const [, table] of text.matchAll(/\bt\(([A-Z][A-Z_]+)\[/g)) {
      const body = new RegExp(`const ${table}\\b[^=]*= ([\\s\\S]*?)\\n?[}\\]];`).exec(text)?.[1] ?? "";
      assert.match(body, /\bmsg\("/, `${table} in ${file}`);
    }
  }
});

test("placeholders survive translation", () => {
  const names = (text) => [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).sort();
  for (const [, key, value] of chinese.matchAll(/"((?:[^"\\]|\\.)*)": "((?:[^"\\]|\\.)*)"/g)) assert.deepEqual(names(value), names(key), key);
});

test("no text is written as HTML", () => {
  for (const file of sources) assert.doesNotMatch(readFileSync(file, "utf8"), /dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|eval\(/, file);
});

test("files stay readable", () => {
  for (const file of sources.filter((one) => !one.endsWith("zh.ts"))) assert.ok(readFileSync(file, "utf8").split("\n").length <= 400, file);
});

test("the lockfile names no host", () => {
  assert.doesNotMatch(readFileSync(join(root, "package-lock.json"), "utf8"), /"resolved"/);
});

const KIB = 1024;
const dist = join(root, "dist");

test("the first load and all files stay within their budgets", { skip: !existsSync(join(dist, "index.html")) && "the console is not built" }, () => {
  const page = readFileSync(join(dist, "index.html"), "utf8");
  const first = [...page.matchAll(/(?:src|href)="\/console\/(assets\/[^"]+)"/g)].map((match) => statSync(join(dist, `${match[1]}.br`)).size);
  const all = files(dist).filter((file) => file.endsWith(".br")).map((file) => statSync(file).size);
  const sum = (sizes) => sizes.reduce((total, size) => total + size, 0) / KIB;
  assert.ok(first.length >= 2, "the page loads its script and its style");
  assert.ok(sum(first) <= 170, `first load ${sum(first).toFixed(1)} KiB`);
  assert.ok(Math.max(...all) / KIB <= 120, `largest file ${(Math.max(...all) / KIB).toFixed(1)} KiB`);
  assert.ok(sum(all) <= 600, `all files ${sum(all).toFixed(1)} KiB`);
  console.log(`first load ${sum(first).toFixed(1)} KiB, all files ${sum(all).toFixed(1)} KiB`);
});
