// Joins a cluster: with its kubeconfig, or with the command that installs an agent there.

import { lazy, Suspense, useState } from "react";
import { ApiError, instanceName, send } from "../../api/client";
import { usePermissions } from "../../api/manager";
import { t } from "../../i18n";
import { attempt, Button, Command, Dialog, Field, Segmented } from "../../ui/parts";
import { CheckSteps, firstSteps, KubeconfigField, shapeProblem } from "../manager/KubeconfigField";
import { isClusterName } from "../manager/names";
import { PullCommand } from "../manager/PullCommand";

const RegisterCluster = lazy(() => import("../manager/RegisterCluster").then((module) => ({ default: module.RegisterCluster })));

interface Props {
  mode: string;
  onMode: (mode: string) => void;
  onClose: () => void;
}

export function JoinDialog(props: Props) {
  return instanceName ? <JoinInstance {...props} /> : <JoinPlane {...props} />;
}

/** At a manager: through the inventory for those who may write it, otherwise with a token of the instance. */
function JoinInstance({ mode, onClose }: Props) {
  const registers = usePermissions()("inventory.write");
  const manages = usePermissions(instanceName)("clusters.manage");
  const [name, setName] = useState("");
  if (registers) return <Suspense fallback={null}><RegisterCluster instance={instanceName} mode={mode === "pull" ? "Pull" : "Push"} onClose={onClose} /></Suspense>;
  return (
    <Dialog wide title={t("Join a cluster")} onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      {manages ? (
        <>
          <p>{t("You can join clusters in pull mode: an agent connects from the cluster. Clusters with a kubeconfig are registered by users who manage the inventory.")}</p>
          <NameField value={name} onChange={setName} />
          {isClusterName(name) && <PullCommand key={name} instance={instanceName} cluster={name} />}
        </>
      ) : <p>{t("Only administrators of the instance can join clusters.")}</p>}
    </Dialog>
  );
}

function NameField({ value, onChange }: { value: string; onChange: (name: string) => void }) {
  const problem = value !== "" && !isClusterName(value) ? t("Lowercase letters, digits and dashes, at most 48 characters.") : "";
  return <Field label={t("Cluster name")} problem={problem}>{(id) => <input id={id} className="input" autoComplete="off" value={value} onChange={(event) => onChange(event.target.value)} />}</Field>;
}

function JoinPlane({ mode, onMode, onClose }: Props) {
  const [place, setPlace] = useState({ name: "", provider: "", region: "", zone: "" });
  const isPull = mode === "pull";
  const fields = [["provider", t("Provider (optional)")], ["region", t("Region (optional)")], ["zone", t("Zone (optional)")]] as const;
  const head = (
    <>
      <Segmented label={t("Mode")} value={isPull ? "pull" : "push"} onChange={onMode} options={[{ id: "push", text: t("Push: the control plane connects to the cluster") }, { id: "pull", text: t("Pull: an agent connects from the cluster") }]} />
      <div className="grid-s">
        <NameField value={place.name} onChange={(name) => setPlace({ ...place, name })} />
        {fields.map(([field, label]) => <Field key={field} label={label}>{(id) => <input id={id} className="input" value={place[field]} onChange={(event) => setPlace({ ...place, [field]: event.target.value })} />}</Field>)}
      </div>
    </>
  );
  return isPull ? <Pull place={place} head={head} onClose={onClose} /> : <Push place={place} head={head} onClose={onClose} />;
}

interface Place {
  name: string;
  provider: string;
  region: string;
  zone: string;
}

interface ModeProps {
  place: Place;
  head: React.ReactNode;
  onClose: () => void;
}

const flagsOf = ({ provider, region, zone }: Place) => [["provider", provider], ["region", region], ["zones", zone]].filter(([, value]) => value).map(([flag, value]) => ` --cluster-${flag} ${value}`).join("");

const JOIN = "/flotilla/v1alpha1/join";

interface Checked {
  server: string;
  kubernetesVersion: string;
  systemId: string;
}

interface Outcome {
  shape: string;
  checked?: Checked;
  /** What is wrong with the kubeconfig or with its server. */
  problem?: string;
  /** The cluster was reached and is known already. */
  taken?: string;
  /** The control plane did not try it. */
  refused?: string;
}

