// State in the query of the address, so that every view can be linked to.

import { useCallback } from "react";
import { useLocation, useSearch } from "wouter";

export function useUrlState(key: string, initial: string): [string, (value: string) => void] {
  const search = useSearch();
  const [path, navigate] = useLocation();
  const value = new URLSearchParams(search).get(key) ?? initial;
  const set = useCallback(
    (next: string) => {
      // Read the current address: several changes may follow each other in one event.
      const parameters = new URLSearchParams(location.search);
      if (next === initial) parameters.delete(key);
      else parameters.set(key, next);
      const text = parameters.toString();
      navigate(text ? `${path}?${text}` : path, { replace: true });
    },
    [key, initial, path, navigate],
  );
  return [value, set];
}
