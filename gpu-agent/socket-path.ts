import { isAbsolute } from 'node:path';
import { z } from 'zod';

const FAULT = 'must be an absolute path of at most 100 bytes';

/** Tells whether a path fits into the address of a Unix socket. */
export const isSocketPath = (path: string): boolean => isAbsolute(path) && Buffer.byteLength(path) <= 100;

export const socketPath = z.string().refine(isSocketPath, FAULT);
