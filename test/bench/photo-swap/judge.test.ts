import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildRecogniser, recognise } from '@semblance/testkit/quality/judge';
import { InferenceSession } from 'onnxruntime-node';
import { expect, it } from 'vitest';

interface FaceApi {
  readonly tf: {
    env(): { setPlatform(name: string, platform: object): void };
    setBackend(name: string): Promise<boolean>;
    ready(): Promise<void>;
    tensor4d(data: Float32Array, shape: number[]): unknown;
  };
  readonly env: { setEnv(env: object): void };
  FaceRecognitionNet: new () => {
    load(weights: Float32Array): Promise<void>;
    loadFromWeightMap(map: Record<string, unknown>): void;
    forwardInput(input: { toBatchTensor(): unknown }): { dataSync(): Float32Array };
  };
}

/**
 * Imports a bundle that is built for browsers. If the bundle detects Node.js, it looks for modules that it does not
 * contain.
 */
async function importFaceApi(path: string): Promise<FaceApi> {
  const versions = Object.getOwnPropertyDescriptor(process, 'versions');
  if (!versions) throw new Error('process.versions is missing');
  Object.defineProperty(process, 'versions', { ...versions, value: {} });
  try {
    return await import(pathToFileURL(path).href);
  } finally {
    Object.defineProperty(process, 'versions', versions);
  }
}

it('judges as the recogniser of face-api does', async () => {
  const dist = dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api'));
  const faceApi = await importFaceApi(join(dist, 'face-api.esm.js'));
  const { tf } = faceApi as unknown as {
    tf: FaceApi['tf'] & { io: { decodeWeights(data: ArrayBuffer, specs: unknown): Record<string, unknown> } };
  };
  tf.env().setPlatform('test', {
    now: () => performance.now(),
    encode: (text: string) => new TextEncoder().encode(text),
    decode: (bytes: Uint8Array) => new TextDecoder().decode(bytes),
    isTypedArray: (value: unknown) => ArrayBuffer.isView(value) && !(value instanceof DataView),
  });
  await tf.setBackend('cpu');
  await tf.ready();
  const model = join(dist, '..', 'model');
  const manifest = JSON.parse(
    await readFile(join(model, 'face_recognition_model-weights_manifest.json'), 'utf8'),
  );
  const bytes = new Uint8Array(await readFile(join(model, 'face_recognition_model.bin')));
  const specs = manifest.flatMap((group: { weights: unknown[] }) => group.weights);
  const network = new faceApi.FaceRecognitionNet();
  network.loadFromWeightMap(tf.io.decodeWeights(bytes.buffer, specs));
  const data = Float32Array.from({ length: 150 * 150 * 3 }, (_, i) => {
    const pixel = Math.floor(i / 3);
    return Math.round(
      128 + 90 * Math.sin((pixel % 150) / 11 + (i % 3)) * Math.cos(Math.floor(pixel / 150) / 17),
    );
  });
  const input = { toBatchTensor: () => tf.tensor4d(data, [1, 150, 150, 3]) };
  const expected = network.forwardInput(input).dataSync();
  const session = await InferenceSession.create(await buildRecogniser(), { intraOpNumThreads: 1 });
  const actual = await recognise(session, data);
  expect(actual.length).toBe(128);
  const worst = expected.reduce(
    (most, value, i) => Math.max(most, Math.abs(value - (actual[i] as number))),
    0,
  );
  const scale = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  expect(scale).toBeGreaterThan(0.05);
  expect(worst / scale).toBeLessThan(1e-3);
}, 120_000);
