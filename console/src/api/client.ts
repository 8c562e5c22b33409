// Requests to the Kubernetes API of the current instance, with the rights of the signed-in user.

export interface StatusCause {
  reason?: string;
  message?: string;
  field?: string;
}

/** An answer other than 2xx, or no answer (code 0). */
export class ApiError extends Error {
  constructor(
    readonly code: number,
    readonly reason: string,
    message: string,
    readonly causes: StatusCause[] = [],
    readonly auditId = "",
  ) {
    super(message);
  }
  get forbidden() {
    return this.code === 403;
  }
  get notFound() {
    return this.code === 404;
  }
  get unreachable() {
    return this.code === 0;
  }
}

/** Fired when the session has ended. */
export const signedOut = new EventTarget();

/** The name of the instance in the address, when a manager serves several. */
export const instanceName = /^\/console\/i\/([^/]+)/.exec(location.pathname)?.[1] ?? "";
export const routerBase = instanceName ? `/console/i/${instanceName}` : "/console";
export const apiBase = instanceName ? `/instances/${instanceName}` : "";

/** A path of the server itself also within an instance. */
export const ofServer = (path: string) => `@${path}`;

function address(path: string): string {
  if (path.startsWith("@")) return path.slice(1);
  return path.startsWith("/console/") ? path : apiBase + path;
}

export interface RequestOptions extends RequestInit {
  /** Do not report a 401 as the end of the session. */
  anonymous?: boolean;
}

export async function request(path: string, options: RequestOptions = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  headers.set("X-Flotilla-Console", "1");
  if (!headers.has("Accept")) headers.set("Accept", "application/json");
  let response: Response;
  try {
    response = await fetch(address(path), { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "Unreachable", "the control plane does not answer");
  }
  if (response.ok) return response;
  if (response.status === 401 && !options.anonymous) signedOut.dispatchEvent(new Event("end"));
  throw await errorOf(response);
}

async function errorOf(response: Response): Promise<ApiError> {
  const auditId = response.headers.get("audit-id") ?? "";
  const text = await response.text().catch(() => "");
  try {
    const status = JSON.parse(text);
    const { reason = "", causes = [] } = Array.isArray(status.details) ? ofManager(status.details) : { reason: status.reason, causes: status.details?.causes };
    return new ApiError(response.status, reason, status.message ?? text, causes, auditId);
  } catch {
    return new ApiError(response.status, response.statusText, text.slice(0, 500) || `HTTP ${response.status}`, [], auditId);
  }
}

/** Reason and causes of an error of the manager's own API. */
function ofManager(details: any[]): { reason?: string; causes?: StatusCause[] } {
  const violations = details.flatMap((one) => one.fieldViolations ?? []);
  return { reason: details.find((one) => one.reason)?.reason, causes: violations.map(({ field, description }: any) => ({ field, message: description })) };
}

export async function getJson<T>(path: string, options: RequestOptions = {}): Promise<T> {
  return (await request(path, options)).json() as Promise<T>;
}

export async function send<T>(method: string, path: string, body: unknown, contentType = "application/json"): Promise<T> {
  const headers = { "Content-Type": contentType };
  const response = await request(path, { method, headers, body: typeof body === "string" ? body : JSON.stringify(body) });
  return response.json() as Promise<T>;
}

export const mergePatch = <T>(path: string, patch: unknown) => send<T>("PATCH", path, patch, "application/merge-patch+json");
export const jsonPatch = <T>(path: string, patch: unknown) => send<T>("PATCH", path, patch, "application/json-patch+json");

/** The field manager of everything the console applies. */
export const FIELD_MANAGER = "flotilla-console";

export function query(parameters: Record<string, string | number | boolean | undefined>): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) if (value !== undefined && value !== "") search.set(key, String(value));
  const text = search.toString();
  return text ? `?${text}` : "";
}
