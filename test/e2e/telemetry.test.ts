import { readdirSync, readFileSync } from 'node:fs';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { apiOf } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { ADMIRAL, ASTRONAUT, faceless } from '@semblance/testkit/stack/media';
import { type Span, startReceiver } from '@semblance/testkit/stack/otlp-receiver';
import { type Stack, stackAt } from '@semblance/testkit/stack/stack';
import { root, type StackProcess, startStackProcess } from '@semblance/testkit/stack/stack-process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

/*
 * These tests have their own stack: it sends its traces to this test, logs at every level, and one of its services
 * is killed.
 */

let running: StackProcess;
let stack: Stack;
let receiver: Awaited<ReturnType<typeof startReceiver>>;
let spans: Span[];

/** Values that went through the stack and must never be logged. */
const secrets = new Map<string, string>();

beforeAll(async () => {
  receiver = await startReceiver();
  spans = receiver.spans;
  running = await startStackProcess({
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.origin, SEMBLANCE_LOG_LEVEL: 'trace' },
  });
  stack = stackAt(running.file);
}, 240_000);

afterAll(async () => {
  await running?.close();
  await receiver?.close();
}, 200_000);

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const CALLER = '00f067aa0ba902b7';
const STATE = 'congo=t61rcWkgMzE,rojo=1';

