// Icons of the console, drawn with lines of one width.

const PATHS = {
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-4H4zM14 4v4h6V4z",
  cluster: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  workload: "M4 5h16v5H4zM4 14h16v5H4zM8 7.5h.01M8 16.5h.01",
  policy: "M5 4h9l5 5v11H5zM14 4v5h5M9 13h6M9 17h4",
  failover: "M4 12a8 8 0 0 1 14-5l2 2M20 4v5h-5M20 12a8 8 0 0 1-14 5l-2-2M4 20v-5h5",
  apply: "M12 4v11M7 10l5 5 5-5M4 20h16",
  resource: "M4 7l8-4 8 4-8 4zM4 12l8 4 8-4M4 17l8 4 8-4",
  network: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
  topology: "M12 3a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM5 16a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM19 16a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM11 8l-5 8M13 8l5 8M8 18.5h8",
  service: "M9.5 3h5v5h-5zM3 16h5v5H3zM16 16h5v5h-5zM12 8v4M5.5 16v-4h13v4",
  ingress: "M10 4h10v16H10M3 12h11M10 8l4 4-4 4",
  works: "M4 6l2 2 3-4M13 6h7M4 13l2 2 3-4M13 13h7M4 20l2 2 3-4M13 20h7",
  convert: "M4 8h15M15 4l4 4-4 4M20 16H5M9 12l-4 4 4 4",
  config: "M4 6h10M18 6h2M4 12h2M10 12h10M4 18h7M15 18h5M14 4v4M6 10v4M11 16v4",
  secret: "M7 11V8a5 5 0 0 1 10 0v3M5 11h14v9H5zM12 15v2",
  namespace: "M4 4h6v6H4zM14 4h6v6h-6zM4 14h6v6H4zM14 14h6v6h-6z",
  events: "M12 8v5l3 2M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z",
  metrics: "M4 4v16h16M8 15l3-4 3 2 5-6",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16 16l5 5",
  access: "M9 11a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM2 21c0-4 3-7 7-7s7 3 7 7M17 7a3 3 0 0 1 0 6M19 15c2 1 3 3 3 6",
  settings: "M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM12 2v3M12 19v3M4.9 4.9L7 7M17 17l2.1 2.1M2 12h3M19 12h3M4.9 19.1L7 17M17 7l2.1-2.1",
  binding: "M9 15l6-6M8 9L5 12a4 4 0 0 0 6 6l2-2M16 15l3-3a4 4 0 0 0-6-6l-2 2",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6L6 18",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  menu: "M4 7h16M4 12h16M4 17h16",
  refresh: "M20 11a8 8 0 1 0-2 6M20 4v7h-7",
  check: "M5 13l4 4 10-10",
  warning: "M12 4l9 16H3zM12 10v4M12 17h.01",
  lock: "M7 11V8a5 5 0 0 1 10 0v3M5 11h14v9H5z",
  empty: "M4 13l3-8h10l3 8v6H4zM4 13h5l1 3h4l1-3h5",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M5 19l1.5-1.5M17.5 6.5L19 5",
  moon: "M20 14A8 8 0 0 1 10 4a8 8 0 1 0 10 10z",
  user: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21c0-4 4-7 8-7s8 3 8 7",
  play: "M7 4l13 8-13 8z",
  pause: "M8 5v14M16 5v14",
  restart: "M20 11a8 8 0 1 0-2 6M20 4v7h-7",
  scale: "M4 20l6-6M4 14v6h6M20 4l-6 6M20 10V4h-6",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  undo: "M9 8H4V3M4 8a9 9 0 1 1-1 7",
  eye: "M2 12c3-6 7-8 10-8s7 2 10 8c-3 6-7 8-10 8s-7-2-10-8zM12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6z",
  log: "M5 4h14v16H5zM8 8h8M8 12h8M8 16h5",
  terminal: "M4 5h16v14H4zM8 10l3 2.5L8 15M13 15h4",
  cut: "M6 4l12 16M18 4L6 20",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg viewBox="0 0 24 24" width={size} height={size} fill="none" stroke="currentColor" strokeWidth={name === "more" ? 3 : 1.8} strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
