// A terminal in a container, over a WebSocket with the rights of the user.

import { useEffect, useRef, useState } from "react";
import { apiBase, query } from "../../api/client";
import { t } from "../../i18n";
import { containersOf, defaultContainer, wordsOfCommand } from "../../model/containers";
import { Button, Dialog, Field } from "../../ui/parts";
import { type MemberPod, podsPath } from "./Pods";
import "./logs.css";

/** Channels of the remote command protocol: the first byte of every message. */
const [STDIN, STDOUT, STDERR, STATUS, RESIZE] = [0, 1, 2, 3, 4];

const SHELLS = ["/bin/sh", "/bin/bash", "/bin/ash"];

export function TerminalDialog({ pod, onClose }: { pod: MemberPod; onClose: () => void }) {
  const parent = useRef<HTMLDivElement>(null);
  const [state, setState] = useState(t("Connecting…"));
  const [container, setContainer] = useState(() => defaultContainer(pod));
  const [typed, setTyped] = useState(SHELLS[0]!);
  const [command, setCommand] = useState(SHELLS[0]!);
  const [attempts, setAttempts] = useState(0);
  // Init containers have ended when a pod runs.
  const containers = containersOf(pod).filter((one) => one.kind !== "init");
  const run = (next: string) => {
    setTyped(next);
    setCommand(next);
    setAttempts(attempts + 1);
  };
  useEffect(() => {
    setState(t("Connecting…"));
    let end = () => {};
    let cancelled = false;
    void import("./terminal").then(({ openTerminal }) => {
      if (cancelled || !parent.current) return;
      const terminal = openTerminal(parent.current);
      const words = wordsOfCommand(command).map((word) => `&command=${encodeURIComponent(word)}`);
      const parameters = query({ container, stdin: true, stdout: true, stderr: true, tty: true }) + words.join("");
      const path = `${podsPath(pod.cluster, pod.metadata.namespace ?? "", pod.metadata.name)}/exec${parameters}`;
      const socket = new WebSocket(`wss://${location.host}${apiBase}${path}`, ["v5.channel.k8s.io", "v4.channel.k8s.io"]);
      socket.binaryType = "arraybuffer";
      const send = (channel: number, text: string) => {
        if (socket.readyState !== WebSocket.OPEN) return;
        const body = new TextEncoder().encode(text);
        const message = new Uint8Array(body.length + 1);
        message[0] = channel;
        message.set(body, 1);
        socket.send(message);
      };
      const resize = () => send(RESIZE!, JSON.stringify({ Width: terminal.columns(), Height: terminal.rows() }));
      socket.onopen = () => (setState(""), resize());
      socket.onmessage = ({ data }) => {
        const bytes = new Uint8Array(data as ArrayBuffer);
        if (bytes[0] === STDOUT || bytes[0] === STDERR) terminal.write(bytes.subarray(1));
        if (bytes[0] === STATUS) setState(statusText(new TextDecoder().decode(bytes.subarray(1))));
      };
      socket.onclose = () => setState((before) => before || t("The connection is closed"));
      socket.onerror = () => setState(t("The terminal could not be opened"));
      terminal.onInput((text) => send(STDIN!, text));
      terminal.onResize(resize);
      end = () => (socket.close(), terminal.destroy());
    });
    return () => {
      cancelled = true;
      end();
    };
  }, [pod.cluster, pod.metadata.name, container, command, attempts]);
  return (
    <Dialog wide title={`${pod.cluster} / ${pod.metadata.name}`} onClose={onClose} onSubmit={() => typed.trim() && run(typed.trim())}>
      <div className="grid-s">
        <Field label={t("Container")}>{(id) => <select id={id} className="select" value={container} onChange={(event) => setContainer(event.target.value)}>{containers.map((one) => <option key={one.name} value={one.name}>{one.kind ? `${one.name} (${one.kind})` : one.name}</option>)}</select>}</Field>
        <Field label={t("Shell or command")}>
          {(id) => (
            <span className="row">
              <input id={id} className="input grow" list={`${id}-shells`} spellCheck={false} value={typed} onChange={(event) => setTyped(event.target.value)} />
              <datalist id={`${id}-shells`}>{SHELLS.map((shell) => <option key={shell} value={shell} />)}</datalist>
              <Button type="submit" disabled={!typed.trim()}>{t("Run")}</Button>
            </span>
          )}
        </Field>
      </div>
      <div className="terminal" ref={parent} />
      <p className="small muted" role="status">{state || t("Connected to container {name}", { name: container })}</p>
    </Dialog>
  );
}

function statusText(text: string): string {
  try {
    const status = JSON.parse(text);
    return status.status === "Success" ? t("The shell has ended") : (status.message ?? text);
  } catch {
    return text;
  }
}
