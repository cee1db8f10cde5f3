import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { BrokenChainError, CSV_HEAD, checkLine, csvOf, type Link, START } from '../audit/chain.ts';
import type { Command } from './command.ts';
import type { AdminCalls } from './connection.ts';
import { type FlagSpec, type Flags, given, LIST_LIMIT, listLimit, UsageError, wholeFlag } from './usage.ts';

type Row = Record<string, unknown>;

const ofAccount: FlagSpec = {
  name: 'account',
  value: 'ID',
  required: false,
  help: 'of this account alone (acct-…)',
};

/** Commands for the audit. */
export const AUDIT_COMMANDS: readonly Command[] = [
  {
    name: 'audit list',
    columns: [
      'seq',
      'at',
      'actor',
      'role',
      'stated',
      'action',
      'account_id',
      'subject',
      'before',
      'after',
      'token_id',
      'request_id',
      'id',
      'hash',
    ],
    help: 'Lists what was changed with these commands, the newest first.',
    flags: [
      ofAccount,
      { name: 'from', value: 'T', required: false, help: 'a date or a time, 2026-01-31T12:00:00Z' },
      { name: 'to', value: 'T', required: false, help: 'the first moment that is not asked for any more' },
      LIST_LIMIT,
    ],
    async run(flags, calls) {
      const { entries } = await calls.invoke('listAudit', {
        ...given(flags, 'account', 'accountId'),
        ...given(flags, 'from', 'from'),
        ...given(flags, 'to', 'to'),
        limit: listLimit(flags),
      });
      return (entries as Row[]).map((entry) => ({
        id: Number(entry.id),
        seq: Number(entry.seq),
        at: entry.at,
        actor: entry.actor,
        role: entry.role,
        token_id: entry.tokenId ?? null,
        stated: entry.stated ?? null,
        action: entry.action,
        account_id: entry.accountId ?? null,
        subject: entry.subject,
        before: entry.beforeJson === undefined ? null : JSON.parse(entry.beforeJson as string),
        after: entry.afterJson === undefined ? null : JSON.parse(entry.afterJson as string),
        request_id: entry.requestId ?? null,
        hash: entry.hash,
      }));
    },
  },
  {
    name: 'audit export',
    help: 'Prints all entries in their order, one a line, with the hashes that chain them.',
    flags: [
      { name: 'format', value: 'F', required: false, help: 'jsonl (when left out) or csv' },
      { name: 'after', value: 'SEQ', required: false, help: 'those after this place in the chain alone' },
    ],
    async run(flags, calls, print) {
      const format = flags.get('format') ?? 'jsonl';
      if (format !== 'jsonl' && format !== 'csv') throw new UsageError('--format is jsonl or csv');
      if (format === 'csv') print(CSV_HEAD);
      for await (const { lines } of pages(calls, wholeFlag(flags, 'after') ?? 0))
        for (const line of lines) print(format === 'csv' ? csvOf(line) : line);
      return undefined;
    },
  },
  {
    name: 'audit verify',
    help: 'Checks that no entry was changed, removed, added or moved: of the service, or of an export.',
    flags: [
      { name: 'file', value: 'F', required: false, help: 'an export as jsonl; the service is not asked' },
      {
        name: 'known',
        value: 'SEQ:HASH',
        required: false,
        help: 'a place that was noted earlier, which the chain must have',
      },
    ],
    alone: (flags) => (flags.has('file') ? verified(linesOf(flags.get('file') ?? ''), flags) : undefined),
    async run(flags, calls) {
      let head: Link | undefined;
      async function* lines() {
        for await (const page of pages(calls, 0)) {
          head = page.head;
          yield* page.lines;
        }
      }
      const answer = await verified(lines(), flags, START);
      if (answer.seq !== head?.seq || answer.hash !== head.hash)
        throw new BrokenChainError(
          `the audit ends with entry ${answer.seq}, and entry ${head?.seq} was written`,
        );
      return answer;
    },
  },
];

interface Page {
  readonly lines: readonly string[];
  readonly head: Link;
}

/** Reads the chain page by page, up to the head that it has when the last page is read. */
async function* pages(calls: AdminCalls, after: number): AsyncGenerator<Page> {
  for (let at = after; ; ) {
    const answer = await calls.invoke('exportAudit', { after: at });
    const lines = answer.lines as string[];
    const head = { seq: Number(answer.headSeq), hash: String(answer.headHash) };
    yield { lines, head };
    const last = lines.at(-1);
    if (last === undefined) return;
    at = Number((JSON.parse(last) as { seq: unknown }).seq);
    if (at >= head.seq) return;
  }
}

async function* linesOf(file: string): AsyncGenerator<string> {
  const input = createReadStream(file);
  const opened = new Promise<void>((resolve, reject) => {
    input.once('open', () => resolve());
    input.once('error', reject);
  });
  await opened.catch((cause: Error) => {
    throw new UsageError(`--file: ${cause.message}`);
  });
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY }))
    if (line !== '') yield line;
}

async function verified(lines: AsyncIterable<string>, flags: Flags, start?: Link) {
  const known = knownOf(flags);
  let found = known === undefined || same(known, START);
  let last = start;
  let entries = 0;
  for await (const line of lines) {
    last = checkLine(line, last);
    entries++;
    if (known?.seq === last.seq) {
      if (!same(known, last)) throw new BrokenChainError(`entry ${last.seq} is another one than was noted`);
      found = true;
    }
  }
  if (!found) throw new BrokenChainError(`there is no entry ${known?.seq}, which was noted`);
  return { intact: true, entries, ...(last ?? START) };
}

const same = (a: Link, b: Link) => a.seq === b.seq && a.hash === b.hash;

function knownOf(flags: Flags): Link | undefined {
  const text = flags.get('known');
  if (text === undefined) return undefined;
  const [, seq, hash] = /^(\d{1,15}):([0-9a-f]{64})$/.exec(text) ?? [];
  if (seq === undefined || hash === undefined)
    throw new UsageError('--known is a place and its hash, as `audit verify` says them: SEQ:HASH');
  return { seq: Number(seq), hash };
}
