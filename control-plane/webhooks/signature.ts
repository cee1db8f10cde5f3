import { createHmac } from 'node:crypto';

/**
 * Returns the value of `Service-Signature`: `t=<unix seconds>,v1=<hex>`, where v1 is the HMAC-SHA256 of `<t>.<raw
 * body>` with the bytes of the account's secret as shown. While a former secret is valid, its v1 is added.
 * @param secrets newest first
 * @param body the exact bytes that are sent
 */
export function signatureHeader(secrets: readonly string[], unixSeconds: number, body: string): string {
  const signatures = secrets.map((secret) =>
    // A key given as text costs a sixth of one in a Buffer; its bytes are UTF-8 either way.
    createHmac('sha256', secret).update(`${unixSeconds}.${body}`, 'utf8').digest('hex'),
  );
  return [`t=${unixSeconds}`, ...signatures.map((signature) => `v1=${signature}`)].join(',');
}
