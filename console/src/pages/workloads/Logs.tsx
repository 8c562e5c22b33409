// Logs of one or many pods, merged in the order of arrival.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { query, request } from "../../api/client";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { chosenContainers, containersOfAll } from "../../model/containers";
import { Button, Card, Loading } from "../../ui/parts";
import { type MemberPod, podsPath } from "./Pods";
import "./logs.css";

interface Line {
  source: number;
  text: string;
}

const LINES_MAX = 5_000;
/** Streams that are open at once. */
const SOURCES_MAX = 12;

interface Source {
  pod: MemberPod;
  container: string;
}

export function Logs({ pods, onClose }: { pods: MemberPod[]; onClose: () => void }) {
  const [lines, setLines] = useState<Line[]>([]);
  const [follow, setFollow] = useState(true);
  const [filter, setFilter] = useState("");
  const [ended, setEnded] = useState(0);
  const [container, setContainer] = useUrlState("container", "");
  const [previous, setPrevious] = useUrlState("previous", "");
  const containers = containersOfAll(pods);
  const all: Source[] = pods.flatMap((pod) => chosenContainers(pod, container).map((name) => ({ pod, container: name })));
  const shownSources = all.slice(0, SOURCES_MAX);
  const keys = shownSources.map(({ pod, container: name }) => `${pod.cluster}/${pod.metadata.name}${containers.length > 1 ? `/${name}` : ""}`);
  const sources = useMemo(() => shownSources, [keys.join()]);
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
    sources.forEach((one, source) => {
      void stream(one, previous !== "", stop.signal, (text) => pending.push({ source, text })).catch((error) => {
        if (!stop.signal.aborted) pending.push({ source, text: `! ${(error as Error).message}` });
      }).finally(() => !stop.signal.aborted && setEnded((count) => count + 1));
    });
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, [sources, previous]);
  const needle = filter.toLowerCase();
  const shown = needle ? lines.filter((line) => line.text.toLowerCase().includes(needle)) : lines;
  const scroll = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: shown.length, getScrollElement: () => scroll.current, estimateSize: () => 20, overscan: 30 });
  useEffect(() => {
    if (follow && shown.length > 0) virtual.scrollToIndex(shown.length - 1);
  }, [shown.length, follow]);
  const actions = (
    <>
      {containers.length > 1 && (
        <select className="select" style={{ width: "auto", height: 28 }} aria-label={t("Container")} value={container} onChange={(event) => setContainer(event.target.value)}>
          <option value="">{t("Main container")}</option>
          <option value="*">{t("All containers")}</option>
          {containers.map((one) => <option key={one.name} value={one.name}>{one.kind ? `${one.name} (${one.kind})` : one.name}</option>)}
        </select>
      )}
      <Button small pressed={previous !== ""} onClick={() => setPrevious(previous ? "" : "yes")}>{t("Previous container")}</Button>
      <input className="input" style={{ width: 180, height: 28 }} type="search" aria-label={t("Filter the log")} placeholder={t("Filter")} value={filter} onChange={(event) => setFilter(event.target.value)} />
      <Button small pressed={follow} onClick={() => setFollow(!follow)}>{follow ? t("Following") : t("Follow")}</Button>
      <Button small kind="ghost" icon="close" label={t("Close the logs")} onClick={onClose} />
    </>
  );
  return (
    <Card title={sources.length === 1 ? keys[0] : all.length > sources.length ? t("Logs of {shown} of {count} containers", { shown: sources.length, count: all.length }) : t("Logs of {count} containers", { count: sources.length })} actions={actions} flush>
      <div className="log" ref={scroll} tabIndex={0} role="log" aria-label={t("Logs")}>
        {lines.length === 0 && (ended < sources.length ? <Loading text={t("Waiting for output…")} /> : <p className="muted" style={{ padding: 16 }}>{previous ? t("No container was restarted, or its previous log is not available.") : t("The pods have not written any logs.")}</p>)}
        <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {virtual.getVirtualItems().map((item) => {
            const line = shown[item.index]!;
            return (
              <div className="log-line" key={item.index} ref={virtual.measureElement} data-index={item.index} style={{ transform: `translateY(${item.start}px)` }}>
                {sources.length > 1 && <span className="log-source" style={{ color: `var(--c${(line.source % 6) + 1})` }} title={keys[line.source]}>{keys[line.source]}</span>}
                <span>{line.text}</span>
              </div>
            );
          })}
        </div>
      </div>
    </Card>
  );
}

/** The log as it grows, or the whole one of the container's former run. */
async function stream({ pod, container }: Source, previous: boolean, signal: AbortSignal, add: (text: string) => void) {
  const options = previous ? { container, previous: true, tailLines: 2_000 } : { container, follow: true, tailLines: 500 };
  const path = `${podsPath(pod.cluster, pod.metadata.namespace ?? "", pod.metadata.name)}/log${query(options)}`;
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
