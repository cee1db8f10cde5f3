import { loadVoices } from '@semblance/common/voices/load-voices';
import type { Voice } from '@semblance/common/voices/voice';
import { formantFactor, levelDb, median, pitchOf, spectrum } from '@semblance/testkit/voice/analysis';
import { converted, delayed } from '@semblance/testkit/voice/convert';
import {
  joined,
  noise,
  people,
  RATE,
  SPEAKERS,
  speech,
  VOWELS,
  vowel,
} from '@semblance/testkit/voice/sounds';
import { createVoiceConverter } from '@semblance/voice/converter';
import { type BenchContext, figure, quantile, type Row, type Section } from '../lib/section.ts';

/** Samples that a client sends in one message: 20 ms. */
const CHUNK = 960;
/** Length of the sound of one timing, in seconds; the next constant is the number of timings. */
const TIMED_SEC = 30;
const ROUNDS = 3;

/** Measures the live voice converter of `builtin`: its cost, its delay and its quality. */
export async function runVoiceBench({ say }: Pick<BenchContext, 'say'>): Promise<Section> {
  const voices = [...(await loadVoices()).values()];
  const spoken = new Map<string, Int16Array>();
  for (const speaker of SPEAKERS) spoken.set(speaker, await speech(speaker));
  for (const [name, sound] of await people()) spoken.set(name, sound);
  const all = joined([...spoken.values()]);
  say('voice: cost');
  const rows = costRows(all, voices);
  say('voice: delay');
  rows.push(...delayRows(voices));
  say('voice: pitch and formants');
  rows.push(...vowelRows(voices));
  for (const [name, sound] of spoken) rows.push(speechRow(name, sound, voices));
  return {
    title: 'Live voice',
    rows,
    notes: [
      `One session at ${RATE} Hz in chunks of ${CHUNK} samples; CPU time of this process, ${ROUNDS} times ${TIMED_SEC} s of speech, the median.`,
      'Pitch is measured by an autocorrelation of whole windows, formants as the stretch between long-term spectra; neither is the converter’s.',
      'Of speech, said for the third time: worst over the voices of the median pitch against the middle of the voice’s range, of the level, and of the share of moments whose pitch was moved by as many semitones as the median, within one.',
    ],
  };
}

function costRows(sound: Int16Array, voices: readonly Voice[]): Row[] {
  const copy = cost(sound, undefined);
  const rows: Row[] = [
    row('pass-through, CPU of a session', share(copy.cpu), {
      peer: `${share(bareCopy(sound))} (a copy of the samples)`,
    }),
  ];
  const costs = voices.map((voice) => ({ voice, ...cost(sound, voice) }));
  for (const { voice, cpu } of costs) {
    rows.push(
      row(`converted to ${voice.id}, CPU of a session`, share(cpu), {
        peer: `${share(copy.cpu)} (pass-through)`,
        goal: '≤ 2 % of a core',
        met: cpu <= 0.02,
      }),
    );
  }
  const slowest = costs.reduce((a, b) => (b.chunkP99 > a.chunkP99 ? b : a));
  rows.push(
    row(
      `time of a chunk of 20 ms, median and p99, ${slowest.voice.id}`,
      `${figure(slowest.chunkMedian)} ms, ${figure(slowest.chunkP99)} ms`,
    ),
  );
  return rows;
}

interface Cost {
  /** Share of a core, in [0, 1]. */
  readonly cpu: number;
  /** Median time of a chunk, in ms. */
  readonly chunkMedian: number;
  readonly chunkP99: number;
}

function cost(sound: Int16Array, voice: Voice | undefined): Cost {
  const chunks = Math.round((TIMED_SEC * RATE) / CHUNK);
  const shares: number[] = [];
  const times: number[] = [];
  // The first round only warms up the compiler.
  for (let round = 0; round <= ROUNDS; round++) {
    const converter = createVoiceConverter({ sampleRate: RATE, voice });
    const before = process.cpuUsage();
    for (let k = 0; k < chunks; k++) {
      const at = (k * CHUNK) % (sound.length - CHUNK);
      const start = performance.now();
      converter.push(sound.subarray(at, at + CHUNK));
      if (round > 0) times.push(performance.now() - start);
    }
    const { user, system } = process.cpuUsage(before);
    if (round > 0) shares.push((user + system) / 1e6 / TIMED_SEC);
  }
  return { cpu: quantile(shares, 0.5), chunkMedian: quantile(times, 0.5), chunkP99: quantile(times, 0.99) };
}

/** Measures the lower limit: copies of the same chunks. */
function bareCopy(sound: Int16Array): number {
  const chunks = Math.round((TIMED_SEC * RATE) / CHUNK);
  let kept = 0;
  const before = process.cpuUsage();
  for (let k = 0; k < chunks; k++) {
    const at = (k * CHUNK) % (sound.length - CHUNK);
    kept += sound.slice(at, at + CHUNK).length;
  }
  const { user, system } = process.cpuUsage(before);
  if (kept !== chunks * CHUNK) throw new Error('not all was copied');
  return (user + system) / 1e6 / TIMED_SEC;
}

