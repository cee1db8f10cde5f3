/**
 * The examples that call the API, run as a person runs them, against the shared stack.
 *
 * @module-tag python
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { wavOf } from '@semblance/testkit/sound/wav';
import { eventually } from '@semblance/testkit/stack/eventually';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from '../structure/workspaces.ts';

const run = promisify(execFile);
const EXAMPLES = join(ROOT, 'examples');
let dir: string;
let stack: Stack;
let account: Account;
let env: NodeJS.ProcessEnv;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-examples-'));
  stack = await sharedStack();
  account = await stack.newAccount();
  env = { PATH: process.env.PATH, BASE: account.api.baseUrl, KEY: account.apiKey };
  await writeFile(join(dir, 'base.jpg'), ADMIRAL.bytes);
  await writeFile(join(dir, 'face.png'), ASTRONAUT.bytes);
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const CLIENTS: readonly [string, string[]][] = [
  ['curl/photo-swap.sh', ['sh']],
  ['node/photo-swap.mjs', [process.execPath]],
  ['python/photo_swap.py', ['python3']],
];

describe.each(CLIENTS)('%s', (path, [program = '']) => {
  const call = (...args: string[]) => run(program, [join(EXAMPLES, path), ...args], { env, cwd: dir });

  test('swaps a face, and the picture is another than the base', async () => {
    const out = join(dir, `${path.replaceAll('/', '-')}.jpg`);
    const { stdout } = await call('base.jpg', 'face.png', out);
    expect(stdout).toContain(`written to ${out}`);
    const { width, height } = await sharp(out).metadata();
    expect([width, height]).toEqual([512, 600]);
    const [swapped, base] = await Promise.all(
      [out, join(dir, 'base.jpg')].map((file) => sharp(file).greyscale().raw().toBuffer()),
    );
    const changed = (swapped as Buffer).filter((level, i) => Math.abs(level - (base?.[i] ?? 0)) > 16).length;
    expect(changed).toBeGreaterThan(5_000);
  });

  test('says in the words of the service why it is refused', async () => {
    await writeFile(join(dir, 'empty.jpg'), '');
    const out = `none-${program.split('/').at(-1)}.jpg`;
    const failure = await call('empty.jpg', 'face.png', out).catch((error) => error);
    expect(failure.code).toBeGreaterThan(0);
    expect(failure.stderr).toMatch(/file|empty|picture/i);
    expect(await readdir(dir)).not.toContain(out);
  });

  test('says how it is used', async () => {
    const failure = await call().catch((error) => error);
    expect(failure.stderr).toContain('usage');
  });
});

describe.each([
  ['node/webhook-receiver.mjs', process.execPath],
  ['python/webhook_receiver.py', 'python3'],
])('%s', (path, program) => {
  test('takes a delivery of a job, and refuses what is not signed', async () => {
    const { secret } = (await stack.admin('secret', 'show', { account: account.accountId })) as {
      secret: string;
    };
    const child: ChildProcess = spawn(program, [join(EXAMPLES, path), '0'], {
      env: { PATH: process.env.PATH, SECRET: secret },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      const lines: string[] = [];
      createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) =>
        lines.push(line),
      );
      const port = await eventually('a port', async () => lines[0]?.match(/\d+$/)?.[0]);
      const url = `http://127.0.0.1:${port}/hook`;
      for (const signature of [
        undefined,
        't=1,v1=00',
        `t=${Math.floor(Date.now() / 1000)},v1=${'0'.repeat(64)}`,
        'x',
      ])
        expect(
          (
            await fetch(url, {
              method: 'POST',
              body: '{"delivery_id":"dlv-1"}',
              headers: signature === undefined ? {} : { 'Service-Signature': signature },
            })
          ).status,
        ).toBe(401);
      const { api } = account;
      const [image_key, face_key] = [await api.upload(ADMIRAL), await api.upload(ASTRONAUT)];
      const job = await api.post('/face-swap-image', { image_key, face_key, callback_url: url });
      const { id } = job.body as { id: string };
      const told = JSON.parse(await eventually('a delivery', async () => lines[1], { withinMs: 60_000 }));
      expect(told).toMatchObject({ event: 'job.succeeded', job: id, status: 'succeeded' });
      expect(lines).toHaveLength(2);
    } finally {
      child.kill();
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    }
  });
});

describe('live', () => {
  test('voice.mjs gets back every sample that it sent', async () => {
    const samples = Int16Array.from({ length: 48_000 }, (_, i) => Math.round(8_000 * Math.sin(i / 20)));
    const sound = wavOf(samples, 48_000);
    await writeFile(join(dir, 'in.wav'), sound);
    const args = [join(EXAMPLES, 'live/voice.mjs'), '-', 'in.wav', 'out.wav'];
    await run(process.execPath, args, { env, cwd: dir });
    const out = await readFile(join(dir, 'out.wav'));
    expect(out.subarray(44).equals(sound.subarray(44))).toBe(true);
  });

  test('swap.mjs gets pictures back, and they show another face', async () => {
    const frame = await sharp(Buffer.from(ASTRONAUT.bytes))
      .resize(640, 480, { fit: 'cover', position: 'top' })
      .jpeg()
      .toBuffer();
    await writeFile(join(dir, 'frame.jpg'), frame);
    const args = [
      join(EXAMPLES, 'live/swap.mjs'),
      await account.api.upload(ADMIRAL),
      'pictures',
      'frame.jpg',
    ];
    const { stdout } = await run(process.execPath, args, { env, cwd: dir });
    expect(stdout).toMatch(/ended with 1000/);
    const pictures = (await readdir(join(dir, 'pictures'))).sort();
    expect(pictures.length).toBeGreaterThan(10);
    const face = { left: 230, top: 110, width: 130, height: 160 };
    const [before, after] = await Promise.all(
      [frame, join(dir, 'pictures', pictures.at(-1) as string)].map((file) =>
        sharp(file).extract(face).greyscale().raw().toBuffer(),
      ),
    );
    const mean =
      (before as Buffer).reduce((sum, level, i) => sum + Math.abs(level - (after?.[i] ?? 0)), 0) /
      (130 * 160);
    expect(mean).toBeGreaterThan(4);
  });
});
