import { request as requestHttp } from 'node:http';
import { type RequestOptions, request as requestHttps } from 'node:https';

/** Sends one GET by TCP, TLS (when `ca` is given) or Unix socket. Throws unless the status is 200. */
export function httpGet(options: RequestOptions): Promise<string> {
  const request = options.ca ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const sent = request({ ...options, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const body = Buffer.concat(chunks).toString('utf8');
        if (response.statusCode === 200) resolve(body);
        else
          reject(new Error(`${options.path} answered ${response.statusCode}: ${body.trim().slice(0, 300)}`));
      });
    });
    sent.on('error', reject);
    sent.end();
  });
}
