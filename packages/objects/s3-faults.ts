import { StoreFault } from './store.ts';

export interface S3Place {
  readonly bucket: string;
  readonly region: string;
  readonly endpoint?: string | undefined;
}

/** Error codes about the key pair or the token itself, and not about its rights. */
const REFUSALS = [
  'InvalidAccessKeyId',
  'SignatureDoesNotMatch',
  'ExpiredToken',
  'InvalidToken',
  'CredentialsProviderError',
  // A code of Versity's server.
  'XAdminUserNotFound',
];
/** Error codes of AWS and of other servers for a bucket in another region. */
const ELSEWHERE = ['PermanentRedirect', 'AuthorizationHeaderMalformed', 'IllegalLocationConstraintException'];

/** Describes the SDK's error for the person who wrote the settings. */
export function describeS3Fault(error: unknown, { bucket, region, endpoint }: S3Place): StoreFault {
  const {
    name = '',
    message = '',
    $metadata = {},
  } = error as {
    name?: string;
    message?: string;
    $metadata?: { httpStatusCode?: number };
  };
  const place = endpoint ?? `AWS in ${region}`;
  const text = name && !message.includes(name) ? `${name}: ${message}` : message;
  const status = $metadata.httpStatusCode;
  if (name === 'NoSuchBucket') return new StoreFault(`S3 at ${place} has no bucket "${bucket}"`);
  if (REFUSALS.includes(name))
    return new StoreFault(`S3 at ${place} refuses the credentials (${text})`, { refused: true });
  if (ELSEWHERE.includes(name) || status === 301)
    return new StoreFault(`S3 at ${place}: the bucket "${bucket}" is not in the region ${region} (${text})`);
  if (status === 403)
    return new StoreFault(
      `S3 at ${place} does not let these credentials list the bucket "${bucket}" (${text})`,
    );
  if (status !== undefined) return new StoreFault(`S3 at ${place} answers with status ${status} (${text})`);
  return new StoreFault(`S3 at ${place} cannot be reached`, { cause: error });
}
