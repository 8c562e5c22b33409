// Events of an object, of its binding and of its works.

import { useObjectEvents } from "../../api/objectEvents";
import type { KObject } from "../../api/types";
import { t } from "../../i18n";
import { Card } from "../../ui/parts";
import { EventList } from "../EventList";

const SHOWN_MAX = 100;

export function ObjectEvents({ object, binding }: { object: KObject; binding?: KObject }) {
  const events = useObjectEvents(object, binding);
  const shown = Math.min(events.items.length, SHOWN_MAX);
  return (
    <Card flush>
      <EventList live={events} max={SHOWN_MAX} />
      {events.total > shown && <p className="muted small" style={{ padding: "12px 18px" }}>{t("The newest {shown} of {total}.", { shown, total: events.total.toLocaleString() })}</p>}
    </Card>
  );
}
