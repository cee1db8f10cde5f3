import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { GraphBuilder } from '@semblance/testkit/engine-onnx/graph';
import { ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { tinyKokoro } from '@semblance/testkit/engine-onnx/tiny-kokoro';
import { tinyPiper } from '@semblance/testkit/engine-onnx/tiny-piper';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { afterAll, describe, expect, it } from 'vitest';
import { durationsOf, speechGraph } from './voice-graph.ts';

const rig = new ModelDirRig();
afterAll(() => rig.close());

async function fileOf(bytes: Uint8Array | undefined): Promise<string> {
  const path = join(await rig.directory(), 'voice.onnx');
  await writeFile(path, bytes ?? '');
  return path;
}

function feeds(count: number, noise = 0.667): Record<string, Tensor> {
  return {
    input: new Tensor('int64', new BigInt64Array(count).fill(5n), [1, count]),
    input_lengths: new Tensor('int64', BigInt64Array.of(BigInt(count)), [1]),
    scales: new Tensor('float32', [noise, 1, 0.8], [3]),
  };
}

type Outputs = Record<string, Float32Array>;

/** Runs a model twice in one session. */
async function twice(bytes: Uint8Array, given: Record<string, Tensor>): Promise<[Outputs, Outputs]> {
  const session = await InferenceSession.create(bytes);
  const once = async (): Promise<Outputs> =>
    Object.fromEntries(
      Object.entries(await session.run(given)).map(([name, { data }]) => [
        name,
        new Float32Array(data as Float32Array),
      ]),
    );
  const both: [Outputs, Outputs] = [await once(), await once()];
  await session.release();
  return both;
}

const run = async (bytes: Uint8Array, given: Record<string, Tensor>): Promise<Outputs> =>
  (await twice(bytes, given))[0];

describe('the graph of a voice', () => {
  it('gives the frames of each phoneme, which fill the sound exactly', async () => {
    const path = await fileOf(tinyPiper().bytes);
    const before = await readFile(path);
    const outputs = await run(speechGraph(path, 'piper'), feeds(20));
    const frames = outputs[durationsOf(path, 'piper')] as Float32Array;
    expect(frames).toHaveLength(20);
    const sum = frames.reduce((total, count) => total + count, 0);
    expect(sum * 256).toBe(outputs.output?.length);
    // Noise makes them differ.
    expect(new Set(frames).size).toBeGreaterThan(1);
    expect((await readFile(path)).equals(before)).toBe(true);
  });

  it('is the same in every run and every session, with its noise', async () => {
    const path = await fileOf(tinyPiper().bytes);
    const [first, second] = await twice(speechGraph(path, 'piper'), feeds(20));
    expect(second).toEqual(first);
    expect(await run(speechGraph(path, 'piper'), feeds(20))).toEqual(first);
    const quiet = await run(speechGraph(path, 'piper'), feeds(20, 0));
    expect(quiet.output).not.toEqual(first.output);
    // As its file has it, it is not.
    const [asItIs, again] = await twice(await readFile(path), feeds(20));
    expect(again.output).not.toEqual(asItIs.output);
  });

  it('has noise of mean 0 and deviation 1, longer than the list too', async () => {
    const graph = new GraphBuilder();
    const input = graph.input('input', [1, 'phonemes'], 'int64');
    const scales = graph.input('scales', [3]);
    graph.input('input_lengths', [1], 'int64');
    const rows = graph.op('Expand', [graph.op('Cast', [input], { to: 1 }), graph.integers([20_000, 1])]);
    const noise = graph.op('RandomNormalLike', [rows], { dtype: 1 });
    graph.output(graph.op('Ceil', [graph.op('Mul', [noise, graph.op('ReduceSum', [scales])])]), 'rounded', [
      'rows',
      'n',
    ]);
    graph.output(noise, 'noise', ['rows', 'n']);
    const path = await fileOf(graph.build());
    const { noise: values = new Float32Array() } = await run(speechGraph(path, 'piper'), feeds(5));
    expect(values).toHaveLength(100_000);
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const square = values.reduce((sum, value) => sum + value * value, 0) / values.length;
    expect(mean).toBeCloseTo(0, 1);
    expect(square).toBeCloseTo(1, 1);
  });

  it('adds no output that a voice has already', async () => {
    const path = await fileOf(tinyPiper().bytes);
    const again = await fileOf(speechGraph(path, 'piper'));
    expect((await InferenceSession.create(speechGraph(again, 'piper'))).outputNames).toEqual([
      'output',
      durationsOf(path, 'piper'),
    ]);
  });

  it.each([0, 2] as const)('is refused with %i nodes Ceil', async (ceils) => {
    const path = await fileOf(tinyPiper({ ceils }).bytes);
    expect(() => durationsOf(path, 'piper')).toThrow(
      `does not tell the lengths of its phonemes: it has ${ceils} nodes Ceil`,
    );
  });

  it('of Kokoro gives the frames of each token too', async () => {
    const path = await fileOf(tinyKokoro().bytes);
    const outputs = await run(speechGraph(path, 'kokoro'), {
      tokens: new Tensor('int64', BigInt64Array.of(0n, 40n, 20n, 0n), [1, 4]),
      style: new Tensor('float32', new Float32Array(256).fill(100), [1, 256]),
      speed: new Tensor('float32', [1], [1]),
    });
    expect([...(outputs[durationsOf(path, 'kokoro')] ?? [])]).toEqual([1, 4, 2, 1]);
    expect(outputs.audio).toHaveLength(8 * 600);
  });

  it.each(['RandomUniformLike', 'Bernoulli'])('is refused with the random numbers of %s', async (type) => {
    const graph = new GraphBuilder();
    const rows = graph.op('Cast', [graph.input('input', [1, 'phonemes'], 'int64')], { to: 1 });
    graph.output(graph.op('Ceil', [graph.op(type, [rows])]), 'output', [1, 'phonemes']);
    const path = await fileOf(graph.build());
    expect(() => speechGraph(path, 'piper')).toThrow(`draws random numbers with ${type}`);
  });
});
