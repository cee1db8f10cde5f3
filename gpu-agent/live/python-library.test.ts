/** @module-tag python */

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { EndReason } from '@semblance/proto/semblance/live/v1/live';
import { liveEngineConformance } from '@semblance/testkit/conformance/live-vitest';
import { pythonEnv } from '@semblance/testkit/engine-sidecar/python-env';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { type LiveRig, SETTINGS, startLiveRig } from '@semblance/testkit/live/live-rig';
import { shippedVoice } from '@semblance/testkit/live/voices';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { liveSidecar } from '../conformance/live/live-subject.ts';
import { startProgram } from '../conformance/program.ts';

const EXAMPLES = join(import.meta.dirname, '../../packages/engine-sidecar/python/examples');
const ROUGH = join(import.meta.dirname, '../../packages/testkit/engine-sidecar/rough_live.py');
const PAGE = join(import.meta.dirname, '../../docs/guide/engine-author/live-engines.md');
const CLI = join(import.meta.dirname, '../conformance/cli.ts');
const CAPABILITY = 'full-live-swap';
const MEMORY = '/dev/shm';
/** Time limit of the start, in ms: the first run installs packages. */
const START_MS = 300_000;
/** The machine of the tests may stand still. */
const answerMs = 60_000;

beforeAll(async () => {
  await pythonEnv();
}, START_MS);

liveEngineConformance({
  title: 'the example of sound',
  async start(options) {
    const command = [await pythonEnv(), join(EXAMPLES, 'live_robot.py')];
    return liveSidecar('voice', join(options.dir, 'engine.sock'), command)(options);
  },
  given: async () => ({
    capability: 'voice',
    settings: { voice: (await shippedVoice('bass-narrator')).json },
    changed: { voice: (await shippedVoice('calm-alto')).json },
    answerMs,
  }),
});

describe.skipIf(!existsSync(MEMORY))('in shared memory', () => {
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(MEMORY, 'semblance-live-'));
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));
  liveEngineConformance({
    title: 'the example of pictures',
    async start(options) {
      const command = [await pythonEnv(), join(EXAMPLES, 'live_tint.py')];
      return liveSidecar(CAPABILITY, join(dir, 'engine.sock'), command)(options);
    },
    given: () => ({
      capability: CAPABILITY,
      settings: { prompt: 'red' },
      changed: { prompt: 'blue' },
      answerMs,
    }),
  });
});

