import { RCODES, startNameServer, type Zone } from '@semblance/testkit/control-plane/name-server';
import { afterEach, expect, test } from 'vitest';
import { createAddressGuard } from './addresses.ts';
import { createCallbackHosts } from './callback-hosts.ts';
import { resolve } from './sender.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const PUBLIC = { a: ['93.184.216.34'] };
const FAULT = 'has a host without a public address';

async function hosts(zone: Zone, allow: readonly string[] = [], more: { lookupMs?: number } = {}) {
  const dns = await startNameServer(zone);
  closing.push(dns.close);
  let nowMs = 0;
  const made = createCallbackHosts({
    guard: createAddressGuard({ allow, deny: ['198.51.100.0/24', '93.184.220.0/24'] }),
    allowsPrivate: allow.length > 0,
    lookup: (name, signal) => resolve(name, signal, dns.servers),
    lookupMs: 20_000,
    now: () => nowMs,
    ...more,
  });
  return {
    ...made,
    questions: dns.questions,
    fault: (host: string, account = 'acct-1') => made.resolvedFaultOf(`https://${host}/hook`, account),
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}

test.each([
  ['a private address', { a: ['10.0.0.1'] }],
  ['several', { a: ['10.0.0.1', '127.0.0.1'], aaaa: ['fd00:0:0:0:0:0:0:1'] }],
  ['cloud metadata', { a: ['169.254.169.254'] }],
  ['a denied range', { a: ['93.184.220.1'] }],
])('a host that resolves only to %s is refused', async (_, records) => {
  const { fault } = await hosts(() => records);
  expect(await fault('hook.example.com')).toBe(FAULT);
});

test.each([
  ['a public address', PUBLIC],
  ['one among others', { a: ['10.0.0.1', '93.184.216.34'] }],
  ['nothing', {}],
  ['no such name', { rcode: RCODES.unknown }],
  ['a failure of the resolver', { rcode: RCODES.failed }],
])('a host that resolves to %s is not refused', async (_, records) => {
  const { fault } = await hosts(() => records);
  expect(await fault('hook.example.com')).toBeUndefined();
});

test('a name server that is silent is waited for until the limit, once, by all who ask', async () => {
  const { fault, questions } = await hosts(() => undefined, [], { lookupMs: 200 });
  expect(await Promise.all(Array.from({ length: 20 }, () => fault('slow.example.com')))).toEqual(
    Array(20).fill(undefined),
  );
  expect(questions).toEqual(['A slow.example.com']);
  expect(await fault('slow.example.com')).toBeUndefined();
  expect(questions).toHaveLength(1);
});

test.each([
  ...[
    '10.0.0.1',
    '127.0.0.1',
    '[::1]',
    '[::ffff:10.0.0.1]',
    '2130706433',
    '0x7f.1',
    '169.254.169.254',
    '93.184.220.7',
  ],
])('the address %s is refused by its text', async (host) => {
  const { faultOf, questions } = await hosts(() => PUBLIC);
  expect(faultOf(`http://${host}/`)).toBe(FAULT);
  expect(questions).toEqual([]);
});

test('a public address is not refused', async () => {
  const { faultOf } = await hosts(() => PUBLIC);
  expect(faultOf('http://93.184.216.34:8443/')).toBeUndefined();
});

test.each([
  ...[
    'localhost',
    'a.localhost',
    'postgres',
    'a.default.svc',
    'a.default.svc.cluster.local',
    'a.internal',
    'a.local.',
  ],
])(
  '%s, a name of this network alone, has the same answer whether it exists or not, and is not asked for',
  async (host) => {
    const { fault, questions } = await hosts(() => PUBLIC);
    expect(await fault(host)).toBe(FAULT);
    expect(questions).toEqual([]);
  },
);

test('where the owner allows ranges, such a name is left to the sender, unasked', async () => {
  const { fault, questions } = await hosts(() => ({ a: ['10.0.0.1'] }), ['10.0.0.0/8']);
  expect(await Promise.all(['localhost', 'a.default.svc', 'a.internal'].map((host) => fault(host)))).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect(questions).toEqual([]);
  expect(await fault('inside.example.com')).toBeUndefined();
});

test('an account learns of few names; others, and names that are known, are not held back with it', async () => {
  const { fault, questions, pass } = await hosts(() => ({ a: ['10.0.0.1'] }));
  const tried = await Promise.all(Array.from({ length: 50 }, (_, i) => fault(`host-${i}.example.com`)));
  expect(tried.filter((answer) => answer === FAULT)).toHaveLength(10);
  expect(questions).toHaveLength(10);
  expect(await fault('host-49.example.com')).toBeUndefined();
  expect(await fault('host-0.example.com')).toBe(FAULT);
  expect(await fault('host-49.example.com', 'acct-2')).toBe(FAULT);
  pass(60_000);
  expect([await fault('host-47.example.com'), await fault('host-48.example.com')]).toEqual([
    FAULT,
    undefined,
  ]);
});

test('lookups under way are few, however many accounts ask', async () => {
  const { fault, questions } = await hosts(() => undefined, [], { lookupMs: 1_500 });
  await Promise.all(Array.from({ length: 200 }, (_, i) => fault(`host-${i}.example.com`, `acct-${i}`)));
  expect(new Set(questions).size).toBe(64);
});
