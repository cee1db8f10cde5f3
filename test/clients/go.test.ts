/**
 * A client that oapi-codegen makes of the document.
 *
 * @module-tag go
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, it } from 'vitest';
import { expectRound, openWorkshop, type Workshop } from './workshop.ts';

let workshop: Workshop;
beforeAll(async () => {
  workshop = await openWorkshop('go');
  await mkdir(join(workshop.dir, 'go', 'api'));
}, 240_000);
afterAll(() => workshop?.close());

it('a client in Go passes vet, and does its round', { timeout: 480_000 }, async () => {
  const env = { GOFLAGS: '-mod=readonly -buildvcs=false', ...goSettings() };
  const go = (...args: string[]) => workshop.run('go', ['-C', 'go', ...args], env);
  await go('tool', 'oapi-codegen', '-config', 'oapi-codegen.yaml', '../openapi.json');
  await go('vet', './...');
  await go('build', '-o', '../round', '.');
  expectRound((await workshop.run(join(workshop.dir, 'round'), [])).stdout);
});

/** Returns where Go keeps and fetches modules, as the user has set it. */
function goSettings(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => /^(GO|SSL_|HTTPS?_PROXY|NO_PROXY)/i.test(name) && name !== 'GOFLAGS',
    ),
  );
}
