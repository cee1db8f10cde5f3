import { openModelDir } from '@semblance/engine-onnx/model-dir';
import { SessionPool } from '@semblance/engine-onnx/sessions/session-pool';
import { GraphBuilder } from '@semblance/testkit/engine-onnx/graph';
import { ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { noise } from '@semblance/testkit/engine-onnx/tiny-models';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { type BenchContext, quantile, type Row, ratioRow, type Section } from '../lib/section.ts';

const ROUNDS = 5;
const RUNS = 12;
const SIZE = 512;
const CHANNELS = 16;

/**
 * Measures frames per second through the session pool of the engine `onnx`, and through onnxruntime called
 * directly.
 */
export async function runOnnxBench({ say }: Pick<BenchContext, 'say'>): Promise<Section> {
  const rig = new ModelDirRig();
  try {
    const rows: Row[] = [];
    for (const layers of [1, 6]) {
      say(`onnx: ${layers} layers`);
      rows.push(await compare(rig, layers));
    }
    return {
      title: 'ONNX sessions: the pool in a thread of its own beside onnxruntime called directly',
      rows,
      notes: [
        `A restorer of ${SIZE}² pixels made for the bench, ${CHANNELS} channels inside, one thread on the CPU; float32.`,
        `${ROUNDS} rounds in turn of ${RUNS} runs each; medians. Ours goes to the thread and back, 3 MiB either way.`,
      ],
    };
  } finally {
    await rig.close();
  }
}

async function compare(rig: ModelDirRig, layers: number): Promise<Row> {
  const directory = await rig.make([{ contract: 'gfpgan_1.4', bytes: restorer(layers) }]);
  const { models, faults } = await openModelDir(directory);
  const [model] = models;
  if (!model) throw new Error(faults.join('; '));
  const { pool } = await SessionPool.open(
    { models, providers: ['cpu'], devices: [0], threads: 1 },
    AbortSignal.timeout(60_000),
  );
  const session = await InferenceSession.create(model.path, { intraOpNumThreads: 1, interOpNumThreads: 1 });
  try {
    const dims = [1, 3, SIZE, SIZE];
    const picture = noise(3 * SIZE * SIZE, 3);
    const viaPool = () => pool.run(model.name, { input: { data: picture.slice(), dims } });
    const direct = () => session.run({ input: new Tensor('float32', picture.slice(), dims) });
    await viaPool();
    await direct();
    const [ours, peer]: [number[], number[]] = [[], []];
    for (let round = 0; round < ROUNDS; round++) {
      ours.push(await rate(viaPool));
      peer.push(await rate(direct));
    }
    return ratioRow({
      name: `${layers} layer${layers > 1 ? 's' : ''}`,
      ours: quantile(ours, 0.5),
      peer: quantile(peer, 0.5),
      unit: 'runs/s',
      peerName: 'onnxruntime',
      atLeast: 0.9,
    });
  } finally {
    await session.release();
    await pool.close();
  }
}

async function rate(run: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  for (let i = 0; i < RUNS; i++) await run();
  return (1000 * RUNS) / (performance.now() - began);
}

/** Builds a model of 3 × 3 convolutions one after the other, with the work of a small network. */
function restorer(layers: number): Uint8Array {
  const graph = new GraphBuilder();
  let value = graph.input('input', [1, 3, SIZE, SIZE]);
  let channels = 3;
  for (let layer = 0; layer <= layers; layer++) {
    const next = layer === layers ? 3 : CHANNELS;
    const weights = noise(next * channels * 9, 100 + layer).map((weight) => weight / (channels * 9));
    value = graph.op('Conv', [value, graph.weight(weights, [next, channels, 3, 3])], { pads: [1, 1, 1, 1] });
    channels = next;
  }
  graph.output(value, 'output', [1, 3, SIZE, SIZE]);
  return graph.build();
}
