/** A client that oazapfts generates from the document. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateSource } from 'oazapfts';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectRound, openWorkshop, type Workshop } from './workshop.ts';

let workshop: Workshop;
beforeAll(async () => {
  workshop = await openWorkshop('client.mts', 'tsconfig.json');
}, 240_000);
afterAll(() => workshop?.close());

it('a client in TypeScript compiles strictly, and does its round at the address in the document', async () => {
  const source = await generateSource(join(workshop.dir, 'openapi.json'), {});
  await writeFile(join(workshop.dir, 'api.ts'), source);
  // No type has a number at its end, which a generator gives to the second schema of a name.
  expect(source).not.toMatch(/export type \w+\d+ =/);
  await workshop.run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', '.']);
  const { stdout } = await workshop.run(process.execPath, ['client.mts']);
  expectRound(stdout);
});
