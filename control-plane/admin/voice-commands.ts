import { readFileSync, statSync } from 'node:fs';
import { MAX_VOICE_BYTES } from '@semblance/common/voices/voice';
import type { Command } from './command.ts';
import { UsageError } from './usage.ts';

type View = Record<string, unknown>;

/** Commands for the voices of live sessions. */
export const VOICE_COMMANDS: readonly Command[] = [
  {
    name: 'voice list',
    columns: ['voice_id', 'name', 'source', 'model', 'preview_made_at', 'preview_error', 'description'],
    help: 'Lists the voices of live sessions, and since when each has the preview without which callers are not shown it.',
    flags: [],
    async run(_flags, calls) {
      const { voices } = await calls.invoke('listVoices', {});
      return (voices as View[]).map(voiceAnswer);
    },
  },
  {
    name: 'voice add',
    help: 'Adds a voice, or replaces the one with its id; sessions that are open keep the voice they have.',
    flags: [
      {
        name: 'file',
        value: 'F',
        required: true,
        help: 'its definition, JSON, as docs/reference/capabilities/live-voice.md has it',
      },
    ],
    async run(flags, calls) {
      const definitionJson = readDefinition(flags.get('file') ?? '');
      const { voice } = await calls.invoke('addVoice', { definitionJson });
      return voiceAnswer(voice as View);
    },
  },
  {
    name: 'voice remove',
    help: 'Removes a voice that was added; sessions that are open keep it.',
    flags: [{ name: 'voice', value: 'ID', required: true, help: 'the id of the voice' }],
    async run(flags, calls) {
      await calls.invoke('removeVoice', { voiceId: flags.get('voice') });
      return { voice_id: flags.get('voice'), removed: true };
    },
  },
];

function readDefinition(path: string): string {
  try {
    if (statSync(path).size > MAX_VOICE_BYTES)
      throw new Error(`it is larger than ${MAX_VOICE_BYTES / 1024} KiB`);
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`--file ${path} cannot be read: ${(error as Error).message}`);
  }
}

function voiceAnswer(view: View): View {
  return {
    voice_id: view.id,
    name: view.name,
    description: view.description,
    source: view.source,
    model: view.model ?? null,
    preview_made_at: view.previewMadeAt ?? null,
    preview_error: view.previewError ?? null,
  };
}
