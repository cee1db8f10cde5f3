import { expect, test } from 'vitest';
import { createAddressGuard, isRange } from './addresses.ts';

const allowed = (address: string, allow: string[] = [], deny: string[] = []) => {
  try {
    createAddressGuard({ allow, deny }).check(address);
    return true;
  } catch (error) {
    expect(error).toMatchObject({ code: 'forbidden_address' });
    return false;
  }
};

test.each([
  '8.8.8.8',
  '1.1.1.1',
  '93.184.216.34',
  '172.15.0.1',
  '172.32.0.1',
  '2606:4700::1111',
  '::ffff:8.8.8.8',
])('%s is public', (address) => expect(allowed(address)).toBe(true));

test.each([
  // The ends of the ranges.
  ...['168.63.129.16', '192.31.196.0', '192.31.196.255', '192.52.193.1', '192.175.48.255', '2620:4f:8000::1'],
])('%s leads to a server near by', (address) => expect(allowed(address)).toBe(false));

test.each(['168.63.129.15', '168.63.129.17', '192.52.192.255', '2620:4f:8001::1'])(
  '%s beside those ranges is public',
  (address) => expect(allowed(address)).toBe(true),
);

test.each([
  ...['127.0.0.1', '127.255.255.254', '0.0.0.0', '10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1'],
  ...[
    '169.254.169.254',
    '100.64.0.1',
    '192.0.0.1',
    '198.18.0.1',
    '224.0.0.1',
    '239.1.1.1',
    '255.255.255.255',
    '240.0.0.1',
  ],
  ...[
    '::',
    '::1',
    'fe80::1',
    'fc00::1',
    'fd00:ec2::254',
    'ff02::1',
    '2001:db8::1',
    '2002:7f00:1::',
    '2001::1',
  ],
  // The same hosts in other forms: mapped, compatible, NAT64.
  ...[
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '0:0:0:0:0:ffff:a9fe:a9fe',
    '::127.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b:1::1',
  ],
  ...['::ffff:0:127.0.0.1', 'fe80::1%eth0', '', 'localhost', '2130706433', '0177.0.0.1'],
])('%s is not', (address) => expect(allowed(address)).toBe(false));

test('the owner allows ranges of their own network, mapped forms of them included, and nothing else', () => {
  const ranges = ['127.0.0.0/8', 'fd12::/16'];
  expect(['127.0.0.1', '::ffff:127.0.0.1', 'fd12::1'].map((address) => allowed(address, ranges))).toEqual([
    true,
    true,
    true,
  ]);
  expect(['10.0.0.1', '::1', 'fd13::1'].map((address) => allowed(address, ranges))).toEqual([
    false,
    false,
    false,
  ]);
});

test('a denied range is refused although it is public, and so is its mapped form', () => {
  const deny = ['93.184.216.0/24', '2606:4700::/32'];
  const refused = ['93.184.216.34', '::ffff:93.184.216.34', '2606:4700::1111'];
  expect(refused.map((address) => allowed(address, [], deny))).toEqual([false, false, false]);
  expect(['93.184.217.1', '2606:4701::1'].map((address) => allowed(address, [], deny))).toEqual([true, true]);
});

test('of an allowed and a denied range the narrower decides, and of equal ones the allowed', () => {
  const decided = (allow: string, deny: string) => allowed('10.42.7.9', ['127.0.0.0/8', allow], [deny]);
  expect(decided('10.0.0.0/8', '10.42.0.0/16')).toBe(false);
  expect(decided('10.42.7.9/32', '10.42.0.0/16')).toBe(true);
  expect(decided('10.42.0.0/16', '10.42.0.0/16')).toBe(true);
  expect(decided('10.0.0.0/8', '0.0.0.0/0')).toBe(true);
  expect(allowed('10.1.0.1', ['10.0.0.0/8', '10.42.0.0/16'], ['10.42.0.0/24'])).toBe(true);
});

test('what is no range is told', () => {
  expect(['10.0.0.0/8', '::/0', '1.2.3.4/32'].map(isRange)).toEqual([true, true, true]);
  expect(['10.0.0.0', '10.0.0.0/33', '::/129', 'a/8', '10.0.0.0/-1', ''].map(isRange)).toEqual(
    Array(6).fill(false),
  );
  for (const own of [{ allow: ['10.0.0.0/33'] }, { deny: ['10.0.0.0/33'] }])
    expect(() => createAddressGuard(own)).toThrow(RangeError);
});
