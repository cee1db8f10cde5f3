import { createHmac } from 'node:crypto';

/**
 * The value of `Service-Signature`: `t=<unix seconds>,v1=<hex>`, where v1 is the HMAC-SHA256 of `<t>.<raw body>` keyed
 * on the account's secret, its bytes as shown. While a former secret is still valid, a v1 of it stands beside.
 * @param secrets the newest first
 * @param body the exact bytes that are sent
 */
export function signatureHeader(secrets: readonly string[], unixSeconds: number, body: string): string {
  const signatures = secrets.map((secret) =>
    createHmac('sha256', Buffer.from(secret, 'utf8')).update(`${unixSeconds}.`).update(body).digest('hex'),
  );
  return [`t=${unixSeconds}`, ...signatures.map((signature) => `v1=${signature}`)].join(',');
}
