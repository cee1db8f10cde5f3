/** @module-tag browser */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { TEST_KEY } from '@semblance/testkit/gateway/control-double';
import { pageRig } from '@semblance/testkit/gateway/try-page/page-rig';
import type { Page } from 'playwright-core';
import { beforeEach, describe, expect, it } from 'vitest';

/** All endings of a session. */
const tried = pageRig();
const { rig, status, isOpen, opened, choosePictures, startStreaming, expectOver } = tried;
let page: Page;
beforeEach(() => {
  page = tried.page();
});

describe('everything is given back', () => {
  it.each(['voice', 'full-live-swap'])('%s: on Stop', async (what) => {
    if (what !== 'voice') await choosePictures();
    await startStreaming();
    expect(await isOpen()).toContain(what === 'voice' ? 'audio' : 'video');
    await page.click('#stop');
    await expectOver(/^The session has ended \(stopped\)/, 'idle');
  });

  it('when the means to play are missing', async () => {
    await page.evaluate(
      `AudioWorklet.prototype.addModule = () => Promise.reject(new Error('no such script'));`,
    );
    await page.click('#start');
    await expectOver('The session has ended (no such script).', 'failed');
    expect(opened()).toBe(1);
  });

  it('when Stop comes before the device was given', async () => {
    await page.evaluate('void (held.device = new Promise((resolve) => { held.give = resolve; }))');
    await page.click('#start');
    await expect.poll(status).toMatch(/^Asking for the microphone/);
    await page.click('#stop');
    await expectOver('Stopped before a session was opened.', 'idle');
    await page.evaluate('held.give()');
    await expect
      .poll(() => page.evaluate('held.tracks.map(({ readyState }) => readyState)'))
      .toEqual(['ended']);
    expect(opened()).toBe(0);
  });

  it('when Stop comes while the session opens, which is closed too', async () => {
    let answer = () => {};
    const asked = new Promise<void>((resolve) => {
      answer = resolve;
    });
    rig.gateway.control.pauses.set('openSession', asked);
    await page.click('#start');
    await expect.poll(status).toMatch(/^Opening a session/);
    await page.click('#stop');
    expect(await isOpen()).toEqual([]);
    expect(await page.isEnabled('#start')).toBe(false);
    answer();
    await expectOver(/^The session has ended \(stopped\)/, 'idle');
    const [id] = [...rig.live.sessions.keys()];
    expect((await rig.final(String(id))).streamedMs).toBe(0);
  });

  it.each([
    ['voice', 'microphone'],
    ['full-live-swap', 'camera'],
  ])('%s: when the %s is unplugged', async (what, device) => {
    if (what !== 'voice') await choosePictures();
    await startStreaming();
    await page.evaluate(`held.tracks[0].dispatchEvent(new Event('ended'))`);
    await expectOver(
      `The session has ended (the ${device} is gone: it was unplugged or taken away).`,
      'failed',
    );
  });

  it('when the service ends the session, with its reason', async () => {
    await startStreaming();
    rig.agent.relays.at(-1)?.break();
    await expectOver(/^The session has ended \(1011, render_failed/, 'failed');
  });

  it('when it has streamed for as long as was granted, which is no failure', async () => {
    rig.live.grant = { ...rig.live.grant, maxDurationSeconds: 1 };
    await startStreaming();
    await expectOver(/^The session has ended \(4001, session_limit_reached/, 'idle');
  });

  it('when the line is cut, and when the socket cannot be opened', async () => {
    const line = await cuttableLine(rig.gateway.port);
    await page.goto(`http://127.0.0.1:${line.port}/api/v1/try#key=${TEST_KEY}`);
    // Sessions are still opened when the line is cut; their sockets are not.
    await page.route('**/session', async (route) => {
      const url = route
        .request()
        .url()
        .replace(/^http:..[^/]+/, rig.gateway.origin);
      await route.fulfill({ response: await route.fetch({ url }) });
    });
    await startStreaming();
    line.cut();
    await expectOver('The session has ended (the line was lost).', 'failed');
    await page.click('#start');
    await expect.poll(status).toBe('The session has ended (its socket could not be opened).');
    await expectOver(/could not be opened/, 'failed');
  });

  it('when the service answers something else than it should, in words', async () => {
    await page.route('**/voice/session', (route) =>
      route.fulfill({ status: 502, body: '<html>Bad gateway</html>' }),
    );
    await page.click('#start');
    await expectOver('What answered (502) is not the service.', 'failed');
    await page.unroute('**/voice/session');
    await page.route('**/voice/session', (route) => route.abort());
    await page.click('#start');
    await expectOver(/^The service cannot be reached/, 'failed');
  });

  it('and why it ended stays to be read when the charge cannot be', async () => {
    await startStreaming();
    await page.unroute('**/usage?*');
    await page.route('**/usage?*', (route) => route.abort());
    await page.click('#stop');
    await expectOver(/^The session has ended \(stopped\)/, 'idle');
    expect(await page.textContent('#charged')).toMatch(/^The service cannot be reached/);
  });
});

/** A connection to the gateway that can be cut once. */
async function cuttableLine(port: number) {
  const ends = new Set<Socket>();
  const server = createServer((from) => {
    const to = connect(port, '127.0.0.1');
    for (const end of [from, to]) end.on('error', () => {}).on('close', () => from.destroy());
    from.on('close', () => to.destroy());
    ends.add(from);
    from.pipe(to).pipe(from);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    cut() {
      server.close();
      for (const end of ends) end.resetAndDestroy();
    },
  };
}
