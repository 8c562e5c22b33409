// Builds the console into dist/, with a brotli-compressed copy of every file; the server embeds these copies.
import { brotliCompressSync, constants } from "node:zlib";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

function compressed(): Plugin {
  return {
    name: "brotli",
    apply: "build",
    generateBundle: {
      order: "post",
      handler(_options, bundle) {
        for (const [name, file] of Object.entries(bundle)) {
          if (name.endsWith(".html")) continue;
          const content = Buffer.from(file.type === "chunk" ? file.code : file.source);
          const source = brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } });
          this.emitFile({ type: "asset", fileName: `${name}.br`, source });
        }
      },
    },
  };
}

export default defineConfig({
  base: "/console/",
  plugins: [react(), compressed()],
  build: {
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    cssCodeSplit: true,
    chunkSizeWarningLimit: 800,
  },
});
