/** Writes clients/openapi.json, of which clients are generated: the document as a gateway answers it. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger } from '@semblance/common/logging';
import { startGateway } from '@semblance/gateway/gateway';
import { DirectoryStore } from '@semblance/objects/directory-store';
import { Registry } from 'prom-client';

/** Address of the service in the document; clients are told theirs. */
const publicUrl = 'http://semblance.invalid';
const folder = await mkdtemp(join(tmpdir(), 'semblance-openapi-'));
const store = new DirectoryStore({ folder, signingKey: Buffer.alloc(32), publicUrl });
const gateway = await startGateway({
  listen: { host: '127.0.0.1', port: 0 },
  // The document needs no control plane.
  controlAddress: '127.0.0.1:1',
  store,
  logger: createLogger({ service: 'openapi', level: 'error' }),
  registry: new Registry(),
  publicUrl,
  timing: { drain: 0, tidy: 0 },
});
const answer = await fetch(`http://127.0.0.1:${gateway.port}/api/v1/openapi.json`);
await writeFile(join(import.meta.dirname, 'openapi.json'), await answer.text());
await gateway.close();
await store.close();
await rm(folder, { recursive: true });
