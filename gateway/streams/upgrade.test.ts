import { connect } from 'node:net';
import { ApiError } from '@semblance/common/errors';
import { EndReason } from '@semblance/proto/semblance/live/v1/live';
import { StreamClient, upgradeHead } from '@semblance/testkit/gateway/stream-rig';
import { parseRaw, sendRaw } from '@semblance/testkit/gateway/test-gateway';
import { tokenRig } from '@semblance/testkit/gateway/token-rig';
import { describe, expect, it } from 'vitest';

const rig = tokenRig();

describe('before the upgrade', () => {
  async function refused(url: string, headers: string[] = []) {
    const {
      status,
      body,
      headers: got,
    } = parseRaw(await sendRaw(rig.gateway.port, upgradeHead(url, headers)));
    const { error } = JSON.parse(body) as { error: { code: string; message: string } };
    expect(error.message).toMatch(/\w/);
    expect(got['x-content-type-options']).toBe('nosniff');
    expect(got['request-id']).toMatch(/\w/);
    return [status, error.code];
  }
  const connects = () => rig.gateway.control.count('connectSession');

  it('a wrong or missing token, or a session that there is not, is `unauthorized` (401)', async () => {
    const session = await rig.open();
    const url = rig.urlOf(session);
    const before = connects();
    for (const bad of [
      url.replace(/session_token=.*/, 'session_token=wrong'),
      url.replace(session.session_id, 'ses-01k9x3v7m2q8r5t1w4y6z0abcd'),
    ])
      expect(await refused(bad), bad).toEqual([401, 'unauthorized']);
    expect(connects()).toBe(before + 2);
  });

  it('what can be no session or token is refused without a question to the control plane', async () => {
    const url = rig.urlOf(await rig.open());
    const before = connects();
    for (const bad of [
      url.replace(/\?.*/, ''),
      url.replace(/session_token=.*/, 'session_token='),
      url.replace('session_token', 'token'),
      `${url}&session_token=again`,
      `${url}${'x'.repeat(600)}`,
      url.replace('/streams/', '/streams/A%20'),
      url.replace(/streams\/[^?]*/, 'streams/'),
    ])
      expect(await refused(bad), bad).toEqual([401, 'unauthorized']);
    expect(connects()).toBe(before);
  });

  it('one that has ended, or has its connection, is `not_found` (404)', async () => {
    const { session, client } = await rig.stream();
    expect(await refused(rig.urlOf(session))).toEqual([404, 'not_found']);
    client.ws.close();
    await rig.final(session.session_id);
    expect(await refused(rig.urlOf(session))).toEqual([404, 'not_found']);
  });

  it('a request that is no upgrade, or none of a WebSocket, is `invalid_input` (400)', async () => {
    const url = rig.urlOf(await rig.open());
    const before = connects();
    const response = await fetch(url.replace('ws:', 'http:'));
    expect([response.status, (await response.json()) as object]).toMatchObject([
      400,
      { error: { code: 'invalid_input' } },
    ]);
    const head = upgradeHead(url);
    for (const broken of [
      head.replace('Upgrade: websocket', 'Upgrade: h2c'),
      head.replace(/Sec-WebSocket-Key.*\r\n/, ''),
      head.replace('dGhlIHNhbXBsZSBub25jZQ==', 'short'),
      upgradeHead(url, ['Sec-WebSocket-Protocol: x, x']),
      upgradeHead(url, ['Sec-WebSocket-Protocol: x', 'Sec-WebSocket-Protocol: x']),
      upgradeHead(url, ['Sec-WebSocket-Protocol: ']),
      upgradeHead(url, ['Sec-WebSocket-Protocol: ,x']),
      upgradeHead(url, ['Sec-WebSocket-Protocol: x y']),
    ]) {
      const { status, body } = parseRaw(await sendRaw(rig.gateway.port, broken));
      expect([status, JSON.parse(body)], broken).toMatchObject([400, { error: { code: 'invalid_input' } }]);
    }
    for (const version of ['12', '8', '14', '']) {
      const other = head.replace('Version: 13', `Version: ${version}`);
      const { status, headers } = parseRaw(await sendRaw(rig.gateway.port, other));
      expect([status, headers['sec-websocket-version']], 'is told which one is spoken').toEqual([400, '13']);
    }
    expect(connects(), 'and the session is not used up').toBe(before);
    // No extension is offered, so none is refused.
    const client = await new StreamClient(url, {
      headers: { 'sec-websocket-extensions': 'no;;such' },
      perMessageDeflate: false,
    }).ready();
    client.ws.close();
  });

  it('only GET is taken, and an upgrade to anything else elsewhere is an ordinary request', async () => {
    const url = rig.urlOf(await rig.open());
    const post = upgradeHead(url).replace('GET ', 'POST ');
    expect(parseRaw(await sendRaw(rig.gateway.port, post)).status).toBe(404);
    const other = upgradeHead(`${rig.gateway.origin}/api/v1/pricing`);
    expect(parseRaw(await sendRaw(rig.gateway.port, other)).status).toBe(200);
  });

  it('an agent that is not there is 502, and the session is reported as ended', async () => {
    rig.live.grant = { ...rig.live.grant, agentAddress: '127.0.0.1:1' };
    const session = await rig.open();
    expect(await refused(rig.urlOf(session))).toEqual([502, 'internal_error']);
    expect(await rig.final(session.session_id)).toEqual({ streamedMs: 0, reason: 'render_failed' });
  });

  it.each([
    ['ended by the agent', EndReason.END_REASON_CANCELLED, 404, 'not_found', 'cancelled'],
    ['its engine failed', EndReason.END_REASON_RENDER_FAILED, 502, 'internal_error', 'render_failed'],
  ])('a session that is over before it was ready: %s', async (_name, reason, status, code, reported) => {
    rig.agent.onOpen = (relay) => {
      relay.ended(reason, 'It is over.');
      return true;
    };
    const session = await rig.open();
    expect(await refused(rig.urlOf(session))).toEqual([status, code]);
    expect(await rig.final(session.session_id)).toEqual({ streamedMs: 0, reason: reported });
  });

  it('one that a content check rejected is `invalid_input` (400), with the reason', async () => {
    rig.agent.onOpen = (relay) => {
      relay.ended(EndReason.END_REASON_UNSPECIFIED, 'It is over.', false, 'Not of this person.');
      return true;
    };
    const session = await rig.open();
    const { status, body } = parseRaw(await sendRaw(rig.gateway.port, upgradeHead(rig.urlOf(session))));
    expect([status, JSON.parse(body)]).toEqual([
      400,
      {
        error: {
          code: 'invalid_input',
          message: 'A content check rejected what the session was opened with: Not of this person.',
        },
      },
    ]);
    expect(await rig.final(session.session_id)).toEqual({ streamedMs: 0, reason: undefined });
  });

  it('a control plane that fails is `internal_error` (502)', async () => {
    rig.gateway.control.failures.set('connectSession', new Error('broken'));
    expect(await refused(rig.urlOf(await rig.open()))).toEqual([502, 'internal_error']);
    rig.gateway.control.failures.set('connectSession', new ApiError('at_capacity', 'Later.'));
    expect(await refused(rig.urlOf(await rig.open()))).toEqual([429, 'at_capacity']);
  });

  it('a client that goes away meanwhile leaves nothing', async () => {
    rig.agent.onOpen = () => true;
    const session = await rig.open();
    const socket = connect(rig.gateway.port, '127.0.0.1');
    socket.write(upgradeHead(rig.urlOf(session)));
    await expect.poll(() => rig.agent.relays.at(-1)?.open.sessionId).toBe(session.session_id);
    socket.resetAndDestroy();
    expect(await rig.final(session.session_id)).toEqual({ streamedMs: 0, reason: undefined });
    await expect.poll(() => rig.agent.relayOf(session.session_id).over).toBe(true);
  });

  it('shows the agent the ticket, and nobody the token or the ticket', async () => {
    const { session, client, relay } = await rig.stream();
    expect(relay.open.ticket.toString()).toBe(`ticket of ${session.session_id}`);
    expect(relay.open.incarnation).toBe('agent-1');
    client.ws.close();
    await client.end();
    const logged = rig.gateway.logLines.join('');
    expect(logged).toContain('/streams/{session_id}');
    expect(logged).not.toContain(session.session_token);
    expect(logged).not.toContain('session_token');
    const metrics = await rig.gateway.registry.metrics();
    expect(metrics).toContain('route="/streams/{session_id}",status="101"');
    expect(metrics).not.toContain(session.session_id);
    expect(metrics).not.toContain(session.session_token);
  });
});
