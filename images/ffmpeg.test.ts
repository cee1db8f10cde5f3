import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Guard } from '@semblance/common/process/guard';
import { decodeAudio } from '@semblance/media/internal/decode-audio';
import { decodeVideo } from '@semblance/media/internal/decode-video';
import { DECODERS, DEMUXERS } from '@semblance/media/internal/formats';
import { type RawStream, readHeaders } from '@semblance/media/internal/headers';
import type { Kit } from '@semblance/media/internal/kit';
import { measure, measureWritten } from '@semblance/media/internal/measure';
import { finishFile } from '@semblance/media/internal/mux';
import { scanPackets } from '@semblance/media/internal/packets';
import type { VideoDetails } from '@semblance/media/internal/probe';
import { openWriter } from '@semblance/media/internal/writer';
import type { ColorTags } from '@semblance/media/types';
import { expect, it } from 'vitest';

// The agent's image has an ffmpeg that ffmpeg.sh builds with only the components in its lists. These tests replace
// every start of a program in the media layer, and compare what its arguments ask for with the lists.

const script = readFileSync(join(import.meta.dirname, 'ffmpeg.sh'), 'utf8');
const listed = (name: string) => {
  const [, words = ''] = new RegExp(`^${name}='([^']+)'$`, 'm').exec(script) ?? [];
  return words.split(/\s+/).sort();
};

/** Program name → configure name, where ffmpeg's configure uses another name. */
const CONFIGURED: Readonly<Record<string, string>> = {
  mp4: 'mov',
  m4a: 'mov',
  '3gp': 'mov',
  '3g2': 'mov',
  mj2: 'mov',
  webm: 'matroska',
  mpeg: 'mpegps',
  msmpeg4: 'msmpeg4v3',
};
/** Decoder → preferred decoder; the former is used only where the latter is missing. */
const SECOND: Readonly<Record<string, string>> = {
  libvpx: 'vp8',
  'libvpx-vp9': 'vp9',
  'libaom-av1': 'libdav1d',
  av1: 'libdav1d',
  libopus: 'opus',
  libvorbis: 'vorbis',
  libopencore_amrnb: 'amrnb',
  libopencore_amrwb: 'amrwb',
  libspeex: 'speex',
};
const unique = (names: Iterable<string>) => [...new Set(names)].sort();
const configured = (names: readonly string[]) => unique(names.map((name) => CONFIGURED[name] ?? name));

it('is built with every demuxer and decoder that a file may ask for', () => {
  expect(listed('DEMUXERS')).toEqual(configured([...DEMUXERS, 'nut']));
  expect(listed('DECODERS')).toEqual(configured(DECODERS.map((name) => SECOND[name] ?? name)));
});

/** Stops the work before it would read from a program. */
class Started extends Error {}

/** Returns the arguments of the one program that the work starts, and stops the work there. */
async function started(work: (kit: Kit, signal: AbortSignal) => Promise<unknown>): Promise<string[]> {
  const commands: string[][] = [];
  const stream: RawStream = { index: 0, codec_type: 'audio', codec_name: 'aac', sample_rate: '48000' };
  const kit: Kit = {
    tools: {
      available: true,
      ffmpeg: 'ffmpeg',
      ffprobe: 'ffprobe',
      version: '5.1',
      isolation: { wall: undefined, unshare: [], stands: [], missing: [] },
      toneMapping: true,
    },
    guard,
    limits: { maxDurationSec: 60, maxPixels: 1e6, maxFrames: 1e3 },
    threads: 2,
    memoryMib: 1_024,
    stallSec: 60,
    async start(_program, args) {
      commands.push([...args]);
      throw new Started();
    },
    async open() {
      return {
        container: 'wav',
        startTime: '0',
        streams: [stream],
        async times() {
          throw new Error('not asked for');
        },
      };
    },
    async *patient() {},
  };
  await expect(work(kit, new AbortController().signal)).rejects.toThrow(Started);
  expect(commands).toHaveLength(1);
  return commands[0] as string[];
}

const nothing = async () => {};
const guard: Guard = {
  watch: nothing,
  forget: nothing,
  removeOnDeath: nothing,
  keep: nothing,
  close: nothing,
};

