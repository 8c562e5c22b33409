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

/** Why a sign-in at the issuer failed, from the address. */
function takeFailure(): string {
  const code = /^#signin=(\w+)/.exec(location.hash)?.[1] ?? "";
  if (code) history.replaceState(null, "", location.pathname + location.search);
  return code;
}

const failure = takeFailure();

function failureText(): string | undefined {
  switch (failure) {
    case "":
      return undefined;
    case "expired":
      return t("The sign-in took too long or was started in another browser. Try again.");
    case "unreachable":
      return t("The identity provider does not answer. Try again, or sign in with a token.");
    default:
      return t("The identity provider or this control plane refused the sign-in. The log of the server has the reason.");
  }
}

const RETURN_TO = "flotilla-console-return";

/** Goes to the identity provider; the page that was open comes back afterwards. */
function signInAtIssuer() {
  try {
    // After a refused attempt the page that was wanted first is still the one to return to.
    if (location.pathname !== "/console/" || !sessionStorage.getItem(RETURN_TO)) sessionStorage.setItem(RETURN_TO, location.pathname + location.search);
  } catch {
    // Without storage the overview opens.
  }
  location.assign("/console/api/oidc/begin");
}

/** Opens the page from before the sign-in. */
function returnToPage() {
  const path = sessionStorage.getItem(RETURN_TO) ?? "";
  sessionStorage.removeItem(RETURN_TO);
  if (/^\/console\/[^/]/.test(path) && path !== location.pathname + location.search) location.replace(path);
}

async function begin(): Promise<State> {
  try {
    const user = await getJson<SessionUser>("/console/api/session", { anonymous: true });
    returnToPage();
    return { phase: "in", user };
  } catch (error) {
    if (error instanceof ApiError && error.code !== 401) return { phase: "down", error };
  }
  if (!ticket) return { phase: "out", note: failureText() };
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

interface Ways {
  oidc?: { issuer: string };
  password?: boolean;
}

/** Name and password of a local account of a manager. */
function PasswordFields({ onDone }: { onDone: (user: SessionUser) => void }) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [problem, setProblem] = useState("");
  const signIn = async () => {
    setProblem("");
    try {
      const { token } = await getJson<{ token: string }>("@/flotilla/manager/login", { method: "POST", anonymous: true, headers: { "Content-Type": "application/json" }, body: JSON.stringify({ user: name, password }) });
      onDone(await login(`Bearer ${token}`));
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  const onKeyDown = (event: React.KeyboardEvent) => {
    if (event.key !== "Enter" || !name || !password) return;
    event.preventDefault();
    void signIn();
  };
  return (
    <>
      <Field label={t("User")}>{(id) => <input id={id} className="input" autoComplete="username" value={name} onKeyDown={onKeyDown} onChange={(event) => setName(event.target.value)} />}</Field>
      <Field label={t("Password")} problem={problem}>{(id) => <input id={id} className="input" type="password" autoComplete="current-password" value={password} onKeyDown={onKeyDown} onChange={(event) => setPassword(event.target.value)} />}</Field>
      <Button kind="primary" disabled={!name || !password} onClick={() => void signIn()}>{t("Sign in with a password")}</Button>
    </>
  );
}

function SignIn({ note, onDone }: { note?: string; onDone: (user: SessionUser) => void }) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const [{ oidc, password: hasPasswords }, setWays] = useState<Ways>({});
  const issuer = oidc?.issuer;
  useEffect(() => {
    getJson<Ways>("/console/api/ways", { anonymous: true }).then(setWays, () => undefined);
  }, []);
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
      {issuer && (
        <>
          <Button kind="primary" onClick={signInAtIssuer}>{t("Sign in with {issuer}", { issuer: new URL(issuer).host })}</Button>
          <div className="or"><span>{t("or")}</span></div>
        </>
      )}
      {hasPasswords && <><PasswordFields onDone={onDone} /><div className="or"><span>{t("or")}</span></div></>}
      <Field label={t("Token or kubeconfig")} hint={t("A bearer token, or the text of a kubeconfig with one. It is sent to this control plane only and not stored in the browser.")} problem={problem}>
        {(id) => <textarea id={id} className="textarea mono" value={text} spellCheck={false} autoComplete="off" onChange={(event) => setText(event.target.value)} />}
      </Field>
      <Button kind={issuer || hasPasswords ? undefined : "primary"} type="submit" disabled={busy || !text.trim()}>{busy ? t("Signing in…") : t("Sign in")}</Button>
      <p className="muted small">{t("With a client certificate, print a link that signs you in:")}</p>
      <Command text="flotilla console" />
    </form>
  );
}
