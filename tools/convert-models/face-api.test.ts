import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openSession } from '@semblance/vision/models/session';
import { Tensor } from 'onnxruntime-node';
import { expect, it } from 'vitest';
import { readWeights } from './face-api.ts';
import { installed } from './installed.ts';

interface FaceApiTensor {
  dataSync(): Float32Array;
}
interface FaceApi {
  tf: {
    env(): { setPlatform(name: string, platform: object): void };
    setBackend(name: string): Promise<boolean>;
    ready(): Promise<void>;
    tensor3d(data: Float32Array, shape: number[]): FaceApiTensor;
    tensor(data: Float32Array, shape: number[]): FaceApiTensor;
  };
  NetInput: new (inputs: FaceApiTensor[]) => object;
  TinyFaceDetector: new () => {
    loadFromWeightMap(weights: Record<string, FaceApiTensor>): void;
    forwardInput(input: object, size: number): FaceApiTensor;
  };
}

/** The bundle is built for browsers; when it detects Node.js it looks for modules that it does not contain. */
async function importFaceApi(): Promise<FaceApi> {
  const versions = Object.getOwnPropertyDescriptor(process, 'versions');
  if (!versions) throw new Error('process.versions is missing');
  Object.defineProperty(process, 'versions', { ...versions, value: {} });
  try {
    const bundle = join(installed('@vladmandic/face-api', 'dist'), 'face-api.esm.js');
    return (await import(pathToFileURL(bundle).href)) as FaceApi;
  } finally {
    Object.defineProperty(process, 'versions', versions);
  }
}

it('face_features gives the layer from which face-api makes its boxes', async () => {
  const { tf, NetInput, TinyFaceDetector } = await importFaceApi();
  tf.env().setPlatform('test', {
    now: () => performance.now(),
    isTypedArray: (value: unknown) => ArrayBuffer.isView(value) && !(value instanceof DataView),
  });
  await tf.setBackend('cpu');
  await tf.ready();
  const weights = await readWeights('tiny_face_detector');
  const net = new TinyFaceDetector();
  net.loadFromWeightMap(
    Object.fromEntries([...weights].map(([name, { dims, data }]) => [name, tf.tensor(data, dims)])),
  );
  const size = 160;
  const rgb = Float32Array.from({ length: size * size * 3 }, (_, i) => {
    const [x, y] = [Math.floor(i / 3) % size, Math.floor(i / 3 / size)];
    return 128 + 100 * Math.sin(x / 9 + (i % 3)) * Math.cos(y / 13);
  });
  const boxes = net.forwardInput(new NetInput([tf.tensor3d(rgb, [size, size, 3])]), size).dataSync();

  const planes = new Float32Array(rgb.length);
  for (let i = 0; i < rgb.length; i++) planes[(i % 3) * size * size + Math.floor(i / 3)] = rgb[i] as number;
  const session = await openSession('face_features');
  const outputs = await session.run({ input: new Tensor('float32', planes, [1, 3, size, size]) });
  const features = outputs.features?.data as Float32Array;
  const [filters, bias] = ['conv8/filters', 'conv8/bias'].map((name) => weights.get(name)?.data);
  const made = Array.from(boxes, (_, i) => {
    const [cell, channel] = [Math.floor(i / 25), i % 25];
    let sum = bias?.[channel] as number;
    for (let f = 0; f < 512; f++)
      sum += (features[f * 25 + cell] as number) * (filters?.[f * 25 + channel] as number);
    return sum;
  });
  expect(boxes).toHaveLength(25 * 25);
  expect(Math.max(...made.map((value, i) => Math.abs(value - (boxes[i] as number))))).toBeLessThan(1e-3);
  expect(Math.max(...made) - Math.min(...made)).toBeGreaterThan(1);
});
