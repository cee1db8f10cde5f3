/**
 * @module-tag python
 * @module-tag ffmpeg
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Subject, sidecar } from '@semblance/gpu-agent/conformance/subject';
import { engineConformance } from '@semblance/testkit/conformance/vitest';
import { diffusersEnv } from '@semblance/testkit/engine-sidecar/python-env';
import { portraits } from '@semblance/testkit/gpu-agent/portraits';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** The sidecar `diffusers` with torch and diffusers themselves, on the CPU, with weights that the test makes. */

const WEIGHTS = join(import.meta.dirname, '../../packages/testkit/engine-sidecar/diffusers_weights.py');
/** Time limit of the start, in ms: the first run installs torch. */
const START_MS = 1_200_000;
const idle = new AbortController().signal;
const run = promisify(execFile);

type Capabilities = Record<string, Record<string, unknown>>;

/** Settings of Photo Swap by a picture with a LoRA and an IP-Adapter for the face, and of Video Swap. */
const capabilities = (weights: string): Capabilities => ({
  'face-swap-image': {
    pipeline: 'StableDiffusionImg2ImgPipeline',
    weights: { folder: join(weights, 'picture'), licence: 'none' },
    loras: [{ file: join(weights, 'lora.safetensors'), licence: 'none' }],
    ip_adapter: {
      file: join(weights, 'adapter.safetensors'),
      encoder: join(weights, 'adapter-encoder'),
      licence: 'none',
    },
    memory: { vae_tiling: true },
    memory_mib: 512,
    inputs: { image: 'image', face: 'ip_adapter_image' },
    arguments: { prompt: 'a face', num_inference_steps: 8, strength: 0.5, guidance_scale: 2 },
    size: { pixels: 4_096 },
  },
  'face-swap': {
    pipeline: 'AnimateDiffVideoToVideoPipeline',
    weights: { folder: join(weights, 'video'), licence: 'none' },
    memory_mib: 512,
    inputs: { video: 'video' },
    measures: { width: 'width', height: 'height' },
    arguments: { prompt: 'a face', num_inference_steps: 4, strength: 0.5, guidance_scale: 1 },
    size: { pixels: 1_024 },
  },
});

