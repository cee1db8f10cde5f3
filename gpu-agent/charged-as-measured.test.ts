/** @module-tag ffmpeg */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AttemptState } from '@semblance/proto/semblance/agent/v1/agent';
import { GOOD_INFO, startScriptedSidecar } from '@semblance/testkit/engine-sidecar/scripted-sidecar';
import { createHarness, type Harness, until } from '@semblance/testkit/gpu-agent/harness';
import { type MediaRig, numberedFrames, openMediaRig } from '@semblance/testkit/media/clips';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { sidecarSource } from './engines/registry.ts';

const {
  ATTEMPT_STATE_RUNNING: RUNNING,
  ATTEMPT_STATE_SUCCEEDED: SUCCEEDED,
  ATTEMPT_STATE_FAILED: FAILED,
} = AttemptState;

let harness: Harness;
let rig: MediaRig;
let sidecar: Awaited<ReturnType<typeof startScriptedSidecar>>;
let socket: string;
beforeAll(async () => {
  [harness, rig] = await Promise.all([createHarness(), openMediaRig()]);
  const clip = await rig.make('clip.mp4', `${numberedFrames({ frames: 50 })} -c:v libx264`);
  harness.store.objects.set('/in/clip', await readFile(clip));
  // The agent decodes this video for a second or two.
  const long = await rig.make(
    'long.mp4',
    '-f lavfi -i testsrc2=s=640x360:r=25:d=80 -c:v libx264 -preset ultrafast',
  );
  harness.store.objects.set('/in/long', await readFile(long));
  await mkdir(join(harness.dir, 'shared'));
  socket = join(harness.dir, 'shared', 'engine.sock');
  const offers = ['face-swap-image', 'face-swap'].map((capability) => ({
    capability,
    slots: 1,
    memoryMib: 64,
    vramMib: 0,
    limits: undefined,
    options: [],
    severalFaces: false,
  }));
  sidecar = await startScriptedSidecar(socket, { info: { ...GOOD_INFO, capabilities: offers } });
}, 120_000);
afterAll(async () => {
  await harness.closeAgents();
  await sidecar.kill();
  await rig.close();
  await harness.close();
});

it('a sidecar that says it made an hour is charged for the two seconds that its file has', async () => {
  const { agent, watch, swap } = await swapping();
  const lie = await swap(3_600_000);
  expect(lie).toMatchObject({ state: SUCCEEDED, output: { unit: 'second', milliUnits: 2_000n } });
  expect(lie.output?.stages.map(({ name }) => name)).toContain('measure');
  const figure = await agent.figures();
  expect(figure('unit_corrections_total', 'engine="scripted"', 'capability="face-swap"')).toBe(1);

  const truth = await swap(2_000);
  expect(truth).toMatchObject({ state: SUCCEEDED, output: { milliUnits: 2_000n } });
  expect((await agent.figures())('unit_corrections_total')).toBe(1);

  harness.store.objects.set('/in/garbage', Buffer.from('no video'));
  const garbage = await swap(2_000, '/in/garbage');
  expect(garbage).toMatchObject({ state: FAILED, failure: { code: 'processing_failed' } });
  expect(await agent.leftovers()).toEqual([]);
  watch.cancel();
});

it('measuring has the priority of renders', async () => {
  const ffprobe = join(harness.dir, 'ffprobe');
  const said = join(harness.dir, 'nice');
  await writeFile(ffprobe, `#!/bin/sh\nnice > ${said}\nexec ${rig.tools.ffprobe} "$@"\n`, { mode: 0o700 });
  vi.stubEnv('PATH', `${harness.dir}:${process.env.PATH}`);
  const { watch, swap } = await swapping({ env: { SEMBLANCE_AGENT_RENDER_NICE: '9' } });
  vi.unstubAllEnvs();
  expect(await swap(2_000)).toMatchObject({ state: SUCCEEDED });
  expect(await readFile(said, 'utf8')).toBe('9\n');
  watch.cancel();
});

it('measuring a long video has progress of its own, which never falls and ends with the store', async () => {
  const { watch, swap } = await swapping();
  expect(await swap(80_000, '/in/long')).toMatchObject({ state: SUCCEEDED, progress: 1 });
  const told = watch.messages.flatMap(({ attempts }) => attempts);
  const all = told.map(({ progress }) => progress);
  expect(all).toEqual([...all].sort((a, b) => a - b));
  const measuring = told.filter(({ stage, state }) => stage === 'measure' && state === RUNNING);
  const steps = new Set(measuring.map(({ progress }) => progress));
  expect(steps.size).toBeGreaterThan(1);
  for (const step of steps) {
    expect(step).toBeGreaterThan(0.86);
    expect(step).toBeLessThan(0.951);
  }
  watch.cancel();
});

async function swapping(options: Parameters<Harness['agent']>[0] = {}) {
  const agent = await harness.agent({ engines: [sidecarSource(socket, 0)], ...options });
  const watch = agent.watch();
  const swap = async (milliseconds: number, video = '/in/clip') => {
    const base = agent.request('copies');
    const sink = { ...base.sinks[0], contentType: 'video/mp4' };
    const inputs = { video: { url: harness.store.url(video) }, face: base.inputs.face };
    const request = agent.request('copies', {
      ref: base.ref,
      capability: 'face-swap',
      sinks: [sink as never],
      inputs: inputs as never,
      parameters: { mode: 'copies', milliseconds: String(milliseconds) },
    });
    await agent.start(request);
    return watch.ended(request.ref);
  };
  return { agent, watch, swap };
}

it('what cannot be measured is not offered: without media tools no capability that makes videos', async () => {
  vi.stubEnv('PATH', '/nowhere');
  const agent = await harness.agent({ engines: [sidecarSource(socket, 0)] });
  vi.unstubAllEnvs();
  await until(async () => (await agent.resource())?.status?.slots === 2, 'the engine is warm');
  expect((await agent.resource())?.status?.engines).toMatchObject([
    { name: 'scripted', capabilities: [{ name: 'face-swap-image' }] },
  ]);
  expect((await agent.resource())?.status?.unavailable).toEqual([
    { name: 'face-swap', message: expect.stringContaining('ffmpeg is not on PATH') },
  ]);
  const { image, face } = agent.request('copies').inputs;
  const inputs = { video: image, face } as never;
  const request = agent.request('copies', { capability: 'face-swap', inputs });
  await expect(agent.start(request)).rejects.toThrow('no engine here does face-swap');
});
