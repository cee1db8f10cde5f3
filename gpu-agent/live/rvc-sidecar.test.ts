/** @module-tag python */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { liveEngineConformance } from '@semblance/testkit/conformance/live-vitest';
import { ivfFlatFile } from '@semblance/testkit/engine-onnx/faiss-file';
import { type GivenModel, ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { tinyArcface } from '@semblance/testkit/engine-onnx/tiny-models';
import { tinyContentvec, tinyRmvpe, tinyTone } from '@semblance/testkit/engine-onnx/tiny-voices';
import { pythonEnv } from '@semblance/testkit/engine-sidecar/python-env';
import { rvcCommand, rvcSettings } from '@semblance/testkit/engine-sidecar/rvc';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { type LiveRig, SETTINGS, startLiveRig } from '@semblance/testkit/live/live-rig';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { liveSidecar } from '../conformance/live/live-subject.ts';
import { startProgram } from '../conformance/program.ts';

/** Time limit of the start, in ms: the first run installs packages. */
const START_MS = 300_000;
const RATE = 48_000;
const run = promisify(execFile);
const directories = new ModelDirRig();
const rmvpe = tinyRmvpe((band) => 60 + band);
const tone = tinyTone({ options: { speaker: 1 } });
const models: GivenModel[] = [tinyContentvec(256), rmvpe, tone];

const voice = (more: Record<string, unknown> = {}) =>
  JSON.stringify({
    ...{ id: 'ada', name: 'Ada', description: 'A voice.', pitch_hz: { low: 170, high: 240 } },
    ...{ formant_shift: 1, model: 'my-voice', ...more },
  });

liveEngineConformance({
  title: 'the sidecar rvc',
  async start(options) {
    const own = join(options.dir, 'rvc');
    await mkdir(own);
    const settings = await rvcSettings(join(own, 'settings'), await directories.make(models), { workers: 2 });
    return liveSidecar('voice', join(own, 'engine.sock'), await rvcCommand(settings))(options);
  },
  // The machine of the tests may stand still.
  given: () => ({ capability: 'voice', settings: { voice: voice() }, answerMs: 60_000 }),
});

describe('the sidecar rvc, beside an agent', () => {
  let dir: string;
  let program: ReturnType<typeof startProgram>;
  let rig: LiveRig;
  let made = 0;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'semblance-rvc-'));
    const socket = join(dir, 'engine.sock');
    const settings = await rvcSettings(join(dir, 'settings'), await directories.make(models), { workers: 2 });
    program = startProgram(await rvcCommand(settings), socket);
    rig = await startLiveRig({ settings: { ...SETTINGS, videoSlots: 0, voiceSidecar: socket } });
    await rig.warm();
  }, START_MS);
  afterAll(async () => {
    await rig?.close();
    await program?.end();
    await directories.close();
    await rm(dir, { recursive: true, force: true });
  });

  it('converts a session at the rate of its model, as much as it was sent', async () => {
    expect(rig.live.statement).toMatchObject([{ name: 'voice', slots: 2, engine: 'rvc 1' }]);
    const id = await rig.claim({ capability: 'voice', settings: { voice: voice({ transpose: 0 }) } });
    const relay = rig.relay(id);
    await relay.ready;
    for (let k = 0; k < 100; k++) {
      const samples = Int16Array.from(
        { length: 960 },
        (_, i) => 9_000 * Math.sin((2 * Math.PI * 300 * (k * 960 + i)) / RATE),
      );
      relay.send(new Uint8Array(samples.buffer));
    }
    const bytes = () => relay.media.reduce((sum, { data }) => sum + data.length, 0);
    // What does not fill a block is held back.
    await until(() => bytes() >= 1.8 * RATE * 2, 'the sound');
    expect(bytes()).toBeLessThanOrEqual(2 * RATE * 2);
    const all = Buffer.concat(relay.media.map(({ data }) => data));
    const samples = new Int16Array(new Uint8Array(all).buffer);
    expect(Math.max(...samples)).toBeGreaterThan(300);
    await relay.close();
  });

  it('carries no session of a voice whose model is not there', async () => {
    await expect(
      rig.claim({ capability: 'voice', settings: { voice: voice({ model: 'eva' }) } }).then((id) => {
        return rig.relay(id).ready;
      }),
    ).rejects.toThrow();
  });

  /** Starts the program with settings that do not fit, and returns what it says. */
  async function said(given: readonly GivenModel[], change: Record<string, unknown> = {}): Promise<string> {
    const settings = await rvcSettings(join(dir, `bad-${++made}`), await directories.make(given), change);
    const [command = '', ...words] = await rvcCommand(settings);
    const error = await run(command, words).catch((reason: { stderr: string }) => reason);
    expect(error).toMatchObject({ code: 1, stderr: expect.stringMatching(/^[^\n]+\n$/) });
    return error.stderr;
  }

  it.each<[string, RegExp, readonly GivenModel[], Record<string, unknown>?]>([
    ['no voice', /has no voice \(rvc_v1 or rvc_v2\)/, [tinyContentvec(256), rmvpe]],
    ['no content encoder', /my-voice needs a contentvec_256/, [rmvpe, tone]],
    ['no pitch', /has no rmvpe: add one, or set settings\.yaml\.pitch to pm/, [tinyContentvec(256), tone]],
    ['another pitch', /pitch must be one of rmvpe, pm/, models, { pitch: 'crepe' }],
    [
      'a context that is no step',
      /context_ms must be 640 to 2560 in steps of 320/,
      models,
      { context_ms: 700 },
    ],
    ['a mix beyond 1', /rms_mix_rate must be a number from 0 to 1/, models, { rms_mix_rate: 2 }],
    [
      'a default that is none',
      /default is no voice of the manifest: these are my-voice/,
      models,
      { default: 'eva' },
    ],
    ['no sample rate', /options\.sample_rate is missing/, [...models.slice(0, 2), { ...tone, options: {} }]],
    [
      'another sample rate',
      /options\.sample_rate must be one of 32000, 40000, 48000/,
      [...models.slice(0, 2), { ...tone, options: { sample_rate: 44_100 } }],
    ],
  ])('says in one line what is wrong with settings that have %s', async (_what, message, given, change) => {
    expect(await said(given, change)).toMatch(message);
  });

  /** Opens the voices of a worker, and returns why it cannot. */
  async function trouble(given: readonly GivenModel[], change: Record<string, unknown> = {}) {
    const settings = await rvcSettings(join(dir, `bad-${++made}`), await directories.make(given), change);
    const script =
      'from semblance_sidecars.rvc.settings import read_settings; from semblance_sidecars.rvc.voices import Voices; Voices(read_settings(), 0)';
    const env = { ...process.env, ...settings };
    const reason = await run(await pythonEnv(), ['-c', script], { env }).catch((error: Error) => error);
    return (reason as unknown as { stderr?: string }).stderr;
  }
  const index = (width: number) =>
    ivfFlatFile({ width, centroids: [Array(width).fill(0)], lists: [[Array(width).fill(1)]] });

  it.each<[string, RegExp, readonly GivenModel[], Record<string, unknown>?]>([
    [
      'another rate',
      /gave 20480 samples for 0\.64 s, so its sample_rate is not 40000/,
      [{ ...tone, options: { sample_rate: 40_000 } }],
    ],
    [
      'another layout',
      /it has no input feats or phone, p_len or phone_lengths, sid or ds/,
      [{ ...tone, bytes: tinyArcface() }],
    ],
    ['a fixed length', /its length must be open/, [tinyTone({ frames: 64 })]],
    [
      'an index of another width',
      /features of 4 numbers, and the voice needs 256/,
      [{ ...tone, index: { bytes: index(4) } }],
    ],
    [
      'an index that is none',
      /is no index that faiss reads/,
      [{ ...tone, index: { bytes: Buffer.from('IwFl, cut') } }],
    ],
    ['a provider that is not there', /built without cuda/, [tone], { providers: { cuda: {} } }],
  ])('does not become warm with %s', async (_what, message, given, change) => {
    expect(await trouble([tinyContentvec(256), rmvpe, ...given], change)).toMatch(message);
  });
});
