export type AssetErrorCode =
  /** The server answers 4xx: the object is gone, or the link has expired. A new link may work. */
  | 'link_refused'
  /** The store answers that it has no such object. */
  | 'input_missing'
  /** No try got a usable answer. */
  | 'transfer_failed'
  /** The object is larger than the work may fetch. */
  | 'input_too_large'
  /** The agent does not fetch from this address. */
  | 'bad_link'
  /** The disk of this node is full. */
  | 'disk_full'
  /** The work directory of this node is unusable. */
  | 'workdir_unusable';

/** A fault in a transfer. Messages contain at most host names, because the links themselves are credentials. */
export class AssetError extends Error {
  override readonly name = 'AssetError';
  readonly code: AssetErrorCode;
  /** Whether the same request may succeed when it is made again. */
  readonly retryable: boolean;

  constructor(code: AssetErrorCode, message: string, options: ErrorOptions & { retryable?: boolean } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? false;
  }
}

/** Converts a file system error into an AssetError that says what a person can do; returns other errors unchanged. */
export function diskError(error: unknown, path: string): unknown {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new AssetError('disk_full', `no space left for ${path}`, { cause: error });
  }
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS' || code === 'ENOTDIR') {
    return new AssetError('workdir_unusable', `${path} cannot be used (${code})`, { cause: error });
  }
  return error;
}
