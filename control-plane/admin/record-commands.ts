import type { Command } from './command.ts';
import { type FlagSpec, given, LIST_LIMIT, listLimit, settingFlag, UsageError, yesFlag } from './usage.ts';

const ofAccount: FlagSpec = {
  name: 'account',
  value: 'ID',
  required: false,
  help: 'of this account alone (acct-…)',
};

type Row = Record<string, unknown>;

/** Commands for settings of the platform and files. */
export const RECORD_COMMANDS: readonly Command[] = [
  {
    name: 'settings list',
    help: 'Shows the settings of the whole platform.',
    flags: [],
    async run(_flags, calls) {
      const { settings } = await calls.invoke('listSettings', {});
      return Object.fromEntries((settings as Row[]).map((setting) => [setting.name, shownValue(setting)]));
    },
  },
  {
    name: 'settings set',
    help: 'Sets one of them, for all processes, within seconds.',
    flags: [
      {
        name: 'name',
        value: 'S',
        required: true,
        help: 'as `settings list` names it; `_seconds` may be left out',
      },
      {
        name: 'value',
        value: 'V',
        required: true,
        help: 'a whole number; a time may be written 90s, 15m, 12h, 30d; never: for ever, where that is allowed',
      },
    ],
    async run(flags, calls) {
      const { settings } = await calls.invoke('listSettings', {});
      const asked = flags.get('name') ?? '';
      const names = (settings as Row[]).map((setting) => String(setting.name));
      const name = names.find((each) => each === asked || each === `${asked}_seconds`) ?? asked;
      const value = settingFlag(flags, 'value', name.endsWith('_seconds'));
      const setting = { name, ...(value === undefined ? {} : { value }) };
      const answer = await calls.invoke('setSetting', { setting });
      return { name, value: shownValue(answer.setting as Row) };
    },
  },
  {
    name: 'media list',
    columns: [
      'object_key',
      'kind',
      'account_id',
      'job_id',
      'size_bytes',
      'removed_by',
      'actor',
      'removed_at',
      'deleted_at',
    ],
    help: 'Lists files that were deleted, by whom and when, the newest first.',
    flags: [ofAccount, LIST_LIMIT],
    async run(flags, calls) {
      const { deletions } = await calls.invoke('listMedia', {
        ...given(flags, 'account', 'accountId'),
        limit: listLimit(flags),
      });
      return (deletions as Row[]).map((deletion) => ({
        object_key: deletion.objectKey,
        kind: deletion.kind,
        account_id: deletion.accountId ?? null,
        job_id: deletion.jobId ?? null,
        size_bytes: Number(deletion.sizeBytes),
        removed_by: deletion.removedBy,
        actor: deletion.actor ?? null,
        removed_at: deletion.removedAt,
        deleted_at: deletion.deletedAt ?? null,
      }));
    },
  },
  {
    name: 'media delete',
    help: 'Deletes the output of an ended job, or an upload that no unfinished job is made from.',
    flags: [
      { name: 'job', value: 'ID', required: false, help: 'the job (job-…) whose output goes' },
      { name: 'inputs', value: 'yes', required: false, help: 'yes: the uploads it was made from, too' },
      { name: 'upload', value: 'KEY', required: false, help: 'the file key (api/…) of an upload' },
    ],
    async run(flags, calls) {
      if (flags.has('job') === flags.has('upload'))
        throw new UsageError('media delete needs either --job or --upload.');
      const answer = await calls.invoke('deleteMedia', {
        ...given(flags, 'job', 'jobId'),
        ...given(flags, 'upload', 'fileKey'),
        inputs: yesFlag(flags, 'inputs'),
      });
      return {
        output_deleted: answer.outputDeleted,
        deleted_inputs: answer.deletedInputs,
        kept_inputs: answer.keptInputs,
      };
    },
  },
];

function shownValue(setting: Row): number | null {
  return setting.value === undefined ? null : Number(setting.value);
}
