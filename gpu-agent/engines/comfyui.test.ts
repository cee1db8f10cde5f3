/**
 * @module-tag python
 * @module-tag ffmpeg
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { RenderOptions } from '@semblance/engine-api/option';
import { engineConformance } from '@semblance/testkit/conformance/vitest';
import {
  type ComfyServer,
  type ComfySettings,
  comfyCommand,
  PICTURE_WORKFLOW,
  startComfyServer,
  writeComfySettings,
} from '@semblance/testkit/engine-sidecar/comfyui';
import { pythonEnv } from '@semblance/testkit/engine-sidecar/python-env';
import { portraits } from '@semblance/testkit/gpu-agent/portraits';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Subject, sidecar } from '../conformance/subject.ts';

const START_MS = 300_000;
const idle = new AbortController().signal;
const run = promisify(execFile);

describe('the sidecar for ComfyUI', () => {
  let dir: string;
  let servers: ComfyServer[];
  let inputs: Record<string, string>;
  let opened = 0;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'semblance-comfyui-'));
    await pythonEnv();
    servers = await Promise.all([startComfyServer(join(dir, 'one')), startComfyServer(join(dir, 'two'))]);
    inputs = { ...(await portraits(dir, 288)).inputs };
  }, START_MS);
  afterAll(async () => {
    for (const server of servers ?? []) await server.close();
    await rm(dir, { recursive: true, force: true });
  });

  /** Starts a sidecar; it ends with the returned subject. */
  async function open(
    urls: readonly string[],
    change?: (settings: ComfySettings) => void,
    socketDir = join(dir, `s${++opened}`),
  ): Promise<Subject> {
    await mkdir(socketDir, { recursive: true });
    const settings = await writeComfySettings(join(socketDir, 'settings'), urls, change);
    const start = sidecar(join(socketDir, 'engine.sock'), await comfyCommand(settings));
    return start({ dir, signal: AbortSignal.timeout(60_000) });
  }

  engineConformance({
    title: 'the sidecar for ComfyUI',
    works: [
      {
        capability: 'face-swap-image',
        samples: async (own) => ({ inputs: (await portraits(own, 288)).inputs, bad: [] }),
        cancelMs: 5_000,
      },
    ],
    async start(options) {
      const own = join(options.dir, 'shared');
      await mkdir(own);
      const both = [await startComfyServer(join(own, 'a')), await startComfyServer(join(own, 'b'))];
      const settings = await writeComfySettings(
        join(own, 'settings'),
        both.map(({ url }) => url),
      );
      const subject = await sidecar(join(own, 'engine.sock'), await comfyCommand(settings))(options);
      return {
        ...subject,
        async close() {
          await subject.close();
          for (const server of both) await server.close();
        },
      };
    },
  });

  describe('with one server', () => {
    let subject: Subject;
    beforeAll(async () => {
      subject = await open([servers[0]?.url ?? '']);
    }, START_MS);
    afterAll(() => subject?.close());

    let outputs = 0;
    async function render(
      parameters: Record<string, string>,
      {
        signal = idle,
        files = inputs,
        options = {} as RenderOptions,
        onProgress = (_fraction: number, _stage: string) => {},
      } = {},
    ) {
      const outputDir = join(dir, `out-${++outputs}`);
      await mkdir(outputDir);
      const work = { capability: 'face-swap-image' as const, inputs: files, parameters, options, outputDir };
      return subject.render(work, { signal, onProgress });
    }
    const requests = async (what: string) =>
      ((await servers[0]?.requests()) ?? []).filter(([asked]) => asked === what).map(([, body]) => body);

    it('fills the workflow, and leaves nothing of a job in the server', async () => {
      const stages: string[] = [];
      const { contentType, details } = await render(
        { mode: 'ok', steps: 'few' },
        { onProgress: (_fraction, stage) => stages.push(stage) },
      );
      expect({ contentType, details }).toEqual({
        contentType: 'image/png',
        details: { workflow: 'picture' },
      });
      expect(stages).toEqual(expect.arrayContaining(['upload', 'swap']));
      const [sent] = (await requests('POST /prompt')).slice(-1) as [{ prompt: typeof PICTURE_WORKFLOW }];
      expect(sent.prompt[3].inputs).toEqual({ ...PICTURE_WORKFLOW[3].inputs, steps: 4 });
      expect(sent.prompt[1].inputs.image).toMatch(/^semblance-[0-9a-f]{12}-[0-9a-f]{32}-image\.png$/);
      expect(sent.prompt[2].inputs.image).toMatch(/-face\.png$/);
      expect(await servers[0]?.get('/history')).toEqual({});
      expect(new Set(await servers[0]?.left())).toEqual(new Set([0]));
    });

    it('announces the options of its settings, and fills nodes with those of a render', async () => {
      expect(subject.info.capabilities[0]?.options).toEqual([
        {
          ...{ name: 'sampler_steps', type: 'integer', minimum: 1, maximum: 50, default: '8' },
          description: 'Steps of the sampler.',
        },
        {
          ...{ name: 'weights', type: 'choice', choices: ['plain', 'film'], default: 'plain' },
          description: 'Weights.',
        },
      ]);
      const sent = async () => {
        const [last] = (await requests('POST /prompt')).slice(-1) as [{ prompt: typeof PICTURE_WORKFLOW }];
        return last.prompt[3].inputs;
      };
      await render({}, { options: { sampler_steps: 3, weights: 'film' } });
      expect(await sent()).toMatchObject({ steps: 3, model: 'b.safetensors' });
      await render({});
      expect(await sent()).toMatchObject({ steps: 8, model: 'a.safetensors' });
    });

    it('goes on when the socket is lost', async () => {
      expect((await render({ mode: 'lost' })).contentType).toBe('image/png');
    });

    it.each([
      ['the card is full', 'memory', /out of memory/],
      ['somebody interrupts the prompt', 'interrupted', /somebody interrupted/],
      ['the server forgets the prompt', 'forget', /knows nothing of the prompt/],
    ])('is interrupted when %s', async (_what, mode, message) => {
      const error = await render({ mode }).catch((reason: Error) => reason);
      expect(error).toMatchObject({
        name: 'EngineInterruptedError',
        message: expect.stringMatching(message),
      });
      expect((await requests('POST /free')).length).toBe(
        ['memory', 'interrupted', 'forget'].includes(mode) ? 1 : 0,
      );
    });

    it.each([
      ['an error that the owner has named', { mode: 'no-face' }, 'face_not_detected', 'There is no face.'],
      [
        'a parameter beyond the limit',
        { steps: 'many' },
        'processing_failed',
        'The engine does not take this steps.',
      ],
      ['a parameter without a value', { steps: '17' }, 'processing_failed', "The engine has no steps '17'."],
      [
        'a choice that the node lacks',
        { mode: 'x' },
        'processing_failed',
        'The engine does not take this mode.',
      ],
    ])('refuses a job for %s', async (_what, parameters, code, message) => {
      const refused = render({ ...parameters } as Record<string, string>);
      await expect(refused).rejects.toMatchObject({ code, message });
    });

    it('refuses files that the server does not take, and those of another kind', async () => {
      const large = join(dir, 'large');
      const noise = { type: 'gaussian', mean: 128, sigma: 60 } as const;
      await sharp({ create: { width: 1_200, height: 900, channels: 3, background: '#000', noise } })
        .png()
        .toFile(large);
      await expect(render({}, { files: { ...inputs, face: large } })).rejects.toMatchObject({
        code: 'input_too_large',
      });
      const sound = join(dir, 'sound');
      await run('ffmpeg', ['-v', 'error', '-f', 'lavfi', '-i', 'sine=d=1', '-f', 'wav', sound]);
      await expect(render({}, { files: { ...inputs, face: sound } })).rejects.toMatchObject({
        code: 'unsupported_format',
        message: 'The face is not of the kind image.',
      });
    });

    it.each([
      ['fail', /node 3 \(Trial, "Swap"\): RuntimeError: mat1 and mat2/],
      ['two', /node 4 \(SaveImage\) saved 2 files, not one/],
    ])('names the node in the log when the workflow is at fault: %s', async (mode, message) => {
      const error = await render({ mode }).catch((reason: Error) => reason);
      expect(error).toMatchObject({ name: 'Error', message: expect.stringMatching(message) });
    });

    it.each([
      ['at once', 'slow'],
      ['between two questions of the sidecar', 'lingers'],
    ])('interrupts and forgets the prompt of a cancelled render that ends %s', async (_, mode) => {
      const cancel = new AbortController();
      const hung = render(
        { mode },
        {
          signal: cancel.signal,
          onProgress: (_, stage) => stage === 'swap' && cancel.abort(new Error('enough')),
        },
      );
      await expect(hung).rejects.toThrow('enough');
      const [sent] = (await requests('POST /prompt')).slice(-1) as [{ prompt_id: string }];
      // The render has ended for its caller before the sidecar has tidied up.
      await expect
        .poll(async () => (await requests('POST /interrupt')).at(-1), { timeout: 10_000 })
        .toEqual({ prompt_id: sent.prompt_id });
      expect((await render({})).contentType).toBe('image/png');
      expect(await servers[0]?.get('/history')).toEqual({});
      expect(new Set(await servers[0]?.left())).toEqual(new Set([0]));
    });

    it('takes a prompt out of the queue of others, and leaves theirs alone', async () => {
      const prompt = { '3': { class_type: 'Trial', inputs: { images: '', mode: 'slow' } } };
      await servers[0]?.post('/prompt', { prompt, prompt_id: 'theirs', client_id: 'them' });
      const before = (await requests('POST /interrupt')).length;
      const cancel = new AbortController();
      const waiting = render(
        {},
        {
          signal: cancel.signal,
          onProgress: (_, stage) => stage === 'queue' && cancel.abort(new Error('enough')),
        },
      );
      await expect(waiting).rejects.toThrow('enough');
      const queue = (await servers[0]?.get('/queue')) as Record<string, unknown[][]> | undefined;
      expect(queue?.queue_running?.map(([, id]) => id)).toEqual(['theirs']);
      expect(queue?.queue_pending).toEqual([]);
      expect((await requests('POST /interrupt')).length).toBe(before);
      await servers[0]?.post('/interrupt', { prompt_id: 'theirs' });
    });

    it('renders a video, and measures it', async () => {
      const [video, audio] = [join(dir, 'video'), join(dir, 'audio')];
      const picture = ['-f', 'lavfi', '-i', 'testsrc2=d=1.2:s=64x48:r=25'];
      await run('ffmpeg', ['-v', 'error', ...picture, '-pix_fmt', 'yuv420p', '-f', 'mp4', video]);
      await run('ffmpeg', ['-v', 'error', '-f', 'lavfi', '-i', 'sine=d=6', '-f', 'wav', audio]);
      const outputDir = join(dir, 'out-video');
      await mkdir(outputDir);
      const lips = (sound: string) =>
        subject.render(
          { capability: 'lip-sync', inputs: { video, audio: sound }, parameters: {}, outputDir },
          { signal: idle, onProgress: () => {} },
        );
      expect(await lips(video.replace('video', 'short')).catch((error: Error) => error.name)).toBe('Error');
      await expect(lips(audio)).rejects.toMatchObject({ code: 'input_too_large' });
      await run('ffmpeg', ['-v', 'error', '-f', 'lavfi', '-i', 'sine=d=1', '-f', 'wav', `${audio}-1`]);
      expect(await lips(`${audio}-1`)).toMatchObject({
        contentType: 'video/mp4',
        units: { unit: 'second', quantity: 1.2 },
      });
    });
  });
});
