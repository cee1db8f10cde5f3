import type { Voice } from '@semblance/common/voices/voice';
import {
  tinyContentvec,
  tinyEcho,
  tinyFcpe,
  tinyRmvpe,
  tinyTone,
} from '@semblance/testkit/engine-onnx/tiny-voices';
import { levelDb, median, pitchOf } from '@semblance/testkit/voice/analysis';
import { alto, convertAll, converterBy, ModelVoicesRig } from '@semblance/testkit/voice/model-voices-rig';
import { joined, noise, VOWELS, vowel } from '@semblance/testkit/voice/sounds';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { engineFor } from '../engine-for.ts';
import { CEILING } from '../limiter.ts';
import { MEL_BANDS } from './log-mel.ts';
import { type ModelVoices, openModelVoices } from './model-voices.ts';

const RATE = 48_000;
const NEVER = new AbortController().signal;
const middle = ({ pitchHz: { low, high } }: Voice) => Math.sqrt(low * high);
const rig = new ModelVoicesRig();
const open = rig.open.bind(rig);
afterEach(() => rig.closeModels());
afterAll(() => rig.directories.close());

const speaking = (model: string): Voice => ({ ...alto, model });
const start = (models: ModelVoices, model: string, sampleRate = RATE, signal = NEVER) =>
  converterBy(models, model, { sampleRate, signal });

const sine = (hz: number, seconds: number, rate = RATE, level = 0.5) =>
  Int16Array.from({ length: seconds * rate }, (_, i) =>
    Math.round(level * 32_767 * Math.sin((2 * Math.PI * hz * i) / rate)),
  );

describe('a voice of an echo', () => {
  it.each([
    [48_000, 32_000, 256],
    [44_100, 40_000, 256],
    [16_000, 48_000, 768],
    [8_000, 32_000, 768],
  ] as const)(
    'at %i, of a model of %i: gives back what it heard, as late as it says',
    async (rate, own, width) => {
      const models = await open(tinyContentvec(width), tinyEcho({ rate: own, width }));
      const converter = start(models, 'my-voice', rate);
      // The delay is 147 ms: a block of 100, a fade of 30, a search of 10, 5 beyond the encoder's reach, the filters,
      // and 1.5 of the limiter.
      expect(converter.latencySamples / rate).toBeGreaterThan(0.145);
      expect(converter.latencySamples / rate).toBeLessThan(0.152);
      // A sweep matches itself in one place only.
      const sweep = Int16Array.from({ length: 1.5 * rate }, (_, i) => {
        const seconds = i / rate;
        return Math.round(12_000 * Math.sin(2 * Math.PI * (150 * seconds + 120 * seconds ** 2)));
      });
      const out = await convertAll(converter, sweep, rate / 50);
      expect(out.length).toBe(sweep.length + converter.latencySamples);
      expect(out.subarray(0, converter.latencySamples).every((sample) => sample === 0)).toBe(true);
      // The encoder holds every second sample, so the error is at most a quarter of a millisecond.
      const errorAt = (early: number) => {
        let [error, power] = [0, 0];
        for (let i = Math.round(0.2 * rate); i < 1.3 * rate; i++) {
          const wanted = sweep[i] as number;
          error += ((out[i + converter.latencySamples - early] ?? 0) - wanted) ** 2;
          power += wanted ** 2;
        }
        return error / power;
      };
      const earliness = Array.from(
        { length: Math.round(0.012 * rate) },
        (_, i) => i - Math.round(0.001 * rate),
      );
      const errors = earliness.map(errorAt);
      const best = earliness[errors.indexOf(Math.min(...errors))] as number;
      expect(Math.min(...errors)).toBeLessThan(0.02);
      expect(best / rate).toBeGreaterThan(-0.0005);
      expect(best / rate).toBeLessThan(0.0105);
    },
  );

  it('does not depend on how the stream is cut, and begins anew after its end', async () => {
    const models = await open(tinyContentvec(), tinyEcho());
    const sound = vowel({ hz: 120, formants: VOWELS.a, seconds: 0.7 });
    const converter = start(models, 'my-voice');
    const whole = await convertAll(converter, sound, sound.length);
    expect(levelDb(whole)).toBeGreaterThan(levelDb(sound) - 3);
    expect(await convertAll(converter, sound, 960)).toEqual(whole);
    expect(await convertAll(start(models, 'my-voice'), sound, 1_237)).toEqual(whole);
    expect(await convertAll(start(models, 'my-voice'), sound.subarray(0, 0))).toEqual(
      new Int16Array(converter.latencySamples),
    );
  });

  it.each([16_000, 48_000])('at %i stays 2 dB below full scale', async (rate) => {
    const models = await open(tinyContentvec(), tinyEcho());
    const loud = [sine(200, 0.5, rate, 1), sine(1_300, 0.5, rate, 4).map((x) => Math.sign(x) * 32_767)];
    for (const sound of [...loud, noise(0.2, 1)]) {
      const out = await convertAll(start(models, 'my-voice', rate), sound);
      const peak = out.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
      expect(peak).toBeLessThanOrEqual(CEILING);
      expect(peak).toBeGreaterThan(0.9 * CEILING);
    }
  });

  it('goes on for a long stream, silence among it, with as much out as in', async () => {
    const models = await open(tinyContentvec(), tinyEcho());
    const converter = start(models, 'my-voice', 16_000);
    const [loud, quiet] = [sine(200, 1, 16_000), new Int16Array(16_000)];
    const out = await convertAll(converter, joined([loud, quiet, loud, quiet, loud]), 320);
    const second = (at: number) => {
      const from = converter.latencySamples + Math.round((at + 0.2) * 16_000);
      return levelDb(out.subarray(from, from + 9_600));
    };
    for (const at of [0, 2, 4]) expect(Math.abs(second(at) - levelDb(loud))).toBeLessThan(0.5);
    for (const at of [1, 3]) expect(second(at)).toBeLessThan(-80);
  });
});