function outcomeOf(error: Error, shape: string): Outcome {
  const { message } = error;
  switch (error instanceof ApiError ? error.code : 0) {
    case 400:
      return { shape, problem: message };
    case 409:
      return { shape, taken: message };
    default:
      return { shape, refused: message };
  }
}

function Push({ place, head, onClose }: ModeProps) {
  const [kubeconfig, setKubeconfig] = useState("");
  const [outcome, setOutcome] = useState<Outcome>();
  const [busy, setBusy] = useState(false);
  const valid = isClusterName(place.name) && kubeconfig.trim() !== "" && !busy;
  const call = (dryRun: boolean) => send<Checked>("POST", JOIN, { ...place, kubeconfig, dryRun });
  const check = async () => {
    const shape = shapeProblem(kubeconfig);
    setOutcome({ shape });
    if (shape) return;
    setBusy(true);
    try {
      setOutcome({ shape, checked: await call(true) });
    } catch (error) {
      setOutcome(outcomeOf(error as Error, shape));
    }
    setBusy(false);
  };
  const join = async () => {
    setBusy(true);
    const done = await attempt(t("{name} is joined", { name: place.name }), () => call(false));
    setBusy(false);
    if (done) onClose();
  };
  return (
    <Dialog wide title={t("Join a cluster")} onClose={onClose} onSubmit={() => valid && void join()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit" disabled={!valid}>{t("Join")}</Button></>}>
      {head}
      <KubeconfigField rows={7} value={kubeconfig} hint={t("The kubeconfig of a cluster administrator, with a token or a client certificate. It is used once and not stored: joining creates a service account in the cluster.")} onChange={(text) => { setKubeconfig(text); setOutcome(undefined); }}><Button disabled={!valid} onClick={() => void check()}>{t("Check")}</Button></KubeconfigField>
      {outcome?.refused && <div className="banner bad" role="alert">{outcome.refused}</div>}
      {outcome && !outcome.refused && <CheckSteps steps={[...firstSteps({ ...outcome, checked: outcome.taken ? {} : outcome.checked }, t("The cluster answers")), { text: t("It is not joined yet"), state: outcome.checked ? "done" : outcome.taken ? "failed" : "waiting", detail: outcome.taken }]} />}
      <p className="muted small">{t("Or run this where you have the kubeconfig of the cluster:")}</p>
      <Command text={`flotilla join ${place.name || "NAME"} --cluster-kubeconfig FILE${flagsOf(place)}`} />
    </Dialog>
  );
}

interface Token {
  token: string;
  caCertHashes: string[];
  expireTime: string;
}

function Pull({ place, head, onClose }: ModeProps) {
  const [token, setToken] = useState<Token & { name: string }>();
  const shown = place.name || "NAME";
  const create = () => attempt(t("The command is ready"), async () => setToken({ ...(await send<Token>("POST", `${JOIN}/token`, { name: place.name })), name: place.name }));
  const isCurrent = token !== undefined && token.name === place.name;
  return (
    <Dialog wide title={t("Join a cluster")} onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      {head}
      {isCurrent ? (
        <>
          <p>{t("Run this where you have the kubeconfig of the cluster. It installs the agent there, which registers the cluster.")}</p>
          <Command text={`flotilla register ${location.host} --token ${token.token} \\\n  --discovery-token-ca-cert-hash ${token.caCertHashes.join(",")} --cluster-name ${token.name}${flagsOf(place)}`} />
          <p className="muted small">{t("The token in the command is valid for {cluster} only, is shown once and expires at {time}.", { cluster: token.name, time: token.expireTime.replace("T", " ").slice(0, 16) })}</p>
        </>
      ) : (
        <>
          <div><Button kind="primary" disabled={!isClusterName(place.name)} onClick={() => void create()}>{t("Generate command")}</Button></div>
          <p className="muted small">{t("Or create a token where you have the kubeconfig of this control plane. The output is the command to run with the kubeconfig of the cluster.")}</p>
          <Command text={`flotilla token create --cluster ${shown} --print-register-command`} />
        </>
      )}
      <p className="muted small">{t("The agent connects to the control plane, so the control plane does not need to reach the API server of the cluster.")}</p>
    </Dialog>
  );
}
