import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { GraphBuilder } from '../engine-onnx/graph.ts';
import type { GivenFace } from '../engine-onnx/tiny-detectors.ts';
import { pythonEnv } from './python-env.ts';

const STRIDES = [8, 16, 32];
const SIDE = 640;

/**
 * Writes settings for a directory of models, and returns the command that starts the sidecar `ort`.
 * @param change settings in place of the usual ones
 */
export async function ortCommand(
  folder: string,
  models: string,
  change: Record<string, unknown> = {},
): Promise<string[]> {
  await mkdir(folder, { recursive: true });
  const settings = {
    models,
    threads: 1,
    capabilities: { 'face-swap-image': { memory_mib: 64 }, 'face-swap': { memory_mib: 64 } },
    ...change,
  };
  const path = join(folder, 'settings.yaml');
  await writeFile(path, JSON.stringify(settings));
  return ['env', `SEMBLANCE_ORT_SETTINGS=${path}`, await pythonEnv(), '-m', 'semblance_sidecars.ort'];
}

/**
 * Creates a `yoloface_8n` model that reports a face where the picture varies, and none in a blank one: it looks at
 * the red of the square from 20 to 120 pixels.
 */
export function tinySeeing(face: GivenFace): Uint8Array {
  const graph = new GraphBuilder();
  const input = graph.input('images', [1, 3, SIDE, SIDE]);
  const span = [
    [0, 20, 20],
    [1, 120, 120],
    [1, 2, 3],
  ].map((each) => graph.integers(each));
  const part = graph.op('Slice', [input, ...span]);
  const [most, least] = ['ReduceMax', 'ReduceMin'].map((op) => graph.op(op, [part], { keepdims: 0 }));
  const range = graph.op('Sub', [most as string, least as string]);
  const seen = graph.op('Ceil', [graph.op('Sub', [range, graph.weight([0.1], [])])]);
  const count = STRIDES.reduce((sum, stride) => sum + (SIDE / stride) ** 2, 0);
  const data = new Float32Array(20 * count);
  const { x, y, width, height, score, five } = face;
  const column = [x + width / 2, y + height / 2, width, height, score];
  for (const [row, value] of [...column, ...five.flatMap((point) => [point.x, point.y, 0.9])].entries())
    data[row * count + 100] = value;
  graph.output(graph.op('Mul', [graph.weight(data, [1, 20, count]), seen]), 'output0', [1, 20, count]);
  return graph.build();
}
