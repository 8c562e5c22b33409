// The data of a ConfigMap or a Secret; values of secrets are hidden until they are asked for.

import { useState } from "react";
import type { KObject } from "../../api/types";
import { t } from "../../i18n";
import { Button, Card, Empty } from "../../ui/parts";

function decode(value: string): string {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(value), (char) => char.charCodeAt(0)));
  } catch {
    return value;
  }
}

export function DataCard({ object, secret }: { object: KObject; secret: boolean }) {
  const [shown, setShown] = useState<string[]>([]);
  const entries = Object.entries<string>({ ...object.data, ...object.binaryData }).sort();
  return (
    <Card title={t("Data")}>
      {entries.length === 0 ? <Empty title={t("It has no data")} /> : (
        <ul className="stack">
          {entries.map(([key, value]) => {
            const visible = !secret || shown.includes(key);
            return (
              <li className="stack tight" key={key}>
                <div className="row between">
                  <code><b>{key}</b></code>
                  {secret && <Button small icon="eye" onClick={() => setShown(visible ? shown.filter((one) => one !== key) : [...shown, key])} label={visible ? t("Hide {key}", { key }) : t("Reveal {key}", { key })}>{visible ? t("Hide") : t("Reveal")}</Button>}
                </div>
                <pre className="pre" tabIndex={0} style={{ maxHeight: 220 }}>{visible ? (secret ? decode(value) : value) : "••••••••"}</pre>
              </li>
            );
          })}
        </ul>
      )}
    </Card>
  );
}
