import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';

const COMPRESSED = new Set(['.html', '.js', '.css', '.svg']);

/** Writes each text of the build compressed beside it, so that the gateway never compresses. */
function compress(): Plugin {
  return {
    name: 'compress',
    writeBundle({ dir = '' }) {
      for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
        // The gateway writes a nonce into the page.
        if (!entry.isFile() || !COMPRESSED.has(extname(entry.name)) || entry.name === 'index.html') continue;
        const file = join(entry.parentPath, entry.name);
        const text = readFileSync(file);
        const params = { [constants.BROTLI_PARAM_QUALITY]: 11 };
        writeFileSync(`${file}.br`, brotliCompressSync(text, { params }));
        writeFileSync(`${file}.gz`, gzipSync(text, { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  root: import.meta.dirname,
  base: '/console/',
  plugins: [react(), compress()],
  build: {
    target: 'es2022',
    emptyOutDir: true,
    // A strict policy allows no data: in scripts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
  },
});
