/**
 * @module-tag python
 * @module-tag ffmpeg
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CAPABILITIES } from '@semblance/engine-api/capabilities';
import {
  type ComfyServer,
  type ComfySettings,
  comfyCommand,
  type PICTURE_WORKFLOW,
  startComfyServer,
  writeComfySettings,
} from '@semblance/testkit/engine-sidecar/comfyui';
import { pythonEnv } from '@semblance/testkit/engine-sidecar/python-env';
import { portraits } from '@semblance/testkit/gpu-agent/portraits';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Subject, sidecar } from '../conformance/subject.ts';

const START_MS = 300_000;
const idle = new AbortController().signal;
const run = promisify(execFile);

describe('the sidecar for ComfyUI, when it starts and its server comes and goes', () => {
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

  it('knows the capabilities as the agent does', async () => {
    const print = 'import json; from semblance_sidecars.jobs import SHAPES; print(json.dumps(SHAPES))';
    const { stdout } = await run(await pythonEnv(), ['-c', print]);
    const known = Object.entries(JSON.parse(stdout)).map(([name, shape]) => [
      name,
      (shape as unknown[]).slice(0, 2),
    ]);
    const jobs = Object.entries(CAPABILITIES)
      .filter(([, { shape }]) => shape === 'job')
      .map(([name, { unit, inputs }]) => [
        name,
        [Object.fromEntries(Object.entries(inputs).map(([role, { kind }]) => [role, kind])), unit],
      ]);
    expect(Object.fromEntries(known)).toEqual(Object.fromEntries(jobs));
  });

  it('renders on the server of each worker', async () => {
    const subject = await open(servers.map(({ url }) => url));
    try {
      const before = (await servers[1]?.requests())?.length ?? 0;
      const both = ['x', 'y'].map(async (name) => {
        const outputDir = join(dir, `both-${name}`);
        await mkdir(outputDir);
        const work = { capability: 'face-swap-image' as const, inputs, parameters: {}, outputDir };
        return subject.render(work, { signal: idle, onProgress: () => {} });
      });
      await Promise.all(both);
      const later = ((await servers[1]?.requests()) ?? []).slice(before);
      expect(later.filter(([asked]) => asked === 'POST /prompt')).toHaveLength(1);
    } finally {
      await subject.close();
    }
  });

  it('is interrupted when the server ends, and renders when it is there again', async () => {
    let server = await startComfyServer(join(dir, 'ends'));
    const socketDir = join(dir, 'ends-socket');
    const subject = await open(
      [server.url],
      ({ more }) => {
        more.patience_s = 0;
      },
      socketDir,
    );
    const render = async (on: Subject, mode: string) => {
      const outputDir = await mkdtemp(join(dir, 'out-'));
      const work = { capability: 'face-swap-image' as const, inputs, parameters: { mode }, outputDir };
      return on.render(work, { signal: idle, onProgress: () => {} });
    };
    try {
      await expect(render(subject, 'exit')).rejects.toMatchObject({ name: 'EngineInterruptedError' });
      await server.close();
      server = await startComfyServer(join(dir, 'ends'), undefined, server.port);
      // As the agent does, another client waits until the sidecar takes renders again.
      const again = await sidecar(join(socketDir, 'engine.sock'))({
        dir,
        signal: AbortSignal.timeout(60_000),
      });
      expect((await render(again, 'ok')).contentType).toBe('image/png');
      await again.close();
    } finally {
      await subject.close();
      await server.close();
    }
  });

  const photo = ({ capabilities }: ComfySettings) =>
    capabilities['face-swap-image'] as Record<string, unknown>;
  it.each<[string, RegExp, (settings: ComfySettings) => void]>([
    [
      'a node that ComfyUI lacks',
      /node 9 \(Gone\): ComfyUI has no such node/,
      ({ workflows }) => {
        (workflows.picture as Record<string, unknown>)['9'] = { class_type: 'Gone', inputs: {} };
      },
    ],
    [
      'a model that ComfyUI lacks',
      /no 'c\.safetensors' for model/,
      ({ workflows }) => {
        (workflows.picture as typeof PICTURE_WORKFLOW)[3].inputs.model = 'c.safetensors';
      },
    ],
    [
      'an input that the node lacks',
      /node 1 \(LoadImage\) has no input file/,
      (settings) => {
        photo(settings).inputs = { image: { node: 1, input: 'file' }, face: { node: 2, input: 'image' } };
      },
    ],
    [
      'a choice of an option that ComfyUI lacks',
      /node 3 \(Trial, "Swap"\): ComfyUI has no 'c\.safetensors' for model/,
      (settings) => {
        const options = photo(settings).options as Record<string, Record<string, unknown>>;
        options.weights = { ...options.weights, values: { plain: 'a.safetensors', film: 'c.safetensors' } };
      },
    ],
    [
      'an output that saves nothing',
      /saves nothing/,
      (settings) => {
        photo(settings).output = { node: 3 };
      },
    ],
    [
      'another device',
      /runs on cpu, not on cuda/,
      ({ servers: [server] }) => {
        if (server) server.device = 'cuda';
      },
    ],
  ])('does not start with %s', async (_what, message, change) => {
    await expect(open([servers[0]?.url ?? ''], change)).rejects.toThrow(message);
  });

  it('does not start with a server that writes the workflow into outputs, unless that is allowed', async () => {
    const server = await startComfyServer(join(dir, 'tells'), []);
    try {
      await expect(open([server.url])).rejects.toThrow(/--disable-metadata/);
      await (
        await open([server.url], ({ more }) => {
          more.allow_metadata = true;
        })
      ).close();
    } finally {
      await server.close();
    }
  });

  it.each<[string, RegExp, (settings: ComfySettings) => void]>([
    [
      'no server',
      /settings\.yaml\.servers must be a list/,
      (settings) => {
        settings.servers = [];
      },
    ],
    [
      'an unknown name',
      /face-swap-image\.model is unknown/,
      (settings) => {
        photo(settings).model = 'x';
      },
    ],
    [
      'no memory',
      /memory_mib is missing/,
      (settings) => {
        delete photo(settings).memory_mib;
      },
    ],
    [
      'a role without a node',
      /inputs\.face is missing/,
      (settings) => {
        photo(settings).inputs = { image: { node: 1, input: 'image' } };
      },
    ],
    [
      'a node that is not there',
      /the workflow has no node 7/,
      (settings) => {
        photo(settings).output = { node: 7 };
      },
    ],
    [
      'an input that a node feeds',
      /another node feeds the input images of node 3/,
      (settings) => {
        photo(settings).parameters = { mode: { node: 3, input: 'images' } };
      },
    ],
    [
      'an option of a node that is not there',
      /options\.sampler_steps: the workflow has no node 7/,
      (settings) => {
        const options = photo(settings).options as Record<string, Record<string, unknown>>;
        options.sampler_steps = { ...options.sampler_steps, node: 7 };
      },
    ],
    [
      'a bound that is no number',
      /options\.sampler_steps\.maximum must be a number/,
      (settings) => {
        const options = photo(settings).options as Record<string, Record<string, unknown>>;
        options.sampler_steps = { ...options.sampler_steps, maximum: 'many' };
      },
    ],
    [
      'a workflow that is not in API form',
      /Export \(API\)/,
      ({ workflows }) => {
        workflows.picture = { nodes: [], links: [] };
      },
    ],
    [
      'Avatar without a script',
      /parameters\.script is missing/,
      ({ capabilities }) => {
        const inputs = { image: { node: 1, input: 'image' } };
        capabilities.avatar = { workflow: 'picture.json', memory_mib: 1, inputs, output: { node: 4 } };
      },
    ],
  ])('says in one line what is wrong with settings that have %s', async (_what, message, change) => {
    const settings = await writeComfySettings(join(dir, `bad-${++opened}`), ['http://127.0.0.1:1'], change);
    const [program = '', ...words] = await comfyCommand(settings);
    const error = await run(program, words).catch((reason: { stderr: string }) => reason);
    expect(error).toMatchObject({ code: 1, stderr: expect.stringMatching(/^[^\n]+\n$/) });
    expect(error.stderr).toMatch(message);
  });

  it('renders the sample at its start, and removes files where it reaches the folders of the server', async () => {
    const server = await startComfyServer(join(dir, 'sample'));
    try {
      const subject = await open([server.url], (settings) => {
        photo(settings).sample = { ...inputs, steps: 'few' };
        const [input, output] = ['input', 'output'].map((kind) => join(dir, 'sample', kind));
        settings.more.folders = { input, output };
      });
      await subject.close();
      const prompts = (await server.requests()).filter(([asked]) => asked === 'POST /prompt');
      expect(prompts).toHaveLength(1);
      expect(await server.get('/history')).toEqual({});
      expect(await server.left()).toEqual([]);
    } finally {
      await server.close();
    }
  });

  it('finds what a killed process left in the server', async () => {
    const server = await startComfyServer(join(dir, 'killed'));
    const socketDir = join(dir, 'killed-socket');
    const subject = await open([server.url], undefined, socketDir);
    try {
      const outputDir = await mkdtemp(join(dir, 'out-'));
      const work = {
        capability: 'face-swap-image' as const,
        inputs,
        parameters: { mode: 'slow' },
        outputDir,
      };
      let crashed = false;
      const onProgress = (_: number, stage: string) => {
        if (stage !== 'swap' || crashed) return;
        crashed = true;
        subject.crash?.();
      };
      const lost = subject.render(work, { signal: idle, onProgress });
      await expect(lost).rejects.toMatchObject({ name: 'EngineInterruptedError' });
      await subject.restarted?.();
      await subject.render({ ...work, parameters: {} }, { signal: idle, onProgress: () => {} });
      expect(await server.get('/history')).toEqual({});
      expect(new Set(await server.left())).toEqual(new Set([0]));
    } finally {
      await subject.close();
      await server.close();
    }
  });
});
