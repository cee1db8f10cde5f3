export type AssetErrorCode =
  /** The link answers 4xx: what it names is gone, or the link has expired. A fresh link may help, this one will not. */
  | 'link_refused'
  /** No usable answer, again and again. */
  | 'transfer_failed'
  /** The object is larger than the work may fetch. */
  | 'input_too_large'
  /** The address is not one the agent fetches from. */
  | 'bad_link'
  /** This node's disk is full. */
  | 'disk_full'
  /** This node's work directory cannot be used. */
  | 'workdir_unusable';

/** A fault in moving bytes. Messages carry host names at most: the links themselves are credentials. */
export class AssetError extends Error {
  override readonly name = 'AssetError';
  readonly code: AssetErrorCode;
  /** The same request may succeed if made again. */
  readonly retryable: boolean;

  constructor(code: AssetErrorCode, message: string, options: ErrorOptions & { retryable?: boolean } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? false;
  }
}

/** An error of the file system as an AssetError that says what a person can do; anything else as it is. */
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
