import { readFileSync, statSync } from 'node:fs';
import { verifyReceipts } from '../media/verify-receipt.ts';
import type { Command } from './command.ts';
import { UsageError } from './usage.ts';

/** Largest file that is read, in bytes: far more than a page of receipts. */
const MAX_FILE_BYTES = 64 * 1024 * 1024;

/** Commands for receipts of deleted files. */
export const RECEIPT_COMMANDS: readonly Command[] = [
  {
    name: 'receipt verify',
    help: 'Checks receipts of deleted files, without the service, and prints what they prove.',
    flags: [
      {
        name: 'file',
        value: 'F',
        required: true,
        help: 'a receipt, a list of them, or a page as GET /receipts answers it',
      },
      {
        name: 'keys',
        value: 'F',
        required: true,
        help: 'the public keys, as GET /receipts/keys answers them',
      },
    ],
    async alone(flags) {
      const proven = await verifyReceipts(fileIn(flags, 'file'), fileIn(flags, 'keys'));
      return proven.map((statement) => ({ ...statement }));
    },
    run: () => Promise.reject(new Error('receipts are verified without the service')),
  },
];

function fileIn(flags: ReadonlyMap<string, string>, name: string): unknown {
  const path = flags.get(name) ?? '';
  try {
    if (statSync(path).size > MAX_FILE_BYTES) throw new Error('it is larger than 64 MiB');
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new UsageError(`--${name} ${path} cannot be read: ${(error as Error).message}`);
  }
}