describe('the sidecar for diffusers, with diffusers itself', () => {
  let dir: string;
  let weights: string;
  let python: string;
  let proxy: Server;
  let inputs: Record<string, string>;
  let connections = 0;
  let opened = 0;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'semblance-diffusers-'));
    python = await diffusersEnv();
    inputs = { ...(await portraits(dir, 96)).inputs };
    proxy = createServer((socket) => {
      connections += 1;
      socket.destroy();
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    weights = join(dir, 'weights');
    await mkdir(weights);
    await run(python, [WEIGHTS, weights], { maxBuffer: 1 << 24 });
  }, START_MS);
  afterAll(async () => {
    proxy?.close();
    await rm(dir, { recursive: true, force: true });
  });

  async function command(folder: string, said: Capabilities): Promise<string[]> {
    await mkdir(folder, { recursive: true });
    const path = join(folder, 'settings.yaml');
    await writeFile(path, JSON.stringify({ devices: ['cpu'], capabilities: said }));
    const { port } = proxy.address() as { port: number };
    // Threads that wait for each other take most of the time of such small networks.
    const variables = ['OMP_NUM_THREADS=1', `SEMBLANCE_DIFFUSERS_SETTINGS=${path}`];
    for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy'])
      variables.push(`${name}=http://127.0.0.1:${port}`);
    return ['env', ...variables, python, '-m', 'semblance_sidecars.diffusers'];
  }

  async function open(said: Capabilities): Promise<Subject> {
    const own = join(dir, `s${++opened}`);
    const start = sidecar(join(own, 'engine.sock'), await command(join(own, 'settings'), said));
    return start({ dir, signal: AbortSignal.timeout(240_000) });
  }

  async function pictureBy(change: Record<string, unknown>): Promise<Buffer> {
    const { 'face-swap-image': photo } = capabilities(weights);
    const subject = await open({ 'face-swap-image': { ...photo, ...change } });
    try {
      const outputDir = await mkdtemp(join(dir, 'out-'));
      const work = { capability: 'face-swap-image' as const, inputs, parameters: {}, outputDir };
      const { findings } = await subject.render(work, { signal: idle, onProgress: () => {} });
      expect(findings?.models?.map(({ name }) => name)).toContain('picture');
      return await readFile(join(outputDir, 'output.png'));
    } finally {
      await subject.close();
    }
  }

  engineConformance({
    title: 'the sidecar for diffusers, with diffusers itself',
    works: [
      {
        capability: 'face-swap-image',
        samples: async (own) => ({ inputs: (await portraits(own, 96)).inputs, bad: [] }),
        cancelMs: 5_000,
      },
      {
        capability: 'face-swap',
        async samples(own) {
          const video = join(own, 'clip');
          const picture = ['-f', 'lavfi', '-i', 'testsrc2=d=0.8:s=40x32:r=10'];
          const sound = ['-f', 'lavfi', '-i', 'sine=d=0.8', '-pix_fmt', 'yuv420p', '-f', 'mp4'];
          await run('ffmpeg', ['-v', 'error', ...picture, ...sound, video]);
          return { inputs: { video, face: (await portraits(own, 96)).inputs.face ?? '' }, bad: [] };
        },
        cancelMs: 5_000,
      },
    ],
    async start(options) {
      const own = join(options.dir, 'shared');
      await mkdir(own);
      const words = await command(join(own, 'settings'), capabilities(weights));
      return sidecar(join(own, 'engine.sock'), words)(options);
    },
  });

  it(
    'draws by its seed, its LoRA and the face',
    async () => {
      const whole = await pictureBy({});
      const { ip_adapter: adapter } = capabilities(weights)['face-swap-image'] ?? {};
      const others = [
        { seed: 1 },
        { loras: [{ file: join(weights, 'lora.safetensors'), licence: 'none', scale: 0 }] },
        { ip_adapter: { ...(adapter as object), scale: 0 } },
      ];
      const pictures = [whole];
      for (const other of others) pictures.push(await pictureBy(other));
      expect(new Set(pictures.map((picture) => picture.toString('base64'))).size).toBe(4);
      expect(await pictureBy({})).toEqual(whole);
    },
    START_MS,
  );

  it('saves memory without the face too', async () => {
    const memory = { attention_slicing: true, vae_slicing: true };
    const change = { ip_adapter: undefined, inputs: { image: 'image' }, memory };
    await expect(pictureBy(change)).resolves.toBeDefined();
  });

  it(
    'loads pickled weights only where the owner allows them',
    async () => {
      const pickled = (allow: boolean) => ({
        weights: { folder: join(weights, 'pickled'), licence: 'none', allow_pickle: allow, name: 'picture' },
      });
      await expect(pictureBy(pickled(false))).rejects.toThrow(
        /lacks a \.safetensors file; .*face-swap-image\.weights\.allow_pickle/,
      );
      expect(await pictureBy(pickled(true))).toEqual(await pictureBy({}));
    },
    START_MS,
  );

  it.each([
    [{ arguments: { prompt: 'x', guidance: 2 } }, /no argument guidance; did you mean guidance_scale\?/],
    [{ pipeline: 'AutoencoderKL' }, /has no class of pipelines AutoencoderKL/],
    [{ ip_adapter: { file: 'LORA', licence: 'none' } }, /face-swap-image\.ip_adapter: KeyError/],
  ])('does not start with %j', async (change, message) => {
    const text = JSON.stringify(change).replace('LORA', join(weights, 'lora.safetensors'));
    await expect(pictureBy(JSON.parse(text))).rejects.toThrow(message);
  });

  it('connects to nobody', () => {
    expect(connections).toBe(0);
  });
});
