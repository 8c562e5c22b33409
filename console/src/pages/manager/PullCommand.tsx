// The command with which a cluster registers itself in pull mode, and the agents that wait for approval.

import { useState } from "react";
import { send } from "../../api/client";
import { instancePath, useManager } from "../../api/manager";
import { t } from "../../i18n";
import { Age, attempt, Badge, Button, Command, Field } from "../../ui/parts";

interface Token {
  command: string;
  expireTime?: string;
}

interface Agent {
  name: string;
  cluster: string;
  requester: string;
  createTime?: string;
}

/** Lifetimes of a token in hours; the manager allows a week at most. */
const HOURS = [1, 24, 72, 168];
const REFRESH_MS = 5_000;

export function PullCommand({ instance, cluster }: { instance: string; cluster: string }) {
  const [hours, setHours] = useState(24);
  const [token, setToken] = useState<Token>();
  const [problem, setProblem] = useState("");
  const create = async () => {
    setProblem("");
    try {
      setToken(await send<Token>("POST", instancePath(instance, "/registration-tokens"), { cluster, expirationSeconds: hours * 3600 }));
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <div className="stack">
      {token ? (
        <>
          <p>{t("Run this where you have the kubeconfig of the cluster. It installs the agent there, which registers the cluster.")}</p>
          <Command text={token.command} />
          <p className="muted small">{t("The token in the command is valid for {cluster} only, is shown once and expires at {time}.", { cluster, time: token.expireTime?.replace("T", " ").slice(0, 16) ?? "" })}</p>
        </>
      ) : (
        <div className="row wrap" style={{ alignItems: "end" }}>
          <Field label={t("The command is valid for")}>{(id) => <select id={id} className="select" value={hours} onChange={(event) => setHours(Number(event.target.value))}>{HOURS.map((one) => <option key={one} value={one}>{one < 48 ? t("{count} h", { count: one }) : t("{count} days", { count: one / 24 })}</option>)}</select>}</Field>
          <Button kind="primary" disabled={cluster === ""} onClick={() => void create()}>{t("Generate command")}</Button>
        </div>
      )}
      {problem && <div className="banner bad" role="alert">{problem}</div>}
      <PendingAgents instance={instance} cluster={cluster} />
    </div>
  );
}

/** Agents whose certificate nobody has approved yet. Those that come with a token of the manager are approved by themselves. */
function PendingAgents({ instance, cluster }: { instance: string; cluster: string }) {
  const list = useManager<{ agents?: Agent[] }>(instancePath(instance, "/agents:pending"), { refreshMs: REFRESH_MS });
  const agents = (list.data?.agents ?? []).filter((one) => one.cluster === cluster);
  const approve = (name: string) => attempt(t("The agent is approved"), () => send("POST", instancePath(instance, `/agents/${encodeURIComponent(name)}:approve`), {})).then(() => list.refetch());
  if (agents.length === 0) return null;
  return (
    <ul className="stack tight">
      {agents.map((one) => (
        <li className="row wrap" key={one.name}>
          <Badge tone="warn">{t("waits for approval")}</Badge>
          <span>{t("Agent of {cluster}", { cluster: one.cluster })}</span>
          <span className="small muted">{one.requester} · <Age at={one.createTime} ago /></span>
          <Button small onClick={() => void approve(one.name)}>{t("Approve")}</Button>
        </li>
      ))}
    </ul>
  );
}
