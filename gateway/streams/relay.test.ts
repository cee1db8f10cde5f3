import { setTimeout as delay } from 'node:timers/promises';
import { EndReason } from '@semblance/proto/semblance/live/v1/live';
import { AgentDouble } from '@semblance/testkit/gateway/agent-double';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createAgents } from './agents.ts';
import { type OpenRelayOptions, openRelay } from './relay.ts';

const agent = new AgentDouble();
const agents = createAgents({});
beforeAll(() => agent.start());
afterAll(async () => {
  agents.close();
  await agent.close();
});

type Client = OpenRelayOptions['client'];

/** Opens a relay to the agent. Returns it, its gRPC stream, and what the agent has of it. */
async function open(sessionId: string) {
  const { client, release } = agents.acquire(agent.address);
  let call: ReturnType<Client['relay']> | undefined;
  const relay = await openRelay({
    client: {
      relay: (...args: Parameters<Client['relay']>) => {
        call = client.relay(...args);
        return call;
      },
    } as Client,
    open: { sessionId, incarnation: 'agent-1', ticket: Buffer.from('ticket'), requestId: '' },
    timeoutMs: 10_000,
    signal: new AbortController().signal,
    over: release,
  });
  return { relay, call: call as ReturnType<Client['relay']>, double: agent.relayOf(sessionId) };
}

const PIECE = Buffer.alloc(1_920);

it('what is sent once it was closed is left out, and the close comes', async () => {
  const { relay, call, double } = await open('closed');
  relay.send(1n, PIECE, () => {});
  relay.close('timed_out');
  relay.send(2n, PIECE, () => {});
  await expect.poll(() => double.over, { timeout: 5_000 }).toBe(true);
  expect(double.closed).toBe(EndReason.END_REASON_TIMED_OUT);
  expect(double.received).toHaveLength(1);
  expect(call.errored).toBeNull();
});

it.each([
  ['before it was closed', false],
  ['while the close is on its way', true],
])('an error of this end ends it at the agent, too: %s', async (name, isClosed) => {
  const { relay, call, double } = await open(name.replaceAll(' ', '-'));
  const broken: string[] = [];
  relay.listen({
    media() {},
    unreadable() {},
    ending() {},
    ended() {},
    broken({ message }) {
      broken.push(message);
      // As a stream does when it learns of it.
      relay.close('render_failed');
    },
  });
  if (isClosed) relay.close('timed_out');
  call.destroy(new Error('a write failed'));
  await expect.poll(() => double.over, { timeout: 5_000 }).toBe(true);
  expect(broken).toEqual(isClosed ? [] : ['a write failed']);
  await delay(20);
  expect(broken.length, 'heard once').toBeLessThan(2);
});
