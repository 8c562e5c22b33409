// Lists and answers that the console reads in parts or keeps current.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { load } from "./load.mjs";

const { podsOf, PODS_MAX, refreshOf } = await load("api/memberPods.ts");
const { FollowedAnswer } = await load("api/followed.ts");
const { BINDINGS, CLUSTER_BINDINGS } = await load("api/resources.ts");

let asked;
let answer;

beforeEach(() => {
  asked = [];
  globalThis.fetch = async (address, { signal } = {}) => {
    const url = new URL(address, "https://console.example");
    asked.push(url);
    return answer(url, signal);
  };
});

/** A server with this many pods; with a selector it does not count what remains, as kube-apiserver. */
const serverWith = (count, counts) => (url) => {
  const from = Number(url.searchParams.get("continue") ?? 0);
  const to = Math.min(count, from + Number(url.searchParams.get("limit")));
  const items = Array.from({ length: to - from }, (_, index) => ({ metadata: { name: `p${from + index}` } }));
  return Response.json({ items, metadata: to < count ? { continue: String(to), ...(counts && { remainingItemCount: count - to }) } : {} });
};

test("pods of all pages are read", async () => {
  answer = serverWith(1_200, false);
  const pods = await podsOf("/pods", "app=web");
  assert.deepEqual([pods.items.length, pods.hasMore, pods.total], [1_200, false, 1_200]);
  assert.equal(new Set(pods.items.map((pod) => pod.metadata.name)).size, 1_200);
  assert.deepEqual(asked.map((url) => url.searchParams.get("labelSelector")), ["app=web", "app=web", "app=web"]);
  assert.ok(refreshOf(pods) > refreshOf({ items: [], hasMore: false }), "long lists are read less often");
});

test("a list that is cut says so, with the total where the server counts", async () => {
  answer = serverWith(PODS_MAX + 700, false);
  const uncounted = await podsOf("/pods", "app=web");
  assert.deepEqual([uncounted.items.length, uncounted.hasMore, uncounted.total], [PODS_MAX, true, undefined]);
  answer = serverWith(PODS_MAX + 700, true);
  assert.equal((await podsOf("/pods", "app=web")).total, PODS_MAX + 700);
});

/** Waits for a condition with a deadline. */
async function eventually(what, holds) {
  const end = Date.now() + 5_000;
  while (!holds()) {
    assert.ok(Date.now() < end, `timed out: ${what}`);
    await new Promise((done) => setTimeout(done, 10));
  }
}

test("an answer follows two kinds, and one where the other may not be watched", async () => {
  const encoder = new TextEncoder();
  for (const forbidden of [false, true]) {
    let version = 5;
    const streams = new Map();
    answer = (url, signal) => {
      if (url.pathname === "/summary") return Response.json({ metadata: { resourceVersion: String(version) }, total: version });
      const kind = url.pathname.split("/").at(-1);
      if (forbidden && kind === CLUSTER_BINDINGS.plural) return Response.json({ code: 403, reason: "Forbidden", message: "no" }, { status: 403 });
      return new Response(new ReadableStream({ start: (stream) => { streams.set(kind, { stream, from: url.searchParams.get("resourceVersion") }); signal.addEventListener("abort", () => stream.error(signal.reason)); } }));
    };
    const followed = new FollowedAnswer({ path: "/summary", resource: BINDINGS, further: CLUSTER_BINDINGS });
    const kinds = forbidden ? [BINDINGS.plural] : [BINDINGS.plural, CLUSTER_BINDINGS.plural];
    await eventually("watches are open", () => streams.size === kinds.length);
    for (const kind of kinds) {
      assert.equal(streams.get(kind).from, "5", "a watch starts where the answer was computed");
      version += 1;
      const event = { type: "MODIFIED", object: { metadata: { name: "one", resourceVersion: String(version) } } };
      streams.get(kind).stream.enqueue(encoder.encode(`${JSON.stringify(event)}\n`));
      await eventually(`a change of ${kind} is shown`, () => followed.snapshot().data?.total === version);
    }
    assert.equal(followed.snapshot().phase, "ready", "the other kind does not hide the answer");
    followed.end();
  }
});
