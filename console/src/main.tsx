// The entry of the console: settings first, then the session, then the pages.

import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";
import { ApiError, routerBase } from "./api/client";
import { App } from "./app/App";
import { startPrefs } from "./app/prefs";
import "./ui/tokens.css";
import "./ui/base.css";

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      refetchOnWindowFocus: false,
      // What the server refused stays refused; what it could not answer is asked again.
      retry: (count, error) => count < 2 && !(error instanceof ApiError && error.code >= 400 && error.code < 500),
    },
  },
});

void startPrefs().then(() => {
  createRoot(document.getElementById("root")!).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <Router base={routerBase}>
          <App />
        </Router>
      </QueryClientProvider>
    </StrictMode>,
  );
});
