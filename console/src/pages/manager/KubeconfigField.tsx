// A kubeconfig that is pasted or read from a file, and the checks of it one by one.

import { type ReactNode, useRef } from "react";
import { t } from "../../i18n";
import { Badge, Button, Field, type Tone } from "../../ui/parts";

/** `children` are the actions next to the button that reads a file. */
export function KubeconfigField({ value, onChange, hint, rows = 9, children }: { value: string; onChange: (text: string) => void; hint: string; rows?: number; children?: ReactNode }) {
  const file = useRef<HTMLInputElement>(null);
  const read = (chosen: File | undefined) => void chosen?.text().then(onChange);
  return (
    <>
      <Field label="Kubeconfig" hint={hint}>
        {(id) => (
          <textarea
            id={id}
            className="textarea mono"
            rows={rows}
            spellCheck={false}
            autoComplete="off"
            value={value}
            onChange={(event) => onChange(event.target.value)}
            onDragOver={(event) => event.preventDefault()}
            onDrop={(event) => { event.preventDefault(); read(event.dataTransfer.files[0]); }}
          />
        )}
      </Field>
      <div className="row wrap">{children}<Button icon="apply" onClick={() => file.current?.click()}>{t("Choose a file")}</Button><input ref={file} type="file" hidden aria-label={t("Choose a file")} onChange={(event) => { read(event.target.files?.[0]); event.target.value = ""; }} /></div>
    </>
  );
}

export interface CheckStep {
  text: string;
  state: "done" | "failed" | "waiting";
  detail?: ReactNode;
}

const TONES: Record<CheckStep["state"], Tone> = { done: "ok", failed: "bad", waiting: "" };

export function CheckSteps({ steps }: { steps: CheckStep[] }) {
  const texts = { done: t("ok"), failed: t("failed"), waiting: t("waiting") };
  return (
    <ul className="stack tight">
      {steps.map(({ text, state, detail }) => (
        <li key={text}>
          <div className="row wrap" role={state === "failed" ? "alert" : undefined}>
            <Badge tone={TONES[state]}>{texts[state]}</Badge>
            <span>{text}</span>
            {detail && <span className="small muted" style={{ overflowWrap: "anywhere" }}>{detail}</span>}
          </div>
        </li>
      ))}
    </ul>
  );
}

interface Reached {
  server?: string;
  kubernetesVersion?: string;
}

/** The server itself refused or did not answer: its address is at the beginning of the message. */
const OF_SERVER = /^(kubeconfig: )?https:\/\/\S+ /;

/** The checks that every kubeconfig goes through; `shape` is what the page itself found. */
export function firstSteps({ checked, problem = "", shape }: { checked?: Reached; problem?: string; shape: string }, server: string): CheckStep[] {
  const isOfServer = OF_SERVER.test(problem);
  const isUnread = shape !== "" || (problem !== "" && !isOfServer);
  const isRead = !isUnread && (checked !== undefined || isOfServer);
  return [
    { text: t("The kubeconfig is complete and refers to no files or programs"), state: isRead ? "done" : isUnread ? "failed" : "waiting", detail: isUnread ? shape || problem : undefined },
    { text: server, state: checked ? "done" : isOfServer ? "failed" : "waiting", detail: checked?.server ? <><code>{checked.server}</code> · Kubernetes {checked.kubernetesVersion}</> : isOfServer ? problem : undefined },
  ];
}

/** What is wrong with a text that is meant to be a kubeconfig; empty for what only the server can judge. */
export function shapeProblem(text: string): string {
  if (!/(^|[{,])\s*["']?clusters["']?\s*:/m.test(text)) return t("It has no clusters.");
  if (!/(^|[{,])\s*["']?users["']?\s*:/m.test(text)) return t("It has no users.");
  return "";
}
