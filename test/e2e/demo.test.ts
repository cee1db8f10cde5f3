import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { eventually } from '@semblance/testkit/stack/eventually';
import { processesMentioning } from '@semblance/testkit/stack/processes';
import { cleanEnv, root } from '@semblance/testkit/stack/stack-process';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

let stateDir: string;
let demo: { code: number; said: string };

/** Runs the script of `npm run demo`, on a machine where no stack runs. */
beforeAll(async () => {
  stateDir = await mkdtemp(join(tmpdir(), 'semblance-demo-'));
  demo = await new Promise((done) => {
    const env = { ...cleanEnv(), SEMBLANCE_STATE_DIR: stateDir };
    const options = { cwd: root, env, timeout: 300_000, killSignal: 'SIGINT' as const };
    execFile(process.execPath, ['local/demo.ts'], options, (error, stdout, stderr) => {
      const code = error ? (typeof error.code === 'number' ? error.code : -1) : 0;
      done({ code, said: stdout + stderr });
    });
  });
}, 360_000);

afterAll(() => rm(stateDir, { recursive: true, force: true }));

describe('npm run demo', () => {
  test('ends well', () => {
    expect(demo.code, demo.said).toBe(0);
  });

  test('leaves the swapped picture on disk and says where', async () => {
    const paths = demo.said.match(/[^\s"'`]+\.(?:png|jpe?g|webp)/g) ?? [];
    const pictures = paths.map((path) => resolve(root, path)).filter((path) => existsSync(path));
    const made = pictures.find((path) => !path.startsWith(join(root, 'media')));
    expect(made, demo.said).toBeDefined();
    const { width, height } = await sharp(made as string).metadata();
    expect([width, height]).toEqual([512, 600]);
  });

  test('shows the job move and where it runs', () => {
    const at = (status: string) => demo.said.indexOf(status);
    for (const status of ['queued', 'succeeded']) expect(at(status), demo.said).toBeGreaterThan(-1);
    // The demo polls, so on a busy machine it may miss all of `processing`.
    const order = ['queued', 'processing', 'succeeded'].map(at).filter((place) => place >= 0);
    expect([...order].sort((a, b) => a - b)).toEqual(order);
    expect(demo.said).toMatch(/Running|Assigned|Succeeded/);
    expect(demo.said).toMatch(/agent/i);
  });

  test('prints hold, charge and balance', () => {
    for (const word of ['hold', 'charge', 'balance']) expect(demo.said.toLowerCase()).toContain(word);
    expect(demo.said).toMatch(/\$\s?\d+\.\d+|\d+\.\d+ USD/);
  });

  test('prints the kubectl line that shows the resource', () => {
    expect(demo.said).toMatch(/kubectl .*get (renderjob|rj)/);
  });

  test('leaves no process behind', async () => {
    await eventually(
      'all processes to end',
      () => {
        const left = processesMentioning(stateDir);
        if (left.length) throw new Error(JSON.stringify(left));
        return true;
      },
      { withinMs: 60_000 },
    );
  });
});
