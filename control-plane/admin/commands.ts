import { CAPABILITY_NAMES } from '@semblance/engine-api/capabilities';
import { ACCOUNT_COMMANDS } from './account-commands.ts';
import { AUDIT_COMMANDS } from './audit-commands.ts';
import { CAP_COMMANDS } from './cap-commands.ts';
import { CAPACITY_COMMANDS } from './capacity-commands.ts';
import type { Command } from './command.ts';
import { DELIVERY_COMMANDS } from './delivery-commands.ts';
import { JOB_COMMANDS } from './job-commands.ts';
import { KEY_COMMANDS } from './key-commands.ts';
import { LIMIT_COMMANDS } from './limit-commands.ts';
import { RATES_COMMANDS } from './rates-commands.ts';
import { RECEIPT_COMMANDS } from './receipt-commands.ts';
import { RECORD_COMMANDS } from './record-commands.ts';
import { SESSION_COMMANDS } from './session-commands.ts';
import { TOKEN_COMMANDS } from './token-commands.ts';
import { type FlagSpec, yesFlag } from './usage.ts';
import { USAGE_COMMANDS } from './usage-commands.ts';
import { VOICE_COMMANDS } from './voice-commands.ts';

const account: FlagSpec = { name: 'account', value: 'ID', required: true, help: 'the account (acct-…)' };

const capability = (name: string): FlagSpec => ({
  name,
  value: 'C',
  required: true,
  help: `its path segment: ${CAPABILITY_NAMES.join(', ')}`,
});

/** All commands of the service owner, by noun and verb. */
export const COMMANDS: readonly Command[] = [
  ...ACCOUNT_COMMANDS,
  ...KEY_COMMANDS,
  ...CAP_COMMANDS,
  ...(['enable', 'disable'] as const).map(
    (verb): Command => ({
      name: `capability ${verb}`,
      help:
        verb === 'enable'
          ? 'Switches a capability on; it is offered when an engine for it is installed.'
          : 'Switches a capability off; work that was submitted goes on.',
      flags: [capability('name')],
      run: async (flags, calls) => {
        const request = { capability: flags.get('name'), on: verb === 'enable' };
        const answer = await calls.invoke('switchCapability', request);
        return { capability: answer.capability, enabled: answer.enabled };
      },
    }),
  ),
  ...LIMIT_COMMANDS,
  {
    name: 'secret show',
    help: 'Shows the secret that webhooks of the account are signed with, and the next one; makes the first.',
    flags: [account],
    run: async (flags, calls) => {
      const { secret, next } = await calls.invoke('showSecret', { accountId: flags.get('account') });
      return { secret, next: next ?? null };
    },
  },
  {
    name: 'secret rotate',
    help: 'Makes the next secret, which signs in a header of its own until it is promoted.',
    flags: [
      account,
      { name: 'now', value: '', required: false, help: 'replaces the secret and ends every other at once' },
    ],
    run: async (flags, calls) => {
      const now = yesFlag(flags, 'now');
      const { secret } = await calls.invoke('rotateSecret', { accountId: flags.get('account'), now });
      return now ? { secret } : { next: secret };
    },
  },
  {
    name: 'secret promote',
    help: 'Makes the next secret the one that signs; the former one ends.',
    flags: [account],
    run: async (flags, calls) => {
      const { secret } = await calls.invoke('promoteSecret', { accountId: flags.get('account') });
      return { secret };
    },
  },
  ...DELIVERY_COMMANDS,
  ...RATES_COMMANDS,
  ...JOB_COMMANDS,
  ...CAPACITY_COMMANDS,
  ...SESSION_COMMANDS,
  ...USAGE_COMMANDS,
  ...VOICE_COMMANDS,
  ...RECORD_COMMANDS,
  ...RECEIPT_COMMANDS,
  ...AUDIT_COMMANDS,
  ...TOKEN_COMMANDS,
];
