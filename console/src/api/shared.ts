// Lists that components share: one for each description, ended a moment after its last user, with one watch stream that
// resumes after an interruption.

import { useEffect, useMemo, useSyncExternalStore } from "react";
import { ApiError, request } from "./client";

const LINGER_MS = 4_000;
const BACKOFF_MS = [500, 1_000, 2_000, 5_000, 10_000];
const WATCH_SECONDS = 280;

export interface SharedState {
  phase: "loading" | "ready" | "error";
  /** The stream is interrupted; what is shown may be old. */
  stale: boolean;
  error?: ApiError;
}

type Options = Record<string, string | number | undefined>;

/** A list that is loaded and then followed. Constructors call `start` last. */
export abstract class SharedList<S extends SharedState> {
  users = 0;
  protected version = "";
  protected stop = new AbortController();
  protected timer: ReturnType<typeof setTimeout> | undefined;
  private listeners = new Set<() => void>();

  protected constructor(protected state: S) {}

  /** Loads the list from its beginning; sets the version. */
  protected abstract load(signal: AbortSignal): Promise<void>;
  /** Forgets everything loaded. */
  protected abstract clear(): void;
  /** Path and accepted type of the watch with these parameters. */
  protected abstract watchOf(parameters: Options): { path: string; accept: string };
  /** Takes in one event of the watch; errors do not reach it. */
  protected abstract apply(type: string, object: any, signal: AbortSignal): void;

  /** Nothing follows the list once it is loaded. */
  protected isOnce(): boolean {
    return false;
  }

  /** Rights and missing kinds do not change by asking again at once. */
  protected isFinal(problem: ApiError): boolean {
    return problem.forbidden || problem.notFound || problem.code === 401;
  }

  /** What is shown stays, marked as old. */
  protected keepsItems(problem: ApiError): boolean {
    return !this.isFinal(problem);
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  snapshot = () => this.state;

  end() {
    this.stop.abort();
    clearTimeout(this.timer);
  }

  protected start() {
    void this.run(this.stop.signal);
  }

  protected restart() {
    this.end();
    this.stop = new AbortController();
    this.timer = undefined;
    this.clear();
    this.set({ phase: "loading", error: undefined, stale: false } as Partial<S>);
    this.start();
  }

  protected set(change: Partial<S>) {
    this.state = { ...this.state, ...change };
    for (const listener of this.listeners) listener();
  }

  private async run(signal: AbortSignal) {
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
        await this.load(signal);
        attempt = 0;
        if (this.isOnce()) return;
        await this.follow(signal);
      } catch (error) {
        if (signal.aborted) return;
        const problem = error instanceof ApiError ? error : new ApiError(0, "Unreachable", String(error));
        if (this.state.phase === "ready" && this.keepsItems(problem)) this.set({ stale: true, error: problem } as Partial<S>);
        else this.set({ phase: "error", error: problem } as Partial<S>);
        if (this.isFinal(problem)) return;
        await backoff(attempt, signal);
      }
    }
  }

  /** Watches until the server no longer knows our version; a list follows then. */
  private async follow(signal: AbortSignal) {
    for (let failures = 0; !signal.aborted; ) {
      try {
        const { path, accept } = this.watchOf({ watch: 1, resourceVersion: this.version, allowWatchBookmarks: "true", timeoutSeconds: WATCH_SECONDS });
        const response = await request(path, { signal, headers: { Accept: accept } });
        if (this.state.stale) this.set({ stale: false, error: undefined } as Partial<S>);
        failures = 0;
        const opened = Date.now();
        for await (const event of lines(response)) {
          if (event.type === "ERROR") {
            if (event.object?.code === 410) return;
            throw new ApiError(event.object?.code ?? 500, event.object?.reason ?? "", event.object?.message ?? "the stream ended");
          }
          this.apply(event.type, event.object, signal);
        }
        // Something on the way that ends streams at once must not be asked again and again.
        if (Date.now() - opened < 1_000) await pause(1_000, signal);
      } catch (error) {
        if (signal.aborted) return;
        const problem = error instanceof ApiError ? error : new ApiError(0, "Unreachable", "the stream was interrupted");
        if (problem.code === 410) return;
        if (problem.forbidden || problem.code === 401) throw problem;
        this.set({ stale: true, error: problem } as Partial<S>);
        await backoff(failures++, signal);
      }
    }
  }
}

/** Waits longer after each failed attempt. */
export const backoff = (attempt: number, signal: AbortSignal) => pause(BACKOFF_MS[Math.min(attempt, BACKOFF_MS.length - 1)] ?? 10_000, signal);

export const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });

/** The JSON documents of a response, one in each line. */
export async function* lines(response: Response): AsyncGenerator<any> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop() ?? "";
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}

const emptySubscribe = () => () => {};

/** The state of the list of this description; components with the same key share one list. An empty key has none. */
export function useShared<S extends SharedState, L extends SharedList<S>>(shared: Map<string, L>, key: string, create: () => L, none: S): S {
  const list = useMemo(() => {
    if (!key) return undefined;
    let found = shared.get(key);
    if (!found) {
      found = create();
      shared.set(key, found);
    }
    return found;
  }, [key]);
  useEffect(() => {
    if (!list) return;
    list.users += 1;
    return () => {
      list.users -= 1;
      setTimeout(() => {
        if (list.users > 0 || shared.get(key) !== list) return;
        shared.delete(key);
        list.end();
      }, LINGER_MS);
    };
  }, [list, key]);
  return useSyncExternalStore(list ? list.subscribe : emptySubscribe, list ? list.snapshot : () => none);
}
