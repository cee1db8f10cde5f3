import { z } from 'zod';
import type { Operation, Route } from '../openapi/operation.ts';
import { isoTime } from '../openapi/parts.ts';
import {
  type ConsoleOptions,
  endConsoleSession,
  listConsoleSessions,
  openConsoleSession,
} from './sessions.ts';

const sessionSchema = z
  .object({
    session_id: z.string().meta({ description: 'Id of the session.' }),
    key_id: z.string().meta({ description: 'Id of the key that it acts as.' }),
    created_at: isoTime('When it was opened.'),
    last_used_at: isoTime('When it was last used, to the minute.'),
    expires_at: isoTime('When it ends at the latest; an hour after its last use it ends earlier.'),
    address: z.string().nullable().meta({ description: 'Where it was opened from; null: unknown.' }),
    browser: z
      .string()
      .nullable()
      .meta({ description: 'User-Agent of the browser that opened it; null: unknown.' }),
    current: z.boolean().meta({ description: 'Whether it is that of the call.' }),
  })
  .meta({ id: 'ConsoleSession', description: 'A browser that is signed in to the console.' });

const EXAMPLE = {
  session_id: 'con-01k9x3v7m2q8r5t1w4y6z0abcd',
  key_id: 'key-01k9x3v7m2q8r5t1w4y6z0abcd',
  created_at: '2026-01-31T09:30:00.000Z',
  last_used_at: '2026-01-31T09:42:00.000Z',
  expires_at: '2026-01-31T21:30:00.000Z',
  address: '192.0.2.7',
  browser: 'Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0',
  current: true,
};

const open: Operation = {
  id: 'openConsoleSession',
  tag: 'Account',
  summary: 'Sign a browser in to the console',
  description:
    'Exchanges the key for a cookie, which scripts cannot read. Calls of the console’s own pages may use the cookie instead of the key until it ends: an hour after its last use, or after 12 hours. They act as the key: its scopes, end, addresses, caps and limits hold for each of them. A key has at most 10 sessions; one more ends the one that was not used for the longest time. Only pages of this service can open one: they send the header `Semblance-Console: 1`.',
  key: 'required',
  answers: [
    {
      status: 201,
      description: 'The session; the cookie is in Set-Cookie.',
      schema: sessionSchema,
      example: EXAMPLE,
    },
  ],
  errors: ['invalid_input'],
};

const list: Operation = {
  id: 'listConsoleSessions',
  tag: 'Account',
  summary: 'List the sessions of the console',
  description: 'The browsers that are signed in to the account, newest first.',
  key: 'required',
  answers: [
    {
      status: 200,
      description: 'The sessions.',
      schema: z
        .object({ sessions: z.array(sessionSchema).meta({ description: 'The sessions, newest first.' }) })
        .meta({ id: 'ConsoleSessionList' }),
      example: { sessions: [EXAMPLE] },
    },
  ],
};

const end: Operation = {
  id: 'endConsoleSession',
  tag: 'Account',
  summary: 'End a session of the console',
  description: 'Signs a browser out, from the next call on. `current` is the session of the call.',
  key: 'required',
  path: z.object({
    console_session_id: z
      .string()
      .meta({ description: 'Id of the session, or `current`.', pattern: '^(con-[0-9a-z]{26}|current)$' }),
  }),
  answers: [
    {
      status: 200,
      description: 'The session has ended.',
      schema: z
        .object({
          session_id: z.string().meta({ description: 'Id of the session.' }),
          ended: z.literal(true).meta({ description: 'Always true.' }),
        })
        .meta({ id: 'EndedConsoleSession' }),
      example: { session_id: EXAMPLE.session_id, ended: true },
    },
  ],
  errors: ['not_found'],
};

/** Returns the routes with which browsers sign in to the console, and out of it. */
export function consoleSessionRoutes(options: ConsoleOptions): Route[] {
  const scope = 'account';
  const all = '/console/sessions';
  const one = `${all}/{console_session_id}`;
  return [
    { method: 'post', path: all, handler: openConsoleSession(options), scope, operation: open },
    { method: 'get', path: all, handler: listConsoleSessions(options), scope, operation: list },
    { method: 'delete', path: one, handler: endConsoleSession(options), scope, operation: end },
  ];
}
