import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { tinyArcface, tinyXseg } from '@semblance/testkit/engine-onnx/tiny-models';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openModelDir } from '../model-dir.ts';
import { fetchModels } from './fetch.ts';

const rig = new ModelDirRig();
afterAll(() => rig.close());

const FILES: Readonly<Record<string, Uint8Array>> = {
  '/arcface.onnx': tinyArcface(),
  '/xseg.onnx': tinyXseg(),
};
const XSEG = entry('xseg_1', 'xseg.onnx');
const ARCFACE = entry('arcface_w600k_r50', 'arcface.onnx');

let server: Server;
let asked: string[];
/** What answers instead, by the number of the request. */
let instead: Map<number, RequestListener>;
let dir: string;
let said: string[];
beforeEach(async () => {
  asked = [];
  instead = new Map();
  said = [];
  dir = await rig.directory();
  server = createServer((request, response) => {
    asked.push(
      `${request.url} ${request.headers.range ?? 'all'} ${request.headers.authorization ?? ''}`.trim(),
    );
    const other = instead.get(asked.length);
    if (other) return void other(request, response);
    const bytes = FILES[request.url ?? ''];
    if (!bytes) return void response.writeHead(404).end();
    const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
    if (from >= bytes.length) return void response.writeHead(416).end();
    response
      .writeHead(from > 0 ? 206 : 200, { 'content-length': bytes.length - from })
      .end(bytes.subarray(from));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterEach(() => {
  server.close();
  server.closeAllConnections();
});

function entry(contract: string, file: string) {
  const sha256 = createHash('sha256')
    .update(FILES[`/${file}`] ?? '')
    .digest('hex');
  return { name: contract, file, sha256, licence: 'MIT', contract };
}

async function setOf(...entries: object[]): Promise<string> {
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const models = entries.map((each) => ({ url: `${base}/${(each as { file: string }).file}`, ...each }));
  const path = join(await rig.directory(), 'models.yaml');
  await writeFile(path, JSON.stringify({ version: 1, models }));
  return path;
}

const fetchSets = (sets: readonly string[], more: object = {}) =>
  fetchModels({
    ...{ sets, directory: dir, signal: new AbortController().signal, firstPauseMs: 1 },
    say: (line) => said.push(line),
    ...more,
  });

describe('fetching model sets', () => {
  it('brings every file once, and a directory that the engine takes', async () => {
    const sets = [await setOf(ARCFACE, XSEG), await setOf(XSEG)];
    await fetchSets(sets, { authorization: 'Bearer t' });
    expect(asked).toEqual(['/arcface.onnx all Bearer t', '/xseg.onnx all Bearer t']);
    const { models, faults } = await openModelDir(dir);
    expect(faults).toEqual([]);
    expect(models.map(({ name }) => name)).toEqual(['arcface_w600k_r50', 'xseg_1']);
    expect(said.at(-1)).toContain('2 models are in');
    await fetchSets(sets);
    expect(asked).toHaveLength(2);
    expect((await readdir(dir)).sort()).toEqual(['arcface.onnx', 'manifest.yaml', 'xseg.onnx']);
  });

  it('goes on where a connection broke off, and after a server that is busy', async () => {
    instead.set(1, (_, response) => {
      response.writeHead(200, { 'content-length': 10_000 });
      response.write(FILES['/xseg.onnx']?.subarray(0, 100));
      setTimeout(() => response.destroy(), 50);
    });
    instead.set(2, (_, response) => response.writeHead(503).end());
    await fetchSets([await setOf(XSEG)]);
    expect(asked).toEqual(['/xseg.onnx all', '/xseg.onnx bytes=100-', '/xseg.onnx bytes=100-']);
    expect((await openModelDir(dir)).faults).toEqual([]);
  });

  it('goes on after its process was ended', async () => {
    const ending = new AbortController();
    instead.set(1, (_, response) => {
      response.writeHead(200, { 'content-length': 10_000 });
      response.write(FILES['/xseg.onnx']?.subarray(0, 100));
      setTimeout(() => ending.abort(new Error('ended')), 50);
    });
    const set = await setOf(XSEG);
    await expect(fetchSets([set], { signal: ending.signal })).rejects.toThrow('ended');
    expect(await readdir(dir)).not.toContain('manifest.yaml');
    await fetchSets([set]);
    expect(asked[1]).toBe('/xseg.onnx bytes=100-');
    expect((await openModelDir(dir)).faults).toEqual([]);
  });

  it('refuses a file that is not the one of the set, and keeps nothing of it', async () => {
    const set = await setOf({ ...XSEG, sha256: 'ab'.repeat(32) });
    await expect(fetchSets([set])).rejects.toThrow(/xseg_1 \(1 of 1\): .* has the sha256 .*, not abab/);
    expect(await readdir(dir)).toEqual([]);
  });

  it('replaces a file that was damaged', async () => {
    const set = await setOf(XSEG);
    await fetchSets([set]);
    await writeFile(join(dir, 'xseg.onnx'), 'damaged');
    await fetchSets([set]);
    expect((await openModelDir(dir)).faults).toEqual([]);
  });

  it('tries what will not change only once', async () => {
    await expect(fetchSets([await setOf({ ...XSEG, file: 'none.onnx' })])).rejects.toThrow(/answers 404/);
    expect(asked).toHaveLength(1);
  });

  it('gives up after five tries', async () => {
    for (let i = 1; i <= 9; i++) instead.set(i, (_, response) => void response.writeHead(500).end());
    await expect(fetchSets([await setOf(XSEG)])).rejects.toThrow(/answers 500/);
    expect(asked).toHaveLength(5);
  });

  it.each([
    ['no url', { ...XSEG, url: undefined }, /xseg_1: has no url/],
    ['a url of a file', { ...XSEG, url: 'file:///etc/passwd' }, /must be an http or https address/],
    ['a place outside', { ...XSEG, file: '../xseg.onnx' }, /must not leave the model directory/],
  ])('refuses a set with %s', async (_, given, message) => {
    await expect(fetchSets([await setOf(given)])).rejects.toThrow(message);
    expect(asked).toEqual([]);
  });

  it('refuses sets that contradict each other, and a directory that somebody else keeps', async () => {
    const other = await setOf({ ...XSEG, licence: 'GPL-3.0' });
    await expect(fetchSets([await setOf(XSEG), other])).rejects.toThrow(/another set has it otherwise/);
    await writeFile(join(dir, 'manifest.yaml'), 'version: 1\nmodels: []\n');
    await expect(fetchSets([other])).rejects.toThrow(/was not written by this command/);
    expect(await readFile(join(dir, 'manifest.yaml'), 'utf8')).toBe('version: 1\nmodels: []\n');
  });

  it('may run twice at once on one volume', async () => {
    const set = await setOf(ARCFACE, XSEG);
    await Promise.all([fetchSets([set]), fetchSets([set]), fetchSets([set])]);
    expect((await openModelDir(dir)).faults).toEqual([]);
  });
});
