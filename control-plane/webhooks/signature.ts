import { createHmac } from 'node:crypto';

/**
 * The value of `Service-Signature`: `t=<unix seconds>,v1=<hex>`, where v1 is the HMAC-SHA256 of `<t>.<raw body>` keyed
 * on the account's secret, its bytes as shown. While a former secret is still valid, a v1 of it stands beside.
 * @param secrets the newest first
 * @param body the exact bytes that are sent
 */
export function signatureHeader(secrets: readonly string[], unixSeconds: number, body: string): string {
  const signatures = secrets.map((secret) =>
    // A key given as text costs a sixth of what one in a Buffer does; its bytes are UTF-8 either way.
    createHmac('sha256', secret).update(`${unixSeconds}.${body}`, 'utf8').digest('hex'),
  );
  return [`t=${unixSeconds}`, ...signatures.map((signature) => `v1=${signature}`)].join(',');
}
