import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Engine, RenderRequest, RenderResult } from '@semblance/engine-api/engine';
import type { Picture } from '@semblance/engine-api/picture';
import { createOnnxEngine } from '@semblance/engine-onnx';
import { alignFace } from '@semblance/engine-onnx/internal/vision/align';
import { FaceFinder } from '@semblance/vision/face-finder';
import { centroid, type Face, pointOf } from '@semblance/vision/face-mesh';
import { LEFT_EYE, RIGHT_EYE } from '@semblance/vision/face-regions';
import { readFace } from '@semblance/vision/image/picture-file';
import { openSession } from '@semblance/vision/models/session';
import { cropRgb, type Point } from '@semblance/vision/picture';
import sharp from 'sharp';
import { afterAll, beforeAll } from 'vitest';
import { ADMIRAL, ASTRONAUT } from '../engine-builtin/swap-rig.ts';
import { type GivenModel, ModelDirRig } from './model-dir-rig.ts';
import type { GivenFace } from './tiny-detectors.ts';

export const SIDE = 512;
/** Positions of the five landmarks in both test pictures. */
export const FIVE: readonly Point[] = [
  { x: 193, y: 240 },
  { x: 319, y: 240 },
  { x: 257, y: 314 },
  { x: 201, y: 371 },
  { x: 313, y: 371 },
];
/** The face in both test pictures, as a detector reports it. */
export const FACE: GivenFace = { x: 130, y: 130, width: 250, height: 320, score: 0.95, five: FIVE };

/** Two portraits whose faces have the same position, engines over test models, and files. */
export class OnnxRig {
  readonly #models = new ModelDirRig();
  readonly #engines: Engine[] = [];
  #directory = '';
  #count = 0;
  finder!: FaceFinder;
  /** Paths of the two portraits: `image` is the target, `face` the source. */
  image = '';
  face = '';

  async open(): Promise<void> {
    this.#directory = await mkdtemp(join(tmpdir(), 'semblance-onnx-'));
    this.finder = new FaceFinder({
      blazeface: await openSession('blazeface'),
      facemesh: await openSession('facemesh'),
    });
    this.image = await this.#portrait(ADMIRAL);
    this.face = await this.#portrait(ASTRONAUT);
  }

  async close(): Promise<void> {
    for (const engine of this.#engines.splice(0)) await engine.close();
    await this.#models.close();
    await rm(this.#directory, { recursive: true, force: true });
  }

  /** Starts and warms an engine over these models. */
  async engine(models: readonly GivenModel[], order?: readonly string[]): Promise<Engine> {
    const settings = { modelDir: await this.modelDir(models, order) };
    const engine = createOnnxEngine({ threads: 1, settings });
    this.#engines.push(engine);
    await engine.warmUp(AbortSignal.timeout(60_000));
    return engine;
  }

  modelDir(models: readonly GivenModel[], order?: readonly string[]): Promise<string> {
    return this.#models.make(models, order);
  }

  async outputDir(): Promise<string> {
    const path = join(this.#directory, `out-${this.#count++}`);
    await mkdir(path);
    return path;
  }

  async file(name: string, bytes: Buffer | Promise<Buffer>): Promise<string> {
    const path = join(this.#directory, `${this.#count++}-${name}`);
    await writeFile(path, await bytes);
    return path;
  }

  async swap(engine: Engine, more: Partial<RenderRequest> = {}): Promise<RenderResult> {
    return engine.render({
      capability: 'face-swap-image',
      inputs: { image: this.image, face: this.face },
      parameters: {},
      outputDir: await this.outputDir(),
      signal: new AbortController().signal,
      onProgress: () => undefined,
      ...more,
    });
  }

  /** Returns the mesh of the main face of a picture. */
  async mesh(picture: Picture): Promise<Face> {
    const [face] = await this.finder.find(picture, () => undefined);
    if (!face) throw new Error('no face in a test picture');
    return face;
  }

  async #portrait(path: string): Promise<string> {
    const picture = await readFace(path);
    const { points } = await this.mesh(picture);
    const five = [
      centroid(points, RIGHT_EYE),
      centroid(points, LEFT_EYE),
      pointOf(points, 4),
      pointOf(points, 61),
      pointOf(points, 291),
    ];
    const { data } = cropRgb(picture, alignFace(five, 'ffhq_512', SIDE), SIDE, SIDE);
    const raw = { raw: { width: SIDE, height: SIDE, channels: 3 as const } };
    return this.file('portrait.png', sharp(Uint8ClampedArray.from(data), raw).png().toBuffer());
  }
}

export function useOnnxRig(): OnnxRig {
  const rig = new OnnxRig();
  beforeAll(() => rig.open());
  afterAll(() => rig.close());
  return rig;
}

export async function rgb(path: string): Promise<Picture> {
  const { data, info } = await sharp(await readFile(path))
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, channels: 3, data: new Uint8Array(data) };
}
