import { createHmac } from 'node:crypto';

/** Secrets that sign a delivery. */
export interface SigningSecrets {
  /** The current one first. There is one, or two for a day after a former release replaced it. */
  readonly current: readonly string[];
  /** Signs beside it until it is promoted. */
  readonly next: string | undefined;
}

export interface Signed {
  readonly deliveryId: string;
  readonly unixSeconds: number;
  /** The exact bytes that are sent. */
  readonly body: string;
}

/** Returns all headers that sign a delivery. @throws Error without a secret: nothing is sent unsigned */
export function signatureHeaders({ current, next }: SigningSecrets, signed: Signed): Record<string, string> {
  if (current.length === 0) throw new Error('its account has no signing secret');
  const standard = standardSignature(next === undefined ? current : [...current, next], signed);
  return {
    'service-signature': signatureHeader(current, signed),
    ...(next === undefined ? {} : { 'service-signature-next': signatureHeader([next], signed) }),
    ...(standard === undefined
      ? {}
      : {
          'webhook-id': signed.deliveryId,
          'webhook-timestamp': String(signed.unixSeconds),
          'webhook-signature': standard,
        }),
  };
}

/**
 * Returns `t=<unix seconds>,v1=<hex>`, where v1 is the HMAC-SHA256 of `<t>.<raw body>` with the bytes of the secret as
 * shown.
 */
function signatureHeader(secrets: readonly string[], { unixSeconds, body }: Signed): string {
  const signatures = secrets.map((secret) =>
    // A key given as text costs a sixth of one in a Buffer; its bytes are UTF-8 either way.
    createHmac('sha256', secret).update(`${unixSeconds}.${body}`, 'utf8').digest('hex'),
  );
  return [`t=${unixSeconds}`, ...signatures.map((signature) => `v1=${signature}`)].join(',');
}

/**
 * Returns the signatures of Standard Webhooks 1.0.0, of each secret that has its form: `v1,` and the HMAC-SHA256 of
 * `<id>.<timestamp>.<raw body>` in base64, with a space between two. Undefined when none has it.
 */
function standardSignature(secrets: readonly string[], signed: Signed): string | undefined {
  const { deliveryId, unixSeconds, body } = signed;
  const signatures = secrets.flatMap((secret) => {
    const key = standardKey(secret);
    if (!key) return [];
    const content = `${deliveryId}.${unixSeconds}.${body}`;
    return [`v1,${createHmac('sha256', key).update(content, 'utf8').digest('base64')}`];
  });
  return signatures.length > 0 ? signatures.join(' ') : undefined;
}

const STANDARD = /^whsec_((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/;

/** Returns the 24 to 64 bytes that the base64 after `whsec_` encodes. Secrets of former releases are no base64. */
function standardKey(secret: string): Buffer | undefined {
  const [, text] = STANDARD.exec(secret) ?? [];
  const key = text === undefined ? undefined : Buffer.from(text, 'base64');
  return key && key.length >= 24 && key.length <= 64 ? key : undefined;
}
