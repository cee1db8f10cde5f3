/**
 * The manifests and values of `examples/`, by the API server and Helm that read them.
 *
 * @module-tag ffmpeg
 * @module-tag speech
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CHART, helm, manifestsOf } from '@semblance/testkit/chart/chart';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { untilPhaseOrEnd } from '@semblance/testkit/stack/render-jobs';
import { type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import { ROOT } from '../structure/workspaces.ts';

const run = promisify(execFile);
const FOLDER = join(ROOT, 'examples', 'kubernetes');
const HELM = join(ROOT, 'examples', 'helm');
const files = await readdir(FOLDER);
const jobs = files.filter((file) => !file.startsWith('pool-'));
let dir: string;
let stack: Stack;
let keys: Record<string, string>;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-manifests-'));
  stack = await sharedStack();
  const { api } = await stack.newAccount();
  const [video, audio] = [join(dir, 'video.mp4'), join(dir, 'audio.wav')];
  await run('flite', ['-voice', 'slt', '-t', 'Bring me the map.', '-o', audio]);
  const sway = "scale=480:480,crop=360:360:'60+12*sin(t*4)':40,fps=15,format=yuv420p";
  const portrait = join(ROOT, 'media', 'astronaut.png');
  await run('ffmpeg', [
    ...['-v', 'error', '-nostdin', '-loop', '1', '-i', portrait, '-i', audio],
    ...['-vf', sway, '-t', '0.8', '-c:a', 'aac', video],
  ]);
  const image = await api.upload(ADMIRAL);
  keys = {
    IMAGE_KEY: image,
    CHARACTER_KEY: image,
    FACE_KEY: await api.upload(ASTRONAUT),
    VIDEO_KEY: await api.upload({
      filename: 'v.mp4',
      contentType: 'video/mp4',
      bytes: await readFile(video),
    }),
    AUDIO_KEY: await api.upload({
      filename: 'a.wav',
      contentType: 'audio/wav',
      bytes: await readFile(audio),
    }),
  };
});
afterAll(() => rm(dir, { recursive: true, force: true }));

it('there is a RenderJob for each capability', async () => {
  const capabilities = await Promise.all(
    jobs.map(async (file) => parse(await readFile(join(FOLDER, file), 'utf8')).spec.capability),
  );
  expect(capabilities.sort()).toEqual(
    ['avatar', 'character-swap', 'face-swap', 'face-swap-image', 'lip-sync', 'motion-control'].sort(),
  );
});

it.each(jobs)('%s succeeds, and says where its output is', async (file) => {
  const text = (await readFile(join(FOLDER, file), 'utf8')).replace(
    /\b[A-Z]+_KEY\b/g,
    (name) => keys[name] as string,
  );
  const job = parse(text);
  await stack.kubectl.apply(job);
  const { status } = await untilPhaseOrEnd(stack.kubectl, job.metadata.name, 'Succeeded');
  expect(status?.failure).toBeUndefined();
  expect(status?.phase).toBe('Succeeded');
  const key = await stack.kubectl([
    'get',
    'renderjob',
    job.metadata.name,
    '-o',
    'jsonpath={.status.output.key}',
  ]);
  expect(key).toMatch(/^out\/|^[a-z]+\//);
  await stack.kubectl(['delete', 'renderjob', job.metadata.name, '--timeout=60s']);
});

it.each(files.filter((file) => file.startsWith('pool-')))('%s is taken by the API server', async (file) => {
  const said = await stack.kubectl(['apply', '--dry-run=server', '-f', join(FOLDER, file)]);
  expect(said).toMatch(/agentpool.* created \(server dry run\)/);
});

it.each(await readdir(HELM))('the chart takes %s', async (file) => {
  const where = ['--namespace', 'semblance', '--kube-version', '1.36.0'];
  const text = await helm(['template', 'semblance', CHART, ...where, '--values', join(HELM, file)]);
  const kinds = manifestsOf(text).map(({ kind }) => kind);
  expect(kinds).toEqual(expect.arrayContaining(['Deployment', 'Service']));
});
