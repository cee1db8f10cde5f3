import { describe, expect, it } from 'vitest';
import { blockTime, streamsCarried } from './block-time.ts';
import type { RunModel, RvcModels } from './rvc-models.ts';

const model = (name: string, roles: readonly string[]) => ({
  name,
  options: { sample_rate: 32_000 },
  inputs: roles.map((role) => ({ role, dims: [1, 1] })),
});
const models: RvcModels = {
  voice: model('voice', ['feats', 'p_len', 'pitch', 'pitchf', 'sid']),
  content: model('content', ['sound']),
  pitch: model('pitch', ['waveform', 'threshold']),
};

describe('the time of a block', () => {
  it('is the median of what the models take once they are warm, all of them together', async () => {
    let [clock, blocks] = [0, 0];
    const fed: number[] = [];
    const run: RunModel = async (name, feeds) => {
      // The first blocks are slow, and one of the later ones is.
      const slow = blocks < 3 || blocks === 6 ? 500 : 0;
      if (name === 'content') {
        clock += 7 + slow;
        const frames = Math.floor(((feeds.sound?.data.length ?? 0) - 400) / 320) + 1;
        return { data: new Float32Array(4 * frames), dims: [1, frames, 4] };
      }
      if (name === 'pitch') {
        clock += 4;
        return { data: new Float32Array(128).fill(150), dims: [1, 128] };
      }
      blocks++;
      clock += 9;
      fed.push(feeds.pitchf?.data.length ?? 0);
      return { data: new Float32Array(128 * 320), dims: [1, 1, 128 * 320] };
    };
    expect(await blockTime(models, run, 1_280, () => clock)).toBe(20);
    expect(fed).toEqual(new Array(8).fill(128));
  });

  it.each([
    [10, 1, 7],
    [10, 4, 28],
    [69, 1, 1],
    [71, 1, 0],
    [250, 2, 0],
  ])('of %i ms on %i devices lets them carry %i streams', (ms, devices, streams) => {
    expect(streamsCarried(ms, devices)).toBe(streams);
  });
});