const COLOR: ColorTags = { range: 'tv', space: 'bt709', primaries: 'bt709', transfer: 'bt709' };
const PLAIN: VideoDetails = {
  stream: 0,
  zeroUs: 0,
  untimed: false,
  quarterTurns: 0,
  mirrored: false,
  interlaced: false,
  hdr: false,
  coded: { width: 64, height: 48 },
  storedColor: COLOR,
  pixelFormat: 'yuv420p',
  seeThrough: false,
};
/** One video for each way in which frames are changed during decoding. */
const VIDEOS: readonly VideoDetails[] = [
  PLAIN,
  { ...PLAIN, interlaced: true, mirrored: true },
  { ...PLAIN, quarterTurns: 1 },
  { ...PLAIN, quarterTurns: 2 },
  { ...PLAIN, quarterTurns: 3 },
  { ...PLAIN, pixelFormat: 'gbrp', storedColor: { ...COLOR, space: 'gbr' } },
  { ...PLAIN, pixelFormat: 'rgba', seeThrough: true },
  { ...PLAIN, storedColor: { ...COLOR, space: 'ycgco' } },
  { ...PLAIN, hdr: true, storedColor: { ...COLOR, space: 'bt2020nc', transfer: 'smpte2084' } },
];
const size = { width: 64, height: 48 };
const sound = { stream: 1, zeroUs: 0, path: '/sound' };
const whole = { video: '/video', to: '/to', frames: 2, lastFrameUs: 40_000 };

/** Returns the arguments of every program that the media layer starts. */
function commands(): Promise<string[][]> {
  const decoders = VIDEOS.map((video) =>
    started((kit, signal) => {
      const info = {
        ...size,
        frameRate: 25,
        variableRate: false,
        frameCount: 2,
        endUs: 80_000,
        codec: 'h264',
        color: COLOR,
      };
      const probed = { info: { container: 'mov', durationSec: 1, video: info }, video };
      return decodeVideo(kit, '/in', probed, { signal }).next();
    }),
  );
  return Promise.all([
    ...decoders,
    started((kit, signal) => readHeaders(kit, '/in', signal)),
    started((kit, signal) => scanPackets(kit, '/in', { index: 0, codec_type: 'video' }, signal)),
    started((kit, signal) => measure(kit, '/in', signal)),
    started((kit, signal) => measureWritten(kit, '/in', signal)),
    started((kit, signal) =>
      decodeAudio(kit, '/in', { ...sound, codec: 'aac' }, { sampleRate: 16_000, signal }).next(),
    ),
    started((kit, signal) => openWriter(kit, { ...size, path: '/out', color: COLOR, frameRate: 25, signal })),
    ...['aac', 'vorbis'].map((codec) =>
      started((kit, signal) => finishFile(kit, { ...whole, signal, sound: { ...sound, codec } })),
    ),
    started((kit, signal) => finishFile(kit, { ...whole, signal, sound: undefined })),
  ]);
}

type Kind = 'DEMUXERS' | 'MUXERS' | 'ENCODERS' | 'FILTERS' | 'BSFS' | 'PROTOCOLS';

/** Yields the components that the arguments of one command require of ffmpeg or ffprobe. */
function* asked(args: readonly string[]): Generator<readonly [Kind, string]> {
  let input = args.lastIndexOf('-i');
  if (input < 0) input = args.length;
  for (const [i, option] of args.entries()) {
    const value = args[i + 1] ?? '';
    if (option === '-f') yield i < input ? ['DEMUXERS', value] : ['MUXERS', value];
    if (/^-(c|codec|[av]codec)\b/.test(option) && option !== '-codec_whitelist' && value !== 'copy')
      yield ['ENCODERS', value];
    if (/^-(bsf|absf|vbsf)\b/.test(option)) for (const name of parts(value)) yield ['BSFS', name];
    if (/^-(vf|af|filter|filter_complex|lavfi)\b/.test(option))
      for (const name of parts(value)) yield ['FILTERS', name];
    if (option === '-protocol_whitelist') for (const name of value.split(',')) yield ['PROTOCOLS', name];
    const [, protocol] = /^([a-z]+):/.exec(option) ?? [];
    if (protocol) yield ['PROTOCOLS', protocol];
  }
}

/**
 * Returns the names in a graph of comma-separated chains, between labels. A comma inside a value is escaped with a
 * backslash.
 */
const parts = (graph: string) =>
  graph.split(/(?<!\\)[,;]/).map((part) => part.replaceAll(/\[\w+\]/g, '').split('=')[0] as string);

it('is built with all that the agent asks of it, and no more', async () => {
  const wanted = new Map<Kind, Set<string>>();
  for (const args of await commands())
    for (const [kind, name] of asked(args)) wanted.set(kind, (wanted.get(kind) ?? new Set()).add(name));
  const of = (kind: Kind) => unique(wanted.get(kind) ?? []);
  expect(of('DEMUXERS')).toEqual(['nut']);
  expect(
    of('MUXERS')
      .map((name) => (name === 'f32le' ? 'pcm_f32le' : name))
      .sort(),
  ).toEqual(listed('MUXERS'));
  expect(of('ENCODERS')).toEqual(listed('ENCODERS'));
  expect(of('FILTERS')).toEqual(listed('FILTERS'));
  expect(of('PROTOCOLS')).toEqual(listed('PROTOCOLS'));
  // extract_extradata is used by demuxers and appears in no argument.
  expect([...of('BSFS'), 'extract_extradata'].sort()).toEqual(listed('BSFS'));
});
