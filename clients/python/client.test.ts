/**
 * The Python client as it is installed: its types, its tests in front of servers that misbehave, and a round through a
 * running stack.
 *
 * @module-tag python
 */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { liveOffered } from '@semblance/testkit/stack/live-client';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Account, sharedStack } from '@semblance/testkit/stack/stack';
import sharp from 'sharp';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ROOT } from '../../test/structure/workspaces.ts';
import { type InstalledClient, installClient } from './installed.ts';

const GUIDE = join(ROOT, 'docs/guide/integrator/python.md');
let dir: string;
let account: Account;
let client: InstalledClient;

async function run(...args: string[]): Promise<string> {
  const { api, apiKey } = account;
  const env = {
    ...client.env,
    API_KEY: apiKey,
    API_URL: api.baseUrl,
    SEMBLANCE_API_KEY: apiKey,
    SEMBLANCE_BASE_URL: api.baseUrl,
  };
  try {
    const { stdout } = await promisify(execFile)(client.python, args, { cwd: dir, env, maxBuffer: 1 << 26 });
    return stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`${args.join(' ')} failed:\n${stdout}\n${stderr}`.slice(-6_000), { cause: error });
  }
}

beforeAll(async () => {
  account = await (await sharedStack()).newAccount({ balanceUsd: 20 });
  client = await installClient(await (await fetch(`${account.api.baseUrl}/openapi.json`)).text());
  dir = client.dir;
  await writeFile(join(dir, 'base.jpg'), ADMIRAL.bytes);
  await writeFile(join(dir, 'face.png'), ASTRONAUT.bytes);
  const blank = { width: 256, height: 256, channels: 3 as const, background: '#88a' };
  await sharp({ create: blank }).png().toFile(join(dir, 'blank.png'));
}, 480_000);
afterAll(() => client?.close());

/** Runs the live session of the guide, as soon as tests beside this one leave a slot. */
const TALK = `
from semblance import CapacityUnavailableError, CapacityWarmingError

while True:
    try:
        asyncio.run(talk())
        break
    except (CapacityUnavailableError, CapacityWarmingError):
        asyncio.run(asyncio.sleep(1))
`;

it('every code of the document has a class, and the package type-checks strictly', async () => {
  const document = await readFile(join(dir, 'source', 'openapi.json'), 'utf8');
  const schemas = JSON.parse(document).components.schemas;
  const codes = await run('-c', 'import json, semblance.errors as e; print(json.dumps(list(e.ERRORS)))');
  expect(JSON.parse(codes).sort()).toEqual([...schemas.ErrorDetail.properties.code.enum].sort());
  await run('-m', 'mypy', '--strict', '-p', 'semblance');
});

it.each(['test_requests', 'test_files', 'test_waiting', 'test_webhooks'])(
  '%s',
  async (name) => {
    await run('-W', 'error', '-m', 'unittest', name);
  },
  300_000,
);

it('does a round through the stack, and type-checks strictly', async () => {
  await run('-m', 'mypy', '--strict', 'stack_round.py');
  expect(JSON.parse(await run('stack_round.py'))).toEqual({
    job: 'succeeded',
    events: ['status', 'status'],
    output: 'ffd8ff',
    failed: ['face_not_detected', 0],
    rotated: true,
    refusals: [
      ['invalid_input', 400, true],
      ['not_found', 404, true],
    ],
    batch: 'finished',
    jobs: 5,
    usage: 6,
    idempotent: true,
    estimate: true,
    session: true,
    balance: true,
  });
}, 300_000);

it('carries sound and pictures, and type-checks strictly', async () => {
  await run('-m', 'mypy', '--strict', 'live_round.py');
  await liveOffered(await sharedStack());
  expect(JSON.parse(await run('-W', 'error', 'live_round.py'))).toEqual({
    voice: { same: true, after: [], sent: false, second: 'not_found' },
    cancelled: [4003, 'cancelled'],
    pictures: { codec: 'jpeg', jpeg: true, changeable: ['prompt'], refused: 'invalid_input' },
    wrong: 'unauthorized',
  });
}, 300_000);

it('the code of the guide runs as it stands there, and type-checks strictly', async () => {
  const guide = await readFile(GUIDE, 'utf8');
  const blocks = Array.from(guide.matchAll(/^```python\n([\s\S]*?)^```/gm), ([, code]) => code);
  expect(blocks.length).toBeGreaterThan(5);
  await writeFile(join(dir, 'guide.py'), [...blocks, TALK].join('\n'));
  await run('-m', 'mypy', '--strict', 'guide.py');
  const said = await run('guide.py');
  for (const part of ['face_not_detected 0', 'of converted sound', '\n401\n']) expect(said).toContain(part);
}, 300_000);