function delayRows(voices: readonly Voice[]): Row[] {
  const click = new Int16Array(RATE);
  click[RATE / 2] = 20_000;
  const clickLags: number[] = [];
  const voiceLags: number[] = [];
  for (const voice of voices) {
    const out = delayed(click, voice, RATE, CHUNK);
    clickLags.push((largest(out) - RATE / 2) / (RATE / 1000));
    voiceLags.push(envelopeLag(voice));
  }
  const stated = createVoiceConverter({ sampleRate: RATE, voice: voices[0] }).latencySamples / (RATE / 1000);
  const [least, most] = [Math.min(...voiceLags), Math.max(...voiceLags)];
  const whole = 20 + Math.max(stated, ...clickLags, most);
  return [
    row('delay stated', `${figure(stated)} ms`),
    row('delay of a click, worst voice', `${figure(Math.max(...clickLags))} ms`),
    row(
      'delay of a swelling vowel, least and most over the voices',
      `${figure(least)} ms, ${figure(most)} ms`,
    ),
    row('a chunk of 20 ms and the worst of these', `${figure(whole)} ms`, {
      goal: '≤ 50 ms',
      met: whole <= 50,
    }),
  ];
}

function largest(samples: Int16Array): number {
  return samples.reduce((best, x, i) => (Math.abs(x) > Math.abs(samples[best] as number) ? i : best), 0);
}

/** Returns the delay of the level of a vowel that swells five times a second, in ms. */
function envelopeLag(voice: Voice): number {
  const tone = vowel({ hz: 120, formants: VOWELS.ae, seconds: 3 });
  const sound = tone.map((x, i) => x * (0.55 + 0.45 * Math.sin((2 * Math.PI * 5 * i) / RATE)));
  const out = delayed(sound, voice, RATE, CHUNK);
  // Returns the phase of the swelling, over whole periods of it.
  const phase = (of: Int16Array): number => {
    let [re, im] = [0, 0];
    for (let i = RATE; i < 2.8 * RATE; i++) {
      const power = (of[i] as number) ** 2;
      re += power * Math.cos((2 * Math.PI * 5 * i) / RATE);
      im += power * Math.sin((2 * Math.PI * 5 * i) / RATE);
    }
    return Math.atan2(im, re);
  };
  const turn = phase(out) - phase(sound);
  return (((turn + 2 * Math.PI) % (2 * Math.PI)) / (2 * Math.PI)) * 200;
}

function vowelRows(voices: readonly Voice[]): Row[] {
  const pitch: number[] = [];
  const formants: number[] = [];
  for (const voice of voices) {
    for (const hz of [90, 120, 200]) {
      for (const vocal of Object.values(VOWELS)) {
        const steady = converted(vowel({ hz, formants: vocal, seconds: 1 }), voice).subarray(RATE / 4);
        pitch.push(100 * Math.abs(median(heard(steady)) / middle(voice) - 1));
        const gliding = vowel({ hz, formants: vocal, seconds: 2, glide: 0.12 });
        const factor = formantFactor(spectrum(gliding, 150), spectrum(converted(gliding, voice), 150));
        formants.push(100 * Math.abs(factor / voice.formantShift - 1));
      }
    }
  }
  const of = `${pitch.length} vowels`;
  const [worstPitch, worstFormant] = [Math.max(...pitch), Math.max(...formants)];
  return [
    row(
      `error of pitch, ${of}, median and worst`,
      `${figure(quantile(pitch, 0.5))} %, ${figure(worstPitch)} %`,
      {
        goal: '≤ 2 %',
        met: worstPitch <= 2,
      },
    ),
    row(
      `error of formants, ${of}, median and worst`,
      `${figure(quantile(formants, 0.5))} %, ${figure(worstFormant)} %`,
      { goal: '≤ 3 %', met: worstFormant <= 3 },
    ),
    row('pitches in noise', `${voices.flatMap((voice) => heard(converted(noise(2, 0.1), voice))).length}`, {
      goal: '0',
      met: voices.every((voice) => heard(converted(noise(2, 0.1), voice)).length === 0),
    }),
  ];
}

function speechRow(name: string, sound: Int16Array, voices: readonly Voice[]): Row {
  const before = pitchOf(sound, RATE);
  const own = median(before.filter((hz) => hz > 0));
  const results = voices.map((voice) => {
    // Only the third repetition counts, because the converter then knows the speaker's median.
    const out = converted(joined([sound, sound, sound]), voice).subarray(2 * sound.length);
    const after = pitchOf(out, RATE);
    const both = before.map((_, i) => i).filter((i) => (before[i] as number) > 0 && (after[i] as number) > 0);
    const moved = both.map((i) => 12 * Math.log2((after[i] as number) / (before[i] as number)));
    const usual = median(moved);
    return {
      away: Math.abs(median(after.filter((hz) => hz > 0)) / middle(voice) - 1),
      level: Math.abs(levelDb(out) - levelDb(sound)),
      contour: moved.filter((semitones) => Math.abs(semitones - usual) < 1).length / moved.length,
    };
  });
  const away = 100 * Math.max(...results.map((one) => one.away));
  const level = Math.max(...results.map((one) => one.level));
  const contour = 100 * Math.min(...results.map((one) => one.contour));
  return row(
    `speech of ${name} (${figure(own)} Hz): pitch, level, contour`,
    `${figure(away)} %, ${figure(level)} dB, ${figure(contour)} %`,
  );
}

const heard = (sound: Int16Array): number[] => pitchOf(sound, RATE).filter((hz) => hz > 0);
const middle = ({ pitchHz }: Voice): number => Math.sqrt(pitchHz.low * pitchHz.high);
const share = (cpu: number): string => `${figure(100 * cpu)} % of a core`;

function row(
  name: string,
  ours: string,
  { peer = '', goal = '', met }: { peer?: string; goal?: string; met?: boolean } = {},
): Row {
  return { name, ours, peer, ratio: '', goal, met: met === undefined ? '' : met ? 'met' : 'not met' };
}
