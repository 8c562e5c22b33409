// Answers that the server computes from many objects: read again when one of the objects changes.

import { type ApiError, getJson, query } from "./client";
import { pathOf, type Resource } from "./resources";
import { SharedList, type SharedState, useShared } from "./shared";

/** Changes are gathered for this long before the answer is read again. */
const GATHER_MS = 300;
/** Time between two reads, as a multiple of what one took. */
const REST_FACTOR = 8;
const METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST = METADATA.replace("PartialObjectMetadata", "PartialObjectMetadataList");

export interface FollowedSpec {
  path: string;
  /** The objects whose changes matter. */
  resource: Resource;
  /** Another kind whose changes matter, to users who may watch it. */
  further?: Resource;
  namespace?: string;
}

export interface Followed<T> extends SharedState {
  data?: T;
  reload: () => void;
}

const NONE: Followed<any> = { phase: "loading", stale: false, reload: () => {} };

/** Reports changes of the objects of a kind after a version. */
class Changes extends SharedList<SharedState> {
  constructor(private resource: Resource, private since: string, private changed: () => void) {
    super({ phase: "loading", stale: false });
    this.start();
  }

  protected clear() {}

  protected async load(signal: AbortSignal) {
    if (this.since) {
      this.version = this.since;
      this.since = "";
      return;
    }
    // The server no longer knows the version, so that changes were missed.
    const list = await getJson<{ metadata?: { resourceVersion?: string } }>(pathOf(this.resource) + query({ limit: 1 }), { signal, headers: { Accept: METADATA_LIST } });
    this.version = list.metadata?.resourceVersion ?? "";
    this.changed();
  }

  protected watchOf(parameters: Record<string, string | number | undefined>) {
    return { path: pathOf(this.resource) + query(parameters), accept: METADATA };
  }

  protected apply(type: string, object: any) {
    this.version = object?.metadata?.resourceVersion ?? this.version;
    if (type !== "BOOKMARK") this.changed();
  }
}

/** Exported for its unit test. */
export class FollowedAnswer<T> extends SharedList<Followed<T>> {
  private tookMs = 0;
  private further: Changes | undefined;

  constructor(private spec: FollowedSpec) {
    super({ ...NONE, reload: () => this.restart() });
    this.start();
  }

  protected clear() {}

  protected isFinal(problem: ApiError) {
    return super.isFinal(problem) || problem.code === 400;
  }

  protected async load(signal: AbortSignal) {
    this.version = await this.refresh(signal);
    const { further } = this.spec;
    if (further && !this.further && !signal.aborted) this.further = new Changes(further, this.version, () => this.changed(this.stop.signal));
  }

  end() {
    super.end();
    this.further?.end();
    this.further = undefined;
  }

  protected watchOf(parameters: Record<string, string | number | undefined>) {
    return { path: pathOf(this.spec.resource, this.spec.namespace) + query(parameters), accept: METADATA };
  }

  protected apply(type: string, object: any, signal: AbortSignal) {
    this.version = object?.metadata?.resourceVersion ?? this.version;
    if (type !== "BOOKMARK") this.changed(signal);
  }

  private changed(signal: AbortSignal) {
    this.timer ??= setTimeout(() => {
      void this.refresh(signal)
        // The stream notices a lost connection and reads everything again.
        .catch(() => undefined)
        .finally(() => (this.timer = undefined));
    }, Math.max(GATHER_MS, this.tookMs * REST_FACTOR));
  }

  private async refresh(signal: AbortSignal): Promise<string> {
    const started = performance.now();
    const data = await getJson<T & { metadata?: { resourceVersion?: string } }>(this.spec.path, { signal });
    this.tookMs = performance.now() - started;
    this.set({ phase: "ready", data, stale: false, error: undefined });
    return data.metadata?.resourceVersion ?? "";
  }
}

const shared = new Map<string, FollowedAnswer<any>>();

/** An answer that follows the objects it is about; components with the same spec share it. `undefined` loads nothing. */
export function useFollowed<T>(spec: FollowedSpec | undefined): Followed<T> {
  return useShared<Followed<T>, FollowedAnswer<T>>(shared, spec ? JSON.stringify(spec) : "", () => new FollowedAnswer<T>(spec!), NONE);
}
