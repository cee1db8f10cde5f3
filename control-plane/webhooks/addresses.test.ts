import { expect, test } from 'vitest';
import { createAddressGuard, isRange } from './addresses.ts';

const allowed = (address: string, ranges: string[] = []) => {
  try {
    createAddressGuard(ranges).check(address);
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

test('what is no range is told', () => {
  expect(['10.0.0.0/8', '::/0', '1.2.3.4/32'].map(isRange)).toEqual([true, true, true]);
  expect(['10.0.0.0', '10.0.0.0/33', '::/129', 'a/8', '10.0.0.0/-1', ''].map(isRange)).toEqual(
    Array(6).fill(false),
  );
  expect(() => createAddressGuard(['10.0.0.0/33'])).toThrow(RangeError);
});
