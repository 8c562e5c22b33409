// A value after it has not changed for a moment.

import { useEffect, useState } from "react";

export function useSettled<T>(value: T, afterMs = 300): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), afterMs);
    return () => clearTimeout(timer);
  }, [value, afterMs]);
  return settled;
}
