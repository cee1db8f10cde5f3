import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Engine, RenderResult } from '@semblance/engine-api/engine';
import { createBuiltinEngine } from '@semblance/engine-builtin';
import type { PersonFinder } from '@semblance/vision/person';
import { openPersonFinder } from '@semblance/vision/person-finder';
import sharp from 'sharp';
import { type MediaRig, openMediaRig } from '../../media/clips.ts';
import { type Clip, room, walker } from './clips.ts';
import { BLUE_SHIRT, drawFigure, type Head, loadHead, RED_SHIRT, STANDING } from './figure.ts';

/** Size of the clips, in pixels. */
export const [CLIP_WIDTH, CLIP_HEIGHT] = [640, 360];

export interface SwapOptions {
  readonly parameters?: Record<string, string>;
  readonly signal?: AbortSignal;
  readonly onProgress?: (fraction: number) => void;
}

/** An engine, and drawn people, for tests of Identity Swap. */
export interface IdentityRig {
  readonly media: MediaRig;
  readonly engine: Engine;
  readonly finder: PersonFinder;
  readonly directory: string;
  readonly astronaut: Head;
  readonly admiral: Head;
  /** Makes an empty folder for an output. */
  outputDir(): Promise<string>;
  /** Folder of the last output. */
  readonly lastOutput: string;
  swap(video: string, character: string, options?: SwapOptions): Promise<RenderResult>;
  /** Makes a picture of the figure in red, in front of the same room. */
  redCharacter(head?: Head): Promise<string>;
  /** Returns a clip of the astronaut's figure in blue, who walks through the room. */
  walking(frames: number): Clip;
  close(): Promise<void>;
}

export async function openIdentityRig(): Promise<IdentityRig> {
  const media = await openMediaRig();
  const directory = await mkdtemp(join(tmpdir(), 'semblance-identity-'));
  const engine = createBuiltinEngine({ threads: 1 });
  await engine.warmUp(AbortSignal.timeout(60_000));
  const finder = await openPersonFinder();
  const [astronaut, admiral] = await Promise.all([loadHead('astronaut'), loadHead('hopper')]);
  let count = 0;
  let lastOutput = '';
  const outputDir = async () => {
    lastOutput = join(directory, `out-${count++}`);
    await mkdir(lastOutput);
    return lastOutput;
  };
  return {
    media,
    engine,
    finder,
    directory,
    astronaut,
    admiral,
    outputDir,
    get lastOutput() {
      return lastOutput;
    },
    async swap(video, character, { parameters = {}, signal, onProgress } = {}) {
      return engine.render({
        capability: 'character-swap',
        inputs: { video, character },
        parameters,
        outputDir: await outputDir(),
        signal: signal ?? new AbortController().signal,
        onProgress: onProgress ?? (() => undefined),
      });
    },
    async redCharacter(head = admiral) {
      const [width, height] = [400, 600];
      const { rgb } = drawFigure(
        width,
        height,
        { ...STANDING, x: width / 2, y: 0.965 * height, height: 0.9 * height },
        { dress: RED_SHIRT, head },
        room(width, height),
      );
      const path = join(directory, `red-${count++}.png`);
      await sharp(rgb, { raw: { width, height, channels: 3 } })
        .png()
        .toFile(path);
      return path;
    },
    walking: (frames) => ({
      width: CLIP_WIDTH,
      height: CLIP_HEIGHT,
      frames,
      rate: 20,
      dress: BLUE_SHIRT,
      head: astronaut,
      stance: walker(CLIP_WIDTH, CLIP_HEIGHT),
    }),
    async close() {
      await engine.close();
      await finder.close();
      await media.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
