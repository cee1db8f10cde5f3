import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { SAMPLE_RATE } from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import type { PoseOptions } from '@semblance/engine-builtin/internal/lip-sync/audio/mouth-track';
import { disturb, music } from '@semblance/testkit/sound/augment';
import { posesOf } from '@semblance/testkit/sound/poses';
import { normal, seeded } from '@semblance/testkit/sound/random';
import { heldOutSet } from '../../../tools/train-mouth/corpus.ts';
import { over } from '../../../tools/train-mouth/gate-corpus.ts';
import { band, WORDLESS } from '../../../tools/train-mouth/instruments.ts';
import { type Figures, measure } from '../../../tools/train-mouth/measure.ts';
import { figure, type Row } from '../lib/section.ts';
import { humanSpeech } from './human-speech.ts';
import { goal, percent, row } from './rows.ts';

const OFF: PoseOptions = { gated: false };
const WITHOUT = 'without the gate';

/** Measures the motion of the mouth for speech: of voices outside the training, of recorded people, over music. */
export async function soundRows(): Promise<Row[]> {
  const spoken = await heldOutSet();
  const all = [...spoken.values()].flat();
  const rows = figureRows('held-out voices', await measure(all), await measure(all, OFF), true);
  for (const [voice, utterances] of spoken) {
    const { opennessR } = await measure(utterances);
    rows.push(row(`openness r, ${voice}`, opennessR.toFixed(3)));
  }
  for (const { name, recordings, seconds, figures, ungated } of await humanSpeech()) {
    const of = `people, ${name} (${recordings} recordings, ${Math.round(seconds)} s)`;
    rows.push(...figureRows(of, figures, ungated, false));
  }
  const random = seeded(31337);
  for (const db of [20, 10, 5, 0]) {
    const played = all.map(({ samples, phones }) => ({
      samples: over(samples, band(samples.length / SAMPLE_RATE, random), db),
      phones,
    }));
    const say = ({ opennessR, vowel }: Figures): string => `${opennessR.toFixed(3)}, ${vowel.toFixed(3)} IOD`;
    const [on, off] = [await measure(played), await measure(played, OFF)];
    const name = `openness r and open vowels, held-out voices ${db} dB over music`;
    rows.push(row(name, say(on), `${say(off)} (${WITHOUT})`));
  }
  return rows;
}

function figureRows(of: string, figures: Figures, ungated: Figures, goals: boolean): Row[] {
  const { opennessR, vowelToBilabial, vowel, bilabial, closedShare, wronglyClosed, lag } = figures;
  const peer = `${ungated.opennessR.toFixed(3)} (${WITHOUT})`;
  const rows = [
    { ...goal(`openness r, ${of}`, opennessR.toFixed(3), goals ? '≥ 0.8' : '', opennessR >= 0.8), peer },
  ];
  if (Number.isFinite(vowelToBilabial)) {
    const text = `${vowel.toFixed(3)} : ${bilabial.toFixed(3)}`;
    rows.push(goal(`open vowel : bilabial, IOD, ${of}`, text, '≥ 3', vowelToBilabial >= 3));
    rows.push(row(`bilabials with lips closed, ${of}`, percent(closedShare)));
  }
  rows.push(row(`other sounds with lips closed, ${of}`, percent(wronglyClosed)));
  rows.push(goal(`lag, ${of}`, `${Math.round(lag * 1000)} ms`, '≤ 40 ms', Math.abs(lag) <= 0.04));
  return rows;
}

/** Music from another generator than that of the gate's training: expressions of ffmpeg. */
const FFMPEG_MUSIC: Readonly<Record<string, string>> = {
  'a chord with tremolo':
    'aevalsrc=0.1*(sin(2*PI*220*t)+sin(2*PI*277*t)+sin(2*PI*330*t))*(0.6+0.4*sin(2*PI*5*t))',
  'a saw arpeggio': "aevalsrc='0.2*(2*mod(t*220*pow(2,floor(mod(t*6,8))*3/12),1)-1)*exp(-mod(t*6,1)*3)'",
  'a square bass': "aevalsrc='0.2*sgn(sin(2*PI*55*pow(2,floor(mod(t*2,4))*5/12)*t))*exp(-mod(t*2,1)*2)'",
  'saws through a phaser':
    "aevalsrc='0.1*(2*mod(t*110,1)-1)+0.1*(2*mod(t*138.6,1)-1)+0.1*(2*mod(t*164.8,1)-1)',aphaser=speed=1:decay=0.6",
  'a melody with vibrato and echo':
    "aevalsrc='0.2*sin(2*PI*523*pow(2,floor(mod(t*3,5))*2/12)*t)*min(1,mod(t*3,1)*12)*exp(-mod(t*3,1)*1.5)',vibrato=f=6:d=0.3,aecho=0.8:0.7:120|250:0.4|0.3",
  'a beat':
    "aevalsrc='0.5*sin(2*PI*60*mod(t*2,1))*exp(-mod(t*2,1)*12)+0.15*(random(0)*2-1)*exp(-mod(t*4,1)*25)+0.3*(random(1)*2-1)*exp(-mod(t+0.5,1)*18)'",
};

/** Measures how far the mouth is open, and how often it opens, for silence, noise and music. */
export async function quietRows(): Promise<Row[]> {
  const random = seeded(4242);
  const silence = new Float32Array(20 * SAMPLE_RATE);
  const still: [string, Float32Array[]][] = [
    ['silence', [silence]],
    ['noise', [silence.map(() => 0.02 * normal(random))]],
    ['music', [disturb(music(20, random), random)]],
  ];
  for (const [name, play] of Object.entries(WORDLESS)) {
    const disturbed = [0, 1].map(() => disturb(play(8, random), random));
    still.push([`made: ${name}`, [play(8, random), play(8, random), ...disturbed]]);
  }
  for (const [name, source] of Object.entries(FFMPEG_MUSIC))
    still.push([`ffmpeg: ${name}`, [await synthesised(source)]]);
  const rows: Row[] = [];
  for (const [name, sounds] of still) {
    const [on, off] = [await chatter(sounds, {}), await chatter(sounds, OFF)];
    rows.push(row(`${name}: mean openness, openings a second`, on, `${off} (${WITHOUT})`));
  }
  return rows;
}

async function chatter(sounds: readonly Float32Array[], options: PoseOptions): Promise<string> {
  let [openings, sum, count] = [0, 0, 0];
  for (const samples of sounds) {
    let open = false;
    const poses = await posesOf(samples, options);
    for (const { openness } of poses) {
      if (!open && openness > 0.05) openings++;
      open = openness > (open ? 0.02 : 0.05);
      sum += openness;
    }
    count += poses.length;
  }
  return `${(sum / count).toFixed(4)} IOD, ${figure((100 * openings) / count)}`;
}

async function synthesised(source: string): Promise<Float32Array> {
  const args = ['-v', 'error', '-f', 'lavfi', '-i', source, '-t', '10', '-ac', '1'];
  const { stdout } = await promisify(execFile)(
    'ffmpeg',
    [...args, '-ar', String(SAMPLE_RATE), '-f', 'f32le', '-'],
    { encoding: 'buffer', maxBuffer: 1 << 28 },
  );
  return Float32Array.from({ length: stdout.length >> 2 }, (_, i) => stdout.readFloatLE(i * 4));
}
