import { dirname } from 'node:path';
import { httpGet } from '@semblance/local/process/http-get';
import { createAccount, type NewAccount } from './accounts.ts';
import { type Admin, adminOf } from './admin.ts';
import { type Api, apiOf } from './api.ts';
import { type Kubectl, kubectlOf } from './kubectl.ts';
import { readStackFile, type StackFile } from './stack-process.ts';

/** A running stack and what a test holds on to it by. */
export interface Stack {
  /** Path of its `stack.json`. */
  readonly file: string;
  /** Reads `stack.json` anew: pids change when a service is started again. */
  read(): StackFile;
  readonly admin: Admin;
  readonly kubectl: Kubectl;
  /** The API as the account of `stack.json` sees it, with 60 requests a minute as every new key: never poll with it. */
  readonly api: Api;
  /** A fresh account, by default with money and without a rate limit that a test would run into. */
  newAccount(options?: NewAccount): Promise<Account>;
}

export type { NewAccount };

export interface Account {
  readonly accountId: string;
  readonly keyId: string;
  readonly apiKey: string;
  readonly api: Api;
}

/** Settings that hold for whoever follows this stack.json. */
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
 * The stack that all suites of this run share: the one whose `stack.json` is named by `SEMBLANCE_STACK_JSON`, else one
 * that this run starts. Suites must not stop its services or drain its agents.
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