test('one trace leads from the request over gateway, control plane, operator and agent to the webhook', async () => {
  const { api } = await stack.newAccount();
  const [image_key, face_key] = await Promise.all([api.upload(ASTRONAUT), api.upload(ADMIRAL)]);
  const { id } = await api.swap(
    { image_key, face_key, callback_url: `${receiver.origin}/ok` },
    { traceparent: `00-${TRACE}-${CALLER}-01`, tracestate: STATE },
  );
  expect((await api.finished(id)).status).toBe('succeeded');
  const ours = () => spans.filter(({ traceId }) => traceId === TRACE);
  await eventually(
    'the last span',
    () =>
      ['webhook', 'settle', 'attempt'].every((name) => ours().some((span) => span.name === name)) ||
      undefined,
  );
  // Each service sends its spans at its own time; all have arrived when every span has its parent.
  const found = await eventually('all of them', () => {
    const ids = new Set([CALLER, ...ours().map(({ spanId }) => spanId)]);
    const whole = ours().length >= 13 && ours().every(({ parentSpanId = '' }) => ids.has(parentSpanId));
    return whole ? ours() : undefined;
  });

  const one = (name: string) => {
    const named = found.filter((span) => span.name === name);
    expect(named, name).toHaveLength(1);
    return named[0] as Span;
  };
  /** Returns service and name of a span and of all its ancestors. */
  const path = (span: Span): string[] => {
    const above = found.find(({ spanId }) => spanId === span.parentSpanId);
    if (!above) expect(span.parentSpanId).toBe(CALLER);
    return [...(above ? path(above) : []), `${span.service.replace('semblance-', '')}: ${span.name}`];
  };
  const submit = [
    'gateway: POST /api/v1/face-swap-image',
    'gateway: call semblance.control.v1.ControlService/SubmitJob',
    'control-plane: semblance.control.v1.ControlService/SubmitJob',
  ];
  const made = [...submit, 'control-plane: create RenderJob'];
  const started = [
    ...made,
    'operator: start attempt',
    'operator: call semblance.agent.v1.AgentService/StartAttempt',
    'gpu-agent: semblance.agent.v1.AgentService/StartAttempt',
    'gpu-agent: attempt',
  ];
  for (const step of ['fetch', 'render', 'store'])
    expect(path(one(step))).toEqual([...started, `gpu-agent: ${step}`]);
  expect(path(one('settle'))).toEqual([...made, 'control-plane: settle']);
  expect(path(one('webhook'))).toEqual([...submit, 'control-plane: webhook']);
  expect(one('webhook').attributes).toMatchObject({
    'semblance.job_id': id,
    'http.response.status_code': expect.toSatisfy((code) => Number(code) === 204),
  });
  expect(one('POST /api/v1/face-swap-image').attributes).toMatchObject({
    'http.route': '/api/v1/face-swap-image',
    'http.response.status_code': expect.toSatisfy((code) => Number(code) === 200),
  });
  for (const span of found) expect(span.traceState, `tracestate of ${span.name}`).toBe(STATE);
  const job = await stack.kubectl(['get', 'renderjob', id, '-o', 'json']);
  const { annotations } = JSON.parse(String(job)).metadata;
  expect(annotations['semblance.dev/traceparent']).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`));
  expect(annotations['semblance.dev/tracestate']).toBe(STATE);
});

test('a caller that wants no trace has none, and a malformed traceparent begins a new one', async () => {
  const { api } = await stack.newAccount();
  const unwanted = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa';
  await api.get('/balance', { traceparent: `00-${unwanted}-${CALLER}-00` });
  const requestId = 'malformed-traceparent';
  await api.get('/balance', { traceparent: `00-${'0'.repeat(32)}-${CALLER}-01`, 'request-id': requestId });
  const begun = await eventually('its span', () =>
    spans.find(({ attributes }) => attributes['semblance.request_id'] === requestId),
  );
  expect(begun.parentSpanId ?? '').toBe('');
  expect(spans.filter(({ traceId }) => traceId === unwanted)).toEqual([]);
});

describe('nothing secret is written down', () => {
  const note = (name: string, secret: unknown) => {
    expect(String(secret).length, name).toBeGreaterThan(7);
    secrets.set(name, String(secret));
  };
  const noteLink = (name: string, link: string | null) => {
    const url = new URL(link ?? '');
    note(name, url.searchParams.get('signature') ?? url.searchParams.get('X-Amz-Signature'));
  };

  test('whatever is done', async () => {
    const file = stack.read();
    const own = JSON.parse(readFileSync(join(running.stateDir, 'secrets.json'), 'utf8'));
    for (const [name, secret] of Object.entries(own)) note(name, secret);
    note('admin token', file.admin_token);
    note('key of the stack', file.api_key);
    note('password of the database', new URL(file.postgres_url).password);
    note('password of NATS', new URL(file.nats_url).password);

    const { accountId, apiKey, api } = await stack.newAccount();
    note('key', apiKey);
    note('second key', (await stack.admin('key', 'create', { account: accountId })).api_key);
    note('secret', (await stack.admin('secret', 'show', { account: accountId })).secret);
    note('next secret', (await stack.admin('secret', 'rotate', { account: accountId })).next);
    await stack.admin('account', 'show', { account: 'acct-none' }).catch(() => {});

    const uploaded = await api.multipart([{ name: 'file', filename: 'a.png', body: ASTRONAUT.bytes }]);
    const { file_key: image_key, url } = uploaded.body as { file_key: string; url: string };
    noteLink('link of the upload', url);
    const face_key = await api.upload(ADMIRAL);
    const blank_key = await api.upload(await faceless());
    const closed = await closedPort();
    for (const [name, callback] of [
      ['token of a callback', `${receiver.origin}/hooks`],
      ['token of a failing callback', `${receiver.origin}/fails`],
      ['token of a dead callback', `http://127.0.0.1:${closed}/dead`],
      ['token of an unknown callback', 'http://no-such-host.invalid/x'],
    ] as const) {
      const token = `callback-token-${name.replaceAll(' ', '-')}`;
      note(name, token);
      const { id } = await api.swap({ image_key, face_key, callback_url: `${callback}?token=${token}` });
      noteLink(`output of ${name}`, (await api.finished(id)).output_url);
    }
    note('token of a forbidden callback', 'callback-token-forbidden');
    const callback_url = 'http://10.255.255.1/internal?token=callback-token-forbidden';
    const refused = await api.post('/face-swap-image', { image_key, face_key, callback_url });
    expect(refused.status).toBe(400);
    const hopeless = await api.swap({ image_key: blank_key, face_key });
    expect((await api.finished(hopeless.id)).status).toBe('failed');
    await eventually('the tries of callbacks', async () => {
      const list = (await stack.admin('delivery', 'list', { account: accountId })) as unknown as {
        attempts: unknown[];
      }[];
      return (list.length === 4 && list.every(({ attempts }) => attempts.length > 0)) || undefined;
    });

    // The next calls cause refusals of every kind.
    const stranger = 'sk_live_of-a-stranger-who-guesses';
    note('guessed key', stranger);
    await apiOf({ baseUrl: file.base_url, apiKey: stranger }).get('/balance');
    await api.request('POST', '/face-swap-image', {
      headers: { 'content-type': 'application/json' },
      body: '{"image_key": "password-in-broken-json',
    });
    note('body that is no JSON', 'password-in-broken-json');
    await api.multipart([{ name: 'file', filename: 'x.exe', body: Buffer.from('MZ') }]);
    const forged = new URL(url);
    forged.searchParams.set('signature', 'forged-signature-of-a-link');
    note('forged signature', 'forged-signature-of-a-link');
    await fetch(forged);
    await api.get(`/jobs/${encodeURIComponent('job-<secret-in-path>')}`);
    note('path', 'secret-in-path');
    await api.get('/balance?token=secret-in-query');
    note('query', 'secret-in-query');
    await api.request('DELETE', `/uploads/${face_key}`);

    // The callers of a service that dies log errors.
    const victim = stack.read().services['control-plane'] ?? 0;
    process.kill(victim, 'SIGSTOP');
    expect((await api.get('/balance')).status).toBe(502);
    process.kill(victim, 'SIGKILL');
    await eventually(
      'the next control plane',
      async () => (await api.get('/balance')).status === 200 || undefined,
      {
        withinMs: 100_000,
      },
    );
  }, 400_000);

  test('is in no log', () => {
    const folder = join(running.stateDir, 'logs');
    const logs = readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')] as const);
    const ours = ['control-plane', 'operator', 'gateway', 'gpu-agent'];
    for (const service of ours) {
      const log = logs.find(([name]) => name === `${service}.log`)?.[1] ?? '';
      expect(log.split('\n').length, service).toBeGreaterThan(3);
    }
    for (const [name, log] of [...logs, ['start.output', running.output()] as const]) {
      for (const [what, secret] of secrets)
        for (const written of new Set([secret, encodeURIComponent(secret)]))
          expect(log.includes(written) ? `${what} is in ${name}: ${around(log, written)}` : '').toBe('');
    }
    for (const [name, log] of logs.filter(([name]) => ours.some((service) => name.startsWith(service)))) {
      const marks =
        /signature=|X-Amz-Signature|Bearer [A-Za-z0-9]|[?&]token=|sk_live_|whsec_|postgres:\/\/[^ "]*:[^ "]*@/;
      expect(marks.exec(log) ? `${name}: ${around(log, marks.exec(log)?.[0] ?? '')}` : '').toBe('');
    }
  });

  test('is in no span', () => {
    const written = JSON.stringify(spans);
    for (const [what, secret] of secrets) expect(written.includes(secret) ? what : '').toBe('');
  });

  test('is in no command line', () => {
    const lines = readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map((pid) => {
        try {
          return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        } catch {
          return '';
        }
      });
    for (const [what, secret] of secrets)
      expect(
        lines.filter((line) => line.includes(secret)),
        what,
      ).toEqual([]);
  });
});

