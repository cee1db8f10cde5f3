import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@semblance/common/logging';
import { AssetError } from '@semblance/gpu-agent/assets/errors';
import {
  createDispatcher,
  DEFAULT_TRANSFER_LIMITS,
  type TransferLimits,
} from '@semblance/gpu-agent/assets/transfer';
import type { Agent } from 'undici';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import { type HttpStore, startHttpStore } from './http-store.ts';

export const LIMITS: TransferLimits = {
  ...DEFAULT_TRANSFER_LIMITS,
  connectMs: 30_000,
  headersMs: 30_000,
  idleMs: 30_000,
  tries: 4,
  storeTries: 4,
  pauseMs: 5,
  maxPauseMs: 20,
};
/** Limits for servers that do not answer. */
export const IMPATIENT: TransferLimits = { ...LIMITS, headersMs: 400, idleMs: 400, tries: 2, storeTries: 2 };
export const BODY = randomBytes(300_000);

/** Parts of a transfer test: a store, connections, and a new file path for each test. */
export interface TransferRig {
  readonly store: HttpStore;
  readonly path: string;
  readonly retries: number;
  /** Options of every transfer. */
  readonly options: {
    readonly path: string;
    readonly dispatcher: Agent;
    readonly signal: AbortSignal;
    readonly logger: ReturnType<typeof silentLogger>;
    readonly limits: TransferLimits;
    readonly onRetry: () => void;
  };
}

/** Registers the hooks of a test file. The rig may be used only within a test. */
export function useTransferRig(): TransferRig {
  const logger = silentLogger();
  let dir: string;
  let store: HttpStore;
  let dispatcher: Agent;
  let path: string;
  let retries: number;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'semblance-assets-'));
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));
  beforeEach(async () => {
    store = await startHttpStore();
    dispatcher = createDispatcher(LIMITS);
    path = join(dir, randomBytes(6).toString('hex'));
    retries = 0;
  });
  afterEach(async () => {
    await dispatcher.destroy();
    await store.close();
  });
  return {
    get store() {
      return store;
    },
    get path() {
      return path;
    },
    get retries() {
      return retries;
    },
    get options() {
      const { signal } = new AbortController();
      return { path, dispatcher, signal, logger, limits: LIMITS, onRetry: () => void retries++ };
    },
  };
}

/** Runs a function with connections that have short time limits. */
export async function impatiently(act: (dispatcher: Agent) => Promise<void>): Promise<void> {
  const own = createDispatcher(IMPATIENT);
  try {
    await act(own);
  } finally {
    await own.destroy();
  }
}

/** Returns the error that a transfer ends with. */
export async function failure(promise: Promise<unknown>): Promise<AssetError> {
  const error = await promise.then(
    () => new Error('it succeeded'),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(AssetError);
  return error as AssetError;
}