describe('a voice with a pitch', () => {
  /** Counts the strongest band of each frame as pitch, which is right for a sound with only its fundamental. */
  const toMel = (hz: number) => 2_595 * Math.log10(1 + hz / 700);
  const centre = (band: number) =>
    700 * (10 ** ((toMel(30) + ((band + 1) * (toMel(8_000) - toMel(30))) / (MEL_BANDS + 1)) / 2_595) - 1);
  const binOf = (band: number) =>
    Math.min(359, Math.max(0, Math.round((1_200 * Math.log2(centre(band) / 10) - 1997.3794084376191) / 20)));

  /** Centre of a band of Slaney's scale; the first ones are evenly apart. */
  const slaney = (band: number) => {
    const top = 15 + (27 * Math.log(8)) / Math.log(6.4);
    const mel = ((band + 1) * top) / (MEL_BANDS + 1);
    return mel < 15 ? (200 * mel) / 3 : 1_000 * 6.4 ** ((mel - 15) / 27);
  };

  it.each([
    ['the tracker of builtin', [], vowel({ hz: 118, formants: VOWELS.a, seconds: 2 })],
    ['a model of RMVPE', [tinyRmvpe(binOf)], sine(centre(12), 2)],
    ['a model of FCPE', [tinyFcpe(slaney)], sine(slaney(4), 2)],
    ['a model of FCPE that counts its frames', [tinyFcpe(slaney, true)], sine(slaney(4), 2)],
  ])('by %s arrives in the middle of its range, without a seam', async (_how, trackers, sound) => {
    const models = await open(tinyContentvec(), tinyTone({ options: { speaker: 1 } }), ...trackers);
    const out = await convertAll(start(models, 'my-voice'), sound);
    const later = out.subarray(RATE, 2 * RATE);
    const pitches = pitchOf(later, RATE);
    expect(pitches.every((hz) => hz > 0)).toBe(true);
    expect(median(pitches) / middle(alto)).toBeGreaterThan(0.985);
    expect(median(pitches) / middle(alto)).toBeLessThan(1.015);
    // Every run begins its tone anew. If it were placed wrongly, the fades would cancel each other.
    const levels = Array.from({ length: 100 }, (_, i) => levelDb(later.subarray(480 * i, 480 * i + 480)));
    expect(Math.max(...levels) - Math.min(...levels)).toBeLessThan(2);
    // It also does not break off ten times per second.
    const steps = Array.from(later.subarray(1), (value, i) => Math.abs(value - (later[i] as number)));
    const peak = Math.max(...Array.from(later, Math.abs));
    expect(Math.max(...steps) / peak).toBeLessThan(1.15 * 2 * Math.sin((Math.PI * middle(alto)) / RATE));
  });

  it('is silent where there is none', async () => {
    const models = await open(tinyContentvec(), tinyTone());
    const out = await convertAll(start(models, 'my-voice'), noise(1, 0.05));
    expect(levelDb(out)).toBeLessThan(-60);
  });
});

