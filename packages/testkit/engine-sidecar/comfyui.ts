import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '@semblance/local/process/ports';
import { pythonEnv } from './python-env.ts';

const SERVER = join(import.meta.dirname, 'comfyui_server.py');

/** A server that answers as ComfyUI does (comfyui_server.py). */
export interface ComfyServer {
  readonly url: string;
  readonly port: number;
  /** Requests so far, such as `POST /interrupt`, with the body of those in JSON. */
  requests(): Promise<readonly (readonly [string, unknown])[]>;
  /** Sizes of all files that jobs left in the folders for inputs and outputs. */
  left(): Promise<readonly number[]>;
  get(path: string): Promise<unknown>;
  post(path: string, body: unknown): Promise<unknown>;
  close(): Promise<void>;
}

/** @param argv what the server says that it was started with */
export async function startComfyServer(
  folder: string,
  argv = ['--disable-metadata'],
  port?: number,
): Promise<ComfyServer> {
  port ??= await freePort();
  await mkdir(folder, { recursive: true });
  const child: ChildProcess = spawn(await pythonEnv(), [SERVER, String(port), folder, ...argv], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const over = once(child, 'exit');
  await Promise.race([
    once(child.stdout as NonNullable<typeof child.stdout>, 'data'),
    over.then(() => Promise.reject(new Error('the server ended'))),
  ]);
  const url = `http://127.0.0.1:${port}`;
  const asked = async (path: string, init?: RequestInit) => {
    const text = await (await fetch(url + path, init)).text();
    return text === '' ? undefined : (JSON.parse(text) as unknown);
  };
  return {
    url,
    port,
    async requests() {
      const lines = await readFile(join(folder, 'requests'), 'utf8').catch(() => '');
      return lines
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line));
    },
    async left() {
      const sizes: number[] = [];
      for (const kind of ['input', 'output']) {
        for (const name of await readdir(join(folder, kind)))
          sizes.push((await stat(join(folder, kind, name))).size);
      }
      return sizes;
    },
    get: (path) => asked(path),
    post: (path, body) =>
      asked(path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    async close() {
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await over;
    },
  };
}

/** A workflow in API form whose nodes the server has: picture and face go in, a picture comes out. */
export const PICTURE_WORKFLOW = {
  '1': { class_type: 'LoadImage', inputs: { image: 'example.png' } },
  '2': { class_type: 'LoadImage', inputs: { image: 'example.png' } },
  '3': {
    class_type: 'Trial',
    inputs: { images: ['1', 0], mode: 'ok', steps: 8, model: 'a.safetensors' },
    _meta: { title: 'Swap' },
  },
  '4': { class_type: 'SaveImage', inputs: { images: ['3', 0], filename_prefix: 'x' } },
};

const VIDEO_WORKFLOW = {
  '1': { class_type: 'LoadVideo', inputs: { file: '' } },
  '2': { class_type: 'LoadAudio', inputs: { audio: '' } },
  '3': { class_type: 'SaveVideo', inputs: { video: ['1', 0] } },
};

/** Returns the command that starts the sidecar with these settings. */
export const comfyCommand = async (settings: string) => [
  'env',
  `SEMBLANCE_COMFYUI_SETTINGS=${settings}`,
  await pythonEnv(),
  ...['-m', 'semblance_sidecars.comfyui'],
];

/** Settings for Photo Swap and Lip Sync; `change` may spoil them before they are written. */
export async function writeComfySettings(
  dir: string,
  urls: readonly string[],
  change: (settings: ComfySettings) => void = () => {},
): Promise<string> {
  const settings = {
    servers: urls.map((url): Record<string, unknown> => ({ url })),
    capabilities: {
      'face-swap-image': {
        workflow: 'picture.json',
        memory_mib: 16,
        inputs: { image: { node: 1, input: 'image' }, face: [{ node: 2, input: 'image' }] } as Record<
          string,
          unknown
        >,
        parameters: {
          mode: { node: 3, input: 'mode' },
          steps: { node: 3, input: 'steps', values: { few: 4, many: 101 } },
        },
        options: {
          sampler_steps: {
            ...{ node: 3, input: 'steps', type: 'integer', minimum: 1, maximum: 50 },
            description: 'Steps of the sampler.',
          },
          weights: {
            ...{ node: 3, input: 'model', type: 'choice', description: 'Weights.' },
            values: { plain: 'a.safetensors', film: 'b.safetensors' },
          },
        } as Record<string, Record<string, unknown>>,
        output: { node: 4 } as Record<string, unknown>,
        stages: { 3: 'swap' },
        refusals: [{ contains: 'no face detected', code: 'face_not_detected', message: 'There is no face.' }],
      },
      'lip-sync': {
        workflow: 'video.json',
        memory_mib: 16,
        limits: { seconds: 5 },
        inputs: { video: { node: 1, input: 'file' }, audio: { node: 2, input: 'audio' } },
        output: { node: 3 },
      },
    } as Record<string, Record<string, unknown>>,
    workflows: {
      picture: structuredClone(PICTURE_WORKFLOW) as Record<string, unknown>,
      video: VIDEO_WORKFLOW,
    },
    more: {} as Record<string, unknown>,
  };
  change(settings);
  const { workflows, more, ...rest } = settings;
  await mkdir(dir, { recursive: true });
  for (const [name, workflow] of Object.entries(workflows)) {
    await writeFile(join(dir, `${name}.json`), JSON.stringify(workflow));
  }
  const path = join(dir, 'settings.yaml');
  await writeFile(path, JSON.stringify({ ...rest, ...more }));
  return path;
}

export interface ComfySettings {
  servers: Record<string, unknown>[];
  capabilities: Record<string, Record<string, unknown>>;
  workflows: Record<string, Record<string, unknown>>;
  /** Settings beside these. */
  more: Record<string, unknown>;
}
