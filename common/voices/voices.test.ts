import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadConfig } from '../config.ts';
import { loadVoices, SHIPPED_VOICES, voiceDirectories, voiceShape } from './load-voices.ts';
import { parseVoice, readVoice, VoiceError, voiceDefinition } from './voice.ts';

const good = {
  id: 'test-voice',
  name: 'Test',
  description: 'A voice of a test.',
  pitch_hz: { low: 100, high: 150 },
  formant_shift: 1.1,
  timbre: [{ hz: 200, db: 2 }],
  model: 'my-rvc',
  transpose: -5,
  index_rate: 0.6,
  protect: 0.2,
};

let directory = '';
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'semblance-voices-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

async function folder(files: Readonly<Record<string, unknown>>): Promise<string> {
  const path = await mkdtemp(join(directory, 'v-'));
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(path, name), typeof content === 'string' ? content : JSON.stringify(content));
  }
  return path;
}

const faultsOf = async (...directories: string[]): Promise<readonly string[]> => {
  const error = await loadVoices(directories).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof VoiceError)) throw new Error(`no VoiceError but ${String(error)}`);
  return error.faults.map((fault) => fault.replaceAll(`${directories[0]}/`, ''));
};

describe('voices', () => {
  it('come with six', async () => {
    const voices = await loadVoices();
    expect([...voices.keys()]).toEqual([
      'bass-narrator',
      'bright-tenor',
      'calm-alto',
      'clear-soprano',
      'small-character',
      'warm-baritone',
    ]);
    for (const [id, voice] of voices) expect(voice.id).toBe(id);
  });

  it('say that they are effects, because none is the voice of another person', async () => {
    for (const { description } of (await loadVoices()).values()) expect(description).toMatch(/^Effect: /);
  });

  it('keep words: neither pitch nor formants leave the range that a recogniser understands', async () => {
    // The bench of words found the limits. Beyond them, the words of speakers with high voices are lost first.
    for (const { id, pitchHz, formantShift } of (await loadVoices()).values()) {
      expect(Math.sqrt(pitchHz.low * pitchHz.high), id).toBeLessThanOrEqual(300);
      expect(formantShift, id).toBeLessThanOrEqual(1.2);
      expect(formantShift, id).toBeGreaterThanOrEqual(0.85);
    }
  });

  it('are read from a file, which may name a model', () => {
    expect(parseVoice(JSON.stringify(good), 'test.json')).toEqual({
      id: 'test-voice',
      name: 'Test',
      description: 'A voice of a test.',
      pitchHz: { low: 100, high: 150 },
      formantShift: 1.1,
      timbre: [{ hz: 200, db: 2 }],
      model: 'my-rvc',
      transpose: -5,
      indexRate: 0.6,
      protect: 0.2,
    });
  });

  it('are the same when read from their definition again', async () => {
    for (const voice of [...(await loadVoices()).values(), parseVoice(JSON.stringify(good), 'test.json')]) {
      const text = JSON.stringify(voiceDefinition(voice));
      expect(parseVoice(text, voice.id)).toEqual(voice);
      expect(readVoice(JSON.parse(text), voice.id)).toEqual(voice);
    }
    expect(voiceDefinition(parseVoice(JSON.stringify(good), 'test.json'))).toEqual(good);
  });

  it.each(['x\u001b[2J', 'two\nlines', 'half of a pair: \ud800', '\u202eturned'])(
    'are shown to callers, so that %j is no name',
    (name) => {
      const faulty = JSON.stringify({ ...good, name });
      expect(() => parseVoice(faulty, 'a.json')).toThrow('a.json: name: must be plain text in one line');
    },
  );

  it('of the owner are added, and take the place of shipped ones with the same id', async () => {
    const own = await folder({
      'a.json': good,
      'b.json': { ...good, id: 'calm-alto', name: 'Mine' },
      'notes.txt': 'no voice',
    });
    const voices = await loadVoices([SHIPPED_VOICES, own]);
    expect(voices.size).toBe(7);
    expect(voices.get('test-voice')?.formantShift).toBe(1.1);
    expect(voices.get('calm-alto')?.name).toBe('Mine');
  });

  it('of the owner lie where the environment says', () => {
    const directories = (env: NodeJS.ProcessEnv) => voiceDirectories(loadConfig(voiceShape, env));
    expect(directories({})).toEqual([SHIPPED_VOICES]);
    expect(directories({ SEMBLANCE_VOICE_DIR: '/srv/voices' })).toEqual([SHIPPED_VOICES, '/srv/voices']);
    expect(() => directories({ SEMBLANCE_VOICE_DIR: 'voices' })).toThrow(
      /SEMBLANCE_VOICE_DIR: must be an absolute path/,
    );
  });

  it('are refused with every fault by name', async () => {
    const path = await folder({
      'a.json': { ...good, id: 'Not An Id', formant_shift: 9 },
      'b.json': '{ "id": ',
      'c.json': { ...good, id: 'c', pitch_hz: { low: 200, high: 150 } },
      'd.json': {
        ...good,
        id: 'd',
        timbre: [
          { hz: 300, db: 0 },
          { hz: 200, db: 0 },
        ],
        colour: 'red',
      },
      'e.json': good,
      'f.json': good,
      'h.json': { ...good, id: 'h', model: undefined },
      'i.json': { ...good, id: 'i', transpose: 25, index_rate: 1.1, protect: 0.6 },
    });
    await mkdir(join(path, 'g.json'));
    const faults = await faultsOf(path);
    expect(faults).toEqual([
      'a.json: id: must be lower-case letters, digits or "-", at most 64',
      expect.stringMatching(/^a\.json: formant_shift: /),
      expect.stringMatching(/^b\.json: is not JSON: /),
      'c.json: pitch_hz.high: must be at least 1.05 times low',
      expect.stringMatching(/^d\.json: .*colour/),
      'd.json: timbre.1.hz: must be above the one before',
      'f.json: id: test-voice is that of e.json too',
      'g.json: is not a file',
      'h.json: transpose: needs a model: builtin has no use for it',
      'h.json: index_rate: needs a model: builtin has no use for it',
      'h.json: protect: needs a model: builtin has no use for it',
      expect.stringMatching(/^i\.json: transpose: /),
      expect.stringMatching(/^i\.json: index_rate: /),
      expect.stringMatching(/^i\.json: protect: /),
    ]);
  });

  it('are refused when their directory is not there or a file is too large', async () => {
    expect(await faultsOf(join(directory, 'none'))).toEqual([
      expect.stringContaining('cannot be read: ENOENT'),
    ]);
    const large = await folder({ 'a.json': { ...good, description: 'x'.repeat(70_000) } });
    expect(await faultsOf(large)).toEqual(['a.json: is larger than 64 KiB']);
  });
});
