import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Voice } from '@semblance/common/voices/voice';
import type { Program } from '@semblance/provenance/manifest';
import { GENERATED } from '@semblance/provenance/source-types';
import { xmpPacket } from '@semblance/provenance/xmp';
import { Speaker } from '@semblance/speech/speaker';
import type { SpeechTools } from '@semblance/speech/speech-tools';
import type { Utterance } from '@semblance/speech/synthesiser';
import { findSpeechTools } from '@semblance/speech/tools';
import type { Voice as Synthesised } from '@semblance/speech/voices';
import { PREVIEW_RATE, previewSound } from './preview-sound.ts';
import { encodeWav } from './wav.ts';

const SENTENCE = 'This is how I sound. Tell me what you would like to say.';
const COMMENT = 'Made by an algorithm: synthesised speech, converted to a voice.';
/** Longest time of one preview, in ms. */
const LIMIT_MS = 60_000;

/** Synthetic speakers, with their usual pitch in Hz. The one closest to a voice needs the least shift. */
const SPEAKERS: readonly (Synthesised & { readonly hz: number })[] = [
  { program: 'flite', name: 'rms', hz: 102 },
  { program: 'flite', name: 'awb', hz: 132 },
  { program: 'flite', name: 'slt', hz: 167 },
  { program: 'espeak-ng', name: 'en-us+m3', hz: 105 },
  { program: 'espeak-ng', name: 'en-us+f3', hz: 212 },
];

/** No preview can be made here, or not now. */
export class PreviewError extends Error {
  override readonly name = 'PreviewError';
  readonly code: 'cannot_speak' | 'busy';
  readonly retryable = true;

  constructor(code: PreviewError['code'], message: string) {
    super(message);
    this.code = code;
  }
}

export interface PreviewsOptions {
  /** Existing private directory. */
  readonly directory: string;
  /** Program named in the file as its maker. */
  readonly generator: Program;
}

export interface Previews {
  /**
   * Returns speech in a voice: WAV, 24 kHz, mono, at most 4 s. Only one call at a time.
   * @throws PreviewError, RenderError, EngineInterruptedError, or the signal's reason
   */
  make(voice: Voice, signal: AbortSignal): Promise<Buffer>;
}

export function createPreviews(options: PreviewsOptions): Previews {
  const { directory, generator } = options;
  let tools: SpeechTools | undefined;
  let busy = false;

  async function findOnce(): Promise<SpeechTools> {
    if (tools) return tools;
    const found = await findSpeechTools();
    if (!found.available) throw new PreviewError('cannot_speak', `nothing can be spoken: ${found.reason}`);
    tools = found;
    return found;
  }

  async function speak(speaker: Synthesised, signal: AbortSignal): Promise<Utterance> {
    const own = await mkdtemp(join(directory, 'preview-'));
    try {
      const synthesiser = new Speaker({ tools: await findOnce(), signal, directory: own });
      try {
        return await synthesiser.speak(speaker, SENTENCE);
      } finally {
        await synthesiser.close();
      }
    } finally {
      await rm(own, { recursive: true, force: true });
    }
  }

  return {
    async make(voice, signal) {
      if (busy) throw new PreviewError('busy', 'another preview is being made');
      busy = true;
      try {
        const limited = AbortSignal.any([signal, AbortSignal.timeout(LIMIT_MS)]);
        const speaker = speakerFor(await findOnce(), voice);
        const { samples, sampleRate } = await speak(speaker, limited);
        const sound = await previewSound({ samples, sampleRate }, voice, limited);
        const software = `${generator.name} ${generator.version}`;
        const xmp = xmpPacket({
          digitalSourceType: GENERATED,
          creatorTool: software,
          instanceId: `xmp:iid:${randomUUID()}`,
        });
        return encodeWav(sound, PREVIEW_RATE, { software, comment: COMMENT, xmp });
      } finally {
        busy = false;
      }
    },
  };
}

/** Prefers flite's speakers, which sound most natural. */
function speakerFor({ flite, espeak }: SpeechTools, { pitchHz: { low, high } }: Voice): Synthesised {
  const there = SPEAKERS.filter(({ program, name }) =>
    program === 'flite' ? flite?.voices.includes(name) : !flite && espeak?.voices.has('en-us'),
  );
  const far = ({ hz }: { hz: number }) => Math.abs(Math.log(hz / Math.sqrt(low * high)));
  const [closest] = there.sort((a, b) => far(a) - far(b));
  if (!closest) throw new PreviewError('cannot_speak', 'no synthesiser here has an English voice');
  return closest;
}
