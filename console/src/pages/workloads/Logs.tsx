// Logs of one or many pods, merged in the order of arrival.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { query, request } from "../../api/client";
import { t } from "../../i18n";
import { Button, Card, Loading } from "../../ui/parts";
import { type MemberPod, podsPath } from "./Pods";
import "./logs.css";

interface Line {
  source: number;
  text: string;
}

const LINES_MAX = 5_000;
const PODS_MAX = 12;

export function Logs({ pods, onClose }: { pods: MemberPod[]; onClose: () => void }) {
  const [lines, setLines] = useState<Line[]>([]);
  const [follow, setFollow] = useState(true);
  const [filter, setFilter] = useState("");
  const [ended, setEnded] = useState(0);
  const keys = pods.slice(0, PODS_MAX).map((pod) => `${pod.cluster}/${pod.metadata.name}`);
  const shownPods = useMemo(() => pods.slice(0, PODS_MAX), [keys.join()]);
  useEffect(() => {
    const stop = new AbortController();
    setLines([]);
    setEnded(0);
    const pending: Line[] = [];
    const timer = setInterval(() => {
      if (pending.length > 0) {
        const arrived = pending.splice(0);
        setLines((before) => [...before, ...arrived].slice(-LINES_MAX));
      }
    }, 150);
    shownPods.forEach((pod, source) => {
      void stream(pod, stop.signal, (text) => pending.push({ source, text })).catch((error) => {
        if (!stop.signal.aborted) pending.push({ source, text: `! ${(error as Error).message}` });
      }).finally(() => !stop.signal.aborted && setEnded((count) => count + 1));
    });
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, [shownPods]);
  const needle = filter.toLowerCase();
  const shown = needle ? lines.filter((line) => line.text.toLowerCase().includes(needle)) : lines;
  const scroll = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: shown.length, getScrollElement: () => scroll.current, estimateSize: () => 20, overscan: 30 });
  useEffect(() => {
    if (follow && shown.length > 0) virtual.scrollToIndex(shown.length - 1);
  }, [shown.length, follow]);
  const actions = (
    <>
      <input className="input" style={{ width: 180, height: 28 }} type="search" aria-label={t("Filter the log")} placeholder={t("Filter")} value={filter} onChange={(event) => setFilter(event.target.value)} />
      <Button small pressed={follow} onClick={() => setFollow(!follow)}>{follow ? t("Following") : t("Follow")}</Button>
      <Button small kind="ghost" icon="close" label={t("Close the logs")} onClick={onClose} />
    </>
  );
  return (
    <Card title={shownPods.length === 1 ? keys[0] : t("Logs of {count} pods", { count: shownPods.length })} actions={actions} flush>
      <div className="log" ref={scroll} tabIndex={0} role="log" aria-label={t("Logs")}>
        {lines.length === 0 && (ended < shownPods.length ? <Loading text={t("Waiting for output…")} /> : <p className="muted" style={{ padding: 16 }}>{t("The pods have written nothing.")}</p>)}
        <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {virtual.getVirtualItems().map((item) => {
            const line = shown[item.index]!;
            return (
              <div className="log-line" key={item.index} ref={virtual.measureElement} data-index={item.index} style={{ transform: `translateY(${item.start}px)` }}>
                {shownPods.length > 1 && <span className="log-source" style={{ color: `var(--c${(line.source % 6) + 1})` }} title={keys[line.source]}>{keys[line.source]}</span>}
                <span>{line.text}</span>
              </div>
            );
          })}
        </div>
      </div>
    </Card>
  );
}

async function stream(pod: MemberPod, signal: AbortSignal, add: (text: string) => void) {
  const container = pod.spec?.containers?.[0]?.name;
  const path = `${podsPath(pod.cluster, pod.metadata.namespace ?? "", pod.metadata.name)}/log${query({ container, follow: true, tailLines: 500 })}`;
  const response = await request(path, { signal, headers: { Accept: "*/*" } });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop() ?? "";
    // Escape codes of terminals are not shown.
    for (const part of parts) add(part.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, ""));
  }
  if (rest) add(rest);
}
