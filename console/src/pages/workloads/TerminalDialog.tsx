// A terminal in a container, over a WebSocket with the rights of the user.

import { useEffect, useRef, useState } from "react";
import { apiBase, query } from "../../api/client";
import { t } from "../../i18n";
import { Dialog } from "../../ui/parts";
import { type MemberPod, podsPath } from "./Pods";
import "./logs.css";

/** Channels of the remote command protocol: the first byte of every message. */
const [STDIN, STDOUT, STDERR, STATUS, RESIZE] = [0, 1, 2, 3, 4];

export function TerminalDialog({ pod, onClose }: { pod: MemberPod; onClose: () => void }) {
  const parent = useRef<HTMLDivElement>(null);
  const [state, setState] = useState(t("Connecting…"));
  const container = pod.spec?.containers?.[0]?.name ?? "";
  useEffect(() => {
    let end = () => {};
    let cancelled = false;
    void import("./terminal").then(({ openTerminal }) => {
      if (cancelled || !parent.current) return;
      const terminal = openTerminal(parent.current);
      const parameters = `${query({ container, stdin: true, stdout: true, stderr: true, tty: true })}&command=/bin/sh`;
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
  }, [pod.cluster, pod.metadata.name]);
  return (
    <Dialog wide title={`${pod.cluster} / ${pod.metadata.name}`} onClose={onClose}>
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
