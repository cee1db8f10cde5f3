import { dirname } from 'node:path';
import { httpGet } from '@semblance/local/process/http-get';
import { createAccount, type NewAccount } from './accounts.ts';
import { type Admin, adminOf } from './admin.ts';
import { type Api, apiOf } from './api.ts';
import { type Kubectl, kubectlOf } from './kubectl.ts';
import { readStackFile, type StackFile } from './stack-process.ts';

/** Running stack with the handles of a test. */
export interface Stack {
  /** Path of its `stack.json`. */
  readonly file: string;
  /** Reads `stack.json` again, because a restart of a service changes its pid. */
  read(): StackFile;
  readonly admin: Admin;
  readonly kubectl: Kubectl;
  /**
   * API with the account of `stack.json`, which has 60 requests per minute as every new key has. Do not poll with
   * it.
   */
  readonly api: Api;
  /** Creates an account; by default with money and with a rate limit that no test reaches. */
  newAccount(options?: NewAccount): Promise<Account>;
}

export type { NewAccount };

export interface Account {
  readonly accountId: string;
  readonly keyId: string;
  readonly apiKey: string;
  readonly api: Api;
}

/** Returns the handles of the stack of this `stack.json`. */
export function stackAt(file: string): Stack {
  const read = () => readStackFile(file);
  const { base_url: baseUrl, api_key: apiKey } = read();
  const admin = adminOf({ stackFile: file, stateDir: dirname(file) });
  return {
    file,
    read,
    admin,
    kubectl: kubectlOf(read),
    api: apiOf({ baseUrl, apiKey }),
    async newAccount(options) {
      const account = await createAccount(file, options);
      return { ...account, api: apiOf({ baseUrl, apiKey: account.apiKey }) };
    },
  };
}

/**
 * Returns the stack that all suites of this run share: the one of `SEMBLANCE_STACK_JSON`, else a new one. Suites
 * must not stop its services or drain its agents.
 */
export async function sharedStack(): Promise<Stack> {
  const given = process.env.SEMBLANCE_STACK_JSON;
  if (given) return stackAt(given);
  const socketPath = process.env.SEMBLANCE_TEST_STACK;
  if (!socketPath) throw new Error('run by vitest, whose global setup offers the stack');
  const { file, error } = JSON.parse(await httpGet({ socketPath, path: '/' })) as Record<string, string>;
  if (!file) throw new Error(error);
  return stackAt(file);
}
