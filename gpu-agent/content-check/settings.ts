import { isAbsolute } from 'node:path';
import { ConfigError } from '@semblance/common/config';
import { z } from 'zod';

export const CHECK_NAMES = ['allow-all', 'hash-list', 'nudity', 'word-list', 'http', 'grpc'] as const;
export type CheckName = (typeof CHECK_NAMES)[number];

const absolutePath = z.string().refine(isAbsolute, 'must be an absolute path');

/** Environment variables of the content checks. */
export const contentCheckShape = {
  SEMBLANCE_CONTENT_CHECK: z
    .string()
    .default('allow-all')
    .transform((text) => text.split(',').map((name) => name.trim()))
    .pipe(z.array(z.enum(CHECK_NAMES)))
    .refine((names) => new Set(names).size === names.length, 'names a check twice')
    .refine((names) => names.length === 1 || !names.includes('allow-all'), 'has allow-all beside others'),
  /** Treatment of a job whose check did not work. */
  SEMBLANCE_CONTENT_CHECK_FAILED: z.enum(['retry', 'allow']).default('retry'),
  SEMBLANCE_CONTENT_HASH_LIST: absolutePath.optional(),
  /** Most bits of 256 in which a copy may differ. */
  SEMBLANCE_CONTENT_HASH_DISTANCE: z.coerce.number().int().min(0).max(90).default(31),
  /** Share from which the network's classes for sexual pictures refuse one. */
  SEMBLANCE_CONTENT_NUDITY_THRESHOLD: z.coerce.number().gt(0).max(1).default(0.7),
  SEMBLANCE_CONTENT_WORD_LIST: absolutePath.optional(),
  /** Least time between two pictures of a live session that are checked, in seconds; 0: none is. */
  SEMBLANCE_CONTENT_CHECK_LIVE_SECONDS: z.coerce.number().min(0).max(3_600).default(0),
  SEMBLANCE_CONTENT_CHECK_URL: z.url({ protocol: /^https?$/ }).optional(),
  SEMBLANCE_CONTENT_CHECK_GRPC: z
    .string()
    .regex(/^grpcs?:\/\/[^\s/]+:\d{1,5}$/, 'must be grpc://host:port or grpcs://host:port')
    .optional(),
  SEMBLANCE_CONTENT_CHECK_TOKEN: z.string().min(1).max(4_096).optional(),
  SEMBLANCE_CONTENT_CHECK_TIMEOUT_SECONDS: z.coerce.number().int().min(1).max(600).default(60),
};

type Values = z.output<z.ZodObject<typeof contentCheckShape>>;
export type ContentCheckSettings = ReturnType<typeof contentCheckSettings>;

const NEEDS: Partial<Record<CheckName, keyof Values>> = {
  'hash-list': 'SEMBLANCE_CONTENT_HASH_LIST',
  'word-list': 'SEMBLANCE_CONTENT_WORD_LIST',
  http: 'SEMBLANCE_CONTENT_CHECK_URL',
  grpc: 'SEMBLANCE_CONTENT_CHECK_GRPC',
};

/** @throws ConfigError when a check lacks a required setting */
export function contentCheckSettings(values: Values) {
  for (const name of values.SEMBLANCE_CONTENT_CHECK) {
    const needed = NEEDS[name];
    if (needed && values[needed] === undefined) {
      throw new ConfigError(
        `The environment is not usable:\n  ${needed}: is needed when SEMBLANCE_CONTENT_CHECK names ${name}`,
      );
    }
  }
  return {
    names: values.SEMBLANCE_CONTENT_CHECK,
    allowUnchecked: values.SEMBLANCE_CONTENT_CHECK_FAILED === 'allow',
    hashList: values.SEMBLANCE_CONTENT_HASH_LIST ?? '',
    hashDistance: values.SEMBLANCE_CONTENT_HASH_DISTANCE,
    nudityThreshold: values.SEMBLANCE_CONTENT_NUDITY_THRESHOLD,
    wordList: values.SEMBLANCE_CONTENT_WORD_LIST ?? '',
    livePictureMs: values.SEMBLANCE_CONTENT_CHECK_LIVE_SECONDS * 1000,
    url: values.SEMBLANCE_CONTENT_CHECK_URL ?? '',
    grpcUrl: values.SEMBLANCE_CONTENT_CHECK_GRPC ?? '',
    token: values.SEMBLANCE_CONTENT_CHECK_TOKEN,
    timeoutMs: values.SEMBLANCE_CONTENT_CHECK_TIMEOUT_SECONDS * 1000,
  };
}
