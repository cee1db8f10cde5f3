import WebSocket from 'ws';

/** Length of a chunk in ms; the next constant is its size at 48 kHz. */
export const CHUNK_MS = 20;
const CHUNK_BYTES = 1_920;
const OPENED_AT_ONCE = 25;

/** A connected voice stream, with the sending times of messages that have not come back. */
interface Talker {
  readonly ws: WebSocket;
  readonly sentAt: number[];
}

export interface Talkers {
  /**
   * Streams in real time through all talkers, or through the first `count`.
   * @returns the time in ms from sending each message until it came back, and how many were missing at the end
   */
  talk(seconds: number, count?: number): Promise<{ delays: number[]; missing: number }>;
  close(): void;
}

/** @param urls one function for each talker; each socket first receives the format */
export async function connectTalkers(urls: readonly (() => Promise<string>)[]): Promise<Talkers> {
  const talkers: Talker[] = [];
  let delays: number[] = [];
  const connectOne = async (url: () => Promise<string>) => {
    const ws = new WebSocket(await url(), { perMessageDeflate: false });
    const talker: Talker = { ws, sentAt: [] };
    await new Promise<void>((resolve, reject) => {
      ws.on('message', (_data, isBinary) => {
        if (!isBinary) return resolve();
        const sentAt = talker.sentAt.shift();
        if (sentAt !== undefined) delays.push(performance.now() - sentAt);
      });
      ws.on('error', reject);
      ws.on('close', (code, reason) => reject(new Error(`closed: ${code} ${reason}`)));
    });
    talkers.push(talker);
  };
  for (let i = 0; i < urls.length; i += OPENED_AT_ONCE)
    await Promise.all(urls.slice(i, i + OPENED_AT_ONCE).map(connectOne));

  return {
    async talk(seconds, count = talkers.length) {
      delays = [];
      const chunk = Buffer.alloc(CHUNK_BYTES, 1);
      const began = performance.now();
      const speaking = talkers.slice(0, count);
      // The talkers are spread over the 20 ms, because real clients are independent.
      const due = speaking.map((_, i) => began + (i / count) * CHUNK_MS);
      await new Promise<void>((resolve) => {
        const timer = setInterval(() => {
          const now = performance.now();
          if (now - began >= seconds * 1000) {
            clearInterval(timer);
            return resolve();
          }
          for (const [i, { ws, sentAt }] of speaking.entries()) {
            if ((due[i] ?? Infinity) > now) continue;
            due[i] = (due[i] ?? now) + CHUNK_MS;
            sentAt.push(performance.now());
            ws.send(chunk);
          }
        }, 1);
      });
      await new Promise((resolve) => setTimeout(resolve, 500));
      const missing = speaking.reduce((sum, { sentAt }) => sum + sentAt.length, 0);
      return { delays, missing };
    },
    close() {
      for (const { ws } of talkers) ws.close();
    },
  };
}
