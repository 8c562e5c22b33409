// Requests to a port of a pod: the page forwards a connection to it and shows what it answers, as text.

import { useState } from "react";
import { t } from "../../i18n";
import { Badge, Button, Command, Dialog, Field, Loading } from "../../ui/parts";
import { type MemberPod, podsPath } from "./Pods";
import { type PortAnswer, requestPort } from "./portRequest";

const METHODS = ["GET", "HEAD", "OPTIONS"];

export const portsOf = (pod: MemberPod): number[] =>
  (pod.spec?.containers ?? []).flatMap((container: any) => (container.ports ?? []).filter((port: any) => (port.protocol ?? "TCP") === "TCP").map((port: any) => port.containerPort));

export function PortDialog({ pod, onClose }: { pod: MemberPod; onClose: () => void }) {
  const known = portsOf(pod);
  const [port, setPort] = useState(String(known[0] ?? 80));
  const [method, setMethod] = useState("GET");
  const [path, setPath] = useState("/");
  const [state, setState] = useState<{ busy?: boolean; answer?: PortAnswer; problem?: string }>({});
  const { name, namespace = "" } = pod.metadata;
  const number = Number(port);
  const valid = /^\d+$/.test(port) && number > 0 && number < 65_536 && /^\/[\x21-\x7e]*$/.test(path);
  const ask = async () => {
    setState({ busy: true });
    try {
      setState({ answer: await requestPort(podsPath(pod.cluster, namespace, name), number, method, path) });
    } catch (error) {
      setState({ problem: (error as Error).message });
    }
  };
  return (
    <Dialog wide title={t("Ports of {name}", { name: `${pod.cluster} / ${name}` })} onClose={onClose} onSubmit={() => valid && void ask()} footer={<><Button onClick={onClose}>{t("Close")}</Button><Button kind="primary" type="submit" disabled={!valid || state.busy === true}>{t("Send")}</Button></>}>
      <div className="grid-s">
        <Field label={t("Port")}>
          {(id) => <><input id={id} className="input" inputMode="numeric" list={`${id}-ports`} value={port} onChange={(event) => setPort(event.target.value)} /><datalist id={`${id}-ports`}>{known.map((one) => <option key={one} value={one} />)}</datalist></>}
        </Field>
        <Field label={t("Method")}>{(id) => <select id={id} className="select" value={method} onChange={(event) => setMethod(event.target.value)}>{METHODS.map((one) => <option key={one}>{one}</option>)}</select>}</Field>
        <Field label={t("Path")}>{(id) => <input id={id} className="input" value={path} onChange={(event) => setPath(event.target.value)} />}</Field>
      </div>
      {state.busy && <Loading text={t("Waiting for the answer…")} />}
      {state.problem && <div className="banner bad" role="alert">{state.problem}</div>}
      {state.answer && <Answer answer={state.answer} />}
      <p className="muted small">{t("Sends an HTTP request through the control plane with your permissions and shows the response as text. To forward the port to your machine:")}</p>
      <Command text={`flotilla expose ${name.slice(0, 40)} -C ${pod.cluster} -n ${namespace} --pod ${name} --port ${valid ? number : 80}`} />
    </Dialog>
  );
}

function Answer({ answer }: { answer: PortAnswer }) {
  const code = Number.parseInt(answer.status, 10);
  return (
    <section className="stack tight" aria-label={t("Answer")}>
      <div className="row"><Badge tone={code < 400 ? "ok" : "bad"}>{answer.status}</Badge><span className="small muted">{Math.round(answer.tookMs)} ms</span>{answer.cut && <span className="small muted">{t("only the first MiB")}</span>}</div>
      <pre className="pre" tabIndex={0} style={{ maxHeight: 110 }}>{answer.headers.map(([key, value]) => `${key}: ${value}`).join("\n")}</pre>
      {answer.body && <pre className="pre" tabIndex={0} style={{ maxHeight: 260 }}>{answer.body}</pre>}
    </section>
  );
}