describe('which engine converts', () => {
  it('is the model that a voice names, where the node has it, else builtin', async () => {
    rig.said.length = 0;
    const models = await open(
      ...[tinyContentvec(), tinyContentvec(768), tinyRmvpe(() => 0)],
      ...[tinyEcho({ name: 'ada' }), tinyEcho({ name: 'bob', width: 768 }), tinyEcho({ name: 'eve' })],
    );
    expect([...models.names]).toEqual(['ada', 'bob', 'eve']);
    // One of each kind was timed.
    expect(rig.said.filter((line) => line.startsWith('voice '))).toEqual(
      ['ada', 'bob'].map((name) =>
        expect.stringMatching(new RegExp(`^voice ${name}: 100 ms of sound take \\d+\\.\\d ms$`)),
      ),
    );
    expect(models.carries).toBeGreaterThanOrEqual(0);
    const engine = (voice: Voice | undefined) => {
      const { engine, models: speaking } = engineFor(voice, models);
      return [engine, speaking?.content.name, speaking?.pitch?.name];
    };
    expect(engine(speaking('ada'))).toEqual(['onnx ada', 'contentvec_256', 'rmvpe']);
    expect(engine(speaking('bob'))).toEqual(['onnx bob', 'contentvec_768', 'rmvpe']);
    // The encoder is no voice.
    for (const name of ['carol', 'contentvec_256', 'rmvpe'])
      expect(engine(speaking(name))).toEqual(['builtin', undefined, undefined]);
    expect(engine(alto)).toEqual(['builtin', undefined, undefined]);
    expect(engineFor(speaking('ada'), undefined)).toEqual({ engine: 'builtin' });
    expect(engine(undefined)).toEqual(['none', undefined, undefined]);
    expect(() => models.of('carol')).toThrow('no model carol');
    await expect(models.run('carol', {}, NEVER)).rejects.toThrow('no model carol');
  });

  it('is none of a directory that has no voice, and a fault is named', async () => {
    const settings = { providers: ['cpu' as const], devices: [0], threads: 1, say: () => undefined };
    const only = await rig.directories.make([tinyContentvec()]);
    expect(await openModelVoices({ ...settings, modelDir: only }, NEVER)).toBeUndefined();
    const lacking = await rig.directories.make([tinyEcho()]);
    await expect(openModelVoices({ ...settings, modelDir: lacking }, NEVER)).rejects.toThrow(
      'my-voice (my-voice.onnx): rvc_v1 needs a contentvec_256',
    );
  });

  it('says so when it ends in the middle of a stream', async () => {
    const models = await open(tinyContentvec(), tinyEcho());
    const abort = new AbortController();
    const converter = start(models, 'my-voice', RATE, abort.signal);
    const running = converter.push(sine(200, 1));
    abort.abort(new Error('the client is gone'));
    await expect(running).rejects.toThrow('the client is gone');
    const other = start(models, 'my-voice');
    const cut = expect(other.push(sine(200, 1))).rejects.toThrow('the sessions are closed');
    await models.close();
    await cut;
  });
});
