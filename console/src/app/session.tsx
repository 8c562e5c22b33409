// Sign-in: with a ticket from the address, or with a token.

import { type FormEvent, useEffect, useState } from "react";
import { ApiError, getJson, request, signedOut } from "../api/client";
import { t } from "../i18n";
import logo from "../logo.svg";
import { Button, Command, Field, Loading, Problem } from "../ui/parts";

export interface SessionUser {
  user: string;
  groups: string[];
  /** The server is a manager of instances and not a control plane itself. */
  managesInstances?: boolean;
}

type State = { phase: "checking" } | { phase: "out"; note?: string } | { phase: "down"; error: ApiError } | { phase: "in"; user: SessionUser };

const login = (authorization: string) =>
  getJson<SessionUser>("/console/api/login", { method: "POST", anonymous: true, headers: { Authorization: authorization } });

export async function logout() {
  await request("/console/api/logout", { method: "POST", anonymous: true }).catch(() => undefined);
  location.assign("/console/");
}

/** Takes the ticket out of the address, so that it stays in no history. */
function takeTicket(): string {
  const ticket = /^#ticket=([\w-]+)/.exec(location.hash)?.[1] ?? "";
  if (ticket) history.replaceState(null, "", location.pathname + location.search);
  return ticket;
}

const ticket = takeTicket();

async function begin(): Promise<State> {
  try {
    return { phase: "in", user: await getJson<SessionUser>("/console/api/session", { anonymous: true }) };
  } catch (error) {
    if (error instanceof ApiError && error.code !== 401) return { phase: "down", error };
  }
  if (!ticket) return { phase: "out" };
  try {
    return { phase: "in", user: await login(`Ticket ${ticket}`) };
  } catch (error) {
    return { phase: "out", note: (error as Error).message };
  }
}

let beginning: Promise<State> | undefined;

export function useSession(): [State, (state: State) => void] {
  const [state, setState] = useState<State>({ phase: "checking" });
  useEffect(() => {
    beginning ??= begin();
    void beginning.then(setState);
    const ended = () => setState({ phase: "out", note: t("Your session has ended. Sign in again.") });
    signedOut.addEventListener("end", ended);
    return () => signedOut.removeEventListener("end", ended);
  }, []);
  return [state, setState];
}

export function SessionGate({ children }: { children: (user: SessionUser) => React.ReactNode }) {
  const [state, setState] = useSession();
  if (state.phase === "in") return children(state.user);
  return (
    <main className="signin">
      <div className="card signin-card">
        <img src={logo} alt="" width={44} height={44} />
        <h1>Flotilla</h1>
        {state.phase === "checking" && <Loading text={t("Connecting…")} />}
        {state.phase === "down" && <Problem error={state.error} retry={() => location.reload()} />}
        {state.phase === "out" && <SignIn note={state.note} onDone={(user) => setState({ phase: "in", user })} />}
      </div>
    </main>
  );
}

/** The token in a pasted kubeconfig, or the text itself. */
async function tokenOf(text: string): Promise<string> {
  if (!/^\s*(apiVersion|clusters|kind|users):/m.test(text)) return text.trim();
  const { parse } = await import("yaml");
  const config = parse(text);
  const context = config["current-context"];
  const name = config.contexts?.find((one: any) => one.name === context)?.context?.user;
  const user = (config.users?.find((one: any) => one.name === name) ?? config.users?.[0])?.user;
  if (user?.token) return user.token;
  throw new Error(t("This kubeconfig has no token. Run the command below to get a link that signs you in."));
}

function SignIn({ note, onDone }: { note?: string; onDone: (user: SessionUser) => void }) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      onDone(await login(`Bearer ${await tokenOf(text)}`));
    } catch (error) {
      setProblem((error as Error).message);
      setBusy(false);
    }
  };
  return (
    <form className="stack" onSubmit={(event) => void submit(event)}>
      {note && <div className="banner" role="status">{note}</div>}
      <Field label={t("Token or kubeconfig")} hint={t("A bearer token, or the text of a kubeconfig with one. It is sent to this control plane only and not stored in the browser.")} problem={problem}>
        {(id) => <textarea id={id} className="textarea mono" value={text} spellCheck={false} autoComplete="off" onChange={(event) => setText(event.target.value)} />}
      </Field>
      <Button kind="primary" type="submit" disabled={busy || !text.trim()}>{busy ? t("Signing in…") : t("Sign in")}</Button>
      <p className="muted small">{t("With a client certificate, print a link that signs you in:")}</p>
      <Command text="flotilla console" />
    </form>
  );
}