describe('the library of live engines', () => {
  let dir: string;
  let program: ReturnType<typeof startProgram>;
  let rig: LiveRig;
  let picture: Buffer;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'semblance-live-'));
    const socket = join(dir, 'engine.sock');
    program = startProgram([await pythonEnv(), ROUGH], socket);
    rig = await startLiveRig({
      settings: { ...SETTINGS, voiceSlots: 0, videoSlots: 1, videoSidecar: socket },
    });
    const create = { width: 64, height: 48, channels: 3, background: '#456' } as const;
    picture = await sharp({ create }).jpeg().toBuffer();
    await rig.warm();
  });
  afterAll(async () => {
    await rig?.close();
    await program?.end();
    await rm(dir, { recursive: true, force: true });
  });

  async function open(prompt: string) {
    const id = await rig.claim({ capability: CAPABILITY, settings: { prompt } });
    const relay = rig.relay(id);
    const { firstFrame } = await relay.ready;
    return { id, relay, note: (JSON.parse(firstFrame) as { note?: string }).note };
  }
  /** Checks that both places carry sessions. */
  async function carriesTwo(): Promise<void> {
    const both = await Promise.all([open('fine'), open('fine')]);
    for (const { relay } of both) {
      relay.send(picture);
      await relay.next();
      await relay.close();
    }
    expect(new Set(both.map(({ note }) => note)).size).toBe(2);
  }

  it.each(['die', 'raise', 'full', 'text'])(
    'fails the session whose engine does “%s”, and no other',
    async (mode) => {
      const other = await open('fine');
      const { relay } = await open(mode);
      relay.send(picture);
      await relay.over;
      expect(relay.ended()?.reason).toBe(EndReason.END_REASON_RENDER_FAILED);
      other.relay.send(picture);
      await other.relay.next();
      await other.relay.close();
      await carriesTwo();
    },
  );

  it.each(['raise-open', 'die-open'])('opens no session whose engine does “%s”', async (mode) => {
    const relay = rig.relay(await rig.claim({ capability: CAPABILITY, settings: { prompt: mode } }));
    await relay.over;
    expect(relay.ended()?.reason).toBe(EndReason.END_REASON_RENDER_FAILED);
    await carriesTwo();
  });

  it.each(['hang', 'raise-close', 'hang-close'])('ends a session whose engine does “%s”', async (mode) => {
    const { relay } = await open(mode);
    relay.send(picture);
    if (mode !== 'hang') await relay.next();
    await relay.close();
    await carriesTwo();
  });

  it('answers with several pictures, with none, and with a refusal of one', async () => {
    const twice = await open('twice');
    twice.relay.send(picture);
    await until(() => twice.relay.media.length === 2, 'both');
    await twice.relay.close();
    for (const mode of ['nothing', 'unreadable']) {
      const { relay } = await open(mode);
      for (let k = 0; k < 3; k++) {
        relay.send(picture);
        if (mode === 'unreadable') await until(() => relay.unreadable.length === k + 1, 'told');
      }
      expect(relay.media).toEqual([]);
      await relay.close();
    }
  });

  it('tells the client why the engine refuses a prompt, in few words', async () => {
    const { relay, note } = await open('refuse');
    expect(note).toMatch(/^Your own face is kept: Not this/);
    expect(note?.length).toBeLessThanOrEqual(324);
    await relay.close();
  });

  it('changes a session, and what it refuses changes nothing', async () => {
    const { relay, note, id } = await open('fine');
    const to = (prompt: string) => rig.change(id, { settings: { prompt } });
    const send = async () => {
      relay.send(picture);
      await relay.next();
    };
    await send();
    expect(note).toMatch(/^\d+$/);
    expect(await to('twice')).toEqual({ $case: 'changed', value: { note: 'now twice' } });
    relay.send(picture);
    await until(() => relay.media.length === 2, 'both');
    const refused = await to('refuse');
    expect(refused).toMatchObject({ $case: 'refused', value: { code: 'invalid_input' } });
    expect(refused?.$case === 'refused' && refused.value.message.length).toBeLessThanOrEqual(300);
    relay.send(picture);
    await until(() => relay.media.length === 4, 'both again');
    await relay.close();
    await carriesTwo();
  });

  it.each(['raise-change', 'unreadable-change', 'hang-change'])(
    'fails the session whose engine does “%s”, and no other',
    async (mode) => {
      const other = await open('fine');
      const { relay, id } = await open('fine');
      await expect(rig.change(id, { settings: { prompt: mode } })).rejects.toMatchObject({ code: 5 });
      await relay.over;
      expect(relay.ended()?.reason).toBe(EndReason.END_REASON_RENDER_FAILED);
      other.relay.send(picture);
      await other.relay.next();
      await other.relay.close();
      await carriesTwo();
    },
  );

  it('says in one line what is wrong with a class', async () => {
    const file = join(dir, 'wrong.py');
    const body = (line: string) =>
      `from semblance_sidecar.live import LivePictures, LiveSound, serve_live\nclass Wrong(LivePictures):\n  name, version = "wrong", "1"\n  ${line}\nserve_live(Wrong)\n`;
    for (const [line, fault] of [
      ['slots = 0', 'Wrong.slots is 0, not a whole number from 1 to 1024'],
      ['form = "png"', 'Wrong.form is \'png\', not "rgb" or "jpeg"'],
      ['in_flight = 9', 'Wrong.in_flight is 9, not a whole number from 1 to 8'],
      ['size = (1280, 1280)', 'Wrong.size is (1280, 1280), which is more than 1280 × 720 pixels'],
    ] as const) {
      await writeFile(file, body(line));
      const failed = promisify(execFile)(await pythonEnv(), [file, '--socket', join(dir, 'none.sock')]);
      await expect(failed).rejects.toMatchObject({ code: 1, stderr: `${fault}\n` });
    }
    expect(await readdir(dir)).not.toContain('none.sock');
  });
});

it('the page about live engines has a voice that is one', async () => {
  const [, block = ''] = /```python\n([^`]*serve_live\([^`]*)```/.exec(await readFile(PAGE, 'utf8')) ?? [];
  const own = await mkdtemp(join(tmpdir(), 'semblance-page-'));
  await writeFile(join(own, 'my_voice.py'), block);
  const { stdout } = await promisify(execFile)(process.execPath, [
    CLI,
    ...['--socket', join(own, 'engine.sock'), '--capability', 'voice'],
    ...['--', await pythonEnv(), join(own, 'my_voice.py')],
  ]);
  expect(stdout).toMatch(/It keeps to the contract\.\n$/);
  await rm(own, { recursive: true, force: true });
});
