import { spawnSync } from 'node:child_process';
import { open, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { GraphBuilder } from '@semblance/testkit/engine-onnx/graph';
import { ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { tinyAnchored } from '@semblance/testkit/engine-onnx/tiny-detectors';
import { EMAP, tinySwapper } from '@semblance/testkit/engine-onnx/tiny-models';
import { afterAll, expect, it } from 'vitest';
import { OnnxFileError } from './onnx-fields.ts';
import { type OnnxTensorInfo, readOnnxSummary, readOnnxTensor } from './onnx-file.ts';

const rig = new ModelDirRig();
afterAll(() => rig.close());

async function file(bytes: Uint8Array): Promise<string> {
  const path = join(await rig.directory(), 'model.onnx');
  await writeFile(path, bytes);
  return path;
}

it('reads what a model declares', async () => {
  const summary = readOnnxSummary(await file(tinySwapper({ batch: 'N' })));
  expect(summary.inputs).toEqual([
    { name: 'target', type: 'float32', dims: ['N', 3, 128, 128] },
    { name: 'source', type: 'float32', dims: ['N', 512] },
  ]);
  expect(summary.outputs).toEqual([{ name: 'output', type: 'float32', dims: ['N', 3, 128, 128] }]);
  expect(summary.lastInitializer).toMatchObject({ name: 'emap', dims: [512, 512], type: 'float32' });
  expect(summary.external).toEqual([]);
});

it('leaves inputs out that have an initializer, as older models list them', async () => {
  const graph = new GraphBuilder();
  const input = graph.input('x', [1, 'n']);
  graph.input('w', [1]);
  graph.output(graph.op('Mul', [input, graph.weight([2], [1], 'w')]), 'y', [1, 'n']);
  expect(readOnnxSummary(await file(graph.build())).inputs).toEqual([
    { name: 'x', type: 'float32', dims: [1, 'n'] },
  ]);
});

it.each(['float32', 'float16'] as const)('reads the emap in %s', async (type) => {
  const path = await file(tinySwapper({ type }));
  const emap = readOnnxTensor(path, readOnnxSummary(path).lastInitializer as OnnxTensorInfo);
  const wanted = type === 'float16' ? new Float32Array(new Float16Array(EMAP)) : EMAP;
  expect(emap).toEqual(wanted);
});

it('says of a file that was cut off that it was, wherever it was', async () => {
  const whole = tinySwapper();
  for (const share of [0.001, 0.01, 0.3, 0.9, 0.999]) {
    const path = await file(whole);
    await truncate(path, Math.floor(whole.length * share));
    expect(() => readOnnxSummary(path), String(share)).toThrow(/cut off|ends inside/);
  }
  const path = await file(new Uint8Array(0));
  expect(() => readOnnxSummary(path)).toThrow('no graph');
});

it('takes any bytes with an error of its own or an answer, soon', async () => {
  const whole = tinyAnchored([], { size: 128 });
  const path = await file(whole);
  let seed = 7;
  const next = (below: number): number => {
    seed = (seed * 48271) % 2147483647;
    return seed % below;
  };
  let refused = 0;
  for (let round = 0; round < 400; round++) {
    const bytes = whole.slice();
    // The structures are near the start and the end, the weights between them.
    for (let i = 0; i <= next(6); i++) {
      const at = next(2) ? next(400) : bytes.length - 1 - next(700);
      bytes[at] = next(256);
    }
    await writeFile(path, bytes);
    try {
      readOnnxSummary(path);
    } catch (error) {
      expect(error).toBeInstanceOf(OnnxFileError);
      refused++;
    }
  }
  expect(refused).toBeGreaterThan(50);
});

it('finds the emap behind 600 MB of other weights in a few megabytes of memory', async () => {
  const path = join(await rig.directory(), 'large.onnx');
  const big = 600 * 1024 * 1024;
  // GraphProto.initializer (5) of dims [n], float32, with raw_data (9) of 600 MB, then the tiny model's graph.
  // Fields of one message may be in any order, and a hole in a file takes no disk space.
  const varint = (value: number): number[] =>
    value < 128 ? [value] : [(value % 128) | 128, ...varint(Math.floor(value / 128))];
  const head = [0x08, ...varint(big / 4), 0x10, 1, 0x42, 3, ...Buffer.from('big'), 0x4a, ...varint(big)];
  const tensor = [0x2a, ...varint(head.length + big), ...head];
  const tiny = Buffer.from(tinySwapper());
  const graphAt = tiny.indexOf(Buffer.from([0x3a]));
  const graph = graphBody(tiny, graphAt + 1);
  const opening = Buffer.from([
    ...tiny.subarray(0, graphAt),
    0x3a,
    ...varint(tensor.length + big + graph.body.length),
    ...tensor,
  ]);
  const handle = await open(path, 'w');
  await handle.write(opening, 0, opening.length, 0);
  const rest = Buffer.concat([graph.body, tiny.subarray(graph.end)]);
  await handle.write(rest, 0, rest.length, opening.length + big);
  await handle.close();

  const code = `
    const { readOnnxSummary, readOnnxTensor } = await import(process.argv[1]);
    const before = process.resourceUsage().maxRSS;
    const summary = readOnnxSummary(process.argv[2]);
    const emap = readOnnxTensor(process.argv[2], summary.lastInitializer);
    const grown = process.resourceUsage().maxRSS - before;
    console.log(JSON.stringify({ grown, first: [...emap.slice(0, 3)], inputs: summary.inputs.length }));`;
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ['--input-type=module', '-e', code, new URL('./onnx-file.ts', import.meta.url).href, path],
    { encoding: 'utf8' },
  );
  expect(stderr).toBe('');
  const answer = JSON.parse(stdout) as { grown: number; first: number[]; inputs: number };
  expect(answer.first).toEqual([...EMAP.slice(0, 3)]);
  expect(answer.inputs).toBe(2);
  // The unit is kilobytes; the emap itself has one megabyte.
  expect(answer.grown).toBeLessThan(16 * 1024);
});

/** Returns the bytes of the message whose length is at `at`, and its end. */
function graphBody(bytes: Buffer, at: number): { body: Buffer; end: number } {
  let length = 0;
  let factor = 1;
  for (;;) {
    const byte = bytes[at++] as number;
    length += (byte & 0x7f) * factor;
    factor *= 128;
    if (byte < 128) return { body: bytes.subarray(at, at + length), end: at + length };
  }
}
