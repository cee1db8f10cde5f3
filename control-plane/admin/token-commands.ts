import { ROLES } from '../admin-tokens/roles.ts';
import type { Command } from './command.ts';
import { type FlagSpec, settingFlag } from './usage.ts';

type Row = Record<string, unknown>;

const token: FlagSpec = { name: 'token', value: 'ID', required: true, help: 'the id of the token (adm-…)' };
/** Lifetime of a token for which none is named. */
const LIFETIME = '90d';

/** Commands for the tokens with which people and programs call the admin service. */
export const TOKEN_COMMANDS: readonly Command[] = [
  {
    name: 'token create',
    help: 'Makes a named admin token, which is shown this once.',
    flags: [
      {
        name: 'name',
        value: 'N',
        required: true,
        help: 'who has it, such as ada or ci.backup; never used again',
      },
      { name: 'role', value: 'R', required: true, help: ROLES.join(', ') },
      {
        name: 'expires',
        value: 'T',
        required: false,
        help: `how long it lasts: 12h, 30d, never; ${LIFETIME} when left out`,
      },
    ],
    async run(flags, calls) {
      const lifetimeSeconds = settingFlag(
        new Map([['expires', flags.get('expires') ?? LIFETIME]]),
        'expires',
        true,
      );
      const answer = await calls.invoke('createAdminToken', {
        name: flags.get('name'),
        role: flags.get('role'),
        ...(lifetimeSeconds === undefined ? {} : { lifetimeSeconds }),
      });
      return { ...tokenEntry(answer.token as Row), token: answer.secret };
    },
  },
  {
    name: 'token list',
    columns: [
      'token_id',
      'name',
      'role',
      'created_at',
      'issued_at',
      'expires_at',
      'revoked_at',
      'last_used_at',
    ],
    help: 'Lists the named admin tokens with their last use, the newest first.',
    flags: [],
    async run(_flags, calls) {
      const { tokens } = await calls.invoke('listAdminTokens', {});
      return (tokens as Row[]).map(tokenEntry);
    },
  },
  {
    name: 'token revoke',
    help: 'Ends a token, from the next call on and for good.',
    flags: [token],
    async run(flags, calls) {
      const answer = await calls.invoke('revokeAdminToken', { tokenId: flags.get('token') });
      return tokenEntry(answer.token as Row);
    },
  },
  {
    name: 'token rotate',
    help: 'Replaces what a token consists of; the former one ends at once, the new one lasts as long again.',
    flags: [token],
    async run(flags, calls) {
      const answer = await calls.invoke('rotateAdminToken', { tokenId: flags.get('token') });
      return { ...tokenEntry(answer.token as Row), token: answer.secret };
    },
  },
];

function tokenEntry(view: Row): Row {
  return {
    token_id: view.tokenId,
    name: view.name,
    role: view.role,
    created_at: view.createdAt,
    issued_at: view.issuedAt,
    expires_at: view.expiresAt ?? null,
    revoked_at: view.revokedAt ?? null,
    last_used_at: view.lastUsedAt ?? null,
  };
}
