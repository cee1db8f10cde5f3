import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type CryptoKey, exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';

/** An OpenID Connect issuer on this machine: its discovery document, its keys, and tokens that it signs. */
export interface Issuer {
  readonly url: string;
  /** Paths that were asked for. */
  readonly asked: readonly string[];
  /** Replaces its keys. */
  rotate(): Promise<void>;
  /** Signs claims for `aud`, valid for a minute unless they say otherwise. */
  sign(claims: JWTPayload, options?: { key?: CryptoKey; alg?: string; kid?: string }): Promise<string>;
  /** Merges fields into the discovery document. */
  discovery: Record<string, unknown>;
  close(): Promise<void>;
}

export async function startIssuer(audience: string): Promise<Issuer> {
  const asked: string[] = [];
  let number = 0;
  let pair = await generateKeyPair('ES256');
  const kid = () => `key-${number}`;
  const server: Server = createServer(async ({ url: path = '' }, response) => {
    asked.push(path);
    const answer =
      path === '/.well-known/openid-configuration'
        ? { issuer: url, jwks_uri: `${url}/keys`, ...issuer.discovery }
        : { keys: [{ ...(await exportJWK(pair.publicKey)), kid: kid(), alg: 'ES256', use: 'sig' }] };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const issuer: Issuer = {
    url,
    asked,
    discovery: {},
    async rotate() {
      number++;
      pair = await generateKeyPair('ES256');
    },
    sign(claims, { key = pair.privateKey, alg = 'ES256', kid: id = kid() } = {}) {
      const now = Math.floor(Date.now() / 1000);
      return new SignJWT({ iss: url, aud: audience, sub: 'ada', iat: now, exp: now + 60, ...claims })
        .setProtectedHeader({ alg, kid: id })
        .sign(key);
    },
    close: () =>
      new Promise((closed) => {
        server.closeAllConnections();
        server.close(() => closed());
      }),
  };
  return issuer;
}
