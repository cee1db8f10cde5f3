import type { Api } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import {
  connectVoice,
  openVoice,
  settledSession,
  type VoiceClient,
} from '@semblance/testkit/stack/live-client';
import { expect } from 'vitest';
import { kubectl, RELEASE } from './release.ts';

/** Price of a minute in USD. The ledger counts in millionths of a dollar, so a charge tells the milliseconds. */
const RATE_USD = 6;
/** Tolerance of a bound, because a charge is rounded to the millisecond, in ms. */
const ROUNDING_MS = 2;

/** Interval between two requests for the same session, in ms. */
export const ASK_AGAIN_MS = 5_000;

/** Sets the price that `expectCharged` assumes. */
export async function setRate(): Promise<void> {
  await kubectl([
    ...['exec', `deployment/${RELEASE}-control-plane`, '--'],
    ...['node', 'control-plane/admin/cli.ts', 'rates', 'set', '--capability', 'voice'],
    ...['--rate-usd', String(RATE_USD), '--minimum-usd', '0', '--json'],
  ]);
}

/** Requests a session. Returns `opened`, or the code of the refusal. */
export async function asked(api: Api): Promise<string> {
  const { status, body } = await openVoice(api, { duration_minutes: 1 });
  return status === 200 ? 'opened' : (body as { error: { code: string } }).error.code;
}

/** Opens a session that streams; resolves when sound comes back. The signal ends the session, if it still runs. */
export async function streaming(api: Api, signal: AbortSignal): Promise<VoiceClient> {
  const through = new URL(api.baseUrl).host;
  const client = await eventually(
    'a live session to be opened',
    () => connectVoice(api, { duration_minutes: 4 }, { through, notices: true }),
    // A request that comes within 5 s of the last one would count as a request for another session.
    { withinMs: 180_000, everyMs: ASK_AGAIN_MS },
  );
  void client.stream(signal);
  signal.addEventListener('abort', () => client.vanish(), { once: true });
  await untilHeard(client, 500);
  return client;
}

/** Returns the time from the first to the last message of sound, in ms. */
export const heardMs = ({ firstAt, lastAt }: VoiceClient) => lastAt - firstAt;

export const untilHeard = (client: VoiceClient, ms: number) =>
  eventually(`${ms} ms of sound`, () => heardMs(client) >= ms || undefined, { everyMs: 20 });

/** Returns the name of the agent that carries the session. */
export async function carrierOf({ sessionId }: VoiceClient): Promise<string> {
  return kubectl(['get', 'livesession', sessionId, '-o', 'jsonpath={.spec.agent}']);
}

/**
 * Waits for the charge, and checks that it is for what was heard and for nothing else.
 * @returns the charged time in ms
 */
export async function expectCharged(
  api: Api,
  client: VoiceClient,
  outcome: { status: string; reason: string | null },
): Promise<number> {
  const { chargedUsd, ...rest } = await settledSession(api, client.sessionId);
  expect(rest).toEqual(outcome);
  const ms = Math.round((chargedUsd / RATE_USD) * 60_000);
  const { least, most } = client.streamed;
  expect(ms, `${least} to ${most} ms were streamed`).toBeGreaterThanOrEqual(least - ROUNDING_MS);
  expect(ms, `${least} to ${most} ms were streamed`).toBeLessThanOrEqual(most + ROUNDING_MS);
  return ms;
}
