// One HTTP request to a port of a pod, over a forwarded connection in a WebSocket.

import { apiBase, query } from "../../api/client";

/** Bytes of an answer that are read. */
const ANSWER_MAX = 1024 * 1024;
const WAIT_MS = 20_000;
/** Channels of the first port: bytes of the connection, and what went wrong with it. */
const [DATA, PROBLEM] = [0, 1];
/** Each channel begins with the number of its port. */
const PORT_BYTES = 2;

export interface PortAnswer {
  status: string;
  headers: [string, string][];
  body: string;
  /** The body is longer than what is read. */
  cut: boolean;
  tookMs: number;
}

/** `path` is that of the pod in the API; `method` and `target` are of the request to it. */
export function requestPort(path: string, port: number, method: string, target: string): Promise<PortAnswer> {
  const started = performance.now();
  return new Promise((done, fail) => {
    const socket = new WebSocket(`wss://${location.host}${apiBase}${path}/portforward${query({ ports: port })}`, ["v4.channel.k8s.io"]);
    socket.binaryType = "arraybuffer";
    let received = new Uint8Array(0);
    const begun = new Set<number>();
    const end = (action: () => void) => {
      clearTimeout(timer);
      socket.onclose = socket.onerror = socket.onmessage = null;
      socket.close();
      action();
    };
    const refuse = (text: string) => end(() => fail(new Error(text)));
    const timer = setTimeout(() => (received.length > 0 ? finish() : refuse("the port does not answer")), WAIT_MS);
    const finish = () => {
      const answer = readAnswer(received, performance.now() - started);
      if (answer) end(() => done(answer));
      else refuse(received.length > 0 ? "the port does not answer with HTTP" : "the connection was closed without an answer");
    };
    socket.onopen = () => {
      const text = `${method} ${target} HTTP/1.1\r\nHost: localhost:${port}\r\nConnection: close\r\nAccept: */*\r\nUser-Agent: flotilla-console\r\n\r\n`;
      const bytes = new TextEncoder().encode(text);
      const message = new Uint8Array(bytes.length + 1);
      message[0] = DATA!;
      message.set(bytes, 1);
      socket.send(message);
    };
    socket.onmessage = ({ data }) => {
      const bytes = new Uint8Array(data as ArrayBuffer);
      const channel = bytes[0] ?? DATA!;
      const content = bytes.subarray(begun.has(channel) ? 1 : 1 + PORT_BYTES);
      begun.add(channel);
      if (content.length === 0) return;
      if (channel === PROBLEM) return refuse(new TextDecoder().decode(content));
      received = joined(received, content);
      if (received.length > ANSWER_MAX || isWhole(received, method)) finish();
    };
    socket.onerror = () => refuse("the connection to the port could not be opened");
    socket.onclose = finish;
  });
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}

/** One character for each byte, so that positions in the text are positions of bytes. */
const latin = (bytes: Uint8Array) => new TextDecoder("latin1").decode(bytes);

interface Head {
  status: string;
  headers: [string, string][];
  /** Where the body begins. */
  bodyAt: number;
}

function readHead(text: string): Head | undefined {
  const bodyAt = text.indexOf("\r\n\r\n");
  if (bodyAt < 0 || !text.startsWith("HTTP/")) return undefined;
  const [first = "", ...lines] = text.slice(0, bodyAt).split("\r\n");
  const headers = lines.map((line): [string, string] => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]);
  return { status: first.replace(/^\S+\s*/, ""), headers, bodyAt: bodyAt + 4 };
}

const valueOf = ({ headers }: Head, name: string) => headers.find(([key]) => key.toLowerCase() === name)?.[1];
const isChunked = (head: Head) => valueOf(head, "transfer-encoding")?.toLowerCase() === "chunked";

function isWhole(bytes: Uint8Array, method: string): boolean {
  const text = latin(bytes);
  const head = readHead(text);
  if (!head) return false;
  if (method === "HEAD") return true;
  const length = valueOf(head, "content-length");
  if (length !== undefined) return bytes.length - head.bodyAt >= Number(length);
  return isChunked(head) && text.endsWith("\r\n0\r\n\r\n");
}

/** The content of chunks, each with its length in front. */
function unchunked(bytes: Uint8Array): Uint8Array {
  let content = new Uint8Array(0);
  for (let at = 0; at < bytes.length; ) {
    const line = latin(bytes.subarray(at, at + 32));
    const end = line.indexOf("\r\n");
    const size = end < 0 ? Number.NaN : Number.parseInt(line.slice(0, end), 16);
    if (!(size > 0)) break;
    content = joined(content, bytes.subarray(at + end + 2, at + end + 2 + size));
    at += end + 2 + size + 2;
  }
  return content;
}

export function readAnswer(bytes: Uint8Array, tookMs: number): PortAnswer | undefined {
  const head = readHead(latin(bytes.subarray(0, 64 * 1024)));
  if (!head) return undefined;
  const body = bytes.subarray(head.bodyAt);
  return { status: head.status, headers: head.headers, body: new TextDecoder().decode(isChunked(head) ? unchunked(body) : body), cut: bytes.length > ANSWER_MAX, tookMs };
}