describe('metrics', () => {
  const SERVICES = ['gateway', 'control-plane', 'operator', 'gpu-agent'] as const;
  const documented = tableOf(readFileSync(join(root, 'docs/reference/metrics.md'), 'utf8'));
  const scrape = async (service: string) => {
    const ports = JSON.parse(readFileSync(join(running.stateDir, 'ports.json'), 'utf8'));
    const response = await fetch(`http://127.0.0.1:${ports[`${service}-health`]}/metrics`);
    expect(response.status).toBe(200);
    return response.text();
  };
  const namesIn = (text: string) => [...text.matchAll(/^# TYPE (\S+) /gm)].map((match) => match[1] as string);

  test.each(SERVICES)(
    'docs/reference/metrics.md lists what the %s has, and nothing it has not',
    async (service) => {
      const names = namesIn(await scrape(service));
      const listed = documented.filter((row) => row.services.includes(service)).map(({ name }) => name);
      expect(listed.length).toBeGreaterThan(5);
      expect(listed.filter((name) => !names.includes(name))).toEqual([]);
      expect(names.filter((name) => name.startsWith('semblance_') && !listed.includes(name))).toEqual([]);
    },
  );

  test('money is counted', async () => {
    const value = (text: string, name: string) => {
      const lines = [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))];
      expect(lines.length, name).toBeGreaterThan(0);
      return lines.reduce((sum, line) => sum + Number(line[1]), 0);
    };
    // These figures are those of the restarted control plane, so one job at most may have ended before it.
    await eventually('the books of all accounts', async () => {
      const lines = await scrape('control-plane');
      expect(value(lines, 'semblance_money_held_micros')).toBe(0);
      expect(value(lines, 'semblance_outbox_owed')).toBe(0);
      return /^semblance_ledger_faults(\{[^}]*\})? 0$/m.test(lines) || undefined;
    });
    const { api } = await stack.newAccount();
    const [image_key, face_key] = await Promise.all([api.upload(ASTRONAUT), api.upload(ADMIRAL)]);
    await api.finished((await api.swap({ image_key, face_key })).id);
    // The books contain a charge before its figure is counted.
    await eventually('the figures of that job', async () => {
      const after = await scrape('control-plane');
      const told = after.split('\n').filter((line) => line.startsWith('semblance_money_'));
      for (const [name, micros] of [
        ['holds', 60_000],
        ['captured', 40_000],
        ['released', 20_000],
        ['revenue', 40_000],
        ['shortfall', 0],
      ] as const)
        expect(told).toContainEqual(
          expect.stringMatching(
            new RegExp(`^semblance_money_${name}_micros_total(\\{[^}]*\\})? ${micros}$`, 'm'),
          ),
        );
      return true;
    });
  });
});

/** Parses rows of the form `| \`name\` | service, service | … |`. */
function tableOf(markdown: string): { name: string; services: string[] }[] {
  return [...markdown.matchAll(/^\| `(\w+)` \| ([\w, -]+) \|/gm)].map(([, name = '', services = '']) => ({
    name,
    services: services.split(',').map((service) => service.trim()),
  }));
}

function around(log: string, text: string): string {
  const at = log.indexOf(text);
  return log.slice(Math.max(0, at - 300), at + text.length + 100);
}

async function closedPort(): Promise<number> {
  const server = createTcpServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
